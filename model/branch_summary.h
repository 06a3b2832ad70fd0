// BranchSummaryBuilder: adds up branches, runs between them and their cycles into a BranchSummary. Used where records
// are aggregated (pipeline) and where profiles are merged.
//
// Memory grows with what is distinct (up to twice as much, and what 65,536 values take). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "model/trace_summary.h"

namespace ptarmigan {

class BranchSummaryBuilder {
 public:
  using Run = std::pair<uint32_t, uint32_t>;  // LocationIds of a block's start and end

  BranchSummaryBuilder();
  ~BranchSummaryBuilder();

  // So many traces are to come.
  void Reserve(size_t traces);
  // Equal (from, to), (start, end) and (from, to, end) add up. Of blocks only `start`, `end`, `count` and `instructions`
  // are looked at.
  void AddEdge(const BranchSummary::Edge& edge);
  void AddBlock(const BranchSummary::Block& block);
  // `cycles` rise.
  void AddCycles(Run run, std::span<const BranchSummary::CycleCount> cycles);
  void AddTrace(const BranchSummary::Trace& trace);
  void AddFunctionStart(uint32_t location, uint64_t address);
  void AddRejected(uint64_t ranges);
  void AddWrongPath(uint64_t entries);
  // Everything that `other` holds; locations[id] is what its location `id` is called here.
  void Add(const BranchSummary& other, std::span<const uint32_t> locations);

  // In the order that BranchSummary promises; the builder is empty afterwards.
  BranchSummary Finish();

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

// Of the block's executions whose cycles are known; 0 where there are none.
struct CycleFigures {
  uint64_t executions = 0;
  uint32_t min = 0;
  double median = 0;  // the mean of the two middle ones where their number is even
  uint32_t max = 0;
  uint64_t saturated = 0;  // executions that took at least kCyclesSaturated
};
CycleFigures FiguresOf(std::span<const BranchSummary::CycleCount> cycles);

}  // namespace ptarmigan
