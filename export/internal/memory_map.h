// Memory maps behind legacy profiles: the lines of /proc/PID/maps or a shorter kind, and which mapping an address
// belongs to.
//
//   00400000-00fcb000 r-xp 00001000 08:01 1234   /usr/bin/app
//   00400000-00fcb000: /usr/bin/app (@1000) abc123
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/profile.h"

namespace ptarmigan::internal {

struct MappedRange {
  uint64_t start = 0;
  uint64_t limit = 0;
  uint64_t offset = 0;
  std::string file;
  std::string build_id;
};

// Executable mappings in the order of the text; lines of another kind are skipped. Halves of one mapping become
// one. What looks like the main program comes first. Ends after kMappingsMax.
constexpr size_t kMappingsMax = size_t{1} << 16;
std::vector<MappedRange> ParseMemoryMap(std::string_view text);

// Where the memory map begins in a legacy profile, behind its headline; npos if there is none.
size_t FindMemoryMap(std::string_view text);

// Gives every location with an address and without mapping one of `ranges`, and a mapping of everything where
// none fits; appends the mappings to the profile.
void AssignMappings(std::vector<MappedRange> ranges, Profile* profile);

}  // namespace ptarmigan::internal
