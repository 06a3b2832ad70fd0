#include <algorithm>
#include <functional>
#include <map>
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
using internal::kDim;
using internal::Shorten;
using internal::Styled;
using internal::WithThousands;

constexpr std::string_view kLatencyNames[kMemLatencies] = {"total", "issue", "translation",
                                                           "instruction"};

Json LatencyJson(const MemoryLatency& latency, bool has_distribution) {
  Json json;
  json["sum"] = latency.sum;
  json["n"] = has_distribution ? Json(latency.count) : Json();
  const bool has_values = has_distribution && latency.count > 0;
  json["mean"] = has_values ? Json(latency.mean()) : Json();
  json["p50"] = has_values ? Json(latency.p50) : Json();
  json["p99"] = has_values ? Json(latency.p99) : Json();
  return json;
}

Json CountsJson(const std::map<std::string, uint64_t, std::less<>>& counts) {
  Json json = Json::object();
  for (const auto& [name, samples] : counts) json[name] = samples;
  return json;
}

std::string Hex(uint64_t address) { return StrFormat("0x{:x}", address); }

// "L1 hit 45%, RAM hit 12%": the largest first.
std::string Shares(const std::map<std::string, uint64_t, std::less<>>& counts, uint64_t whole) {
  constexpr size_t kNamesMax = 3;
  std::vector<std::pair<uint64_t, std::string_view>> order;
  for (const auto& [name, samples] : counts) order.emplace_back(samples, name);
  std::ranges::sort(order, std::greater<>());
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kNamesMax); ++i) {
    text += StrFormat("{}{} {:.0f}%", i == 0 ? "" : ", ", order[i].second,
                      100.0 * static_cast<double>(order[i].first) / static_cast<double>(whole));
  }
  return text;
}

std::string Cycles(const MemoryLatency& latency) {
  if (latency.count == 0) return StrFormat("{:>8} {:>7} {:>7}", "-", "-", "-");
  return StrFormat("{:>8.1f} {:>7} {:>7}", latency.mean(), latency.p50, latency.p99);
}

std::string LinesText(const Profile& profile, const RenderOptions& options) {
  constexpr size_t kLinesShown = 20;
  const MemorySummary& summary = profile.summary.memory;
  if (summary.lines.empty()) return "";
  std::string text = Styled(kBold, "\ncache lines that more than one thread writes\n", options);
  text += StrFormat("{:>18} {:>8} {:>8} {:>8} {:>8} {:>10}\n", "address", "writers", "readers",
                    "stores", "loads", "cycles/load");
  for (size_t i = 0; i < std::min(summary.lines.size(), kLinesShown); ++i) {
    const MemorySummary::SharedLine& line = summary.lines[i];
    const double mean =
        line.loads == 0 ? 0
                        : static_cast<double>(line.latency_sum) / static_cast<double>(line.loads);
    text += StrFormat("{:>18} {:>8} {:>8} {:>8} {:>8} {:>10.1f}{}\n", Hex(line.address),
                      line.writers, line.readers, line.stores, line.loads, mean,
                      line.is_physical ? "  physical" : "");
  }
  if (summary.lines.size() > kLinesShown) {
    text += StrFormat("... {} more lines (--json)\n",
                      WithThousands(summary.lines.size() - kLinesShown));
  }
  if (summary.lines_not_counted > 0) {
    text += StrFormat("{} accesses of lines beyond those watched were not looked at\n",
                      WithThousands(summary.lines_not_counted));
  }
  return text;
}

}  // namespace

std::string RenderMemoryText(const Profile& profile, const EntityTable& entities,
                             const MemoryTable& memory, const RenderOptions& options) {
  std::string text =
      StrFormat("{} memory samples; latencies in cycles\n", WithThousands(memory.samples));
  text += Styled(kBold,
                 StrFormat("{:>8} {:>11} {:>8} {:>7} {:>7}  {}\n", "samples", "latency sum", "mean",
                           "p50", "p99", "function  object  data sources"),
                 options);
  constexpr size_t kNumberColumns = 48;
  const size_t columns = options.width > kNumberColumns + 40 ? options.width - kNumberColumns : 40;
  for (const MemoryRow& row : memory.rows) {
    const Entity& entity = entities.entities()[row.entity];
    const MemoryLatency& total = row.latencies[static_cast<size_t>(MemLatency::kTotal)];
    const std::string sources = Shorten(Shares(row.by_source, row.samples), columns / 2);
    const std::string place(BaseName(entity.object));
    const size_t name_columns = columns - sources.size();
    const std::string name = Shorten(
        entity.function, name_columns > place.size() + 18 ? name_columns - place.size() - 2 : 16);
    text += StrFormat("{:>8} {:>11} {}  {}  {}  {}\n", WithThousands(row.samples),
                      WithThousands(total.sum), Cycles(total), name, Styled(kDim, place, options),
                      sources);
  }
  if (memory.rows.empty()) {
    text += "no memory samples: record with Arm SPE, AMD IBS or Intel PEBS (perf mem record)\n";
  }
  if (memory.rows_cut > 0) {
    text += StrFormat("... {} more functions (--limit)\n", WithThousands(memory.rows_cut));
  }
  if (!memory.has_distributions && !memory.rows.empty()) {
    text += "mean, p50 and p99 need the recording itself and all of its samples\n";
  }
  return text + LinesText(profile, options);
}

std::string RenderMemoryJson(const Profile& profile, const EntityTable& entities,
                             const MemoryTable& memory) {
  Json json;
  json["events"] = internal::EventsJson(profile);
  json["samples"] = memory.samples;
  Json functions = Json::array();
  for (const MemoryRow& row : memory.rows) {
    const Entity& entity = entities.entities()[row.entity];
    Json function;
    // Code without a symbol is no function: it has an object and an empty name.
    function["function"] = entity.is_symbolized ? entity.function : "";
    function["object"] = entity.object;
    function["build_id"] = entity.build_id;
    function["samples"] = row.samples;
    Json latencies;
    for (size_t i = 0; i < kMemLatencies; ++i) {
      latencies[kLatencyNames[i]] = LatencyJson(row.latencies[i], memory.has_distributions);
    }
    function["latency"] = std::move(latencies);
    Json ops;
    for (size_t op = 0; op < kMemOps; ++op) ops[MemOpName(static_cast<MemOp>(op))] = row.ops[op];
    function["ops"] = std::move(ops);
    function["mispredicted"] = row.mispredicted;
    function["by_source"] = CountsJson(row.by_source);
    function["by_tlb"] = CountsJson(row.by_tlb);
    function["by_snoop"] = CountsJson(row.by_snoop);
    functions.push_back(std::move(function));
  }
  json["functions"] = std::move(functions);
  json["rows_cut"] = memory.rows_cut;
  Json lines = Json::array();
  for (const MemorySummary::SharedLine& line : profile.summary.memory.lines) {
    lines.push_back({{"address", Hex(line.address)},
                     {"physical", line.is_physical},
                     {"writers", line.writers},
                     {"readers", line.readers},
                     {"stores", line.stores},
                     {"loads", line.loads},
                     {"latency_sum", line.latency_sum}});
  }
  json["shared_lines"] = std::move(lines);
  json["shared_lines_not_counted"] = profile.summary.memory.lines_not_counted;
  return internal::DumpJson(json);
}

}  // namespace ptarmigan
