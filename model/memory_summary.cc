#include "model/memory_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace ptarmigan {

void AddCounts(std::span<const MemorySummary::CyclesCount> source,
               std::vector<MemorySummary::CyclesCount>* into) {
  std::vector<MemorySummary::CyclesCount> sum;
  sum.reserve(into->size() + source.size());
  auto ours = into->begin();
  for (const auto& [cycles, samples] : source) {
    while (ours != into->end() && ours->first < cycles) sum.push_back(*ours++);
    sum.emplace_back(cycles, samples);
    if (ours != into->end() && ours->first == cycles) sum.back().second += (ours++)->second;
  }
  sum.insert(sum.end(), ours, into->end());
  *into = std::move(sum);
}

uint32_t QuantileOf(std::span<const MemorySummary::CyclesCount> counts, double share) {
  uint64_t total = 0;
  for (const auto& [cycles, samples] : counts) total += samples;
  const double wanted = std::ceil(share * static_cast<double>(total));
  uint64_t seen = 0;
  for (const auto& [cycles, samples] : counts) {
    seen += samples;
    if (static_cast<double>(seen) >= wanted) return cycles;
  }
  return 0;
}

void SortSharedLines(std::vector<MemorySummary::SharedLine>* lines) {
  std::ranges::sort(*lines, {}, [](const MemorySummary::SharedLine& line) {
    return std::tuple(~(line.stores + line.loads), line.address, line.is_physical);
  });
}

void AddMemorySummary(const MemorySummary& source, std::span<const uint32_t> locations,
                      MemorySummary* into) {
  using Distribution = MemorySummary::Distribution;
  const auto order = [](const Distribution& distribution) {
    return std::tuple(distribution.location, distribution.which);
  };
  std::map<std::tuple<uint32_t, MemLatency>, Distribution> merged;
  for (Distribution& distribution : into->distributions) {
    const auto key = order(distribution);
    merged.emplace(key, std::move(distribution));
  }
  for (Distribution distribution : source.distributions) {
    distribution.location = locations[distribution.location];
    const auto [known, is_new] = merged.try_emplace(order(distribution), distribution);
    if (!is_new) AddCounts(distribution.counts, &known->second.counts);
  }
  into->distributions.clear();
  for (auto& [key, distribution] : merged) into->distributions.push_back(std::move(distribution));
  // Lines of different recordings are different memory, whatever their addresses.
  into->lines.insert(into->lines.end(), source.lines.begin(), source.lines.end());
  SortSharedLines(&into->lines);
  into->lines_not_counted += source.lines_not_counted;
}

}  // namespace ptarmigan
