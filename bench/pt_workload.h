// What pt_bench decodes and pt_recording writes as perf.data, so that the two can be compared: one random program, and a run
// of four threads through it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/encoders/pt_trace.h"

namespace ptarmigan {

// Of a program that calls as often as compiled C++ does: every 30 instructions.
constexpr uint64_t kPtWorkloadSeed = 2;

inline PtProgramOptions PtWorkloadProgram(uint64_t seed) {
  return {.seed = seed, .mix = PtMix::kOrdinary, .functions = 200, .jit_slots = 0};
}

inline PtWalkOptions PtWorkloadWalk(uint64_t seed, size_t steps) {
  return {.seed = seed,
          .steps = steps,
          .threads = 4,
          .cpus = 2,
          .turn_steps = 20000,
          .signals_apart = 50000,
          .interrupts_apart = 20000};
}

inline PtTraceSettings PtWorkloadTrace() {
  PtTraceSettings settings;
  settings.cyc = true;
  return settings;
}

}  // namespace ptarmigan
