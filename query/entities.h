// EntityTable: the functions of a profile as reports name them. An entity is a function in an object; code
// without symbols is one entity per object. Every frame of every stack (inlined frames included) has one.
//
// Borrows the profile. Immutable after construction; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/profile.h"

namespace ptarmigan {

using EntityId = uint32_t;

struct Entity {
  std::string function;  // "[object]" where nothing is known
  std::string_view file;
  int64_t line = 0;  // where the function is declared; 0 not known
  std::string_view object;
  std::string_view build_id;
  bool is_kernel = false;
  bool is_symbolized = false;
};

class EntityTable {
 public:
  explicit EntityTable(const Profile& profile);

  const std::vector<Entity>& entities() const { return entities_; }
  // The entities of a location, innermost inline first; at least one.
  std::span<const EntityId> OfLocation(LocationId location) const {
    return std::span(of_locations_)
        .subspan(begin_[location], begin_[location + 1] - begin_[location]);
  }

 private:
  std::vector<Entity> entities_;
  std::vector<EntityId> of_locations_;
  std::vector<size_t> begin_;
};

// Whether a mapping's file name is that of kernel code ("[kernel.kallsyms]_text", "[nf_tables]", "….ko").
bool IsKernelObject(std::string_view mapping_file);

// Which samples a report counts: RE2 expressions over function names, empty to keep all.
struct SampleFilter {
  std::string focus;   // some frame matches
  std::string ignore;  // no frame matches
};

// A SampleFilter's expressions, looked up per location.
class LocationFilter {
 public:
  // kInvalidInput with RE2's sentence for a bad expression.
  static Result<LocationFilter> Make(const Profile& profile, const EntityTable& entities,
                                     const SampleFilter& filter);

  // Whether what consists of these locations (kNoId: not known) is to be shown.
  bool Keeps(std::span<const LocationId> locations) const;

 private:
  bool has_focus_ = false;
  // By location.
  std::vector<bool> is_focused_;
  std::vector<bool> is_ignored_;
};

// Per sample of the profile: kept or not. kInvalidInput with RE2's sentence for a bad expression.
Result<std::vector<bool>> SelectSamples(const Profile& profile, const EntityTable& entities,
                                        const SampleFilter& filter);

}  // namespace ptarmigan
