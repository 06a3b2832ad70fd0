// StackFinder: from a sample to its stack, as numbers of places: by branch records made in call-stack mode (and what
// stands beside them), or by walking the copied user stack, or by the kernel's own call chain. Remembers what repeats soon,
// so that most frames of most samples are not looked up at all.
//
// Samples are worked on in batches. Looking up places and stacks is waiting for memory; so Find does what depends on the
// moment of the sample and asks for the memory that Number will need, and Number comes when the batch is full.
//
//   Find, Find, ... Find   |   Number, Number, ... Number   |   StartBatch
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model/address_space.h"
#include "model/event.h"
#include "model/recording.h"
#include "model/stack.h"
#include "pipeline/internal/known_places.h"
#include "pipeline/internal/lbr_stack.h"
#include "pipeline/internal/place_numbers.h"
#include "pipeline/internal/stack_counter.h"
#include "pipeline/internal/user_unwinder.h"

namespace ptarmigan::internal {

class StackFinder {
 public:
  static constexpr size_t kBatchSamples = 16;
  static constexpr uint32_t kNone = UINT32_MAX;
  // The position, in what no mapping covers, of every user mode caller that is not known.
  static constexpr uint64_t kUnknownCaller = 0;

  // A sample's stack, as far as it is known before Number.
  struct Stack {
    uint32_t chain = StackCounter::kNoChain;  // where the StackCounter remembers it
    bool is_known = false;  // it is what was found last for `chain`, and has no places of its own
    StackOrigin origin = StackOrigin::kNone;
    StackEnd end = StackEnd::kComplete;

   private:
    friend class StackFinder;
    uint32_t found_begin = 0;  // its own places
    uint32_t found_count = 0;
    uint32_t callers_count = 0;  // of those, the outermost that later samples may share
    uint32_t shared_count = 0;   // further callers, which are those of the sample before
    uint32_t recent = kNone;     // whose callers they are and become
    uint64_t time_ns = 0;
  };

  // All references must outlive the finder.
  StackFinder(const RecordingDescription& description, ProcessTable& processes,
              UserUnwinder& unwinder, PlaceNumbers& numbers)
      : description_(description),
        processes_(processes),
        unwinder_(unwinder),
        numbers_(numbers),
        lbr_(description, unwinder) {}

  Stack Find(const CapturedSample& sample, Process& process);
  // Appends the numbers of a stack that is not known, leaf first. Each of the batch once, in their order.
  void Number(const Stack& stack, std::vector<uint32_t>* places);
  void StartBatch();
  // Of the stacks that came from branch records.
  const LbrStack& lbr() const { return lbr_; }

 private:
  // Threads whose last callers are remembered.
  static constexpr size_t kRecentCallers = 64;

  // A chain that was resolved lately. 96 bits of its hash, and of what its addresses mean.
  struct CachedChain {
    uint64_t key = 0;
    uint32_t key_high = 0;
    bool is_used = false;
    StackEnd end = StackEnd::kComplete;
  };
  // The return addresses in user code of one sample, as recorded, and their places.
  struct RecentCallers {
    uint64_t space = 0;  // the address space's generation; no space has 0
    std::vector<uint64_t> addresses;
    std::vector<uint32_t> places;  // of the last sample that was numbered
    StackEnd end = StackEnd::kComplete;
  };

  // A frame of the batch. Without object its place is known: then `position` is the place's number, or with kIsFrame the
  // frame of the batch that is at the same place.
  using Frame = FoundPlace;
  static constexpr uint32_t kIsFrame = uint32_t{1} << 31;
  // A slot of known_ that waits for the number of a frame.
  struct Waiting {
    uint32_t frame = kNone;
    uint32_t slot = kNone;
  };

  void FindByBranches(const CapturedSample& sample, Process& process);
  void FindByUnwinding(const CapturedSample& sample, Process& process);
  void FindByKernelChain(const CapturedSample& sample, Process& process);
  void AppendKernelPart(const CapturedSample& sample, Process& process);
  // Appends the places of the chain, or of its kernel part; returns how it ended.
  StackEnd AppendChain(const CapturedSample& sample, Process& process, bool kernel_only);
  // How many of the outermost return addresses are those of the thread's sample before: calls deep down leave the
  // callers as they were.
  size_t SharedCallers(const RecentCallers& recent, std::span<const uint64_t> addresses,
                       const Process& process) const;
  void AppendLeafCaller(const CapturedSample& sample, Process& process);
  // False if no mapping covers the address: then the place is in a catch-all object, at the address or, of a user mode
  // caller, at kUnknownCaller.
  bool AppendPlace(Process& process, CpuMode mode, uint64_t address, bool is_caller);
  // The callers that begin `chain`, as far as each one's place is known. Returns how many.
  size_t AppendKnownCallers(std::span<const uint64_t> chain);
  // The space in which addresses of `mode` are remembered; 0: none.
  uint32_t KnownSpace(const Process& process, CpuMode mode) const;
  void Found(const FoundPlace& place) {
    found_[found_end_++] = place;
    numbers_.Prefetch(place);
  }
  size_t Depth() const { return found_end_ - stack_.found_begin; }

  const RecordingDescription& description_;
  ProcessTable& processes_;
  UserUnwinder& unwinder_;
  PlaceNumbers& numbers_;
  LbrStack lbr_;
  Stack stack_;  // of the sample that is looked at
  // Places of the batch; each frame is checked against kStackFramesMax but the caller of a leaf.
  std::vector<Frame> found_ = std::vector<Frame>(kBatchSamples * (kStackFramesMax + 1));
  size_t found_end_ = 0;
  KnownPlaces known_;
  std::vector<Waiting> waiting_;  // in the order of the frames
  size_t next_waiting_ = 0;
  size_t told_apart_ = 0;  // processes, as known_ knows it
  // Where AppendPlace found its last address in this sample.
  const CodeMapping* last_mapping_ = nullptr;
  CpuMode last_mode_ = CpuMode::kUnknown;
  uint32_t last_space_ = 0;  // KnownSpace of last_mode_
  // Kernel-made chains that are remembered: each has one slot, which the last one takes. Small enough to stay in the
  // processor's cache: what repeats repeats soon.
  std::vector<CachedChain> chains_ = std::vector<CachedChain>(StackCounter::kChains);
  std::array<RecentCallers, kRecentCallers> recent_callers_;
};

}  // namespace ptarmigan::internal
