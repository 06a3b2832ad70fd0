// BranchStack: what the branch records of a sample say, whoever made them: Intel's LBR (legacy and architectural), AMD's
// LbrExtV2 and BRS, Arm's BRBE, and branch stacks that perf made from a CoreSight or PT trace. The kernel gives all of them
// one shape (struct perf_branch_entry, include/uapi/linux/perf_event.h); they differ in what they leave out:
//
//                        outcome         cycles      spec                   one side missing
//   Intel LBR            yes             Skylake on  -                      -
//   AMD LbrExtV2 (Zen 4) yes             -           wrong-path entries     -
//   AMD BRS (Zen 3)      -               -           -                      -
//   Arm BRBE             yes             yes         -                      from or to is 0
//   CoreSight            -  (see .cc)    -           -                      -
//   PT                   -               -           -                      -
//
// Absent is not zero: an outcome that is neither predicted nor mispredicted is unknown, 0 cycles are unknown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/event.h"
#include "model/recording.h"

namespace ptarmigan {

enum class BranchStackMode : uint8_t {
  kNone,
  kFlow,       // the last branches that were taken
  kCallStack,  // the calls that have not returned
};

// What one event's branch stacks mean.
struct BranchStackFormat {
  BranchStackMode mode = BranchStackMode::kNone;
  // Every taken branch is recorded: between two entries code ran straight on. False where a filter leaves kinds out.
  bool every_branch = false;
  bool has_outcome = false;
  bool has_cycles = false;
  // The most entries that the hardware holds; 0 where the recording does not say (PMU_CAPS: branches).
  size_t entries_max = 0;
  // Counts of other events beside each entry: so many of so many bits each (branch_counter_nr and _width); 0: none, or
  // their layout is not recorded.
  unsigned counters = 0;
  unsigned counter_bits = 0;
};

BranchStackFormat BranchStackFormatOf(const RecordingDescription& description,
                                      const EventDescription& event);

enum class BranchOutcome : uint8_t { kUnknown, kPredicted, kMispredicted };

// Of an entry: how often the `index`-th event that counts beside branches happened since the branch before. The highest
// number that fits stands for "at least so often".
struct BranchCounter {
  uint64_t value = 0;
  bool is_saturated = false;
};
BranchCounter BranchCounterOf(uint64_t counters, const BranchStackFormat& format, unsigned index);

// One branch that was taken. A side that is 0 was not recorded; never both.
struct BranchEdge {
  uint64_t from = 0;
  uint64_t to = 0;
  uint16_t cycles = 0;  // since the branch before; 0: not known; 0xffff: at least so many
  BranchOutcome outcome = BranchOutcome::kUnknown;
  bool is_return = false;  // false: not a return, or the kind is not recorded
};

// Where a stack's entries went: each is counted once.
struct BranchEntryCounts {
  uint64_t whole = 0;
  uint64_t half = 0;        // one side only
  uint64_t wrong_path = 0;  // speculation that was undone: the branch never happened
  uint64_t empty = 0;       // neither side: unused, or a virtual machine without the hardware

  uint64_t kept() const { return whole + half; }
  uint64_t all() const { return whole + half + wrong_path + empty; }
};

// Writes the sample's branches to the start of `edges`, newest first: so many as counts.kept() says. There is room for all
// entries of the sample. For flow mode.
BranchEntryCounts ReadBranchStack(const CapturedSample& sample, const BranchStackFormat& format,
                                  std::span<BranchEdge> edges);
// The same, behind what `edges` holds.
BranchEntryCounts AppendBranchStack(const CapturedSample& sample, const BranchStackFormat& format,
                                    std::vector<BranchEdge>* edges);

// Whether a branch's recorded type (PERF_BR_*) is that of a return from a function.
inline bool IsReturnType(const BranchRecord& branch) {
  constexpr uint64_t kReturn = 6;              // PERF_BR_RET
  constexpr uint64_t kConditionalReturn = 10;  // PERF_BR_COND_RET
  return branch.type == kReturn || branch.type == kConditionalReturn;
}

}  // namespace ptarmigan
