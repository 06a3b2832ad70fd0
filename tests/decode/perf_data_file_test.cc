#include "decode/perf_data_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <thread>

#include "base/file.h"
#include "decode/internal/feature_sections.h"
#include "decode/internal/perf_data_source.h"
#include "decode/record_types.h"
#include "tests/support/event_log.h"
#include "tests/support/perf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kPollsMax = 100000;

// Polls until the end.
void DrainInto(EventSource* source, EventLog* log) {
  for (int polls = 0;; ++polls) {
    ASSERT_LT(polls, kPollsMax);
    const auto outcome = source->Poll(*log);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    if (*outcome == PollOutcome::kEnd) break;
  }
  EXPECT_TRUE(source->losses().Balances());
}

struct Read {
  std::unique_ptr<std::string> bytes;
  std::unique_ptr<EventSource> source;
  EventLog log;
  const RecordingDescription& description() const { return source->description(); }
  uint64_t Lost(LossStage stage, LossReason reason, LossUnit unit = LossUnit::kRecords) const {
    return source->losses().Lost(stage, reason, unit);
  }
};

Read ReadBytes(const std::string& bytes) {
  Read read;
  read.bytes = std::make_unique<std::string>(bytes);
  auto source = OpenPerfDataBytes(AsBytes(*read.bytes), "fixture");
  if (!source) {
    ADD_FAILURE() << source.error().message;
    return read;
  }
  read.source = *std::move(source);
  DrainInto(read.source.get(), &read.log);
  return read;
}

std::string ErrorOf(const std::string& bytes) {
  const auto source = OpenPerfDataBytes(AsBytes(bytes), "fixture");
  return source ? "no error" : source.error().message;
}

std::string WriteFile(const std::string& path, const std::string& bytes) {
  auto fd = OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  EXPECT_TRUE(fd.has_value());
  EXPECT_TRUE(WriteAll(fd->get(), AsBytes(bytes), path).has_value());
  return path;
}

Read ReadPath(const std::string& path) {
  Read read;
  auto source = OpenPerfData(path);
  if (!source) {
    ADD_FAILURE() << source.error().message;
    return read;
  }
  read.source = *std::move(source);
  DrainInto(read.source.get(), &read.log);
  return read;
}

// Two rings, two rounds, one event.
PerfFileBuilder SmallRecording(std::endian order = std::endian::little) {
  PerfFileBuilder builder(order);
  builder.AddAttr(PerfAttr());
  builder.AddMmap(
      {.who = {.pid = 7, .tid = 7}, .start = 0x1000, .length = 0x1000, .path = "/bin/a"});
  builder.AddComm({.pid = 7, .tid = 7, .time_ns = 10}, "a");
  builder.AddSample({.ip = 0x1100, .who = {.pid = 7, .tid = 7, .time_ns = 40}});
  builder.AddSample({.ip = 0x1200, .who = {.pid = 7, .tid = 8, .time_ns = 20, .cpu = 1}});
  builder.AddFinishedRound();
  builder.AddSample(
      {.ip = 0x1300, .who = {.pid = 7, .tid = 8, .time_ns = 30, .cpu = 1}, .period = 5});
  builder.AddFinishedRound();
  builder.AddFeature(kFeatureHostname, HeaderString("box", order));
  builder.AddFeature(kFeatureArch, HeaderString("x86_64", order));
  return builder;
}

const std::vector<std::string>& SmallRecordingsLines() {
  static const std::vector<std::string> kLines = {"@0 mmap /bin/a", "@10 comm 7/7 a",
                                                  "@20 sample 0 1200 1", "@30 sample 0 1300 5",
                                                  "@40 sample 0 1100 1"};
  return kLines;
}

// --- shapes of files ---

