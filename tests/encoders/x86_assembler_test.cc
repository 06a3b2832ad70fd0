// Zydis reads what the assembler writes as the instructions that it says it wrote.
#include "tests/encoders/x86_assembler.h"

#include <Zydis/Zydis.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/encoders/pt_program.h"

namespace ptarmigan {
namespace {

X86Flow FlowOf(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  const bool direct = operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
  switch (instruction.meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
      return X86Flow::kConditional;
    case ZYDIS_CATEGORY_UNCOND_BR:
      return direct ? X86Flow::kJump : X86Flow::kIndirectJump;
    case ZYDIS_CATEGORY_CALL:
      return direct ? X86Flow::kCall : X86Flow::kIndirectCall;
    case ZYDIS_CATEGORY_RET:
      return instruction.mnemonic == ZYDIS_MNEMONIC_IRETQ ? X86Flow::kSystemReturn
                                                          : X86Flow::kReturn;
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_INTERRUPT:
      return X86Flow::kSyscall;
    case ZYDIS_CATEGORY_SYSRET:
      return X86Flow::kSystemReturn;
    default:
      return instruction.mnemonic == ZYDIS_MNEMONIC_PTWRITE ? X86Flow::kPtWrite : X86Flow::kNext;
  }
}

void ExpectAsZydis(const X86Instruction& instruction, std::string_view code, bool is_64_bit) {
  ZydisDecoder decoder;
  ASSERT_TRUE(ZYAN_SUCCESS(ZydisDecoderInit(
      &decoder, is_64_bit ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
      is_64_bit ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32)));
  ZydisDecodedInstruction decoded;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
  ASSERT_TRUE(ZYAN_SUCCESS(
      ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &decoded, operands.data())))
      << std::hex << instruction.address;
  EXPECT_EQ(decoded.length, instruction.size_bytes) << std::hex << instruction.address;
  EXPECT_EQ(FlowOf(decoded, operands.data()), instruction.flow) << std::hex << instruction.address;
  if (instruction.target == 0) return;
  ZyanU64 target = 0;
  ASSERT_TRUE(ZYAN_SUCCESS(
      ZydisCalcAbsoluteAddress(&decoded, operands.data(), instruction.address, &target)));
  EXPECT_EQ(target, instruction.target) << std::hex << instruction.address;
}

TEST(X86Assembler, WritesEveryFormAsZydisReadsIt) {
  for (const bool is_64_bit : {true, false}) {
    X86Assembler code({.base = 0x401000, .is_64_bit = is_64_bit});
    const X86Assembler::Label start = code.NewLabel();
    const X86Assembler::Label end = code.NewLabel();
    code.Bind(start);
    for (size_t size = 1; size <= X86Assembler::kNopBytesMax; ++size) code.Nop(size);
    for (unsigned condition = 0; condition < X86Assembler::kConditions; ++condition) {
      code.JumpIf(condition, start, X86Assembler::Reach::kShort);
    }
    code.Loop(start);
    code.JumpIfCounterZero(start);
    code.Jump(start, X86Assembler::Reach::kShort);
    for (uint64_t choice = 0; choice < 64; ++choice) code.Filler(choice);
    for (unsigned condition = 0; condition < X86Assembler::kConditions; ++condition) {
      code.JumpIf(condition, end, X86Assembler::Reach::kNear);
    }
    code.Jump(end, X86Assembler::Reach::kNear);
    code.Call(start);
    code.JumpTo(0x500000);
    code.CallTo(0x300000);
    code.CallNext();
    for (unsigned reg = 0; reg < X86Assembler::kRegisters; ++reg) {
      code.JumpRegister(reg);
      code.JumpNotrack(reg);
      code.CallRegister(reg);
    }
    code.JumpTable(0x412345);
    code.JumpMemory(0x404000);
    code.CallMemory(0x404008);
    code.Return();
    code.ReturnPopping(24);
    code.ReturnPrefixed();
    code.Syscall();
    code.PtWrite();
    if (is_64_bit) {
      code.SystemReturn(true);
      code.SystemReturn(false);
    }
    code.Bind(end);
    code.Return();
    code.Finish();
    for (const X86Instruction& instruction : code.instructions()) {
      ExpectAsZydis(instruction,
                    std::string_view(code.bytes()).substr(instruction.address - 0x401000),
                    is_64_bit);
    }
    EXPECT_TRUE(code.instructions().back().flow == X86Flow::kReturn);
  }
}

TEST(X86Assembler, ProgramsAreWhatZydisReads) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const PtProgram program({.seed = seed, .is_64_bit = seed % 2 == 0, .kernel = seed % 4 == 0});
    for (const PtBlock& block : program.blocks()) {
      const PtFunction& function = program.functions()[block.function];
      for (const PtCode& code : program.code()) {
        if (code.region != function.region) continue;
        if (code.region == PtRegion::kJit && code.function != block.function) continue;
        for (uint32_t i = 0; i < block.instructions; ++i) {
          const X86Instruction& instruction = program.instructions()[block.first_instruction + i];
          ExpectAsZydis(instruction,
                        std::string_view(code.bytes).substr(instruction.address - code.address),
                        program.options().is_64_bit);
        }
      }
    }
  }
}

TEST(X86Assembler, ACallToTheNextInstructionIsKnownAsOne) {
  X86Assembler code({.base = 0x1000});
  code.CallNext();
  code.CallTo(0x1000);
  code.Finish();
  EXPECT_TRUE(code.instructions()[0].is_call_to_next());
  EXPECT_FALSE(code.instructions()[1].is_call_to_next());
}

}  // namespace
}  // namespace ptarmigan
