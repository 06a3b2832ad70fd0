#include "decode/spe_stream.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "decode/record_types.h"
#include "tests/encoders/spe_encoder.h"
#include "tests/support/byte_writer.h"
#include "tests/support/perf_bytes.h"
#include "tests/support/test_data.h"
#include "tests/support/truth_table.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kPmuType = 9;
constexpr uint64_t kPc = 0xaaaac0001000 | uint64_t{1} << 63;
constexpr uint64_t kNeoverseN1 = 0x413fd0c1;
constexpr uint64_t kHip12 = 0x480fd060;

struct SeenRecord {
  SpeRecord record;
  SpeOrigin origin;
};

class CollectingSink : public SpeRecordSink {
 public:
  void OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) override {
    seen.push_back({record, origin});
  }
  std::vector<SeenRecord> seen;
};

// Events by hand, in the order in which a source would deliver them.
class Scene {
 public:
  explicit Scene(const SpeStream::Options& options = {}) : stream_(description_, options) {
    stream_.SetSink(&sink_);
    EventDescription& other = description_.events.emplace_back();
    other.attr.type = kPerfTypeSoftware;
    description_.events.emplace_back().attr.type = kPmuType;
  }

  void Other(uint32_t type, const ByteWriter& body, const RecordIdentity& identity = {}) {
    const std::string bytes = RecordBytes(type, 0, body.bytes());
    stream_.OnOther({.identity = identity, .type = type, .bytes = AsBytes(bytes)});
  }
  void InfoVersion1() {
    Other(kRecordAuxtraceInfo, ByteWriter().U32(4).U32(0).U64(kPmuType).U64(1));
  }
  void TimeConversion() {  // 10 ns a tick
    Other(kRecordTimeConv, ByteWriter().U64(0).U64(10).U64(1000));
  }
  void Aux(uint32_t cpu, uint64_t offset, uint64_t size, uint64_t flags = 0) {
    AuxEvent event;
    event.aux_offset = offset;
    event.size_bytes = size;
    event.flags = flags;
    event.identity.cpu = cpu;
    stream_.OnAux(event);
  }
  // The bytes are gone after the call, unless they outlive it.
  void Chunk(uint32_t cpu, uint64_t offset, std::string_view bytes, int32_t tid = -1,
             bool outlives = false) {
    const std::vector<std::byte> copy(AsBytes(bytes).begin(), AsBytes(bytes).end());
    AuxChunk chunk;
    chunk.size_bytes = bytes.size();
    chunk.offset = offset;
    chunk.reference = 1;
    chunk.cpu = cpu;
    chunk.tid = tid;
    chunk.data = outlives ? AsBytes(bytes) : Bytes(copy);
    chunk.data_outlives_call = outlives;
    stream_.OnAuxChunk(chunk);
  }
  void CameIn(uint32_t cpu, uint64_t time_ns, int32_t pid, int32_t tid) {
    SwitchEvent event;
    event.identity = {.pid = pid, .tid = tid, .time_ns = time_ns, .cpu = cpu, .has_time = true};
    stream_.OnSwitch(event);
  }
  void Comm(int32_t pid, int32_t tid) {
    CommEvent event;
    event.pid = pid;
    event.tid = tid;
    stream_.OnComm(event);
  }
  const std::vector<SeenRecord>& Finish() {
    stream_.Finish();
    const SpeStatistics& statistics = stream_.statistics();
    EXPECT_EQ(statistics.auxtrace_bytes, statistics.decode.bytes.Sum() +
                                             statistics.uncovered_bytes + statistics.refused_bytes);
    EXPECT_EQ(statistics.aux_bytes + statistics.bytes_without_record,
              statistics.decode.bytes.Sum() + statistics.missing_bytes);
    EXPECT_TRUE(stream_.losses().Balances());
    return sink_.seen;
  }

  RecordingDescription description_;
  CollectingSink sink_;
  SpeStream stream_;
};

std::string Record(uint64_t ticks, uint64_t pc = kPc) {
  return SpeEncoder().Address(0, pc).Operation(1, 0).Timestamp(ticks).PadTo(64).bytes();
}