TEST(PerfDataFile, ReadsBothByteOrdersInFileAndPipeMode) {
  for (const std::endian order : {std::endian::little, std::endian::big}) {
    for (const bool pipe : {false, true}) {
      const PerfFileBuilder builder = SmallRecording(order);
      const Read read = ReadBytes(pipe ? builder.Pipe() : builder.File());
      EXPECT_EQ(read.log.lines, SmallRecordingsLines());
      EXPECT_EQ(read.description().hostname, "box");
      EXPECT_EQ(read.description().arch, Arch::kX86_64);
      EXPECT_EQ(read.description().byte_order, order);
      EXPECT_EQ(read.description().source, pipe ? "perf.data (pipe)" : "perf.data");
      EXPECT_EQ(read.description().events.front().name, "cycles");
      EXPECT_FALSE(read.description().cut_short);
      EXPECT_EQ(read.source->losses().Sentence(), "");
      EXPECT_EQ(read.source->losses().kept(), 3U);
      EXPECT_EQ(read.source->Progress(), 1.0);
    }
  }
}

TEST(PerfDataFile, ReadsVersion1) {
  for (const std::endian order : {std::endian::little, std::endian::big}) {
    const Read read = ReadBytes(SmallRecording(order).File(/*version_1=*/true));
    EXPECT_EQ(read.log.lines, SmallRecordingsLines());
    EXPECT_EQ(read.description().hostname, "box");
  }
}

TEST(PerfDataFile, ReadsAttrsOfAnyAge) {
  for (const uint32_t size : {64U, 72U, 96U, 112U, 136U, 144U, 512U}) {
    PerfFileBuilder builder;
    PerfAttr attr;
    attr.size_bytes = size;
    attr.ids = {5};
    builder.AddAttr(attr);
    builder.AddSample({.ip = 1, .who = {.pid = 1, .tid = 1, .time_ns = 1}});
    for (const std::string& bytes : {builder.File(), builder.Pipe()}) {
      const Read read = ReadBytes(bytes);
      EXPECT_EQ(read.log.samples.size(), 1U) << size;
      EXPECT_THAT(read.description().events.front().ids, ElementsAre(5)) << size;
    }
  }
}

TEST(PerfDataFile, HandsOutBuildIdsBeforeAnythingElse) {
  PerfFileBuilder builder = SmallRecording();
  builder.AddFeature(kFeatureBuildId, RecordBytes(0, 2,
                                                  builder.Writer()
                                                      .U32(7)
                                                      .Text(std::string(20, '\x42'))
                                                      .U32(0)
                                                      .Text(PaddedName("/bin/a"))
                                                      .bytes()));
  const Read read = ReadBytes(builder.File());
  ASSERT_FALSE(read.log.lines.empty());
  EXPECT_EQ(read.log.lines.front(), "build id 4242424242424242424242424242424242424242 /bin/a");
  EXPECT_EQ(read.description().build_ids.size(), 1U);
}

TEST(PerfDataFile, GrowsItsDescriptionInPipeMode) {
  PerfFileBuilder builder;
  PerfAttr attr;
  attr.type = kPerfTypeRaw;
  attr.config = 0x1cd;
  attr.ids = {9};
  builder.AddAttr(attr);
  const ByteWriter body =
      builder.Writer().U32(7).Text(std::string(20, '\x42')).U32(0).Text(PaddedName("/bin/a"));
  builder.AddRecord(kRecordHeaderBuildId, 2, body.bytes());
  builder.AddRecord(kRecordEventUpdate, 0,
                    builder.Writer().U64(2).U64(9).Text(PaddedName("mem-loads")).bytes());
  builder.AddRecord(kRecordHeaderTracingData, 0,
                    builder.Writer().U32(5).Text("trace").PadTo(8).bytes().substr(0, 4));
  builder.AddBytes(std::string("trace\0\0\0", 8));
  builder.AddSample({.ip = 1, .who = {.pid = 1, .tid = 1, .time_ns = 1}});
  const Read read = ReadBytes(builder.Pipe());
  EXPECT_THAT(
      read.log.lines,
      ElementsAre("build id 4242424242424242424242424242424242424242 /bin/a", "@1 sample 0 1 1"));
  EXPECT_EQ(read.description().events.front().name, "mem-loads");
  EXPECT_EQ(read.description().tracing_data, "trace");
  EXPECT_EQ(read.description().build_ids.size(), 1U);
}

TEST(PerfDataFile, DoesNotCountAnAttrTwiceThatIsInTheHeaderToo) {
  PerfFileBuilder builder;
  PerfAttr attr;
  attr.ids = {9};
  builder.AddAttr(attr);
  builder.AddRecord(kRecordHeaderAttr, 0,
                    AttrBytes(attr, std::endian::little) + builder.Writer().U64(9).bytes());
  const Read read = ReadBytes(builder.File());
  EXPECT_EQ(read.description().events.size(), 1U);
}

