// BranchTable: what the pipeline aggregates of branch stacks while samples arrive: traces (from, to, end) by run-time
// address within one state of an address space, with their outcomes and cycles. Edges and straight-line blocks are
// derived once, at the end.
//
//   sample ──ReadBranchStack──▶ edges, newest first ──▶ trace = edge i + the source of edge i-1
//                                                        |  new: its addresses become places, as long as their
//                                                        |       mappings are at hand
//                                                        '  known: one line of cache is counted up
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/large_pages.h"
#include "decode/branch_stack.h"
#include "model/address_space.h"
#include "model/loss_ledger.h"
#include "model/recording.h"
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

  // One per distinct (space, from, to, end): a line of cache.
  struct Trace {
    uint64_t from = 0;  // 0: not recorded
    uint64_t to = 0;
    uint64_t end = 0;  // 0: no run is known
    uint64_t count = 0;
    uint64_t cycles_sum = 0;
    uint64_t mispredicted = 0;
    uint64_t predicted = 0;
    uint64_t space = 0;  // which state of whose address space
  };
  // What the addresses of a trace mean.
  struct Places {
    uint32_t from = kNoPlace;
    uint32_t to = kNoPlace;
    uint32_t end = kNoPlace;
    bool is_return = false;
    bool is_possible_run = false;  // by addresses: forwards, short, in one mapping
  };
  // How often the run of a trace took so many cycles.
  struct CycleCount {
    uint64_t key = kEmptyKey;  // trace << 16 | cycles
    uint64_t executions = 0;

    bool empty() const { return key == kEmptyKey; }
    uint32_t trace() const { return static_cast<uint32_t>(key >> 16); }
    uint32_t cycles() const { return static_cast<uint32_t>(key & 0xffff); }
  };

  // All references must outlive the table.
  BranchTable(const RecordingDescription& description, ProcessTable& processes,
              PlaceNumbers& numbers);

  // Whether the event's samples have branch stacks of flow mode.
  bool Takes(uint32_t event) const {
    return event < formats_.size() && formats_[event].mode == BranchStackMode::kFlow;
  }
  // Counts the sample's branches; what does not become a branch is noted in `losses` by records.
  void Add(const CapturedSample& sample, Process& process, LossLedger* losses);

  const LargeVector<Trace>& traces() const { return traces_; }
  const Places& PlacesOf(size_t trace) const { return places_[trace]; }
  // In no order; skip the empty ones.
  const LargeVector<CycleCount>& cycle_counts() const { return cycles_; }
  uint64_t wrong_path() const { return wrong_path_; }
  size_t MemoryBytes() const;

 private:
  static constexpr uint64_t kEmptyKey = UINT64_MAX;
  static constexpr uint32_t kNoTrace = UINT32_MAX;
  // Where a trace is: the upper half of its hash and its number.
  struct Slot {
    uint32_t hash = 0;
    uint32_t trace = kNoTrace;
  };
  // The moment at which addresses are looked up.
  struct Moment {
    Process& process;
    uint64_t space = 0;
    uint64_t time_ns = 0;
    bool is_guest = false;
  };

  uint64_t HashOf(uint64_t from, uint64_t to, uint64_t end, uint64_t space) const;
  // kNoTrace where the table is full.
  uint32_t FindOrAdd(const Trace& key, uint64_t hash, bool is_return, const Moment& moment);
  Places ResolvePlaces(const Trace& trace, const Moment& moment);
  uint32_t PlaceOf(uint64_t address, const CodeMapping* mapping, CpuMode mode, uint64_t time_ns);
  bool AddCycles(uint32_t trace, uint32_t cycles);
  void GrowIndex();
  void GrowCycles();

  ProcessTable& processes_;
  PlaceNumbers& numbers_;
  std::vector<BranchStackFormat> formats_;  // by event
  std::array<uint64_t, 4> seeds_;
  LargeVector<Slot> index_;  // a power of two, at most half of it used
  LargeVector<Trace> traces_;
  LargeVector<Places> places_;  // by trace
  LargeVector<CycleCount> cycles_;
  size_t cycles_used_ = 0;
  uint64_t wrong_path_ = 0;
  std::vector<BranchEdge> edges_;
  std::vector<uint64_t> hashes_;
};

}  // namespace ptarmigan::internal
