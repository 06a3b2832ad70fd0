#include "tests/encoders/pt_interpreter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ptarmigan {
namespace {

constexpr size_t kRecursionFramesMax = 130;
constexpr size_t kSetJumpsMax = 8;  // remembered
constexpr size_t kLoopRoundsMax = 12;
constexpr int64_t kNestedSignalsMax = 2;
constexpr uint64_t kMispredictionTicks = 15;
constexpr uint64_t kCacheMissTicks = 200;
constexpr uint64_t kKernelTicksMax = 4000;
constexpr uint64_t kTurnTicksMax = 20000;

}  // namespace

PtInterpreter::PtInterpreter(PtWalk* walk)
    : walk_(walk),
      program_(walk->program_),
      options_(walk->options_),
      random_(walk->options_.seed),
      tsc_(walk->options_.start_tsc),
      versions_(walk->program_.options().jit_slots) {}

uint64_t PtInterpreter::AddressOf(const Place& place) const {
  const PtBlock& at = program_.blocks()[place.block];
  return program_.instructions()[at.first_instruction + place.index].address;
}

uint32_t PtInterpreter::PathNode(const PtPath& path) {
  const auto [found, is_new] =
      path_nodes_.try_emplace(path, static_cast<uint32_t>(walk_->paths_.size()));
  if (is_new) walk_->paths_.push_back(path);
  return found->second;
}

// Between half and one and a half times as many; 0 stays "never".
size_t PtInterpreter::AfterSome(size_t apart) {
  return apart == 0 ? SIZE_MAX : apart / 2 + Random(apart) + 1;
}

void PtInterpreter::StartThread(Thread* thread) {
  thread->place = {program_.functions()[program_.main()].first_block, 0};
  thread->activation = {.callers = PtWalk::kRootPath, .serial = ++serials_};
  thread->stacks.resize(1 + program_.coroutines().size());
  for (size_t i = 0; i < program_.coroutines().size(); ++i) {
    // As if its entry had been called: switch_stack returns to it.
    thread->stacks[1 + i] = {
        {.kind = Frame::Kind::kCoroutine,
         .resume = {program_.functions()[program_.coroutines()[i]].first_block, 0},
         .caller = {.callers = PtWalk::kRootPath, .serial = ++serials_}}};
  }
  thread->depth_limit = Random(kRecursionFramesMax);
}

void PtInterpreter::Run() {
  threads_.resize(options_.threads);
  for (Thread& thread : threads_) StartThread(&thread);
  thread_ = &threads_.front();
  until_signal_ = AfterSome(options_.signals_apart);
  until_interrupt_ = AfterSome(options_.interrupts_apart);
  until_turn_ends_ = options_.threads > 1 ? AfterSome(options_.turn_steps) : SIZE_MAX;
  while (walk_->steps_.size() < options_.steps || thread_->in_kernel) Step();
  // Every thread stops where it is.
  std::vector<bool> stopped(options_.threads);
  for (auto last = walk_->steps_.rbegin(); last != walk_->steps_.rend(); ++last) {
    if (stopped[last->thread]) continue;
    stopped[last->thread] = true;
    last->flags |= PtStep::kBreakAfter;
  }
}

void PtInterpreter::Record() {
  const X86Instruction& instruction =
      program_.instructions()[block().first_instruction + thread_->place.index];
  AdvanceTime(instruction);
  const auto index = static_cast<uint32_t>(walk_->steps_.size());
  walk_->steps_.push_back({.tsc = tsc_,
                           .next = instruction.end(),
                           .instruction = block().first_instruction + thread_->place.index,
                           .path = PathHere(),
                           .thread = static_cast<uint16_t>(thread_ - threads_.data()),
                           .cpu = cpu_});
  if (thread_->in_kernel) step().flags |= PtStep::kKernel;
  for (const uint32_t call : entered_calls_) walk_->calls_[call].entry_step = index;
  for (const uint32_t call : left_calls_) walk_->calls_[call].exit_step = index;
  entered_calls_.clear();
  left_calls_.clear();
}

// Two instructions a tick, and what real programs wait for.
void PtInterpreter::AdvanceTime(const X86Instruction& instruction) {
  const uint64_t chance = Random(1000);
  tsc_ += chance & 1;
  if (instruction.flow != X86Flow::kNext && chance < 40) tsc_ += kMispredictionTicks;
  if (instruction.flow == X86Flow::kNext && chance < 4) tsc_ += kCacheMissTicks;
}

