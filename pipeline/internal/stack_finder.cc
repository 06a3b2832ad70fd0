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

}  // namespace

StackFinder::Stack StackFinder::Find(const CapturedSample& sample, Process& process) {
  last_mapping_ = nullptr;
  last_mode_ = CpuMode::kUnknown;
  last_space_ = 0;
  // (What was remembered of a process may depend on time from now on.)
  if (std::exchange(told_apart_, numbers_.ToldApartByTime()) != numbers_.ToldApartByTime())
    known_.Clear();
  stack_ = {};
  stack_.found_begin = static_cast<uint32_t>(found_end_);
  stack_.time_ns = sample.identity.has_time ? sample.identity.time_ns : Place::kAnyTime;
  if (!sample.branches.empty() && unwinder_.IsLbrCallStack(sample.event)) {
    FindByBranches(sample, process);
  } else if (unwinder_.CanUnwind(sample)) {
    FindByUnwinding(sample, process);
  } else if (sample.has_chain) {
    FindByKernelChain(sample, process);
  } else if (sample.has_ip && !AppendPlace(process, sample.cpumode, sample.ip.value, false)) {
    stack_.end = StackEnd::kNoMapping;
  }
  stack_.found_count = static_cast<uint32_t>(Depth());
  return stack_;
}

void StackFinder::Number(const Stack& stack, std::vector<uint32_t>* places) {
  const uint32_t end = stack.found_begin + stack.found_count;
  for (uint32_t index = stack.found_begin; index < end; ++index) {
    Frame& frame = found_[index];
    if (frame.object != nullptr) {
      const uint32_t number = numbers_.NumberOf(frame, stack.time_ns);
      if (next_waiting_ < waiting_.size() && waiting_[next_waiting_].frame == index)
        known_.Renumber(waiting_[next_waiting_++].slot, kIsFrame | index, number);
      frame = {nullptr, number};
    } else if ((frame.position & kIsFrame) != 0) {
      frame.position = found_[frame.position & ~kIsFrame].position;
    }
    places->push_back(static_cast<uint32_t>(frame.position));
  }
  if (stack.recent == kNone) return;
  std::vector<uint32_t>& recent = recent_callers_[stack.recent].places;
  places->insert(places->end(), recent.end() - static_cast<ptrdiff_t>(stack.shared_count),
                 recent.end());
  const size_t callers = size_t{stack.callers_count} + stack.shared_count;
  recent.assign(places->end() - static_cast<ptrdiff_t>(callers), places->end());
}

void StackFinder::StartBatch() {
  found_end_ = 0;
  waiting_.clear();
  next_waiting_ = 0;
}

void StackFinder::AppendKernelPart(const CapturedSample& sample, Process& process) {
  if (sample.has_chain) {
    AppendChain(sample, process, /*kernel_only=*/true);
  } else if (sample.cpumode == CpuMode::kKernel) {
    AppendPlace(process, CpuMode::kKernel, sample.ip.value, /*is_caller=*/false);
  }
}

void StackFinder::FindByUnwinding(const CapturedSample& sample, Process& process) {
  AppendKernelPart(sample, process);
  const UserUnwinder::Walk walk = unwinder_.Unwind(sample, process);
  for (const WalkedFrame& frame : walk.frames) {
    if (Depth() >= kStackFramesMax) break;
    AppendPlace(process, CpuMode::kUser, frame.pc.value, frame.is_return_address);
  }
  stack_.origin = walk.origin;
  stack_.end = walk.end;
}

void StackFinder::FindByBranches(const CapturedSample& sample, Process& process) {
  AppendKernelPart(sample, process);
  const LbrStack::Found found = lbr_.Find(sample, process);
  for (const LbrFrame& frame : found.frames) {
    if (Depth() >= kStackFramesMax) break;
    AppendPlace(process, CpuMode::kUser, frame.address, frame.is_return_address);
  }
  stack_.origin = found.origin;
  stack_.end = found.end;
}

