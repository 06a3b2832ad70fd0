#include <string>

#include "base/check.h"
#include "base/json_writer.h"
#include "base/str_format.h"
#include "query/internal/text_parts.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using internal::BaseName;
using internal::kBold;
using internal::Shorten;
using internal::Styled;
using internal::WithThousands;

std::string Hex(uint64_t address) { return StrFormat("0x{:x}", address); }

void WriteOffset(const CodePlace& place, JsonWriter* json) {
  json->Field("function", place.function).Key("offset");
  place.offset ? json->Uint(*place.offset) : json->Null();
}

void WritePlace(std::string_view key, const CodePlace& place, JsonWriter* json) {
  json->Key(key).BeginObject().Field("object", place.object).Field("build_id", place.build_id);
  json->Field("address", place.is_known ? Hex(place.address) : "");
  WriteOffset(place, json);
  json->EndObject();
}

void WriteEdge(const EdgeRow& row, JsonWriter* json) {
  json->BeginObject();
  WritePlace("from", row.from, json);
  WritePlace("to", row.to, json);
  json->Key("count").Uint(row.edge.count);
  json->Key("mispredicted").Uint(row.edge.mispredicted);
  json->Key("predicted").Uint(row.edge.predicted);
  json->Key("unknown").Uint(row.edge.unknown());
  json->Key("cycles_sum").Uint(row.edge.cycles_sum);
  json->Key("mispredict_rate").BeginObject();
  json->Key("low").Double(row.mispredict_rate.low);
  json->Key("high").Double(row.mispredict_rate.high);
  json->EndObject().EndObject();
}

void WriteBlock(const BlockRow& row, JsonWriter* json) {
  json->BeginObject();
  json->Field("object", row.start.object).Field("build_id", row.start.build_id);
  json->Field("start", Hex(row.start.address)).Field("end", Hex(row.end.address));
  json->Key("count").Uint(row.block.count);
  json->Key("cycles").BeginObject();
  const bool has_cycles = row.cycles.executions > 0;
  json->Key("min");
  has_cycles ? json->Uint(row.cycles.min) : json->Null();
  json->Key("median");
  has_cycles ? json->Double(row.cycles.median) : json->Null();
  json->Key("max");
  has_cycles ? json->Uint(row.cycles.max) : json->Null();
  json->Key("executions").Uint(row.cycles.executions);
  json->Key("saturated").Uint(row.cycles.saturated);
  json->EndObject().Key("instructions");
  row.block.instructions > 0 ? json->Uint(row.block.instructions) : json->Null();
  json->Key("instructions_per_cycle");
  row.instructions_per_cycle ? json->Double(*row.instructions_per_cycle) : json->Null();
  WriteOffset(row.start, json);
  json->EndObject();
}

std::string PlaceText(const CodePlace& place) {
  if (!place.is_known) return "(not recorded)";
  if (place.function.empty()) return StrFormat("{}:{}", BaseName(place.object), Hex(place.address));
  if (!place.offset) return StrFormat("{} {}", place.function, Hex(place.address));
  return StrFormat("{}+0x{:x}", place.function, *place.offset);
}

std::string RateText(const EdgeRow& row) {
  const uint64_t known = row.edge.mispredicted + row.edge.predicted;
  if (known == 0) return StrFormat("{:>7} {:>15}", "-", "");
  return StrFormat("{:>6.1f}% {:>5.1f}..{:>5.1f} % ",
                   100.0 * static_cast<double>(row.edge.mispredicted) / static_cast<double>(known),
                   100 * row.mispredict_rate.low, 100 * row.mispredict_rate.high);
}

std::string CyclesText(const CycleFigures& cycles) {
  if (cycles.executions == 0) return "-";
  return StrFormat("{}/{}/{}{}", cycles.min, cycles.median, cycles.saturated > 0 ? ">=" : "",
                   cycles.max);
}

std::string CutText(size_t cut, std::string_view what) {
  return cut == 0 ? "" : StrFormat("... {} more {} (--limit)\n", WithThousands(cut), what);
}

}  // namespace

std::string RenderBranchesText(const Profile& profile, const BranchReport& report,
                               const RenderOptions& options) {
  const BranchSummary& summary = profile.summary.branches;
  const uint64_t known = report.mispredicted + report.predicted;
  std::string text = StrFormat("{} branches", WithThousands(report.branches));
  if (known > 0) {
    text += StrFormat(", {:.2f} % of {} with a known outcome mispredicted",
                      100.0 * static_cast<double>(report.mispredicted) / static_cast<double>(known),
                      WithThousands(known));
  }
  text += StrFormat("; {} runs between them rejected", WithThousands(summary.ranges_rejected));
  if (summary.wrong_path > 0) {
    text += StrFormat("; {} wrong-path entries left out", WithThousands(summary.wrong_path));
  }
  text += '\n';

  constexpr size_t kNumberColumns = 36;
  const size_t columns = options.width > kNumberColumns + 40 ? options.width - kNumberColumns : 40;
  text += Styled(
      kBold, StrFormat("{:>10} {:>7} {:>15}  {}\n", "taken", "mispred", "95 % interval", "branch"),
      options);
  for (const EdgeRow& row : report.edges) {
    text += StrFormat("{:>10} {}  {} -> {}\n", WithThousands(row.edge.count), RateText(row),
                      Shorten(PlaceText(row.from), columns / 2 - 2),
                      Shorten(PlaceText(row.to), columns / 2 - 2));
  }
  text += CutText(report.edges_cut, "edges");
  if (report.blocks.empty()) return text;

  text += Styled(kBold,
                 StrFormat("{:>10} {:>18} {:>7} {:>6}  {}\n", "executed", "cycles min/med/max",
                           "instr", "ipc", "straight-line code"),
                 options);
  for (const BlockRow& row : report.blocks) {
    text += StrFormat(
        "{:>10} {:>18} {:>7} {:>6}  {} .. {}\n", WithThousands(row.block.count),
        CyclesText(row.cycles),
        row.block.instructions > 0 ? WithThousands(row.block.instructions) : "-",
        row.instructions_per_cycle ? StrFormat("{:.2f}", *row.instructions_per_cycle) : "-",
        Shorten(PlaceText(row.start), columns / 2 - 2),
        Shorten(PlaceText(row.end), columns / 2 - 2));
  }
  return text + CutText(report.blocks_cut, "blocks");
}

std::string RenderBranchesJson(const Profile& profile, const BranchReport& report) {
  std::string text;
  StringSink sink(&text);
  // (A row is a line; a tree in memory of what can be a million rows takes longer than all that made them.)
  JsonWriter json(&sink, /*line_depth=*/2);
  json.BeginObject().Key("events").BeginArray();
  for (const EventTotal& event : profile.events) {
    json.BeginObject().Field("name", event.name);
    json.Key("samples").Uint(event.samples).Key("period_sum").Uint(event.period_sum).EndObject();
  }
  json.EndArray().Key("edges").BeginArray();
  for (const EdgeRow& row : report.edges) WriteEdge(row, &json);
  json.EndArray().Key("edges_cut").Uint(report.edges_cut);
  json.Key("blocks").BeginArray();
  for (const BlockRow& row : report.blocks) WriteBlock(row, &json);
  json.EndArray().Key("blocks_cut").Uint(report.blocks_cut);
  json.Key("branches").Uint(report.branches);
  json.Key("ranges_rejected").Uint(profile.summary.branches.ranges_rejected);
  json.Key("wrong_path").Uint(profile.summary.branches.wrong_path);
  json.EndObject();
  CHECK(json.Finish().has_value());
  return text + "\n";
}

}  // namespace ptarmigan
