#include "model/branch_summary.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/large_pages.h"
#include "base/radix_sort.h"

namespace ptarmigan {
namespace {

using CycleCount = BranchSummary::CycleCount;

constexpr uint64_t PairKey(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

// The order of many small values: sorting moves keys and numbers instead of the values.
class Order {
 public:
  explicit Order(size_t size) : items_(size) {
    for (uint32_t i = 0; i < size; ++i) items_[i].index = i;
  }
  // By `key_of(index)`; equal ones stay as they stood.
  template <typename KeyOf>
  void SortBy(const KeyOf& key_of) {
    for (Item& item : items_) item.key = key_of(item.index);
    RadixSort(
        std::span(items_), [](const Item& item) { return item.key; }, &scratch_);
  }
  size_t size() const { return items_.size(); }
  uint32_t operator[](size_t at) const { return items_[at].index; }

 private:
  struct Item {
    uint64_t key = 0;
    uint32_t index = 0;
  };
  std::vector<Item> items_;
  std::vector<Item> scratch_;
};

// How values of each kind are told apart and added up.
struct EdgeRules {
  static void Sort(const std::vector<BranchSummary::Edge>& edges, Order* order) {
    order->SortBy([&edges](uint32_t i) { return PairKey(edges[i].from, edges[i].to); });
  }
  static bool AreSame(const BranchSummary::Edge& a, const BranchSummary::Edge& b) {
    return a.from == b.from && a.to == b.to;
  }
  static void Add(const BranchSummary::Edge& more, BranchSummary::Edge* sum) {
    sum->count += more.count;
    sum->mispredicted += more.mispredicted;
    sum->predicted += more.predicted;
    sum->cycles_sum += more.cycles_sum;
  }
};

struct BlockRules {
  static void Sort(const std::vector<BranchSummary::Block>& blocks, Order* order) {
    order->SortBy([&blocks](uint32_t i) { return PairKey(blocks[i].start, blocks[i].end); });
  }
  static bool AreSame(const BranchSummary::Block& a, const BranchSummary::Block& b) {
    return a.start == b.start && a.end == b.end;
  }
  static void Add(const BranchSummary::Block& more, BranchSummary::Block* sum) {
    sum->count += more.count;
    sum->instructions = std::max(sum->instructions, more.instructions);
  }
};

struct TraceRules {
  static void Sort(const std::vector<BranchSummary::Trace>& traces, Order* order) {
    order->SortBy([&traces](uint32_t i) { return traces[i].end; });
    order->SortBy([&traces](uint32_t i) { return PairKey(traces[i].from, traces[i].to); });
  }
  static bool AreSame(const BranchSummary::Trace& a, const BranchSummary::Trace& b) {
    return a.from == b.from && a.to == b.to && a.end == b.end;
  }
  static void Add(const BranchSummary::Trace& more, BranchSummary::Trace* sum) {
    sum->count += more.count;
    sum->mispredicted += more.mispredicted;
    sum->is_return |= more.is_return;
  }
};

// What was added, in any order and as often as it came; equal ones are added up from time to time and at the end. (Hash
// tables of each kind took most of the time of a whole recording: every value was a cache miss of its own.)
template <typename Value, typename Rules>
class Sums {
 public:
  void Reserve(size_t size) { values_.reserve(size); }
  void Add(const Value& value) {
    if (values_.size() >= combine_at_) Combine();
    values_.push_back(value);
  }
  // By ids, each once.
  std::vector<Value> TakeById() {
    Combine();
    return std::move(values_);
  }

 private:
  static constexpr size_t kCombineMin = size_t{1} << 16;

  void Combine() {
    Order order(values_.size());
    Rules::Sort(values_, &order);
    std::vector<Value> combined;
    combined.reserve(values_.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const Value& next = values_[order[i]];
      if (!combined.empty() && Rules::AreSame(combined.back(), next)) {
        Rules::Add(next, &combined.back());
      } else {
        combined.push_back(next);
      }
    }
    values_ = std::move(combined);
    combine_at_ = std::max(kCombineMin, values_.size() * 2);
  }

  std::vector<Value> values_;
  size_t combine_at_ = kCombineMin;
};

// The largest count first, then by ids, as `values` are.
template <typename Value>
std::vector<Value> ByCount(const std::vector<Value>& values) {
  Order order(values.size());
  order.SortBy([&values](uint32_t i) { return ~values[i].count; });
  std::vector<Value> sorted;
  sorted.reserve(values.size());
  for (size_t i = 0; i < order.size(); ++i) sorted.push_back(values[order[i]]);
  return sorted;
}

// The cycles of runs, in pieces that stay where they are.
class CyclePool {
 public:
  void Add(BranchSummaryBuilder::Run run, std::span<const CycleCount> cycles) {
    if (counts_ >= combine_at_) Combine();
    Append(run, cycles);
  }

  // The pieces ordered by run.
  Order ByRun() const {
    Order order(pieces_.size());
    order.SortBy(
        [this](uint32_t i) { return PairKey(pieces_[i].run.first, pieces_[i].run.second); });
    return order;
  }
  BranchSummaryBuilder::Run RunOf(uint32_t piece) const { return pieces_[piece].run; }
  size_t counts() const { return counts_; }

  // Appends what pieces order[begin, end) of one run add up to.
  void AppendSum(const Order& order, size_t begin, size_t end, std::vector<CycleCount>* sum) {
    const auto sum_begin = static_cast<ptrdiff_t>(sum->size());
    const auto append = [sum](std::span<const CycleCount> counts) {
      sum->insert(sum->end(), counts.begin(), counts.end());
    };
    append(pieces_[order[begin]].counts);
    for (size_t i = begin + 1; i < end; ++i) {
      known_.assign(sum->begin() + sum_begin, sum->end());
      sum->resize(static_cast<size_t>(sum_begin));
      auto at = known_.begin();
      for (const CycleCount& count : pieces_[order[i]].counts) {
        while (at != known_.end() && at->cycles < count.cycles) sum->push_back(*at++);
        sum->push_back(count);
        if (at != known_.end() && at->cycles == count.cycles) {
          sum->back().executions += at->executions;
          ++at;
        }
      }
      sum->insert(sum->end(), at, known_.end());
    }
  }

 private:
  static constexpr size_t kCombineMin = size_t{1} << 16;
  static constexpr size_t kChunkCounts = size_t{1} << 16;

  struct Piece {
    BranchSummaryBuilder::Run run;
    std::span<const CycleCount> counts;
  };

  void Append(BranchSummaryBuilder::Run run, std::span<const CycleCount> cycles) {
    if (chunks_.empty() || chunks_.back().capacity() - chunks_.back().size() < cycles.size()) {
      chunks_.emplace_back().reserve(std::max(kChunkCounts, cycles.size()));
    }
    LargeVector<CycleCount>& chunk = chunks_.back();
    const size_t begin = chunk.size();
    chunk.insert(chunk.end(), cycles.begin(), cycles.end());
    pieces_.push_back({run, std::span<const CycleCount>(chunk).subspan(begin)});
    counts_ += cycles.size();
  }

  void Combine() {
    const Order order = ByRun();
    CyclePool combined;
    std::vector<CycleCount> sum;
    for (size_t begin = 0; begin < order.size();) {
      const BranchSummaryBuilder::Run run = RunOf(order[begin]);
      size_t end = begin + 1;
      while (end < order.size() && RunOf(order[end]) == run) ++end;
      sum.clear();
      AppendSum(order, begin, end, &sum);
      combined.Append(run, sum);
      begin = end;
    }
    combined.combine_at_ = std::max(kCombineMin, combined.counts_ * 2);
    *this = std::move(combined);
  }

  std::vector<LargeVector<CycleCount>> chunks_;  // none grows beyond what was reserved for it
  std::vector<Piece> pieces_;
  size_t counts_ = 0;
  std::vector<CycleCount> known_;  // only during AppendSum
  size_t combine_at_ = kCombineMin;
};

}  // namespace

struct BranchSummaryBuilder::Tables {
  Sums<BranchSummary::Edge, EdgeRules> edges;
  Sums<BranchSummary::Block, BlockRules> blocks;
  Sums<BranchSummary::Trace, TraceRules> traces;
  CyclePool cycles;
  std::vector<BranchSummary::FunctionStart> function_starts;
  uint64_t ranges_rejected = 0;
  uint64_t wrong_path = 0;
};

BranchSummaryBuilder::BranchSummaryBuilder() : tables_(std::make_unique<Tables>()) {}
BranchSummaryBuilder::~BranchSummaryBuilder() = default;

void BranchSummaryBuilder::Reserve(size_t traces) {
  tables_->edges.Reserve(traces);
  tables_->blocks.Reserve(traces);
  tables_->traces.Reserve(traces);
}

void BranchSummaryBuilder::AddEdge(const BranchSummary::Edge& edge) { tables_->edges.Add(edge); }

void BranchSummaryBuilder::AddBlock(const BranchSummary::Block& block) {
  tables_->blocks.Add({.start = block.start,
                       .end = block.end,
                       .count = block.count,
                       .instructions = block.instructions});
}

void BranchSummaryBuilder::AddCycles(Run run, std::span<const CycleCount> cycles) {
  if (!cycles.empty()) tables_->cycles.Add(run, cycles);
}

void BranchSummaryBuilder::AddTrace(const BranchSummary::Trace& trace) {
  tables_->traces.Add(trace);
}

void BranchSummaryBuilder::AddFunctionStart(uint32_t location, uint64_t address) {
  tables_->function_starts.push_back({location, address});
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
  summary.edges = ByCount(tables_->edges.TakeById());
  summary.traces = ByCount(tables_->traces.TakeById());

  std::vector<BranchSummary::Block> blocks = tables_->blocks.TakeById();
  CyclePool& cycles = tables_->cycles;
  const Order pieces = cycles.ByRun();
  // Both are in the order of runs: where a block's pieces begin is told by cycles_begin, and how many there are by
  // cycles_size, until the blocks have their places.
  size_t piece = 0;
  for (BranchSummary::Block& block : blocks) {
    const Run run(block.start, block.end);
    while (piece < pieces.size() && cycles.RunOf(pieces[piece]) < run) ++piece;
    block.cycles_begin = piece;
    for (; piece < pieces.size() && cycles.RunOf(pieces[piece]) == run; ++piece) {
      ++block.cycles_size;
    }
  }
  summary.blocks = ByCount(blocks);
  summary.cycle_counts.reserve(cycles.counts());
  for (BranchSummary::Block& block : summary.blocks) {
    const size_t first = std::exchange(block.cycles_begin, summary.cycle_counts.size());
    if (block.cycles_size == 0) {
      block.cycles_begin = 0;
      continue;
    }
    cycles.AppendSum(pieces, first, first + block.cycles_size, &summary.cycle_counts);
    block.cycles_size = static_cast<uint32_t>(summary.cycle_counts.size() - block.cycles_begin);
  }

  std::vector<BranchSummary::FunctionStart>& starts = tables_->function_starts;
  std::ranges::stable_sort(starts, {}, &BranchSummary::FunctionStart::location);
  for (const BranchSummary::FunctionStart& start : starts) {
    const bool is_again = !summary.function_starts.empty() &&
                          summary.function_starts.back().location == start.location;
    if (!is_again) summary.function_starts.push_back(start);
    summary.function_starts.back() = start;  // the last one counts
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
