// MemoryTable: what memory samples say beyond a count, while they arrive: sums of latencies for each row of the
// StackTable, how often each latency was seen at each place, and which threads wrote which cache line. Grows with what is
// distinct; beyond their bounds latencies are rounded down, and accesses of further cache lines only counted.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/compact_index.h"
#include "base/large_pages.h"
#include "model/mem_sample.h"
#include "model/profile.h"
#include "model/trace_summary.h"
#include "pipeline/internal/latency_counts.h"

namespace ptarmigan::internal {

class MemoryTable {
 public:
  // Cache lines that are watched; samples of others are counted in MemorySummary::lines_not_counted.
  static constexpr size_t kLinesMax = size_t{1} << 14;
  // Every processor with SPE, IBS or PEBS that has other lines has larger ones, which are then seen as two.
  static constexpr uint64_t kLineBytes = 64;

  using Sums = std::array<uint64_t, kMemLatencies>;

  // Without details there are only the sums by row, and no summary: what a profile without one (pprof) needs.
  explicit MemoryTable(bool keeps_details = true) : keeps_details_(keeps_details) {}

  // `row` is where the StackTable counted the sample, `place` its leaf (StackTable::kNoPlace: it has none).
  void Add(uint32_t row, uint32_t place, const MemSample& sample);

  // The parts of Add, for those who count rows elsewhere. `latencies` has bit MemLatency for each that the sums are of.
  void AddSums(uint32_t row, uint8_t latencies, const Sums& sums);
  // Sets address space aside for the sums of so many rows.
  void ReserveRows(size_t rows) { sums_.reserve(rows); }
  void CountLatency(uint32_t place, MemLatency which, uint64_t cycles) {
    if (keeps_details_) counts_.Add(place, which, cycles);
  }
  struct Access {
    bool loads = false;
    bool stores = false;
    bool is_physical = false;
    uint64_t address = 0;
    int32_t pid = 0;
    int32_t tid = 0;
    uint64_t latency = 0;  // cycles; 0 where not recorded
  };
  void CountAccess(const Access& access);
  // Adds what `other` counted of places and lines.
  void AddPlacesOf(MemoryTable* other);
  size_t MemoryBytes() const;

  bool keeps_details() const { return keeps_details_; }
  bool empty() const { return sums_.empty(); }
  // Bit MemLatency: some sample had it.
  uint8_t latencies() const { return latencies_; }
  // Zeros for a row without memory samples.
  Sums SumsOf(uint32_t row) const { return row < sums_.size() ? sums_[row] : Sums{}; }
  // `locations[place]` is the place in the profile. The table is empty afterwards.
  MemorySummary Finish(std::span<const LocationId> locations);

 private:
  // The first threads that were seen; a line that so many threads share needs no exact number.
  struct Threads {
    static constexpr uint32_t kMax = MemorySummary::SharedLine::kThreadsMax;
    std::array<int32_t, kMax> tids = {};
    uint32_t count = 0;
    void Add(int32_t tid);
    void Add(const Threads& others);
  };
  struct Line {
    uint64_t address = 0;
    uint32_t space = 0;  // the process whose address it is, or kPhysical
    Threads writers;
    Threads readers;
    uint64_t stores = 0;
    uint64_t loads = 0;
    uint64_t latency_sum = 0;
  };

  static constexpr uint32_t kPhysical = UINT32_MAX;

  // Null (and counted) if the table is full and does not hold it.
  Line* FindLine(uint64_t address, uint32_t space, uint64_t accesses);
  std::vector<MemorySummary::Distribution> TakeDistributions(std::span<const LocationId> locations);
  std::vector<MemorySummary::SharedLine> TakeLines();

  bool keeps_details_;
  LargeVector<Sums> sums_;  // by row
  uint8_t latencies_ = 0;
  LatencyCounts counts_;
  CompactIndex line_index_;  // (address, process or kPhysical)
  std::vector<Line> lines_;
  uint64_t lines_not_counted_ = 0;
};

}  // namespace ptarmigan::internal
