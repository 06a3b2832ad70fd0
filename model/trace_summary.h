// TraceSummary: what a recording tells beyond sums per stack: edges and straight-line runs between branches, latency
// distributions, cache lines that threads fight over. Belongs to a Profile, whose locations it refers to; empty for
// profiles of other kinds.
//
// Plain values; not thread-safe while being changed. LocationIds are plain uint32_t here, since Profile includes this.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/flow_summary.h"
#include "model/mem_sample.h"

namespace ptarmigan {

// From branch records of flow mode (LBR, BRBE, AMD, CoreSight as branch stacks), aggregated. Records of call-stack mode
// and wrong-path entries never enter. Made by BranchSummaryBuilder (model/branch_summary.h).
//
//        from        to   straight-line code    end
//   ──────●───────────▶●━━━━━━━━━━━━━━━━━━━━━━━━━●──────▶     a trace; without (from) a block, without (end) an edge
struct BranchSummary {
  static constexpr uint32_t kNone = UINT32_MAX;  // kNoId of locations

  struct Edge {
    uint32_t from =
        kNone;  // LocationId of the branch instruction; kNone: the record has only the other side
    uint32_t to = kNone;  // LocationId of its target; the same
    uint64_t count = 0;
    uint64_t mispredicted = 0;
    uint64_t predicted = 0;   // count - mispredicted - predicted: the hardware does not say
    uint64_t cycles_sum = 0;  // since the branch before, where recorded
    uint64_t unknown() const { return count - mispredicted - predicted; }
  };
  struct CycleCount {
    uint32_t cycles = 0;
    uint64_t executions = 0;
  };
  // Code that ran from `start` to the branch at `end`, both included, without a taken branch between.
  struct Block {
    uint32_t start = kNone;  // LocationId, as is `end`; same mapping
    uint32_t end = kNone;
    uint64_t count = 0;
    uint32_t instructions = 0;  // 0: the code's bytes are not at hand
    uint64_t cycles_begin = 0;  // its part of `cycle_counts`
    uint32_t cycles_size = 0;   // 0: no execution's cycles are known
  };
  // An edge followed by a block: what BOLT calls a trace. `end` is kNone for the newest record of a sample, and where no
  // run is known or possible.
  struct Trace {
    uint32_t from = kNone;
    uint32_t to = kNone;
    uint32_t end = kNone;
    bool is_return = false;  // the branch at `from` is known to be a return
    uint64_t count = 0;
    uint64_t mispredicted = 0;
  };
  // Where the function that holds a location begins, in the location's own address space.
  struct FunctionStart {
    uint32_t location = kNone;
    uint64_t address = 0;
  };
  // Cycle counts of this and more stand for "at least so many": the records' field holds 16 bits.
  static constexpr uint32_t kCyclesSaturated = 0xffff;

  std::vector<Edge> edges;    // by count, the largest first, then by ids
  std::vector<Block> blocks;  // the same
  std::vector<Trace> traces;  // the same
  std::vector<CycleCount>
      cycle_counts;  // of the blocks, one after the other; cycles rising within each
  std::vector<FunctionStart> function_starts;  // by location; none where it is not known
  uint64_t ranges_rejected = 0;  // runs that the code at hand or the addresses prove impossible
  uint64_t wrong_path =
      0;  // entries of speculative execution that was undone; counted nowhere else

  std::span<const CycleCount> Cycles(const Block& block) const {
    return std::span(cycle_counts).subspan(block.cycles_begin, block.cycles_size);
  }
  bool empty() const { return edges.empty() && blocks.empty() && ranges_rejected == 0; }
};

// From memory samples. Functions over it: model/memory_summary.h.
struct MemorySummary {
  using CyclesCount = std::pair<uint32_t, uint64_t>;  // cycles, samples
  // How often each latency was seen at one location.
  struct Distribution {
    uint32_t location = UINT32_MAX;  // LocationId
    MemLatency which = MemLatency::kTotal;
    std::vector<CyclesCount> counts;  // cycles rising
  };
  // A cache line that more than one thread wrote.
  struct SharedLine {
    static constexpr uint32_t kThreadsMax = 4;
    uint64_t address = 0;  // first byte; virtual
    bool is_physical = false;
    uint32_t writers = 0;  // threads; not counted beyond kThreadsMax
    uint32_t readers = 0;
    uint64_t stores = 0;
    uint64_t loads = 0;
    uint64_t latency_sum = 0;  // of its loads, cycles
  };

  std::vector<Distribution> distributions;
  std::vector<SharedLine> lines;   // by stores + loads
  uint64_t lines_not_counted = 0;  // samples whose line did not fit the table

  bool empty() const { return distributions.empty() && lines.empty(); }
};

struct TraceSummary {
  BranchSummary branches;
  MemorySummary memory;
  FlowSummary flow;

  bool empty() const { return branches.empty() && memory.empty() && flow.empty(); }
};

}  // namespace ptarmigan
