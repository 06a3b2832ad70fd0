#include "decode/internal/pt_fast_code.h"

namespace ptarmigan::internal {
namespace {

using Kind = PtFastBlock::Kind;

// Straight-line code that is longer is left to libipt.
constexpr uint32_t kInstructionsMax = 4096;

// Behind legacy prefixes and REX (Intel SDM volume 2, section 2.1).
Bytes WithoutPrefixes(Bytes code, bool is_64_bit) {
  const auto is_prefix = [&](uint8_t byte) {
    switch (byte) {
      case 0x26:
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x64:
      case 0x65:
      case 0x66:
      case 0x67:
      case 0xf0:
      case 0xf2:
      case 0xf3:
        return true;
      default:
        return is_64_bit && (byte & 0xf0) == 0x40;
    }
  };
  while (!code.empty() && is_prefix(std::to_integer<uint8_t>(code[0]))) code = code.subspan(1);
  return code;
}

struct Ending {
  bool ends = false;
  Kind kind = Kind::kOdd;
};

// Instructions that Instruction calls no transfer, but behind which a trace goes on elsewhere or tells more. (Those behind
// which it tells more only by packets that are odd themselves are none: PTWRITE, VMPTRLD.)
Ending EndingOfOther(Bytes opcode) {
  const auto byte = [&](size_t at) {
    return at < opcode.size() ? std::to_integer<uint8_t>(opcode[at]) : uint8_t{0};
  };
  switch (byte(0)) {
    case 0xcc:  // INT3, INT, INTO, INT1
    case 0xcd:
    case 0xce:
    case 0xf1:
      return {true, Kind::kFar};
    case 0x8f:  // AMD's XOP
      return {(byte(1) >> 3 & 7) != 0, Kind::kOdd};
    case 0x0f:
      break;
    default:
      return {};
  }
  switch (byte(1)) {
    case 0x05:  // SYSCALL, SYSENTER
    case 0x34:
      return {true, Kind::kFar};
    case 0x01:  // VMCALL, VMLAUNCH, VMRESUME, UIRET
      if ((byte(2) >= 0xc1 && byte(2) <= 0xc3) || byte(2) == 0xec) return {true, Kind::kOdd};
      return {};
    case 0xa6:  // VIA's PadLock
    case 0xa7:
    case 0xb9:  // UD1, UD0: never run, and decoders disagree on their size
    case 0xff:
      return {true, Kind::kOdd};
    case 0x22:  // MOV to CR3: packets bind to it
      return {(byte(2) >> 3 & 7) == 3, Kind::kOdd};
    default:
      return {};
  }
}

Ending EndingOf(const Instruction& instruction, Bytes code, bool is_64_bit) {
  const Bytes opcode =
      WithoutPrefixes(code.first(static_cast<size_t>(instruction.size_bytes)), is_64_bit);
  const uint8_t first = opcode.empty() ? uint8_t{0} : std::to_integer<uint8_t>(opcode[0]);
  switch (instruction.kind) {
    case Instruction::Kind::kNoTransfer:
      return EndingOfOther(opcode);
    case Instruction::Kind::kConditionalJump:
      return {true, Kind::kConditional};
    case Instruction::Kind::kJump:
      return {true, Kind::kJump};
    case Instruction::Kind::kCall:
      return {true, Kind::kCall};
    case Instruction::Kind::kReturn:
      // RETF
      return {true, first == 0xca || first == 0xcb ? Kind::kFar : Kind::kReturn};
    case Instruction::Kind::kSystemReturn:
      return {true, Kind::kFar};
    case Instruction::Kind::kIndirectCall:
    case Instruction::Kind::kIndirectJump:
      break;
  }
  // Far ones, by immediate or by memory.
  const bool is_far =
      first != 0xff || (opcode.size() > 1 && (std::to_integer<uint8_t>(opcode[1]) >> 3 & 1) != 0);
  if (is_far) return {true, Kind::kFar};
  return {true, instruction.is_call() ? Kind::kIndirectCall : Kind::kIndirect};
}

}  // namespace

PtFastCode::PtFastCode() { blocks_.emplace_back(); }

void PtFastCode::Decode(const FlowRecorder& recorder, uint64_t address, bool is_64_bit) {
  PtFastBlock& block = blocks_.emplace_back();
  block.start = block.end = address;
  block.space = recorder.space();
  block.is_64_bit = is_64_bit;
  InstructionBuffer buffer;
  while (block.instructions < kInstructionsMax) {
    const Bytes code = recorder.CodeAt(block.end, &buffer);
    const Instruction instruction = recorder.Decode(code, is_64_bit);
    if (instruction.size_bytes == 0) return;
    const Ending ending = EndingOf(instruction, code, is_64_bit);
    if (ending.ends && ending.kind == Kind::kOdd) return;
    const uint64_t at = block.end;
    block.end += instruction.size_bytes;
    block.last_bytes = static_cast<uint8_t>(instruction.size_bytes);
    ++block.instructions;
    if (!ending.ends) continue;
    block.kind = ending.kind;
    if (instruction.displacement) {
      block.target[0] = block.end;
      block.target[1] = at + static_cast<uint64_t>(*instruction.displacement);
      // A call of the next instruction only asks for the program counter.
      if (block.kind == Kind::kCall && block.target[1] == block.end) block.kind = Kind::kJump;
    }
    return;
  }
}

}  // namespace ptarmigan::internal
