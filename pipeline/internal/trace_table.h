// TraceTable: what decoded control-flow traces say, by places in code: from addresses of a process at a time to numbers of
// the StackTable's places, before anything is named.
//
// Edges are those of the code that ran; each is an exact count. A block is straight-line code; where a branch is not taken
// one ends and the next begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/flow_summary.h"
#include "model/profile_builder.h"
#include "pipeline/internal/code_images.h"
#include "pipeline/internal/place_numbers.h"
#include "pipeline/internal/trace_flow.h"

namespace ptarmigan::internal {

class TraceTable {
 public:
  static constexpr uint32_t kNoPlace = UINT32_MAX;

  struct Edge {
    uint32_t from = kNoPlace;
    uint32_t to = kNoPlace;
    bool is_return = false;
    uint64_t count = 0;
  };
  struct Block {
    uint32_t start = kNoPlace;
    uint32_t end = kNoPlace;  // its last instruction
    uint32_t instructions = 0;
    uint64_t count = 0;
  };
  struct Function {
    uint32_t place =
        kNoPlace;  // where it begins; of code that no symbol covers, where a block does
    uint64_t instructions = 0;
    uint64_t calls = 0;
    uint64_t indirect_calls = 0;
    uint64_t jumps = 0;
    uint64_t interrupts = 0;
  };

  // How long the calls of one function from one place took; `calls` names no location.
  struct CallSums {
    uint32_t callee = kNoPlace;
    uint32_t caller = kNoPlace;
    FlowSummary::Calls calls;
  };
  // What ran in one context of a thread's calls.
  struct Stack {
    uint32_t frames_begin = 0;  // of frames(): the function, then the calls that led there
    uint32_t frames_size = 0;
    uint32_t owner = 0;
    uint64_t instructions = 0;
    uint64_t ns = 0;
    uint64_t cycles = 0;
    uint64_t calls = 0;
  };

  // Asks for the places of everything that `flow` holds. labels[i] is the label set of its owner i.
  void Take(TraceFlow* flow, std::span<const LabelSetId> labels, PlaceNumbers* numbers);

  bool empty() const { return summary_.empty(); }
  // Sorted by their places; each once.
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<Function>& functions() const { return functions_; }
  const std::vector<CallSums>& calls() const { return calls_; }
  // By thread and begin. Function and caller are places.
  const std::vector<FlowSummary::Interval>& intervals() const { return intervals_; }
  const std::vector<Stack>& stacks() const { return stacks_; }
  std::span<const uint32_t> Frames(const Stack& stack) const {
    return std::span(frames_).subspan(stack.frames_begin, stack.frames_size);
  }
  LabelSetId LabelsOf(const Stack& stack) const { return labels_[stack.owner]; }
  bool has_time() const { return has_time_; }
  bool has_cycles() const { return has_cycles_; }
  const FlowSummary& summary() const { return summary_; }
  // Before it is read: what threads are called.
  void NameThread(size_t thread, std::string name) {
    summary_.threads[thread].name = std::move(name);
  }

 private:
  class Placer;
  void TakeCalls(const TraceFlow& flow, Placer* placer);

  std::vector<Edge> edges_;
  std::vector<Block> blocks_;
  std::vector<Function> functions_;
  std::vector<CallSums> calls_;
  std::vector<FlowSummary::Interval> intervals_;
  std::vector<Stack> stacks_;
  std::vector<uint32_t> frames_;
  std::vector<LabelSetId> labels_;  // by owner
  bool has_time_ = false;
  bool has_cycles_ = false;
  FlowSummary summary_;
};

// The columns that traces have, in the builder's sample types.
struct TraceColumns {
  size_t instructions = 0;
  size_t wall = SIZE_MAX;    // SIZE_MAX: the trace has no time
  size_t cycles = SIZE_MAX;  // SIZE_MAX: it does not count them
  size_t calls = 0;
};
TraceColumns AddTraceColumns(const TraceTable& table, ProfileBuilder* builder);
// A row per stack. label_sets[id] is what the label set `id` of the table is called in the profile.
void AddTraceRows(const TraceTable& table, std::span<const uint32_t> locations,
                  std::span<const LabelSetId> label_sets, const TraceColumns& columns,
                  ProfileBuilder* builder);

// locations[place] is the LocationId of each place. Branches and blocks go to the profile's BranchSummary by way of
// `branches`; the rest becomes its FlowSummary.
void AddTraces(const TraceTable& table, std::span<const uint32_t> locations, Profile* profile);

}  // namespace ptarmigan::internal
