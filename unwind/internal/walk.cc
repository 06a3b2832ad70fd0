#include "unwind/internal/walk.h"

#include <algorithm>
#include <array>
#include <utility>

#include "unwind/internal/code_patterns.h"
#include "unwind/internal/expression.h"

namespace ptarmigan::internal {
namespace {

// Whether the row says that the frame has no caller.
bool IsOutermost(const UnwindRow& row) {
  return std::any_of(row.rules.begin(), row.rules.end(), [&](const RegisterRule& rule) {
    return rule.register_number == row.return_register && rule.kind == RuleKind::kUndefined;
  });
}

}  // namespace

WalkResult Walk::Run(const WalkInput& input, std::vector<WalkedFrame>* frames) {
  frames->clear();
  const RegisterSet& recorded = input.registers;
  if (recorded.abi == RegisterSet::Abi::kNone || !recorded.Has(names_.perf_pc)) {
    return Finish(StackEnd::kNoUserRegisters);
  }
  frame_ = {.pc = {recorded.values[names_.perf_pc]}};
  frames->push_back(frame_);
  if (!recorded.Has(names_.perf_sp)) return Finish(StackEnd::kNoUserRegisters);
  LoadRegisters(arch_, recorded, &registers_);
  const uint64_t stack_pointer = recorded.values[names_.perf_sp];
  const VirtAddr stack_start = input.stack_start.value_or(VirtAddr{stack_pointer});
  memory_ = WalkMemory(input.stack, stack_start.value, names_.word_bytes);
  memory_.SetModule(&module_);
  stack_is_whole_ = input.stack_is_whole;
  lowest_frame_ = stack_pointer;
  EnterModule(frame_.lookup());

  const size_t frames_max = std::min(options_.frames_max, WalkOptions::kFramesMax);
  for (;;) {
    if (frames->size() >= frames_max) return Finish(StackEnd::kFrameLimit);
    const Step step = StepToCaller();
    if (step.stopped) return Finish(step.end);
    if (step.pc == 0 && step.is_return_address) {
      Count(step.method);
      return Finish(StackEnd::kComplete);
    }
    frame_ = {.pc = {step.pc}, .is_return_address = step.is_return_address};
    // An interrupted function may have called through a bad pointer: its frame is kept, without a mapping.
    const bool is_mapped = EnterModule(frame_.lookup());
    if (!is_mapped && step.is_return_address) return Finish(StackEnd::kNoMapping);
    // On x86 rules may speak of the pc, which is the return address's column.
    if (arch_ != Arch::kArm64) registers_.Set(names_.return_address, step.pc);
    Count(step.method);
    frames->push_back(frame_);
  }
}

Walk::Step Walk::StepToCaller() {
  const bool after_signal = std::exchange(through_signal_, false);
  if (!has_module_) {
    if (const auto step = StepThroughBadCall()) return *step;
    return Step::Stop(StackEnd::kNoMapping);
  }
  if (options_.method == WalkOptions::Method::kCfi && module_.object != nullptr) {
    const UnwindRow* row = module_.object->FindRow(InFile(frame_.lookup().value));
    if (row != nullptr) {
      if (IsOutermost(*row)) return Step::Stop(StackEnd::kComplete);
      // A row that counts from the stack pointer is of no use once frame pointers have lost it (arm64).
      const bool usable = row->cfa.kind == RuleKind::kRegister
                              ? registers_.Has(row->cfa.source)
                              : row->cfa.kind == RuleKind::kExpression;
      if (usable) return StepByCfi(*row);
      return StepByFramePointer();
    }
  }
  if (const auto step = StepThroughSignal()) return *step;
  if (!frame_.is_return_address || after_signal) {
    if (const auto step = StepByCode()) return *step;
  }
  return StepByFramePointer();
}

std::optional<uint64_t> Walk::ComputeCfa(const UnwindRow& row) const {
  const RegisterRule& rule = row.cfa;
  if (rule.kind == RuleKind::kRegister) {
    if (!registers_.Has(rule.source)) return std::nullopt;
    return registers_[rule.source] + static_cast<uint64_t>(int64_t{rule.offset});
  }
  if (rule.kind == RuleKind::kExpression) {
    return EvaluateExpression(row.Expression(rule), std::nullopt, registers_, memory_);
  }
  return std::nullopt;
}

std::optional<uint64_t> Walk::RuleValue(const UnwindRow& row, const RegisterRule& rule,
                                        uint64_t cfa, Status* status) const {
  uint64_t value = 0;
  *status = Status::kMissing;
  switch (rule.kind) {
    case RuleKind::kOffset:
      *status = memory_.ReadWord(cfa + static_cast<uint64_t>(int64_t{rule.offset}), &value);
      break;
    case RuleKind::kValOffset:
      return cfa + static_cast<uint64_t>(int64_t{rule.offset});
    case RuleKind::kRegister:
      if (!registers_.Has(rule.source)) return std::nullopt;
      return registers_[rule.source];
    case RuleKind::kExpression: {
      const auto address = EvaluateExpression(row.Expression(rule), cfa, registers_, memory_);
      if (!address) return std::nullopt;
      *status = memory_.ReadWord(*address, &value);
      break;
    }
    case RuleKind::kValExpression:
      return EvaluateExpression(row.Expression(rule), cfa, registers_, memory_);
    default:
      return std::nullopt;
  }
  if (*status != Status::kOk) return std::nullopt;
  return value;
}

Walk::Step Walk::StepByCfi(const UnwindRow& row) {
  const unsigned return_register = row.return_register;
  // arm64: without a rule the return address is where the call put it.
  uint64_t return_address = 0;
  bool has_return_address = arch_ == Arch::kArm64 && registers_.Has(return_register);
  if (has_return_address) return_address = registers_[return_register];
  // But a function that has called another no longer has it there.
  if (frame_.is_return_address) has_return_address = false;

  const auto cfa = ComputeCfa(row);
  if (!cfa) return Step::Stop(StackEnd::kBadFrame);
  if (*cfa < lowest_frame_ && !row.signal_frame) return Step::Stop(StackEnd::kBadFrame);

  // Rules speak of the registers before the step: values first, then all at once.
  struct Change {
    uint8_t number;
    bool known;
    uint64_t value;
  };
  std::array<Change, UnwindRow::kRegistersMax> changes;
  size_t count = 0;
  uint64_t stack_pointer = *cfa;
  for (const RegisterRule& rule : row.rules) {
    Status status = Status::kOk;
    const auto value = RuleValue(row, rule, *cfa, &status);
    if (rule.register_number == return_register) {
      if (!value) return Step::Stop(EndFor(status));
      return_address = *value;
      has_return_address = true;
    } else if (rule.register_number == names_.stack_pointer) {
      if (!value) return Step::Stop(EndFor(status));
      stack_pointer = *value;
      continue;
    }
    changes[count++] = {rule.register_number, value.has_value(), value.value_or(0)};
  }
  if (!has_return_address) return Step::Stop(StackEnd::kBadFrame);
  for (size_t i = 0; i < count; ++i) {
    if (changes[i].known) {
      registers_.Set(changes[i].number, changes[i].value);
    } else {
      registers_.Forget(changes[i].number);
    }
  }
  if (!MoveTo(stack_pointer, row.signal_frame)) return Step::Stop(StackEnd::kBadFrame);
  // The pc of an interrupted frame is no return address and was never signed.
  return {.method = Method::kCfi,
          .pc = row.signal_frame ? return_address : StripPointer(return_address),
          .is_return_address = !row.signal_frame};
}

std::optional<Walk::Step> Walk::StepThroughBadCall() {
  if (frame_.is_return_address) return std::nullopt;
  uint64_t return_address = 0;
  if (arch_ == Arch::kArm64) {
    if (!registers_.Has(names_.return_address)) return std::nullopt;
    return_address = StripPointer(registers_[names_.return_address]);
  } else {
    if (!registers_.Has(names_.stack_pointer)) return std::nullopt;
    const uint64_t stack_pointer = registers_[names_.stack_pointer];
    if (memory_.ReadWord(stack_pointer, &return_address) != Status::kOk) return std::nullopt;
    if (!MoveTo(stack_pointer + names_.word_bytes, false)) return std::nullopt;
  }
  if (return_address == 0) return std::nullopt;
  return Step{.method = Method::kOther, .pc = return_address};
}

std::optional<Walk::Step> Walk::StepByCode() {
  if (module_.object == nullptr) return std::nullopt;
  const auto leaf = FindLeafReturn(*module_.object, arch_, InFile(frame_.pc.value));
  if (!leaf) return std::nullopt;
  if (leaf->in_link_register) {
    if (!registers_.Has(names_.return_address)) return std::nullopt;
    return Step{.method = Method::kOther, .pc = StripPointer(registers_[names_.return_address])};
  }
  if (!registers_.Has(names_.stack_pointer)) return std::nullopt;
  return StepToReturnAddressAt(registers_[names_.stack_pointer] + leaf->stack_offset);
}

Walk::Step Walk::StepToReturnAddressAt(uint64_t address) {
  uint64_t return_address = 0;
  const Status status = memory_.ReadWord(address, &return_address);
  if (status != Status::kOk) return Step::Stop(EndFor(status));
  if (!MoveTo(address + names_.word_bytes, false)) return Step::Stop(StackEnd::kBadFrame);
  return {.method = Method::kOther, .pc = return_address};
}

std::optional<Walk::Step> Walk::StepThroughSignal() {
  if (!frame_.is_return_address || !registers_.Has(names_.stack_pointer)) return std::nullopt;
  // arm64's trampoline is in the vdso, which calls nothing else: its code need not be at hand.
  const bool vdso_trampoline =
      arch_ == Arch::kArm64 && module_.is_vdso && module_.object == nullptr;
  if (!vdso_trampoline && (module_.object == nullptr ||
                           !IsSignalTrampoline(*module_.object, arch_, InFile(frame_.pc.value)))) {
    return std::nullopt;
  }
  // Where struct ucontext keeps the registers, from the stack pointer of the trampoline (asm/sigcontext.h).
  const uint64_t frame = registers_[names_.stack_pointer];
  RegisterFile interrupted;
  uint64_t pc = 0;
  uint64_t stack_pointer = 0;
  const auto take = [&](uint64_t offset, uint64_t* value) {
    return memory_.ReadWord(frame + offset, value);
  };
  Status status = Status::kMissing;
  if (arch_ == Arch::kX86_64) {
    // uc_flags, uc_link, uc_stack; then r8 to r15, di, si, bp, bx, dx, ax, cx, sp, ip.
    constexpr uint64_t kRegisters = 40;
    constexpr std::array<uint8_t, 15> kOrder = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2};
    for (size_t i = 0; i < kOrder.size(); ++i) {
      uint64_t value = 0;
      if (take(kRegisters + 8 * i, &value) == Status::kOk) interrupted.Set(kOrder[i], value);
    }
    status = take(kRegisters + uint64_t{8} * 15, &stack_pointer);
    if (status == Status::kOk) status = take(kRegisters + uint64_t{8} * 16, &pc);
  } else {
    // siginfo (128 bytes), uc_flags, uc_link, uc_stack, uc_sigmask (128 bytes), padding, fault_address; then x0 to
    // x30, sp, pc.
    constexpr uint64_t kRegisters = 312;
    for (unsigned i = 0; i < 31; ++i) {
      uint64_t value = 0;
      if (take(kRegisters + 8 * uint64_t{i}, &value) == Status::kOk) interrupted.Set(i, value);
    }
    status = take(kRegisters + uint64_t{8} * 31, &stack_pointer);
    if (status == Status::kOk) status = take(kRegisters + uint64_t{8} * 32, &pc);
  }
  if (status != Status::kOk) return Step::Stop(EndFor(status));
  registers_ = interrupted;
  if (!MoveTo(stack_pointer, true)) return Step::Stop(StackEnd::kBadFrame);
  return Step{.method = Method::kOther, .pc = pc, .is_return_address = false};
}

