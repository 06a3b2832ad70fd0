#include "decode/trace_streams.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "decode/perf_data_file.h"
#include "decode/record_types.h"
#include "model/event_source.h"
#include "tests/support/byte_writer.h"
#include "tests/support/perf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kIntelPt = 1;
constexpr uint32_t kPmuType = 10;
constexpr uint64_t kTruncated = 1;
constexpr uint64_t kRawFormat = 0x100;

class Scene {
 public:
  explicit Scene(const TraceStreams::Options& options = {}) : streams_(description_, options) {
    description_.events.emplace_back().attr.type = kPmuType;
    description_.events.back().attr.config = 0x300e601;
  }
  void Other(uint32_t type, const ByteWriter& body, const RecordIdentity& identity = {}) {
    const std::string bytes = RecordBytes(type, 0, body.bytes());
    streams_.OnOther({.identity = identity, .type = type, .bytes = AsBytes(bytes)});
  }
  void IntelPt() {
    ByteWriter body;
    body.U32(kIntelPt).U32(0).U64(kPmuType);
    for (int word = 0; word < 16; ++word) body.U64(0);
    Other(kRecordAuxtraceInfo, body);
  }
  void CoreSight() {
    ByteWriter body;
    body.U32(3).U32(0).U64(1).U64(uint64_t{kPmuType} << 32 | 1).U64(0);
    body.U64(0x4040404040404040)
        .U64(2)
        .U64(7)
        .U64(0x40)
        .U64(0x14)
        .U64(1)
        .U64(2)
        .U64(3)
        .U64(4)
        .U64(5);
    Other(kRecordAuxtraceInfo, body);
  }
  void Chunk(uint32_t cpu, int32_t tid, uint64_t offset, std::string_view bytes,
             bool outlives = false) {
    const std::vector<std::byte> copy(AsBytes(bytes).begin(), AsBytes(bytes).end());
    AuxChunk chunk;
    chunk.size_bytes = bytes.size();
    chunk.offset = offset;
    chunk.reference = offset + 1;
    chunk.cpu = cpu;
    chunk.tid = tid;
    chunk.data = outlives ? AsBytes(bytes) : Bytes(copy);
    chunk.data_outlives_call = outlives;
    streams_.OnAuxChunk(chunk);
  }
  void Aux(uint32_t cpu, int32_t tid, uint64_t offset, uint64_t size, uint64_t flags = 0) {
    AuxEvent event;
    event.aux_offset = offset;
    event.size_bytes = size;
    event.flags = flags;
    event.identity.cpu = cpu;
    event.identity.tid = tid;
    streams_.OnAux(event);
  }
  void SwitchIn(uint32_t cpu, uint64_t time_ns, int32_t pid, int32_t tid) {
    SwitchEvent event;
    event.identity.cpu = cpu;
    event.identity.pid = pid;
    event.identity.tid = tid;
    event.identity.has_time = true;
    event.identity.time_ns = time_ns;
    streams_.OnSwitch(event);
  }
  const std::vector<TraceStream>& Finish() {
    streams_.Finish();
    return streams_.streams();
  }
  TraceStreams& streams() { return streams_; }

 private:
  RecordingDescription description_;
  TraceStreams streams_;
};

constexpr uint32_t kNoCpu = RecordIdentity::kNoCpu;

TEST(TraceStreams, JoinsTheChunksOfABufferInTheOrderOfItsBytes) {
  Scene scene;
  scene.IntelPt();
  scene.Chunk(kNoCpu, 7, 0, "abcdefgh");
  scene.Chunk(kNoCpu, 8, 0, "xy");
  scene.Chunk(kNoCpu, 7, 8, "ijk");
  const auto& streams = scene.Finish();
  ASSERT_EQ(streams.size(), 2U);
  EXPECT_EQ(AsText(streams[0].bytes), "abcdefghijk");
  EXPECT_EQ(streams[0].tid, 7);
  EXPECT_EQ(AsText(streams[1].bytes), "xy");
  EXPECT_EQ(scene.streams().counts().bytes, 13U);
}

TEST(TraceStreams, BorrowsBytesThatStay) {
  Scene scene;
  scene.IntelPt();
  const std::string bytes = "of a mapped file";
  scene.Chunk(kNoCpu, 7, 0, bytes, /*outlives=*/true);
  const auto& streams = scene.Finish();
  ASSERT_EQ(streams.size(), 1U);
  EXPECT_EQ(streams[0].bytes.data(), AsBytes(bytes).data());
}

TEST(TraceStreams, StartANewStreamWhereBytesAreMissing) {
  Scene scene;
  scene.IntelPt();
  scene.Chunk(0, -1, 0, "abcdefgh");
  scene.Chunk(0, -1, 16, "qrstuvwx");
  const auto& streams = scene.Finish();
  ASSERT_EQ(streams.size(), 2U);
  EXPECT_EQ(streams[1].begin_offset, 16U);
}

TEST(TraceStreams, CountOverlappingSnapshotsOnce) {
  Scene scene;
  scene.IntelPt();
  scene.Chunk(0, -1, 100, "abcdefgh");
  scene.Chunk(0, -1, 104, "efghijkl");
  const auto& streams = scene.Finish();
  ASSERT_EQ(streams.size(), 1U);
  EXPECT_EQ(AsText(streams[0].bytes), "abcdefghijkl");
  EXPECT_EQ(scene.streams().counts().repeated_bytes, 4U);
}

