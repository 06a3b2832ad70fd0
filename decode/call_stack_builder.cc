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
  CloseAllCalls(strand.start == FlowStrand::Start::kReturn ? Exit::kReturn : Exit::kUnwound, now_);
  const uint32_t root = Child(graph, kNoFlowId, strand.edge);
  OpenCallNow(root, frames_.size(), Entry::kUnknown, now_);
  return root;
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

void CallStackBuilder::OpenCallNow(uint32_t context, size_t depth, Entry entry, const Moment& now) {
  if (sink_ == nullptr) return;
  calls_.push_back(
      {.context = context, .depth = static_cast<uint32_t>(depth), .entry = entry, .begin = now});
}

void CallStackBuilder::CloseCall(Exit exit, const Moment& now) {
  const OpenCall& call = calls_.back();
  CallInterval interval;
  interval.entry = call.entry;
  interval.exit = exit;
  interval.context = call.context;
  interval.edge = contexts_[call.context].edge;
  interval.stack = stack_;
  interval.depth = call.depth;
  interval.begin_instruction = call.begin.instruction;
  interval.instructions = now.instruction - call.begin.instruction;
  interval.self_instructions =
      interval.instructions - std::min(interval.instructions, call.inside_instructions);
  interval.has_time = call.begin.ticks != 0 && now.ticks >= call.begin.ticks;
  if (interval.has_time) {
    interval.begin_ticks = call.begin.ticks;
    interval.end_ticks = now.ticks;
    const uint64_t ticks = now.ticks - call.begin.ticks;
    interval.self_ticks = ticks - std::min(ticks, call.inside_ticks);
    constexpr uint32_t kUnbounded = CallEvent::kUnboundedTicks;
    const uint64_t sum = uint64_t{call.begin.uncertainty_ticks} + now.uncertainty_ticks;
    interval.uncertainty_ticks = static_cast<uint32_t>(std::min<uint64_t>(sum, kUnbounded));
  }
  calls_.pop_back();
  if (!calls_.empty()) {
    calls_.back().inside_ticks += interval.end_ticks - interval.begin_ticks;
    calls_.back().inside_instructions += interval.instructions;
  }
  sink_->OnCall(interval);
}

void CallStackBuilder::CloseCallsAbove(size_t depth, Exit exit, const Moment& now) {
  while (!calls_.empty() && calls_.back().depth > depth) {
    const bool is_outermost = calls_.back().depth == depth + 1;
    CloseCall(is_outermost || exit == Exit::kOpen ? exit : Exit::kUnwound, now);
  }
}

void CallStackBuilder::CloseAllCalls(Exit exit, const Moment& now) {
  while (!calls_.empty()) CloseCall(exit, now);
}

// What happened in the strand, above the frames that it began with. `frames_kept` of those that it left open found room.
void CallStackBuilder::AddCallEvents(const FlowSegment& segment, size_t strand,
                                     size_t frames_kept) {
  const size_t end = strand + 1 < segment.strands.size() ? segment.strands[strand + 1].calls_begin
                                                         : segment.calls.size();
  const size_t base = frames_.size();
  size_t depth = base;
  Moment now = now_;
  for (size_t i = segment.strands[strand].calls_begin; i < end; ++i) {
    const CallEvent& event = segment.calls[i];
    now = {.ticks = event.ticks,
           .instruction = instructions_ + event.instruction,
           .uncertainty_ticks = event.uncertainty_ticks};
    switch (event.kind) {
      case CallEvent::Kind::kCall:
        OpenCallNow(ids_[event.context], ++depth, Entry::kCall, now);
        break;
      case CallEvent::Kind::kInterrupt:
        OpenCallNow(ids_[event.context], ++depth, Entry::kInterrupt, now);
        break;
      case CallEvent::Kind::kTailCall:
        if (!calls_.empty() && calls_.back().depth == depth &&
            calls_.back().entry == Entry::kTailCall) {
          CloseCall(Exit::kReplaced, now);
        }
        OpenCallNow(ids_[event.context], depth, Entry::kTailCall, now);
        break;
      case CallEvent::Kind::kReturn:
      case CallEvent::Kind::kUnwind:
        if (depth == base) break;
        CloseCallsAbove(
            --depth, event.kind == CallEvent::Kind::kReturn ? Exit::kReturn : Exit::kUnwound, now);
        break;
    }
  }
  // Frames without room are the outermost. Where events were cut, what is left open above the rest is not known.
  if (segment.calls_cut == 0 && depth - base <= frames_kept) return;
  CloseCallsAbove(base, Exit::kOpen, now);
}

