// Runs a program one instruction at a time and writes what branch hardware would have recorded of it: every taken branch
// is known, on any x86-64 machine. Slow (about 10,000 instructions a second): for small static programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ptarmigan {

struct StepRecording {
  struct Branch {
    uint64_t from = 0;
    uint64_t to = 0;
  };
  std::vector<Branch> branches;  // all that were taken, in order
  bool finished = false;         // the program ended before the limit of steps
};

// `program` is an ELF file without interpreter. kUnavailable where ptrace may not be used.
Result<StepRecording> RecordBySteps(const std::string& program, size_t steps_max);

struct StepSampling {
  size_t depth = 32;  // entries of a sample
  // Taken branches between samples; fewer than `depth`: each is counted more than once.
  size_t apart = 23;
  // So many, beginning again at the start when the branches are used up; 0: once through.
  size_t samples = 0;
};
// perf.data with one sample each `apart` branches, as `perf record -b` on a machine without cycles would write it.
std::string PerfDataOf(const StepRecording& recording, const std::string& program,
                       const StepSampling& sampling = {});

}  // namespace ptarmigan
