// The last step of the pipeline: named places, stacks and rows become a Profile.
#pragma once

#include <span>
#include <vector>

#include "model/profile_builder.h"
#include "model/quality.h"
#include "pipeline/internal/branch_code.h"
#include "pipeline/internal/branch_table.h"
#include "pipeline/internal/event_column.h"
#include "pipeline/internal/memory_table.h"
#include "pipeline/internal/place_resolver.h"
#include "pipeline/internal/stack_table.h"
#include "pipeline/internal/trace_table.h"

namespace ptarmigan::internal {

// What the samples' labels are, by the label ids of StackTable rows; in terms of `labels`' own strings.
struct AssemblyInput {
  StackTable& table;      // its frames move into the profile
  MemoryTable& memory;    // becomes the profile's summary
  const Profile& labels;  // label_sets[i] is what Row::labels == i means
  std::span<const EventColumn> columns;
  BranchTable& branches;
  BranchCode& branch_code;
  const TraceTable& traces;
};

// `resolver` must be finished; its builder is emptied. Fills `quality`'s frame counts.
Profile AssembleProfile(const AssemblyInput& input, PlaceResolver* resolver, Quality* quality);

}  // namespace ptarmigan::internal