std::vector<uint64_t> Ticks(const std::vector<SeenRecord>& seen) {
  std::vector<uint64_t> ticks;
  for (const SeenRecord& one : seen) ticks.push_back(one.record.timestamp());
  return ticks;
}

using Times = std::vector<uint64_t>;

TEST(SpeStream, PairsFragmentsWithBytesThatCameBeforeOrComeAfter) {
  Scene scene;
  scene.InfoVersion1();
  scene.Chunk(0, 0, Record(1) + Record(2));
  scene.Aux(0, 0, 64);
  EXPECT_EQ(Ticks(scene.sink_.seen), (Times{1}));
  scene.Aux(0, 64, 128);
  EXPECT_EQ(Ticks(scene.sink_.seen), (Times{1}));
  scene.Chunk(0, 128, Record(3));
  EXPECT_EQ(Ticks(scene.sink_.seen), (Times{1, 2, 3}));
  scene.Finish();
  EXPECT_EQ(scene.stream_.statistics().auxtrace_events, 1U);  // its second piece
}

TEST(SpeStream, DecodesTheSameFromPiecesOfAnySize) {
  SpeProgram program(11, {.record_align = 1, .aux_offset = 1 << 20});
  for (int i = 0; i < 40; ++i) program.AddRecord();
  const uint64_t start = 1 << 20;
  for (const size_t piece : {1U, 7U, 64U, 100000U}) {
    Scene scene;
    scene.InfoVersion1();
    for (size_t at = 0; at < program.bytes().size(); at += piece) {
      scene.Chunk(2, start + at, std::string_view(program.bytes()).substr(at, piece));
    }
    scene.Aux(2, start, program.bytes().size());
    const auto& seen = scene.Finish();
    ASSERT_EQ(seen.size(), program.records().size());
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].record.aux_offset, program.records()[i].aux_offset);
    }
    EXPECT_EQ(scene.stream_.statistics().auxtrace_events, 1U);
  }
}

TEST(SpeStream, CountsBytesOfNoFragmentAndFragmentsWithoutBytes) {
  Scene scene;
  scene.InfoVersion1();
  scene.Chunk(0, 0, Record(1) + Record(2) + Record(3));
  scene.Aux(0, 64, 64);   // the first record is not covered
  scene.Aux(0, 192, 64);  // its bytes never come
  scene.Aux(0, 256, 64);  // nor its beginning
  scene.Chunk(0, 300, Record(4));
  EXPECT_EQ(Ticks(scene.Finish()), (Times{2}));
  const SpeStatistics& statistics = scene.stream_.statistics();
  EXPECT_EQ(statistics.missing_bytes, 128U);
  EXPECT_EQ(statistics.uncovered_bytes, 64U + 64U + 64U);
  EXPECT_EQ(
      scene.stream_.losses().Lost(LossStage::kMerge, LossReason::kNoAuxRecord, LossUnit::kBytes),
      192U);
}

TEST(SpeStream, LeavesOutWhatPerfFillsChunksUpWith) {
  // 17 bytes and 7 of filling; the stream goes on behind the 17.
  const std::string record = SpeEncoder().Address(0, kPc).Raw("\x71\1\2\3\4\5\6\7\x8").bytes();
  const std::string first_chunk = record.substr(0, 17) + std::string(7, '\0');
  const std::string second_chunk = record.substr(17) + std::string(71, '\0');
  Scene scene;
  scene.InfoVersion1();
  scene.Chunk(0, 0, first_chunk, -1, true);
  scene.Chunk(0, 17, second_chunk, -1, true);
  scene.Aux(0, 0, 18);
  EXPECT_EQ(Ticks(scene.Finish()), (Times{0x0807060504030201}));
  EXPECT_EQ(scene.stream_.statistics().auxtrace_filling_bytes, 7U);
  EXPECT_EQ(scene.stream_.statistics().uncovered_bytes, 71U);  // more than filling at its end
  EXPECT_EQ(scene.stream_.statistics().auxtrace_bytes, 18U + 71U);
}

