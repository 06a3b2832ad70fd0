#include "decode/call_stack_builder.h"

#include <algorithm>
#include <utility>

namespace ptarmigan {

FunctionTraits CallStackBuilder::TraitsOfBlock(const FlowGraph& graph, uint32_t block) {
  const CodeBlock& code = graph.blocks[block];
  if (!code.knows_function || !traits_of_) return {.whole = code.function};
  const auto [found, is_new] = traits_.try_emplace(code.function.value);
  if (is_new) found->second = traits_of_(code);
  return found->second;
}

bool CallStackBuilder::IsIn(const FlowGraph& graph, uint32_t context, const FlowStrand& strand) {
  if (context == kNoFlowId) return false;
  const uint32_t entered = contexts_[context].block;
  const uint32_t landing = graph.edges[strand.edge].to;
  if (!graph.blocks[entered].knows_function || !graph.blocks[landing].knows_function) return false;
  return TraitsOfBlock(graph, entered).whole == TraitsOfBlock(graph, landing).whole;
}

uint32_t CallStackBuilder::Child(const FlowGraph& graph, uint32_t parent, uint32_t edge) {
  const auto next = static_cast<uint32_t>(contexts_.size());
  if (next >= kContextsMax) {
    ++counts_.contexts_beyond;
    if (parent != kNoFlowId) return parent;
    return 0;
  }
  const uint32_t found = children_.FindOrInsert({uint64_t{parent} << 32 | edge, 0}, next);
  if (found == next) {
    CallTreeNode& context = contexts_.emplace_back();
    context.parent = parent;
    context.edge = edge;
    context.block = graph.edges[edge].to;
  }
  return found;
}

uint32_t CallStackBuilder::NewRoot(const FlowGraph& graph, const FlowStrand& strand) {
  ++counts_.roots;
  return Child(graph, kNoFlowId, strand.edge);
}

bool CallStackBuilder::IsUnder(uint32_t context, uint32_t above) const {
  for (; context != kNoFlowId; context = contexts_[context].parent) {
    if (context == above) return true;
  }
  return false;
}

size_t CallStackBuilder::FindFrame(VirtAddr return_address, bool is_interrupt) const {
  const size_t end = frames_.size() - std::min(frames_.size(), kUnwindMax);
  for (size_t i = frames_.size(); i-- > end;) {
    if (frames_[i].return_address == return_address && frames_[i].is_interrupt == is_interrupt) {
      return i;
    }
  }
  return kNotFound;
}

// The call that frame `frame` made has ended.
void CallStackBuilder::Report(size_t frame, uint64_t ticks, bool is_open) {
  if (sink_ == nullptr) return;
  const uint32_t callee = CalleeOf(frame);
  if (callee == kNoFlowId) return;
  sink_->OnCall({.context = callee,
                 .begin_ticks = frames_[frame].entered_ticks,
                 .end_ticks = ticks,
                 .instructions = now_ - frames_[frame].entered_instruction,
                 .is_open = is_open});
}

void CallStackBuilder::UnwindTo(size_t frame, uint64_t ticks, bool is_open) {
  for (size_t i = frames_.size(); i-- > frame;) Report(i, ticks, is_open);
  frames_.resize(frame);
}

void CallStackBuilder::Break(uint64_t ticks) {
  counts_.frames_lost += frames_.size();
  UnwindTo(0, ticks, /*is_open=*/true);
  current_ = kNoFlowId;
  stopped_at_ = {};
  parked_.clear();
}

// Back to the innermost frame whose function holds the strand's first block.
bool CallStackBuilder::LeapTo(const FlowGraph& graph, const FlowStrand& strand, uint32_t* base) {
  const CodeBlock& landing = graph.blocks[graph.edges[strand.edge].to];
  // Where another part of the function goes on, it takes the place of the one that ran.
  const auto take = [&](uint32_t context) {
    const bool same_part = graph.blocks[contexts_[context].block].function == landing.function;
    *base = same_part ? context : Child(graph, contexts_[context].parent, strand.edge);
  };
  if (IsIn(graph, current_, strand)) {
    take(current_);
    return true;
  }
  const size_t end = frames_.size() - std::min(frames_.size(), kUnwindMax);
  for (size_t i = frames_.size(); i-- > end;) {
    if (!IsIn(graph, frames_[i].context, strand)) continue;
    const uint32_t callee = CalleeOf(i);
    if (callee != kNoFlowId && TraitsOfBlock(graph, contexts_[callee].block).resumes_unwinding) {
      continue;
    }
    ++counts_.leaps;
    counts_.frames_unwound += frames_.size() - i;
    const uint32_t context = frames_[i].context;
    UnwindTo(i, strand.begin_ticks, /*is_open=*/false);
    take(context);
    return true;
  }
  return false;
}

void CallStackBuilder::Park() {
  if (current_ == kNoFlowId || frames_.empty()) return;
  parked_.push_back({std::move(frames_), current_});
  frames_.clear();
  if (parked_.size() <= kParkedMax) return;
  counts_.frames_lost += parked_.front().frames.size();
  parked_.pop_front();
}

// To the stack, left lately, whose innermost call comes back at `landing`.
bool CallStackBuilder::SwitchTo(VirtAddr landing, uint32_t* base) {
  for (size_t i = parked_.size(); i-- > 0;) {
    if (parked_[i].frames.back().return_address != landing) continue;
    ++counts_.switches;
    ParkedStack stack = std::move(parked_[i]);
    parked_.erase(parked_.begin() + static_cast<ptrdiff_t>(i));
    Park();
    frames_ = std::move(stack.frames);
    *base = frames_.back().context;
    frames_.pop_back();
    return true;
  }
  return false;
}

uint32_t CallStackBuilder::AfterReturn(const FlowGraph& graph, const FlowStrand& strand) {
  const CodeBlock& landing = graph.blocks[graph.edges[strand.edge].to];
  if (const size_t frame = FindFrame(landing.start, false); frame != kNotFound) {
    counts_.frames_unwound += frames_.size() - frame - 1;
    const uint32_t base = frames_[frame].context;
    UnwindTo(frame, strand.begin_ticks, /*is_open=*/false);
    return base;
  }
  if (!frames_.empty() && frames_.back().is_interrupt && current_ != kNoFlowId &&
      !IsIn(graph, frames_.back().context, strand)) {
    // The handler returns to the stub that called it, as it seems. The interrupted code waits on.
    Frame& frame = frames_.back();
    const uint32_t stub = Child(graph, frame.context, strand.edge);
    Report(frames_.size() - 1, strand.begin_ticks, /*is_open=*/false);
    if (contexts_[current_].parent == frame.context && !IsUnder(stub, current_)) {
      contexts_[current_].parent = stub;
    }
    frame.entered_ticks = strand.begin_ticks;
    frame.entered_instruction = now_;
    return stub;
  }
  uint32_t base = kNoFlowId;
  if (SwitchTo(landing.start, &base)) return base;
  if (landing.start != landing.function && LeapTo(graph, strand, &base)) return base;
  ++counts_.returns_unmatched;
  Park();
  return NewRoot(graph, strand);
}

uint32_t CallStackBuilder::AfterEnabling(const FlowGraph& graph, const FlowStrand& strand) {
  const CodeBlock& landing = graph.blocks[graph.edges[strand.edge].to];
  for (const bool is_interrupt : {true, false}) {
    const size_t frame = FindFrame(landing.start, is_interrupt);
    if (frame == kNotFound) continue;
    const uint32_t base = frames_[frame].context;
    UnwindTo(frame, strand.begin_ticks, /*is_open=*/false);
    return base;
  }
  if (current_ != kNoFlowId && landing.knows_function && landing.start == landing.function &&
      frames_.size() < kFramesMax) {
    frames_.push_back({.context = current_,
                       .return_address = stopped_at_,
                       .is_interrupt = true,
                       .entered_ticks = strand.begin_ticks,
                       .entered_instruction = now_});
    return Child(graph, current_, strand.edge);
  }
  uint32_t base = kNoFlowId;
  if (LeapTo(graph, strand, &base)) return base;
  Park();
  return NewRoot(graph, strand);
}

// The context that the strand's first block runs in. `continues`: the strand goes on where the one before it ended.
uint32_t CallStackBuilder::BaseOf(const FlowGraph& graph, const FlowStrand& strand,
                                  bool continues) {
  const CodeBlock& first = graph.blocks[graph.edges[strand.edge].to];
  if (continues && current_ != kNoFlowId &&
      (strand.start == FlowStrand::Start::kSegment ||
       (stopped_at_.value != 0 && first.start == stopped_at_))) {
    return current_;
  }
  switch (strand.start) {
    case FlowStrand::Start::kReturn:
      return AfterReturn(graph, strand);
    case FlowStrand::Start::kLeap: {
      uint32_t base = kNoFlowId;
      if (SwitchTo(first.start, &base)) return base;
      if (LeapTo(graph, strand, &base)) return base;
      Park();
      return NewRoot(graph, strand);
    }
    case FlowStrand::Start::kEnabled:
      return AfterEnabling(graph, strand);
    case FlowStrand::Start::kSegment:
    case FlowStrand::Start::kGap:
      break;
  }
  Break(strand.begin_ticks);
  return NewRoot(graph, strand);
}

void CallStackBuilder::AddStrand(const FlowGraph& graph, const FlowSegment& segment, size_t index,
                                 bool continues) {
  const FlowStrand& strand = segment.strands[index];
  const size_t contexts_end = index + 1 < segment.strands.size() ? segment.strands[index + 1].root
                                                                 : segment.contexts.size();
  now_ = instructions_ + strand.begin_instruction;
  const uint32_t base = BaseOf(graph, strand, continues);
  const uint32_t above = contexts_[base].parent;
  for (size_t i = strand.root; i < contexts_end; ++i) {
    const auto& context = segment.contexts[i];
    uint32_t& id = ids_[i];
    if (i == strand.root) {
      id = base;
    } else {
      id = Child(graph, context.parent == kNoFlowId ? above : ids_[context.parent], context.edge);
    }
    CallTreeNode& into = contexts_[id];
    into.instructions += context.instructions;
    into.ticks += context.ticks;
    into.ticks_outside += context.ticks_outside;
    into.calls += context.calls;
  }
  const size_t room = kFramesMax - std::min(kFramesMax, frames_.size());
  const size_t left_out = strand.frames_size - std::min<size_t>(room, strand.frames_size);
  counts_.frames_lost += left_out;
  for (size_t i = left_out; i < strand.frames_size; ++i) {
    const OpenFrame& frame = segment.frames[strand.frames_begin + i];
    frames_.push_back({.context = ids_[frame.context],
                       .return_address = frame.return_address,
                       .is_interrupt = frame.is_interrupt,
                       .entered_ticks = frame.entered_ticks,
                       .entered_instruction = instructions_ + frame.entered_instruction});
  }
  current_ = ids_[strand.last_context];
}

void CallStackBuilder::Add(const FlowGraph& graph, const FlowSegment& segment, bool may_resume) {
  ++counts_.segments;
  bool continues = segment.continues;
  if (!continues && may_resume && stopped_at_.value != 0 && !segment.strands.empty()) {
    const FlowStrand& first = segment.strands.front();
    continues = first.start == FlowStrand::Start::kEnabled &&
                graph.blocks[graph.edges[first.edge].to].start == stopped_at_;
  }
  if (!continues) Break(segment.begin_ticks);
  ids_.assign(segment.contexts.size(), kNoFlowId);
  for (size_t i = 0; i < segment.strands.size(); ++i) {
    AddStrand(graph, segment, i, continues && i == 0);
  }
  if (sink_ != nullptr) {
    for (const FlowCall& call : segment.calls) {
      sink_->OnCall({.context = ids_[call.context],
                     .begin_ticks = call.begin_ticks,
                     .end_ticks = call.end_ticks,
                     .instructions = call.end_instruction - call.begin_instruction});
    }
  }
  instructions_ += segment.instructions;
  now_ = instructions_;
  stopped_at_ = segment.stopped_at;
}

}  // namespace ptarmigan
