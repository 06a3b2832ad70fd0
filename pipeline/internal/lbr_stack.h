// LbrStack: call stacks from branch records made in call-stack mode, checked. The hardware pushes at calls and pops at
// returns; it does not notice longjmp, exceptions, signals, and switches of stacks, and forgets the oldest entry when it
// is full. So an entry is believed as far as its neighbours bear it out, and what stands beside it: the user stack walked by
// its unwind tables, where the sample has registers and stack bytes, else the frame-pointer chain.
//
//   entry 0   from ●──▶ to ┐  the function of the interrupted address is the one that was called
//   entry 1   from ●──▶ to ┘  the call at entry 0 stands in the function that entry 1 called
//   ...
//   entry n-1              the walk or the chain goes on below where the hardware's depth ended
//
// A walk by unwind tables alone has read the stack itself: where it disagrees, it is believed and the entries are not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/address_space.h"
#include "model/event.h"
#include "model/recording.h"
#include "model/stack.h"
#include "pipeline/internal/user_unwinder.h"

namespace ptarmigan::internal {

// What the checks of one stack gave.
enum class LbrCheck : uint8_t {
  kLinked,          // every entry fits the next
  kBroken,          // some entry does not fit: stale or missing ones
  kUnchecked,       // no unwind tables to tell functions apart by
  kChainAgrees,     // the frame-pointer chain has the same callers
  kChainIsPrefix,   // the one is the beginning of the other
  kChainDisagrees,  // another caller stands in it
  kChainAbsent,
  kWalkAgrees,  // the walk of the user stack has the same callers
  kWalkIsPrefix,
  kWalkDisagrees,
  kJoined,      // callers below the last entry came from the chain
  kJoinedWalk,  // callers below the last entry came from the walk
  kStitched,    // callers below the last entry came from the thread's sample before
  // What chain or walk, where they reach below the last entry, say about the callers of the sample before:
  kStitchAgrees,
  kStitchDisagrees,  // they are left out
  kStitchingOff,     // left out because too many others disagree
};
constexpr size_t kLbrChecks = static_cast<size_t>(LbrCheck::kStitchingOff) + 1;
std::string_view LbrCheckName(LbrCheck check);

struct LbrFrame {
  uint64_t address = 0;
  bool is_return_address = false;
};

class LbrStack {
 public:
  // Both must outlive the object.
  LbrStack(const RecordingDescription& description, UserUnwinder& unwinder)
      : description_(description), unwinder_(unwinder) {}

  struct Found {
    std::span<const LbrFrame> frames;  // user mode, leaf first; valid until the next call
    // kLbr, or kApproximate where entries or the join are in doubt, or the walk's where that was believed instead.
    StackOrigin origin;
    StackEnd end;
  };
  Found Find(const CapturedSample& sample, Process& process);

  // Stitching stops while more than one of a hundred stitches that could be checked disagree with the chain; judged by so
  // many at least.
  static constexpr uint64_t kStitchChecksMin = 100;
  static constexpr uint64_t kStitchDisagreePercentMax = 1;

  // Samples by what their checks gave; those that were not seen are left out.
  std::map<std::string, uint64_t> Checks() const;

 private:
  // Who else knows the callers; their return addresses, innermost first, are in returns_.
  struct Witness {
    const UserUnwinder::Walk* walk =
        nullptr;  // of the user stack; else it is the frame-pointer chain
    // Nothing but unwind tables: no guess.
    bool IsSure() const { return walk != nullptr && walk->origin == StackOrigin::kCfi; }
  };
  // How the witness lies beside the entries: return address i is that of entry i + `skipped`.
  struct Alignment {
    size_t skipped = 0;  // entries at the leaf end that the chain has not
    LbrCheck result = LbrCheck::kChainAbsent;
    bool Fits() const {
      return result == LbrCheck::kChainAgrees || result == LbrCheck::kChainIsPrefix ||
             result == LbrCheck::kWalkAgrees || result == LbrCheck::kWalkIsPrefix;
    }
  };
  // Entries of one thread's last sample, with what was stitched to them.
  struct Recent {
    int32_t tid = -1;
    uint64_t hw_index = UINT64_MAX;
    std::vector<BranchRecord> entries;
  };
  static constexpr size_t kRecentThreads = 64;
  // So many entries have to be the same in both samples.
  static constexpr size_t kStitchEntriesMin = 8;

  // The hardware's slots tell how far the stack grew since the thread's last sample: `entries` that fell out of a full
  // buffer, where all others still stand in their slots. Empty where that is not proven. Remembers the sample.
  std::span<const BranchRecord> Stitch(const CapturedSample& sample,
                                       std::span<const BranchRecord> entries);
  Witness FindWitness(const CapturedSample& sample, Process& process);
  uint64_t UserAddress(const CapturedSample& sample, const Witness& witness) const;
  std::span<const BranchRecord> Entries(const CapturedSample& sample) const;
  LbrCheck CheckLinks(uint64_t user_ip, std::span<const BranchRecord> entries, Process& process);
  Alignment Align(const Witness& witness, std::span<const BranchRecord> entries) const;
  bool Join(size_t returns_at, Process& process);
  Found FoundByWalk(const UserUnwinder::Walk& walk);
  // Whether so many entries may be all that the hardware could hold: then the oldest have been lost.
  bool MayBeFull(const CapturedSample& sample, size_t entries);
  // Whether the callers `older` of the sample before are to be believed; counts what speaks for and against them.
  bool BelievesStitch(std::span<const BranchRecord> older, std::span<const uint64_t> returns_below);
  uint64_t Counted(LbrCheck check) const { return checks_[static_cast<size_t>(check)]; }
  void Count(LbrCheck check) { ++checks_[static_cast<size_t>(check)]; }

  const RecordingDescription& description_;
  UserUnwinder& unwinder_;
  std::vector<size_t> depths_;  // by event: BranchStackFormat::entries_max
  std::optional<UserUnwinder::Walk> walk_;
  std::vector<uint64_t> returns_;
  std::vector<LbrFrame> frames_;
  std::array<Recent, kRecentThreads> recent_;
  std::array<uint64_t, kLbrChecks> checks_ = {};
};

}  // namespace ptarmigan::internal
