#include "query/flow.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "query/internal/code_places.h"

namespace ptarmigan {

namespace {

// Code without a symbol is a row by address.
using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view, uint64_t>;
FunctionKey KeyOf(const CodePlace& place) {
  return {place.object, place.build_id, place.function, place.function.empty() ? place.address : 0};
}

bool Keeps(const LocationFilter* filter, LocationId location) {
  return filter == nullptr || filter->Keeps(std::array{location});
}

void AddExecutions(const Profile& profile, const internal::CodePlaces& places,
                   std::map<FunctionKey, FunctionFlow>* rows) {
  std::map<FunctionKey, std::map<std::pair<FunctionKey, FlowSummary::Entry>, FunctionFlow::Caller>>
      callers;
  for (const FlowSummary::Calls& calls : profile.summary.flow.calls) {
    const FunctionKey key = KeyOf(places.Of(calls.callee));
    const auto row = rows->find(key);
    if (row == rows->end()) continue;
    row->second.executions += calls;
    const CodePlace caller = places.Of(calls.caller);
    FunctionFlow::Caller& sums = callers[key][{KeyOf(caller), calls.entry}];
    sums.place = caller;
    sums.executions.entry = calls.entry;
    sums.executions += calls;
  }
  for (auto& [key, of_row] : callers) {
    std::vector<FunctionFlow::Caller>& list = (*rows)[key].callers;
    for (auto& [caller, sums] : of_row) list.push_back(std::move(sums));
    std::ranges::stable_sort(list, std::greater(), [](const FunctionFlow::Caller& caller) {
      return std::pair(caller.executions.total.sum_ns(), caller.executions.count);
    });
  }
}

}  // namespace

FlowReport MakeFlowReport(const Profile& profile, size_t rows_max, const LocationFilter* filter) {
  const internal::CodePlaces places(profile);
  std::map<FunctionKey, FunctionFlow> rows;
  for (const FlowSummary::Function& function : profile.summary.flow.functions) {
    if (!Keeps(filter, function.location)) continue;
    const CodePlace place = places.Of(function.location);
    const auto [found, is_new] = rows.try_emplace(KeyOf(place));
    FunctionFlow& row = found->second;
    if (is_new) {
      row.function = place.function;
      row.object = place.object;
      row.build_id = place.build_id;
      row.address = place.address;
    }
    row.address = std::min(row.address, place.address);
    row.instructions += function.instructions;
    row.calls += function.calls;
    row.indirect_calls += function.indirect_calls;
    row.jumps += function.jumps;
    row.interrupts += function.interrupts;
  }
  AddExecutions(profile, places, &rows);
  FlowReport report;
  for (auto& [key, row] : rows) report.functions.push_back(std::move(row));
  std::ranges::stable_sort(report.functions, std::greater(), &FunctionFlow::instructions);
  if (report.functions.size() > rows_max) {
    report.functions_cut = report.functions.size() - rows_max;
    report.functions.resize(rows_max);
  }
  return report;
}

TimelineReport MakeTimelineReport(const Profile& profile, const TimelineOptions& options) {
  TimelineReport report;
  const FlowSummary& flow = profile.summary.flow;
  for (uint32_t i = 0; i < flow.intervals.size(); ++i) {
    const FlowSummary::Interval& interval = flow.intervals[i];
    if (options.tid >= 0 && flow.threads[interval.thread].tid != options.tid) continue;
    const bool has_time = interval.begin_ns != 0;
    if (has_time && (interval.end_ns < options.from_ns || interval.begin_ns >= options.to_ns)) {
      continue;
    }
    if (!Keeps(options.filter, interval.function)) continue;
    if (report.intervals.size() < options.rows_max) {
      report.intervals.push_back(i);
    } else {
      ++report.intervals_cut;
    }
  }
  return report;
}

}  // namespace ptarmigan