Walk::Step Walk::StepByFramePointer() {
  const bool cfi_mode = options_.method == WalkOptions::Method::kCfi;
  const StackEnd lost = cfi_mode ? StackEnd::kNoUnwindTable : StackEnd::kBadFrame;
  if (module_.object != nullptr && IsEntryCode(*module_.object, InFile(frame_.lookup().value))) {
    return Step::Stop(StackEnd::kComplete);
  }
  if (!registers_.Has(names_.frame_pointer)) return Step::Stop(lost);
  const uint64_t frame_pointer = registers_[names_.frame_pointer];
  const uint64_t word = names_.word_bytes;
  // The ABIs have the outermost frame pointer zero, as thread starts in assembly without tables set it. Elsewhere a
  // lone zero in code that keeps no frame pointers says nothing.
  if (frame_pointer == 0) {
    const bool thread_start = frame_.is_return_address && module_.object != nullptr;
    return Step::Stop(
        !cfi_mode || result_.frame_pointer_steps > 0 || thread_start ? StackEnd::kComplete : lost);
  }
  if (frame_pointer % word != 0 || frame_pointer < lowest_frame_) return Step::Stop(lost);
  uint64_t next_frame_pointer = 0;
  uint64_t return_address = 0;
  Status status = memory_.ReadWord(frame_pointer, &next_frame_pointer);
  if (status == Status::kOk) status = memory_.ReadWord(frame_pointer + word, &return_address);
  if (status != Status::kOk) {
    return Step::Stop(status == Status::kBeyondStack && !stack_is_whole_ ? StackEnd::kUserStackCut
                                                                         : lost);
  }
  return_address = StripPointer(return_address);
  if (return_address != 0 && !IsExecutable(VirtAddr{return_address - 1})) {
    return Step::Stop(cfi_mode ? lost : StackEnd::kNoMapping);
  }
  registers_.Set(names_.frame_pointer, next_frame_pointer);
  if (!MoveTo(frame_pointer + 2 * word, false)) return Step::Stop(lost);
  // arm64 keeps the frame record anywhere in its frame: the caller's stack pointer is not known, only a bound of it.
  if (arch_ == Arch::kArm64) registers_.Forget(names_.stack_pointer);
  return {.method = Method::kFramePointer, .pc = return_address};
}

