#include "decode/record_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/attr_reader.h"
#include "decode/record_types.h"
#include "tests/decode/allocation_counter.h"
#include "tests/support/event_log.h"
#include "tests/support/perf_bytes.h"

namespace ptarmigan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RecordingDescription OneEvent(const PerfAttr& perf_attr = PerfAttr()) {
  RecordingDescription description;
  description.byte_order = std::endian::little;
  EventDescription event;
  event.attr =
      *ReadEventAttr(AsBytes(AttrBytes(perf_attr, std::endian::little)), std::endian::little);
  event.name = "cycles";
  description.events.push_back(event);
  return description;
}

std::string Sample(uint64_t ip, uint64_t time_ns) {
  PerfFileBuilder builder;
  builder.AddSample({.ip = ip, .who = {.pid = 1, .tid = 1, .time_ns = time_ns}});
  return builder.data();
}

std::string Comm(const std::string& comm, uint64_t time_ns) {
  PerfFileBuilder builder;
  builder.AddComm({.pid = 1, .tid = 1, .time_ns = time_ns}, comm);
  return builder.data();
}

// A stream whose records come from memory that is gone after the call.
class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override { stream_.SetSink(&log_); }
  void Lend(std::string record) {
    stream_.OnRecord({AsBytes(record), 0});
    record.assign(record.size(), '\xee');
  }

  RecordingDescription description_ = OneEvent();
  RecordStream stream_{description_};
  EventLog log_;
};

TEST_F(StreamTest, CopiesWhatHasToWaitAndDeliversItInOrder) {
  Lend(Sample(0xa, 30));
  Lend(Sample(0xb, 10));
  Lend(Comm("x", 20));
  stream_.OnRoundEnd();
  EXPECT_THAT(log_.lines, IsEmpty());
  Lend(Sample(0xc, 40));
  stream_.OnRoundEnd();
  EXPECT_THAT(log_.lines, ElementsAre("@10 sample 0 b 1", "@20 comm 1/1 x", "@30 sample 0 a 1"));
  stream_.Finish();
  EXPECT_EQ(log_.lines.size(), 4U);
}

TEST_F(StreamTest, DeliversWhatPerfMadeUpAtOnce) {
  Lend(Sample(0xa, 30));
  Lend(Comm("before", 0));
  EXPECT_THAT(log_.lines, ElementsAre("@0 comm 1/1 before"));
  stream_.Finish();
  EXPECT_EQ(log_.lines.size(), 2U);
}

TEST_F(StreamTest, CountsLateRecordsAndDeliversThem) {
  Lend(Sample(0xa, 30));
  stream_.OnRoundEnd();
  stream_.OnRoundEnd();
  Lend(Sample(0xb, 20));
  stream_.Finish();
  EXPECT_EQ(log_.samples.size(), 2U);
  EXPECT_EQ(stream_.losses().Lost(LossStage::kMerge, LossReason::kOutOfOrder, LossUnit::kRecords),
            1U);
  EXPECT_EQ(stream_.losses().kept(), 2U);
  EXPECT_TRUE(stream_.losses().Balances());
}

TEST_F(StreamTest, DeliversTraceBytesAtOnceAndInBothParts) {
  Lend(Sample(0xa, 30));
  const std::string record = RecordBytes(
      kRecordAuxtrace, 0,
      ByteWriter().U64(16).U64(4096).U64(0).U32(0).U32(UINT32_MAX).U32(3).U32(0).bytes());
  const std::string bytes = "trace bytes 13";
  stream_.OnRecord(
      RawRecord{AsBytes(record), 0, AsBytes(bytes).first(6), AsBytes(bytes).subspan(6)});
  EXPECT_THAT(log_.lines, ElementsAre("aux chunk 4096+6 cpu 3", "aux chunk 4102+8 cpu 3"));
  EXPECT_EQ(log_.aux_data, bytes);
}

TEST_F(StreamTest, CountsATraceRecordThatIsTooShort) {
  const std::string record = RecordBytes(kRecordAuxtrace, 0, ByteWriter().U64(16).bytes());
  stream_.OnRecord(RawRecord{AsBytes(record), 0, AsBytes(record)});
  EXPECT_TRUE(log_.aux_data.empty());
  EXPECT_EQ(stream_.losses().Lost(LossUnit::kRecords), 1U);
}

TEST(RecordStream, KeepsFileOrderWhereOnlySamplesSayWhen) {
  PerfAttr attr;
  attr.flags = 0;
  const RecordingDescription description = OneEvent(attr);
  RecordStream stream(description);
  EventLog log;
  stream.SetSink(&log);
  stream.OnRecord({AsBytes(Sample(0xa, 30)), 0});
  stream.OnRecord({AsBytes(Sample(0xb, 20)), 0});
  EXPECT_THAT(log.lines, ElementsAre("@30 sample 0 a 1", "@20 sample 0 b 1"));
}

