// The `memory` view: per function, where its loads were served from and how long its operations took; and cache lines
// that several threads write.
//
// Made of the rows with label kind=memory; medians and percentiles, and how many samples had a latency at all, need the
// profile's MemorySummary, which pprof files do not carry.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/mem_sample.h"
#include "model/profile.h"
#include "query/entities.h"

namespace ptarmigan {

struct MemoryLatency {
  uint64_t sum = 0;
  uint64_t count = 0;  // samples that have it; 0 also where the profile does not say
  uint32_t p50 = 0;    // cycles; only if count > 0
  uint32_t p99 = 0;
  double mean() const {
    return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
  }
};

struct MemoryRow {
  EntityId entity =
      0;  // of the function that stands in the object: code inlined into it counts as its own
  uint64_t samples = 0;
  uint64_t mispredicted = 0;
  std::array<uint64_t, kMemOps> ops = {};
  std::array<MemoryLatency, kMemLatencies> latencies;
  // Samples by label; those without it stand under no name.
  std::map<std::string, uint64_t, std::less<>> by_source;
  std::map<std::string, uint64_t, std::less<>> by_tlb;
  std::map<std::string, uint64_t, std::less<>> by_snoop;
};

struct MemoryTable {
  uint64_t samples = 0;
  bool has_distributions = false;
  std::vector<MemoryRow> rows;  // by sum of total latency, then samples, then name
  size_t rows_cut = 0;          // what the limit left out
};

MemoryTable MakeMemoryTable(const Profile& profile, const EntityTable& entities,
                            const std::vector<bool>& selected, size_t rows_max);

}  // namespace ptarmigan
