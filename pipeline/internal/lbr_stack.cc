#include "pipeline/internal/lbr_stack.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "decode/branch_stack.h"

namespace ptarmigan::internal {
namespace {

// A call instruction and what may stand in front of it: the return address lies at most so far behind its start.
constexpr uint64_t kCallBytesMax = 9;
// Depths of the hardware are powers of two from here on.
constexpr size_t kDepthMin = 4;

bool IsReturnAddressOf(uint64_t call, uint64_t address) {
  return address > call && address - call <= kCallBytesMax;
}

// Where the return addresses of user code begin in a chain: behind the marker and the interrupted address.
size_t UserCallersIn(std::span<const uint64_t> chain) {
  const auto marker = std::ranges::find(chain, kContextUser);
  const auto at = static_cast<size_t>(marker - chain.begin());
  return std::min(at + 2, chain.size());
}

}  // namespace

std::string_view LbrCheckName(LbrCheck check) {
  switch (check) {
    case LbrCheck::kLinked:
      return "linked";
    case LbrCheck::kBroken:
      return "broken";
    case LbrCheck::kUnchecked:
      return "unchecked";
    case LbrCheck::kChainAgrees:
      return "chain agrees";
    case LbrCheck::kChainIsPrefix:
      return "chain is prefix";
    case LbrCheck::kChainDisagrees:
      return "chain disagrees";
    case LbrCheck::kChainAbsent:
      return "chain absent";
    case LbrCheck::kWalkAgrees:
      return "walk agrees";
    case LbrCheck::kWalkIsPrefix:
      return "walk is prefix";
    case LbrCheck::kWalkDisagrees:
      return "walk disagrees";
    case LbrCheck::kJoined:
      return "joined with chain";
    case LbrCheck::kJoinedWalk:
      return "joined with walk";
    case LbrCheck::kStitched:
      return "stitched to sample before";
    case LbrCheck::kStitchAgrees:
      return "stitch agrees with chain";
    case LbrCheck::kStitchDisagrees:
      return "stitch disagrees with chain";
    case LbrCheck::kStitchingOff:
      return "stitching turned off";
  }
  return "";
}

LbrStack::Found LbrStack::Find(const CapturedSample& sample, Process& process) {
  const Witness witness = FindWitness(sample, process);
  const uint64_t user_ip = UserAddress(sample, witness);
  const std::span<const BranchRecord> entries = Entries(sample);
  const LbrCheck links = CheckLinks(user_ip, entries, process);
  Count(links);
  const Alignment alignment = Align(witness, entries);
  Count(alignment.result);
  const std::span<const BranchRecord> older = Stitch(sample, entries);
  const bool is_refuted = alignment.result == LbrCheck::kWalkDisagrees && witness.IsSure();
  if (witness.walk != nullptr && (entries.empty() || is_refuted)) return FoundByWalk(*witness.walk);

  frames_.clear();
  if (user_ip != 0) frames_.push_back({user_ip, false});
  for (const BranchRecord& entry : entries) frames_.push_back({entry.from, false});
  // (A function that goes on in another one breaks the link, but not the walk.)
  const bool is_believed = links != LbrCheck::kBroken || (alignment.Fits() && witness.IsSure());
  Found found{.frames = {},
              .origin = is_believed ? StackOrigin::kLbr : StackOrigin::kApproximate,
              .end = StackEnd::kComplete};
  // Where the witness goes on below the entries.
  size_t returns_at = entries.size() - alignment.skipped;
  if (!older.empty() && is_believed) {
    const bool reaches_below = alignment.Fits() && returns_at < returns_.size();
    const std::span<const uint64_t> below =
        reaches_below ? std::span<const uint64_t>(returns_).subspan(returns_at)
                      : std::span<const uint64_t>();
    if (BelievesStitch(older, below)) {
      Count(LbrCheck::kStitched);
      found.origin = StackOrigin::kApproximate;
      for (const BranchRecord& entry : older) frames_.push_back({entry.from, false});
      returns_at += older.size();
    }
  }
  const bool is_outermost =
      !frames_.empty() && unwinder_.IsOutermost({frames_.back().address}, process);
  const bool is_joined =
      !is_outermost && alignment.Fits() && is_believed && Join(returns_at, process);
  if (is_joined) {
    Count(witness.walk != nullptr ? LbrCheck::kJoinedWalk : LbrCheck::kJoined);
    if (!witness.IsSure()) found.origin = StackOrigin::kApproximate;
  }
  if (is_joined && witness.walk != nullptr) {
    found.end = witness.walk->end;
  } else if (!frames_.empty() && !unwinder_.IsOutermost({frames_.back().address}, process)) {
    found.end = !is_joined && MayBeFull(sample, entries.size()) ? StackEnd::kFrameLimit
                                                                : StackEnd::kNoUnwindTable;
  }
  found.frames = frames_;
  return found;
}

LbrStack::Found LbrStack::FoundByWalk(const UserUnwinder::Walk& walk) {
  frames_.clear();
  for (const WalkedFrame& frame : walk.frames)
    frames_.push_back({frame.pc.value, frame.is_return_address});
  return {.frames = frames_, .origin = walk.origin, .end = walk.end};
}

std::map<std::string, uint64_t> LbrStack::Checks() const {
  std::map<std::string, uint64_t> checks;
  for (size_t i = 0; i < kLbrChecks; ++i) {
    if (checks_[i] > 0) checks.emplace(LbrCheckName(static_cast<LbrCheck>(i)), checks_[i]);
  }
  return checks;
}

std::span<const BranchRecord> LbrStack::Stitch(const CapturedSample& sample,
                                               std::span<const BranchRecord> entries) {
  Recent& recent = recent_[static_cast<uint32_t>(sample.identity.tid) % kRecentThreads];
  const size_t depth = entries.size();
  const bool comparable = sample.branch_hw_index != UINT64_MAX && MayBeFull(sample, depth) &&
                          recent.tid == sample.identity.tid && recent.hw_index != UINT64_MAX;
  size_t kept = 0;  // entries of the last sample that are still in the buffer
  if (comparable) {
    const size_t grown = static_cast<size_t>(sample.branch_hw_index - recent.hw_index) % depth;
    const size_t same = depth - grown;
    const auto is_same = [](const BranchRecord& a, const BranchRecord& b) {
      return a.from == b.from && a.to == b.to;
    };
    if (same >= kStitchEntriesMin && recent.entries.size() >= same &&
        std::equal(entries.begin() + static_cast<ptrdiff_t>(grown), entries.end(),
                   recent.entries.begin(), is_same)) {
      kept = same;
    }
  }
  std::vector<BranchRecord> now(entries.begin(), entries.end());
  if (kept > 0) {
    const size_t room = kStackFramesMax - 1 - std::min(depth, kStackFramesMax - 1);
    const size_t count = std::min(recent.entries.size() - kept, room);
    const auto begin = recent.entries.begin() + static_cast<ptrdiff_t>(kept);
    now.insert(now.end(), begin, begin + static_cast<ptrdiff_t>(count));
  }
  recent = {sample.identity.tid, sample.branch_hw_index, std::move(now)};
  return std::span(recent.entries).subspan(depth);
}

bool LbrStack::MayBeFull(const CapturedSample& sample, size_t entries) {
  if (sample.event >= depths_.size()) {
    for (size_t event = depths_.size(); event <= sample.event; ++event) {
      depths_.push_back(
          event < description_.events.size()
              ? BranchStackFormatOf(description_, description_.events[event]).entries_max
              : 0);
    }
  }
  const size_t depth = depths_[sample.event];
  if (depth > 0) return entries >= depth;
  return entries >= kDepthMin && std::has_single_bit(entries);
}

LbrStack::Witness LbrStack::FindWitness(const CapturedSample& sample, Process& process) {
  returns_.clear();
  if (unwinder_.CanUnwind(sample)) {
    walk_.emplace(unwinder_.Unwind(sample, process));
    if (!walk_->frames.empty()) {
      // Up to the first frame that was itself interrupted: no call stands behind it.
      for (const WalkedFrame& frame : std::span(walk_->frames).subspan(1)) {
        if (!frame.is_return_address) break;
        returns_.push_back(frame.pc.value);
      }
      return {.walk = &*walk_};
    }
  }
  const std::span<const uint64_t> chain(sample.chain);
  for (const uint64_t address : chain.subspan(UserCallersIn(chain))) {
    if (IsContextMarker(address)) break;
    returns_.push_back(address);
  }
  return {};
}

// The interrupted user address is the sample's, or for a kernel sample that of the witness.
uint64_t LbrStack::UserAddress(const CapturedSample& sample, const Witness& witness) const {
  if (sample.cpumode != CpuMode::kKernel) return sample.ip.value;
  if (witness.walk != nullptr) return witness.walk->frames.front().pc.value;
  const auto marker = std::ranges::find(sample.chain, kContextUser);
  if (marker != sample.chain.end() && marker + 1 != sample.chain.end()) return *(marker + 1);
  return sample.branches.empty() ? 0 : sample.branches.front().to;
}

// An entry without addresses ends the list.
std::span<const BranchRecord> LbrStack::Entries(const CapturedSample& sample) const {
  const auto end = std::ranges::find_if(
      sample.branches, [](const BranchRecord& entry) { return entry.from == 0 || entry.to == 0; });
  const auto count = static_cast<size_t>(end - sample.branches.begin());
  return std::span(sample.branches).first(std::min(count, kStackFramesMax - 1));
}

LbrCheck LbrStack::CheckLinks(uint64_t user_ip, std::span<const BranchRecord> entries,
                              Process& process) {
  bool all_known = true;
  uint64_t inside = user_ip;
  for (const BranchRecord& entry : entries) {
    const auto called = unwinder_.FunctionStart({entry.to}, process);
    const auto running = unwinder_.FunctionStart({inside}, process);
    if (!called || !running) {
      all_known = false;
    } else if (*called != *running && !unwinder_.IsLinkageStub({entry.to}, process)) {
      return LbrCheck::kBroken;
    }
    inside = entry.from;
  }
  return all_known ? LbrCheck::kLinked : LbrCheck::kUnchecked;
}

LbrStack::Alignment LbrStack::Align(const Witness& witness,
                                    std::span<const BranchRecord> entries) const {
  Alignment alignment;
  if (returns_.empty() || entries.empty()) return alignment;
  const bool is_walk = witness.walk != nullptr;
  alignment.result = is_walk ? LbrCheck::kWalkDisagrees : LbrCheck::kChainDisagrees;
  // A leaf function without a frame of its own hides its caller from the chain.
  const size_t skipped_max = is_walk ? 0 : 1;
  for (size_t skipped = 0; skipped <= skipped_max && skipped < entries.size(); ++skipped) {
    const size_t both = std::min(entries.size() - skipped, returns_.size());
    bool fits = true;
    for (size_t i = 0; i < both && fits; ++i) {
      fits = IsReturnAddressOf(entries[i + skipped].from, returns_[i]);
    }
    if (!fits) continue;
    alignment.skipped = skipped;
    const bool is_same = entries.size() == returns_.size() + skipped;
    if (is_walk) {
      alignment.result = is_same ? LbrCheck::kWalkAgrees : LbrCheck::kWalkIsPrefix;
    } else {
      alignment.result = is_same ? LbrCheck::kChainAgrees : LbrCheck::kChainIsPrefix;
    }
    break;
  }
  return alignment;
}

bool LbrStack::BelievesStitch(std::span<const BranchRecord> older,
                              std::span<const uint64_t> returns_below) {
  const size_t both = std::min(older.size(), returns_below.size());
  bool agrees = true;
  for (size_t i = 0; i < both && agrees; ++i) {
    agrees = IsReturnAddressOf(older[i].from, returns_below[i]);
  }
  if (both > 0) Count(agrees ? LbrCheck::kStitchAgrees : LbrCheck::kStitchDisagrees);
  if (!agrees) return false;
  const uint64_t disagreed = Counted(LbrCheck::kStitchDisagrees);
  const uint64_t checked = Counted(LbrCheck::kStitchAgrees) + disagreed;
  if (checked < kStitchChecksMin || disagreed * 100 <= checked * kStitchDisagreePercentMax)
    return true;
  Count(LbrCheck::kStitchingOff);
  return false;
}

// Adds the witness's callers from `returns_at` on, as long as they are code. False if there are none.
bool LbrStack::Join(size_t returns_at, Process& process) {
  const size_t frames = frames_.size();
  for (size_t i = returns_at; i < returns_.size() && frames_.size() < kStackFramesMax; ++i) {
    if (!unwinder_.IsCode({returns_[i]}, process)) break;
    frames_.push_back({returns_[i], true});
  }
  return frames_.size() > frames;
}

}  // namespace ptarmigan::internal
