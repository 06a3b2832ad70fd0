#include "decode/code_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using Verdict = CodeRun::Verdict;

std::vector<std::byte> Code(std::initializer_list<unsigned> values) {
  std::vector<std::byte> code;
  for (const unsigned value : values) code.push_back(static_cast<std::byte>(value));
  return code;
}

TEST(CodeRun, CountsTheInstructionsUpToTheBranch) {
  // push rbp; mov rbp,rsp; test edi,edi; je +2
  const auto code = Code({0x55, 0x48, 0x89, 0xe5, 0x85, 0xff, 0x74, 0x02});
  const CodeRun run = WalkCodeRun(Arch::kX86_64, code, 6);
  EXPECT_EQ(run.verdict, Verdict::kStraight);
  EXPECT_EQ(run.instructions, 4U);
  EXPECT_EQ(WalkCodeRun(Arch::kX86_64, code, 0).instructions, 1U);
}

TEST(CodeRun, FindsJumpsCallsAndReturnsBeforeTheEnd) {
  const std::vector<std::vector<std::byte>> leaving = {
      Code({0xeb, 0x00}),              // jmp rel8
      Code({0xe9, 0, 0, 0, 0}),        // jmp rel32
      Code({0xe8, 0, 0, 0, 0}),        // call rel32
      Code({0xff, 0xe0}),              // jmp rax
      Code({0x3e, 0xff, 0xe0}),        // notrack jmp rax
      Code({0xff, 0x15, 0, 0, 0, 0}),  // call [rip]
      Code({0x41, 0xff, 0xd3}),        // call r11
      Code({0xc3}),
      Code({0xf3, 0xc3}),              // ret, rep ret
      Code({0xf2, 0xe9, 0, 0, 0, 0}),  // bnd jmp
      Code({0x48, 0xcf}),
      Code({0x48, 0x0f, 0x07})};  // iretq, sysretq
  for (std::vector<std::byte> code : leaving) {
    const size_t size = code.size();
    code.resize(size + 8, std::byte{0x90});
    EXPECT_EQ(WalkCodeRun(Arch::kX86_64, code, size).verdict, Verdict::kLeaves) << size;
    // At the end itself it is what ended the run.
    EXPECT_EQ(WalkCodeRun(Arch::kX86_64, code, 0).verdict, Verdict::kStraight);
  }
}

TEST(CodeRun, GoesOnThroughWhatComesBack) {
  // syscall; jne +0; inc [rax] (group 5); loop +0; xbegin; nop
  const auto code =
      Code({0x0f, 0x05, 0x75, 0x00, 0xff, 0x00, 0xe2, 0x00, 0xc7, 0xf8, 0, 0, 0, 0, 0x90});
  EXPECT_EQ(WalkCodeRun(Arch::kX86_64, code, 14).verdict, Verdict::kStraight);
  EXPECT_EQ(WalkCodeRun(Arch::kX86_64, code, 14).instructions, 6U);
}

TEST(CodeRun, RefusesAnEndInsideAnInstruction) {
  const auto code = Code({0xb8, 1, 2, 3, 4, 0x90, 0x90});
  EXPECT_EQ(WalkCodeRun(Arch::kX86_64, code, 2).verdict, Verdict::kMisaligned);
}

TEST(CodeRun, KnowsNothingWithoutBytesOrDecoder) {
  const auto code = Code({0x90, 0x90});
  EXPECT_EQ(WalkCodeRun(Arch::kX86_64, code, 2).verdict, Verdict::kUnknown);
  EXPECT_EQ(WalkCodeRun(Arch::kX86_64, {}, 0).verdict, Verdict::kUnknown);
  EXPECT_EQ(WalkCodeRun(Arch::kX86_64, Code({0x06, 0x90}), 1).verdict, Verdict::kUnknown);
  EXPECT_EQ(WalkCodeRun(Arch::kRiscv64, code, 0).verdict, Verdict::kUnknown);
}

TEST(CodeRun, DecodesThirtyTwoBitCodeAsSuch) {
  // inc eax (a REX prefix in 64-bit mode); push ebp
  const auto code = Code({0x40, 0x55, 0xc3});
  EXPECT_EQ(WalkCodeRun(Arch::kX86, code, 2).instructions, 3U);
  EXPECT_EQ(WalkCodeRun(Arch::kX86_64, code, 2).instructions, 2U);
}

std::vector<std::byte> Words(std::initializer_list<uint32_t> words) {
  std::vector<std::byte> code;
  for (const uint32_t word : words) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      code.push_back(static_cast<std::byte>(word >> shift & 0xff));
    }
  }
  return code;
}