bool Walk::MoveTo(uint64_t stack_pointer, bool through_signal) {
  if (through_signal) {
    // The handler may have run on a stack of its own: the interrupted one can lie anywhere.
    if (++result_.signal_frames > StackWalker::kSignalFramesMax) return false;
    same_stack_pointer_ = false;
  } else {
    if (stack_pointer < lowest_frame_) return false;
    // A leaf may have no frame on the stack (arm64); two such in a row cannot be.
    const bool same = stack_pointer == lowest_frame_;
    if (same && same_stack_pointer_) return false;
    same_stack_pointer_ = same;
  }
  lowest_frame_ = stack_pointer;
  through_signal_ = through_signal;
  registers_.Set(names_.stack_pointer, stack_pointer);
  return true;
}

uint64_t Walk::StripPointer(uint64_t address) const {
  if (arch_ != Arch::kArm64) return address;
  return address & ((uint64_t{1} << options_.arm64_address_bits) - 1);
}

bool Walk::EnterModule(VirtAddr lookup) {
  if (has_module_ && lookup >= module_.start && lookup < module_.end) return true;
  has_module_ = finder_.Find(lookup, &module_);
  if (!has_module_) module_ = {};
  return has_module_;
}

bool Walk::IsExecutable(VirtAddr address) {
  if (has_module_ && address >= module_.start && address < module_.end) return true;
  CodeModule other;
  return finder_.Find(address, &other);
}

StackEnd Walk::EndFor(Status status) const {
  if (status == Status::kBeyondStack && !stack_is_whole_) return StackEnd::kUserStackCut;
  return StackEnd::kBadMemory;
}

void Walk::Count(Method method) {
  switch (method) {
    case Method::kCfi:
      ++result_.cfi_steps;
      break;
    case Method::kFramePointer:
      ++result_.frame_pointer_steps;
      break;
    case Method::kOther:
      ++result_.other_steps;
      break;
  }
}

StackOrigin Walk::Origin() const {
  if (result_.cfi_steps > 0) {
    return result_.frame_pointer_steps > 0 ? StackOrigin::kMixed : StackOrigin::kCfi;
  }
  if (result_.frame_pointer_steps > 0) return StackOrigin::kFramePointer;
  if (result_.other_steps > 0 || result_.end == StackEnd::kComplete) {
    return options_.method == WalkOptions::Method::kCfi ? StackOrigin::kCfi
                                                        : StackOrigin::kFramePointer;
  }
  return StackOrigin::kNone;
}

WalkResult Walk::Finish(StackEnd end) {
  result_.end = end;
  result_.origin = Origin();
  return result_;
}

}  // namespace ptarmigan::internal
