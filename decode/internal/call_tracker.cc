#include "decode/internal/call_tracker.h"

#include <algorithm>

namespace ptarmigan::internal {

void CallTracker::Begin(FlowSegment* segment, bool want_calls) {
  segment_ = segment;
  want_calls_ = want_calls;
  for (const Frame& frame : frames_) --on_stack_[Slot(frame.return_address)];
  frames_.clear();
  functions_.clear();
  pieces_.clear();
  beyond_ = 0;
  slots_used_ = 0;
  if (++stamp_ == 0) {
    std::fill(slots_.begin(), slots_.end(), ChildSlot());
    stamp_ = 1;
  }
  context_ = 0;
  credited_ = 0;
  matched_ = 0;
  unmatched_ = 0;
}

void CallTracker::StartStrand(FlowStrand::Start start, Callee first, uint64_t now) {
  FlowSegment& segment = *segment_;
  if (!segment.strands.empty()) {
    if (segment.strands.size() >= kStrandsMax) {
      ++counts_.strands_beyond;
      return;
    }
    CloseStrand();
  }
  FlowStrand& strand = segment.strands.emplace_back();
  strand.start = start;
  strand.edge = first.edge;
  strand.begin_instruction = now;
  strand.calls_begin = static_cast<uint32_t>(segment.calls.size());
  strand.root = NewContext(kNoFlowId, first);
  context_ = strand.root;
}

void CallTracker::CloseStrand() {
  FlowStrand& strand = segment_->strands.back();
  std::vector<OpenFrame>& open = segment_->frames;
  strand.last_context = context_;
  strand.frames_begin = static_cast<uint32_t>(open.size());
  // If not all have room, the outermost go: what is innermost is returned to first.
  const size_t room = kOpenFramesMax - std::min(kOpenFramesMax, open.size());
  const size_t first = frames_.size() - std::min(room, frames_.size());
  counts_.frames_beyond += first;
  for (size_t i = 0; i < frames_.size(); ++i) {
    const Frame& frame = frames_[i];
    --on_stack_[Slot(frame.return_address)];
    if (i < first) continue;
    open.push_back({.context = frame.context,
                    .return_address = {frame.return_address},
                    .is_interrupt = frame.is_interrupt});
  }
  strand.frames_size = static_cast<uint32_t>(open.size()) - strand.frames_begin;
  frames_.clear();
  beyond_ = 0;
}

bool CallTracker::ReturnSlow(uint64_t landing) {
  if (beyond_ > 0) {
    // Of a call that was too deep to be kept. Where it landed cannot be checked.
    --beyond_;
    return true;
  }
  if (on_stack_[Slot(landing)] == 0) return false;
  const size_t end = frames_.size() - std::min(frames_.size(), kUnwindMax);
  for (size_t i = frames_.size(); i-- > end;) {
    if (frames_[i].return_address != landing || frames_[i].is_interrupt) continue;
    ++unmatched_;
    UnwindTo(i);
    return true;
  }
  return false;
}

bool CallTracker::Resume(uint64_t address) {
  if (on_stack_[Slot(address)] == 0) return false;
  const size_t end = frames_.size() - std::min(frames_.size(), kUnwindMax);
  for (size_t i = frames_.size(); i-- > end;) {
    if (frames_[i].return_address != address || !frames_[i].is_interrupt) continue;
    UnwindTo(i);
    return true;
  }
  return false;
}

// Leaves what frame `frame` called.
void CallTracker::UnwindTo(size_t frame) {
  counts_.frames_unwound += frames_.size() - frame - 1;
  beyond_ = 0;
  while (frames_.size() > frame + 1) Pop(CallEvent::Kind::kUnwind);
  Pop(CallEvent::Kind::kReturn);
}

void CallTracker::Replace(Callee callee) {
  context_ = Child(segment_->contexts[context_].parent, callee);
  if (want_calls_ && beyond_ == 0) AddCallEvent(CallEvent::Kind::kTailCall);
}

uint32_t CallTracker::Child(uint32_t parent, Callee callee) {
  // What has no parent belongs to its strand.
  const uint32_t owner = parent != kNoFlowId
                             ? parent
                             : kNoFlowId - 1 - static_cast<uint32_t>(segment_->strands.size());
  const size_t mask = slots_.size() - 1;
  const uint64_t key = (static_cast<uint64_t>(owner) << 32 | callee.edge) * 0x9e3779b97f4a7c15U;
  for (size_t at = static_cast<size_t>(key >> 32) & mask;; at = (at + 1) & mask) {
    ChildSlot& slot = slots_[at];
    if (slot.stamp != stamp_) {
      if (segment_->contexts.size() >= kContextsMax) {
        ++counts_.contexts_beyond;
        return context_;
      }
      const uint32_t context = NewContext(parent, callee);
      slot = {owner, callee.edge, context, stamp_};
      if (++slots_used_ * 2 > slots_.size()) GrowSlots();
      return context;
    }
    if (slot.parent == owner && slot.edge == callee.edge) {
      segment_->contexts[slot.context].calls += callee.counts;
      return slot.context;
    }
  }
}

uint32_t CallTracker::NewContext(uint32_t parent, Callee callee) {
  const uint32_t context = static_cast<uint32_t>(segment_->contexts.size());
  CallNode& added = segment_->contexts.emplace_back();
  added.parent = parent;
  added.edge = callee.edge;
  added.calls = callee.counts ? 1 : 0;
  functions_.push_back(callee.function);
  return context;
}

void CallTracker::GrowSlots() {
  std::vector<ChildSlot> old(slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const ChildSlot& slot : old) {
    if (slot.stamp != stamp_) continue;
    const uint64_t key =
        (static_cast<uint64_t>(slot.parent) << 32 | slot.edge) * 0x9e3779b97f4a7c15U;
    size_t at = static_cast<size_t>(key >> 32) & mask;
    while (slots_[at].stamp == stamp_) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void CallTracker::AddCallEvent(CallEvent::Kind kind) {
  if (segment_->calls.size() >= kCallEventsMax) {
    ++segment_->calls_cut;
    return;
  }
  segment_->calls.push_back({.kind = kind, .context = context_, .instruction = credited_});
}

void CallTracker::Finish(uint64_t now) {
  if (!segment_->strands.empty()) {
    Credit(now);
    CloseStrand();
  }
  ShareTime();
  segment_->checks.returns_matched = matched_;
  segment_->checks.returns_unmatched = unmatched_;
}

void CallTracker::TimeCalls() {
  if (segment_->anchors.empty()) return;
  FlowClock clock(segment_->anchors);
  // CYC packets are dense, and some stand before packets whose branches began long before.
  const size_t spread = segment_->has_cycles ? 4 : 1;
  for (CallEvent& event : segment_->calls) {
    // Time that passed outside is over when an interrupt's code runs.
    event.ticks = event.kind == CallEvent::Kind::kInterrupt ? clock.TicksBehind(event.instruction)
                                                            : clock.TicksAt(event.instruction);
    event.uncertainty_ticks = clock.UncertaintyAt(event.instruction, spread);
  }
}

void CallTracker::ShareTime() {
  FlowSegment& segment = *segment_;
  TimeCalls();
  if (segment.anchors.empty()) return;
  FlowClock clock(segment.anchors);
  for (FlowStrand& strand : segment.strands) {
    strand.begin_ticks = clock.Find(strand.begin_instruction);
  }
  ShareAmongPieces(clock, &CallNode::ticks, &CallNode::ticks_outside);
  if (segment.has_cycles) {
    ShareAmongPieces(FlowClock(segment.anchors, &FlowAnchor::cycles), &CallNode::cycles, nullptr);
  }
}

void CallTracker::ShareAmongPieces(FlowClock clock, uint64_t CallNode::*inside,
                                   uint64_t CallNode::*outside) {
  uint64_t before = clock.TicksAt(0);
  for (const Piece& piece : pieces_) {
    const uint64_t after = piece.outside ? clock.TicksBehind(piece.end) : clock.TicksAt(piece.end);
    uint64_t CallNode::*const into = piece.outside ? outside : inside;
    if (into != nullptr) segment_->contexts[piece.context].*into += after - before;
    before = after;
  }
}

}  // namespace ptarmigan::internal
