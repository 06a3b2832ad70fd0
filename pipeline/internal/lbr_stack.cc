#include "pipeline/internal/lbr_stack.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ptarmigan::internal {
namespace {

// A call instruction and what may stand in front of it: the return address lies at most so far behind its start.
constexpr uint64_t kCallBytesMax = 9;
// Depths of the hardware are powers of two from here on: a full stack has lost its oldest entries.
constexpr size_t kDepthMin = 4;

bool IsReturnAddressOf(uint64_t call, uint64_t address) {
  return address > call && address - call <= kCallBytesMax;
}

bool MayBeFull(size_t entries) { return entries >= kDepthMin && std::has_single_bit(entries); }

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
    case LbrCheck::kJoined:
      return "joined with chain";
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
  const uint64_t user_ip = UserAddress(sample);
  const std::span<const BranchRecord> entries = Entries(sample);
  frames_.clear();
  if (user_ip != 0) frames_.push_back({user_ip, false});
  for (const BranchRecord& entry : entries) frames_.push_back({entry.from, false});

  Found found{.frames = {}, .origin = StackOrigin::kLbr, .end = StackEnd::kComplete};
  const LbrCheck links = CheckLinks(user_ip, entries, process);
  Count(links);
  if (links == LbrCheck::kBroken) found.origin = StackOrigin::kApproximate;

  const Alignment alignment = AlignChain(sample, entries);
  Count(alignment.result);
  const bool fits =
      alignment.result == LbrCheck::kChainAgrees || alignment.result == LbrCheck::kChainIsPrefix;
  // Where the chain goes on below the entries.
  size_t chain_at = alignment.chain_begin + entries.size() - alignment.skipped;
  const std::span<const BranchRecord> older = Stitch(sample, entries);
  if (!older.empty() && links != LbrCheck::kBroken) {
    const bool reaches_below = fits && chain_at < sample.chain.size();
    const std::span<const uint64_t> below =
        reaches_below ? std::span(sample.chain).subspan(chain_at) : std::span<const uint64_t>();
    if (BelievesStitch(older, below)) {
      Count(LbrCheck::kStitched);
      found.origin = StackOrigin::kApproximate;
      for (const BranchRecord& entry : older) frames_.push_back({entry.from, false});
      chain_at += older.size();
    }
  }
  const bool is_outermost =
      !frames_.empty() && unwinder_.IsOutermost({frames_.back().address}, process);
  bool is_joined = false;
  if (!is_outermost && fits && links != LbrCheck::kBroken) {
    is_joined = Join(sample, chain_at, process);
  }
  if (is_joined) {
    Count(LbrCheck::kJoined);
    found.origin = StackOrigin::kApproximate;
  }
  if (!frames_.empty() && !unwinder_.IsOutermost({frames_.back().address}, process)) {
    found.end =
        !is_joined && MayBeFull(entries.size()) ? StackEnd::kFrameLimit : StackEnd::kNoUnwindTable;
  }
  found.frames = frames_;
  return found;
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
  const bool comparable = sample.branch_hw_index != UINT64_MAX && MayBeFull(depth) &&
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

// The interrupted user address is the sample's, or for a kernel sample the first user address of its chain.
uint64_t LbrStack::UserAddress(const CapturedSample& sample) const {
  if (sample.cpumode != CpuMode::kKernel) return sample.ip.value;
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

LbrStack::Alignment LbrStack::AlignChain(const CapturedSample& sample,
                                         std::span<const BranchRecord> entries) const {
  const std::span<const uint64_t> chain(sample.chain);
  Alignment alignment;
  alignment.chain_begin = UserCallersIn(chain);
  const std::span<const uint64_t> returns = chain.subspan(alignment.chain_begin);
  if (returns.empty() || entries.empty()) return alignment;
  alignment.result = LbrCheck::kChainDisagrees;
  // A leaf function without a frame of its own hides its caller from the chain.
  for (size_t skipped = 0; skipped < 2 && skipped < entries.size(); ++skipped) {
    const size_t both = std::min(entries.size() - skipped, returns.size());
    bool fits = true;
    for (size_t i = 0; i < both && fits; ++i) {
      fits = IsReturnAddressOf(entries[i + skipped].from, returns[i]);
    }
    if (!fits) continue;
    alignment.skipped = skipped;
    alignment.result = entries.size() == returns.size() + skipped ? LbrCheck::kChainAgrees
                                                                  : LbrCheck::kChainIsPrefix;
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

// Adds the chain's callers from `chain_at` on, as long as they are code. False if there are none.
bool LbrStack::Join(const CapturedSample& sample, size_t chain_at, Process& process) {
  const size_t frames = frames_.size();
  for (size_t i = chain_at; i < sample.chain.size() && frames_.size() < kStackFramesMax; ++i) {
    const uint64_t address = sample.chain[i];
    if (IsContextMarker(address) || !unwinder_.IsCode({address}, process)) break;
    frames_.push_back({address, true});
  }
  return frames_.size() > frames;
}

}  // namespace ptarmigan::internal
