#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/str_format.h"
#include "model/loss_ledger.h"
#include "query/internal/text_parts.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using internal::BaseName;
using internal::kBold;
using internal::kDim;
using internal::Shorten;
using internal::Styled;
using internal::WithThousands;

double Percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string Place(const Entity& entity) {
  std::string place(BaseName(entity.object));
  if (!entity.file.empty()) {
    place += StrFormat("  {}", BaseName(entity.file));
    if (entity.line > 0) place += StrFormat(":{}", entity.line);
  }
  return place;
}

std::string Scaled(double value, std::string_view suffix) {
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return StrFormat("{:.{}f} {}", value, decimals, suffix);
}

}  // namespace

std::string FormatValue(int64_t value, std::string_view unit) {
  const std::string sign = value < 0 ? "-" : "";
  const auto size = static_cast<double>(std::abs(value));
  if (unit == "nanoseconds") {
    if (size >= 1e9) return sign + Scaled(size / 1e9, "s");
    if (size >= 1e6) return sign + Scaled(size / 1e6, "ms");
    if (size >= 1e3) return sign + Scaled(size / 1e3, "us");
    return sign + StrFormat("{} ns", static_cast<uint64_t>(size));
  }
  if (unit == "bytes") {
    if (size >= 1 << 30) return sign + Scaled(size / (1 << 30), "GiB");
    if (size >= 1 << 20) return sign + Scaled(size / (1 << 20), "MiB");
    if (size >= 1 << 10) return sign + Scaled(size / (1 << 10), "KiB");
    return sign + StrFormat("{} B", static_cast<uint64_t>(size));
  }
  return sign + WithThousands(static_cast<uint64_t>(size));
}

std::string RenderTopText(const Profile& profile, const EntityTable& entities, const TopTable& top,
                          const RenderOptions& options) {
  const size_t t = options.sample_type;
  const std::string_view type = profile.Text(profile.sample_types[t].type);
  const std::string_view unit = profile.Text(profile.sample_types[t].unit);
  const int64_t whole = top.total[t];
  std::string text = StrFormat("{}/{}, {} in all\n", type, unit, FormatValue(whole, unit));
  text += Styled(
      kBold,
      StrFormat("{:>10} {:>7} {:>10} {:>7}  {}\n", "self", "self%", "total", "total%", "function"),
      options);
  constexpr size_t kNumberColumns = 39;
  const size_t columns = options.width > kNumberColumns + 20 ? options.width - kNumberColumns : 20;
  for (const TopRow& row : top.rows) {
    const Entity& entity = entities.entities()[row.entity];
    const std::string place = Shorten(Place(entity), columns / 2);
    const size_t name_columns =
        columns > place.size() + 2 ? columns - place.size() - 2 : columns / 2;
    text += StrFormat("{:>10} {:>6.2f}% {:>10} {:>6.2f}%  {}  {}\n", FormatValue(row.self[t], unit),
                      Percent(row.self[t], whole), FormatValue(row.total[t], unit),
                      Percent(row.total[t], whole), Shorten(entity.function, name_columns),
                      Styled(kDim, place, options));
  }
  if (top.rows.empty()) text += "no samples match\n";
  if (top.rows_cut > 0)
    text += StrFormat("... {} more functions (--limit)\n", WithThousands(top.rows_cut));
  return text;
}

std::string RenderTreeText(const Profile& profile, const EntityTable& entities,
                           const CallTree& tree, const RenderOptions& options) {
  const auto& type = profile.sample_types[options.sample_type];
  const std::string_view unit = profile.Text(type.unit);
  const int64_t whole = tree.nodes[0].total;
  std::string text =
      StrFormat("{}/{}, {} in all\n", profile.Text(type.type), unit, FormatValue(whole, unit));
  text +=
      Styled(kBold, StrFormat("{:>10} {:>7} {:>7}  {}\n", "total", "total%", "self%", "function"),
             options);
  for (const CallTree::Node& node : tree.nodes) {
    const std::string name =
        node.entity == kNoId ? "all" : entities.entities()[node.entity].function;
    const std::string object =
        node.entity == kNoId ? "" : std::string(BaseName(entities.entities()[node.entity].object));
    const std::string indent(size_t{node.level} * 2, ' ');
    const size_t used = 29 + indent.size() + object.size() + 2;
    const size_t columns = options.width > used + 20 ? options.width - used : 20;
    text += StrFormat("{:>10} {:>6.2f}% {:>6.2f}%  {}{}  {}\n", FormatValue(node.total, unit),
                      Percent(node.total, whole), Percent(node.self, whole), indent,
                      Shorten(name, columns), Styled(kDim, object, options));
  }
  size_t cut = 0;
  for (const CallTree::Node& node : tree.nodes) cut += node.children_cut;
  if (cut > 0)
    text += StrFormat("... {} smaller branches (--min-share, --limit)\n", WithThousands(cut));
  return text;
}

std::string RenderQualityText(const Profile& profile, const RenderOptions& options) {
  const LossLedger& losses = profile.losses;
  std::string text = Styled(kBold, "samples\n", options);
  text += StrFormat("{:>14}  captured\n{:>14}  kept\n", WithThousands(losses.captured()),
                    WithThousands(losses.kept()));
  for (const LossEntry& entry : losses.Entries()) {
    text +=
        StrFormat("{:>14}  {} {}: {} {}\n", WithThousands(entry.count),
                  entry.unit == LossUnit::kSamples ? "lost" : "skipped", LossUnitName(entry.unit),
                  LossStageName(entry.stage), LossReasonName(entry.reason));
  }
  text += Styled(kBold, "stacks\n", options);
  text += StrFormat("{:>14}  complete\n", WithThousands(profile.quality.stacks_complete));
  for (const auto& [reason, count] : profile.quality.stacks_cut) {
    text += StrFormat("{:>14}  cut: {}\n", WithThousands(count), reason);
  }
  for (const auto& [result, count] : profile.quality.lbr_checks) {
    text += StrFormat("{:>14}  from branch records: {}\n", WithThousands(count), result);
  }
  text += Styled(kBold, "frames\n", options);
  text += StrFormat("{:>14}  symbolized\n", WithThousands(profile.quality.frames_symbolized));
  std::vector<std::pair<uint64_t, std::pair<std::string, std::string>>> worst;
  for (const auto& [key, count] : profile.quality.frames_unsymbolized)
    worst.emplace_back(count, key);
  std::ranges::sort(worst, std::greater<>());
  for (const auto& [count, key] : worst) {
    text += StrFormat("{:>14}  without symbols: {} ({})\n", WithThousands(count), key.first,
                      key.second);
  }
  if (!profile.quality.trace_bytes.empty()) {
    text += Styled(kBold, "trace bytes\n", options);
    for (const auto& [fate, bytes] : profile.quality.trace_bytes) {
      text += StrFormat("{:>14}  {}\n", WithThousands(bytes), fate);
    }
  }
  text += Styled(kBold, "events\n", options);
  for (const EventTotal& event : profile.events) {
    text += StrFormat("{:>14}  {}, period sum {}\n", WithThousands(event.samples), event.name,
                      WithThousands(event.period_sum));
  }
  return text;
}

}  // namespace ptarmigan
