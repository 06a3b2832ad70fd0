// LatencyCounts: how often each latency was seen at each place. Counting is appending: what was appended is sorted and
// counted when enough has come, which costs less than finding a counter each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/large_pages.h"
#include "model/mem_sample.h"

namespace ptarmigan::internal {

class LatencyCounts {
 public:
  // Larger latencies count as this many cycles.
  static constexpr uint64_t kCyclesMax = (uint64_t{1} << 30) - 1;
  // Appended, not counted yet.
  static constexpr size_t kPendingMax = size_t{1} << 18;
  // Distinct (place, latency, cycles). When there are more, all cycles are rounded down to four significant bits.
  static constexpr size_t kExactMax = size_t{1} << 20;

  struct Entry {
    uint64_t key = 0;
    uint64_t samples = 0;

    uint32_t place() const { return static_cast<uint32_t>(key >> 32); }
    MemLatency which() const { return static_cast<MemLatency>(key >> 30 & 3); }
    uint32_t cycles() const { return static_cast<uint32_t>(key & kCyclesMax); }
  };

  void Add(uint32_t place, MemLatency which, uint64_t cycles) {
    pending_.push_back(uint64_t{place} << 32 | static_cast<uint64_t>(which) << 30 |
                       (cycles < kCyclesMax ? cycles : kCyclesMax));
    if (pending_.size() == kPendingMax) Settle();
  }
  // Adds what `other` has counted.
  void Add(LatencyCounts* other);
  // By place, latency, cycles; each once. Valid until the next Add.
  const LargeVector<Entry>& Entries();
  bool empty() const { return pending_.empty() && entries_.empty(); }
  size_t MemoryBytes() const {
    return pending_.capacity() * 2 * sizeof(uint64_t) + entries_.size() * sizeof(Entry);
  }

 private:
  void Settle();
  void Merge(const LargeVector<Entry>& more);
  void RoundDown();

  std::vector<uint64_t> pending_;
  std::vector<uint64_t> scratch_;
  LargeVector<Entry> entries_;  // in order
  LargeVector<Entry> merged_;   // memory for the next merge
  bool is_rounded_ = false;
};

}  // namespace ptarmigan::internal
