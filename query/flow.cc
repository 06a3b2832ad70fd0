#include "query/flow.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "query/internal/code_places.h"

namespace ptarmigan {

FlowReport MakeFlowReport(const Profile& profile, size_t rows_max) {
  const internal::CodePlaces places(profile);
  // Code without a symbol is a row by address.
  std::map<std::tuple<std::string_view, std::string_view, std::string_view, uint64_t>, FunctionFlow>
      rows;
  for (const FlowSummary::Function& function : profile.summary.flow.functions) {
    const CodePlace place = places.Of(function.location);
    const uint64_t key = place.function.empty() ? place.address : 0;
    const auto [found, is_new] =
        rows.try_emplace({place.object, place.build_id, place.function, key});
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
  FlowReport report;
  for (const auto& [key, row] : rows) report.functions.push_back(row);
  std::ranges::stable_sort(report.functions, std::greater(), &FunctionFlow::instructions);
  if (report.functions.size() > rows_max) {
    report.functions_cut = report.functions.size() - rows_max;
    report.functions.resize(rows_max);
  }
  return report;
}

}  // namespace ptarmigan