TEST(PerfDataFile, ReadsFilesFifosAndDirectories) {
  const std::string directory = TestTemporaryDirectory();
  const std::string file = WriteFile(directory + "/perf.data", SmallRecording().File());
  EXPECT_EQ(ReadPath(file).log.lines, SmallRecordingsLines());

  for (const bool pipe_mode : {true, false}) {
    const std::string fifo = directory + (pipe_mode ? "/pipe" : "/file");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    const PerfFileBuilder builder = SmallRecording();
    std::thread writer([&] {
      const std::string bytes = pipe_mode ? builder.Pipe() : builder.File();
      const auto fd = OpenFile(fifo, O_WRONLY);
      ASSERT_TRUE(fd.has_value());
      // In small pieces, so that records lie across reads.
      for (size_t at = 0; at < bytes.size(); at += 37) {
        ASSERT_TRUE(WriteAll(
            fd->get(), AsBytes(bytes).subspan(at, std::min<size_t>(37, bytes.size() - at)), fifo));
      }
    });
    const Read read = ReadPath(fifo);
    writer.join();
    EXPECT_EQ(read.log.lines, SmallRecordingsLines());
  }
}

TEST(PerfDataFile, MergesTheFilesOfADirectory) {
  const std::string directory = TestTemporaryDirectory();
  PerfFileBuilder main_file;
  main_file.AddAttr(PerfAttr());
  main_file.AddMmap(
      {.who = {.pid = 7, .tid = 7}, .start = 0x1000, .length = 0x1000, .path = "/bin/a"});
  main_file.AddFinishedRound();
  main_file.AddFeature(kFeatureDirFormat, main_file.Writer().U64(1).bytes());
  WriteFile(directory + "/data", main_file.File());
  for (uint32_t cpu = 0; cpu < 3; ++cpu) {
    PerfFileBuilder part;
    for (uint64_t i = 0; i < 3; ++i) {
      part.AddSample(
          {.ip = 0x1000 + i, .who = {.pid = 7, .tid = 7, .time_ns = 1 + 3 * i + cpu, .cpu = cpu}});
    }
    WriteFile(StrFormat("{}/data.{}", directory, cpu), part.data());
  }
  WriteFile(directory + "/data.notapart", "x");
  const Read read = ReadPath(directory);
  ASSERT_EQ(read.log.samples.size(), 9U);
  for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(read.log.samples[i].identity.time_ns, i + 1);
  EXPECT_EQ(read.log.lines.front(), "@0 mmap /bin/a");
  EXPECT_EQ(read.source->losses().Sentence(), "");
}

TEST(PerfDataFile, RecognisesRecordingsByTheirFirstBytes) {
  EXPECT_TRUE(IsPerfData(AsBytes("PERFILE2")));
  EXPECT_TRUE(IsPerfData(AsBytes("2ELIFREP...")));
  EXPECT_TRUE(IsPerfData(AsBytes("PERFFILE")));
  EXPECT_FALSE(IsPerfData(AsBytes("PERFILE")));
  EXPECT_FALSE(IsPerfData(AsBytes("")));
  EXPECT_FALSE(IsPerfData(AsBytes("\x1f\x8b\x08.....")));
}

// --- AUX area ---

TEST(PerfDataFile, HandsOutAuxDataThatFollowsItsRecord) {
  PerfFileBuilder builder = SmallRecording();
  builder.AddRecord(kRecordAuxtrace, 0,
                    builder.Writer().U64(16).U64(4096).U64(1).U32(2).U32(7).U32(3).U32(0).bytes());
  builder.AddBytes("aux data 16bytes");
  builder.AddSample({.ip = 0x1400, .who = {.pid = 7, .tid = 8, .time_ns = 50}});
  for (const std::string& bytes : {builder.File(), builder.Pipe()}) {
    const Read read = ReadBytes(bytes);
    EXPECT_EQ(read.log.aux_data, "aux data 16bytes");
    EXPECT_THAT(read.log.lines, ::testing::Contains("aux chunk 4096+16 cpu 3"));
    EXPECT_EQ(read.log.samples.size(), 4U);
  }
}

