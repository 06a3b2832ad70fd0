// What perf says about recordings of our encoder equals what we say: each packet of `perf report -D`, each sample of
// `perf script --itrace=i1i`; and where perf is wrong, in which way.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "decode/record_types.h"
#include "decode/spe_stream.h"
#include "tests/encoders/spe_encoder.h"
#include "tests/support/byte_writer.h"
#include "tests/support/perf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kPmuType = 9;
constexpr int32_t kTid = 1234;
constexpr uint64_t kEventId = 77;
constexpr uint64_t kNonSecure = uint64_t{1} << 63;

// A recording of one thread without times, which perf of 2022 and later reads alike.
std::string WriteRecording(const std::string& name, std::string_view stream,
                           const std::vector<size_t>& fragment_bytes) {
  PerfFileBuilder file;
  PerfAttr attr;
  attr.type = kPmuType;
  attr.sample_type = kSampleIp | kSampleTid | kSampleAddr | kSampleWeight | kSampleIdentifier;
  attr.ids = {kEventId};  // perf makes those of its samples of it
  attr.size_bytes = 128;
  file.AddAttr(attr);
  const std::string trailer = file.Writer().U32(kTid).U32(kTid).U64(kEventId).bytes();
  file.AddRecord(kRecordAuxtraceInfo, 0, file.Writer().U32(4).U32(0).U64(kPmuType).U64(0).bytes());
  file.AddRecord(kRecordComm, 0,
                 file.Writer().U32(kTid).U32(kTid).Text(PaddedName("spe")).Text(trailer).bytes());
  uint64_t offset = 0;
  for (const size_t size : fragment_bytes) {
    file.AddRecord(kRecordAux, 0, file.Writer().U64(offset).U64(size).U64(0).Text(trailer).bytes());
    offset += size;
  }
  const std::string padded = ByteWriter().Text(stream).PadTo(8).bytes();
  file.AddRecord(kRecordAuxtrace, 0,
                 file.Writer()
                     .U64(padded.size())
                     .U64(0)
                     .U64(1)
                     .U32(0)
                     .U32(kTid)
                     .U32(UINT32_MAX)
                     .U32(0)
                     .bytes());
  file.AddBytes(padded);
  file.AddFinishedRound();
  const std::string path = TestTemporaryDirectory() + "/" + name;
  std::ofstream(path, std::ios::binary) << file.File();
  return path;
}

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    while (line.ends_with(' ')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

// "0000001b LAT 12 TOT" for each packet that is no padding.
std::vector<std::string> PacketsByPerf(const std::string& path) {
  const CommandResult dump =
      RunCommand("perf report -D -i " + path + " 2>/dev/null | sed -n '/ARM SPE data/,/^$/p'");
  std::vector<std::string> packets;
  for (const std::string& line : LinesOf(dump.out)) {
    constexpr size_t kOffsetAt = 3;  // ".  "
    constexpr size_t kTextAt = 61;   // after 16 bytes
    if (line.size() <= kTextAt || !line.starts_with(".  ")) continue;
    std::string text = line.substr(line.find_first_not_of(' ', kTextAt - 1));
    // perf of 2022 leaves the class of these operations out.
    if (text.starts_with("SVE-OTHER")) text = "OTHER " + text;
    if (!text.ends_with("PAD")) packets.push_back(line.substr(kOffsetAt, 8) + " " + text);
  }
  return packets;
}

std::vector<std::string> PacketsByUs(std::string_view stream) {
  std::vector<std::string> packets;
  for (size_t at = 0; at < stream.size();) {
    const SpePacket packet = ReadSpePacket(AsBytes(stream.substr(at)));
    std::string text;
    DescribeSpePacket(packet, &text);
    if (packet.kind != SpePacketKind::kPadding) packets.push_back(StrFormat("{:08x} {}", at, text));
    at += packet.size_bytes;
  }
  return packets;
}

struct Sample {
  int64_t tid;
  uint64_t ip;
  uint64_t data_address;
  uint64_t latency;
  bool operator==(const Sample&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Sample& sample) {
  return out << StrFormat("{} {:x} {:x} {}", sample.tid, sample.ip, sample.data_address,
                          sample.latency);
}

std::vector<Sample> SamplesByPerf(const std::string& path) {
  const CommandResult script =
      RunCommand("perf script --itrace=i1i -F tid,addr,weight,ip -i " + path + " 2>/dev/null");
  std::vector<Sample> samples;
  for (const std::string& line : LinesOf(script.out)) {
    std::istringstream words(line);
    Sample sample = {};
    words >> sample.tid >> std::hex >> sample.data_address >> std::dec >> sample.latency >>
        std::hex >> sample.ip;
    if (words) samples.push_back(sample);
  }
  return samples;
}

class SampleSink : public SpeRecordSink, public EventSink {
 public:
  explicit SampleSink(const RecordingDescription& description) : stream_(description) {
    stream_.SetSink(this);
  }
  void OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) override {
    const MemSample sample = ToMemSample(record, origin);
    samples.push_back({sample.identity.tid, sample.ip.value, sample.data_address.value,
                       sample.latency[static_cast<size_t>(MemLatency::kTotal)]});
  }
  void OnAux(const AuxEvent& event) override { stream_.OnAux(event); }
  void OnAuxChunk(const AuxChunk& chunk) override { stream_.OnAuxChunk(chunk); }
  void OnOther(const OtherRecord& record) override { stream_.OnOther(record); }
  void Finish() { stream_.Finish(); }
  std::vector<Sample> samples;

 private:
  SpeStream stream_;
};

std::vector<Sample> SamplesByUs(const std::string& path) {
  auto source = OpenPerfData(path);
  EXPECT_TRUE(source.has_value());
  SampleSink sink((*source)->description());
  while (*(*source)->Poll(sink) != PollOutcome::kEnd) {
  }
  sink.Finish();
  return sink.samples;
}

SpeProgram MakeProgram(uint64_t seed) {
  // Nothing that perf of 2022 does not know, and no context: it ignores it in recordings without times.
  SpeProgram program(
      seed, {.alignment = false, .newer_packets = false, .dropped = false, .contexts = false});
  for (int i = 0; i < 300; ++i) program.AddRecord();
  return program;
}

TEST(SpeInPerf, PrintsTheSamePackets) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const SpeProgram program = MakeProgram(seed);
    const std::string path =
        WriteRecording("packets.perf.data", program.bytes(), {program.bytes().size()});
    const std::vector<std::string> packets = PacketsByPerf(path);
    ASSERT_GT(packets.size(), 2000U);
    const std::vector<std::string> ours = PacketsByUs(program.bytes());
    ASSERT_EQ(packets.size(), ours.size());
    for (size_t i = 0; i < ours.size(); ++i) ASSERT_EQ(packets[i], ours[i]);
  }
}