void CallStackBuilder::UnwindTo(size_t frame, Exit exit) {
  CloseCallsAbove(frame, exit, now_);
  frames_.resize(frame);
}

void CallStackBuilder::Break(uint64_t ticks) {
  Moment now = now_;
  now.ticks = ticks;
  CloseAllCalls(Exit::kOpen, now);
  for (ParkedStack& parked : parked_) {
    calls_ = std::move(parked.calls);
    stack_ = parked.stack;
    CloseAllCalls(Exit::kOpen, now);
  }
  counts_.frames_lost += frames_.size();
  frames_.clear();
  parked_.clear();
  stack_ = 0;
  current_ = kNoFlowId;
  stopped_at_ = {};
}

uint32_t CallStackBuilder::UnusedStack() const {
  std::vector<bool> used(parked_.size() + 1);
  for (const ParkedStack& parked : parked_) {
    if (parked.stack < used.size()) used[parked.stack] = true;
  }
  return static_cast<uint32_t>(std::ranges::find(used, false) - used.begin());
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
    UnwindTo(i, Exit::kUnwound);
    take(context);
    return true;
  }
  return false;
}

void CallStackBuilder::Park() {
  if (current_ == kNoFlowId || frames_.empty()) return;
  parked_.push_back({.frames = std::move(frames_),
                     .current = current_,
                     .stack = stack_,
                     .calls = std::move(calls_),
                     .left = now_});
  frames_.clear();
  calls_.clear();
  if (parked_.size() > kParkedMax) {
    counts_.frames_lost += parked_.front().frames.size();
    calls_ = std::move(parked_.front().calls);
    stack_ = parked_.front().stack;
    CloseAllCalls(Exit::kOpen, parked_.front().left);
    parked_.pop_front();
  }
  stack_ = UnusedStack();
}

// To the stack, left lately, whose innermost call comes back at `landing`.
bool CallStackBuilder::SwitchTo(VirtAddr landing, uint32_t* base) {
  for (size_t i = parked_.size(); i-- > 0;) {
    if (parked_[i].frames.back().return_address != landing) continue;
    ++counts_.switches;
    ParkedStack stack = std::move(parked_[i]);
    parked_.erase(parked_.begin() + static_cast<ptrdiff_t>(i));
    Park();
    CloseAllCalls(Exit::kReturn, now_);
    frames_ = std::move(stack.frames);
    calls_ = std::move(stack.calls);
    stack_ = stack.stack;
    if (!calls_.empty()) {
      // What others ran meanwhile is none of its own.
      calls_.back().inside_ticks += now_.ticks - std::min(now_.ticks, stack.left.ticks);
      calls_.back().inside_instructions += now_.instruction - stack.left.instruction;
    }
    *base = frames_.back().context;
    UnwindTo(frames_.size() - 1, Exit::kReturn);
    return true;
  }
  return false;
}

uint32_t CallStackBuilder::AfterReturn(const FlowGraph& graph, const FlowStrand& strand) {
  const CodeBlock& landing = graph.blocks[graph.edges[strand.edge].to];
  if (const size_t frame = FindFrame(landing.start, false); frame != kNotFound) {
    counts_.frames_unwound += frames_.size() - frame - 1;
    const uint32_t base = frames_[frame].context;
    UnwindTo(frame, Exit::kReturn);
    return base;
  }
  if (!frames_.empty() && frames_.back().is_interrupt && current_ != kNoFlowId &&
      !IsIn(graph, frames_.back().context, strand)) {
    // The handler returns to the stub that called it, as it seems. The interrupted code waits on.
    const Frame& frame = frames_.back();
    const uint32_t stub = Child(graph, frame.context, strand.edge);
    if (contexts_[current_].parent == frame.context && !IsUnder(stub, current_)) {
      contexts_[current_].parent = stub;
    }
    CloseCallsAbove(frames_.size() - 1, Exit::kReturn, now_);
    OpenCallNow(stub, frames_.size(), Entry::kTailCall, now_);
    return stub;
  }
  uint32_t base = kNoFlowId;
  if (SwitchTo(landing.start, &base)) return base;
  if (landing.start != landing.function && LeapTo(graph, strand, &base)) return base;
  ++counts_.returns_unmatched;
  Park();
  return NewRoot(graph, strand);
}

