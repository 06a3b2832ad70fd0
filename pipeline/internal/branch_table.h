// BranchTable: what the pipeline aggregates of branch stacks while samples arrive: traces (from, to, end) by run-time
// address within one state of an address space, with their outcomes and cycles. Edges and straight-line blocks are
// derived once, at the end.
//
//   pipeline's thread                                        the table's thread
//   sample ──ReadBranchStack──▶ edges, newest first
//            (batch full) ───────────────────────────────────▶ trace = edge i + the source of edge i-1
//                                                                |  known: one line of cache is counted up
//   addresses become places, as long as their     ◀────────────  '  new
//   mappings are at hand: with the next batch, or
//   before the mappings change (Settle)
//
// Which traces are new in a batch is taken over at moments that only the recording decides: equal recordings give equal
// tables.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/large_chunks.h"
#include "base/large_pages.h"
#include "decode/branch_stack.h"
#include "model/address_space.h"
#include "model/loss_ledger.h"
#include "model/recording.h"
#include "model/trace_summary.h"
#include "pipeline/internal/batch_worker.h"
#include "pipeline/internal/place_numbers.h"

namespace ptarmigan::internal {

class BranchTable {
 public:
  // A longer run was interrupted: compilers do not make so much code without a branch that is taken.
  static constexpr uint64_t kRunBytesMax = uint64_t{64} << 10;
  // What is distinct beyond these is counted as lost (build, limit; unit records).
  static constexpr size_t kTracesMax = size_t{1} << 24;
  static constexpr size_t kCycleCountsMax = size_t{1} << 25;
  static constexpr uint32_t kNoPlace = UINT32_MAX;

  // Traces whose cycles are counted in a histogram; those of later ones are looked up one by one.
  static constexpr size_t kHistogramsMax = size_t{1} << 18;

  // One per distinct (space, from, to, end): a line of cache.
  struct Trace {
    uint64_t from = 0;  // 0: not recorded
    uint64_t to = 0;
    uint64_t end = 0;  // 0: no run is known
    uint64_t count = 0;
    uint64_t cycles_sum = 0;
    uint64_t mispredicted = 0;
    uint64_t predicted = 0;
    uint32_t space = 0;              // which state of whose address space
    uint32_t histogram = kNoNumber;  // of the run's cycles
  };
  // What the addresses of a trace mean.
  struct Places {
    uint32_t from = kNoPlace;
    uint32_t to = kNoPlace;
    uint32_t end = kNoPlace;
    bool is_return = false;
    bool is_possible_run = false;  // by addresses: forwards, short, in one mapping
  };
  using CycleCount = BranchSummary::CycleCount;

  // All references must outlive the table. With `in_background` false every sample is counted in the caller's thread, so
  // that MemoryBytes can be asked for at any time.
  BranchTable(const RecordingDescription& description, ProcessTable& processes,
              PlaceNumbers& numbers, bool in_background);

  // Whether the event's samples have branch stacks of flow mode.
  bool Takes(uint32_t event) const {
    return event < formats_.size() && formats_[event].mode == BranchStackMode::kFlow;
  }
  // Counts the sample's branches; what does not become a branch is noted in `losses` by records.
  void Add(const CapturedSample& sample, Process& process, LossLedger* losses);
  // To be called before any mapping changes and any process ends.
  void Settle(LossLedger* losses);
  // Everything is counted, and the thread has ended; what follows may be asked for.
  void Finish(LossLedger* losses);

  const LargeVector<Trace>& traces() const { return traces_; }
  const Places& PlacesOf(size_t trace) const { return places_[trace]; }
  // How often the traces' runs took how many cycles, cycles rising; valid until the next call.
  std::span<const CycleCount> CyclesOf(std::span<const uint32_t> traces);
  uint64_t wrong_path() const { return wrong_path_; }
  // Frees what was counted: new memory is dear, and others can use this.
  void Clear();
  size_t MemoryBytes() const;

 private:
  static constexpr uint64_t kEmptyKey = UINT64_MAX;
  static constexpr uint32_t kNoNumber = UINT32_MAX;
  // A batch is full with so many edges. Several are under way, so that neither thread waits for the other to wake up.
  static constexpr size_t kBatchEdges = size_t{1} << 13;
  static constexpr size_t kBatches = 4;
  // Runs of fewer cycles are counted in histograms.
  static constexpr uint32_t kHistogramCycles = 64;
  // (Two lines of cache; what a counter cannot hold is counted one by one.)
  using Histogram = std::array<uint16_t, kHistogramCycles>;

