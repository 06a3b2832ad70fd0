#include <string>
#include <string_view>

#include "base/str_format.h"
#include "query/internal/code_places.h"
#include "query/internal/flow_names.h"
#include "query/internal/json_parts.h"
#include "query/internal/text_parts.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using internal::Json;
using internal::kBold;
using internal::kDim;
using internal::NameOf;
using internal::Shorten;
using internal::Styled;
using internal::WithThousands;

constexpr size_t kIndentMax = 32;  // levels that are shown by their distance from the margin

std::string Time(uint64_t ns) { return FormatValue(static_cast<int64_t>(ns), "nanoseconds"); }

// "421.999965691", as perf prints times.
std::string Moment(uint64_t ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  return StrFormat("{}.{:09}", ns / kSecond, ns % kSecond);
}

std::string ThreadText(const FlowSummary::Thread& thread, uint32_t stack) {
  std::string text = StrFormat("thread {}", thread.tid);
  if (!thread.name.empty()) text += " " + thread.name;
  if (stack != 0) text += StrFormat(", stack {}", stack);
  if (thread.begin_ns != 0) {
    text += StrFormat(": {} to {}, single times off by up to {}", Moment(thread.begin_ns),
                      Moment(thread.end_ns), Time(thread.uncertainty_ns));
  } else {
    text += ": no time, counted in instructions";
  }
  return text;
}

std::string MarkText(const FlowSummary::Mark& mark) {
  std::string text = StrFormat("  {:>20}  ", Moment(mark.begin_ns));
  if (mark.end_ns > mark.begin_ns) text += "for " + Time(mark.end_ns - mark.begin_ns) + ": ";
  return text + std::string(internal::MarkName(mark.kind)) + "\n";
}

Json PlaceJson(const CodePlace& place) {
  if (!place.is_known) return Json();
  return {{"function", place.function},
          {"object", place.object},
          {"build_id", place.build_id},
          {"address", StrFormat("0x{:x}", place.address)}};
}

Json IntervalJson(const internal::CodePlaces& places, const FlowSummary::Interval& interval) {
  Json json = PlaceJson(places.Of(interval.function));
  json["stack"] = interval.stack;
  json["depth"] = interval.depth;
  json["caller"] = PlaceJson(places.Of(interval.caller));
  json["entry"] = internal::EntryName(interval.entry);
  json["exit"] = internal::ExitName(interval.exit);
  const bool has_time = interval.begin_ns != 0;
  json["begin_ns"] = has_time ? Json(interval.begin_ns) : Json();
  json["end_ns"] = has_time ? Json(interval.end_ns) : Json();
  const bool is_bounded = interval.uncertainty_ns != FlowSummary::Interval::kUnbounded;
  json["uncertainty_ns"] = has_time && is_bounded ? Json(interval.uncertainty_ns) : Json();
  json["begin_instruction"] = interval.begin_instruction;
  json["instructions"] = interval.instructions;
  return json;
}

}  // namespace

std::string RenderTimelineText(const Profile& profile, const TimelineReport& report,
                               const RenderOptions& options) {
  const FlowSummary& flow = profile.summary.flow;
  const internal::CodePlaces places(profile);
  std::string text;
  const FlowSummary::Interval* last = nullptr;
  auto mark = flow.marks.begin();
  const auto add_marks_before = [&](uint32_t thread, uint64_t ns) {
    for (; mark != flow.marks.end() &&
           (mark->thread < thread || (mark->thread == thread && mark->begin_ns <= ns));
         ++mark) {
      if (mark->thread == thread) text += MarkText(*mark);
    }
  };
  for (const uint32_t index : report.intervals) {
    const FlowSummary::Interval& interval = flow.intervals[index];
    const FlowSummary::Thread& thread = flow.threads[interval.thread];
    if (last == nullptr || last->thread != interval.thread || last->stack != interval.stack) {
      if (last != nullptr) add_marks_before(last->thread, UINT64_MAX);
      text += Styled(kBold, ThreadText(thread, interval.stack) + "\n", options);
      text += Styled(
          kDim,
          StrFormat("  {:>20} {:>10} {:>12}  {}\n", "begin", "took", "instructions", "function"),
          options);
    }
    last = &interval;
    const bool has_time = interval.begin_ns != 0;
    if (has_time && interval.stack == 0) add_marks_before(interval.thread, interval.begin_ns);
    const size_t indent = std::min<size_t>(interval.depth, kIndentMax);
    std::string name(indent, ' ');
    if (interval.entry == FlowSummary::Entry::kTailCall) name += "> ";
    if (interval.entry == FlowSummary::Entry::kInterrupt) name += "! ";
    name += NameOf(places.Of(interval.function));
    if (interval.entry == FlowSummary::Entry::kUnknown) name += " (began before)";
    if (interval.exit == FlowSummary::Exit::kUnwound) name += " (unwound)";
    if (interval.exit == FlowSummary::Exit::kOpen) name += " (open)";
    constexpr size_t kNumberColumns = 50;
    text += StrFormat(
        "  {:>20} {:>10} {:>12}  {}\n",
        has_time ? Moment(interval.begin_ns) : WithThousands(interval.begin_instruction),
        has_time ? Time(interval.end_ns - interval.begin_ns) : "",
        WithThousands(interval.instructions),
        Shorten(name, options.width > kNumberColumns + 30 ? options.width - kNumberColumns : 30));
  }
  if (last == nullptr) {
    text += "no calls match\n";
  } else if (report.intervals_cut == 0) {
    add_marks_before(last->thread, UINT64_MAX);
  }
  if (report.intervals_cut > 0) {
    text += Styled(kDim, StrFormat("and {} more (--limit)\n", WithThousands(report.intervals_cut)),
                   options);
  }
  if (flow.intervals_cut > 0) {
    text += StrFormat("{} shorter ones were left out: --from, --to and --thread choose a part\n",
                      WithThousands(flow.intervals_cut));
  }
  return text;
}

std::string RenderTimelineJson(const Profile& profile, const TimelineReport& report) {
  const FlowSummary& flow = profile.summary.flow;
  const internal::CodePlaces places(profile);
  Json json;
  json["source"] = flow.source;
  json["threads"] = Json::array();
  size_t next = 0;
  for (uint32_t thread = 0; thread < flow.threads.size(); ++thread) {
    const FlowSummary::Thread& of = flow.threads[thread];
    Json row = {{"pid", of.pid}, {"tid", of.tid}, {"name", of.name}};
    row["begin_ns"] = of.begin_ns != 0 ? Json(of.begin_ns) : Json();
    row["end_ns"] = of.begin_ns != 0 ? Json(of.end_ns) : Json();
    row["uncertainty_ns"] = of.uncertainty_ns;
    row["intervals"] = Json::array();
    for (;
         next < report.intervals.size() && flow.intervals[report.intervals[next]].thread == thread;
         ++next) {
      row["intervals"].push_back(IntervalJson(places, flow.intervals[report.intervals[next]]));
    }
    row["marks"] = Json::array();
    for (const FlowSummary::Mark& mark : flow.marks) {
      if (mark.thread != thread) continue;
      row["marks"].push_back({{"kind", internal::MarkName(mark.kind)},
                              {"begin_ns", mark.begin_ns},
                              {"end_ns", mark.end_ns}});
    }
    json["threads"].push_back(std::move(row));
  }
  json["rows_cut"] = report.intervals_cut;
  json["intervals_cut"] = flow.intervals_cut;
  json["marks_cut"] = flow.marks_cut;
  json["events"] = internal::EventsJson(profile);
  return internal::DumpJson(json);
}

}  // namespace ptarmigan