void StackFinder::FindByKernelChain(const CapturedSample& sample, Process& process) {
  // The same addresses in the same address spaces give the same stack.
  // (Unless a JIT compiler moves code about: then time is part of the place.)
  const uint64_t time_ns = numbers_.AreToldApartByTime(process.pid) ? stack_.time_ns : 0;
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
  stack_.chain = static_cast<uint32_t>(key % StackCounter::kChains);
  CachedChain& cached = chains_[stack_.chain];
  stack_.is_known = cached.is_used && cached.key == key && cached.key_high == key_high;
  if (!stack_.is_known) {
    cached = {.key = key,
              .key_high = key_high,
              .is_used = true,
              .end = AppendChain(sample, process, /*kernel_only=*/false)};
  }
  stack_.origin = StackOrigin::kKernelChain;
  stack_.end = cached.end;
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
      stack_.recent = kNone;
      continue;
    }
    // A precise event of user code may be delivered from the kernel: what the kernel did by then is not its stack.
    if (sample.cpumode == CpuMode::kUser && mode == CpuMode::kKernel) continue;
    const bool is_leaf = std::exchange(leaf, false);
    if (kernel_only && mode != CpuMode::kKernel) continue;
    if (mode == CpuMode::kUser && !exact && !is_leaf && callers_at == chain.size()) {
      callers_at = i;
      places_at = Depth();
      stack_.recent = static_cast<uint32_t>(sample.identity.tid) % kRecentCallers;
      recent = &recent_callers_[stack_.recent];
      shared_at = chain.size() - SharedCallers(*recent, chain.subspan(i), process);
      if (i == shared_at) break;
    }
    if (Depth() >= kStackFramesMax) {
      stack_.recent = kNone;
      return StackEnd::kFrameLimit;
    }
    // The first address repeats the sample's own, which is the more precise one where they differ.
    const uint64_t address = is_leaf && sample.has_ip ? sample.ip.value : entry;
    const bool mapped = AppendPlace(process, mode, address, !exact);
    if (is_leaf) AppendLeafCaller(sample, process);
    // Frame pointers that lead nowhere end in an address outside all code.
    end = mapped || is_leaf ? StackEnd::kComplete : StackEnd::kNoMapping;
    if (!std::exchange(exact, false) && callers_at < chain.size()) {
      const size_t known = AppendKnownCallers(chain.subspan(i + 1, shared_at - i - 1));
      if (known > 0) end = StackEnd::kComplete;
      i += known;
    }
  }
  if (callers_at < chain.size()) {
    stack_.shared_count = static_cast<uint32_t>(chain.size() - shared_at);
    stack_.callers_count = static_cast<uint32_t>(Depth() - places_at);
    if (stack_.shared_count > 0) end = recent->end;
    recent->space = process.space.generation();
    recent->addresses.assign(chain.begin() + static_cast<ptrdiff_t>(callers_at), chain.end());
    recent->end = end;
  }
  if (leaf && !kernel_only && sample.has_ip) {
    AppendPlace(process, sample.cpumode, sample.ip.value, false);
  }
  const uint16_t limit = description_.events[sample.event].attr.sample_max_stack;
  if (limit > 0 && Depth() + stack_.shared_count >= limit) end = StackEnd::kFrameLimit;
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
  if (mode != last_mode_) {
    last_mode_ = mode;
    last_mapping_ = nullptr;
    last_space_ = KnownSpace(process, mode);
  }
  const uint32_t slot = known_.SlotOf(looked_up.value, last_space_);
  if (last_space_ != 0 && known_.Holds(slot, looked_up.value, last_space_)) {
    found_[found_end_++] = {nullptr, known_.Number(slot)};
    return true;
  }
  // Frames that follow each other mostly lie in one object.
  if (last_mapping_ == nullptr || !last_mapping_->Contains(looked_up)) {
    last_mapping_ = processes_.Lookup(process, looked_up, mode);
    if (last_mapping_ == nullptr) {
      // A frame pointer that led astray left a number that is no address of code. It would make a place of its own, and a
      // stack of its own of every sample; what it says is that the caller is unknown.
      const bool is_astray =
          is_caller && mode == CpuMode::kUser && !process.space.mappings().empty();
      Found({processes_.objects().Unmapped(mode), is_astray ? kUnknownCaller : address});
      return false;
    }
  }
  const auto index = static_cast<uint32_t>(found_end_);
  Found(PlaceIn(*last_mapping_, looked_up));
  if (last_space_ != 0 && !numbers_.DependsOnTime(*last_mapping_->object)) {
    waiting_.push_back({index, slot});
    known_.Put(slot, {looked_up.value, last_space_, kIsFrame | index});
  }
  return true;
}

size_t StackFinder::AppendKnownCallers(std::span<const uint64_t> chain) {
  if (last_space_ == 0) return 0;
  Frame* const begin = found_.data() + found_end_;
  Frame* end = begin;
  for (const uint64_t entry : chain.first(std::min(chain.size(), kStackFramesMax - Depth()))) {
    const uint64_t looked_up = entry - 1;
    const uint32_t slot = known_.SlotOf(looked_up, last_space_);
    if (IsContextMarker(entry) || !known_.Holds(slot, looked_up, last_space_)) break;
    *end++ = {nullptr, known_.Number(slot)};
  }
  found_end_ += static_cast<size_t>(end - begin);
  return static_cast<size_t>(end - begin);
}

uint32_t StackFinder::KnownSpace(const Process& process, CpuMode mode) const {
  if (mode == CpuMode::kKernel) return KnownPlaces::SpaceOf(processes_.kernel().generation());
  if (mode == CpuMode::kUser) return KnownPlaces::SpaceOf(process.space.generation());
  return 0;
}

}  // namespace ptarmigan::internal
