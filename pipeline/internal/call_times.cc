#include "pipeline/internal/call_times.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ptarmigan::internal {
namespace {

FlowSummary::Entry EntryOf(CallInterval::Entry entry) {
  switch (entry) {
    case CallInterval::Entry::kUnknown:
      return FlowSummary::Entry::kUnknown;
    case CallInterval::Entry::kCall:
      return FlowSummary::Entry::kCall;
    case CallInterval::Entry::kTailCall:
      return FlowSummary::Entry::kTailCall;
    case CallInterval::Entry::kInterrupt:
      return FlowSummary::Entry::kInterrupt;
  }
  return FlowSummary::Entry::kUnknown;
}

FlowSummary::Exit ExitOf(CallInterval::Exit exit) {
  switch (exit) {
    case CallInterval::Exit::kReturn:
      return FlowSummary::Exit::kReturn;
    case CallInterval::Exit::kReplaced:
      return FlowSummary::Exit::kReplaced;
    case CallInterval::Exit::kUnwound:
      return FlowSummary::Exit::kUnwound;
    case CallInterval::Exit::kOpen:
      return FlowSummary::Exit::kOpen;
  }
  return FlowSummary::Exit::kOpen;
}

}  // namespace

class CallTimes::OwnerSink : public CallStackBuilder::Sink {
 public:
  OwnerSink(CallTimes* times, uint32_t owner, uint32_t thread, int32_t tid)
      : owner_(owner), thread_(thread), tid_(tid), times_(*times) {}
  void OnCall(const CallInterval& call) override { times_.Add(this, call); }

  // The row of an edge; `next` if there is none yet, which then is to be appended.
  uint32_t RowOf(uint32_t edge, CallInterval::Entry entry, uint32_t next) {
    return rows_.FindOrInsert({edge, static_cast<uint32_t>(entry)}, next);
  }
  uint32_t owner() const { return owner_; }
  uint32_t thread() const { return thread_; }
  int32_t tid() const { return tid_; }

 private:
  const uint32_t owner_;
  const uint32_t thread_;
  const int32_t tid_;
  CallTimes& times_;
  CompactIndex rows_;
};

CallTimes::CallTimes(const IntervalOptions& options, TicksToNs to_ns)
    : options_(options), to_ns_(std::move(to_ns)) {}
CallTimes::~CallTimes() = default;

CallStackBuilder::Sink* CallTimes::SinkOf(uint32_t owner, uint32_t thread, int32_t tid) {
  owners_.push_back(std::make_unique<OwnerSink>(this, owner, thread, tid));
  return owners_.back().get();
}

void CallTimes::Add(OwnerSink* owner, const CallInterval& call) {
  const uint64_t begin_ns = call.has_time ? to_ns_(call.begin_ticks) : 0;
  const uint64_t end_ns = call.has_time ? to_ns_(call.end_ticks) : 0;
  if (options_.count_max > 0 && (options_.tid < 0 || options_.tid == owner->tid())) {
    Keep(*owner, call, begin_ns, end_ns);
  }
  if (call.entry == CallInterval::Entry::kUnknown || call.exit == CallInterval::Exit::kOpen) return;
  const auto next = static_cast<uint32_t>(rows_.size());
  const uint32_t index = owner->RowOf(call.edge, call.entry, next);
  if (index == next) {
    Row& row = rows_.emplace_back();
    row.owner = owner->owner();
    row.edge = call.edge;
    row.calls.entry = EntryOf(call.entry);
  }
  FlowSummary::Calls& calls = rows_[index].calls;
  ++calls.count;
  if (call.exit == CallInterval::Exit::kUnwound) ++calls.unwound;
  calls.instructions += call.instructions;
  calls.self_instructions += call.self_instructions;
  if (begin_ns == 0) return;
  const uint64_t ns = end_ns - begin_ns;
  const uint64_t zero_ns = to_ns_(0);
  calls.total.Add(ns);
  calls.self.Add(std::min(ns, to_ns_(call.self_ticks) - zero_ns));
  if (call.uncertainty_ticks == CallEvent::kUnboundedTicks) {
    ++calls.unbounded;
  } else {
    calls.uncertainty_ns += to_ns_(call.uncertainty_ticks) - zero_ns;
  }
}

void CallTimes::Keep(const OwnerSink& owner, const CallInterval& call, uint64_t begin_ns,
                     uint64_t end_ns) {
  if (begin_ns != 0 && (end_ns < options_.from_ns || begin_ns >= options_.to_ns)) return;
  const uint64_t ns = end_ns - begin_ns;
  if (std::pair(ns, call.instructions) < std::pair(shortest_ns_, shortest_instructions_)) {
    ++intervals_cut_;
    return;
  }
  if (intervals_.size() >= options_.count_max) DropShortest();
  FlowSummary::Interval& interval = intervals_.emplace_back();
  interval.function = call.edge;
  interval.caller = owner.owner();
  interval.thread = owner.thread();
  interval.stack = call.stack;
  interval.depth = call.depth;
  interval.entry = EntryOf(call.entry);
  interval.exit = ExitOf(call.exit);
  interval.begin_ns = begin_ns;
  interval.end_ns = end_ns;
  interval.begin_instruction = call.begin_instruction;
  interval.instructions = call.instructions;
  interval.uncertainty_ns = FlowSummary::Interval::kUnbounded;
  if (call.uncertainty_ticks != CallEvent::kUnboundedTicks) {
    interval.uncertainty_ns = static_cast<uint32_t>(std::min<uint64_t>(
        to_ns_(call.uncertainty_ticks) - to_ns_(0), FlowSummary::Interval::kUnbounded - 1));
  }
}

// The shorter half goes. What is left are whole branches of the tree: nothing is shorter than what it calls.
void CallTimes::DropShortest() {
  const auto length_of = [](const FlowSummary::Interval& interval) {
    return std::pair(interval.end_ns - interval.begin_ns, interval.instructions);
  };
  std::vector<std::pair<uint64_t, uint64_t>> lengths;
  lengths.reserve(intervals_.size());
  for (const FlowSummary::Interval& interval : intervals_) lengths.push_back(length_of(interval));
  const auto middle = lengths.begin() + static_cast<ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  std::tie(shortest_ns_, shortest_instructions_) = *middle;
  ++shortest_instructions_;
  intervals_cut_ += std::erase_if(intervals_, [&](const FlowSummary::Interval& interval) {
    return length_of(interval) < std::pair(shortest_ns_, shortest_instructions_);
  });
}

std::vector<CallTimes::Row> CallTimes::TakeRows() { return std::move(rows_); }

std::vector<FlowSummary::Interval> CallTimes::TakeIntervals() {
  // They came with callees before their callers: of those that are equal otherwise, the last is the outermost.
  std::ranges::reverse(intervals_);
  std::ranges::stable_sort(intervals_, {}, [](const FlowSummary::Interval& interval) {
    return std::tuple(interval.thread, interval.caller, interval.stack, interval.begin_instruction,
                      ~interval.instructions);
  });
  return std::move(intervals_);
}

}  // namespace ptarmigan::internal
