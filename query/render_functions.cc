#include <string>
#include <string_view>

#include "base/str_format.h"
#include "query/internal/flow_names.h"
#include "query/internal/json_parts.h"
#include "query/internal/text_parts.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using internal::EntryName;
using internal::Json;
using internal::kBold;
using internal::kDim;
using internal::NameOf;
using internal::Shorten;
using internal::Styled;
using internal::WithThousands;

constexpr size_t kCallersText = 4;  // of one function; more are counted
constexpr size_t kNumberColumns = 96;

std::string Time(double ns) { return FormatValue(static_cast<int64_t>(ns), "nanoseconds"); }
std::string Time(uint64_t ns) { return Time(static_cast<double>(ns)); }

// The columns of a row or a caller; `calls` is what stands first.
std::string TimesText(uint64_t calls, std::string_view instructions,
                      const FlowSummary::Calls& executions) {
  std::string text = StrFormat("{:>12} {:>14}", WithThousands(calls), instructions);
  const DurationCounts& total = executions.total;
  if (total.empty())
    return text + StrFormat(" {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", "", "", "", "", "", "");
  const uint64_t bounded = total.count() - executions.unbounded;
  // Below half of it nothing can be told from nothing.
  std::string off = bounded == 0 ? "?" : Time(executions.uncertainty_ns / bounded);
  if (executions.unbounded > 0) off += "+";
  return text + StrFormat(" {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", Time(executions.self.MeanNs()),
                          Time(total.MeanNs()), Time(total.QuantileNs(0.5)),
                          Time(total.QuantileNs(0.99)), Time(total.max_ns()), off);
}

Json DurationsJson(const DurationCounts& durations) {
  if (durations.empty()) return Json();
  return {{"n", durations.count()},
          {"sum", durations.sum_ns()},
          {"mean", durations.MeanNs()},
          {"p50", durations.QuantileNs(0.5)},
          {"p99", durations.QuantileNs(0.99)},
          {"max", durations.max_ns()}};
}

void AddExecutions(const FlowSummary::Calls& executions, Json* json) {
  (*json)["executions"] = executions.count;
  (*json)["unwound"] = executions.unwound;
  (*json)["total_instructions"] = executions.instructions;
  (*json)["total"] = DurationsJson(executions.total);
  (*json)["self"] = DurationsJson(executions.self);
  const uint64_t bounded = executions.total.count() - executions.unbounded;
  (*json)["uncertainty_mean"] =
      bounded == 0
          ? Json()
          : Json(static_cast<double>(executions.uncertainty_ns) / static_cast<double>(bounded));
  (*json)["unbounded"] = executions.unbounded;
}

}  // namespace

std::string RenderFunctionsText(const Profile& profile, const FlowReport& report,
                                const RenderOptions& options) {
  std::string text = Styled(
      kBold,
      StrFormat("{:>12} {:>14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "calls", "instructions",
                "self mean", "mean", "p50", "p99", "max", "off by", "function"),
      options);
  const size_t columns = options.width > kNumberColumns + 24 ? options.width - kNumberColumns : 24;
  bool has_time = false;
  for (const FunctionFlow& row : report.functions) {
    has_time |= !row.executions.total.empty();
    CodePlace place;
    place.is_known = true;
    place.function = row.function;
    place.object = row.object;
    place.address = row.address;
    text += StrFormat("{}  {}\n",
                      TimesText(row.calls + row.indirect_calls + row.jumps + row.interrupts,
                                WithThousands(row.instructions), row.executions),
                      Shorten(NameOf(place), columns));
    if (row.callers.size() < 2) continue;
    for (size_t i = 0; i < std::min(row.callers.size(), kCallersText); ++i) {
      const FunctionFlow::Caller& caller = row.callers[i];
      text += Styled(
          kDim,
          StrFormat("{}    {} {}\n", TimesText(caller.executions.count, "", caller.executions),
                    EntryName(caller.executions.entry),
                    Shorten(NameOf(caller.place), columns - std::min<size_t>(columns, 12))),
          options);
    }
    if (row.callers.size() > kCallersText) {
      text += Styled(kDim,
                     StrFormat("{:>{}}and {} more callers (--json)\n", "", kNumberColumns + 2,
                               row.callers.size() - kCallersText),
                     options);
    }
  }
  if (report.functions_cut > 0) {
    text += Styled(kDim, StrFormat("and {} more (--limit)\n", WithThousands(report.functions_cut)),
                   options);
  }
  uint64_t uncertainty_ns = 0;
  for (const FlowSummary::Thread& thread : profile.summary.flow.threads) {
    uncertainty_ns = std::max(uncertainty_ns, thread.uncertainty_ns);
  }
  text += has_time
              ? StrFormat(
                    "times are interpolated between packets, at most {} apart; \"off by\" is the "
                    "mean of what "
                    "that leaves open, + where calls began or ended outside of known time\n",
                    Time(uncertainty_ns))
              : std::string("the trace has no time: instructions are all there is to compare\n");
  return text;
}

std::string RenderFunctionsJson(const Profile& profile, const FlowReport& report) {
  Json json;
  json["unit"] = "nanoseconds";
  json["functions"] = Json::array();
  for (const FunctionFlow& row : report.functions) {
    Json function = {{"function", row.function},
                     {"object", row.object},
                     {"build_id", row.build_id},
                     {"address", StrFormat("0x{:x}", row.address)},
                     {"self_instructions", row.instructions},
                     {"direct_calls", row.calls},
                     {"indirect_calls", row.indirect_calls},
                     {"calls", row.calls + row.indirect_calls},
                     {"jumps", row.jumps},
                     {"signals", row.interrupts}};
    AddExecutions(row.executions, &function);
    function["callers"] = Json::array();
    for (const FunctionFlow::Caller& caller : row.callers) {
      Json of_caller = {{"function", caller.place.function},
                        {"object", caller.place.object},
                        {"build_id", caller.place.build_id},
                        {"entry", EntryName(caller.executions.entry)}};
      AddExecutions(caller.executions, &of_caller);
      function["callers"].push_back(std::move(of_caller));
    }
    json["functions"].push_back(std::move(function));
  }
  json["events"] = internal::EventsJson(profile);
  return internal::DumpJson(json);
}

}  // namespace ptarmigan
