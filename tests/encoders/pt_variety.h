// Programs, runs and settings by a number: those of some dozen numbers together reach everything that the encoder can do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/encoders/pt_trace.h"

namespace ptarmigan {

PtProgramOptions PtProgramOfSeed(uint64_t seed);
PtWalkOptions PtWalkOfSeed(const PtProgramOptions& program);
PtTraceSettings PtSettingsOfSeed(uint64_t seed, const PtProgramOptions& program);

// Where two lists of addresses part, with some context; empty if they are equal.
std::string PtFirstDifference(const std::vector<uint64_t>& expected,
                              const std::vector<uint64_t>& decoded);

}  // namespace ptarmigan
