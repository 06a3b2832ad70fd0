// PtProgram: a random program as machine code, made to be hard for decoders of control-flow traces: functions with
// branches, loops, jump tables, direct and indirect calls, deep recursion, tail calls, PLT stubs into a library,
// setjmp/longjmp, exceptions, signal handlers, coroutines, code that a JIT replaces at the same address, and kernel
// entries. Nothing executes it: pt_walk.h walks through its blocks and decides what no trace can know beforehand.
//
//   functions   │ main f1 f2 … │ library functions │ f9@plt … │ setjmp longjmp throw … │ jit0_v0 jit0_v1 … │ kernel
//   regions     │   program    │      library      │        program (stubs)            │        JIT        │ kernel
//
// Equal options give equal programs. Values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/encoders/x86_assembler.h"

namespace ptarmigan {

// What functions are made of.
enum class PtMix : uint8_t {
  kEverything,  // what is hard to decode as often as what is easy
  // As compiled programs have it: few jump tables, biased branches, and hardly an arm of a branch without calls or
  // further branches in it.
  kOrdinary,
};

struct PtProgramOptions {
  uint64_t seed = 1;
  PtMix mix = PtMix::kEverything;
  size_t functions = 12;  // of the program; a third as many in the library
  size_t statements = 4;  // of a function, about
  bool is_64_bit = true;
  bool system_calls = true;
  bool library = true;    // calls into a second object through PLT stubs
  bool recursion = true;  // up to 130 frames
  bool tail_calls = true;
  bool long_jumps = true;
  bool exceptions = true;
  bool coroutines = true;   // stack switches
  size_t jit_slots = 2;     // addresses where code is replaced
  size_t jit_versions = 4;  // of each
  bool kernel = false;      // functions behind system calls and interrupts; 64-bit only
};

enum class PtRegion : uint8_t { kProgram, kLibrary, kJit, kKernel };
constexpr size_t kPtRegions = 4;

struct PtFunction {
  std::string name;
  PtRegion region = PtRegion::kProgram;
  uint32_t first_block = 0;
  uint32_t blocks = 0;
  uint64_t start = 0;
  uint64_t end = 0;
};

// What decides a conditional branch.
enum class PtGuard : uint8_t {
  kRandom,
  kLoop,  // taken until the loop's count is used up
  // Not taken (so that the call behind it happens) only where the call makes sense:
  kRecursion,  // the stack is not too deep
  kLongJump,   // a setjmp is live
  kThrow,      // a caller has a landing pad
  kYield,      // sometimes
  kCompile,    // a slot's code is not in use and has a next version
};

// What a block's last instruction does beside its own kind.
enum class PtAction : uint8_t {
  kNone,
  kSetJump,       // the call registers where longjmp may return to
  kLongJump,      // the jump leaves frames
  kThrow,         // the return goes to a landing pad
  kSwitchStack,   // the return is from another stack
  kCompile,       // the system call publishes a slot's next version
  kCallJit,       // the call goes to a slot's present version
  kSignalReturn,  // the system call resumes what a signal interrupted
};

struct PtBlock {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t function = 0;
  uint32_t first_instruction = 0;
  uint32_t instructions = 0;  // at least 1
  X86Flow end = X86Flow::kNext;
  PtGuard guard = PtGuard::kRandom;
  PtAction action = PtAction::kNone;
  uint8_t bias_percent = 50;      // kRandom: how often the branch is taken
  uint8_t slot = 0;               // kLoop: of kPtLoopsMax; kCallJit: the JIT's
  uint32_t landing = kNone;       // of calls: block that exceptions from below continue at
  std::vector<uint32_t> targets;  // of jumps: blocks; of calls: functions
};
// Loops of one function that count.
constexpr size_t kPtLoopsMax = 3;

// Bytes at an address. JIT slots have one for each version; all begin at the slot's address.
struct PtCode {
  PtRegion region = PtRegion::kProgram;
  uint64_t address = 0;
  std::string bytes;
  uint32_t function = 0;  // the first one in it
  uint32_t slot = 0;
  uint32_t version = 0;

  uint64_t end() const { return address + bytes.size(); }
};

class PtProgram {
 public:
  static constexpr uint64_t kTextOffset =
      0x1000;  // in the ELF files: offset and vaddr - 0x1000 of .text

  explicit PtProgram(const PtProgramOptions& options);

  const PtProgramOptions& options() const { return options_; }
  const std::vector<PtFunction>& functions() const { return functions_; }
  const std::vector<PtBlock>& blocks() const { return blocks_; }
  const std::vector<X86Instruction>& instructions() const { return instructions_; }
  const std::vector<PtCode>& code() const { return code_; }
  bool Has(PtRegion region) const;
  // Of a region that is not the JIT's.
  const PtCode& CodeOf(PtRegion region) const;
  // Version of a JIT slot: index into code().
  size_t JitCode(size_t slot, size_t version) const {
    return first_jit_code_ + slot * options_.jit_versions + version;
  }

  // Functions with a part in the walk.
  uint32_t main() const { return 0; }
  uint32_t restorer() const { return restorer_; }
  const std::vector<uint32_t>& handlers() const { return handlers_; }
  const std::vector<uint32_t>& coroutines() const { return coroutines_; }
  uint32_t system_call_entry() const { return system_call_entry_; }
  uint32_t interrupt_entry() const { return interrupt_entry_; }

  // The program's or library's file, with symbols (and their sizes) and a build id; vaddr 0 is at LoadBias. Of the
  // kernel: a file whose vaddrs are run-time addresses.
  std::string Elf(PtRegion region) const;
  std::string BuildId(PtRegion region) const;
  uint64_t LoadBias(PtRegion region) const;

 private:
  friend class PtProgramBuilder;

  PtProgramOptions options_;
  std::vector<PtFunction> functions_;
  std::vector<PtBlock> blocks_;
  std::vector<X86Instruction> instructions_;
  std::vector<PtCode> code_;
  size_t first_jit_code_ = 0;
  uint32_t restorer_ = 0;
  std::vector<uint32_t> handlers_;
  std::vector<uint32_t> coroutines_;
  uint32_t system_call_entry_ = 0;
  uint32_t interrupt_entry_ = 0;
};

}  // namespace ptarmigan
