// CodePlaces: locations of a profile as the views of branches and flow name them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/profile.h"
#include "query/branches.h"

namespace ptarmigan::internal {

class CodePlaces {
 public:
  explicit CodePlaces(const Profile& profile) : profile_(profile) {
    if (profile.summary.branches.function_starts.empty()) return;
    function_starts_.assign(profile.locations.size(), kNoStart);
    for (const auto& [location, address] : profile.summary.branches.function_starts) {
      if (location < function_starts_.size()) function_starts_[location] = address;
    }
  }

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
    if (!function_starts_.empty() && function_starts_[location_id] <= location.address) {
      place.offset = location.address - function_starts_[location_id];
    }
    return place;
  }

 private:
  static constexpr uint64_t kNoStart = UINT64_MAX;

  const Profile& profile_;
  std::vector<uint64_t> function_starts_;  // by location; kNoStart where it is not known
};

}  // namespace ptarmigan::internal