TEST(RecordStream, KeepsRecordsWithoutTimeBehindTheirNeighbours) {
  RecordingDescription description = OneEvent();
  description.events.front().attr.sample_type |= kSampleIdentifier;
  description.events.front().ids = {1};
  description.events.push_back(description.events.front());
  description.events[1].attr.sample_type = kSampleIdentifier | kSampleIp;
  description.events[1].ids = {2};
  RecordStream stream(description);
  EventLog log;
  stream.SetSink(&log);
  const auto timed = [](uint64_t ip, uint64_t time_ns) {
    ByteWriter body;
    body.U64(1).U64(ip).U32(1).U32(1).U64(time_ns).U32(0).U32(0).U64(1);
    return RecordBytes(9, 2, body.bytes());
  };
  const std::string timeless = RecordBytes(9, 2, ByteWriter().U64(2).U64(0xb).bytes());
  stream.OnRecord({AsBytes(timed(0xa, 30)), 0});
  stream.OnRecord({AsBytes(timeless), 0});
  stream.OnRecord({AsBytes(timed(0xc, 40)), 0});
  stream.OnRecord({AsBytes(timed(0xd, 10)), 0});
  stream.Finish();
  EXPECT_THAT(log.lines, ElementsAre("@10 sample 0 d 1", "@30 sample 0 a 1", "sample 1 b 1000",
                                     "@40 sample 0 c 1"));
}

TEST(RecordStream, BoundsTheRecordsThatWait) {
  const RecordingDescription description = OneEvent();
  RecordStream::Options options;
  options.records_max = 10;
  RecordStream stream(description, options);
  EventLog log;
  stream.SetSink(&log);
  for (uint64_t i = 1; i <= 9; ++i) stream.OnRecord({AsBytes(Sample(i, i)), 0});
  EXPECT_THAT(log.lines, IsEmpty());
  stream.OnRecord({AsBytes(Sample(10, 10)), 0});
  EXPECT_EQ(log.samples.size(), 5U);
}

TEST(RecordStream, BoundsTheBytesThatWaitAndUsesThemAgain) {
  const RecordingDescription description = OneEvent();
  RecordStream::Options options;
  options.bytes_max = size_t{2} << 20;
  RecordStream stream(description, options);
  EventSink ignores;
  stream.SetSink(&ignores);
  PerfFileBuilder builder;
  builder.AddComm({.pid = 1, .tid = 1, .time_ns = 1}, std::string(60000, 'x'));
  std::string record = builder.data();
  const auto add = [&](uint64_t time_ns) {
    const std::string time = ByteWriter().U64(time_ns).bytes();
    record.replace(record.size() - 16, 8, time);
    stream.OnRecord({AsBytes(record), 0});
  };
  uint64_t time_ns = 1;
  for (; time_ns < 200; ++time_ns) add(time_ns);
  const size_t before = AllocationsSoFar();
  for (; time_ns < 5000; ++time_ns) add(time_ns);
  const size_t per_release = (AllocationsSoFar() - before) / (4800 / 17);
  EXPECT_LE(per_release, 4U);
  EXPECT_EQ(stream.losses().Lost(LossUnit::kRecords), 0U);
}

// --- live ---

class ScriptedRings : public RawRecordSource {
 public:
  using Round = std::vector<std::string>;
  explicit ScriptedRings(std::vector<Round> rounds) : rounds_(std::move(rounds)) {}
  const RecordingDescription& description() const override { return description_; }
  Result<PollOutcome> Poll(RawRecordSink& sink, int) override {
    if (next_ == rounds_.size()) return PollOutcome::kEnd;
    for (std::string record : rounds_[next_]) {
      sink.OnRecord({AsBytes(record), 0});
      record.assign(record.size(), '\xee');
    }
    sink.OnRoundEnd();
    ++next_;
    return PollOutcome::kMore;
  }

 private:
  RecordingDescription description_ = OneEvent();
  std::vector<Round> rounds_;
  size_t next_ = 0;
};

TEST(LiveEventSource, OrdersTheRecordsOfAllRings) {
  const auto source = MakeEventSource(
      std::make_unique<ScriptedRings>(std::vector<ScriptedRings::Round>{
          {Sample(1, 10), Sample(2, 40), Sample(3, 20)}, {Sample(4, 30), Sample(5, 50)}, {}}),
      /*poll_timeout_ms=*/0);
  EventLog log;
  for (int polls = 0;; ++polls) {
    ASSERT_LT(polls, 10);
    const auto outcome = source->Poll(log);
    ASSERT_TRUE(outcome.has_value());
    if (*outcome == PollOutcome::kEnd) break;
  }
  EXPECT_THAT(log.lines, ElementsAre("@10 sample 0 1 1", "@20 sample 0 3 1", "@30 sample 0 4 1",
                                     "@40 sample 0 2 1", "@50 sample 0 5 1"));
  EXPECT_EQ(source->losses().kept(), 5U);
  EXPECT_TRUE(source->losses().Balances());
}

}  // namespace
}  // namespace ptarmigan
