#include "decode/perf_data_writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/str_format.h"
#include "decode/attr_reader.h"
#include "decode/perf_data_file.h"
#include "decode/record_types.h"
#include "tests/support/event_log.h"
#include "tests/support/perf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kClockId = 501;
constexpr uint64_t kOtherId = 601;
constexpr uint64_t kSampleType =
    kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleCpu | kSamplePeriod;
constexpr uint64_t kSampleIdAll = uint64_t{1} << 18;

// A cpu-clock, an instruction counter and a tracking event, as a live session has them.
RecordingDescription TestDescription() {
  RecordingDescription description;
  description.arch = NativeArch();
  description.hostname = "test-host";
  description.os_release = "6.1.0-test";
  description.perf_version = "ptarmigan 1";
  description.arch_name = NativeArch() == Arch::kArm64 ? "aarch64" : "x86_64";
  description.cpu_description = "Some CPU";
  description.cpuid = "Vendor,1,2,3";
  description.cpus_available = 4;
  description.cpus_online = 3;
  description.memory_total_kib = 123456;
  description.command_line = {"ptarmigan", "record", "--secret"};
  description.pmu_names = {{1, "software"}, {4, "cpu"}};
  description.clockid = 1;
  description.clock_reference_ns = 1000;
  description.clock_wall_ns = 1'700'000'000'000'000'000;
  description.build_ids.push_back(
      {-1, CpuMode::kUser, *BuildId::FromHex("0102030405060708"), "/bin/prog"});
  EventDescription clock;
  clock.name = "cpu-clock";
  clock.attr.type = kPerfTypeSoftware;
  clock.attr.sample_period = 1'000'000;
  clock.attr.sample_type = kSampleType;
  clock.attr.read_format = kReadId;
  clock.attr.flags = kSampleIdAll;
  clock.ids = {kClockId, kClockId + 1};
  EventDescription other = clock;
  other.name = "my-instructions:u";
  other.attr.type = kPerfTypeHardware;
  other.attr.config = 1;
  other.ids = {kOtherId};
  EventDescription dummy = clock;
  dummy.name = "dummy:u";
  dummy.attr.config = 9;
  dummy.attr.sample_type = kSampleIdentifier | kSampleTid | kSampleTime | kSampleCpu;
  dummy.attr.flags |= uint64_t{1} << 8 | uint64_t{1} << 23 | uint64_t{1} << 9 | uint64_t{1} << 13;
  dummy.ids = {701};
  description.events = {clock, other, dummy};
  return description;
}

struct TestSample {
  uint64_t id = kClockId;
  uint64_t ip = 0x401010;
  uint64_t time_ns = 0;
  uint64_t period = 1'000'000;
};

std::string SampleRecord(const TestSample& sample) {
  ByteWriter body;
  body.U64(sample.id)
      .U64(sample.ip)
      .U32(12)
      .U32(12)
      .U64(sample.time_ns)
      .U32(1)
      .U32(0)
      .U64(sample.period);
  return RecordBytes(kRecordSample, 2, body.bytes());
}

std::string Trailer() { return ByteWriter().U32(12).U32(12).U64(0).U32(0).U32(0).U64(701).bytes(); }

std::string CommRecord() {
  return RecordBytes(kRecordComm, 0,
                     ByteWriter().U32(12).U32(12).bytes() + PaddedName("prog") + Trailer());
}

std::string MmapRecord() {
  ByteWriter body;
  body.U32(12).U32(12).U64(0x400000).U64(0x10000).U64(0).U32(8).U32(1).U64(77).U64(0).U32(5).U32(2);
  return RecordBytes(kRecordMmap2, 2, body.bytes() + PaddedName("/bin/prog") + Trailer());
}

void Write(PerfDataWriter& writer, const std::string& record) {
  writer.OnRecord(RawRecord{AsBytes(record), 0});
}