TEST(PerfDataFile, CutsAuxDataFromAPipeIntoPieces) {
  constexpr size_t kSize = internal::PerfDataSource::kAuxPieceBytes + 100;
  PerfFileBuilder builder = SmallRecording();
  builder.AddRecord(kRecordAuxtrace, 0,
                    builder.Writer().U64(kSize).U64(0).U64(1).U32(2).U32(7).U32(3).U32(0).bytes());
  builder.AddBytes(std::string(kSize, 'a'));
  builder.AddSample({.ip = 0x1400, .who = {.pid = 7, .tid = 8, .time_ns = 50}});
  const std::string fifo = TestTemporaryDirectory() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&] {
    const auto fd = OpenFile(fifo, O_WRONLY);
    ASSERT_TRUE(fd.has_value());
    ASSERT_TRUE(WriteAll(fd->get(), AsBytes(builder.Pipe()), fifo));
  });
  const Read read = ReadPath(fifo);
  writer.join();
  EXPECT_THAT(read.log.lines, ::testing::Contains("aux chunk 0+8388608 cpu 3"));
  EXPECT_THAT(read.log.lines, ::testing::Contains("aux chunk 8388608+100 cpu 3"));
  EXPECT_EQ(read.log.aux_data.size(), kSize);
  EXPECT_EQ(read.log.samples.size(), 4U);
}

TEST(PerfDataFile, CountsAuxDataBeyondTheEndOfTheFile) {
  PerfFileBuilder builder = SmallRecording();
  builder.AddRecord(
      kRecordAuxtrace, 0,
      builder.Writer().U64(uint64_t{1} << 60).U64(0).U64(1).U32(2).U32(7).U32(3).U32(0).bytes());
  builder.AddBytes("rest");
  for (const std::string& bytes : {builder.File(), builder.Pipe()}) {
    const Read read = ReadBytes(bytes);
    EXPECT_EQ(read.log.aux_data, "rest");
    EXPECT_EQ(read.Lost(LossStage::kRead, LossReason::kTruncated, LossUnit::kBytes),
              (uint64_t{1} << 60) - 4);
    EXPECT_EQ(read.log.samples.size(), 3U);
    EXPECT_TRUE(read.description().cut_short);
  }
}

// --- compression ---

// One zstd stream over `data`, cut into COMPRESSED or COMPRESSED2 records of at most `piece` compressed bytes.
std::string Compressed(const std::string& data, size_t piece, bool version_2) {
  std::string packed(ZSTD_compressBound(data.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), data.data(), data.size(), 1));
  std::string records;
  for (size_t at = 0; at < packed.size(); at += piece) {
    const std::string part = packed.substr(at, piece);
    if (version_2) {
      records += RecordBytes(kRecordCompressed2, 0,
                             ByteWriter().U64(part.size()).Text(part).PadTo(8, 0xff).bytes());
    } else {
      records += RecordBytes(kRecordCompressed, 0, part);
    }
  }
  return records;
}

TEST(PerfDataFile, InflatesRecordsThatGoOnInTheNextPiece) {
  const PerfFileBuilder plain = SmallRecording();
  for (const bool version_2 : {false, true}) {
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}}) {
      PerfFileBuilder builder;
      builder.AddAttr(PerfAttr());
      builder.AddBytes(Compressed(plain.data(), piece, version_2));
      for (const std::string& bytes : {builder.File(), builder.Pipe()}) {
        const Read read = ReadBytes(bytes);
        EXPECT_EQ(read.log.lines, SmallRecordingsLines()) << piece;
        EXPECT_EQ(read.source->losses().Sentence(), "");
      }
    }
  }
}

TEST(PerfDataFile, InflatesMoreThanOneOutputPiece) {
  PerfFileBuilder plain;
  for (uint64_t i = 1; i <= 20000; ++i) {
    plain.AddSample({.ip = i, .who = {.pid = 1, .tid = 1, .time_ns = i}});
  }
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  builder.AddBytes(Compressed(plain.data(), 60000, false));
  const Read read = ReadBytes(builder.File());
  ASSERT_EQ(read.log.samples.size(), 20000U);
  EXPECT_EQ(read.log.samples.back().ip.value, 20000U);
}

