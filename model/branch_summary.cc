#include "model/branch_summary.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace ptarmigan {
namespace {

// The values of a hash map, the largest count first, and then by `ids`, so that the order is the same every time.
template <typename Value, typename Map, typename Ids>
std::vector<Value> Ordered(const Map& map, Ids ids) {
  std::vector<Value> values;
  values.reserve(map.size());
  for (const auto& [key, value] : map) values.push_back(value);
  std::ranges::sort(values, [&](const Value& a, const Value& b) {
    return a.count != b.count ? a.count > b.count : ids(a) < ids(b);
  });
  return values;
}

}  // namespace

struct BranchSummaryBuilder::Tables {
  absl::flat_hash_map<Run, BranchSummary::Edge> edges;
  absl::flat_hash_map<Run, BranchSummary::Block> blocks;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, BranchSummary::Trace> traces;
  absl::flat_hash_map<Run, std::vector<BranchSummary::CycleCount>> cycles;  // rising
  std::vector<BranchSummary::CycleCount> merged;                            // only during AddCycles
  std::map<uint32_t, uint64_t> function_starts;
  uint64_t ranges_rejected = 0;
  uint64_t wrong_path = 0;
};

BranchSummaryBuilder::BranchSummaryBuilder() : tables_(std::make_unique<Tables>()) {}
BranchSummaryBuilder::~BranchSummaryBuilder() = default;

void BranchSummaryBuilder::Reserve(size_t traces) {
  tables_->traces.reserve(traces);
  tables_->edges.reserve(traces / 2);
  tables_->blocks.reserve(traces / 2);
}

void BranchSummaryBuilder::AddEdge(const BranchSummary::Edge& edge) {
  const auto [at, is_new] = tables_->edges.try_emplace({edge.from, edge.to}, edge);
  if (is_new) return;
  at->second.count += edge.count;
  at->second.mispredicted += edge.mispredicted;
  at->second.predicted += edge.predicted;
  at->second.cycles_sum += edge.cycles_sum;
}

void BranchSummaryBuilder::AddBlock(const BranchSummary::Block& block) {
  const BranchSummary::Block plain{.start = block.start,
                                   .end = block.end,
                                   .count = block.count,
                                   .instructions = block.instructions};
  const auto [at, is_new] = tables_->blocks.try_emplace({block.start, block.end}, plain);
  if (is_new) return;
  at->second.count += block.count;
  at->second.instructions = std::max(at->second.instructions, block.instructions);
}

void BranchSummaryBuilder::AddCycles(Run run, std::span<const BranchSummary::CycleCount> cycles) {
  if (cycles.empty()) return;
  std::vector<BranchSummary::CycleCount>& known = tables_->cycles[run];
  if (known.empty()) {
    known.assign(cycles.begin(), cycles.end());
    return;
  }
  std::vector<BranchSummary::CycleCount>& merged = tables_->merged;
  merged.clear();
  auto at = known.begin();
  for (const BranchSummary::CycleCount& count : cycles) {
    while (at != known.end() && at->cycles < count.cycles) merged.push_back(*at++);
    merged.push_back(count);
    if (at != known.end() && at->cycles == count.cycles) {
      merged.back().executions += at->executions;
      ++at;
    }
  }
  merged.insert(merged.end(), at, known.end());
  std::swap(known, merged);
}

void BranchSummaryBuilder::AddTrace(const BranchSummary::Trace& trace) {
  const auto [at, is_new] = tables_->traces.try_emplace({trace.from, trace.to, trace.end}, trace);
  if (is_new) return;
  at->second.count += trace.count;
  at->second.mispredicted += trace.mispredicted;
  at->second.is_return |= trace.is_return;
}

void BranchSummaryBuilder::AddFunctionStart(uint32_t location, uint64_t address) {
  tables_->function_starts[location] = address;
}

void BranchSummaryBuilder::AddRejected(uint64_t ranges) { tables_->ranges_rejected += ranges; }

void BranchSummaryBuilder::AddWrongPath(uint64_t entries) { tables_->wrong_path += entries; }

void BranchSummaryBuilder::Add(const BranchSummary& other, std::span<const uint32_t> locations) {
  const auto here = [&](uint32_t location) {
    return location < locations.size() ? locations[location] : BranchSummary::kNone;
  };
  for (BranchSummary::Edge edge : other.edges) {
    edge.from = here(edge.from);
    edge.to = here(edge.to);
    AddEdge(edge);
  }
  for (BranchSummary::Block block : other.blocks) {
    block.start = here(block.start);
    block.end = here(block.end);
    AddBlock(block);
    AddCycles({block.start, block.end}, other.Cycles(block));
  }
  for (BranchSummary::Trace trace : other.traces) {
    trace.from = here(trace.from);
    trace.to = here(trace.to);
    trace.end = here(trace.end);
    AddTrace(trace);
  }
  for (const auto& [location, address] : other.function_starts) {
    if (here(location) != BranchSummary::kNone) AddFunctionStart(here(location), address);
  }
  tables_->ranges_rejected += other.ranges_rejected;
  tables_->wrong_path += other.wrong_path;
}

BranchSummary BranchSummaryBuilder::Finish() {
  BranchSummary summary;
  summary.edges = Ordered<BranchSummary::Edge>(
      tables_->edges, [](const auto& edge) { return std::pair(edge.from, edge.to); });
  summary.blocks = Ordered<BranchSummary::Block>(
      tables_->blocks, [](const auto& block) { return std::pair(block.start, block.end); });
  summary.traces = Ordered<BranchSummary::Trace>(tables_->traces, [](const auto& trace) {
    return std::tuple(trace.from, trace.to, trace.end);
  });

  for (BranchSummary::Block& block : summary.blocks) {
    const auto found = tables_->cycles.find({block.start, block.end});
    if (found == tables_->cycles.end()) continue;
    block.cycles_begin = summary.cycle_counts.size();
    block.cycles_size = static_cast<uint32_t>(found->second.size());
    summary.cycle_counts.insert(summary.cycle_counts.end(), found->second.begin(),
                                found->second.end());
  }
  for (const auto& [location, address] : tables_->function_starts) {
    summary.function_starts.push_back({location, address});
  }
  summary.ranges_rejected = tables_->ranges_rejected;
  summary.wrong_path = tables_->wrong_path;
  *tables_ = Tables();
  return summary;
}

CycleFigures FiguresOf(std::span<const BranchSummary::CycleCount> cycles) {
  CycleFigures figures;
  if (cycles.empty()) return figures;
  for (const auto& [value, executions] : cycles) {
    figures.executions += executions;
    if (value >= BranchSummary::kCyclesSaturated) figures.saturated += executions;
  }
  figures.min = cycles.front().cycles;
  figures.max = cycles.back().cycles;
  const auto at = [&](uint64_t rank) {
    uint64_t below = 0;
    for (const auto& [value, executions] : cycles) {
      below += executions;
      if (rank < below) return value;
    }
    return figures.max;
  };
  const uint64_t n = figures.executions;
  if (n > 0) figures.median = (double{1} * at((n - 1) / 2) + at(n / 2)) / 2;
  return figures;
}

}  // namespace ptarmigan
