#include "query/branches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "query/internal/code_places.h"

namespace ptarmigan {
namespace {

// Two-sided 95 % of the normal distribution.
constexpr double kNormalQuantile = 1.959963984540054;

auto OrderOf(const CodePlace& place) {
  return std::tuple(place.object, place.build_id, place.address);
}

}  // namespace

Interval WilsonInterval(uint64_t hits, uint64_t trials) {
  if (trials == 0) return {};
  const auto n = static_cast<double>(trials);
  const double rate = static_cast<double>(std::min(hits, trials)) / n;
  const double z2 = kNormalQuantile * kNormalQuantile;
  const double centre = (rate + z2 / (2 * n)) / (1 + z2 / n);
  const double half =
      kNormalQuantile / (1 + z2 / n) * std::sqrt(rate * (1 - rate) / n + z2 / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

BranchReport MakeBranchReport(const Profile& profile, size_t rows_max,
                              const LocationFilter* filter) {
  const BranchSummary& summary = profile.summary.branches;
  const internal::CodePlaces places(profile);
  const auto is_chosen = [&](LocationId first, LocationId second) {
    return filter == nullptr || filter->Keeps(std::array{first, second});
  };
  BranchReport report;
  report.edges.reserve(summary.edges.size());
  report.blocks.reserve(summary.blocks.size());
  for (const BranchSummary::Edge& edge : summary.edges) {
    if (!is_chosen(edge.from, edge.to)) continue;
    report.branches += edge.count;
    report.mispredicted += edge.mispredicted;
    report.predicted += edge.predicted;
    report.edges.push_back(
        {.from = places.Of(edge.from),
         .to = places.Of(edge.to),
         .edge = edge,
         .mispredict_rate = WilsonInterval(edge.mispredicted, edge.mispredicted + edge.predicted)});
  }
  for (const BranchSummary::Block& block : summary.blocks) {
    if (!is_chosen(block.start, block.end)) continue;
    BlockRow row;
    row.start = places.Of(block.start);
    row.end = places.Of(block.end);
    row.block = block;
    row.cycles = FiguresOf(summary.Cycles(block));
    if (block.instructions > 0 && row.cycles.median > 0) {
      row.instructions_per_cycle = block.instructions / row.cycles.median;
    }
    report.blocks.push_back(row);
  }
  std::ranges::sort(report.edges, [](const EdgeRow& a, const EdgeRow& b) {
    if (a.edge.count != b.edge.count) return a.edge.count > b.edge.count;
    return std::pair(OrderOf(a.from), OrderOf(a.to)) < std::pair(OrderOf(b.from), OrderOf(b.to));
  });
  std::ranges::sort(report.blocks, [](const BlockRow& a, const BlockRow& b) {
    if (a.block.count != b.block.count) return a.block.count > b.block.count;
    return std::pair(OrderOf(a.start), OrderOf(a.end)) <
           std::pair(OrderOf(b.start), OrderOf(b.end));
  });
  if (report.edges.size() > rows_max) {
    report.edges_cut = report.edges.size() - rows_max;
    report.edges.resize(rows_max);
  }
  if (report.blocks.size() > rows_max) {
    report.blocks_cut = report.blocks.size() - rows_max;
    report.blocks.resize(rows_max);
  }
  return report;
}

}  // namespace ptarmigan