// `rounds` rounds of three samples, two of the clock.
void WriteRounds(PerfDataWriter& writer, uint64_t rounds) {
  Write(writer, CommRecord());
  Write(writer, MmapRecord());
  for (uint64_t i = 0; i < rounds; ++i) {
    Write(writer, SampleRecord({.time_ns = 1000 + i * 100}));
    Write(writer, SampleRecord({.id = kClockId + 1, .ip = 0x401020, .time_ns = 1010 + i * 100}));
    Write(writer,
          SampleRecord({.id = kOtherId, .ip = 0x401030, .time_ns = 1020 + i * 100, .period = 7}));
    writer.OnRoundEnd();
  }
}

struct ReadBack {
  RecordingDescription description;
  EventLog log;
  uint64_t lost = 0;
};

ReadBack Read(const std::string& path) {
  ReadBack read;
  auto source = OpenPerfData(path);
  EXPECT_TRUE(source.has_value()) << (source ? "" : source.error().message);
  if (!source) return read;
  for (int i = 0; i < 100'000; ++i) {
    auto outcome = (*source)->Poll(read.log);
    EXPECT_TRUE(outcome.has_value());
    if (!outcome || *outcome == PollOutcome::kEnd) break;
  }
  read.description = (*source)->description();
  read.lost = (*source)->losses().Lost();
  return read;
}

std::string TestPath() { return TestTemporaryDirectory() + "/x.perf.data"; }

std::string AuxtraceRecord(uint64_t bytes, uint64_t offset) {
  return RecordBytes(
      kRecordAuxtrace, 0,
      ByteWriter().U64(bytes).U64(offset).U64(0).U32(0).U32(UINT32_MAX).U32(3).U32(0).bytes());
}

