#include <string>
#include <utility>

#include "base/str_format.h"
#include "query/internal/json_parts.h"
#include "query/internal/text_parts.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using internal::BaseName;
using internal::Json;
using internal::kBold;
using internal::Shorten;
using internal::Styled;
using internal::WithThousands;

std::string Hex(uint64_t address) { return StrFormat("0x{:x}", address); }

Json PlaceJson(const CodePlace& place) {
  Json json;
  json["object"] = place.object;
  json["build_id"] = place.build_id;
  json["address"] = place.is_known ? Hex(place.address) : "";
  json["function"] = place.function;
  json["offset"] = place.offset ? Json(*place.offset) : Json();
  return json;
}

Json EdgeJson(const EdgeRow& row) {
  Json json;
  json["from"] = PlaceJson(row.from);
  json["to"] = PlaceJson(row.to);
  json["count"] = row.edge.count;
  json["mispredicted"] = row.edge.mispredicted;
  json["predicted"] = row.edge.predicted;
  json["unknown"] = row.edge.unknown();
  json["cycles_sum"] = row.edge.cycles_sum;
  json["mispredict_rate"] = {{"low", row.mispredict_rate.low}, {"high", row.mispredict_rate.high}};
  return json;
}

Json BlockJson(const BlockRow& row) {
  Json json;
  json["object"] = row.start.object;
  json["build_id"] = row.start.build_id;
  json["start"] = Hex(row.start.address);
  json["end"] = Hex(row.end.address);
  json["count"] = row.block.count;
  const bool has_cycles = row.cycles.executions > 0;
  json["cycles"] = {{"min", has_cycles ? Json(row.cycles.min) : Json()},
                    {"median", has_cycles ? Json(row.cycles.median) : Json()},
                    {"max", has_cycles ? Json(row.cycles.max) : Json()},
                    {"executions", row.cycles.executions},
                    {"saturated", row.cycles.saturated}};
  json["instructions"] = row.block.instructions > 0 ? Json(row.block.instructions) : Json();
  json["instructions_per_cycle"] =
      row.instructions_per_cycle ? Json(*row.instructions_per_cycle) : Json();
  json["function"] = row.start.function;
  json["offset"] = row.start.offset ? Json(*row.start.offset) : Json();
  return json;
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
  Json json;
  json["events"] = internal::EventsJson(profile);
  Json edges = Json::array();
  for (const EdgeRow& row : report.edges) edges.push_back(EdgeJson(row));
  Json blocks = Json::array();
  for (const BlockRow& row : report.blocks) blocks.push_back(BlockJson(row));
  json["edges"] = std::move(edges);
  json["edges_cut"] = report.edges_cut;
  json["blocks"] = std::move(blocks);
  json["blocks_cut"] = report.blocks_cut;
  json["branches"] = report.branches;
  json["ranges_rejected"] = profile.summary.branches.ranges_rejected;
  json["wrong_path"] = profile.summary.branches.wrong_path;
  return internal::DumpJson(json);
}

}  // namespace ptarmigan
