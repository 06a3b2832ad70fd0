#include "decode/instruction.h"

#include <Zydis/Zydis.h>

#include <bit>
#include <cstring>

namespace ptarmigan {
namespace {

using Kind = Instruction::Kind;

constexpr uint64_t kArm64InstructionBytes = 4;

// Intel SDM volume 2, appendix A, one-byte opcodes.
Kind KindOfOneByte(const ZydisDecodedInstruction& decoded) {
  const uint8_t opcode = decoded.opcode;
  if ((opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xe0 && opcode <= 0xe3)) {
    return Kind::kConditionalJump;  // Jcc rel8; LOOPcc, JCXZ
  }
  switch (opcode) {
    case 0xc2:  // RET imm16, RET, RETF imm16, RETF
    case 0xc3:
    case 0xca:
    case 0xcb:
      return Kind::kReturn;
    case 0xcf:  // IRET
      return Kind::kSystemReturn;
    case 0xe8:  // CALL rel
      return Kind::kCall;
    case 0x9a:  // CALL far
      return Kind::kIndirectCall;
    case 0xe9:  // JMP rel32, rel8
    case 0xeb:
      return Kind::kJump;
    case 0xea:  // JMP far
      return Kind::kIndirectJump;
    case 0xff: {
      // Group 5: CALL, CALL far, JMP, JMP far
      const uint8_t operation = decoded.raw.modrm.reg;
      if (operation == 2 || operation == 3) return Kind::kIndirectCall;
      return operation == 4 || operation == 5 ? Kind::kIndirectJump : Kind::kNoTransfer;
    }
    default:
      return Kind::kNoTransfer;
  }
}

Kind KindOf(const ZydisDecodedInstruction& decoded) {
  // In minimal mode there are no mnemonics: opcodes are looked at.
  if (decoded.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) return Kind::kNoTransfer;
  if (decoded.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) return KindOfOneByte(decoded);
  if (decoded.opcode_map != ZYDIS_OPCODE_MAP_0F) return Kind::kNoTransfer;
  if (decoded.opcode >= 0x80 && decoded.opcode <= 0x8f) return Kind::kConditionalJump;
  // SYSRET, SYSEXIT
  return decoded.opcode == 0x07 || decoded.opcode == 0x35 ? Kind::kSystemReturn : Kind::kNoTransfer;
}

bool IsDirect(Kind kind) {
  return kind == Kind::kConditionalJump || kind == Kind::kJump || kind == Kind::kCall;
}

int64_t SignExtended(uint32_t value, unsigned bits) {
  return static_cast<int64_t>(uint64_t{value} << (64 - bits)) >> (64 - bits);
}

// Arm ARM (DDI 0487) C4.1: branches.
Instruction DecodeArm64(Bytes code) {
  if (code.size() < kArm64InstructionBytes) return {};
  uint32_t word = 0;
  std::memcpy(&word, code.data(), sizeof(word));
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap32(word);
  Instruction instruction{.size_bytes = kArm64InstructionBytes};
  const auto direct = [&](Kind kind, uint32_t offset, unsigned bits) {
    instruction.kind = kind;
    instruction.displacement = SignExtended(offset, bits) * 4;
  };
  if ((word & 0x7c000000) == 0x14000000) {  // B, BL
    direct((word >> 31) != 0 ? Kind::kCall : Kind::kJump, word & 0x3ffffff, 26);
  } else if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) {
    direct(Kind::kConditionalJump, word >> 5 & 0x7ffff, 19);  // B.cond, BC.cond; CBZ, CBNZ
  } else if ((word & 0x7e000000) == 0x36000000) {
    direct(Kind::kConditionalJump, word >> 5 & 0x3fff, 14);  // TBZ, TBNZ
  } else if ((word & 0xfe000000) == 0xd6000000) {
    // BR, BLR, RET, -, ERET, DRPS; with bit 24 the forms with pointer authentication and modifier.
    switch (word >> 21 & 0x7) {
      case 1:
        instruction.kind = Kind::kIndirectCall;
        break;
      case 2:
        instruction.kind = Kind::kReturn;
        break;
      case 4:
      case 5:
        instruction.kind = Kind::kSystemReturn;
        break;
      default:
        instruction.kind = Kind::kIndirectJump;
    }
  }
  return instruction;
}

}  // namespace

struct InstructionDecoder::X86 {
  explicit X86(bool is_64_bit) {
    ZydisDecoderInit(&decoder,
                     is_64_bit ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
                     is_64_bit ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
    ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
  }

  Instruction Decode(Bytes code) const {
    ZydisDecodedInstruction decoded;
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeInstruction(&decoder, nullptr, code.data(), code.size(), &decoded)))
      return {};
    Instruction instruction{.size_bytes = decoded.length, .kind = KindOf(decoded)};
    if (IsDirect(instruction.kind)) {
      instruction.displacement = decoded.raw.imm[0].value.s + int64_t{decoded.length};
    }
    return instruction;
  }

  ZydisDecoder decoder;
};

InstructionDecoder::InstructionDecoder(Arch arch) : arch_(arch) {
  if (arch == Arch::kX86_64 || arch == Arch::kX86) {
    x86_ = std::make_unique<X86>(arch == Arch::kX86_64);
  }
}
InstructionDecoder::~InstructionDecoder() = default;
InstructionDecoder::InstructionDecoder(InstructionDecoder&&) noexcept = default;
InstructionDecoder& InstructionDecoder::operator=(InstructionDecoder&&) noexcept = default;

Instruction InstructionDecoder::Decode(Bytes code) const {
  if (x86_ != nullptr) return x86_->Decode(code);
  return arch_ == Arch::kArm64 ? DecodeArm64(code) : Instruction();
}

}  // namespace ptarmigan
