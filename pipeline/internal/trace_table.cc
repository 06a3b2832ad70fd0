#include "pipeline/internal/trace_table.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/compact_index.h"
#include "model/branch_summary.h"

namespace ptarmigan::internal {

class TraceTable::Placer {
 public:
  Placer(const TraceFlow& flow, PlaceNumbers* numbers) : flow_(flow), numbers_(*numbers) {}

  // The place of an address of `block`, as `owner` has it mapped.
  uint32_t PlaceOf(const TraceOwner& owner, uint32_t block, VirtAddr address) {
    if (owner.image == nullptr) return TraceTable::kNoPlace;
    const size_t epoch =
        std::min<size_t>(flow_.graph().blocks[block].epoch, owner.image->Epochs() - 1);
    const auto next = static_cast<uint32_t>(places_.size());
    const uint32_t found = index_.FindOrInsert({address.value, SpaceOf(owner.life, epoch)}, next);
    if (found != next) return places_[found];
    const auto place = CodeImages::PlaceOf(*owner.image, address, epoch);
    places_.push_back(place ? numbers_.NumberOf(*place, owner.image->EpochStartNs(epoch))
                            : TraceTable::kNoPlace);
    return places_.back();
  }

  // Where the function begins that holds the block; where none is known, the block.
  uint32_t EntryOf(const TraceOwner& owner, uint32_t id) {
    const CodeBlock& block = flow_.graph().blocks[id];
    return PlaceOf(owner, id, block.knows_function ? block.function : block.start);
  }

  // The context's function, then the calls that led there, outermost last. A caller that was replaced by a tail call has no
  // call left to point at: its function stands for it.
  void AppendFrames(const TraceOwner& owner, const std::vector<CallTreeNode>& contexts,
                    const CallTreeNode& leaf, std::vector<uint32_t>* frames) {
    const FlowGraph& graph = flow_.graph();
    const auto append = [&](uint32_t place) {
      if (place != TraceTable::kNoPlace) frames->push_back(place);
    };
    append(EntryOf(owner, leaf.block));
    const CallTreeNode* callee = &leaf;
    while (callee->parent != kNoFlowId) {
      const CallTreeNode& caller = contexts[callee->parent];
      const FlowEdge& edge = graph.edges[callee->edge];
      const bool is_call = edge.from != kNoFlowId &&
                           (edge.step == FlowStep::kCall || edge.step == FlowStep::kInterrupt);
      append(is_call ? PlaceOf(owner, edge.from, graph.blocks[edge.from].last)
                     : EntryOf(owner, caller.block));
      callee = &caller;
    }
  }

 private:
  // A number for the code of a process at a time.
  uint32_t SpaceOf(uint64_t life, size_t epoch) {
    if (life != last_life_ || epoch != last_epoch_) {
      const auto next = static_cast<uint32_t>(spaces_.size());
      last_space_ = spaces_.try_emplace({life, epoch}, next).first->second;
      last_life_ = life;
      last_epoch_ = epoch;
    }
    return last_space_;
  }