TEST(SpeStream, CountsFlagsAndKeepsAFragmentsTailApart) {
  Scene scene;
  scene.InfoVersion1();
  const std::string cut = Record(1) + Record(2).substr(0, 12);
  scene.Chunk(0, 0, cut + std::string(52, '\0') + Record(3));
  scene.Aux(0, 0, cut.size(), 1 | 4);
  scene.Aux(0, 128, 64, 8);
  EXPECT_EQ(Ticks(scene.Finish()), (Times{1, 3}));
  const SpeStatistics& statistics = scene.stream_.statistics();
  EXPECT_EQ(statistics.aux_truncated, 1U);
  EXPECT_EQ(statistics.aux_partial, 1U);
  EXPECT_EQ(statistics.aux_collision, 1U);
  EXPECT_EQ(statistics.decode.truncated_tail, 1U);
  EXPECT_EQ(scene.stream_.losses().Lost(LossStage::kParse, LossReason::kTruncatedTail), 1U);
}

TEST(SpeStream, ConvertsTimesAndExtendsShortCounters) {
  Scene scene;
  scene.InfoVersion1();
  scene.Other(kRecordTimeConv, ByteWriter()
                                   .U64(1)  // shift
                                   .U64(3)  // mult
                                   .U64(500)
                                   .U64(0x12340000)  // cycles
                                   .U64(0xffff)      // mask
                                   .U8(1)
                                   .U8(1));
  scene.Aux(0, 0, 64);
  scene.Chunk(0, 0, Record(0x10));
  const auto& seen = scene.Finish();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(seen[0].origin.identity.has_time);
  EXPECT_EQ(seen[0].origin.identity.time_ns, 500 + 0x12340010U / 2 * 3);
}

TEST(SpeStream, HasNoTimeWithoutAConversion) {
  Scene scene;
  scene.InfoVersion1();
  scene.Other(kRecordTimeConv, ByteWriter().U64(64).U64(1).U64(0));  // a shift that cannot be
  scene.Aux(0, 0, 64);
  scene.Chunk(0, 0, Record(5));
  EXPECT_FALSE(scene.Finish().at(0).origin.identity.has_time);
}

TEST(SpeStream, AsksContextThenSwitchesThenTheQueueForTheThread) {
  Scene scene;
  scene.InfoVersion1();
  scene.TimeConversion();
  scene.CameIn(0, 1000 + 100, 40, 41);
  scene.CameIn(0, 1000 + 200, 50, 51);
  scene.Comm(60, 61);
  const std::string with_context =
      SpeEncoder().Context(1, 61).Address(0, kPc).Timestamp(21).bytes();
  scene.Chunk(0, 0, Record(9) + Record(10) + Record(19) + Record(20) + with_context);
  scene.Aux(0, 0, 256 + with_context.size());
  const auto& seen = scene.Finish();
  ASSERT_EQ(seen.size(), 5U);
  const auto tid = [&seen](size_t i) { return seen[i].origin.identity.tid; };
  EXPECT_EQ(seen[0].origin.thread_source, SpeThreadSource::kNone);
  EXPECT_EQ(tid(0), -1);
  EXPECT_EQ(tid(1), 41);
  EXPECT_EQ(tid(2), 41);
  EXPECT_EQ(tid(3), 51);
  EXPECT_EQ(seen[3].origin.identity.pid, 50);
  EXPECT_EQ(seen[3].origin.thread_source, SpeThreadSource::kSwitch);
  EXPECT_EQ(tid(4), 61);
  EXPECT_EQ(seen[4].origin.identity.pid, 60);
  EXPECT_EQ(seen[4].origin.thread_source, SpeThreadSource::kContext);
}

TEST(SpeStream, KnowsTheThreadOfARecordingPerThread) {
  Scene scene;
  scene.InfoVersion1();
  AuxEvent event;
  event.size_bytes = 64;
  event.identity.tid = 71;
  scene.stream_.OnAux(event);
  TaskEvent fork;
  fork.pid = 70;
  fork.tid = 71;
  scene.stream_.OnFork(fork);
  scene.Chunk(RecordIdentity::kNoCpu, 0, Record(1), 71);
  const auto& seen = scene.Finish();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].origin.identity.tid, 71);
  EXPECT_EQ(seen[0].origin.identity.pid, 70);
  EXPECT_EQ(seen[0].origin.identity.cpu, RecordIdentity::kNoCpu);
  EXPECT_EQ(seen[0].origin.thread_source, SpeThreadSource::kAuxtrace);
}

