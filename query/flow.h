// The `functions` and `timeline` views: what control-flow traces say of functions: how often they were called and how long
// that took, and when.
//
// Borrow the profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/profile.h"
#include "query/branches.h"
#include "query/entities.h"

namespace ptarmigan {

// A function as its traces saw it; what inlined it is not told apart.
struct FunctionFlow {
  std::string_view function;  // empty: no symbol
  std::string_view object;
  std::string_view build_id;
  uint64_t address =
      0;  // of its first instruction that was seen; ELF virtual where there is a build id
  uint64_t instructions = 0;
  uint64_t calls = 0;  // direct
  uint64_t indirect_calls = 0;
  uint64_t jumps = 0;
  uint64_t interrupts = 0;
  // Of the executions whose beginning and end were seen, wherever from.
  FlowSummary::Calls executions;
  struct Caller {
    CodePlace place;  // of one of its calls; not known where nothing was traced
    FlowSummary::Calls executions;
  };
  std::vector<Caller>
      callers;  // by function and entry; the longest time in all first, then the most
};

struct FlowReport {
  std::vector<FunctionFlow> functions;  // by instructions
  size_t functions_cut = 0;
};

// One row per function and object; `rows_max` of them. `filter` is of functions; null: all are kept.
FlowReport MakeFlowReport(const Profile& profile, size_t rows_max,
                          const LocationFilter* filter = nullptr);

// FlowSummary::intervals that are to be shown, in their order there.
struct TimelineReport {
  std::vector<uint32_t> intervals;
  size_t intervals_cut = 0;  // by rows_max
};
struct TimelineOptions {
  size_t rows_max = SIZE_MAX;
  const LocationFilter* filter = nullptr;  // of functions; null: all are kept
  // Those that have a part in [from, to) of the recording's clock, of this thread (-1: of all).
  uint64_t from_ns = 0;
  uint64_t to_ns = UINT64_MAX;
  int32_t tid = -1;
};
TimelineReport MakeTimelineReport(const Profile& profile, const TimelineOptions& options);

}  // namespace ptarmigan
