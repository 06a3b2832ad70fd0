// What perf prints of a sample's data source and weight equals what we decode: a real recording with perf's text beside
// it, and recordings that our writer made of random samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "decode/memory_decoder.h"
#include "decode/perf_data_file.h"
#include "decode/perf_data_writer.h"
#include "tests/encoders/pebs_encoder.h"
#include "tests/encoders/sample_encoder.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr size_t kSamples = 500;

// One line of `perf script`: "… DATA_SRC |OP LOAD|LVL L1 or L1 hit|SNP None|TLB L2 miss|LCK No|BLK  N/A  WEIGHT …".
struct PerfLine {
  std::string_view op, level, snoop, tlb, lock;
  std::string_view data_src;
};

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}
std::string_view Between(std::string_view line, std::string_view start, std::string_view end) {
  const size_t at = line.find(start);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + start.size());
  return Trimmed(line.substr(0, line.find(end)));
}

PerfLine Split(std::string_view line) {
  const std::string_view front = Trimmed(line.substr(0, line.find("|OP ")));
  return {.op = Between(line, "|OP ", "|"),
          .level = Between(line, "|LVL ", "|"),
          .snoop = Between(line, "|SNP ", "|"),
          .tlb = Between(line, "|TLB ", "|"),
          .lock = Between(line, "|LCK ", "|"),
          .data_src = front.substr(front.rfind(' ') + 1)};
}

// Our words in perf's spelling.
std::string OpByPerf(std::string_view op) {
  if (op == "load") return "LOAD";
  if (op == "store") return "STORE";
  if (op == "prefetch") return "PFETCH";
  if (op == "exec") return "EXEC";
  return "N/A";
}
std::string SnoopByPerf(const PebsRecord& record) {
  std::string text(record.snoop);
  if (text == "NA" || text.empty()) text = record.snoopx.empty() || !text.empty() ? "N/A" : "";
  if (!record.snoopx.empty()) text += (text.empty() ? "" : " or ") + std::string(record.snoopx);
  return text;
}
std::string OrNotAvailable(std::string_view text) {
  return text.empty() || text == "NA" ? "N/A" : std::string(text);
}
std::string TlbByPerf(std::string_view tlb) {
  if (tlb == "OS miss") return "Fault miss";
  return tlb == "hit" || tlb == "miss" ? "N/A " + std::string(tlb) : OrNotAvailable(tlb);
}
std::string LockByPerf(std::string_view lock) {
  return lock == "yes" ? "Yes" : lock == "NA" ? "N/A" : "No";
}

// perf joins old and new names; ours is among them, and the end is the same.
void ExpectSameLevel(std::string_view level, std::string_view by_perf) {
  const auto take = [&level](std::string_view end) {
    if (!level.ends_with(end)) return false;
    level.remove_suffix(end.size());
    return true;
  };
  const bool both = take(" hit or miss");
  const bool hit = take(" hit");
  const bool miss = !hit && take(" miss");
  EXPECT_TRUE(!both || by_perf.ends_with(" hit miss")) << by_perf;
  EXPECT_TRUE(!hit || by_perf.ends_with(" hit")) << by_perf;
  EXPECT_TRUE(!miss || by_perf.ends_with(" miss")) << by_perf;
  if (level.starts_with("remote ")) {
    EXPECT_TRUE(by_perf.starts_with("Remote")) << by_perf;
    return;
  }
  const std::string_view name = level == "LFB"         ? "LFB/MAB"
                                : level == "UNC"       ? "Uncached"
                                : level == "IO"        ? "I/O"
                                : level == "any cache" ? "Any cache"
                                                       : level;
  EXPECT_NE(by_perf.find(name), std::string_view::npos) << name << " in " << by_perf;
}

struct Decoded {
  std::vector<PebsRecord> records;
  uint64_t samples = 0;
};
class CollectingSink : public EventSink {
 public:
  CollectingSink(const RecordingDescription& description, Decoded* decoded)
      : decoder_(description), decoded_(*decoded) {}
  void OnSample(const CapturedSample& sample) override {
    ++decoded_.samples;
    MemSample memory;
    if (decoder_.Decode(sample, &memory) == MemoryDecoder::Outcome::kDecoded) {
      decoded_.records.push_back(decoder_.pebs());
    }
  }

 private:
  MemoryDecoder decoder_;
  Decoded& decoded_;
};
Decoded DecodeAll(std::string_view bytes) {
  Decoded decoded;
  auto source = OpenPerfDataBytes(AsBytes(bytes), "recording");
  EXPECT_TRUE(source.has_value());
  if (!source) return decoded;
  CollectingSink sink((*source)->description(), &decoded);
  for (;;) {
    const auto outcome = (*source)->Poll(sink);
    if (!outcome || *outcome == PollOutcome::kEnd) return decoded;
  }
}