  // Where a trace is: the upper half of its hash and its number.
  struct Slot {
    uint32_t hash = 0;
    uint32_t trace = kNoNumber;
  };
  // Of cycles that no histogram holds.
  struct LooseCycles {
    uint64_t key = kEmptyKey;  // trace << 16 | cycles
    uint64_t executions = 0;

    uint32_t trace() const { return static_cast<uint32_t>(key >> 16); }
    uint32_t cycles() const { return static_cast<uint32_t>(key & 0xffff); }
  };
  // A sample's part of a batch, and the moment at which its addresses are looked up.
  struct Part {
    Process* process = nullptr;
    uint64_t time_ns = 0;
    uint32_t edges_begin = 0;
    uint32_t edges_count = 0;
    uint32_t space = 0;
    bool is_guest = false;
    bool has_runs = false;     // nothing was left out between two edges
    bool is_by_place = false;  // Batch::edge_spaces instead of `space`
  };
  struct Key {
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t end = 0;
    uint32_t space = 0;
  };
  struct NewTrace {
    Key key;
    uint32_t part = 0;
    bool is_return = false;
  };
  struct Batch {
    std::vector<BranchEdge> edges;  // the first `edges_count` are in use
    size_t edges_count = 0;
    std::vector<uint64_t> hashes;  // as `edges`: of the traces that they are in
    std::vector<Part> parts;
    std::vector<uint32_t> edge_spaces;  // by edge; of parts that need them
    // The answer.
    std::vector<NewTrace> new_traces;
    uint64_t not_kept = 0;

    void Clear();
  };
  class KeyMaker;

  // In the pipeline's thread.
  uint32_t SpaceNumber(const Process& process, bool is_guest);
  // Where a JIT compiler replaces code: the number of the space and of the places that the addresses are now.
  void FindEdgeSpaces(const Part& part, Batch* batch);
  void GiveBatch(LossLedger* losses);
  void TakeAnswer(Batch* batch, LossLedger* losses);
  Places ResolvePlaces(const Key& trace, const Part& part);
  uint32_t PlaceOf(uint64_t address, const CodeMapping* mapping, CpuMode mode, uint64_t time_ns);

  void HashEdges(const Part& part, Batch* batch);

  // In the table's thread, or where that has nothing to do.
  void Count(Batch* batch);
  void CountPart(const Part& part, uint32_t part_index, Batch* batch);
  static uint64_t HashOf(const Key& key, const std::array<uint64_t, 4>& seeds);
  static bool IsOf(const Trace& trace, const Key& key) {
    return trace.from == key.from && trace.to == key.to && trace.end == key.end &&
           trace.space == key.space;
  }
  // The trace's number; kNoNumber where the table is full.
  uint32_t FindOrAdd(const NewTrace& wanted, uint64_t hash, Batch* batch);
  bool AddCycles(uint32_t trace, uint32_t cycles);
  bool AddLooseCycles(uint32_t trace, uint32_t cycles, uint64_t executions);
  void GrowIndex();
  void GrowLooseCycles();

  ProcessTable& processes_;
  PlaceNumbers& numbers_;
  const bool in_background_;
  std::vector<BranchStackFormat> formats_;  // by event
  absl::flat_hash_map<uint64_t, uint32_t> spaces_;
  absl::flat_hash_map<std::array<uint32_t, 4>, uint32_t> spaces_by_place_;  // space, from, to, end
  uint32_t spaces_count_ = 0;
  uint64_t last_space_ = kEmptyKey;
  uint32_t last_space_number_ = 0;
  LargeVector<Places> places_;  // by trace
  uint64_t wrong_path_ = 0;
  // From the one behind `filling_` on: the oldest that was given, whose answer is taken before it is filled again, to the
  // newest.
  std::array<Batch, kBatches> batches_;
  size_t filling_ = 0;

  // Owned by the table's thread while it works.
  std::array<uint64_t, 4> seeds_;
  LargeVector<Slot> index_;  // a power of two, at most half of it used
  LargeVector<Trace> traces_;
  LargeChunks<Histogram> histograms_;
  LargeVector<LooseCycles> loose_;  // as index_
  size_t loose_used_ = 0;
  std::vector<uint32_t> ids_;  // of the part that is counted

  // For CyclesOf: loose_ by trace, once everything is counted.
  std::vector<CycleCount> loose_by_trace_;
  std::vector<uint32_t> loose_begin_;  // by trace, and the end
  std::vector<CycleCount> loose_found_;
  std::vector<CycleCount> found_cycles_;

  BatchWorker<Batch*> worker_;
};

}  // namespace ptarmigan::internal