TEST(SpeStream, ReadsMetadataVersion2WithUnknownWords) {
  constexpr uint64_t kMagic = 0x1010101010101010;
  Scene scene;
  scene.description_.cpuid = "0x00000000413fd0c1";
  scene.Other(kRecordAuxtraceInfo,
              ByteWriter()
                  .U32(4)
                  .U32(0)
                  .U64(2)  // version
                  .U64(5)  // header words, one of which nobody knows
                  .U64(kPmuType)
                  .U64(2)  // CPUs
                  .U64(0xdead)
                  .U64(kMagic)
                  .U64(3)  // CPU
                  .U64(6)  // parameters
                  .U64(kNeoverseN1)
                  .U64(UINT64_MAX)
                  .U64(1)
                  .U64(2)
                  .U64(0xdead)
                  .U64(0xdead)
                  .U64(kMagic)
                  .U64(4)
                  .U64(2)
                  .U64(kHip12)
                  .U64(kPmuType));
  for (const uint32_t cpu : {3U, 4U, 5U}) {
    scene.Chunk(cpu, 0, Record(cpu));
    scene.Aux(cpu, 0, 64);
  }
  const auto& seen = scene.Finish();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].origin.data_sources->family, "common");
  EXPECT_EQ(seen[1].origin.data_sources->family, "hip12");
  EXPECT_EQ(seen[2].origin.data_sources->family, "");  // no metadata
  EXPECT_EQ(seen[1].origin.event, 1U);
}

TEST(SpeStream, TakesTheCpuOfTheRecordingWithMetadataVersion1) {
  Scene scene;
  scene.description_.cpuid = "0x00000000480fd060";
  scene.InfoVersion1();
  scene.Chunk(0, 0, Record(1));
  scene.Aux(0, 0, 64);
  EXPECT_EQ(scene.Finish().at(0).origin.data_sources->family, "hip12");
}

TEST(SpeStream, LearnsTheWidthOfCounters) {
  Scene scene;
  scene.InfoVersion1();
  const std::string narrow = SpeEncoder().Address(0, kPc).Counter(0, 4095).End().bytes();
  const std::string wide = SpeEncoder().Address(0, kPc).Counter(1, 4096).End().bytes();
  scene.Chunk(0, 0, narrow + wide + narrow);
  scene.Aux(0, 0, narrow.size() * 2 + wide.size());
  const auto& seen = scene.Finish();
  EXPECT_EQ(seen.at(0).origin.counter_max, 4095);
  EXPECT_EQ(seen.at(1).origin.counter_max, 65535);
  EXPECT_EQ(seen.at(2).origin.counter_max, 65535);
}

TEST(SpeStream, DecodesSnapshotsAndBuffersWithoutAuxRecordsAtTheEnd) {
  const std::string first = Record(1) + Record(2);
  const std::string second = Record(2) + Record(3);
  Scene scene;
  scene.InfoVersion1();
  scene.Chunk(0, 0, first, -1, true);
  scene.Aux(0, 128, 0, 2);
  scene.Chunk(0, 64, second, -1, true);  // overlaps the first
  scene.Chunk(1, 0, Record(4));
  EXPECT_EQ(Ticks(scene.sink_.seen), Times());
  EXPECT_EQ(Ticks(scene.Finish()), (Times{1, 2, 3, 4}));
  EXPECT_EQ(scene.stream_.statistics().uncovered_bytes, 64U);
  EXPECT_EQ(scene.stream_.statistics().bytes_without_record, 256U);
}

TEST(SpeStream, RefusesWhatIsBeyondItsBounds) {
  Scene scene({.copied_bytes_max = 128, .waiting_max = 3});
  scene.InfoVersion1();
  scene.Chunk(0, 0, Record(1) + Record(2));
  scene.Chunk(1, 0, Record(3));  // one byte too many
  scene.Aux(0, 0, 64);
  scene.Aux(1, 0, 64);
  scene.Aux(0, 64, 64);
  EXPECT_EQ(Ticks(scene.Finish()), (Times{1, 2}));
  EXPECT_EQ(scene.stream_.statistics().refused_bytes, 64U);
  EXPECT_EQ(scene.stream_.statistics().missing_bytes, 64U);
}

