#include "pipeline/internal/stack_finder.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace ptarmigan::internal {
namespace {

CpuMode ModeOfMarker(uint64_t marker) {
  switch (marker) {
    case kContextHypervisor:
      return CpuMode::kHypervisor;
    case kContextKernel:
      return CpuMode::kKernel;
    case kContextUser:
    case kContextUserDeferred:
      return CpuMode::kUser;
    case kContextGuest:
    case kContextGuestKernel:
      return CpuMode::kGuestKernel;
    case kContextGuestUser:
      return CpuMode::kGuestUser;
    default:
      return CpuMode::kUnknown;
  }
}

bool HasFilePositions(const CodeObject& object) {
  return object.kind == CodeObject::Kind::kFile || object.kind == CodeObject::Kind::kVdso;
}

}  // namespace

StackFinder::Stack StackFinder::Find(const CapturedSample& sample, Process& process) {
  places_.clear();
  remembering_ = nullptr;
  last_mapping_ = nullptr;
  time_ns_ = sample.identity.has_time ? sample.identity.time_ns : Place::kAnyTime;
  const Stack stack =
      unwinder_.CanUnwind(sample) ? FindByUnwinding(sample, process) : FindByChain(sample, process);
  NumberPlaces();
  return stack;
}

void StackFinder::Remember(uint32_t stack, uint32_t row) {
  if (remembering_ == nullptr) return;
  remembering_->stack = stack;
  remembering_->row = row;
}

StackFinder::Stack StackFinder::FindByUnwinding(const CapturedSample& sample, Process& process) {
  if (sample.has_chain) {
    AppendChain(sample, process, /*kernel_only=*/true);
  } else if (sample.cpumode == CpuMode::kKernel) {
    AppendPlace(process, CpuMode::kKernel, sample.ip.value, /*is_caller=*/false);
  }
  const UserUnwinder::Walk walk = unwinder_.Unwind(sample, process);
  for (const WalkedFrame& frame : walk.frames) {
    if (Depth() >= kStackFramesMax) break;
    AppendPlace(process, CpuMode::kUser, frame.pc.value, frame.is_return_address);
  }
  return {.origin = walk.origin, .end = walk.end};
}

StackFinder::Stack StackFinder::FindByChain(const CapturedSample& sample, Process& process) {
  const bool by_lbr = sample.has_branches && unwinder_.IsLbrCallStack(sample.event);
  if (!sample.has_chain && !by_lbr) {
    StackEnd end = StackEnd::kComplete;
    if (sample.has_ip && !AppendPlace(process, sample.cpumode, sample.ip.value, false)) {
      end = StackEnd::kNoMapping;
    }
    return {.origin = StackOrigin::kNone, .end = end};
  }
  if (by_lbr) {
    AppendChain(sample, process, /*kernel_only=*/true);
    AppendLbrStack(sample, process);
    return {.origin = StackOrigin::kLbr, .end = StackEnd::kComplete};
  }
  // The same addresses in the same address spaces give the same stack.
  // (Unless a JIT compiler moves code about: then time is part of the place.)
  const uint64_t time_ns = numbers_.AreToldApartByTime(process.pid) ? time_ns_ : 0;
  const uint64_t spaces[] = {process.space.generation(),
                             processes_.kernel().generation(),
                             time_ns,
                             unwinder_.LinkRegister(sample),
                             sample.ip.value,
                             static_cast<uint64_t>(sample.cpumode)};
  const uint64_t spaces_hash = HashBytes64(std::as_bytes(std::span(spaces)));
  const Hash128 hash = HashBytes128(std::as_bytes(std::span(sample.chain)));
  const uint64_t key = hash.low ^ spaces_hash;
  const auto key_high = static_cast<uint32_t>(hash.high);
  if (chains_.empty()) chains_.resize(kChainSlots);
  CachedChain& cached = chains_[key % kChainSlots];
  remembering_ = &cached;
  if (cached.stack == kNewStack || cached.key != key || cached.key_high != key_high) {
    cached = {.key = key,
              .key_high = key_high,
              .end = AppendChain(sample, process, /*kernel_only=*/false)};
  }
  return {.id = cached.stack,
          .likely_row = cached.row,
          .origin = StackOrigin::kKernelChain,
          .end = cached.end};
}

