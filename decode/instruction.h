// Instruction: one machine instruction as control flow sees it: how long it is and where it leads. For x86 (32 and 64
// bits) and AArch64; other architectures decode to nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/byte_cursor.h"
#include "model/arch.h"

namespace ptarmigan {

// Longest instruction of any architecture here.
constexpr uint64_t kInstructionBytesMax = 15;

struct Instruction {
  enum class Kind : uint8_t {
    kNoTransfer,  // also system calls and traps, which come back behind themselves
    kConditionalJump,
    kJump,
    kIndirectJump,
    kCall,
    kIndirectCall,
    kReturn,
    kSystemReturn,  // IRET, SYSRET, SYSEXIT, ERET
  };
  uint64_t size_bytes = 0;  // 0: not decoded
  Kind kind = Kind::kNoTransfer;
  // Of direct jumps and calls: target - address of the instruction.
  std::optional<int64_t> displacement = std::nullopt;

  // Control never goes on to the next instruction (from a call it does, later).
  bool leaves() const { return kind != Kind::kNoTransfer && kind != Kind::kConditionalJump; }
  bool is_call() const { return kind == Kind::kCall || kind == Kind::kIndirectCall; }
};

// Any thread.
class InstructionDecoder {
 public:
  explicit InstructionDecoder(Arch arch);
  ~InstructionDecoder();
  InstructionDecoder(InstructionDecoder&&) noexcept;
  InstructionDecoder& operator=(InstructionDecoder&&) noexcept;

  // The instruction that `code` begins with.
  Instruction Decode(Bytes code) const;

 private:
  struct X86;
  Arch arch_;
  std::unique_ptr<X86> x86_;  // null for other architectures
};

}  // namespace ptarmigan