TEST(PerfDataWriter, TraceBytesStandBehindTheirRecordFilledUp) {
  const std::string path = TestPath();
  auto writer = PerfDataWriter::Create(path, TestDescription());
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  const std::string small = "nineteen bytes, 19.";
  std::string large(600'000, '\0');  // more than any buffer of the writer
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>('a' + i % 23);
  const std::string first = AuxtraceRecord((small.size() + 7) / 8 * 8, 100);
  (*writer)->OnRecord(
      RawRecord{AsBytes(first), 1, AsBytes(small).first(5), AsBytes(small).subspan(5)});
  const std::string second = AuxtraceRecord(large.size(), 200);
  (*writer)->OnRecord(RawRecord{AsBytes(second), 1, AsBytes(large)});
  WriteRounds(**writer, 1);
  ASSERT_TRUE((*writer)->Finish(TestDescription()).has_value());
  const ReadBack read = Read(path);
  EXPECT_EQ(read.lost, 0U);
  EXPECT_EQ(read.log.aux_data, small + std::string(5, '\0') + large);
  EXPECT_EQ(read.log.samples.size(), 3U);
}

TEST(PerfDataWriter, TraceBytesThatTheirRecordDoesNotSpeakOfAreAnError) {
  for (const uint64_t said : {uint64_t{8}, uint64_t{24}}) {
    auto writer = PerfDataWriter::Create(TestPath(), TestDescription());
    ASSERT_TRUE(writer.has_value());
    const std::string record = AuxtraceRecord(said, 0);
    const std::string bytes(13, 'x');
    (*writer)->OnRecord(RawRecord{AsBytes(record), 1, AsBytes(bytes)});
    EXPECT_FALSE((*writer)->status().has_value()) << said;
  }
}

TEST(PerfDataWriter, IsReadBackAsItWasWritten) {
  const std::string path = TestPath();
  const RecordingDescription description = TestDescription();
  auto writer = PerfDataWriter::Create(path, description);
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  WriteRounds(**writer, 50);
  EXPECT_EQ((*writer)->records(), 152U);
  const Status finished = (*writer)->Finish(description);
  ASSERT_TRUE(finished.has_value()) << finished.error().message;

  const ReadBack read = Read(path);
  ASSERT_EQ(read.log.samples.size(), 150U);
  EXPECT_EQ(read.lost, 0U);
  uint64_t of_clock = 0;
  for (const CapturedSample& sample : read.log.samples) of_clock += sample.event == 0 ? 1U : 0U;
  EXPECT_EQ(of_clock, 100U);
  ASSERT_EQ(read.log.mmaps.size(), 1U);
  EXPECT_EQ(read.log.mmaps[0].path, "/bin/prog");
  const RecordingDescription& got = read.description;
  ASSERT_EQ(got.events.size(), 3U);
  for (size_t i = 0; i < got.events.size(); ++i) {
    EXPECT_EQ(got.events[i].name, description.events[i].name);
    EXPECT_EQ(got.events[i].ids, description.events[i].ids);
    EXPECT_EQ(got.events[i].attr.flags, description.events[i].attr.flags);
    EXPECT_EQ(got.events[i].attr.sample_type, description.events[i].attr.sample_type);
  }
  EXPECT_EQ(got.hostname, description.hostname);
  EXPECT_EQ(got.os_release, description.os_release);
  EXPECT_EQ(got.perf_version, description.perf_version);
  EXPECT_EQ(got.arch_name, description.arch_name);
  EXPECT_EQ(got.cpu_description, description.cpu_description);
  EXPECT_EQ(got.cpuid, description.cpuid);
  EXPECT_EQ(got.cpus_available, 4U);
  EXPECT_EQ(got.cpus_online, 3U);
  EXPECT_EQ(got.memory_total_kib, 123456U);
  EXPECT_EQ(got.pmu_names, description.pmu_names);
  EXPECT_EQ(got.clockid, 1);
  EXPECT_EQ(got.clock_reference_ns, description.clock_reference_ns);
  EXPECT_EQ(got.clock_wall_ns, description.clock_wall_ns);
  EXPECT_EQ(got.first_sample_ns, 1000U);
  EXPECT_EQ(got.last_sample_ns, 1020U + 49 * 100);
  ASSERT_EQ(got.build_ids.size(), 1U);
  EXPECT_EQ(got.build_ids[0].build_id, description.build_ids[0].build_id);
  EXPECT_EQ(got.build_ids[0].path, "/bin/prog");
  EXPECT_FALSE(got.cut_short);
}

TEST(PerfDataWriter, WritesTheCommandLineOnlyWhenAsked) {
  const RecordingDescription description = TestDescription();
  for (const bool asked : {false, true}) {
    const std::string path = TestPath();
    auto writer = PerfDataWriter::Create(path, description, {.command_line = asked});
    ASSERT_TRUE(writer.has_value());
    WriteRounds(**writer, 1);
    ASSERT_TRUE((*writer)->Finish(description).has_value());
    EXPECT_EQ(ReadTestFile(path).find("--secret") != std::string::npos, asked);
    EXPECT_EQ(Read(path).description.command_line,
              asked ? description.command_line : std::vector<std::string>());
  }
}

TEST(PerfDataWriter, LeavesAReadableFileWhenItsProcessIsKilled) {
  const std::string path = TestPath();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto writer = PerfDataWriter::Create(path, TestDescription());
    if (!writer) ::_exit(1);
    WriteRounds(**writer, 40);
    Write(**writer, SampleRecord({.time_ns = 99'999}));  // still in the buffer
    ::kill(::getpid(), SIGKILL);
  }
  int wait_status = 0;
  ASSERT_EQ(::waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(wait_status));
  const ReadBack read = Read(path);
  EXPECT_EQ(read.log.samples.size(), 120U);
  EXPECT_TRUE(read.description.cut_short);
  EXPECT_EQ(read.description.events.size(), 3U);
}

TEST(PerfDataWriter, EndsRoundsOnlyAfterRecords) {
  const std::string path = TestPath();
  auto writer = PerfDataWriter::Create(path, TestDescription());
  ASSERT_TRUE(writer.has_value());
  for (int i = 0; i < 5; ++i) (*writer)->OnRoundEnd();
  EXPECT_EQ((*writer)->data_bytes(), 0U);
  Write(**writer, CommRecord());
  (*writer)->OnRoundEnd();
  (*writer)->OnRoundEnd();
  EXPECT_EQ((*writer)->data_bytes(), CommRecord().size() + 8);
}

TEST(PerfDataWriter, KeepsTheFileToItsOwner) {
  const std::string path = TestPath();
  auto writer = PerfDataWriter::Create(path, TestDescription());
  ASSERT_TRUE(writer.has_value());
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(PerfDataWriter, RefusesWhatItCannotWrite) {
  RecordingDescription description = TestDescription();
  EXPECT_EQ(PerfDataWriter::Create("/dev/null", description).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(PerfDataWriter::Create("/no/such/folder/x", description).error().code,
            ErrorCode::kNotFound);
  description.byte_order =
      std::endian::native == std::endian::little ? std::endian::big : std::endian::little;
  EXPECT_EQ(PerfDataWriter::Create(TestPath(), description).error().code, ErrorCode::kUnsupported);
  description = TestDescription();
  description.events.clear();
  EXPECT_EQ(PerfDataWriter::Create(TestPath(), description).error().code, ErrorCode::kInvalidInput);

  for (const std::string& bad : {std::string("short"), CommRecord() + "x", std::string(16, '\0')}) {
    auto writer = PerfDataWriter::Create(TestPath(), TestDescription());
    ASSERT_TRUE(writer.has_value());
    Write(**writer, bad);
    EXPECT_FALSE((*writer)->status().has_value());
    EXPECT_EQ((*writer)->Finish(TestDescription()).error().code, ErrorCode::kInvalidInput);
  }
}

TEST(PerfDataWriter, TellsThatTheDiskIsFull) {
  // A file that may not grow beyond 64 KiB stands for a full disk; in a child, since the limit is the process's.
  const std::string path = TestPath();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr rlimit kLimit = {64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &kLimit);
    ::signal(SIGXFSZ, SIG_IGN);
    auto writer = PerfDataWriter::Create(path, TestDescription());
    if (!writer) ::_exit(1);
    WriteRounds(**writer, 2000);
    if ((*writer)->status()) ::_exit(2);
    const Status finished = (*writer)->Finish(TestDescription());
    ::_exit(finished || finished.error().code != ErrorCode::kIo ? 3 : 0);
  }
  int wait_status = 0;
  ASSERT_EQ(::waitpid(child, &wait_status, 0), child);
  EXPECT_TRUE(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) << wait_status;
  // What was written before is there.
  EXPECT_GT(Read(path).log.samples.size(), 500U);
}

TEST(PerfDataWriter, PerfCountsTheSameSamples) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf (package linux-perf) is not installed";
  const std::string path = TestPath();
  const RecordingDescription description = TestDescription();
  auto writer = PerfDataWriter::Create(path, description, {.command_line = true});
  ASSERT_TRUE(writer.has_value());
  WriteRounds(**writer, 50);
  ASSERT_TRUE((*writer)->Finish(description).has_value());

  const CommandResult script =
      RunCommand(StrFormat("perf script -i {} -F comm,event,ip,period", path));
  ASSERT_EQ(script.exit_code, 0) << script.err;
  const auto count = [](const std::string& text, std::string_view word) {
    size_t found = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count(script.out, "cpu-clock"), 100U) << script.out.substr(0, 500);
  EXPECT_EQ(count(script.out, "my-instructions"), 50U);
  EXPECT_EQ(count(script.out, "401030"), 50U);
  const CommandResult report = RunCommand(StrFormat("perf report -i {} --stdio -n", path));
  ASSERT_EQ(report.exit_code, 0) << report.err;
  EXPECT_NE(report.out.find("Samples: 100  of event 'cpu-clock'"), std::string::npos) << report.out;
  EXPECT_NE(report.out.find("Samples: 50  of event 'my-instructions:u'"), std::string::npos);
  const CommandResult header = RunCommand(StrFormat("perf report -i {} --header-only", path));
  for (const std::string_view part :
       {"hostname : test-host", "os release : 6.1.0-test", "nrcpus online : 3", "nrcpus avail : 4",
        "cpudesc : Some CPU", "total memory : 123456 kB", "cmdline : ptarmigan record --secret",
        "name = my-instructions:u", "clockid: monotonic", "software = 1"}) {
    EXPECT_NE(header.out.find(part), std::string::npos) << part << "\n" << header.out;
  }
  const CommandResult build_ids = RunCommand(StrFormat("perf buildid-list -i {}", path));
  EXPECT_TRUE(build_ids.out.starts_with("0102030405060708 ")) << build_ids.out;
  EXPECT_NE(build_ids.out.find(" /bin/prog"), std::string::npos) << build_ids.out;
}

}  // namespace
}  // namespace ptarmigan