TEST(PerfDataFile, CountsABlockThatDoesNotInflateAndGoesOn) {
  const PerfFileBuilder plain = SmallRecording();
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  builder.AddRecord(kRecordCompressed, 0, "this is not zstd");
  builder.AddBytes(Compressed(plain.data(), 1000, false));
  builder.AddRecord(kRecordCompressed2, 0, ByteWriter().U64(1 << 20).Text("not zstd").bytes());
  const Read read = ReadBytes(builder.File());
  EXPECT_EQ(read.log.lines, SmallRecordingsLines());
  EXPECT_EQ(read.Lost(LossStage::kParse, LossReason::kBadCompression), 2U);
  EXPECT_EQ(read.Lost(LossStage::kParse, LossReason::kBadSize), 1U);
}

TEST(PerfDataFile, FindsTheNextRecordInsideCompressedData) {
  const PerfFileBuilder plain = SmallRecording();
  std::string data = plain.data() + std::string(24, '\0') + plain.data();
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  builder.AddBytes(Compressed(data, 1000, false));
  const Read read = ReadBytes(builder.File());
  EXPECT_EQ(read.log.samples.size(), 6U);
  EXPECT_EQ(read.Lost(LossStage::kRead, LossReason::kZeroSize, LossUnit::kBytes), 24U);
}

TEST(PerfDataFile, CountsCompressedRecordsInsideCompressedOnes) {
  const std::string inner = Compressed(SmallRecording().data(), 1000, false);
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  builder.AddBytes(Compressed(inner, 1000, false));
  const Read read = ReadBytes(builder.File());
  EXPECT_THAT(read.log.lines, IsEmpty());
  EXPECT_EQ(read.Lost(LossStage::kParse, LossReason::kBadCompression), 1U);
}

// --- simpleperf ---

TEST(PerfDataFile, ReadsSimpleperfsOwnRecords) {
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  PerfAttr second;
  second.config = 1;
  second.sample_type |= kSampleIdentifier;
  builder.AddFeature(kFeatureSimpleperfMetaInfo, std::string("simpleperf_version\0001.2\0", 23));
  // Larger than 64 KiB: `misc` is the size's upper half.
  builder.AddBytes(ByteWriter().U32(kRecordSimpleperfKernelSymbol).U16(1).U16(8).bytes() +
                   std::string(65536, 's'));
  builder.AddSample({.ip = 0x10, .who = {.pid = 1, .tid = 1, .time_ns = 5}});
  // A record cut into pieces.
  PerfFileBuilder long_comm;
  long_comm.AddComm({.pid = 1, .tid = 2, .time_ns = 6}, "split");
  builder.AddRecord(kRecordSimpleperfSplit, 0, long_comm.data().substr(0, 24));
  builder.AddRecord(kRecordSimpleperfSplit, 0, long_comm.data().substr(24));
  builder.AddRecord(kRecordSimpleperfSplitEnd, 0, "");
  const Read read = ReadBytes(builder.File());
  EXPECT_EQ(read.description().source, "simpleperf");
  EXPECT_EQ(read.description().meta.at("simpleperf_version"), "1.2");
  EXPECT_THAT(read.log.lines,
              ElementsAre("other 32769 65544 bytes", "@5 sample 0 10 1", "@6 comm 1/2 split"));
  EXPECT_EQ(read.source->losses().Sentence(), "");
}

TEST(PerfDataFile, TakesSampleIdsFromSimpleperfsRecord) {
  PerfFileBuilder builder;
  PerfAttr attr;
  attr.sample_type = kSampleIdentifier | kSampleIp;
  builder.AddAttr(attr);
  builder.AddAttr(attr);
  builder.AddRecord(kRecordSimpleperfEventId, 0,
                    ByteWriter().U64(2).U64(0).U64(70).U64(1).U64(71).bytes());
  builder.AddRecord(kRecordSample, 2, ByteWriter().U64(71).U64(0x10).bytes());
  const Read read = ReadBytes(builder.File());
  ASSERT_EQ(read.log.samples.size(), 1U);
  EXPECT_EQ(read.log.samples.front().event, 1U);
}

// --- recordings that were cut short ---

