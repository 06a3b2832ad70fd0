// The branch records' way into a Profile: from a BranchTable in numbers of places to a BranchSummary in LocationIds, and
// to the rows [target, source] that pprof files carry.
#pragma once

#include <cstddef>
#include <span>

#include "model/profile_builder.h"
#include "model/trace_summary.h"
#include "pipeline/internal/branch_code.h"
#include "pipeline/internal/branch_table.h"

namespace ptarmigan::internal {

// locations[place] is the LocationId of each of the StackTable's places. The table is empty afterwards.
BranchSummary SummariseBranches(BranchTable& table, std::span<const LocationId> locations,
                                BranchCode* code);

// Adds a row per edge: its values are `branches` and `mispredicts`, which are columns of the builder's sample types.
struct BranchColumns {
  size_t branches = 0;
  size_t mispredicts = 0;
};
BranchColumns AddBranchColumns(ProfileBuilder* builder);
void AddBranchRows(const BranchSummary& summary, const BranchColumns& columns,
                   ProfileBuilder* builder);

}  // namespace ptarmigan::internal
