#include "decode/attr_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace ptarmigan {
namespace {

// A 136-byte attr, little-endian: cycles, 4000 Hz, IP|TID|TIME|PERIOD|IDENTIFIER, freq, precise 2,
// sample_id_all.
std::array<std::byte, 136> CyclesAttr() {
  std::array<std::byte, 136> bytes = {};
  const auto put = [&](size_t offset, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; ++i)
      bytes.at(offset + i) = static_cast<std::byte>(value >> (8 * i) & 0xff);
  };
  put(0, 0, 4);
  put(4, 136, 4);
  put(16, 4000, 8);
  put(24, kSampleIp | kSampleTid | kSampleTime | kSamplePeriod | kSampleIdentifier, 8);
  put(40, uint64_t{1} << 10 | uint64_t{2} << 15 | uint64_t{1} << 18, 8);
  put(72, 1U << 11, 8);
  put(80, 0xff0fff, 8);
  put(88, 8192, 4);
  put(128, 77, 8);
  return bytes;
}

TEST(AttrReader, ReadsEveryFieldOfACurrentAttr) {
  const auto bytes = CyclesAttr();
  const auto attr = ReadEventAttr(bytes, std::endian::little);
  ASSERT_TRUE(attr.has_value());
  EXPECT_EQ(attr->size_bytes, 136U);
  EXPECT_EQ(attr->sample_freq_hz, 4000U);
  EXPECT_EQ(attr->sample_period, 0U);
  EXPECT_TRUE(attr->Samples(kSampleIdentifier));
  EXPECT_EQ(attr->precise_ip(), 2U);
  EXPECT_TRUE(attr->sample_id_all());
  EXPECT_EQ(attr->branch_sample_type, kBranchCallStack);
  EXPECT_EQ(attr->sample_regs_user, 0xff0fffU);
  EXPECT_EQ(attr->sample_stack_user_bytes, 8192U);
  EXPECT_EQ(attr->config3, 77U);
}

TEST(AttrReader, FieldsBeyondAnOldSizeAreZero) {
  auto bytes = CyclesAttr();
  bytes[4] = std::byte{72};  // PERF_ATTR_SIZE_VER1: up to config2
  const auto attr = ReadEventAttr(bytes, std::endian::little);
  ASSERT_TRUE(attr.has_value());
  EXPECT_EQ(attr->branch_sample_type, 0U);
  EXPECT_EQ(attr->sample_regs_user, 0U);
  EXPECT_EQ(attr->sample_freq_hz, 4000U);
}

TEST(AttrReader, BringsBigEndianBitFieldsToLittleEndianOrder) {
  // As a big-endian compiler lays them out: freq is bit 10 from the top, precise_ip's high bit is
  // bit 15 from the top.
  std::array<std::byte, 64> bytes = {};
  bytes[7] = std::byte{64};
  bytes[40 + 1] = std::byte{0x20 | 0x01};  // bits 10 and 15 from the top
  const auto attr = ReadEventAttr(bytes, std::endian::big);
  ASSERT_TRUE(attr.has_value());
  EXPECT_EQ(attr->size_bytes, 64U);
  EXPECT_TRUE(attr->freq());
  EXPECT_EQ(attr->precise_ip(), 2U);
  EXPECT_FALSE(attr->sample_id_all());
}

TEST(AttrReader, RefusesImpossibleSizes) {
  auto bytes = CyclesAttr();
  EXPECT_FALSE(ReadEventAttr(Bytes(bytes).first(63), std::endian::little).has_value());
  EXPECT_TRUE(ReadEventAttr(Bytes(bytes).first(64), std::endian::little).has_value());
  bytes[4] = std::byte{63};
  EXPECT_FALSE(ReadEventAttr(bytes, std::endian::little).has_value());
  bytes[4] = std::byte{0};
  bytes[5] = std::byte{0x10};  // 4096
  EXPECT_TRUE(ReadEventAttr(bytes, std::endian::little).has_value());
  bytes[4] = std::byte{1};
  EXPECT_FALSE(ReadEventAttr(bytes, std::endian::little).has_value());
}

}  // namespace
}  // namespace ptarmigan
