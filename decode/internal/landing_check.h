// LandingCheck: whether code that compilers and linkers make would ever go to where a trace says that an indirect branch,
// a return or a resumption went. A wrong bit in an address leads there more often than not, and a decoder that finds code
// there decodes on without an error.
//
//   returns          behind a call; to a function's first instruction (retpolines, contexts just made); to a landing pad
//                    of exceptions, which control never falls into; to the stub that returns from a signal
//   indirect calls   to where functions begin
//   indirect jumps   the same, or behind a call (longjmp, switches of stacks), or to an instruction of their own function
//
// What is not known (no symbols) is not held against it. x86 only. One per worker; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/byte_cursor.h"
#include "decode/instruction.h"
#include "decode/instruction_bytes.h"
#include "model/code_image.h"
#include "model/control_flow.h"

namespace ptarmigan::internal {

class LandingCheck {
 public:
  LandingCheck();

  struct Code {
    const CodeImage* image = nullptr;  // not null
    size_t epoch = 0;
  };
  // What speaks against control having gone from the end of one block to the start of another: bits of
  // FlowChecks::Reason, 0 if nothing does. Both are of `code`, and `to` has instructions.
  uint32_t ReasonsAgainst(const Code& code, const CodeBlock& from, const CodeBlock& to);
  // The same for going on at `address` where tracing had stopped before `expected`.
  uint32_t ReasonsAgainstResuming(const Code& code, uint64_t address, uint64_t expected,
                                  bool is_64_bit);

 private:
  // Of one function: which of its bytes begin an instruction, by a walk from its first one.
  struct Starts {
    std::vector<bool> begins;
    uint64_t walked = 0;  // bytes from its start; behind them nothing is known
  };
  struct Key {
    const CodeImage* image;
    uint64_t epoch;
    uint64_t start;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Place {
    Code code;
    uint64_t address = 0;
    bool is_64_bit = true;
    bool knows_function = false;
    uint64_t function = 0;
  };

  static Bytes CodeOf(const Place& place, uint64_t address, InstructionBuffer* buffer) {
    return InstructionBytesAt(*place.code.image, {address}, place.code.epoch, buffer);
  }
  static Place PlaceOf(const Code& code, const CodeBlock& block) {
    return {.code = code,
            .address = block.start.value,
            .is_64_bit = block.is_64_bit,
            .knows_function = block.knows_function,
            .function = block.function.value};
  }
  const InstructionDecoder& DecoderOf(const Place& place) const {
    return place.is_64_bit ? decoder_64_ : decoder_32_;
  }
  bool IsFunctionStart(const Place& place) const {
    return place.knows_function && place.address == place.function;
  }
  // Where symbols do not tell: whether it looks like the start of a function.
  bool MayBeFunctionStart(const Place& place) const;
  bool IsInstruction(const Place& place);
  bool IsBehindCall(const Place& place) const;
  // Control does not fall into it from the instruction before.
  bool IsBehindBarrier(const Place& place);
  bool IsSignalReturn(const Place& place, const CodeBlock& to) const;
  // JMP *slot(%rip); in 32-bit code, by the slot's address.
  static bool IsJumpBySlot(const Code& code, const CodeBlock& from);
  uint32_t AgainstReturn(const Place& place, const CodeBlock& to);
  uint32_t AgainstCall(const Place& place);
  uint32_t AgainstJump(const Place& place, const CodeBlock& from);
  const Starts& StartsOf(const Place& place);
  bool IsBarrier(const Place& place, uint64_t address, uint64_t size) const;

  InstructionDecoder decoder_64_;
  InstructionDecoder decoder_32_;
  std::unordered_map<Key, Starts, KeyHash> starts_;
  size_t starts_bits_ = 0;
};

}  // namespace ptarmigan::internal
