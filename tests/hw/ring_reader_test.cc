#include "hw/internal/ring_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace ptarmigan::internal {
namespace {

class CollectingSink : public RawRecordSink {
 public:
  void OnRecord(const RawRecord& record) override {
    records.emplace_back(record.bytes.begin(), record.bytes.end());
    streams.push_back(record.stream);
  }
  void OnRoundEnd() override {}
  std::vector<std::vector<std::byte>> records;
  std::vector<uint32_t> streams;
};

// A ring that the test fills as the kernel would.
class FakeRing {
 public:
  explicit FakeRing(size_t size_bytes) : data_(size_bytes) {}
  RingRegion Region() { return RingRegion{&head_, &tail_, Bytes(data_)}; }

  static std::vector<std::byte> Record(uint32_t type, uint16_t size, uint8_t fill) {
    std::vector<std::byte> record(size, std::byte{fill});
    const uint16_t misc = 0;
    std::memcpy(record.data(), &type, 4);
    std::memcpy(record.data() + 4, &misc, 2);
    std::memcpy(record.data() + 6, &size, 2);
    return record;
  }
  bool Write(const std::vector<std::byte>& record) {
    const uint64_t tail = __atomic_load_n(&tail_, __ATOMIC_ACQUIRE);
    if (head_ + record.size() - tail > data_.size()) return false;
    uint64_t position = head_;
    for (const std::byte value : record) data_[position++ % data_.size()] = value;
    __atomic_store_n(&head_, position, __ATOMIC_RELEASE);
    return true;
  }

  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  std::vector<std::byte> data_;
};

TEST(RingReader, HandsOutWholeRecordsInOrder) {
  FakeRing ring(256);
  auto reader = RingReader::Create(ring.Region());
  ASSERT_TRUE(reader.has_value());
  ASSERT_TRUE(ring.Write(FakeRing::Record(9, 40, 1)));
  ASSERT_TRUE(ring.Write(FakeRing::Record(3, 8, 2)));
  CollectingSink sink;
  EXPECT_EQ(reader->Read(sink, 7), 48U);
  ASSERT_EQ(sink.records.size(), 2U);
  EXPECT_EQ(sink.records[0], FakeRing::Record(9, 40, 1));
  EXPECT_EQ(sink.records[1], FakeRing::Record(3, 8, 2));
  EXPECT_EQ(sink.streams, (std::vector<uint32_t>{7, 7}));
  EXPECT_EQ(ring.tail_, ring.head_);
  EXPECT_EQ(reader->Read(sink, 7), 0U);
  EXPECT_EQ(reader->counts().records, 2U);
  EXPECT_EQ(reader->counts().bytes, 48U);
}

TEST(RingReader, PutsTogetherARecordThatWrapsAtEveryOffset) {
  constexpr size_t kSize = 128;
  for (uint64_t offset = 0; offset < kSize; ++offset) {
    FakeRing ring(kSize);
    ring.head_ = ring.tail_ = 5 * kSize + offset;
    auto reader = RingReader::Create(ring.Region());
    ASSERT_TRUE(reader.has_value());
    const auto record = FakeRing::Record(9, kSize, static_cast<uint8_t>(offset));
    ASSERT_TRUE(ring.Write(record));
    CollectingSink sink;
    EXPECT_EQ(reader->Read(sink, 0), kSize);
    ASSERT_EQ(sink.records.size(), 1U) << offset;
    EXPECT_EQ(sink.records[0], record) << offset;
    EXPECT_EQ(reader->counts().corrupt_bytes, 0U);
  }
}

TEST(RingReader, CountersMayWrapAroundTheirOwnWidth) {
  FakeRing ring(128);
  ring.head_ = ring.tail_ = UINT64_MAX - 7;
  auto reader = RingReader::Create(ring.Region());
  ASSERT_TRUE(reader.has_value());
  const auto record = FakeRing::Record(9, 64, 3);
  ASSERT_TRUE(ring.Write(record));
  CollectingSink sink;
  EXPECT_EQ(reader->Read(sink, 0), 64U);
  ASSERT_EQ(sink.records.size(), 1U);
  EXPECT_EQ(sink.records[0], record);
}

TEST(RingReader, TheLargestRecordFits) {
  FakeRing ring(1 << 17);
  ring.head_ = ring.tail_ = (1 << 17) - 100;
  auto reader = RingReader::Create(ring.Region());
  ASSERT_TRUE(reader.has_value());
  const auto record = FakeRing::Record(9, UINT16_MAX, 4);
  ASSERT_TRUE(ring.Write(record));
  CollectingSink sink;
  EXPECT_EQ(reader->Read(sink, 0), UINT16_MAX);
  ASSERT_EQ(sink.records.size(), 1U);
  EXPECT_EQ(sink.records[0], record);
}

TEST(RingReader, GivesUpTheRestWhenASizeCannotBeTrue) {
  for (const uint16_t bad_size : {uint16_t{0}, uint16_t{7}, uint16_t{200}}) {
    FakeRing ring(256);
    auto reader = RingReader::Create(ring.Region());
    ASSERT_TRUE(reader.has_value());
    ASSERT_TRUE(ring.Write(FakeRing::Record(9, 40, 1)));
    auto bad = FakeRing::Record(9, 40, 2);
    std::memcpy(bad.data() + 6, &bad_size, 2);
    ASSERT_TRUE(ring.Write(bad));
    CollectingSink sink;
    EXPECT_EQ(reader->Read(sink, 0), 80U);
    EXPECT_EQ(sink.records.size(), 1U) << bad_size;
    EXPECT_EQ(reader->counts().corrupt_bytes, 40U);
    // It goes on with what comes next.
    ASSERT_TRUE(ring.Write(FakeRing::Record(9, 16, 5)));
    reader->Read(sink, 0);
    ASSERT_EQ(sink.records.size(), 2U);
    EXPECT_EQ(sink.records[1], FakeRing::Record(9, 16, 5));
  }
}

TEST(RingReader, AHeadTooFarAheadIsAnOverrunNotARead) {
  FakeRing ring(256);
  auto reader = RingReader::Create(ring.Region());
  ASSERT_TRUE(reader.has_value());
  ring.head_ = 257;
  CollectingSink sink;
  EXPECT_EQ(reader->Read(sink, 0), 0U);
  EXPECT_TRUE(sink.records.empty());
  EXPECT_EQ(reader->counts().overruns, 1U);
  EXPECT_EQ(ring.tail_, 257U);
  // A head behind the tail is the same thing.
  ring.head_ = 100;
  reader->Read(sink, 0);
  EXPECT_EQ(reader->counts().overruns, 2U);
  EXPECT_TRUE(sink.records.empty());
}

TEST(RingReader, RefusesASizeThatIsNoPowerOfTwo) {
  std::vector<std::byte> data(3 * 64);
  uint64_t head = 0;
  uint64_t tail = 0;
  EXPECT_FALSE(RingReader::Create(RingRegion{&head, &tail, Bytes(data)}).has_value());
  EXPECT_FALSE(RingReader::Create(RingRegion{&head, &tail, Bytes(data).first(32)}).has_value());
  EXPECT_FALSE(RingReader::Create(RingRegion{&head, &tail, Bytes()}).has_value());
  EXPECT_TRUE(RingReader::Create(RingRegion{&head, &tail, Bytes(data).first(64)}).has_value());
}

TEST(RingReader, LosesNothingBesideAConcurrentWriter) {
  FakeRing ring(4096);
  auto reader = RingReader::Create(ring.Region());
  ASSERT_TRUE(reader.has_value());
  constexpr uint64_t kRecords = 20'000;
  std::atomic<bool> done = false;
  std::thread writer([&ring, &done] {
    for (uint64_t i = 0; i < kRecords; ++i) {
      std::vector<std::byte> record = FakeRing::Record(9, static_cast<uint16_t>(16 + i % 9 * 8), 0);
      std::memcpy(record.data() + 8, &i, sizeof(i));
      while (!ring.Write(record)) std::this_thread::yield();
    }
    done = true;
  });
  class InOrder : public RawRecordSink {
   public:
    void OnRecord(const RawRecord& record) override {
      uint64_t number = 0;
      std::memcpy(&number, record.bytes.data() + 8, sizeof(number));
      if (number != next || record.bytes.size() != 16 + number % 9 * 8) ++wrong;
      ++next;
    }
    void OnRoundEnd() override {}
    uint64_t next = 0;
    uint64_t wrong = 0;
  } sink;
  while (!done) reader->Read(sink, 0);
  writer.join();
  reader->Read(sink, 0);
  EXPECT_EQ(sink.next, kRecords);
  EXPECT_EQ(sink.wrong, 0U);
  EXPECT_EQ(reader->counts().corrupt_bytes, 0U);
}

}  // namespace
}  // namespace ptarmigan::internal
