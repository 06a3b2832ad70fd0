// CallTracker: follows calls and returns through one segment of a control-flow trace: a shadow stack, the tree of
// calling contexts, and how many instructions each ran. What its own stack does not explain ends a strand
// (model/control_flow.h) and is left to CallStackBuilder, which knows what came before the segment.
//
// Time is told once, at Finish: contexts are kept as a row of pieces until the anchors between which they lie are all
// known. Everything is bounded; what is beyond is counted. One per worker; not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/internal/flow_clock.h"
#include "model/control_flow.h"

namespace ptarmigan::internal {

class CallTracker {
 public:
  // Of one strand; deeper calls are counted, and their returns recognised by that count.
  static constexpr size_t kFramesMax = size_t{1} << 14;
  // Of one segment. Beyond, calls stay in the context of the caller, and transfers that nothing explains are passed over.
  static constexpr size_t kContextsMax = size_t{1} << 20;
  static constexpr size_t kStrandsMax = size_t{1} << 14;
  static constexpr size_t kOpenFramesMax = size_t{1} << 17;
  static constexpr size_t kCallEventsMax = size_t{1} << 20;
  // How many frames a return may unwind at once.
  static constexpr size_t kUnwindMax = 4096;

  struct Counts {
    uint64_t frames_beyond = 0;
    uint64_t contexts_beyond = 0;
    uint64_t strands_beyond = 0;
    uint64_t frames_unwound = 0;  // without a return of their own
  };
  // Who is called and from where.
  struct Callee {
    uint32_t edge = 0;
    uint32_t function = 0;
    bool counts = true;  // as a call: control arrived where the function begins
  };

  CallTracker() : slots_(kSlotsMin) {}

  void Begin(FlowSegment* segment, bool want_calls);
  // Instructions up to `now` belong to the context that is running.
  void Credit(uint64_t now) {
    if (now == credited_) return;
    segment_->contexts[context_].instructions += now - credited_;
    pieces_.push_back({context_, false, now});
    credited_ = now;
  }
  // The time that passes until the next anchor is spent outside.
  void Outside() { pieces_.push_back({context_, true, credited_}); }

  void StartStrand(FlowStrand::Start start, Callee first, uint64_t now);
  bool has_strand() const { return !segment_->strands.empty(); }
  void Call(Callee callee, uint64_t return_address, bool is_interrupt) {
    if (frames_.size() >= kFramesMax) [[unlikely]] {
      ++beyond_;
      ++counts_.frames_beyond;
      return;
    }
    frames_.push_back({return_address, context_, is_interrupt});
    ++on_stack_[Slot(return_address)];
    context_ = Child(context_, callee);
    if (want_calls_) {
      AddCallEvent(is_interrupt ? CallEvent::Kind::kInterrupt : CallEvent::Kind::kCall);
    }
  }
  // False if no frame waits for it. Unwinds what is above the one that does.
  bool Return(uint64_t landing) {
    if (beyond_ == 0 && !frames_.empty() && frames_.back().return_address == landing) [[likely]] {
      ++matched_;
      Pop(CallEvent::Kind::kReturn);
      return true;
    }
    return ReturnSlow(landing);
  }
  // To where the innermost call comes back; 0: not known.
  uint64_t innermost_return() const {
    return frames_.empty() || beyond_ > 0 ? 0 : frames_.back().return_address;
  }
  // A frame of an interrupt that waits for `address`.
  bool Resume(uint64_t address);
  // The callee takes the place of what is running.
  void Replace(Callee callee);
  // Nothing fits and a new strand cannot be begun.
  void Mismatch() { ++unmatched_; }

  // Closes the last strand, and shares out the time between the segment's anchors.
  void Finish(uint64_t now);
  const Counts& counts() const { return counts_; }
  uint32_t matched() const { return matched_; }
  uint32_t unmatched() const { return unmatched_; }

 private:
  struct Frame {
    uint64_t return_address;
    uint32_t context;  // of the caller
    bool is_interrupt;
  };
  struct Piece {
    uint32_t context;
    bool outside;
    uint64_t end;  // instructions
  };
  struct ChildSlot {
    uint32_t parent = 0;
    uint32_t edge = 0;
    uint32_t context = 0;
    uint32_t stamp = 0;  // of the segment it was made in
  };
  // How many frames have a return address of this hash: most returns that match nothing are known so at once.
  static constexpr size_t kHashSlots = 4096;
  static constexpr size_t kSlotsMin = 1024;

  static size_t Slot(uint64_t address) {
    return static_cast<size_t>((address * 0x9e3779b97f4a7c15U) >> 52);
  }
  void Pop(CallEvent::Kind kind) {
    const Frame& frame = frames_.back();
    --on_stack_[Slot(frame.return_address)];
    if (want_calls_) AddCallEvent(kind);
    context_ = frame.context;
    frames_.pop_back();
  }
  bool ReturnSlow(uint64_t landing);
  void UnwindTo(size_t frame);
  uint32_t Child(uint32_t parent, Callee callee);
  uint32_t NewContext(uint32_t parent, Callee callee);
  void GrowSlots();
  void CloseStrand();
  void AddCallEvent(CallEvent::Kind kind);
  void ShareTime();
  // What passes by the clock goes to the contexts; `outside` null: what passes while tracing is off, to none.
  void ShareAmongPieces(FlowClock clock, uint64_t CallNode::*inside, uint64_t CallNode::*outside);
  void TimeCalls();

  FlowSegment* segment_ = nullptr;
  bool want_calls_ = false;
  std::vector<Frame> frames_;
  std::array<uint16_t, kHashSlots> on_stack_ = {};
  uint64_t beyond_ = 0;
  std::vector<uint32_t> functions_;  // of contexts
  std::vector<Piece> pieces_;
  std::vector<ChildSlot> slots_;  // power of two
  size_t slots_used_ = 0;
  uint32_t stamp_ = 0;
  uint32_t context_ = 0;
  uint64_t credited_ = 0;
  uint32_t matched_ = 0;
  uint32_t unmatched_ = 0;
  Counts counts_;
};

}  // namespace ptarmigan::internal