TEST(TraceStreams, BreakWhereTheKernelLostSome) {
  Scene scene;
  scene.IntelPt();
  scene.Aux(3, -1, 0, 6);
  scene.Aux(3, -1, 6, 4, kTruncated);
  scene.Chunk(3, -1, 0, "abcdefghijklmnop");
  const auto& streams = scene.Finish();
  ASSERT_EQ(streams.size(), 1U);
  EXPECT_EQ(streams[0].breaks, (std::vector<uint64_t>{10}));
  ASSERT_EQ(streams[0].pieces.size(), 2U);
  EXPECT_TRUE(streams[0].pieces[1].is_lossy);
  EXPECT_EQ(scene.streams().counts().aux_truncated, 1U);
}

TEST(TraceStreams, KnowWhoRanOnTheBuffersCpu) {
  Scene scene;
  scene.IntelPt();
  scene.SwitchIn(3, 200, 10, 11);
  scene.SwitchIn(3, 100, 20, 20);
  scene.SwitchIn(4, 150, 30, 30);
  scene.Chunk(3, -1, 0, "abc");
  const auto& streams = scene.Finish();
  ASSERT_EQ(streams.size(), 1U);
  ASSERT_EQ(streams[0].stints.size(), 2U);
  EXPECT_EQ(streams[0].stints[0].tid, 20);
  EXPECT_EQ(streams[0].stints[1].tid, 11);
  EXPECT_EQ(streams[0].stints[1].since_ns, 200U);
}

TEST(TraceStreams, KnowTheProcessOfAThreadsBuffer) {
  Scene scene;
  scene.IntelPt();
  scene.Other(kRecordItraceStart, ByteWriter().U32(5).U32(7));
  scene.Chunk(kNoCpu, 7, 0, "abc");
  const auto& streams = scene.Finish();
  ASSERT_EQ(streams.size(), 1U);
  ASSERT_EQ(streams[0].stints.size(), 1U);
  EXPECT_EQ(streams[0].stints[0].pid, 5);
}

TEST(TraceStreams, OfCoreSightSayWhichPiecesAreFramed) {
  Scene scene;
  scene.CoreSight();
  EXPECT_EQ(scene.streams().kind(), TraceKind::kCoreSight);
  scene.Aux(2, -1, 0, 4);
  scene.Aux(2, -1, 4, 4, kRawFormat);
  scene.Chunk(2, -1, 0, "abcdefgh");
  const auto& streams = scene.Finish();
  ASSERT_EQ(streams.size(), 1U);
  ASSERT_EQ(streams[0].pieces.size(), 2U);
  EXPECT_TRUE(streams[0].pieces[0].is_formatted);
  EXPECT_FALSE(streams[0].pieces[1].is_formatted);
  EXPECT_EQ(scene.streams().trace_ids().at(2), 0x14);
}

TEST(TraceStreams, KeepWithinTheirBounds) {
  Scene scene({.copied_bytes_max = 10, .streams_max = 2});
  scene.IntelPt();
  scene.Chunk(0, -1, 0, "12345678");
  scene.Chunk(1, -1, 0, "12345678");  // too many bytes
  scene.Chunk(2, -1, 0, "1");         // too many streams
  const auto& streams = scene.Finish();
  EXPECT_EQ(streams.size(), 1U);
  EXPECT_EQ(scene.streams().counts().refused_bytes, 9U);
}

class StreamsSink : public EventSink {
 public:
  explicit StreamsSink(TraceStreams* streams) : streams_(streams) {}
  void OnSample(const CapturedSample& event) override { streams_->OnSample(event); }
  void OnOther(const OtherRecord& event) override { streams_->OnOther(event); }
  void OnAux(const AuxEvent& event) override { streams_->OnAux(event); }
  void OnAuxChunk(const AuxChunk& event) override { streams_->OnAuxChunk(event); }
  void OnSwitch(const SwitchEvent& event) override { streams_->OnSwitch(event); }
  void OnComm(const CommEvent& event) override { streams_->OnComm(event); }
  void OnFork(const TaskEvent& event) override { streams_->OnFork(event); }

 private:
  TraceStreams* streams_;
};

TEST(TraceStreams, OfARecordingOfManyModesAreWhole) {
  struct Expected {
    std::string file;
    size_t streams;
    uint64_t bytes_min;
  };
  for (const Expected& expected :
       {Expected{"pt-synth/shapes.chunked.perf.data", 1, 1000},
        Expected{"pt-synth/threads.perthread-ret-cyc.perf.data", 3, 1000},
        Expected{"pt-synth/threads.percpu-cyc.perf.data", 1, 1000},
        Expected{"simpleperf/perf_etm.data", 1, 0x150}}) {
    const std::string path = TestDataPath(expected.file);
    if (path.empty()) GTEST_SKIP() << TestDataMissing(expected.file);
    auto source = OpenPerfData(path);
    ASSERT_TRUE(source);
    TraceStreams streams((*source)->description());
    StreamsSink sink(&streams);
    for (;;) {
      auto outcome = (*source)->Poll(sink);
      ASSERT_TRUE(outcome);
      if (*outcome == PollOutcome::kEnd) break;
    }
    streams.Finish();
    EXPECT_EQ(streams.streams().size(), expected.streams) << expected.file;
    EXPECT_GE(streams.counts().bytes, expected.bytes_min) << expected.file;
    for (const TraceStream& stream : streams.streams()) EXPECT_GE(stream.stints.front().tid, 0);
  }
}

}  // namespace
}  // namespace ptarmigan