TEST(SpeStream, DoesNothingInARecordingOfAnotherTrace) {
  Scene scene;
  scene.Other(kRecordAuxtraceInfo, ByteWriter().U32(1).U32(0).U64(0).U64(0).U64(0));
  scene.Chunk(0, 0, Record(1));
  scene.Aux(0, 0, 64);
  EXPECT_FALSE(scene.stream_.active());
  EXPECT_TRUE(scene.Finish().empty());
  EXPECT_EQ(scene.stream_.statistics().aux_records, 0U);
}

// --- recordings with truth ---

class StreamSink : public EventSink {
 public:
  explicit StreamSink(SpeStream* stream) : stream_(stream) {}
  void OnComm(const CommEvent& event) override { stream_->OnComm(event); }
  void OnFork(const TaskEvent& event) override { stream_->OnFork(event); }
  void OnSwitch(const SwitchEvent& event) override { stream_->OnSwitch(event); }
  void OnAux(const AuxEvent& event) override { stream_->OnAux(event); }
  void OnAuxChunk(const AuxChunk& chunk) override { stream_->OnAuxChunk(chunk); }
  void OnOther(const OtherRecord& record) override { stream_->OnOther(record); }

 private:
  SpeStream* stream_;
};

TEST(SpeStream, ArrivesAtTheTotalsOfEveryRecording) {
  const std::string path = TestDataPath("mem-synth/totals.tsv");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("mem-synth");
  std::map<std::string, std::map<std::string, uint64_t>> totals;
  const TruthTable table(ReadTestFile(path));
  for (size_t row = 0; row < table.size(); ++row) {
    const std::string file(table.Cell(row, "file"));
    if (!file.starts_with("spe-")) continue;
    totals[file][std::string(table.Cell(row, "key"))] =
        std::stoull(std::string(table.Cell(row, "value")));
  }
  ASSERT_EQ(totals.size(), 11U);
  for (const auto& [file, expected] : totals) {
    SCOPED_TRACE(file);
    auto source = OpenPerfData(TestDataPath("mem-synth/" + file + ".perf.data"));
    ASSERT_TRUE(source.has_value());
    CollectingSink records;
    SpeStream stream((*source)->description());
    stream.SetSink(&records);
    StreamSink sink(&stream);
    while (*(*source)->Poll(sink) != PollOutcome::kEnd) {
    }
    stream.Finish();
    const SpeStatistics& s = stream.statistics();
    std::map<std::string, uint64_t> actual = {{"aux_bytes", s.aux_bytes},
                                              {"aux_records", s.aux_records},
                                              {"auxtrace_bytes", s.auxtrace_bytes},
                                              {"auxtrace_events", s.auxtrace_events},
                                              {"bad_packet_resyncs", s.decode.bad_packet_resyncs},
                                              {"dropped_bad_packet", s.decode.bad_packet},
                                              {"dropped_el3", s.decode.el3},
                                              {"dropped_no_pc", s.decode.no_pc},
                                              {"dropped_secure", s.decode.secure},
                                              {"dropped_truncated_tail", s.decode.truncated_tail},
                                              {"records_in_stream", s.decode.RecordsInStream()},
                                              {"records_reported", s.decode.records}};
    for (const auto& [key, value] : {std::pair{"aux_collision", s.aux_collision},
                                     {"aux_partial", s.aux_partial},
                                     {"aux_truncated", s.aux_truncated},
                                     {"garbage_slots", s.GarbageSlots()}}) {
      if (value != 0 || expected.contains(key)) actual[key] = value;
    }
    EXPECT_EQ(actual, expected);
    EXPECT_EQ(records.seen.size(), s.decode.records);
    EXPECT_EQ(s.auxtrace_bytes, s.decode.bytes.Sum() + s.uncovered_bytes + s.refused_bytes);
    EXPECT_EQ(s.missing_bytes, 0U);
    EXPECT_TRUE(stream.losses().Balances());
  }
}

}  // namespace
}  // namespace ptarmigan
