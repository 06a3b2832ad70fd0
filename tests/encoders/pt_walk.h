// PtWalk: one run through a PtProgram, instruction by instruction: where it went, when, on which thread, and with which
// stack. This is the truth that traces are made from (pt_trace.h) and compared with.
//
// Stacks are physical: the functions that hold the call of each live return address, then the present function. So a tail
// call replaces its caller, a PLT stub shows while it runs, below a signal handler stand the function that the handler
// returns to (restore_rt) and the interrupted one, a coroutine begins at its entry function. CALL to the next instruction
// is no call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/encoders/pt_program.h"

namespace ptarmigan {

struct PtWalkOptions {
  uint64_t seed = 1;
  size_t steps = 2000;          // instructions of all threads, about
  size_t threads = 1;           // take turns; more than one only without kernel
  unsigned cpus = 1;            // a thread's turn is on any of them
  size_t turn_steps = 400;      // about
  size_t signals_apart = 0;     // about so many steps between signals; 0: none
  size_t interrupts_apart = 0;  // as signals
  uint64_t start_tsc = 0x123456789ab;
};

// One executed instruction.
struct PtStep {
  enum Flags : uint8_t {
    kTaken = 1,  // a conditional branch that was
    kBreakAfter =
        2,  // user code stops behind it: system call, signal, interrupt, end of the turn or of the walk
    kKernel = 4,       // executed in the kernel
    kInterrupt = 8,    // with kBreakAfter: by an interrupt that returns to the same place
    kUnwinds = 16,     // leaves frames: longjmp, exception
    kStackSwitch = 32  // goes on with another stack
  };
  uint64_t tsc = 0;   // before it
  uint64_t next = 0;  // where it leads by itself; after a system call: where user code goes on
  uint32_t instruction = 0;
  uint32_t path = 0;
  uint16_t thread = 0;
  uint8_t cpu = 0;
  uint8_t flags = 0;

  bool Is(Flags flag) const { return (flags & flag) != 0; }
};

// A node of the tree of stacks: `function` called by the functions of `parent`.
struct PtPath {
  uint32_t parent = 0;
  uint32_t function = 0;
  // Where control comes back to in it (below a signal handler or the kernel: goes on); 0: it is the running one.
  uint64_t return_address = 0;
  bool operator==(const PtPath&) const = default;
};

struct PtCall {
  enum class Kind : uint8_t { kCall, kIndirectCall, kSignal };
  enum class Exit : uint8_t { kOpen, kReturn, kUnwind };
  uint32_t call_step = 0;   // of a signal: the last one before it
  uint32_t entry_step = 0;  // first one of the callee
  uint32_t exit_step = 0;   // first one after it; of kOpen: 0
  uint32_t function = 0;    // called
  Kind kind = Kind::kCall;
  Exit exit = Exit::kOpen;
};

// From this step on a JIT slot has this version.
struct PtCodeChange {
  uint32_t step = 0;
  uint32_t slot = 0;
  uint32_t version = 0;
};

class PtWalk {
 public:
  static constexpr uint32_t kRootPath = 0;

  // Keeps a reference to `program`.
  PtWalk(const PtProgram& program, const PtWalkOptions& options);

  const PtProgram& program() const { return program_; }
  const PtWalkOptions& options() const { return options_; }
  const std::vector<PtStep>& steps() const { return steps_; }
  const std::vector<PtPath>& paths() const { return paths_; }
  const std::vector<PtCall>& calls() const { return calls_; }
  // Beside version 0 at the start.
  const std::vector<PtCodeChange>& code_changes() const { return code_changes_; }
  size_t threads() const { return options_.threads; }

  const X86Instruction& InstructionOf(const PtStep& step) const {
    return program_.instructions()[step.instruction];
  }
  uint64_t AddressOf(const PtStep& step) const { return InstructionOf(step).address; }
  // Steps of a thread, or of a CPU, in order.
  std::vector<uint32_t> StepsOfThread(unsigned thread) const;
  std::vector<uint32_t> StepsOfCpu(unsigned cpu) const;
  // "main;f3;lib0"
  std::string Folded(uint32_t path) const;
  // Live return addresses, innermost first.
  std::vector<uint64_t> ReturnAddresses(uint32_t path) const;
  // The code at an address as it was at a step; empty where there is none.
  std::string_view CodeAt(uint64_t address, uint32_t step) const;

 private:
  friend class PtInterpreter;

  const PtProgram& program_;
  PtWalkOptions options_;
  std::vector<PtStep> steps_;
  std::vector<PtPath> paths_;
  std::vector<PtCall> calls_;
  std::vector<PtCodeChange> code_changes_;
};

}  // namespace ptarmigan
