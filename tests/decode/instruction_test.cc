#include "decode/instruction.h"

#include <gtest/gtest.h>

#include <bit>
#include <initializer_list>
#include <vector>

namespace ptarmigan {
namespace {

using Kind = Instruction::Kind;

Instruction X86(std::initializer_list<unsigned> values) {
  std::vector<std::byte> code;
  for (const unsigned value : values) code.push_back(static_cast<std::byte>(value));
  return InstructionDecoder(Arch::kX86_64).Decode(code);
}

Instruction Arm64(uint32_t word) {
  std::vector<std::byte> code;
  for (unsigned shift = 0; shift < 32; shift += 8) code.push_back(std::byte(word >> shift & 0xff));
  return InstructionDecoder(Arch::kArm64).Decode(code);
}

void ExpectDirect(const Instruction& instruction, Kind kind, int64_t displacement) {
  EXPECT_EQ(instruction.kind, kind);
  ASSERT_TRUE(instruction.displacement.has_value());
  EXPECT_EQ(*instruction.displacement, displacement);
}

TEST(Instruction, TellsWhereX86BranchesLead) {
  ExpectDirect(X86({0x74, 0x02}), Kind::kConditionalJump, 4);
  ExpectDirect(X86({0x75, 0xfe}), Kind::kConditionalJump, 0);
  ExpectDirect(X86({0x0f, 0x85, 0xfc, 0xff, 0xff, 0xff}), Kind::kConditionalJump, 2);
  ExpectDirect(X86({0xe2, 0x10}), Kind::kConditionalJump, 18);  // loop
  ExpectDirect(X86({0xeb, 0x80}), Kind::kJump, -126);
  ExpectDirect(X86({0xf2, 0xe9, 0, 1, 0, 0}), Kind::kJump, 262);  // bnd jmp
  ExpectDirect(X86({0xe8, 0xfb, 0xff, 0xff, 0xff}), Kind::kCall, 0);
}

TEST(Instruction, KnowsX86TransfersWithoutATargetInTheCode) {
  EXPECT_EQ(X86({0x3e, 0xff, 0xe0}).kind, Kind::kIndirectJump);
  EXPECT_EQ(X86({0x41, 0xff, 0xd3}).kind, Kind::kIndirectCall);
  EXPECT_EQ(X86({0xf3, 0xc3}).kind, Kind::kReturn);
  EXPECT_EQ(X86({0x48, 0x0f, 0x07}).kind, Kind::kSystemReturn);
  EXPECT_EQ(X86({0x0f, 0x05}).kind, Kind::kNoTransfer);  // syscall
  EXPECT_EQ(X86({0xff, 0x00}).kind, Kind::kNoTransfer);  // inc
  EXPECT_FALSE(X86({0xff, 0xe0}).displacement.has_value());
}

TEST(Instruction, TellsLengths) {
  EXPECT_EQ(X86({0x90}).size_bytes, 1U);
  EXPECT_EQ(X86({0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9}).size_bytes, 10U);
  EXPECT_EQ(X86({0xe8, 0}).size_bytes, 0U);  // cut
  EXPECT_EQ(X86({}).size_bytes, 0U);
  EXPECT_EQ(Arm64(0xd503201f).size_bytes, 4U);
  EXPECT_EQ(InstructionDecoder(Arch::kRiscv64).Decode({}).size_bytes, 0U);
}

TEST(Instruction, TellsWhereArmBranchesLead) {
  ExpectDirect(Arm64(0x14000002), Kind::kJump, 8);
  ExpectDirect(Arm64(0x17ffffff), Kind::kJump, -4);
  ExpectDirect(Arm64(0x97fffffe), Kind::kCall, -8);
  ExpectDirect(Arm64(0x54000040), Kind::kConditionalJump, 8);   // b.eq
  ExpectDirect(Arm64(0x54ffffe1), Kind::kConditionalJump, -4);  // b.ne
  ExpectDirect(Arm64(0xb4000060), Kind::kConditionalJump, 12);  // cbz
  ExpectDirect(Arm64(0x35ffffc1), Kind::kConditionalJump, -8);  // cbnz
  ExpectDirect(Arm64(0x3607ffe0), Kind::kConditionalJump, -4);  // tbz
  EXPECT_EQ(Arm64(0xd61f0200).kind, Kind::kIndirectJump);
  EXPECT_EQ(Arm64(0xd63f0000).kind, Kind::kIndirectCall);
  EXPECT_EQ(Arm64(0xd65f0bff).kind, Kind::kReturn);  // retaa
  EXPECT_EQ(Arm64(0xd69f03e0).kind, Kind::kSystemReturn);
  EXPECT_EQ(Arm64(0x91000421).kind, Kind::kNoTransfer);  // add
}

}  // namespace
}  // namespace ptarmigan
