#include "decode/memory_decoder.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "tests/decode/allocation_counter.h"
#include "tests/encoders/ibs_encoder.h"
#include "tests/encoders/pebs_encoder.h"
#include "tests/support/test_data.h"
#include "tests/support/truth_table.h"

namespace ptarmigan {
namespace {

class DecodingSink : public EventSink {
 public:
  using OnMemory = std::function<void(const CapturedSample&, const MemSample&, MemoryDecoder&)>;
  DecodingSink(const RecordingDescription& description, OnMemory on_memory)
      : decoder_(description), on_memory_(std::move(on_memory)) {}

  void OnSample(const CapturedSample& sample) override {
    ++samples_;
    MemSample memory;
    if (decoder_.Decode(sample, &memory) == MemoryDecoder::Outcome::kDecoded) {
      on_memory_(sample, memory, decoder_);
    }
  }
  size_t samples() const { return samples_; }
  MemoryDecoder& decoder() { return decoder_; }

 private:
  MemoryDecoder decoder_;
  OnMemory on_memory_;
  size_t samples_ = 0;
};

void Drain(EventSource& source, EventSink& sink) {
  for (;;) {
    const auto outcome = source.Poll(sink);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    if (*outcome == PollOutcome::kEnd) return;
  }
}

std::string Hex(bool has, uint64_t value) { return has ? StrFormat("0x{:x}", value) : ""; }
std::string Latency(const MemSample& memory, MemLatency which) {
  return memory.Has(which) ? StrFormat("{}", memory.latency[static_cast<size_t>(which)]) : "";
}

// The columns of the truth that a MemSample carries, by name.
std::vector<std::pair<std::string, std::string>> CellsOf(const MemSample& memory) {
  const bool ibs = memory.source != MemSample::Source::kPebs;
  std::vector<std::pair<std::string, std::string>> cells = {
      {"ip", Hex(memory.has_ip, memory.ip.value)},
      {"pid", StrFormat("{}", memory.identity.pid)},
      {"time_ns", StrFormat("{}", memory.identity.time_ns)},
      {"phys", Hex(memory.has_physical_address, memory.physical_address)},
      {"level", std::string(memory.level)},
      {"snoop", std::string(memory.snoop)},
      {ibs ? "ds" : "level", std::string(memory.data_source)},
      {ibs ? "dc_miss_lat" : "weight", Latency(memory, MemLatency::kTotal)}};
  if (ibs) {
    cells.emplace_back("br_misp", memory.mispredicted == Answer::kUnknown ? ""
                                  : memory.mispredicted == Answer::kYes   ? "1"
                                                                          : "0");
    cells.emplace_back("remote", memory.remote == Answer::kYes ? "1" : "");
  } else {
    cells.emplace_back("remote", memory.remote == Answer::kYes ? "1" : "0");
    cells.emplace_back("ins_lat", Latency(memory, MemLatency::kInstruction));
    cells.emplace_back("tlb", std::string(memory.tlb));
  }
  if (memory.source == MemSample::Source::kIbsOp) {
    cells.emplace_back("tlb_refill_lat", Latency(memory, MemLatency::kTranslation));
    cells.emplace_back("lin", Hex(memory.has_data_address, memory.data_address.value));
    cells.emplace_back("tlb", std::string(memory.tlb));
  }
  return cells;
}

std::string_view OpOf(std::string_view truth) {
  if (truth == "load+store") return "loadstore";
  if (truth == "fetch" || truth == "prefetch") return "other";
  return truth;
}

class MemSynth : public testing::TestWithParam<std::string_view> {};

TEST_P(MemSynth, MemSamplesEqualTheTruth) {
  const std::string name(GetParam());
  const std::string path = TestDataPath("mem-synth/" + name + ".perf.data");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("mem-synth");
  const TruthTable truth(ReadTestFile(TestDataPath("mem-synth/" + name + ".truth.tsv.gz")));
  const std::string bytes = ReadTestFile(path);
  auto source = OpenPerfDataBytes(AsBytes(bytes), path);
  ASSERT_TRUE(source.has_value());
  size_t row = 0;
  DecodingSink sink((*source)->description(),
                    [&](const CapturedSample&, const MemSample& memory, MemoryDecoder&) {
                      ASSERT_LT(row, truth.size());
                      EXPECT_EQ(MemOpName(memory.op), OpOf(truth.Cell(row, "op"))) << row;
                      for (const auto& [column, cell] : CellsOf(memory)) {
                        // The kernel's zero for an address that it does not know is no address.
                        const std::string_view expected = truth.Cell(row, column);
                        if (column == "phys" && expected == "0x0" && cell.empty()) continue;
                        EXPECT_EQ(cell, expected) << "row " << row << " column " << column;
                      }
                      ++row;
                    });
  Drain(**source, sink);
  EXPECT_EQ(row, truth.size());
  EXPECT_GT(row, 0U);
  EXPECT_TRUE(sink.decoder().AnyMemoryEvent());
  EXPECT_EQ(sink.decoder().losses().Lost(), sink.samples() - row);
}

INSTANTIATE_TEST_SUITE_P(All, MemSynth,
                         testing::Values("ibs-op-zen2-raw", "ibs-op-zen3-errata", "ibs-op-zen4",
                                         "ibs-fetch-zen3", "ibs-fetch-zen4", "pebs-skylake",
                                         "pebs-icelake-pages", "pebs-spr-wstruct",
                                         "pebs-adl-hybrid"),
                         [](const testing::TestParamInfo<std::string_view>& tested) {
                           std::string name;
                           for (const char c : tested.param) {
                             if (c != '-') name += c;
                           }
                           return name;
                         });

constexpr uint32_t kIbsType = 11;
constexpr uint32_t kCaps = kIbsCapValid | kIbsCapFetch | kIbsCapOp;

RecordingDescription OneEvent(uint32_t type, uint64_t sample_type, std::string name = "event") {
  RecordingDescription description;
  description.byte_order = std::endian::little;
  EventDescription event;
  event.name = std::move(name);
  event.attr.type = type;
  event.attr.sample_type = sample_type;
  description.events = {event};
  return description;
}
CapturedSample SampleWithRaw(const std::string& raw) {
  CapturedSample sample;
  sample.ip = {0x401000};
  sample.has_ip = true;
  sample.raw = AsBytes(raw);
  return sample;
}

TEST(MemoryDecoder, KnowsIbsByTheNameOfThePmu) {
  RecordingDescription description = OneEvent(kIbsType, kSampleRaw);
  const std::string op = EncodeIbsOp({.caps = kCaps, .quirks = {}, .load = true});
  const std::string fetch = EncodeIbsFetch({.caps = kCaps, .quirks = {}});
  MemSample memory;
  for (const auto& [pmu, raw, source] :
       {std::tuple("ibs_op", &op, MemSample::Source::kIbsOp),
        std::tuple("ibs_fetch", &fetch, MemSample::Source::kIbsFetch)}) {
    description.pmu_names = {{kIbsType, pmu}};
    MemoryDecoder decoder(description);
    EXPECT_EQ(decoder.Decode(SampleWithRaw(*raw), &memory), MemoryDecoder::Outcome::kDecoded);
    EXPECT_EQ(memory.source, source);
    EXPECT_TRUE(decoder.AnyMemoryEvent());
  }
  description.pmu_names = {{kIbsType, "uncore_imc"}};
  EXPECT_EQ(MemoryDecoder(description).Decode(SampleWithRaw(op), &memory),
            MemoryDecoder::Outcome::kNotMemory);
}

TEST(MemoryDecoder, KnowsIbsByTheEventsNameWithoutNamesOfPmus) {
  const RecordingDescription description = OneEvent(kIbsType, kSampleRaw, "ibs_op/cnt_ctl=1/");
  MemoryDecoder decoder(description);
  MemSample memory;
  EXPECT_EQ(decoder.Decode(SampleWithRaw("short"), &memory), MemoryDecoder::Outcome::kLost);
  EXPECT_EQ(decoder.losses().Lost(LossStage::kParse, LossReason::kShortRaw), 1U);
}

TEST(MemoryDecoder, KnowsIbsByTheShapeOfItsRawBytes) {
  RecordingDescription description = OneEvent(kIbsType, kSampleRaw);
  MemSample memory;
  {
    MemoryDecoder decoder(description);
    const std::string op = EncodeIbsOp({.caps = kCaps, .quirks = {}});
    const std::string fetch = EncodeIbsFetch({.caps = kCaps, .quirks = {}});
    EXPECT_EQ(decoder.Decode(SampleWithRaw(op), &memory), MemoryDecoder::Outcome::kDecoded);
    EXPECT_EQ(memory.source, MemSample::Source::kIbsOp);
    EXPECT_EQ(decoder.Decode(SampleWithRaw(fetch), &memory), MemoryDecoder::Outcome::kDecoded);
    EXPECT_EQ(memory.source, MemSample::Source::kIbsFetch);
    EXPECT_EQ(decoder.Decode(SampleWithRaw(op + op), &memory), MemoryDecoder::Outcome::kNotMemory);
    EXPECT_EQ(decoder.losses().Lost(), 0U);
  }
  // Neither another vendor's processor nor a tracepoint has such events.
  const std::string op = EncodeIbsOp({.caps = kCaps, .quirks = {}});
  description.cpuid = "GenuineIntel,6,85,4";
  EXPECT_EQ(MemoryDecoder(description).Decode(SampleWithRaw(op), &memory),
            MemoryDecoder::Outcome::kNotMemory);
  EXPECT_EQ(
      MemoryDecoder(OneEvent(kPerfTypeTracepoint, kSampleRaw)).Decode(SampleWithRaw(op), &memory),
      MemoryDecoder::Outcome::kNotMemory);
}

TEST(MemoryDecoder, CountsEachSampleThatItCannotUse) {
  RecordingDescription description = OneEvent(kIbsType, kSampleRaw);
  description.pmu_names = {{kIbsType, "ibs_op"}};
  MemoryDecoder decoder(description);
  std::string raw = EncodeIbsOp({.caps = kCaps, .quirks = {}});
  MemSample memory;
  memory.ip = {0x77};
  for (size_t size = 0; size < raw.size(); ++size) {
    EXPECT_EQ(decoder.Decode(SampleWithRaw(raw.substr(0, size)), &memory),
              MemoryDecoder::Outcome::kLost);
  }
  EXPECT_EQ(decoder.losses().Lost(LossStage::kParse, LossReason::kShortRaw), raw.size());
  raw[4 + 2] = 0;  // no valid sample
  EXPECT_EQ(decoder.Decode(SampleWithRaw(raw), &memory), MemoryDecoder::Outcome::kLost);
  EXPECT_EQ(decoder.losses().Lost(LossStage::kParse, LossReason::kBadValue), 1U);
  EXPECT_EQ(decoder.losses().Lost(), raw.size() + 1);
  EXPECT_EQ(memory.ip.value, 0x77U);
}

TEST(MemoryDecoder, TakesErrataFromTheRecordingsProcessor) {
  RecordingDescription description = OneEvent(kIbsType, kSampleRaw);
  description.pmu_names = {{kIbsType, "ibs_op"}};
  const std::string raw = EncodeIbsOp({.caps = kCaps,
                                       .quirks = {},
                                       .load = true,
                                       .source = 3,
                                       .dc_miss = true,
                                       .l2_miss = true,
                                       .software_prefetch = true});
  for (const auto& [cpuid, source] : {std::pair("", "dram"), std::pair("AuthenticAMD,25,1,1", ""),
                                      std::pair("AuthenticAMD,25,17,1", "dram")}) {
    description.cpuid = cpuid;
    MemoryDecoder decoder(description);
    MemSample memory;
    ASSERT_EQ(decoder.Decode(SampleWithRaw(raw), &memory), MemoryDecoder::Outcome::kDecoded);
    EXPECT_EQ(memory.data_source, source) << cpuid;
  }
}

TEST(MemoryDecoder, ReadsTheKernelsDescriptionOfIbsRecordedWithoutRawBytes) {
  RecordingDescription description = OneEvent(kIbsType, kSampleDataSrc | kSampleWeight);
  description.pmu_names = {{kIbsType, "ibs_op"}};
  MemoryDecoder decoder(description);
  CapturedSample sample;
  sample.has_data_src = true;
  sample.data_src = 0x268100142;
  sample.has_weight = true;
  sample.weight = 40;
  MemSample memory;
  ASSERT_EQ(decoder.Decode(sample, &memory), MemoryDecoder::Outcome::kDecoded);
  EXPECT_EQ(memory.source, MemSample::Source::kPebs);
  EXPECT_EQ(memory.level, "L1 hit");
  EXPECT_EQ(memory.op, MemOp::kLoad);
  EXPECT_EQ(memory.latency[static_cast<size_t>(MemLatency::kTotal)], 40U);
}

TEST(MemoryDecoder, TellsWhatTheEventsLetOneExpect) {
  using Expectation = MemoryDecoder::Expectation;
  RecordingDescription description = OneEvent(kPerfTypeHardware, kSampleIp);
  const auto expect_with = [&description](uint32_t type, uint64_t sample_type, std::string name) {
    EventDescription event;
    event.name = std::move(name);
    event.attr.type = type;
    event.attr.sample_type = sample_type;
    description.events.push_back(event);
    return MemoryDecoder(description).Expect();
  };
  EXPECT_EQ(MemoryDecoder(description).Expect(), Expectation::kNothing);
  EXPECT_EQ(expect_with(kPerfTypeHardware, kSampleDataSrc, "cycles"), Expectation::kMaybeDescribed);
  EXPECT_EQ(expect_with(kIbsType, kSampleRaw, "unknown"), Expectation::kMaybeIbs);
  EXPECT_EQ(expect_with(kPerfTypeRaw, kSampleDataSrc, "cpu/mem-loads/P"), Expectation::kDescribed);
  EXPECT_EQ(expect_with(kPerfTypeHardware, kSampleIp, "cycles"), Expectation::kDescribed);
  EXPECT_EQ(expect_with(kIbsType, kSampleRaw, "ibs_op//"), Expectation::kIbs);
}

TEST(MemoryDecoder, LeavesSamplesOfOtherEventsAlone) {
  // `perf record -d -e cycles`: every event is asked for its data source, and has none.
  const RecordingDescription description =
      OneEvent(kPerfTypeHardware, kSampleDataSrc | kSampleAddr);
  MemoryDecoder decoder(description);
  EXPECT_FALSE(decoder.AnyMemoryEvent());
  CapturedSample sample;
  sample.has_data_src = true;
  sample.data_src = 0x5080021;
  MemSample memory;
  EXPECT_EQ(decoder.Decode(sample, &memory), MemoryDecoder::Outcome::kNotMemory);
  sample.event = 1;  // not in the description
  EXPECT_EQ(decoder.Decode(sample, &memory), MemoryDecoder::Outcome::kNotMemory);
  EXPECT_EQ(decoder.losses().Lost(), 0U);
}

TEST(MemoryDecoder, FetchLatencyIsNotALatencyOfData) {
  RecordingDescription description = OneEvent(kIbsType, kSampleRaw);
  description.pmu_names = {{kIbsType, "ibs_fetch"}};
  MemoryDecoder decoder(description);
  const std::string raw = EncodeIbsFetch({.caps = kCaps | kIbsCapFetchExtended,
                                          .quirks = {},
                                          .l1_tlb_miss = true,
                                          .latency = 90,
                                          .tlb_refill_latency = UINT16_MAX});
  MemSample memory;
  ASSERT_EQ(decoder.Decode(SampleWithRaw(raw), &memory), MemoryDecoder::Outcome::kDecoded);
  EXPECT_FALSE(memory.Has(MemLatency::kTotal));
  EXPECT_EQ(decoder.ibs_fetch().latency_cycles, 90);
  EXPECT_TRUE(memory.Has(MemLatency::kTranslation));
  EXPECT_EQ(memory.saturated, 1U << static_cast<unsigned>(MemLatency::kTranslation));
}

TEST(MemoryDecoder, AllocatesNothingPerSample) {
  std::mt19937_64 random(9);
  RecordingDescription description = OneEvent(kIbsType, kSampleRaw);
  description.pmu_names = {{kIbsType, "ibs_op"}};
  PebsFacts pebs = RandomPebs(random);
  while (!pebs.sample.has_data_src || !DescribesMemoryAccess(pebs.sample.data_src)) {
    pebs = RandomPebs(random);
  }
  description.events.push_back({.attr = pebs.attr, .name = "mem-loads", .ids = {}, .unit = {}});
  pebs.sample.event = 1;
  const std::string raw = EncodeIbsOp(RandomIbsOp(random, kCaps, {}));
  const CapturedSample op = SampleWithRaw(raw);
  MemoryDecoder decoder(description);
  MemSample memory;
  size_t decoded = 0;
  size_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    if (i == 1) before = AllocationsSoFar();  // the first round makes the tables of texts
    for (const CapturedSample* sample : {&op, static_cast<const CapturedSample*>(&pebs.sample)}) {
      if (decoder.Decode(*sample, &memory) == MemoryDecoder::Outcome::kDecoded) ++decoded;
    }
  }
  EXPECT_EQ(AllocationsSoFar(), before);
  EXPECT_EQ(decoded, 2000U);
}

}  // namespace
}  // namespace ptarmigan
