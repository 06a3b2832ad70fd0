#include "hw/internal/aux_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace ptarmigan::internal {
namespace {

constexpr uint64_t kSize = 256;

std::vector<std::byte> Pattern(size_t count, uint64_t seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(1 + (seed + i * 7) % 255);  // never zero
  return bytes;
}

// The kernel's side: writes at head, round and round.
class Tracer {
 public:
  explicit Tracer(uint64_t begin) : head_(begin), tail_(begin), data_(kSize) {}

  void Write(Bytes bytes, bool overwrite = false) {
    for (const std::byte byte : bytes) data_[head_++ % kSize] = byte;
    if (overwrite) head_ %= kSize;
  }
  AuxRegion Full() { return {&head_, &tail_, Bytes(data_)}; }
  AuxRegion Overwritten() { return {&head_, nullptr, Bytes(data_)}; }
  uint64_t tail() const { return tail_; }
  uint64_t* head() { return &head_; }

 private:
  uint64_t head_;
  uint64_t tail_;
  std::vector<std::byte> data_;
};

struct Collected {
  std::vector<std::byte> bytes;
  uint64_t first_offset = 0;
  size_t calls = 0;

  AuxReader::Visitor Visitor() {
    return [this](uint64_t offset, Bytes part, Bytes rest) {
      ++calls;
      first_offset = offset;
      bytes.insert(bytes.end(), part.begin(), part.end());
      bytes.insert(bytes.end(), rest.begin(), rest.end());
    };
  }
};

TEST(AuxReader, EveryLengthFromEveryPlaceComesOutAsItWasWritten) {
  for (uint64_t begin = 0; begin < kSize; ++begin) {
    for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{100}, kSize - 1, kSize}) {
      Tracer tracer(10 * kSize + begin);
      AuxReader reader = *AuxReader::Create(tracer.Full());
      const std::vector<std::byte> written = Pattern(length, begin);
      tracer.Write(written);
      Collected collected;
      ASSERT_EQ(reader.Drain(collected.Visitor()), length);
      ASSERT_EQ(collected.bytes, written) << begin;
      ASSERT_EQ(collected.calls, length > 0 ? 1U : 0U);
      if (length > 0) {
        ASSERT_EQ(collected.first_offset, 10 * kSize + begin);
      }
      ASSERT_EQ(tracer.tail(), *tracer.head());
      ASSERT_EQ(reader.Drain(collected.Visitor()), 0U);
    }
  }
}

TEST(AuxReader, WhatIsReadIsGivenBackAfterwards) {
  Tracer tracer(kSize - 10);
  AuxReader reader = *AuxReader::Create(tracer.Full());
  tracer.Write(Pattern(30, 1));
  uint64_t tail_while_reading = 0;
  reader.Drain([&](uint64_t, Bytes, Bytes) { tail_while_reading = tracer.tail(); });
  EXPECT_EQ(tail_while_reading, kSize - 10);
  EXPECT_EQ(tracer.tail(), kSize + 20);
}

TEST(AuxReader, AHeadThatRanPastUsIsCountedAndReadingGoesOn) {
  Tracer tracer(0);
  AuxReader reader = *AuxReader::Create(tracer.Full());
  *tracer.head() = 5 * kSize;
  Collected collected;
  EXPECT_EQ(reader.Drain(collected.Visitor()), 0U);
  EXPECT_EQ(reader.counts().overruns, 1U);
  EXPECT_EQ(reader.counts().overrun_bytes, 5 * kSize);
  tracer.Write(Pattern(20, 2));
  EXPECT_EQ(reader.Drain(collected.Visitor()), 20U);
  EXPECT_EQ(collected.bytes, Pattern(20, 2));
  EXPECT_EQ(reader.counts().bytes, 20U);
}

TEST(AuxReader, ASnapshotBeginsWithTheOldestByteWhereverTheHeadStands) {
  for (uint64_t length = 1; length <= 3 * kSize; ++length) {
    Tracer tracer(0);
    AuxReader reader = *AuxReader::Create(tracer.Overwritten());
    const std::vector<std::byte> written = Pattern(length, 3);
    tracer.Write(written, /*overwrite=*/true);
    Collected collected;
    const uint64_t kept = std::min(length, kSize);
    ASSERT_EQ(reader.Snapshot(collected.Visitor()), kept) << length;
    const std::vector<std::byte> newest(written.end() - static_cast<ptrdiff_t>(kept),
                                        written.end());
    ASSERT_EQ(collected.bytes, newest);
  }
}

TEST(AuxReader, TwoSnapshotsAreNeverTakenForOneTrace) {
  Tracer tracer(0);
  AuxReader reader = *AuxReader::Create(tracer.Overwritten());
  tracer.Write(Pattern(kSize + 5, 4), true);
  Collected first;
  reader.Snapshot(first.Visitor());
  tracer.Write(Pattern(7, 5), true);
  Collected second;
  reader.Snapshot(second.Visitor());
  EXPECT_GT(second.first_offset, first.first_offset + first.bytes.size());
}

TEST(AuxReader, AnEmptySnapshotHasNoPieces) {
  Tracer tracer(0);
  AuxReader reader = *AuxReader::Create(tracer.Overwritten());
  Collected collected;
  EXPECT_EQ(reader.Snapshot(collected.Visitor()), 0U);
  EXPECT_EQ(collected.calls, 0U);
}

TEST(AuxReader, RefusesSizesThatCannotBe) {
  uint64_t head = 0;
  const std::array<std::byte, 96> data = {};
  EXPECT_FALSE(AuxReader::Create({&head, nullptr, Bytes(data)}).has_value());
  EXPECT_FALSE(AuxReader::Create({&head, nullptr, Bytes(data).first(32)}).has_value());
  EXPECT_FALSE(AuxReader::Create({&head, nullptr, Bytes()}).has_value());
  EXPECT_TRUE(AuxReader::Create({&head, nullptr, Bytes(data).first(64)}).has_value());
}

}  // namespace
}  // namespace ptarmigan::internal
