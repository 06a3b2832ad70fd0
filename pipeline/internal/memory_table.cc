#include "pipeline/internal/memory_table.h"

#include <algorithm>
#include <utility>

#include "model/memory_summary.h"
#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {

void MemoryTable::Add(uint32_t row, uint32_t place, const MemSample& sample) {
  Sums sums = {};
  for (size_t i = 0; i < kMemLatencies; ++i) {
    const auto which = static_cast<MemLatency>(i);
    if (!sample.Has(which)) continue;
    sums[i] = sample.latency[i];
    if (place != StackTable::kNoPlace) CountLatency(place, which, sample.latency[i]);
  }
  AddSums(row, sample.has_latency, sums);
  if (!keeps_details_) return;
  const bool loads = sample.op == MemOp::kLoad || sample.op == MemOp::kLoadStore;
  const bool stores = sample.op == MemOp::kStore || sample.op == MemOp::kLoadStore;
  if ((!loads && !stores) || (!sample.has_data_address && !sample.has_physical_address)) return;
  // Two processes share memory at different virtual addresses; the physical one tells, where it is recorded.
  const bool is_physical = sample.has_physical_address;
  CountAccess({.loads = loads,
               .stores = stores,
               .is_physical = is_physical,
               .address = is_physical ? sample.physical_address : sample.data_address.value,
               .pid = sample.identity.pid,
               .tid = sample.identity.tid,
               .latency = sample.latency[static_cast<size_t>(MemLatency::kTotal)]});
}

void MemoryTable::AddSums(uint32_t row, uint8_t latencies, const Sums& sums) {
  if (row >= sums_.size()) sums_.resize(row + 1);
  latencies_ |= latencies;
  for (size_t i = 0; i < kMemLatencies; ++i) {
    uint64_t& sum = sums_[row][i];
    if (__builtin_add_overflow(sum, sums[i], &sum)) sum = UINT64_MAX;
  }
}

void MemoryTable::Threads::Add(int32_t tid) {
  const auto known = std::span(tids).first(count);
  if (count < kMax && std::ranges::find(known, tid) == known.end()) tids[count++] = tid;
}

void MemoryTable::Threads::Add(const Threads& others) {
  for (const int32_t tid : std::span(others.tids).first(others.count)) Add(tid);
}

MemoryTable::Line* MemoryTable::FindLine(uint64_t address, uint32_t space, uint64_t accesses) {
  const CompactIndex::Key key{address, space};
  if (lines_.size() == kLinesMax && !line_index_.Contains(key)) {
    lines_not_counted_ += accesses;
    return nullptr;
  }
  const auto next = static_cast<uint32_t>(lines_.size());
  const uint32_t found = line_index_.FindOrInsert(key, next);
  if (found == next) {
    Line& line = lines_.emplace_back();
    line.address = address;
    line.space = space;
  }
  return &lines_[found];
}

void MemoryTable::CountAccess(const Access& access) {
  if (!keeps_details_) return;
  Line* line = FindLine(access.address / kLineBytes * kLineBytes,
                        access.is_physical ? kPhysical : static_cast<uint32_t>(access.pid), 1);
  if (line == nullptr) return;
  if (access.stores) {
    line->writers.Add(access.tid);
    ++line->stores;
  }
  if (access.loads) {
    line->readers.Add(access.tid);
    ++line->loads;
    line->latency_sum += access.latency;
  }
}

void MemoryTable::AddPlacesOf(MemoryTable* other) {
  lines_not_counted_ += other->lines_not_counted_;
  if (counts_.empty() && lines_.empty()) {
    std::swap(counts_, other->counts_);
    std::swap(line_index_, other->line_index_);
    std::swap(lines_, other->lines_);
    return;
  }
  counts_.Add(&other->counts_);
  for (const Line& theirs : other->lines_) {
    Line* line = FindLine(theirs.address, theirs.space, theirs.stores + theirs.loads);
    if (line == nullptr) continue;
    line->writers.Add(theirs.writers);
    line->readers.Add(theirs.readers);
    line->stores += theirs.stores;
    line->loads += theirs.loads;
    line->latency_sum += theirs.latency_sum;
  }
}

size_t MemoryTable::MemoryBytes() const {
  return sums_.size() * sizeof(Sums) + counts_.MemoryBytes() + lines_.size() * sizeof(Line) +
         line_index_.MemoryBytes();
}

std::vector<MemorySummary::Distribution> MemoryTable::TakeDistributions(
    std::span<const LocationId> locations) {
  MemorySummary summary;
  for (const LatencyCounts::Entry& entry : counts_.Entries()) {
    auto& distributions = summary.distributions;
    if (distributions.empty() || distributions.back().location != entry.place() ||
        distributions.back().which != entry.which()) {
      distributions.push_back({.location = entry.place(), .which = entry.which(), .counts = {}});
    }
    distributions.back().counts.emplace_back(entry.cycles(), entry.samples);
  }
  // Several places can be one location.
  MemorySummary by_location;
  AddMemorySummary(summary, locations, &by_location);
  return std::move(by_location.distributions);
}

std::vector<MemorySummary::SharedLine> MemoryTable::TakeLines() {
  std::vector<MemorySummary::SharedLine> shared;
  for (const Line& line : lines_) {
    if (line.writers.count < 2) continue;
    shared.push_back({.address = line.address,
                      .is_physical = line.space == kPhysical,
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
  *this = MemoryTable(keeps_details_);
  return summary;
}

}  // namespace ptarmigan::internal