TEST(PerfDataFile, ReadsAKilledRecordersFileToItsLastWholeRecord) {
  const PerfFileBuilder builder = SmallRecording();
  const std::string whole = builder.KilledFile();
  const Read read = ReadBytes(whole);
  EXPECT_EQ(read.log.lines, SmallRecordingsLines());
  EXPECT_TRUE(read.description().cut_short);
  EXPECT_EQ(read.description().hostname, "");
  EXPECT_EQ(read.source->losses().Sentence(), "");

  // The last record (FINISHED_ROUND, 8 bytes) and half of the sample before it are not there.
  const Read cut = ReadBytes(whole.substr(0, whole.size() - 8 - 20));
  EXPECT_EQ(cut.log.samples.size(), 2U);
  EXPECT_EQ(cut.Lost(LossStage::kRead, LossReason::kTruncated, LossUnit::kSamples), 1U);
}

TEST(PerfDataFile, ReadsAnEmptyButFinishedRecording) {
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  builder.AddFeature(kFeatureHostname, HeaderString("box"));
  const Read read = ReadBytes(builder.File());
  EXPECT_FALSE(read.description().cut_short);
  EXPECT_EQ(read.description().hostname, "box");
  EXPECT_EQ(read.source->losses().Sentence(), "");
}

TEST(PerfDataFile, ReadsEveryTruncationOfAFile) {
  PerfFileBuilder builder = SmallRecording();
  builder.AddFeature(kFeatureCmdline, ByteWriter().U32(1).Text(HeaderString("perf")).bytes());
  for (const std::string& whole : {builder.File(), builder.Pipe()}) {
    size_t most = 0;
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string bytes = whole.substr(0, size);
      const auto source = OpenPerfDataBytes(AsBytes(bytes), "fixture");
      if (!source) {
        EXPECT_EQ(most, 0U) << "refused after a shorter one was read";
        EXPECT_THAT(source.error().message, HasSubstr("fixture"));
        continue;
      }
      EventLog log;
      DrainInto(source->get(), &log);
      EXPECT_GE(log.samples.size(), most);
      most = log.samples.size();
    }
    EXPECT_EQ(most, 3U);
  }
}

TEST(PerfDataFile, CountsWhatAHeaderPromisesBeyondTheEnd) {
  const std::string whole = SmallRecording().File();
  const std::string data = SmallRecording().data();
  const Read read = ReadBytes(whole.substr(0, whole.find(data) + data.size() - 16));
  EXPECT_TRUE(read.description().cut_short);
  EXPECT_EQ(read.log.samples.size(), 2U);
  EXPECT_EQ(read.Lost(LossStage::kRead, LossReason::kTruncated, LossUnit::kSamples), 1U);
  EXPECT_GE(read.Lost(LossStage::kRead, LossReason::kTruncated, LossUnit::kBytes), 16U);
}

// --- damage ---

TEST(PerfDataFile, FindsTheNextRecordAfterAZeroSizedOne) {
  PerfFileBuilder builder = SmallRecording();
  builder.AddBytes(std::string(4096, '\0'));
  builder.AddBytes(SmallRecording().data());
  for (const std::string& bytes : {builder.File(), builder.Pipe()}) {
    const Read read = ReadBytes(bytes);
    EXPECT_EQ(read.log.samples.size(), 6U);
    EXPECT_EQ(read.Lost(LossStage::kRead, LossReason::kZeroSize), 1U);
    EXPECT_EQ(read.Lost(LossStage::kRead, LossReason::kZeroSize, LossUnit::kBytes), 4096U);
  }
}

TEST(PerfDataFile, CountsASampleOfSizeZeroAsLost) {
  PerfFileBuilder builder = SmallRecording();
  std::string damaged = builder.data();
  builder.AddBytes(damaged);
  // The first sample of the second half.
  const std::string sample_header = ByteWriter().U32(9).U16(2).U16(48).bytes();
  std::string bytes = builder.File();
  const size_t at = bytes.find(sample_header, bytes.find(builder.data()) + damaged.size());
  ASSERT_NE(at, std::string::npos);
  bytes[at + 6] = '\0';
  const Read read = ReadBytes(bytes);
  EXPECT_EQ(read.log.samples.size(), 5U);
  EXPECT_EQ(read.Lost(LossStage::kRead, LossReason::kZeroSize, LossUnit::kSamples), 1U);
  EXPECT_EQ(read.source->losses().captured(), 6U);
}