std::vector<std::string> LinesWithDataSource(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.find("|OP ") != std::string_view::npos) lines.emplace_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

void ExpectSame(std::string_view line, const PebsRecord& record) {
  SCOPED_TRACE(line);
  const PerfLine by_perf = Split(line);
  EXPECT_EQ(by_perf.data_src, StrFormat("{:x}", record.data_src));
  EXPECT_EQ(by_perf.op, OpByPerf(record.op));
  ExpectSameLevel(record.level, by_perf.level);
  // perf cuts long texts.
  if (line.find("|BLK") != std::string_view::npos) {
    EXPECT_EQ(by_perf.snoop, SnoopByPerf(record));
    EXPECT_EQ(by_perf.tlb, TlbByPerf(record.tlb));
    EXPECT_EQ(by_perf.lock, LockByPerf(record.lock));
  }
  if (record.weight) {
    const std::string weight = StrFormat(" {} ", *record.weight);
    EXPECT_NE((std::string(line) + " ").find(weight), std::string::npos) << weight;
  }
}

TEST(PebsAsPerfPrints, ARealRecordingWithWeights) {
  const std::string base = "perf_data_converter/perf.data.weight_struct";
  const std::string path = TestDataPath(base + ".gz");
  if (path.empty()) GTEST_SKIP() << TestDataMissing(base);
  const std::vector<std::string> lines =
      LinesWithDataSource(ReadTestFile(TestDataPath(base + ".perf-script.txt")));
  const Decoded decoded = DecodeAll(ReadTestFile(path));
  ASSERT_GT(lines.size(), 0U);
  ASSERT_EQ(decoded.records.size(), lines.size());
  EXPECT_EQ(decoded.records.size(), decoded.samples);
  for (size_t i = 0; i < lines.size(); ++i) ExpectSame(lines[i], decoded.records[i]);
}

TEST(PebsAsPerfPrints, RandomSamplesThatOurWriterWrote) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  std::mt19937_64 random(5);
  RecordingDescription description;
  description.arch = Arch::kX86_64;
  description.arch_name = "x86_64";
  description.cpuid = "GenuineIntel,6,143,8";
  EventDescription event;
  event.name = "cpu/mem-loads,ldlat=30/P";
  event.attr.type = kPerfTypeRaw;
  event.attr.sample_period = 1009;
  event.attr.flags = uint64_t{1} << 18;
  event.ids = {77};
  std::vector<PebsFacts> all;
  while (all.size() < kSamples) {
    PebsFacts facts = RandomPebs(random);
    // perf 6.1 knows neither these levels nor several operations at once, and prints hops instead of old levels.
    const bool old_enough = facts.truth.level_number < 5 || facts.truth.level_number > 9;
    if (facts.attr.Samples(kSampleDataSrc) && DescribesMemoryAccess(facts.sample.data_src) &&
        old_enough && facts.truth.op != "load+store" && facts.truth.hops == 0) {
      all.push_back(std::move(facts));
    }
  }
  event.attr.sample_type = kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleAddr |
                           kSampleCpu | kSamplePeriod | kSampleDataSrc | kSampleWeightStruct;
  description.events = {event};
  const std::string path = TestTemporaryDirectory() + "/pebs.perf.data";
  auto writer = PerfDataWriter::Create(path, description);
  ASSERT_TRUE(writer.has_value());
  for (size_t i = 0; i < all.size(); ++i) {
    CapturedSample& sample = all[i].sample;
    sample.identity.pid = sample.identity.tid = 7;
    sample.identity.time_ns = 1000 + i;
    sample.identity.id = 77;
    sample.identity.cpu = 0;
    sample.period = 1009;
    const std::string record = EncodeSample(sample, event.attr.sample_type);
    (*writer)->OnRecord(RawRecord{AsBytes(record), 0});
  }
  ASSERT_TRUE((*writer)->Finish(description).has_value());

  const std::vector<std::string> lines = LinesWithDataSource(
      RunCommand("perf script -F data_src,weight -i " + path + " 2>/dev/null").out);
  const Decoded decoded = DecodeAll(ReadTestFile(path));
  ASSERT_EQ(lines.size(), kSamples);
  ASSERT_EQ(decoded.records.size(), kSamples);
  for (size_t i = 0; i < kSamples && !HasFailure(); ++i) ExpectSame(lines[i], decoded.records[i]);
}

}  // namespace
}  // namespace ptarmigan
