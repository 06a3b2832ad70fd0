#include "unwind/internal/expression.h"

#include <gtest/gtest.h>

#include "tests/support/byte_writer.h"

namespace ptarmigan::internal {
namespace {

using W = ByteWriter;

constexpr uint64_t kStackStart = 0x7000;

class Expression : public testing::Test {
 protected:
  Expression() {
    registers_.Set(3, 300);
    registers_.Set(7, kStackStart);
    registers_.Set(35, 3500);
    for (uint64_t i = 0; i < 4; ++i) stack_.U64(0x1111111111111111 * (i + 1));
  }
  std::optional<uint64_t> Evaluate(const W& code, std::optional<uint64_t> first = std::nullopt,
                                   uint8_t word_bytes = 8) {
    const WalkMemory memory(AsBytes(stack_.bytes()), kStackStart, word_bytes);
    return EvaluateExpression(AsBytes(code.bytes()), first, registers_, memory);
  }

  RegisterFile registers_;
  W stack_;
};

TEST_F(Expression, PushesConstants) {
  EXPECT_EQ(Evaluate(W().U8(0x30)), 0U);
  EXPECT_EQ(Evaluate(W().U8(0x4f)), 31U);
  EXPECT_EQ(Evaluate(W().U8(0x03).U64(0x123456789a)), 0x123456789aU);
  EXPECT_EQ(Evaluate(W().U8(0x08).U8(0xff)), 255U);
  EXPECT_EQ(Evaluate(W().U8(0x09).U8(0xff)), UINT64_MAX);
  EXPECT_EQ(Evaluate(W().U8(0x0a).U16(0xffff)), 0xffffU);
  EXPECT_EQ(Evaluate(W().U8(0x0b).U16(0xffff)), UINT64_MAX);
  EXPECT_EQ(Evaluate(W().U8(0x0c).U32(0xffffffff)), 0xffffffffU);
  EXPECT_EQ(Evaluate(W().U8(0x0d).U32(0xffffffff)), UINT64_MAX);
  EXPECT_EQ(Evaluate(W().U8(0x0e).U64(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(Evaluate(W().U8(0x0f).U64(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(Evaluate(W().U8(0x10).Uleb(1000)), 1000U);
  EXPECT_EQ(Evaluate(W().U8(0x11).Sleb(-1000)), static_cast<uint64_t>(-1000));
}

TEST_F(Expression, ReadsRegistersAndMemory) {
  EXPECT_EQ(Evaluate(W().U8(0x73).Sleb(-1)), 299U);
  EXPECT_EQ(Evaluate(W().U8(0x92).Uleb(35).Sleb(5)), 3505U);
  EXPECT_EQ(Evaluate(W().U8(0x77).Sleb(8).U8(0x06)), 0x2222222222222222U);
  EXPECT_EQ(Evaluate(W().U8(0x77).Sleb(9).U8(0x94).U8(2)), 0x2222U);
  EXPECT_EQ(Evaluate(W().U8(0x77).Sleb(8).U8(0x06), std::nullopt, 4), 0x22222222U);
  EXPECT_EQ(Evaluate(W().U8(0x06), kStackStart + 24), 0x4444444444444444U);
  EXPECT_EQ(Evaluate(W().U8(0x06), kStackStart + 25), std::nullopt)
      << "a word that is half outside";
  EXPECT_EQ(Evaluate(W().U8(0x06), kStackStart - 8), std::nullopt);
  EXPECT_EQ(Evaluate(W().U8(0x74).Sleb(0)), std::nullopt) << "register 4 is not known";
  EXPECT_EQ(Evaluate(W().U8(0x92).Uleb(36).Sleb(0)), std::nullopt);
  EXPECT_EQ(Evaluate(W().U8(0x77).Sleb(0).U8(0x94).U8(3)), std::nullopt);
}

TEST_F(Expression, MovesTheStack) {
  const W three = W().U8(0x31).U8(0x32).U8(0x33);  // 1 2 3
  const auto after = [&](const W& code) { return Evaluate(W(three).Text(code.bytes())); };
  EXPECT_EQ(after(W().U8(0x12).U8(0x22)), 6U);  // dup, plus
  EXPECT_EQ(after(W().U8(0x13)), 2U);           // drop
  EXPECT_EQ(after(W().U8(0x14)), 2U);           // over
  EXPECT_EQ(after(W().U8(0x15).U8(2)), 1U);     // pick
  EXPECT_EQ(after(W().U8(0x16)), 2U);           // swap
  EXPECT_EQ(after(W().U8(0x17)), 2U);           // rot: 3 1 2
  EXPECT_EQ(after(W().U8(0x17).U8(0x13)), 1U);
  EXPECT_EQ(after(W().U8(0x17).U8(0x13).U8(0x13)), 3U);
  EXPECT_EQ(after(W().U8(0x15).U8(3)), std::nullopt);
  for (const unsigned opcode :
       {0x06U, 0x12U, 0x13U, 0x14U, 0x16U, 0x17U, 0x19U, 0x22U, 0x28U, 0x2aU}) {
    EXPECT_EQ(Evaluate(W().U8(opcode).U16(0)), std::nullopt) << "empty stack, opcode " << opcode;
  }
}

TEST_F(Expression, Calculates) {
  const auto binary = [&](int64_t left, int64_t right, uint8_t opcode, uint8_t word_bytes = 8) {
    return Evaluate(W().U8(0x11).Sleb(left).U8(0x11).Sleb(right).U8(opcode), std::nullopt,
                    word_bytes);
  };
  const auto minus_one = UINT64_MAX;
  EXPECT_EQ(binary(12, 10, 0x1a), 8U);
  EXPECT_EQ(binary(12, 10, 0x21), 14U);
  EXPECT_EQ(binary(12, 10, 0x27), 6U);
  EXPECT_EQ(binary(12, 10, 0x22), 22U);
  EXPECT_EQ(binary(10, 11, 0x1c), minus_one);
  EXPECT_EQ(binary(12, 10, 0x1e), 120U);
  EXPECT_EQ(binary(-12, 5, 0x1b), static_cast<uint64_t>(-2));
  EXPECT_EQ(binary(12, 5, 0x1d), 2U);
  EXPECT_EQ(binary(12, 0, 0x1b), std::nullopt);
  EXPECT_EQ(binary(12, 0, 0x1d), std::nullopt);
  EXPECT_EQ(binary(INT64_MIN, -1, 0x1b), uint64_t{1} << 63);
  EXPECT_EQ(binary(1, 4, 0x24), 16U);
  EXPECT_EQ(binary(1, 64, 0x24), 0U);
  EXPECT_EQ(binary(-16, 60, 0x25), 15U);
  EXPECT_EQ(binary(-16, 64, 0x25), 0U);
  EXPECT_EQ(binary(-16, 2, 0x26), static_cast<uint64_t>(-4));
  EXPECT_EQ(binary(-16, 100, 0x26), minus_one);
  EXPECT_EQ(binary(-1, 1, 0x29), 0U);
  EXPECT_EQ(binary(-1, 1, 0x2a), 0U);
  EXPECT_EQ(binary(-1, 1, 0x2b), 0U);
  EXPECT_EQ(binary(-1, 1, 0x2c), 1U);
  EXPECT_EQ(binary(-1, 1, 0x2d), 1U);
  EXPECT_EQ(binary(-1, 1, 0x2e), 1U);
  EXPECT_EQ(binary(10, 11, 0x1c, 4), 0xffffffffU) << "words of 32 bits";
  EXPECT_EQ(binary(-1, 1, 0x2d, 4), 1U);
  EXPECT_EQ(Evaluate(W().U8(0x09).U8(0xfb).U8(0x19)), 5U);
  EXPECT_EQ(Evaluate(W().U8(0x35).U8(0x1f)), static_cast<uint64_t>(-5));
  EXPECT_EQ(Evaluate(W().U8(0x35).U8(0x20)), ~uint64_t{5});
  EXPECT_EQ(Evaluate(W().U8(0x35).U8(0x23).Uleb(300)), 305U);
  EXPECT_EQ(Evaluate(W().U8(0x96), 7U), 7U);
}

TEST_F(Expression, GivesTheFrameOfAPltStub) {
  // What linkers write for lazy PLT stubs: rsp + 8 + ((rip & 15) >= 11) * 8.
  const W plt = W().U8(0x77)
                    .Sleb(8)
                    .U8(0x80)
                    .Sleb(0)
                    .U8(0x3f)
                    .U8(0x1a)
                    .U8(0x3b)
                    .U8(0x2a)
                    .U8(0x33)
                    .U8(0x24)
                    .U8(0x22);
  registers_.Set(16, 0x1026);
  EXPECT_EQ(Evaluate(plt), kStackStart + 8);
  registers_.Set(16, 0x102b);
  EXPECT_EQ(Evaluate(plt), kStackStart + 16);
}

TEST_F(Expression, Jumps) {
  // if (first) 1 else 2
  const W choice = W().U8(0x28).U16(4).U8(0x32).U8(0x2f).U16(1).U8(0x31);
  EXPECT_EQ(Evaluate(choice, 0U), 2U);
  EXPECT_EQ(Evaluate(choice, 1U), 1U);
  EXPECT_EQ(Evaluate(W().U8(0x2f).U16(100)), std::nullopt);
  EXPECT_EQ(Evaluate(W().U8(0x2f).U16(static_cast<uint16_t>(-100))), std::nullopt);
}

TEST_F(Expression, EndsAtItsBounds) {
  EXPECT_EQ(Evaluate(W().U8(0x2f).U16(static_cast<uint16_t>(-3))), std::nullopt)
      << "an endless loop";
  EXPECT_EQ(Evaluate(W().Text(std::string(kExpressionStepsMax - 1, '\x96')).U8(0x31)), 1U);
  EXPECT_EQ(Evaluate(W().Text(std::string(kExpressionStepsMax, '\x96')).U8(0x31)), std::nullopt);
  EXPECT_EQ(Evaluate(W().Text(std::string(kExpressionDepthMax, '\x31'))), 1U);
  EXPECT_EQ(Evaluate(W().Text(std::string(kExpressionDepthMax + 1, '\x31'))), std::nullopt);
}

TEST_F(Expression, RefusesDamage) {
  EXPECT_EQ(Evaluate(W()), std::nullopt);
  EXPECT_EQ(Evaluate(W().U8(0xff)), std::nullopt);
  EXPECT_EQ(Evaluate(W().U8(0x31).U8(0x31).U8(0xff)), std::nullopt);
  EXPECT_EQ(Evaluate(W().U8(0x31).U8(0x03).U32(1)), std::nullopt) << "an operand that is cut off";
}

}  // namespace
}  // namespace ptarmigan::internal