TEST(CodeRun, KnowsArm64sUnconditionalTransfers) {
  for (const uint32_t word : {0x14000001U, 0x17ffffffU, 0x94000001U, 0xd61f0200U, 0xd63f0000U,
                              0xd65f03c0U, 0xd65f0bffU, 0xd69f03e0U, 0xd71f0a30U}) {
    EXPECT_EQ(WalkCodeRun(Arch::kArm64, Words({word, 0xd503201f}), 4).verdict, Verdict::kLeaves)
        << std::hex << word;
  }
  // b.eq, cbz, tbz, nop, svc, ldr
  const auto straight =
      Words({0x54000040, 0xb4000040, 0x36000040, 0xd503201f, 0xd4000001, 0xf9400000});
  EXPECT_EQ(WalkCodeRun(Arch::kArm64, straight, 20).verdict, Verdict::kStraight);
  EXPECT_EQ(WalkCodeRun(Arch::kArm64, straight, 20).instructions, 6U);
  EXPECT_EQ(WalkCodeRun(Arch::kArm64, straight, 2).verdict, Verdict::kMisaligned);
}

TEST(CodeRun, TellsReturnsFromOtherTransfers) {
  EXPECT_TRUE(IsReturnInstruction(Arch::kX86_64, Code({0xc3})));
  EXPECT_TRUE(IsReturnInstruction(Arch::kX86_64, Code({0xf2, 0xc3})));
  EXPECT_TRUE(IsReturnInstruction(Arch::kX86_64, Code({0xc2, 0x08, 0x00})));
  EXPECT_FALSE(IsReturnInstruction(Arch::kX86_64, Code({0xff, 0xe0})));
  EXPECT_FALSE(IsReturnInstruction(Arch::kX86_64, {}));
  EXPECT_TRUE(IsReturnInstruction(Arch::kArm64, Words({0xd65f03c0})));
  EXPECT_TRUE(IsReturnInstruction(Arch::kArm64, Words({0xd65f0bff})));
  EXPECT_FALSE(IsReturnInstruction(Arch::kArm64, Words({0xd61f0200})));
}

TEST(CodeRun, NeverReadsBeyondRandomBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> code(random() % 40);
    for (std::byte& byte : code) byte = static_cast<std::byte>(random());
    const uint64_t length = random() % 48;
    for (const Arch arch : {Arch::kX86_64, Arch::kX86, Arch::kArm64}) {
      const CodeRun run = WalkCodeRun(arch, code, length);
      EXPECT_LE(run.instructions, length + 1);
      IsReturnInstruction(arch, code);
    }
  }
}

// Truth outside: binutils' disassembler over this test's own code.
TEST(CodeRun, AgreesWithObjdumpOnEveryInstructionOfThisProgram) {
  if (!HaveProgram("objdump")) GTEST_SKIP() << "objdump is not installed";
  if (NativeArch() != Arch::kX86_64) GTEST_SKIP() << "needs x86-64 code";
  const CommandResult listing = RunCommand("objdump -d -w -j .text /proc/" +
                                           std::to_string(::getpid()) + "/exe | head -200000");
  ASSERT_EQ(listing.exit_code, 0) << listing.err;
  size_t instructions = 0;
  size_t leaving = 0;
  for (size_t at = 0; at < listing.out.size();) {
    const size_t end = std::min(listing.out.find('\n', at), listing.out.size());
    const std::string_view line = std::string_view(listing.out).substr(at, end - at);
    at = end + 1;
    // "  address:\tbytes\tmnemonic operands"
    const size_t bytes_at = line.find('\t');
    const size_t text_at = bytes_at == line.npos ? line.npos : line.find('\t', bytes_at + 1);
    if (text_at == line.npos) continue;
    std::vector<std::byte> code;
    for (size_t i = bytes_at + 1; i + 1 < text_at && line[i] != ' '; i += 3) {
      unsigned value = 0;
      std::from_chars(line.data() + i, line.data() + i + 2, value, 16);
      code.push_back(static_cast<std::byte>(value));
    }
    std::string_view text = line.substr(text_at + 1);
    if (text.find("(bad)") != text.npos) continue;
    for (const std::string_view prefix :
         {"bnd ", "notrack ", "rep ", "repz ", "data16 ", "cs ", "rex.W "}) {
      if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
    }
    const bool leaves =
        text.starts_with("jmp") || text.starts_with("call") || text.starts_with("ret");
    const size_t size = code.size();
    code.push_back(std::byte{0x90});
    const CodeRun run = WalkCodeRun(Arch::kX86_64, code, size);
    ASSERT_EQ(run.verdict, leaves ? Verdict::kLeaves : Verdict::kStraight) << line;
    ASSERT_EQ(run.instructions, leaves ? 0U : 2U) << line;
    ++instructions;
    leaving += leaves ? 1 : 0;
  }
  EXPECT_GT(instructions, 10'000U);
  EXPECT_GT(leaving, 1'000U);
}

}  // namespace
}  // namespace ptarmigan
