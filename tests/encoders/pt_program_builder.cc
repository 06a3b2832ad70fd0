#include "tests/encoders/pt_program_builder.h"

#include <algorithm>

#include "base/check.h"
#include "base/str_format.h"

namespace ptarmigan {
namespace {

constexpr size_t kFillersMax = 3;  // of a block
constexpr size_t kCasesMax = 5;    // of a jump table
constexpr size_t kHandlers = 2;
constexpr size_t kCoroutines = 2;
constexpr uint64_t kSlotBytes = 0x10000;
constexpr uint64_t kFunctionAlignment = 16;
// Blocks between a branch and its target over which 8 bits of displacement suffice: a block has at most kFillersMax
// instructions of X86Assembler::kNopBytesMax bytes and one of up to 7.
constexpr int64_t kShortBlocks = 2;
static_assert((kShortBlocks + 1) * (kFillersMax * X86Assembler::kNopBytesMax + 7) < 128);

}  // namespace

uint64_t PtProgramBuilder::RegionBase(PtRegion region, bool is_64_bit) {
  switch (region) {
    case PtRegion::kProgram:
      return is_64_bit ? 0x555555555000 : 0x8049000;
    case PtRegion::kLibrary:
      return is_64_bit ? 0x7ffff7d01000 : 0xf7d01000;
    case PtRegion::kJit:
      return is_64_bit ? 0x555565554000 : 0xa000000;
    case PtRegion::kKernel:
      return 0xffffffff81000000;
  }
  CHECK(false);
  return 0;
}

uint32_t PtProgramBuilder::NameFunction(const std::string& name, PtRegion region) {
  program_->functions_.push_back({.name = name, .region = region});
  return static_cast<uint32_t>(program_->functions_.size() - 1);
}

// Numbers first: calls name their callee before it is made.
void PtProgramBuilder::NameFunctions() {
  for (size_t i = 0; i < options_.functions; ++i) {
    NameFunction(i == 0 ? "main" : StrFormat("f{}", i), PtRegion::kProgram);
  }
  library_first_ = static_cast<uint32_t>(options_.functions);
  const size_t in_library = options_.library ? 2 + options_.functions / 3 : 0;
  for (size_t i = 0; i < in_library; ++i) {
    NameFunction(StrFormat("lib{}", i), PtRegion::kLibrary);
  }
  ordinary_end_ = static_cast<uint32_t>(program_->functions_.size());
  for (uint32_t i = library_first_; i < ordinary_end_; ++i) {
    stubs_[i] = NameFunction(program_->functions_[i].name + "@plt", PtRegion::kProgram);
  }
  setjmp_ = NameFunction("setjmp", PtRegion::kProgram);
  longjmp_ = NameFunction("longjmp", PtRegion::kProgram);
  throw_ = NameFunction("throw_exception", PtRegion::kProgram);
  switch_stack_ = NameFunction("switch_stack", PtRegion::kProgram);
  compile_ = NameFunction("jit_compile", PtRegion::kProgram);
  program_->restorer_ = NameFunction("restore_rt", PtRegion::kProgram);
  for (size_t i = 0; i < kHandlers; ++i) {
    program_->handlers_.push_back(NameFunction(StrFormat("handler{}", i), PtRegion::kProgram));
  }
  for (size_t i = 0; options_.coroutines && i < kCoroutines; ++i) {
    program_->coroutines_.push_back(NameFunction(StrFormat("coroutine{}", i), PtRegion::kProgram));
  }
  jit_first_ = static_cast<uint32_t>(program_->functions_.size());
  for (size_t slot = 0; slot < options_.jit_slots; ++slot) {
    for (size_t version = 0; version < options_.jit_versions; ++version) {
      NameFunction(StrFormat("jit{}_v{}", slot, version), PtRegion::kJit);
    }
  }
  kernel_first_ = static_cast<uint32_t>(program_->functions_.size());
  if (!options_.kernel) return;
  program_->system_call_entry_ = NameFunction("entry_SYSCALL_64", PtRegion::kKernel);
  program_->interrupt_entry_ = NameFunction("asm_interrupt", PtRegion::kKernel);
  NameFunction("do_syscall_64", PtRegion::kKernel);
  NameFunction("handle_irq", PtRegion::kKernel);
}

void PtProgramBuilder::Open(uint32_t function) {
  function_ = function;
  loops_ = 0;
  landings_.clear();
  program_->functions_[function].first_block = next_block();
}

void PtProgramBuilder::Close() {
  PtFunction& function = program_->functions_[function_];
  function.blocks = next_block() - function.first_block;
}

uint32_t PtProgramBuilder::Add(X86Flow end) {
  PtBlock& block = blocks().emplace_back();
  block.function = function_;
  block.end = end;
  return next_block() - 1;
}

uint32_t PtProgramBuilder::StubOf(uint32_t function) {
  const auto stub = stubs_.find(function);
  const bool same_object = program_->functions_[function_].region == PtRegion::kLibrary;
  return stub == stubs_.end() || same_object ? function : stub->second;
}

// Calls lead to later functions only: without recursion every function returns.
uint32_t PtProgramBuilder::Callee() {
  uint32_t first = function_ + 1;
  uint32_t end = ordinary_end_;
  if (program_->functions_[function_].region == PtRegion::kKernel) return PtBlock::kNone;
  if (function_ >= ordinary_end_) {
    // Handlers, coroutines and JIT code call functions that never come back to them.
    first = first_leaf();
    end = library_first_;
  }
  if (first >= end) return PtBlock::kNone;
  return first + static_cast<uint32_t>(Random(end - first));
}

void PtProgramBuilder::If(unsigned nesting) {
  const uint32_t condition = Add(X86Flow::kConditional);
  const bool ordinary = options_.mix == PtMix::kOrdinary;
  const auto bias = static_cast<uint8_t>(ordinary && Chance(70) ? Random(10) : Random(101));
  blocks()[condition].bias_percent =
      static_cast<uint8_t>(ordinary && Chance(50) ? 100 - bias : bias);
  Body(nesting - 1);
  if (Chance(50)) {
    const uint32_t over = Add(X86Flow::kJump);
    blocks()[condition].targets = {next_block()};
    Body(nesting - 1);
    blocks()[over].targets = {next_block()};
  } else {
    blocks()[condition].targets = {next_block()};
  }
}

void PtProgramBuilder::Loop(unsigned nesting) {
  if (loops_ == kPtLoopsMax) return;
  const auto slot = static_cast<uint8_t>(loops_++);
  const uint32_t start = next_block();
  Body(nesting - 1);
  const uint32_t end = Add(X86Flow::kConditional);
  blocks()[end].guard = PtGuard::kLoop;
  blocks()[end].slot = slot;
  blocks()[end].targets = {start};
}

void PtProgramBuilder::Switch(unsigned nesting) {
  const uint32_t jump = Add(X86Flow::kIndirectJump);
  std::vector<uint32_t> starts;
  std::vector<uint32_t> ends;
  const size_t cases = 2 + Random(kCasesMax - 1);
  for (size_t i = 0; i < cases; ++i) {
    starts.push_back(next_block());
    if (Chance(30)) Body(nesting - 1);
    ends.push_back(Add(X86Flow::kJump));
  }
  starts.push_back(next_block());
  for (const uint32_t end : ends) blocks()[end].targets = {next_block()};
  blocks()[jump].targets = starts;
}

void PtProgramBuilder::Call() {
  const uint32_t callee = Callee();
  if (callee == PtBlock::kNone) return;
  const uint32_t call = Add(X86Flow::kCall);
  blocks()[call].targets = {StubOf(callee)};
  if (options_.exceptions && Chance(30)) landings_.push_back(call);
}

void PtProgramBuilder::IndirectCall() {
  const uint32_t call = Add(X86Flow::kIndirectCall);
  if (options_.jit_slots > 0 && function_ < first_leaf() && Chance(40)) {
    blocks()[call].action = PtAction::kCallJit;
    blocks()[call].slot = static_cast<uint8_t>(Random(options_.jit_slots));
    return;
  }
  std::vector<uint32_t> callees;
  for (size_t i = 0; i < 1 + Random(3); ++i) {
    const uint32_t callee = Callee();
    if (callee != PtBlock::kNone) callees.push_back(callee);
  }
  if (callees.empty()) {
    blocks()[call].end = X86Flow::kNext;
    return;
  }
  blocks()[call].targets = callees;
  if (options_.exceptions && Chance(30)) landings_.push_back(call);
}

// A branch around a call.
void PtProgramBuilder::Guarded(PtGuard guard, uint32_t callee) {
  const uint32_t branch = Add(X86Flow::kConditional);
  blocks()[branch].guard = guard;
  const uint32_t call = Add(X86Flow::kCall);
  blocks()[call].targets = {callee};
  blocks()[branch].targets = {next_block()};
  if (guard == PtGuard::kThrow && Chance(50)) landings_.push_back(call);  // caught here
}

// What ordinary programs do rarely.
void PtProgramBuilder::Special() {
  const bool in_program = program_->functions_[function_].region == PtRegion::kProgram;
  switch (Random(8)) {
    case 0:
      if (options_.recursion && in_program && function_ < ordinary_end_) {
        Guarded(PtGuard::kRecursion, function_);
      }
      break;
    case 1:
      if (options_.long_jumps && in_program) {
        const uint32_t call = Add(X86Flow::kCall);
        blocks()[call].action = PtAction::kSetJump;
        blocks()[call].targets = {setjmp_};
      }
      break;
    case 2:
      if (options_.long_jumps && in_program) Guarded(PtGuard::kLongJump, longjmp_);
      break;
    case 3:
      if (options_.exceptions && in_program) Guarded(PtGuard::kThrow, throw_);
      break;
    case 4:
      if (options_.coroutines && in_program) Guarded(PtGuard::kYield, switch_stack_);
      break;
    case 5:
      if (options_.jit_slots > 0 && in_program) Guarded(PtGuard::kCompile, compile_);
      break;
    case 6:
      // call +0: the block's target is the next block, which begins at the next instruction.
      Add(X86Flow::kCall);
      Add(X86Flow::kNext);
      break;
    default:
      Add(X86Flow::kPtWrite);
      break;
  }
}

void PtProgramBuilder::OrdinaryStatement(unsigned nesting) {
  const uint64_t kind = Random(100);
  const bool in_kernel = program_->functions_[function_].region == PtRegion::kKernel;
  if (kind < 38 && nesting > 0) {
    If(nesting);
  } else if (kind < 48 && nesting > 0) {
    Loop(nesting);
  } else if (kind < 50 && nesting > 0) {
    Switch(nesting);
  } else if (kind < 85 || in_kernel) {
    Call();
  } else if (kind < 92) {
    IndirectCall();
  } else if (kind < 94 && options_.system_calls) {
    Add(X86Flow::kSyscall);
  } else {
    Special();
  }
}

void PtProgramBuilder::Statement(unsigned nesting) {
  if (options_.mix == PtMix::kOrdinary) {
    OrdinaryStatement(nesting);
    return;
  }
  const uint64_t kind = Random(100);
  const bool in_kernel = program_->functions_[function_].region == PtRegion::kKernel;
  if (kind < 25 && nesting > 0) {
    If(nesting);
  } else if (kind < 35 && nesting > 0) {
    Loop(nesting);
  } else if (kind < 43 && nesting > 0) {
    Switch(nesting);
  } else if (kind < 60) {
    Call();
  } else if (kind < 70 && !in_kernel) {
    IndirectCall();
  } else if (kind < 75 && options_.system_calls && !in_kernel) {
    Add(X86Flow::kSyscall);
  } else if (kind < 92 && !in_kernel) {
    Special();
  }
}

void PtProgramBuilder::Body(unsigned nesting) {
  Add(X86Flow::kNext);
  const size_t statements = 1 + Random(options_.statements);
  for (size_t i = 0; i < statements; ++i) Statement(nesting);
}

void PtProgramBuilder::End(Ending ending) {
  if (ending == Ending::kForEver) {
    // Every round sends a packet: how often a loop without any ran cannot be known.
    const uint32_t branch = Add(X86Flow::kConditional);
    Add(X86Flow::kNext);
    blocks()[branch].targets = {next_block()};
    const uint32_t jump = Add(X86Flow::kJump);
    blocks()[jump].targets = {program_->functions_[function_].first_block};
  } else {
    const bool in_program = program_->functions_[function_].region == PtRegion::kProgram;
    const uint32_t callee =
        options_.tail_calls && in_program && Chance(20) ? Callee() : PtBlock::kNone;
    if (callee != PtBlock::kNone && function_ < ordinary_end_) {
      // Targets are functions until every function has its blocks.
      const bool direct = Chance(70);
      const uint32_t jump = Add(direct ? X86Flow::kJump : X86Flow::kIndirectJump);
      blocks()[jump].targets = {direct ? StubOf(callee) : callee};
      blocks()[jump].landing = jump;
    } else {
      Add(X86Flow::kReturn);
    }
  }
  for (const uint32_t call : landings_) {
    blocks()[call].landing = next_block();
    Add(X86Flow::kNext);
    const uint32_t back = Add(X86Flow::kJump);
    blocks()[back].targets = {call + 1};
  }
}

void PtProgramBuilder::AddOrdinary(uint32_t function, Ending ending) {
  constexpr unsigned kNesting = 2;
  Open(function);
  Body(kNesting);
  Body(kNesting);
  End(ending);
  Close();
}

void PtProgramBuilder::AddSpecials() {
  for (const auto& [function, stub] : stubs_) {
    Open(stub);
    const uint32_t jump = Add(X86Flow::kIndirectJump);
    blocks()[jump].targets = {function};
    blocks()[jump].landing = jump;
    Close();
  }
  const auto simple = [this](uint32_t function, X86Flow end, PtAction action) {
    Open(function);
    Add(X86Flow::kNext);
    const uint32_t last = Add(end);
    blocks()[last].action = action;
    Close();
  };
  simple(setjmp_, X86Flow::kReturn, PtAction::kNone);
  simple(longjmp_, X86Flow::kIndirectJump, PtAction::kLongJump);
  simple(throw_, X86Flow::kReturn, PtAction::kThrow);
  simple(switch_stack_, X86Flow::kReturn, PtAction::kSwitchStack);
  Open(compile_);
  Add(X86Flow::kNext);
  const uint32_t publish = Add(X86Flow::kSyscall);
  blocks()[publish].action = PtAction::kCompile;
  Add(X86Flow::kReturn);
  Close();
  Open(program_->restorer_);
  const uint32_t resume = Add(X86Flow::kSyscall);
  blocks()[resume].action = PtAction::kSignalReturn;
  Close();
  for (const uint32_t handler : program_->handlers_) AddOrdinary(handler, Ending::kReturn);
  for (const uint32_t entry : program_->coroutines_) {
    Open(entry);
    Body(1);
    Guarded(PtGuard::kYield, switch_stack_);
    End(Ending::kForEver);
    Close();
  }
}

void PtProgramBuilder::AddJit() {
  for (uint32_t i = jit_first_; i < kernel_first_; ++i) AddOrdinary(i, Ending::kReturn);
}

void PtProgramBuilder::AddKernel() {
  if (!options_.kernel) return;
  for (const uint32_t entry : {program_->system_call_entry_, program_->interrupt_entry_}) {
    Open(entry);
    const uint32_t call = Add(X86Flow::kCall);
    blocks()[call].targets = {entry + 2};
    Add(X86Flow::kSystemReturn);
    Close();
  }
  AddOrdinary(program_->system_call_entry_ + 2, Ending::kReturn);
  AddOrdinary(program_->interrupt_entry_ + 2, Ending::kReturn);
}

void PtProgramBuilder::Build() {
  NameFunctions();
  for (uint32_t i = 0; i < ordinary_end_; ++i) {
    AddOrdinary(i, i == 0 ? Ending::kForEver : Ending::kReturn);
  }
  AddSpecials();
  AddJit();
  AddKernel();
  // Tail calls (marked by a landing pad, which no jump has) lead to first blocks.
  for (uint32_t i = 0; i < next_block(); ++i) {
    PtBlock& block = blocks()[i];
    if (block.landing != i) continue;
    block.landing = PtBlock::kNone;
    for (uint32_t& target : block.targets) target = program_->functions_[target].first_block;
  }
  Assemble();
}

void PtProgramBuilder::AssembleConditional(X86Assembler* code, uint32_t index) {
  const uint32_t target = blocks()[index].targets[0];
  const int64_t distance = int64_t{target} - int64_t{index};
  const X86Assembler::Label label = labels_[target - labels_first_block_];
  const bool is_near = distance < -kShortBlocks || distance > kShortBlocks;
  if (is_near || Chance(20)) {
    code->JumpIf(static_cast<unsigned>(Random(X86Assembler::kConditions)), label,
                 X86Assembler::Reach::kNear);
  } else if (Chance(15)) {
    code->Loop(label);
  } else if (Chance(10)) {
    code->JumpIfCounterZero(label);
  } else {
    code->JumpIf(static_cast<unsigned>(Random(X86Assembler::kConditions)), label,
                 X86Assembler::Reach::kShort);
  }
}

void PtProgramBuilder::AssembleIndirectJump(X86Assembler* code) {
  switch (Random(4)) {
    case 0:
      code->JumpTable(static_cast<uint32_t>(Random(0x7fffffff)));
      break;
    case 1:
      code->JumpMemory(code->here() + Random(0x10000));
      break;
    case 2:
      code->JumpNotrack(static_cast<unsigned>(Random(X86Assembler::kRegisters)));
      break;
    default:
      code->JumpRegister(static_cast<unsigned>(Random(X86Assembler::kRegisters)));
      break;
  }
}

void PtProgramBuilder::AssembleEnd(X86Assembler* code, uint32_t index) {
  const PtBlock& block = blocks()[index];
  switch (block.end) {
    case X86Flow::kNext:
      break;
    case X86Flow::kConditional:
      AssembleConditional(code, index);
      break;
    case X86Flow::kJump: {
      const uint32_t target = block.targets[0];
      const int64_t distance = int64_t{target} - int64_t{index};
      const bool is_short = distance >= -kShortBlocks && distance <= kShortBlocks &&
                            blocks()[target].function == block.function && !Chance(20);
      code->Jump(labels_[target - labels_first_block_],
                 is_short ? X86Assembler::Reach::kShort : X86Assembler::Reach::kNear);
      break;
    }
    case X86Flow::kIndirectJump:
      AssembleIndirectJump(code);
      break;
    case X86Flow::kCall: {
      if (block.targets.empty()) {
        code->CallNext();
        break;
      }
      const PtFunction& callee = program_->functions_[block.targets[0]];
      if (callee.region == program_->functions_[block.function].region &&
          callee.region != PtRegion::kJit) {
        code->Call(labels_[callee.first_block - labels_first_block_]);
      } else {
        code->CallTo(callee.start);
      }
      break;
    }
    case X86Flow::kIndirectCall:
      if (Chance(60)) {
        code->CallRegister(static_cast<unsigned>(Random(X86Assembler::kRegisters)));
      } else {
        code->CallMemory(code->here() + Random(0x10000));
      }
      break;
    case X86Flow::kReturn:
      if (Chance(70)) {
        code->Return();
      } else if (Chance(50)) {
        code->ReturnPrefixed();
      } else {
        code->ReturnPopping(static_cast<uint16_t>(8 * Random(4)));
      }
      break;
    case X86Flow::kSyscall:
      code->Syscall();
      break;
    case X86Flow::kSystemReturn:
      code->SystemReturn(block.function == program_->interrupt_entry_);
      break;
    case X86Flow::kPtWrite:
      code->PtWrite();
      break;
  }
}

void PtProgramBuilder::AssembleBlock(X86Assembler* code, uint32_t index) {
  code->Bind(labels_[index - labels_first_block_]);
  const size_t before = code->instructions().size();
  size_t fillers = Random(kFillersMax + 1);
  if (blocks()[index].end == X86Flow::kNext) fillers = std::max<size_t>(fillers, 1);
  for (size_t i = 0; i < fillers; ++i) {
    if (Chance(30)) {
      code->Nop(1 + Random(X86Assembler::kNopBytesMax));
    } else {
      code->Filler(Random(1000));
    }
  }
  AssembleEnd(code, index);
  blocks()[index].instructions = static_cast<uint32_t>(code->instructions().size() - before);
}

// Functions [first, end) that belong to the assembler's region.
void PtProgramBuilder::AssembleFunctions(X86Assembler* code, uint32_t first, uint32_t end) {
  const PtRegion region = program_->functions_[first].region;
  labels_.clear();
  labels_first_block_ = program_->functions_[first].first_block;
  const PtFunction& last = program_->functions_[end - 1];
  for (uint32_t i = labels_first_block_; i < last.first_block + last.blocks; ++i) {
    labels_.push_back(code->NewLabel());
  }
  size_t instruction = program_->instructions_.size();
  for (uint32_t i = first; i < end; ++i) {
    PtFunction& function = program_->functions_[i];
    if (function.region != region) continue;
    code->PadTo(kFunctionAlignment);
    function.start = code->here();
    for (uint32_t b = function.first_block; b < function.first_block + function.blocks; ++b) {
      AssembleBlock(code, b);
      blocks()[b].first_instruction = static_cast<uint32_t>(instruction);
      instruction += blocks()[b].instructions;
    }
    function.end = code->here();
  }
  code->Finish();
  program_->instructions_.insert(program_->instructions_.end(), code->instructions().begin(),
                                 code->instructions().end());
}

void PtProgramBuilder::Assemble() {
  const auto region = [this](uint32_t first, uint32_t end) {
    const PtRegion where = program_->functions_[first].region;
    X86Assembler code(
        {.base = RegionBase(where, options_.is_64_bit), .is_64_bit = options_.is_64_bit});
    AssembleFunctions(&code, first, end);
    program_->code_.push_back({.region = where,
                               .address = RegionBase(where, options_.is_64_bit),
                               .bytes = code.bytes(),
                               .function = first});
  };
  // Blocks of the library and of stubs stand between those of the program.
  region(0, jit_first_);
  if (options_.library) region(library_first_, ordinary_end_);
  program_->first_jit_code_ = program_->code_.size();
  for (uint32_t i = jit_first_; i < kernel_first_; ++i) {
    const auto slot = static_cast<uint32_t>((i - jit_first_) / options_.jit_versions);
    const uint64_t address = RegionBase(PtRegion::kJit, options_.is_64_bit) + slot * kSlotBytes;
    X86Assembler code({.base = address, .is_64_bit = options_.is_64_bit});
    AssembleFunctions(&code, i, i + 1);
    CHECK(code.bytes().size() <= kSlotBytes);
    program_->code_.push_back(
        {.region = PtRegion::kJit,
         .address = address,
         .bytes = code.bytes(),
         .function = i,
         .slot = slot,
         .version = static_cast<uint32_t>((i - jit_first_) % options_.jit_versions)});
  }
  if (options_.kernel) {
    region(kernel_first_, static_cast<uint32_t>(program_->functions_.size()));
  }
}

}  // namespace ptarmigan
