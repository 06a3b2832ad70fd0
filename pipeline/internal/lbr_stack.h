// LbrStack: call stacks from branch records made in call-stack mode, checked. The hardware pushes at calls and pops at
// returns; it does not notice longjmp, exceptions, signals, and switches of stacks, and forgets the oldest entry when it
// is full. So an entry is believed as far as its neighbours and the frame-pointer chain beside it bear it out:
//
//   entry 0   from ●──▶ to ┐  the function of the interrupted address is the one that was called
//   entry 1   from ●──▶ to ┘  the call at entry 0 stands in the function that entry 1 called
//   ...
//   entry n-1              the frame-pointer chain goes on below where the hardware's depth ended
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
  kJoined,    // callers below the last entry came from the chain
  kStitched,  // callers below the last entry came from the thread's sample before
  // What the frame-pointer chain, where it reaches below the last entry, says about the callers of the sample before:
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
  explicit LbrStack(UserUnwinder& unwinder) : unwinder_(unwinder) {}

  struct Found {
    std::span<const LbrFrame> frames;  // user mode, leaf first; valid until the next call
    StackOrigin origin;  // kLbr, or kApproximate where entries or the join are in doubt
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
  // How the frame-pointer chain lies beside the entries: return address i + `skipped` is that of entry i.
  struct Alignment {
    size_t chain_begin = 0;  // first return address in the sample's chain
    size_t skipped = 0;      // entries at the leaf end that the chain has not
    LbrCheck result = LbrCheck::kChainAbsent;
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
  uint64_t UserAddress(const CapturedSample& sample) const;
  std::span<const BranchRecord> Entries(const CapturedSample& sample) const;
  LbrCheck CheckLinks(uint64_t user_ip, std::span<const BranchRecord> entries, Process& process);
  Alignment AlignChain(const CapturedSample& sample, std::span<const BranchRecord> entries) const;
  bool Join(const CapturedSample& sample, size_t chain_at, Process& process);
  // Whether the callers `older` of the sample before are to be believed; counts what speaks for and against them.
  bool BelievesStitch(std::span<const BranchRecord> older, std::span<const uint64_t> returns_below);
  uint64_t Counted(LbrCheck check) const { return checks_[static_cast<size_t>(check)]; }
  void Count(LbrCheck check) { ++checks_[static_cast<size_t>(check)]; }

  UserUnwinder& unwinder_;
  std::vector<LbrFrame> frames_;
  std::array<Recent, kRecentThreads> recent_;
  std::array<uint64_t, kLbrChecks> checks_ = {};
};

}  // namespace ptarmigan::internal
