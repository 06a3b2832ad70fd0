// CallTimes: how long calls took, by callee and call site, and each of them in time where that is asked for: what
// CallStackBuilder reports of every thread, aggregated as it comes.
//
//   CallStackBuilder ──CallInterval──▶ SinkOf(owner) ──▶ rows by edge of the graph       (distinct edges)
//                                                   └──▶ intervals, the longest ones      (a bound on their number)
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/compact_index.h"
#include "decode/call_stack_builder.h"
#include "model/flow_summary.h"

namespace ptarmigan::internal {

struct IntervalOptions {
  size_t count_max = 0;  // 0: none are kept
  // Those that have a part in [from, to) of the recording's clock. Intervals without time are within any bounds.
  uint64_t from_ns = 0;
  uint64_t to_ns = UINT64_MAX;
  int32_t tid = -1;  // of this thread only; -1: of all
};

class CallTimes {
 public:
  // Locations are edges of the graph here: callee and caller are its two ends.
  struct Row {
    uint32_t owner = 0;
    uint32_t edge = 0;
    FlowSummary::Calls calls;
  };
  // A moment of the trace's clock as nanoseconds of the recording's; 0 where there is no such clock.
  using TicksToNs = std::function<uint64_t(uint64_t)>;

  CallTimes(const IntervalOptions& options, TicksToNs to_ns);
  ~CallTimes();

  // Where the calls of an owner go, which is a life of thread number `thread` with this tid. Owned by this.
  CallStackBuilder::Sink* SinkOf(uint32_t owner, uint32_t thread, int32_t tid);

  // By owner and edge, in the order of their first end. Call once.
  std::vector<Row> TakeRows();
  // By thread, owner, stack and begin, callers before their callees. `function` is the edge that led there, `caller` the
  // owner. Call once.
  std::vector<FlowSummary::Interval> TakeIntervals();
  uint64_t intervals_cut() const { return intervals_cut_; }

 private:
  class OwnerSink;
  void Add(OwnerSink* owner, const CallInterval& call);
  void Keep(const OwnerSink& owner, const CallInterval& call, uint64_t begin_ns, uint64_t end_ns);
  void DropShortest();

  const IntervalOptions options_;
  const TicksToNs to_ns_;
  std::vector<std::unique_ptr<OwnerSink>> owners_;
  std::vector<Row> rows_;
  std::vector<FlowSummary::Interval> intervals_;  // as TakeIntervals'
  uint64_t intervals_cut_ = 0;
  // What is shorter is not kept any more.
  uint64_t shortest_ns_ = 0;
  uint64_t shortest_instructions_ = 0;
};

}  // namespace ptarmigan::internal
