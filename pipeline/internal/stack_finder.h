// StackFinder: from a sample to its stack, as numbers of places: by walking the copied user stack, or by the kernel's own
// call chain, or by branch records made in call-stack mode. Remembers what repeats soon, so that most frames of most
// samples are not looked up at all.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model/address_space.h"
#include "model/event.h"
#include "model/recording.h"
#include "model/stack.h"
#include "pipeline/internal/place_numbers.h"
#include "pipeline/internal/stack_table.h"
#include "pipeline/internal/user_unwinder.h"

namespace ptarmigan::internal {

class StackFinder {
 public:
  static constexpr uint32_t kNewStack = UINT32_MAX;

  struct Stack {
    uint32_t id = kNewStack;  // in the StackTable; kNewStack: it is what places() holds
    uint32_t likely_row = StackTable::kNoRow;  // where it was counted last, under whatever labels
    StackOrigin origin = StackOrigin::kNone;
    StackEnd end = StackEnd::kComplete;
  };

  // All references must outlive the finder.
  StackFinder(const RecordingDescription& description, ProcessTable& processes,
              UserUnwinder& unwinder, PlaceNumbers& numbers)
      : description_(description), processes_(processes), unwinder_(unwinder), numbers_(numbers) {}

  Stack Find(const CapturedSample& sample, Process& process);
  // Leaf first. Until the next Find.
  std::span<const uint32_t> places() const { return places_; }
  // Where the stack of the last Find stands now, and the row in which its sample was counted.
  void Remember(uint32_t stack, uint32_t row);

 private:
  // Kernel-made chains that are remembered: each has one slot, which the last one takes. Small enough to stay in the
  // processor's cache: what repeats repeats soon.
  static constexpr size_t kChainSlots = size_t{1} << 13;
  // Threads whose last callers are remembered.
  static constexpr size_t kRecentCallers = 64;

  // A chain that was resolved lately. 96 bits of its hash, and of what its addresses mean.
  struct CachedChain {
    uint64_t key = 0;
    uint32_t key_high = 0;
    uint32_t stack = kNewStack;
    uint32_t row = StackTable::kNoRow;
    StackEnd end = StackEnd::kComplete;
  };
  // The return addresses in user code of one sample, as recorded, and their places.
  struct RecentCallers {
    uint64_t space = 0;  // the address space's generation; no space has 0
    std::vector<uint64_t> addresses;
    std::vector<uint32_t> places;
    StackEnd end = StackEnd::kComplete;
  };

  Stack FindByUnwinding(const CapturedSample& sample, Process& process);
  Stack FindByChain(const CapturedSample& sample, Process& process);
  // Appends the places of the chain, or of its kernel part; returns how it ended.
  StackEnd AppendChain(const CapturedSample& sample, Process& process, bool kernel_only);
  // How many of the outermost return addresses are those of the thread's sample before: calls deep down leave the
  // callers as they were.
  size_t SharedCallers(const RecentCallers& recent, std::span<const uint64_t> addresses,
                       const Process& process) const;
  void AppendLbrStack(const CapturedSample& sample, Process& process);
  void AppendLeafCaller(const CapturedSample& sample, Process& process);
  // False if no mapping covers the address (it is kept in a catch-all object).
  bool AppendPlace(Process& process, CpuMode mode, uint64_t address, bool is_caller);
  void NumberPlaces();
  size_t Depth() const { return places_.size() + found_count_; }

  const RecordingDescription& description_;
  ProcessTable& processes_;
  UserUnwinder& unwinder_;
  PlaceNumbers& numbers_;
  // The stack being made, leaf first, and those of its places that have no number yet. Each frame is checked against
  // kStackFramesMax but the caller of a leaf.
  std::vector<uint32_t> places_;
  std::array<FoundPlace, kStackFramesMax + 1> found_places_;
  size_t found_count_ = 0;
  uint64_t time_ns_ = 0;  // of the sample
  // Where AppendPlace found its last address in this sample.
  const CodeMapping* last_mapping_ = nullptr;
  CpuMode last_mode_ = CpuMode::kUnknown;
  std::vector<CachedChain> chains_;
  CachedChain* remembering_ = nullptr;  // the slot of the last Find
  std::array<RecentCallers, kRecentCallers> recent_callers_;
};

}  // namespace ptarmigan::internal
