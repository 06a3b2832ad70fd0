// What merging profiles and reporting on them need of a MemorySummary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/trace_summary.h"

namespace ptarmigan {

// Adds what `source` says to `into`; source's location i is locations[i] there.
void AddMemorySummary(const MemorySummary& source, std::span<const uint32_t> locations,
                      MemorySummary* into);

// Puts the lines into the order that MemorySummary::lines has.
void SortSharedLines(std::vector<MemorySummary::SharedLine>* lines);

// The smallest value that at least `share` (0..1) of the samples do not exceed; 0 without samples. Values rise.
uint32_t QuantileOf(std::span<const MemorySummary::CyclesCount> counts, double share);

// Sums the counts of `source` into `into`; values rise in both.
void AddCounts(std::span<const MemorySummary::CyclesCount> source,
               std::vector<MemorySummary::CyclesCount>* into);

}  // namespace ptarmigan
