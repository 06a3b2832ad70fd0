// The frames of a stack as the picture formats want them: names, inlines unrolled, kernel or user.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/profile.h"

namespace ptarmigan::internal {

struct NamedFrame {
  LocationId location = kNoId;
  uint32_t line = 0;  // index into Profile::Lines(location); 0 if it has none
  StringId name = 0;  // into FrameNames::Text, which holds more than the profile does
  bool is_kernel = false;
  bool is_inlined = false;  // into the next frame towards the root
};

// Names of the frames of one profile. Borrows the profile.
class FrameNames {
 public:
  explicit FrameNames(const Profile& profile);

  // The frames of a location, innermost inline first; at least one. A location without a name gives
  // "[object]" after its mapping's file, or "[unknown]".
  const std::vector<NamedFrame>& Frames(LocationId id);
  std::string_view Text(StringId name) const { return names_.Get(name); }
  size_t size() const { return names_.size(); }

 private:
  const Profile& profile_;
  StringTable names_;
  std::vector<std::vector<NamedFrame>> frames_;  // by location; empty: not asked for yet
};

// Whether code at `address` in this mapping (kNoId allowed) runs in the kernel.
bool IsKernelCode(const Profile& profile, MappingId mapping, uint64_t address);
// "libc.so.6" of "/usr/lib/libc.so.6"; without " (deleted)".
std::string_view BaseName(std::string_view path);

}  // namespace ptarmigan::internal
