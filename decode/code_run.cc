#include "decode/code_run.h"

#include <Zydis/Zydis.h>

#include <bit>
#include <cstring>

namespace ptarmigan {
namespace {

constexpr uint64_t kArm64InstructionBytes = 4;

struct Instruction {
  uint64_t size_bytes = 0;  // 0: not decoded
  bool leaves = false;      // control never goes on to the next instruction
  bool is_return = false;
};

class X86Decoder {
 public:
  explicit X86Decoder(Arch arch) {
    const bool is_64_bit = arch == Arch::kX86_64;
    ZydisDecoderInit(&decoder_,
                     is_64_bit ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
                     is_64_bit ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
    ZydisDecoderEnableMode(&decoder_, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
  }

  Instruction Decode(Bytes code) const {
    ZydisDecodedInstruction decoded;
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeInstruction(&decoder_, nullptr, code.data(), code.size(), &decoded)))
      return {};
    Instruction instruction{.size_bytes = decoded.length};
    // In minimal mode there are no mnemonics: opcodes are looked at (Intel SDM volume 2, appendix A).
    if (decoded.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) return instruction;
    if (decoded.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) {
      ClassifyOneByte(decoded, &instruction);
    } else if (decoded.opcode_map == ZYDIS_OPCODE_MAP_0F) {
      // SYSRET, SYSEXIT
      instruction.leaves = decoded.opcode == 0x07 || decoded.opcode == 0x35;
    }
    return instruction;
  }

 private:
  static void ClassifyOneByte(const ZydisDecodedInstruction& decoded, Instruction* instruction) {
    switch (decoded.opcode) {
      case 0xc2:  // RET imm16, RET, RETF imm16, RETF
      case 0xc3:
      case 0xca:
      case 0xcb:
        instruction->is_return = true;
        [[fallthrough]];
      case 0xcf:  // IRET
      case 0xe8:  // CALL rel
      case 0x9a:  // CALL far
      case 0xe9:  // JMP rel32, far, rel8
      case 0xea:
      case 0xeb:
        instruction->leaves = true;
        return;
      case 0xff: {
        // Group 5: CALL, CALL far, JMP, JMP far
        const uint8_t operation = decoded.raw.modrm.reg;
        instruction->leaves = operation >= 2 && operation <= 5;
        return;
      }
      default:
        return;
    }
  }

  ZydisDecoder decoder_;
};

// Arm ARM (DDI 0487) C4.1: B, BL; unconditional branch (register): BR, BLR, RET, ERET, DRPS and their PAC forms.
Instruction DecodeArm64(Bytes code) {
  if (code.size() < kArm64InstructionBytes) return {};
  uint32_t word = 0;
  std::memcpy(&word, code.data(), sizeof(word));
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap32(word);
  constexpr uint32_t kRegisterBranch = 0xd6000000;
  const bool immediate = (word & 0x7c000000) == 0x14000000;
  const bool by_register = (word & 0xfe000000) == kRegisterBranch;
  const bool is_return = by_register && (word >> 21 & 0xf) == 2;  // RET, RETAA, RETAB
  return {.size_bytes = kArm64InstructionBytes,
          .leaves = immediate || by_register,
          .is_return = is_return};
}

template <typename Decode>
CodeRun Walk(Bytes code, uint64_t length_bytes, Decode decode) {
  CodeRun run;
  uint64_t at = 0;
  for (;;) {
    const Instruction instruction = decode(code.subspan(static_cast<size_t>(at)));
    if (instruction.size_bytes == 0) return {};
    ++run.instructions;
    if (at == length_bytes) break;
    if (instruction.leaves) return {.verdict = CodeRun::Verdict::kLeaves};
    at += instruction.size_bytes;
    if (at > length_bytes) return {.verdict = CodeRun::Verdict::kMisaligned};
  }
  run.verdict = CodeRun::Verdict::kStraight;
  return run;
}

bool IsX86(Arch arch) { return arch == Arch::kX86_64 || arch == Arch::kX86; }

}  // namespace

CodeRun WalkCodeRun(Arch arch, Bytes code, uint64_t length_bytes) {
  if (length_bytes >= code.size()) return {};
  if (IsX86(arch)) {
    const X86Decoder decoder(arch);
    return Walk(code, length_bytes, [&](Bytes rest) { return decoder.Decode(rest); });
  }
  if (arch == Arch::kArm64) return Walk(code, length_bytes, DecodeArm64);
  return {};
}

bool IsReturnInstruction(Arch arch, Bytes code) {
  if (IsX86(arch)) return X86Decoder(arch).Decode(code).is_return;
  return arch == Arch::kArm64 && DecodeArm64(code).is_return;
}

}  // namespace ptarmigan
