// CodeRun: does code run straight on from one address to a branch at another? Answers by decoding lengths, which tells
// how many instructions there are and whether something between them leaves for good.
#pragma once

#include <cstdint>

#include "base/byte_cursor.h"
#include "decode/instruction.h"
#include "model/arch.h"

namespace ptarmigan {

struct CodeRun {
  enum class Verdict : uint8_t {
    kStraight,
    kLeaves,      // a jump, call or return that is always taken stands before the end
    kMisaligned,  // no instruction begins at the end
    kUnknown,     // the architecture is not decoded here, or bytes are missing or are no code
  };
  Verdict verdict = Verdict::kUnknown;
  uint32_t instructions = 0;  // kStraight: with the one at the end
};

// `code` begins at the run's start and should reach kInstructionBytesMax beyond `length_bytes`, the distance from the
// start of the run to the start of its last instruction. Cannot fail.
CodeRun WalkCodeRun(Arch arch, Bytes code, uint64_t length_bytes);

// Whether the instruction that `code` begins with returns from a function. False where it cannot be decoded.
bool IsReturnInstruction(Arch arch, Bytes code);

}  // namespace ptarmigan
