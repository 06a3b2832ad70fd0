// Profiles for the tests of export: a small one in which every field says something, and large ones from a seed.
#pragma once

#include <cstdint>

#include "model/profile.h"

namespace ptarmigan {

// Three processes' worth of everything: kernel and user frames, inlines, folded code, a location without mapping,
// a sample without frames, text and numeric labels, negative values, losses, quality, events.
Profile RichProfile();

struct RandomProfileShape {
  uint32_t samples = 1000;
  uint32_t locations = 300;
  uint32_t frames = 10;
  uint32_t processes = 5;
};
// Stacks grow like a call tree (most share their callers), names are as long as C++ names are.
Profile RandomProfile(const RandomProfileShape& shape, uint64_t seed);

}  // namespace ptarmigan
