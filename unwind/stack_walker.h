// StackWalker: from the user registers and the copied part of the stack of one sample to its call chain.
//
//   sample:  registers (pc, sp, fp, ...)     stack bytes [sp, sp + n)
//               |
//   frame 0:  pc exactly where it was interrupted
//   frame i:  a return address; the call lies before it, so tables are asked at pc - 1 -- except behind a signal frame,
//             whose caller was itself interrupted
//
// Per frame: call frame information if there is a row; else what is known without it (PLT stubs, prologues, signal
// trampolines by their code, frame pointers if they lead to executable code). A walk always ends: frames are bounded, and
// the stack pointer must grow from frame to frame.
//
// x86_64, i386 and arm64; user addresses, little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_cursor.h"
#include "model/address.h"
#include "model/arch.h"
#include "model/event.h"
#include "model/stack.h"
#include "unwind/unwind_object.h"

namespace ptarmigan {

// A place in the code of one process.
struct CodeModule {
  UnwindObject* object = nullptr;  // null: code without a file (JIT), or the file cannot be opened
  uint64_t bias = 0;               // VirtAddr = FileVaddr + bias, modulo 2^64
  VirtAddr start;                  // the mapping, for which all of this holds
  VirtAddr end;                    // exclusive
  bool is_vdso = false;
};

// Implemented over the process's AddressSpace at the time of the sample.
class ModuleFinder {
 public:
  virtual ~ModuleFinder() = default;
  // False if `pc` lies in no executable mapping. What *module points to must live until the walk ends.
  virtual bool Find(VirtAddr pc, CodeModule* module) = 0;
};

struct WalkOptions {
  enum class Method : uint8_t {
    kCfi,           // CFI where there is some, else frame pointers
    kFramePointer,  // frame pointers only
  };
  static constexpr size_t kFramesMax = kStackFramesMax;

  Method method = Method::kCfi;
  size_t frames_max = kFramesMax;  // at most kFramesMax
  // arm64: width of user addresses; higher bits of return addresses are pointer authentication or a tag.
  unsigned arm64_address_bits = 48;
};

struct WalkInput {
  const RegisterSet& registers;  // perf's numbering
  Bytes stack;                   // a copy of the stack from the stack pointer upwards
  // The stack ends where the bytes end (the kernel copied fewer than asked for): memory beyond is no part of it.
  bool stack_is_whole = false;
  // The address of stack[0], if it is not the stack pointer.
  std::optional<VirtAddr> stack_start = std::nullopt;
};

struct WalkedFrame {
  VirtAddr pc;
  bool is_return_address = false;
  // The address that stands for the frame in tables of functions and lines.
  VirtAddr lookup() const { return is_return_address ? pc - 1 : pc; }
  bool operator==(const WalkedFrame&) const = default;
};

struct WalkResult {
  StackOrigin origin = StackOrigin::kNone;
  StackEnd end = StackEnd::kNoUserRegisters;
  // Steps from a frame to its caller, by method. `other_steps`: PLT stubs, prologues, trampolines known by their code.
  uint32_t cfi_steps = 0;
  uint32_t frame_pointer_steps = 0;
  uint32_t other_steps = 0;
  uint32_t signal_frames = 0;
};

// Keeps no state between walks but its buffers. Not thread-safe; any number may exist.
class StackWalker {
 public:
  static constexpr size_t kFramesMax = WalkOptions::kFramesMax;
  static constexpr uint32_t kSignalFramesMax = 64;

  explicit StackWalker(Arch arch, const WalkOptions& options = {});

  // Whether Walk can do more than the first frame.
  static bool Supports(Arch arch);

  // Replaces *frames by the chain, leaf first. The first frame is there whenever the registers hold a pc.
  WalkResult Walk(const WalkInput& input, ModuleFinder& finder, std::vector<WalkedFrame>* frames);

  // arm64: the caller of a leaf function whose frame is not on the stack, for samples that carry the link register but
  // no stack: `lr` (stripped) if CFI says that the return address at `pc` is still in it; else nothing.
  std::optional<VirtAddr> LeafCaller(VirtAddr pc, uint64_t lr, ModuleFinder& finder) const;

 private:
  Arch arch_;
  WalkOptions options_;
};

}  // namespace ptarmigan
