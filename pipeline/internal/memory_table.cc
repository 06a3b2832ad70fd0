#include "pipeline/internal/memory_table.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "model/memory_summary.h"
#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {
namespace {

uint32_t RoundDown(uint32_t cycles) {
  const int extra_bits = static_cast<int>(std::bit_width(cycles)) - 4;
  return extra_bits > 0 ? cycles >> extra_bits << extra_bits : cycles;
}

}  // namespace

void MemoryTable::Add(uint32_t row, uint32_t place, const MemSample& sample) {
  if (row >= sums_.size()) sums_.resize(row + 1);
  latencies_ |= sample.has_latency;
  Sums& sums = sums_[row];
  for (size_t i = 0; i < kMemLatencies; ++i) {
    const auto which = static_cast<MemLatency>(i);
    if (!sample.Has(which)) continue;
    if (__builtin_add_overflow(sums[i], uint64_t{sample.latency[i]}, &sums[i])) {
      sums[i] = UINT64_MAX;
    }
    if (place != StackTable::kNoPlace) {
      CountLatency(place, which,
                   static_cast<uint32_t>(std::min<uint64_t>(sample.latency[i], UINT32_MAX)));
    }
  }
  const bool touches_memory =
      sample.op == MemOp::kLoad || sample.op == MemOp::kStore || sample.op == MemOp::kLoadStore;
  if (touches_memory && (sample.has_data_address || sample.has_physical_address)) AddToLine(sample);
}

void MemoryTable::CountLatency(uint32_t place, MemLatency which, uint32_t cycles) {
  if (counts_.size() >= kExactCountsMax) cycles = RoundDown(cycles);
  const auto next = static_cast<uint32_t>(counts_.size());
  const uint32_t found = count_index_.FindOrInsert(
      {uint64_t{place} << 32 | cycles, static_cast<uint32_t>(which)}, next);
  if (found == next) counts_.push_back({.place = place, .cycles = cycles, .which = which});
  ++counts_[found].samples;
}

void MemoryTable::Threads::Add(int32_t tid) {
  const auto known = std::span(tids).first(count);
  if (count < kMax && std::ranges::find(known, tid) == known.end()) tids[count++] = tid;
}

void MemoryTable::AddToLine(const MemSample& sample) {
  // Two processes share memory at different virtual addresses; the physical one tells, where it is recorded.
  const bool is_physical = sample.has_physical_address;
  const uint64_t address =
      (is_physical ? sample.physical_address : sample.data_address.value) / kLineBytes * kLineBytes;
  const auto space = is_physical ? UINT32_MAX : static_cast<uint32_t>(sample.identity.pid);
  const auto next = static_cast<uint32_t>(lines_.size());
  const CompactIndex::Key key{address, space};
  // Nothing new enters a full table, but what it holds is found.
  if (lines_.size() == kLinesMax && !line_index_.Contains(key)) {
    ++lines_not_counted_;
    return;
  }
  const uint32_t found = line_index_.FindOrInsert(key, next);
  if (found == next) {
    Line& line = lines_.emplace_back();
    line.address = address;
    line.is_physical = is_physical;
  }
  Line& line = lines_[found];
  if (sample.op != MemOp::kLoad) {
    line.writers.Add(sample.identity.tid);
    ++line.stores;
  }
  if (sample.op != MemOp::kStore) {
    line.readers.Add(sample.identity.tid);
    ++line.loads;
    line.latency_sum += sample.latency[static_cast<size_t>(MemLatency::kTotal)];
  }
}

std::vector<MemorySummary::Distribution> MemoryTable::TakeDistributions(
    std::span<const LocationId> locations) {
  // Several places can be one location.
  for (Count& count : counts_) count.place = locations[count.place];
  std::ranges::sort(counts_, {}, [](const Count& count) {
    return std::tuple(count.place, count.which, count.cycles);
  });
  std::vector<MemorySummary::Distribution> distributions;
  for (const Count& count : counts_) {
    if (distributions.empty() || distributions.back().location != count.place ||
        distributions.back().which != count.which) {
      distributions.push_back({.location = count.place, .which = count.which, .counts = {}});
    }
    auto& counts = distributions.back().counts;
    if (counts.empty() || counts.back().first != count.cycles) counts.emplace_back(count.cycles, 0);
    counts.back().second += count.samples;
  }
  return distributions;
}

std::vector<MemorySummary::SharedLine> MemoryTable::TakeLines() {
  std::vector<MemorySummary::SharedLine> shared;
  for (const Line& line : lines_) {
    if (line.writers.count < 2) continue;
    shared.push_back({.address = line.address,
                      .is_physical = line.is_physical,
                      .writers = line.writers.count,
                      .readers = line.readers.count,
                      .stores = line.stores,
                      .loads = line.loads,
                      .latency_sum = line.latency_sum});
  }
  SortSharedLines(&shared);
  return shared;
}

MemorySummary MemoryTable::Finish(std::span<const LocationId> locations) {
  MemorySummary summary{.distributions = TakeDistributions(locations),
                        .lines = TakeLines(),
                        .lines_not_counted = lines_not_counted_};
  *this = MemoryTable();
  return summary;
}

}  // namespace ptarmigan::internal