TEST(PerfDataFile, StopsAtDamageWithoutAnEnd) {
  PerfFileBuilder builder = SmallRecording();
  builder.AddBytes(std::string(size_t{3} << 20, '\0'));
  for (const std::string& bytes : {builder.File(), builder.Pipe()}) {
    const Read read = ReadBytes(bytes);
    EXPECT_EQ(read.log.samples.size(), 3U);
    EXPECT_EQ(read.Lost(LossStage::kRead, LossReason::kZeroSize, LossUnit::kBytes),
              size_t{3} << 20);
  }
}

TEST(PerfDataFile, SkipsTypesThatItDoesNotKnow) {
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  builder.AddRecord(200, 0, "12345678");
  builder.AddRecord(40, 0, "12345678");
  builder.AddRecord(kRecordSchedstatDomain, 0, "12345678");
  builder.AddRecord(32767, 0, "12345678");
  builder.AddSample({.ip = 1, .who = {.pid = 1, .tid = 1, .time_ns = 1}});
  const Read read = ReadBytes(builder.File());
  EXPECT_EQ(read.log.samples.size(), 1U);
  EXPECT_EQ(read.Lost(LossStage::kParse, LossReason::kUnknownRecord), 3U);
}

// Overwrites 8 bytes of the header.
std::string Patched(std::string file, size_t at, uint64_t value) {
  return file.replace(at, 8, ByteWriter().U64(value).bytes());
}

TEST(PerfDataFile, SurvivesEveryOffsetAndSizeOfItsHeader) {
  PerfAttr attr;
  attr.ids = {1, 2};
  PerfFileBuilder builder = SmallRecording();
  builder.AddAttr(attr);
  const std::string file = builder.File();
  const std::vector<uint64_t> values = {0,
                                        1,
                                        7,
                                        8,
                                        63,
                                        104,
                                        4096,
                                        uint64_t{1} << 32,
                                        uint64_t{1} << 63,
                                        file.size() - 1,
                                        file.size(),
                                        UINT64_MAX - 7,
                                        UINT64_MAX};
  // The header, the ids, the attrs with their sections, the feature table.
  for (size_t at = 8; at < file.size() - 7; at += 8) {
    for (const uint64_t value : values) {
      const std::string bytes = Patched(file, at, value);
      const auto source = OpenPerfDataBytes(AsBytes(bytes), "fixture");
      if (!source) continue;
      EventLog log;
      DrainInto(source->get(), &log);
    }
  }
}

TEST(PerfDataFile, KeepsReadingWhenAFeatureLiesOutside) {
  const PerfFileBuilder builder = SmallRecording();
  const std::string file = builder.File();
  const size_t table = file.find(builder.data()) + builder.data().size();
  const Read read = ReadBytes(Patched(file, table, file.size() + 1));
  EXPECT_EQ(read.log.lines, SmallRecordingsLines());
  EXPECT_EQ(read.Lost(LossStage::kRead, LossReason::kBadOffset), 1U);
  EXPECT_EQ(read.description().hostname, "");
  EXPECT_EQ(read.description().arch, Arch::kX86_64);
}

TEST(PerfDataFile, IsNotSlowedDownByHugeLostCounts) {
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  const PerfWho who = {.pid = 1, .tid = 1, .time_ns = 5};
  builder.AddRecord(kRecordLost, 0,
                    ByteWriter().U64(1).U64(uint64_t{1} << 40).Text(builder.Trailer(who)).bytes());
  const Read read = ReadBytes(builder.File());
  EXPECT_EQ(read.source->losses().captured(), uint64_t{1} << 40);
}

// --- input that cannot be used ---