void PtInterpreter::Step() {
  Record();
  if (thread_->place.index + 1 < block().instructions) {
    ++thread_->place.index;
  } else {
    Transfer();
  }
  Disturb();
}

// What comes from outside, behind the instruction that was just executed.
void PtInterpreter::Disturb() {
  for (size_t* count : {&until_signal_, &until_interrupt_, &until_turn_ends_}) {
    if (*count > 0 && *count != SIZE_MAX) --*count;
  }
  if (thread_->in_kernel) return;
  const bool kernel = program_.options().kernel;
  if (until_signal_ == 0) {
    until_signal_ = AfterSome(options_.signals_apart);
    if (SignalsBelow() == kNestedSignalsMax) return;
    step().flags |= PtStep::kBreakAfter;
    tsc_ += Random(kKernelTicksMax);
    if (kernel) {
      thread_->signal_waits = true;
      EnterKernel(program_.interrupt_entry());
    } else {
      DeliverSignal();
    }
  } else if (until_interrupt_ == 0) {
    until_interrupt_ = AfterSome(options_.interrupts_apart);
    step().flags |= PtStep::kBreakAfter | PtStep::kInterrupt;
    tsc_ += Random(kKernelTicksMax);
    if (kernel) EnterKernel(program_.interrupt_entry());
  } else if (until_turn_ends_ == 0) {
    EndTurn();
  }
}

int64_t PtInterpreter::SignalsBelow() {
  return std::count_if(frames().begin(), frames().end(),
                       [](const Frame& frame) { return frame.kind == Frame::Kind::kSignal; });
}

void PtInterpreter::EndTurn() {
  until_turn_ends_ = AfterSome(options_.turn_steps);
  step().flags |= PtStep::kBreakAfter;
  tsc_ += 1000 + Random(kTurnTicksMax);
  thread_ = &threads_[(static_cast<size_t>(thread_ - threads_.data()) + 1) % threads_.size()];
  cpu_ = static_cast<uint8_t>(Random(options_.cpus));
}

void PtInterpreter::GoTo(uint32_t target) {
  if (program_.blocks()[target].function != block().function) {
    thread_->activation.serial = ++serials_;  // a tail call: another function's frame
    thread_->activation.loops = {};
  }
  thread_->place = {target, 0};
}

void PtInterpreter::GoBehind() { thread_->place = {thread_->place.block + 1, 0}; }

void PtInterpreter::Transfer() {
  switch (block().end) {
    case X86Flow::kNext:
    case X86Flow::kPtWrite:
      GoBehind();
      break;
    case X86Flow::kConditional:
      if (TakesBranch()) {
        step().flags |= PtStep::kTaken;
        GoTo(block().targets[0]);
      } else {
        GoBehind();
      }
      break;
    case X86Flow::kJump:
    case X86Flow::kIndirectJump:
      Jump();
      break;
    case X86Flow::kCall:
    case X86Flow::kIndirectCall:
      Call();
      break;
    case X86Flow::kReturn:
      Return();
      break;
    case X86Flow::kSyscall:
      SystemCall();
      return;  // tells by itself what is next
    case X86Flow::kSystemReturn:
      SystemReturn();
      break;
  }
  step().next = AddressOf(thread_->place);
}

bool PtInterpreter::HasLanding(const Frame& frame) const {
  return frame.kind == Frame::Kind::kCall &&
         program_.blocks()[frame.call_block].landing != PtBlock::kNone;
}

bool PtInterpreter::TakesBranch() {
  const PtBlock& here = block();
  switch (here.guard) {
    case PtGuard::kRandom:
      return Chance(here.bias_percent);
    case PtGuard::kLoop: {
      uint16_t& left = thread_->activation.loops[here.slot];
      if (left == 0) left = static_cast<uint16_t>(1 + Random(kLoopRoundsMax));
      return --left > 0;
    }
    case PtGuard::kRecursion:
      if (frames().size() < thread_->depth_limit) return false;
      thread_->depth_limit = Chance(20) ? 64 + Random(kRecursionFramesMax - 64) : Random(20);
      return true;
    case PtGuard::kLongJump: {
      auto& records = thread_->set_jumps;
      std::erase_if(records, [this](const SetJump& record) {
        if (record.stack != thread_->stack) return false;
        return record.depth > frames().size() ||
               (record.depth == frames().size()
                    ? record.serial != thread_->activation.serial
                    : record.serial != frames()[record.depth].caller.serial);
      });
      const bool any = std::any_of(records.begin(), records.end(), [this](const SetJump& record) {
        return record.stack == thread_->stack;
      });
      return !any || Chance(50);
    }
    case PtGuard::kThrow:
      if (program_.blocks()[thread_->place.block + 1].landing != PtBlock::kNone) return Chance(50);
      for (auto frame = frames().rbegin(); frame != frames().rend(); ++frame) {
        if (frame->kind != Frame::Kind::kCall) break;
        if (HasLanding(*frame)) return Chance(50);
      }
      return true;
    case PtGuard::kYield:
      return Chance(30);
    case PtGuard::kCompile: {
      uint32_t slot = 0;
      return !FindFreeSlot(&slot);
    }
  }
  CHECK(false);
  return false;
}