TEST(SpeInPerf, MakesTheSameSamplesAndOneOfNothing) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  const SpeProgram program = MakeProgram(4);
  const std::string path =
      WriteRecording("samples.perf.data", program.bytes(), {program.bytes().size()});
  std::vector<Sample> by_perf = SamplesByPerf(path);
  const std::vector<Sample> by_us = SamplesByUs(path);
  ASSERT_EQ(by_us.size(), program.records().size());
  // perf begins each queue without times with a sample that no record tells of.
  ASSERT_FALSE(by_perf.empty());
  EXPECT_EQ(by_perf.front(), (Sample{kTid, 0, 0, 0}));
  by_perf.erase(by_perf.begin());
  EXPECT_EQ(by_perf, by_us);
}

TEST(SpeInPerf, JoinsARecordThatAFragmentCutWithTheNext) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  SpeEncoder cut;
  cut.Address(0, 0xaaaac0001000 | kNonSecure).Operation(1, 0).Address(2, 0xaaaabeef0000);
  SpeEncoder next(cut.offset());
  next.Address(0, 0xaaaac0002000 | kNonSecure).Counter(0, 5).Events(2, 2).Operation(0, 0);
  next.Timestamp(9);
  const std::string path = WriteRecording("cut.perf.data", cut.bytes() + next.bytes(),
                                          {cut.bytes().size(), next.bytes().size()});
  const std::vector<Sample> by_perf = SamplesByPerf(path);
  ASSERT_FALSE(by_perf.empty());
  EXPECT_EQ(by_perf.back(), (Sample{kTid, 0xaaaac0002000, 0xaaaabeef0000, 5}));
  EXPECT_EQ(SamplesByUs(path), (std::vector<Sample>{{kTid, 0xaaaac0002000, 0, 5}}));
}

}  // namespace
}  // namespace ptarmigan
