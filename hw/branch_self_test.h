// Whether branch records hold anything: some virtual machines let the event be opened and give empty or zero records, which
// look like a program without branches.
#pragma once

#include "base/result.h"
#include "hw/event_spec.h"
#include "hw/perf_kernel.h"

namespace ptarmigan {

// Samples a loop of this thread with `spec` (an event with PERF_SAMPLE_BRANCH_STACK) for at most a fifth of a second and looks
// for one branch with an address. kUnavailable if none has one, or no sample came; errors of opening pass by: whoever
// opens the event next explains them.
Status CheckBranchRecords(const EventSpec& spec, PerfKernel& kernel = HostKernel());

}  // namespace ptarmigan
