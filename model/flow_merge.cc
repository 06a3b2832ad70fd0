#include "model/flow_merge.h"

#include <map>
#include <tuple>
#include <utility>

namespace ptarmigan {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

uint32_t Mapped(uint32_t location, std::span<const uint32_t> locations) {
  return location == kNone ? kNone : locations[location];
}

// Threads of different recordings are different threads, whatever their numbers.
void AddThreads(const FlowSummary& source, std::span<const uint32_t> locations, FlowSummary* into) {
  const auto threads_before = static_cast<uint32_t>(into->threads.size());
  into->threads.insert(into->threads.end(), source.threads.begin(), source.threads.end());
  for (FlowSummary::Interval interval : source.intervals) {
    interval.thread += threads_before;
    interval.function = Mapped(interval.function, locations);
    interval.caller = Mapped(interval.caller, locations);
    into->intervals.push_back(interval);
  }
  for (FlowSummary::Mark mark : source.marks) {
    mark.thread += threads_before;
    into->marks.push_back(mark);
  }
  into->intervals_cut += source.intervals_cut;
  into->marks_cut += source.marks_cut;
}

void AddFunctions(const FlowSummary& source, std::span<const uint32_t> locations,
                  FlowSummary* into) {
  std::map<uint32_t, FlowSummary::Function> sums;
  for (const FlowSummary::Function& function : into->functions) sums[function.location] = function;
  for (const FlowSummary::Function& function : source.functions) {
    const uint32_t location = Mapped(function.location, locations);
    FlowSummary::Function& sum = sums[location];
    sum.location = location;
    sum.instructions += function.instructions;
    sum.calls += function.calls;
    sum.indirect_calls += function.indirect_calls;
    sum.jumps += function.jumps;
    sum.interrupts += function.interrupts;
  }
  into->functions.clear();
  for (const auto& [location, function] : sums) into->functions.push_back(function);
}

void AddCalls(const FlowSummary& source, std::span<const uint32_t> locations, FlowSummary* into) {
  std::map<std::tuple<uint32_t, uint32_t, FlowSummary::Entry>, FlowSummary::Calls> sums;
  const auto add = [&](FlowSummary::Calls calls) {
    const std::tuple key(calls.callee, calls.caller, calls.entry);
    const auto [sum, is_new] = sums.try_emplace(key, std::move(calls));
    if (!is_new) sum->second += calls;
  };
  for (FlowSummary::Calls& calls : into->calls) add(std::move(calls));
  for (FlowSummary::Calls calls : source.calls) {
    calls.callee = Mapped(calls.callee, locations);
    calls.caller = Mapped(calls.caller, locations);
    add(std::move(calls));
  }
  into->calls.clear();
  for (auto& [key, calls] : sums) into->calls.push_back(std::move(calls));
}

}  // namespace

void AddFlowSummary(const FlowSummary& source, std::span<const uint32_t> locations,
                    FlowSummary* into) {
  if (source.empty()) return;
  if (into->source.empty()) {
    into->source = source.source;
  } else if (into->source != source.source) {
    into->source += "," + source.source;
  }
  AddThreads(source, locations, into);
  AddFunctions(source, locations, into);
  AddCalls(source, locations, into);
  for (const auto& [object, bytes] : source.missing_code) into->missing_code[object] += bytes;
}

}  // namespace ptarmigan