void PtInterpreter::Jump() {
  if (block().action == PtAction::kLongJump) {
    LongJump();
  } else {
    GoTo(block().targets[Random(block().targets.size())]);
  }
}

void PtInterpreter::Enter(uint32_t function, Frame frame, PtCall::Kind kind) {
  frame.call = static_cast<uint32_t>(walk_->calls_.size());
  walk_->calls_.push_back({.call_step = static_cast<uint32_t>(walk_->steps_.size() - 1),
                           .function = function,
                           .kind = kind});
  entered_calls_.push_back(frame.call);
  frames().push_back(frame);
  CHECK(frames().size() < 1000);
  thread_->place = {program_.functions()[function].first_block, 0};
}

void PtInterpreter::Call() {
  const PtBlock& call = block();
  if (call.end == X86Flow::kCall && call.targets.empty()) {  // to the next instruction
    GoBehind();
    return;
  }
  if (call.action == PtAction::kSetJump) {
    if (thread_->set_jumps.size() == kSetJumpsMax) {
      thread_->set_jumps.erase(thread_->set_jumps.begin());
    }
    thread_->set_jumps.push_back({.serial = thread_->activation.serial,
                                  .stack = thread_->stack,
                                  .depth = frames().size(),
                                  .resume = {thread_->place.block + 1, 0}});
  }
  uint32_t function = 0;
  if (call.action == PtAction::kCallJit) {
    function = program_.code()[program_.JitCode(call.slot, versions_[call.slot])].function;
  } else {
    function = call.targets[Random(call.targets.size())];
  }
  const Place behind = {thread_->place.block + 1, 0};
  const uint32_t callers = PathHere(AddressOf(behind));
  Frame frame{.kind = Frame::Kind::kCall,
              .resume = behind,
              .caller = thread_->activation,
              .call_block = thread_->place.block};
  const PtCall::Kind kind =
      call.end == X86Flow::kCall ? PtCall::Kind::kCall : PtCall::Kind::kIndirectCall;
  thread_->activation = {.callers = callers, .serial = ++serials_};
  Enter(function, frame, kind);
}

void PtInterpreter::Pop() {
  CHECK(!frames().empty());
  const Frame& top = frames().back();
  thread_->place = top.resume;
  thread_->activation = top.caller;
  if (top.call != Frame::kNoCall) {
    walk_->calls_[top.call].exit = PtCall::Exit::kReturn;
    left_calls_.push_back(top.call);
  }
  frames().pop_back();
}

void PtInterpreter::Return() {
  switch (block().action) {
    case PtAction::kThrow:
      Throw();
      break;
    case PtAction::kSwitchStack:
      SwitchStack();
      break;
    default:
      Pop();
      break;
  }
}

// Frames from `depth` on are left without returning; the one at `depth` tells who goes on.
void PtInterpreter::CutTo(size_t depth) {
  step().flags |= PtStep::kUnwinds;
  thread_->activation = frames()[depth].caller;
  for (size_t i = depth; i < frames().size(); ++i) {
    if (frames()[i].call == Frame::kNoCall) continue;
    walk_->calls_[frames()[i].call].exit = PtCall::Exit::kUnwind;
    left_calls_.push_back(frames()[i].call);
  }
  frames().resize(depth);
}

void PtInterpreter::LongJump() {
  std::vector<SetJump> live;
  for (const SetJump& record : thread_->set_jumps) {
    if (record.stack == thread_->stack && record.depth < frames().size() &&
        record.serial == frames()[record.depth].caller.serial) {
      live.push_back(record);
    }
  }
  CHECK(!live.empty());  // the guard's doing
  const SetJump& record = live[Random(live.size())];
  CutTo(record.depth);
  thread_->place = record.resume;
}

