// The `branches` view: what a profile's BranchSummary says, with places named as reports name them: edges by count with
// their rates of misprediction, and straight-line blocks with their cycles.
//
// Borrows the profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/branch_summary.h"
#include "model/profile.h"
#include "query/entities.h"

namespace ptarmigan {

// A place in code; everything is empty where a record has only its other side.
struct CodePlace {
  bool is_known = false;
  std::string_view object;
  std::string_view build_id;
  uint64_t address = 0;  // ELF virtual address; a run-time address where the object has no file
  std::string_view
      function;  // the one that stands there, not one inlined into it; empty: not known
  std::optional<uint64_t> offset;  // from the function's start
};

// Confidence interval of a rate.
struct Interval {
  double low = 0;
  double high = 1;
};
// Wilson's score interval at 95 % for `hits` of `trials`; [0, 1] without trials. Unlike the plain normal one it is right
// for few trials and for rates near 0 and 1.
Interval WilsonInterval(uint64_t hits, uint64_t trials);

struct EdgeRow {
  CodePlace from;
  CodePlace to;
  BranchSummary::Edge edge;
  Interval mispredict_rate;  // of the executions whose outcome is known
};

struct BlockRow {
  CodePlace start;
  CodePlace end;
  BranchSummary::Block block;
  CycleFigures cycles;
  std::optional<double> instructions_per_cycle;  // by the median
};

struct BranchReport {
  std::vector<EdgeRow> edges;    // by count, then address
  std::vector<BlockRow> blocks;  // the same
  size_t edges_cut = 0;          // what the limit left out
  size_t blocks_cut = 0;
  // Of all edges that the filter keeps.
  uint64_t branches = 0;
  uint64_t mispredicted = 0;
  uint64_t predicted = 0;
};

// At most `rows_max` edges and as many blocks. With a `filter` only of those edges and blocks whose two places it keeps.
BranchReport MakeBranchReport(const Profile& profile, size_t rows_max,
                              const LocationFilter* filter = nullptr);

}  // namespace ptarmigan
