// CodePlaces: locations of a profile as the views of branches and flow name them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/profile.h"
#include "query/branches.h"

namespace ptarmigan::internal {

class CodePlaces {
 public:
  explicit CodePlaces(const Profile& profile) : profile_(profile) {}

  CodePlace Of(uint32_t location_id) const {
    CodePlace place;
    if (location_id == BranchSummary::kNone) return place;
    const Profile::Location& location = profile_.locations[location_id];
    place.is_known = true;
    place.address = location.address;
    if (location.mapping != kNoId) {
      const Profile::Mapping& mapping = profile_.mappings[location.mapping];
      place.object = profile_.Text(mapping.file);
      place.build_id = profile_.Text(mapping.build_id);
    }
    const auto lines = profile_.Lines(location);
    if (!lines.empty() && lines.back().function != kNoId) {
      place.function = profile_.Text(profile_.functions[lines.back().function].name);
    }
    const auto& starts = profile_.summary.branches.function_starts;
    const auto start =
        std::ranges::lower_bound(starts, location_id, {}, &BranchSummary::FunctionStart::location);
    if (start != starts.end() && start->location == location_id &&
        start->address <= location.address) {
      place.offset = location.address - start->address;
    }
    return place;
  }

 private:
  const Profile& profile_;
};

}  // namespace ptarmigan::internal