TEST(PerfDataFile, SaysInOneSentenceWhyItCannotReadSomething) {
  EXPECT_EQ(ErrorOf(""), "fixture is empty");
  EXPECT_EQ(ErrorOf("#!/bin/sh\n"),
            "fixture is not a perf.data recording: it does not begin with PERFILE2");
  EXPECT_EQ(ErrorOf("\x1f\x8b\x08 gzipped"),
            "fixture is not a perf.data recording: it is gzip-compressed: unpack it first");
  EXPECT_EQ(ErrorOf("\x7f"
                    "ELF....."),
            "fixture is not a perf.data recording: it is an ELF object");
  EXPECT_EQ(ErrorOf("PERFILE2"), "fixture ends inside its header, after 8 bytes");
  EXPECT_EQ(ErrorOf("PERFILE2" + ByteWriter().U64(24).bytes()),
            "fixture says that its header has 24 bytes, which no perf.data has");
  PerfFileBuilder without_events;
  without_events.AddSample({});
  EXPECT_EQ(ErrorOf(without_events.File()),
            "fixture describes no event, so its records cannot be understood");
  EXPECT_EQ(ErrorOf(Patched(SmallRecording().File(), 40, 99999)),
            StrFormat("fixture has {} bytes, but its header says that the records start at 99999",
                      SmallRecording().File().size()));
}

TEST(PerfDataFile, SaysWhyAPathCannotBeRead) {
  const std::string directory = TestTemporaryDirectory();
  const auto message = [](const std::string& path) {
    const auto source = OpenPerfData(path);
    return source ? "no error" : source.error().message;
  };
  EXPECT_THAT(message(directory + "/absent"), HasSubstr("No such file"));
  EXPECT_THAT(message(directory), HasSubstr("is a directory without a file named data"));
  EXPECT_THAT(message(WriteFile(directory + "/empty", "")), HasSubstr("is empty"));
  EXPECT_THAT(message("/dev/null"), HasSubstr("is empty"));
}

TEST(PerfDataFile, ReadsAPipeWithoutAnyAttr) {
  PerfFileBuilder builder;
  builder.AddSample({.ip = 1, .who = {.pid = 1, .tid = 1, .time_ns = 1}});
  builder.AddComm({.pid = 1, .tid = 1, .time_ns = 1}, "x");
  const Read read = ReadBytes(builder.Pipe());
  EXPECT_THAT(read.log.lines, IsEmpty());
  EXPECT_EQ(read.Lost(LossStage::kParse, LossReason::kUnknownEvent, LossUnit::kSamples), 1U);
  EXPECT_EQ(read.Lost(LossStage::kParse, LossReason::kUnknownEvent), 1U);
}

// --- perf of this machine ---

TEST(PerfDataFile, DropsWhatItHasReadFromMemory) {
  // A file of 32 MiB must not stay resident.
  PerfFileBuilder builder;
  builder.AddAttr(PerfAttr());
  PerfFileBuilder round;
  for (uint64_t i = 0; i < 16; ++i) {
    round.AddComm({.pid = 1, .tid = 1, .time_ns = 1 + i}, std::string(60000, 'x'));
  }
  round.AddFinishedRound();
  const std::string path = TestTemporaryDirectory() + "/perf.data";
  {
    const auto fd = OpenFile(path, O_WRONLY | O_CREAT, 0600);
    ASSERT_TRUE(fd.has_value());
    ASSERT_TRUE(WriteAll(fd->get(), AsBytes(builder.KilledFile()), path));
    for (int i = 0; i < 34; ++i) ASSERT_TRUE(WriteAll(fd->get(), AsBytes(round.data()), path));
  }
  // Resident pages of mapped files (the third number of statm); programs and sanitizers map some of their own.
  const auto resident_bytes = [] {
    unsigned long size = 0;
    unsigned long resident = 0;
    unsigned long shared = 0;
    const std::string statm = *ReadFile("/proc/self/statm");
    EXPECT_EQ(std::sscanf(statm.c_str(), "%lu %lu %lu", &size, &resident, &shared), 3);
    return shared * PageSizeBytes();
  };
  const size_t before = resident_bytes();
  auto source = OpenPerfData(path);
  ASSERT_TRUE(source.has_value());
  EventSink ignores;
  size_t most = 0;
  for (;;) {
    const auto outcome = (*source)->Poll(ignores);
    ASSERT_TRUE(outcome.has_value());
    if (*outcome == PollOutcome::kEnd) break;
    most = std::max<size_t>(most, resident_bytes());
  }
  EXPECT_LT(most, before + (size_t{20} << 20));
}

}  // namespace
}  // namespace ptarmigan
