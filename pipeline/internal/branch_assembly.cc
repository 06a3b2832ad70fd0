#include "pipeline/internal/branch_assembly.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/radix_sort.h"
#include "model/branch_summary.h"
#include "pipeline/internal/batch_worker.h"

namespace ptarmigan::internal {
namespace {

int64_t Saturated(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

class Summary {
 public:
  Summary(BranchTable& table, std::span<const LocationId> locations, BranchCode* code)
      : table_(table), locations_(locations), code_(*code) {}

  BranchSummary Make() {
    flow_builder_.Reserve(table_.traces().size());
    for (uint32_t i = 0; i < table_.traces().size(); ++i) AddTrace(i);
    BranchSummary flow;
    BatchWorker<BranchSummaryBuilder*> worker(
        1, [&flow](BranchSummaryBuilder*& builder) { flow = builder->Finish(); });
    BranchSummaryBuilder* giving = &flow_builder_;
    worker.Give(&giving);
    AddBlocks();
    builder_.AddWrongPath(table_.wrong_path());
    table_.Clear();
    runs_ = {};
    runs_found_ = {};
    BranchSummary summary = builder_.Finish();
    worker.Finish();
    summary.edges = std::move(flow.edges);
    summary.traces = std::move(flow.traces);
    return summary;
  }

 private:
  void AddTrace(uint32_t index) {
    const BranchTable::Trace& trace = table_.traces()[index];
    const BranchTable::Places& places = table_.PlacesOf(index);
    const LocationId from = LocationOf(places.from);
    const LocationId to = LocationOf(places.to);
    LocationId end = BranchSummary::kNone;
    if (places.end != BranchTable::kNoPlace) {
      const CodeRun run = places.is_possible_run ? RunOf(places.to, places.end)
                                                 : CodeRun{.verdict = CodeRun::Verdict::kLeaves};
      if (run.verdict == CodeRun::Verdict::kStraight || run.verdict == CodeRun::Verdict::kUnknown) {
        end = LocationOf(places.end);
        runs_found_.push_back(
            {.key = uint64_t{to} << 32 | end, .trace = index, .instructions = run.instructions});
      } else {
        builder_.AddRejected(trace.count);
      }
    }
    flow_builder_.AddEdge({.from = from,
                           .to = to,
                           .count = trace.count,
                           .mispredicted = trace.mispredicted,
                           .predicted = trace.predicted,
                           .cycles_sum = trace.cycles_sum});
    flow_builder_.AddTrace(
        {.from = from,
         .to = to,
         .end = end,
         .is_return =
             places.is_return || (places.from != BranchTable::kNoPlace && IsReturn(places.from)),
         .count = trace.count,
         .mispredicted = trace.mispredicted});
  }

  // Traces that came from different places into one run are one block.
  void AddBlocks() {
    std::vector<FoundRun> scratch;
    RadixSort(
        std::span(runs_found_), [](const FoundRun& run) { return run.key; }, &scratch);
    std::vector<uint32_t> traces;
    for (size_t begin = 0, end = 0; begin < runs_found_.size(); begin = end) {
      const uint64_t key = runs_found_[begin].key;
      BranchSummary::Block block{.start = static_cast<LocationId>(key >> 32),
                                 .end = static_cast<LocationId>(key)};
      traces.clear();
      for (; end < runs_found_.size() && runs_found_[end].key == key; ++end) {
        const FoundRun& run = runs_found_[end];
        block.count += table_.traces()[run.trace].count;
        block.instructions = std::max(block.instructions, run.instructions);
        traces.push_back(run.trace);
      }
      builder_.AddBlock(block);
      builder_.AddCycles({block.start, block.end}, table_.CyclesOf(traces));
    }
  }

  // The location, and the start of its function with the first use.
  LocationId LocationOf(uint32_t place) {
    if (place == BranchTable::kNoPlace) return BranchSummary::kNone;
    if (place >= is_known_.size()) is_known_.resize(place + 1);
    if (!is_known_[place]) {
      is_known_[place] = true;
      if (const auto start = code_.FunctionStart(place)) {
        builder_.AddFunctionStart(locations_[place], *start);
      }
    }
    return locations_[place];
  }

  CodeRun RunOf(uint32_t start, uint32_t end) {
    const auto [at, is_new] = runs_.try_emplace({start, end});
    if (is_new) at->second = code_.Walk(start, end);
    return at->second;
  }

  bool IsReturn(uint32_t place) {
    const auto [at, is_new] = returns_.try_emplace(place, false);
    if (is_new) at->second = code_.IsReturn(place);
    return at->second;
  }

  struct FoundRun {
    uint64_t key = 0;  // the locations of its start and its end
    uint32_t trace = 0;
    uint32_t instructions = 0;
  };

  BranchTable& table_;
  const std::span<const LocationId> locations_;
  BranchCode& code_;
  BranchSummaryBuilder builder_;       // of all but edges and traces
  BranchSummaryBuilder flow_builder_;  // of those, which are added up in a thread of their own
  std::vector<bool> is_known_;         // by place
  std::vector<FoundRun> runs_found_;   // by trace that has one
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, CodeRun> runs_;
  absl::flat_hash_map<uint32_t, bool> returns_;
};

}  // namespace

BranchSummary SummariseBranches(BranchTable& table, std::span<const LocationId> locations,
                                BranchCode* code) {
  return Summary(table, locations, code).Make();
}

BranchColumns AddBranchColumns(ProfileBuilder* builder) {
  BranchColumns columns;
  columns.branches = builder->SampleType("branches", "count");
  columns.mispredicts = builder->SampleType("mispredicts", "count");
  return columns;
}

void AddBranchRows(const BranchSummary& summary, const BranchColumns& columns,
                   ProfileBuilder* builder) {
  if (summary.edges.empty()) return;
  const Profile::Label kind{.key = builder->String("kind"), .text = builder->String("branch")};
  const LabelSetId labels = builder->LabelSet({&kind, 1});
  std::vector<int64_t> values(builder->profile().sample_types.size());
  std::vector<LocationId> stack;
  for (const BranchSummary::Edge& edge : summary.edges) {
    stack.clear();
    for (const LocationId side : {edge.to, edge.from}) {
      if (side != BranchSummary::kNone) stack.push_back(side);
    }
    values[columns.branches] = Saturated(edge.count);
    values[columns.mispredicts] = Saturated(edge.mispredicted);
    builder->Add({builder->Stack(stack), labels}, values);
  }
}

}  // namespace ptarmigan::internal