StackEnd StackFinder::AppendChain(const CapturedSample& sample, Process& process,
                                  bool kernel_only) {
  const std::span<const uint64_t> chain(sample.chain);
  CpuMode mode = sample.cpumode;
  bool exact = true;  // the next address is where code was interrupted, not a return address
  bool leaf = true;
  StackEnd end = StackEnd::kComplete;
  RecentCallers* recent = nullptr;
  size_t callers_at = chain.size();  // from here on: user mode return addresses
  size_t places_at = 0;
  size_t shared_at = chain.size();  // from here on: those of `recent`
  for (size_t i = 0; i < shared_at; ++i) {
    const uint64_t entry = chain[i];
    if (IsContextMarker(entry)) {
      mode = ModeOfMarker(entry);
      exact = true;
      callers_at = shared_at = chain.size();
      continue;
    }
    // A precise event of user code may be delivered from the kernel: what the kernel did by then is not its stack.
    if (sample.cpumode == CpuMode::kUser && mode == CpuMode::kKernel) continue;
    const bool is_leaf = std::exchange(leaf, false);
    if (kernel_only && mode != CpuMode::kKernel) continue;
    if (mode == CpuMode::kUser && !exact && !is_leaf && callers_at == chain.size()) {
      callers_at = i;
      places_at = Depth();
      recent = &recent_callers_[static_cast<uint32_t>(sample.identity.tid) % kRecentCallers];
      shared_at = chain.size() - SharedCallers(*recent, chain.subspan(i), process);
      if (i == shared_at) break;
    }
    if (Depth() >= kStackFramesMax) return StackEnd::kFrameLimit;
    // The first address repeats the sample's own, which is the more precise one where they differ.
    const uint64_t address = is_leaf && sample.has_ip ? sample.ip.value : entry;
    const bool mapped = AppendPlace(process, mode, address, !exact);
    if (is_leaf) AppendLeafCaller(sample, process);
    exact = false;
    // Frame pointers that lead nowhere end in an address outside all code.
    end = mapped || is_leaf ? StackEnd::kComplete : StackEnd::kNoMapping;
  }
  if (callers_at < chain.size()) {
    NumberPlaces();
    if (shared_at < chain.size()) {
      const size_t shared = chain.size() - shared_at;
      places_.insert(places_.end(), recent->places.end() - static_cast<ptrdiff_t>(shared),
                     recent->places.end());
      end = recent->end;
    }
    recent->space = process.space.generation();
    recent->addresses.assign(chain.begin() + static_cast<ptrdiff_t>(callers_at), chain.end());
    recent->places.assign(places_.begin() + static_cast<ptrdiff_t>(places_at), places_.end());
    recent->end = end;
  }
  if (leaf && !kernel_only && sample.has_ip) {
    AppendPlace(process, sample.cpumode, sample.ip.value, false);
  }
  const uint16_t limit = description_.events[sample.event].attr.sample_max_stack;
  if (limit > 0 && Depth() >= limit) end = StackEnd::kFrameLimit;
  return end;
}

size_t StackFinder::SharedCallers(const RecentCallers& recent, std::span<const uint64_t> addresses,
                                  const Process& process) const {
  // (What a JIT compiler moves about has another place at another time.)
  if (recent.space != process.space.generation() || numbers_.AreToldApartByTime(process.pid))
    return 0;
  const auto [ours, theirs] = std::mismatch(addresses.rbegin(), addresses.rend(),
                                            recent.addresses.rbegin(), recent.addresses.rend());
  const auto shared = static_cast<size_t>(ours - addresses.rbegin());
  return Depth() + addresses.size() <= kStackFramesMax ? shared : 0;
}

void StackFinder::AppendLbrStack(const CapturedSample& sample, Process& process) {
  // In call-stack mode the entries are the calls that have not returned: `from` is the call instruction itself.
  // The interrupted user address is the sample's, or for a kernel sample the first user address of its chain.
  uint64_t user_ip = sample.ip.value;
  if (sample.cpumode == CpuMode::kKernel) {
    user_ip = 0;
    const auto marker = std::ranges::find(sample.chain, kContextUser);
    if (marker != sample.chain.end() && marker + 1 != sample.chain.end()) user_ip = *(marker + 1);
    if (user_ip == 0 && !sample.branches.empty()) user_ip = sample.branches.front().to;
  }
  if (user_ip != 0) AppendPlace(process, CpuMode::kUser, user_ip, false);
  for (const BranchRecord& branch : sample.branches) {
    if (Depth() >= kStackFramesMax) return;
    AppendPlace(process, CpuMode::kUser, branch.from, false);
  }
}

void StackFinder::AppendLeafCaller(const CapturedSample& sample, Process& process) {
  const auto caller = unwinder_.LeafCaller(sample, process);
  if (!caller) return;
  // The next entry of the chain, where there is one, may be the same return address already.
  size_t addresses = 0;
  for (const uint64_t entry : sample.chain) {
    if (IsContextMarker(entry)) continue;
    if (++addresses == 2 && entry == caller->value) return;
  }
  AppendPlace(process, CpuMode::kUser, caller->value, /*is_caller=*/true);
}

bool StackFinder::AppendPlace(Process& process, CpuMode mode, uint64_t address, bool is_caller) {
  // A return address belongs to the call before it.
  const VirtAddr looked_up{is_caller && address > 0 ? address - 1 : address};
  // Frames that follow each other mostly lie in one object.
  if (last_mapping_ == nullptr || mode != last_mode_ || !last_mapping_->Contains(looked_up)) {
    last_mapping_ = processes_.Lookup(process, looked_up, mode);
    last_mode_ = mode;
    if (last_mapping_ == nullptr) {
      found_places_[found_count_++] = {processes_.objects().Unmapped(mode), address};
      return false;
    }
  }
  const CodeObject& object = *last_mapping_->object;
  const uint64_t position =
      HasFilePositions(object) ? last_mapping_->ToFileOffset(looked_up).value : looked_up.value;
  found_places_[found_count_++] = {&object, position};
  return true;
}

void StackFinder::NumberPlaces() {
  numbers_.Append(std::span(found_places_).first(found_count_), time_ns_, &places_);
  found_count_ = 0;
}

}  // namespace ptarmigan::internal