void PtInterpreter::Throw() {
  std::vector<size_t> depths;
  for (size_t i = frames().size(); i-- > 0 && frames()[i].kind == Frame::Kind::kCall;) {
    if (HasLanding(frames()[i])) depths.push_back(i);
  }
  CHECK(!depths.empty());  // the guard's doing
  const size_t depth = depths[Random(depths.size())];
  const uint32_t landing = program_.blocks()[frames()[depth].call_block].landing;
  CutTo(depth);
  thread_->place = {landing, 0};
}

void PtInterpreter::SwitchStack() {
  step().flags |= PtStep::kStackSwitch;
  size_t other = Random(thread_->stacks.size() - 1);
  if (other >= thread_->stack) ++other;
  thread_->stack = other;
  Pop();
}

bool PtInterpreter::FindFreeSlot(uint32_t* slot) {
  std::vector<bool> live(versions_.size());
  for (const Thread& thread : threads_) {
    // The function that a thread is in is on no frame, but it called no compiler or is in one.
    const auto mark = [&](uint32_t at) {
      for (size_t i = 0; i < versions_.size(); ++i) {
        const uint32_t function = program_.code()[program_.JitCode(i, versions_[i])].function;
        if (program_.blocks()[at].function == function) live[i] = true;
      }
    };
    mark(thread.place.block);
    for (const auto& stack : thread.stacks) {
      for (const Frame& frame : stack) mark(frame.resume.block);
    }
  }
  for (uint32_t i = 0; i < versions_.size(); ++i) {
    if (live[i] || versions_[i] + 1 >= program_.options().jit_versions) continue;
    *slot = i;
    return true;
  }
  return false;
}

void PtInterpreter::Compile() {
  uint32_t slot = 0;
  if (!FindFreeSlot(&slot)) return;
  walk_->code_changes_.push_back({.step = static_cast<uint32_t>(walk_->steps_.size()),
                                  .slot = slot,
                                  .version = ++versions_[slot]});
}

void PtInterpreter::SystemCall() {
  const PtAction action = block().action;
  step().flags |= PtStep::kBreakAfter;
  tsc_ += 100 + Random(kKernelTicksMax);
  if (action != PtAction::kSignalReturn) GoBehind();
  if (program_.options().kernel) {
    after_kernel_ = action;
    EnterKernel(program_.system_call_entry());
    step().next = AddressOf(thread_->place);
    return;
  }
  FinishSystemCall(action);
  step().next = AddressOf(thread_->place);
}

void PtInterpreter::FinishSystemCall(PtAction action) {
  if (action == PtAction::kCompile) Compile();
  if (action == PtAction::kSignalReturn) {
    CHECK(frames().back().kind == Frame::Kind::kSignal);
    Pop();
  }
}

void PtInterpreter::EnterKernel(uint32_t function) {
  const uint32_t callers = PathHere(AddressOf(thread_->place));
  frames().push_back(
      {.kind = Frame::Kind::kKernel, .resume = thread_->place, .caller = thread_->activation});
  thread_->activation = {.callers = callers, .serial = ++serials_};
  thread_->in_kernel = true;
  thread_->place = {program_.functions()[function].first_block, 0};
}

void PtInterpreter::SystemReturn() {
  CHECK(frames().back().kind == Frame::Kind::kKernel);
  Pop();
  thread_->in_kernel = false;
  FinishSystemCall(std::exchange(after_kernel_, PtAction::kNone));
  if (std::exchange(thread_->signal_waits, false)) DeliverSignal();
}

// The interrupted function and the one that the handler returns to stand below the handler.
void PtInterpreter::DeliverSignal() {
  const Activation interrupted = thread_->activation;
  const uint32_t below = PathHere(AddressOf(thread_->place));
  const Place restorer = {program_.functions()[program_.restorer()].first_block, 0};
  frames().push_back(
      {.kind = Frame::Kind::kSignal, .resume = thread_->place, .caller = interrupted});
  Frame frame{.kind = Frame::Kind::kRestorer,
              .resume = restorer,
              .caller = {.callers = below, .serial = ++serials_}};
  thread_->activation = {.callers = PathNode({below, program_.restorer(), AddressOf(restorer)}),
                         .serial = ++serials_};
  const auto& handlers = program_.handlers();
  Enter(handlers[Random(handlers.size())], frame, PtCall::Kind::kSignal);
}

}  // namespace ptarmigan