  const TraceFlow& flow_;
  PlaceNumbers& numbers_;
  CompactIndex index_;  // (address, space) -> index of places_
  std::vector<uint32_t> places_;
  std::map<std::pair<uint64_t, size_t>, uint32_t> spaces_;
  uint64_t last_life_ = 0;
  size_t last_epoch_ = SIZE_MAX;
  uint32_t last_space_ = 0;
};

// Edges of the graph become the places at their ends.
void TraceTable::TakeCalls(const TraceFlow& flow, Placer* placer) {
  if (flow.calls() == nullptr) return;
  const FlowGraph& graph = flow.graph();
  const auto callee_of = [&](uint32_t owner, uint32_t edge) {
    return placer->EntryOf(flow.owners()[owner], graph.edges[edge].to);
  };
  const auto caller_of = [&](uint32_t owner, uint32_t edge) {
    const uint32_t from = graph.edges[edge].from;
    if (from == kNoFlowId) return kNoPlace;
    return placer->PlaceOf(flow.owners()[owner], from, graph.blocks[from].last);
  };
  std::map<std::tuple<uint32_t, uint32_t, FlowSummary::Entry>, FlowSummary::Calls> sums;
  for (const CallTimes::Row& row : flow.calls()->TakeRows()) {
    const auto [found, is_new] = sums.try_emplace(
        {callee_of(row.owner, row.edge), caller_of(row.owner, row.edge), row.calls.entry},
        row.calls);
    if (!is_new) found->second += row.calls;
  }
  for (auto& [key, calls] : sums) {
    calls_.push_back({std::get<0>(key), std::get<1>(key), std::move(calls)});
  }
  intervals_ = flow.calls()->TakeIntervals();
  for (FlowSummary::Interval& interval : intervals_) {
    const uint32_t edge = interval.function;
    const uint32_t owner = interval.caller;
    const bool is_called = interval.entry != FlowSummary::Entry::kUnknown;
    interval.function = callee_of(owner, edge);
    interval.caller = is_called ? caller_of(owner, edge) : kNoPlace;
  }
}

void TraceTable::Take(TraceFlow* flow, std::span<const LabelSetId> labels, PlaceNumbers* numbers) {
  const FlowGraph& graph = flow->graph();
  Placer placer(*flow, numbers);
  labels_.assign(labels.begin(), labels.end());
  has_time_ = flow->has_time();
  has_cycles_ = flow->has_cycles();
  std::map<std::tuple<uint32_t, uint32_t, bool>, uint64_t> edges;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint64_t> blocks;
  std::map<uint32_t, Function> functions;
  for (const TraceFlow::EdgeSum& sum : flow->Edges()) {
    const FlowEdge& edge = graph.edges[sum.edge];
    const TraceOwner& owner = flow->owners()[sum.owner];
    if (edge.to == kNoFlowId) continue;
    const CodeBlock& to = graph.blocks[edge.to];
    const uint32_t start = placer.PlaceOf(owner, edge.to, to.start);
    if (start == kNoPlace) continue;
    blocks[{start, placer.PlaceOf(owner, edge.to, to.last), to.instructions}] += sum.count;
    const VirtAddr entry = to.knows_function ? to.function : to.start;
    Function& function = functions[placer.PlaceOf(owner, edge.to, entry)];
    function.instructions += uint64_t{to.instructions} * sum.count;
    if (edge.step == FlowStep::kCall) {
      (edge.kind == BranchKind::kIndirectCall ? function.indirect_calls : function.calls) +=
          sum.count;
    } else if (edge.step == FlowStep::kTailCall) {
      function.jumps += sum.count;
    } else if (edge.step == FlowStep::kInterrupt && to.start == entry) {
      function.interrupts += sum.count;
    }
    if (!edge.taken || edge.from == kNoFlowId) continue;
    const uint32_t from = placer.PlaceOf(owner, edge.from, graph.blocks[edge.from].last);
    edges[{from, start, edge.kind == BranchKind::kReturn}] += sum.count;
  }
  for (const auto& [key, count] : edges) {
    edges_.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  }
  for (const auto& [key, count] : blocks) {
    blocks_.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  }
  for (auto& [place, function] : functions) {
    function.place = place;
    functions_.push_back(function);
  }
  for (uint32_t owner = 0; owner < flow->owners().size(); ++owner) {
    const std::vector<CallTreeNode>& contexts = flow->owners()[owner].stacks->contexts();
    for (const CallTreeNode& context : contexts) {
      if (context.instructions == 0 && context.calls == 0 && context.ticks == 0) continue;
      Stack stack;
      stack.owner = owner;
      stack.instructions = context.instructions;
      stack.ns = flow->ToNs(context.ticks);
      stack.cycles = context.cycles;
      stack.calls = context.calls;
      stack.frames_begin = static_cast<uint32_t>(frames_.size());
      placer.AppendFrames(flow->owners()[owner], contexts, context, &frames_);
      stack.frames_size = static_cast<uint32_t>(frames_.size()) - stack.frames_begin;
      stacks_.push_back(stack);
    }
  }
  TakeCalls(*flow, &placer);
  summary_ = flow->TakeSummary();
  if (flow->calls() != nullptr) summary_.intervals_cut = flow->calls()->intervals_cut();
}

TraceColumns AddTraceColumns(const TraceTable& table, ProfileBuilder* builder) {
  // A counter's column of that name holds other values.
  const auto column = [&](std::string name, std::string_view unit) {
    const size_t before = builder->profile().sample_types.size();
    const size_t added = builder->SampleType(name, unit);
    return added < before ? builder->SampleType("trace_" + name, unit) : added;
  };
  TraceColumns columns;
  columns.instructions = column("instructions", "count");
  if (table.has_time()) columns.wall = column("wall", "nanoseconds");
  if (table.has_cycles()) columns.cycles = column("cycles", "count");
  columns.calls = column("calls", "count");
  return columns;
}

void AddTraceRows(const TraceTable& table, std::span<const uint32_t> locations,
                  std::span<const LabelSetId> label_sets, const TraceColumns& columns,
                  ProfileBuilder* builder) {
  const auto saturated = [](uint64_t value) {
    return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
  };
  std::vector<int64_t> values(builder->profile().sample_types.size());
  std::vector<LocationId> frames;
  for (const TraceTable::Stack& stack : table.stacks()) {
    frames.clear();
    for (const uint32_t place : table.Frames(stack)) frames.push_back(locations[place]);
    values[columns.instructions] = saturated(stack.instructions);
    if (columns.wall != SIZE_MAX) values[columns.wall] = saturated(stack.ns);
    if (columns.cycles != SIZE_MAX) values[columns.cycles] = saturated(stack.cycles);
    values[columns.calls] = saturated(stack.calls);
    builder->Add({builder->Stack(frames), label_sets[table.LabelsOf(stack)]}, values);
  }
}

void AddTraces(const TraceTable& table, std::span<const uint32_t> locations, Profile* profile) {
  const auto location_of = [&](uint32_t place) {
    return place == TraceTable::kNoPlace ? BranchSummary::kNone : locations[place];
  };
  BranchSummaryBuilder branches;
  std::vector<uint32_t> same(profile->locations.size());
  for (uint32_t id = 0; id < same.size(); ++id) same[id] = id;
  branches.Add(profile->summary.branches, same);
  for (const TraceTable::Edge& edge : table.edges()) {
    branches.AddEdge(
        {.from = location_of(edge.from), .to = location_of(edge.to), .count = edge.count});
    branches.AddTrace({.from = location_of(edge.from),
                       .to = location_of(edge.to),
                       .is_return = edge.is_return,
                       .count = edge.count});
  }
  for (const TraceTable::Block& block : table.blocks()) {
    branches.AddBlock({.start = location_of(block.start),
                       .end = location_of(block.end),
                       .count = block.count,
                       .instructions = block.instructions});
  }
  profile->summary.branches = branches.Finish();
  FlowSummary& flow = profile->summary.flow;
  flow = table.summary();
  for (const TraceTable::Function& function : table.functions()) {
    flow.functions.push_back({.location = location_of(function.place),
                              .instructions = function.instructions,
                              .calls = function.calls,
                              .indirect_calls = function.indirect_calls,
                              .jumps = function.jumps,
                              .interrupts = function.interrupts});
  }
  for (const TraceTable::CallSums& sums : table.calls()) {
    FlowSummary::Calls& calls = flow.calls.emplace_back(sums.calls);
    calls.callee = location_of(sums.callee);
    calls.caller = location_of(sums.caller);
  }
  flow.intervals.reserve(table.intervals().size());
  for (FlowSummary::Interval interval : table.intervals()) {
    interval.function = location_of(interval.function);
    interval.caller = location_of(interval.caller);
    flow.intervals.push_back(interval);
  }
}

}  // namespace ptarmigan::internal