VirtAddr CallStackBuilder::StoppedBefore(const FlowGraph& graph, const FlowStrand& strand) const {
  const FlowEdge& edge = graph.edges[strand.edge];
  if (edge.from == kNoFlowId) return stopped_at_;
  const CodeBlock& last = graph.blocks[edge.from];
  switch (last.ending) {
    case BranchKind::kNone:
    case BranchKind::kCall:
    case BranchKind::kIndirectCall:
    case BranchKind::kSystemCall:
      return last.end();
    default:
      return {};
  }
}

uint32_t CallStackBuilder::AfterEnabling(const FlowGraph& graph, const FlowStrand& strand) {
  const CodeBlock& landing = graph.blocks[graph.edges[strand.edge].to];
  for (const bool is_interrupt : {true, false}) {
    const size_t frame = FindFrame(landing.start, is_interrupt);
    if (frame == kNotFound) continue;
    const uint32_t base = frames_[frame].context;
    UnwindTo(frame, Exit::kReturn);
    return base;
  }
  if (current_ != kNoFlowId && landing.knows_function && landing.start == landing.function &&
      frames_.size() < kFramesMax) {
    frames_.push_back({.context = current_,
                       .return_address = StoppedBefore(graph, strand),
                       .is_interrupt = true});
    const uint32_t handler = Child(graph, current_, strand.edge);
    OpenCallNow(handler, frames_.size(), Entry::kInterrupt, now_);
    return handler;
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
  Break(now_.ticks);
  return NewRoot(graph, strand);
}

void CallStackBuilder::AddStrand(const FlowGraph& graph, const FlowSegment& segment, size_t index,
                                 bool continues) {
  const FlowStrand& strand = segment.strands[index];
  const size_t contexts_end = index + 1 < segment.strands.size() ? segment.strands[index + 1].root
                                                                 : segment.contexts.size();
  // Strands begin where time may be between two anchors; their length is that of the segment's worst.
  now_ = {.ticks = strand.begin_ticks,
          .instruction = instructions_ + strand.begin_instruction,
          .uncertainty_ticks = static_cast<uint32_t>(
              std::min<uint64_t>(segment.uncertainty_ticks, CallEvent::kUnboundedTicks - 1))};
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
    into.cycles += context.cycles;
    into.calls += context.calls;
  }
  const size_t room = kFramesMax - std::min(kFramesMax, frames_.size());
  const size_t left_out = strand.frames_size - std::min<size_t>(room, strand.frames_size);
  counts_.frames_lost += left_out;
  if (sink_ != nullptr) AddCallEvents(segment, index, strand.frames_size - left_out);
  for (size_t i = left_out; i < strand.frames_size; ++i) {
    const OpenFrame& frame = segment.frames[strand.frames_begin + i];
    frames_.push_back({.context = ids_[frame.context],
                       .return_address = frame.return_address,
                       .is_interrupt = frame.is_interrupt});
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
  if (!continues) Break();
  ids_.assign(segment.contexts.size(), kNoFlowId);
  for (size_t i = 0; i < segment.strands.size(); ++i) {
    AddStrand(graph, segment, i, continues && i == 0);
  }
  counts_.call_events_cut += segment.calls_cut;
  instructions_ += segment.instructions;
  if (segment.has_time) last_ticks_ = segment.end_ticks;
  now_ = {.ticks = last_ticks_, .instruction = instructions_};
  stopped_at_ = segment.stopped_at;
}

}  // namespace ptarmigan
