// The `events` view of IBS and PEBS recordings against what was put into them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "pipeline/event_table.h"
#include "tests/encoders/ibs_encoder.h"
#include "tests/fakes/scripted_event_source.h"
#include "tests/support/test_data.h"
#include "tests/support/truth_table.h"

namespace ptarmigan {
namespace {

struct Printed {
  std::string text;
  LossLedger losses;
};

Printed EventsOf(EventSource& source, EventKind kind) {
  Printed printed;
  EventTableOptions options{.kind = kind};
  options.symbolizer.binary_paths = {TestDataPath("mem-synth/bin")};
  options.symbolizer.cache_directory = "-";
  auto losses = WriteEventTable(source, options, [&printed](std::string_view piece) {
    printed.text += piece;
    return OkStatus();
  });
  EXPECT_TRUE(losses.has_value());
  if (losses.has_value()) printed.losses = *std::move(losses);
  return printed;
}

// `key` of `recording` in the totals beside the recordings.
std::string Total(std::string_view recording, std::string_view key) {
  const TruthTable totals(ReadTestFile(TestDataPath("mem-synth/totals.tsv")));
  for (size_t row = 0; row < totals.size(); ++row) {
    if (totals.Cell(row, "file") == recording && totals.Cell(row, "key") == key) {
      return std::string(totals.Cell(row, "value"));
    }
  }
  return "0";
}

// The truth names the program's own functions only; fetches also hit stubs of the PLT and the C runtime's start files.
bool IsGlue(std::string_view function) {
  return function.ends_with("@plt") || function == "frame_dummy" ||
         function == "__do_global_dtors_aux";
}

class MemoryRecording : public testing::TestWithParam<const char*> {};

TEST_P(MemoryRecording, GivesTheRowsThatWerePutIntoIt) {
  const std::string base = StrFormat("mem-synth/{}", GetParam());
  const std::string recording = TestDataPath(base + ".perf.data");
  if (recording.empty()) GTEST_SKIP() << TestDataMissing(base);
  const TruthTable truth(ReadTestFile(TestDataPath(base + ".truth.tsv.gz")));
  auto source = OpenPerfData(recording);
  ASSERT_TRUE(source.has_value());
  const Printed printed = EventsOf(**source, EventKind::kAny);
  EXPECT_TRUE(printed.losses.Balances());
  EXPECT_EQ(StrFormat("{}", printed.losses.captured()), Total(GetParam(), "samples"));
  EXPECT_EQ(StrFormat("{}", printed.losses.kept()), Total(GetParam(), "records_reported"));
  EXPECT_EQ(StrFormat("{}", printed.losses.Lost(LossStage::kParse, LossReason::kShortRaw)),
            Total(GetParam(), "dropped_short_raw"));

  const TruthTable actual(printed.text);
  EXPECT_EQ(actual.columns(), truth.columns());
  ASSERT_EQ(actual.size(), truth.size());
  ASSERT_GE(truth.size(), 500U);
  size_t differences = 0;
  for (size_t row = 0; row < truth.size() && differences < 10; ++row) {
    for (const std::string& column : truth.columns()) {
      const std::string_view cell = actual.Cell(row, column);
      const std::string_view expected = truth.Cell(row, column);
      if (cell == expected) continue;
      if (column == "func" && expected.empty() && IsGlue(cell)) continue;
      ++differences;
      ADD_FAILURE() << "row " << row << ' ' << column << ": " << cell << " instead of " << expected;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, MemoryRecording,
                         testing::Values("ibs-op-zen2-raw", "ibs-op-zen3-errata", "ibs-op-zen4",
                                         "ibs-fetch-zen3", "ibs-fetch-zen4", "pebs-skylake",
                                         "pebs-icelake-pages", "pebs-spr-wstruct",
                                         "pebs-adl-hybrid"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

constexpr uint32_t kIbsType = 11;

// One event of `pmu` that samples `sample_type`.
void Describe(ScriptedEventSource& source, uint64_t sample_type, const char* pmu) {
  const uint32_t event = source.AddEvent("memory", kIbsType, 0);
  RecordingDescription& description = source.mutable_description();
  description.events[event].attr.sample_type = sample_type;
  if (pmu != nullptr) description.pmu_names = {{kIbsType, pmu}};
}
void PlaySamples(ScriptedEventSource& source, const CapturedSample& sample, size_t count) {
  source.mutable_losses().Capture(count);
  source.mutable_losses().Keep(count);
  source.Play([&sample, count](EventSink& sink) {
    for (size_t i = 0; i < count; ++i) sink.OnSample(sample);
  });
}

TEST(IbsRows, CountASampleWhoseRawBytesEndEarly) {
  ScriptedEventSource source;
  Describe(source, kSampleRaw, "ibs_op");
  const std::string raw = EncodeIbsOp({.caps = 7, .quirks = {}, .load = true});
  CapturedSample whole;
  whole.raw = AsBytes(raw);
  CapturedSample cut;
  cut.raw = whole.raw.first(whole.raw.size() - 1);
  PlaySamples(source, whole, 3);
  PlaySamples(source, cut, 2);
  const Printed printed = EventsOf(source, EventKind::kAny);
  EXPECT_EQ(TruthTable(printed.text).size(), 3U);
  EXPECT_TRUE(printed.losses.Balances());
  EXPECT_EQ(printed.losses.captured(), 5U);
  EXPECT_EQ(printed.losses.kept(), 3U);
  EXPECT_EQ(printed.losses.Lost(LossStage::kParse, LossReason::kShortRaw), 2U);
}

TEST(IbsRows, PrintSamplesOfAPmuWithoutNameIfAsked) {
  ScriptedEventSource source;
  Describe(source, kSampleRaw, nullptr);
  const std::string raw = EncodeIbsFetch({.caps = 7, .quirks = {}, .linear = 0x1234});
  CapturedSample sample;
  sample.raw = AsBytes(raw);
  PlaySamples(source, sample, 1);
  const TruthTable rows(EventsOf(source, EventKind::kMemory).text);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.Cell(0, "op"), "fetch");
  EXPECT_EQ(rows.Cell(0, "lin"), "0x1234");
}

TEST(IbsRows, PrintWhatTheKernelSaysOfAnEventWithoutRawBytesBesideOneWith) {
  ScriptedEventSource source;
  Describe(source, kSampleRaw, "ibs_op");
  Describe(source, kSampleDataSrc | kSampleWeight, "ibs_op");
  CapturedSample sample;
  sample.event = 1;
  sample.has_data_src = true;
  sample.data_src = 0x268100142;
  sample.has_weight = true;
  sample.weight = 33;
  PlaySamples(source, sample, 1);
  const TruthTable rows(EventsOf(source, EventKind::kAny).text);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.Cell(0, "op"), "load");
  EXPECT_EQ(rows.Cell(0, "level"), "L1 hit");
  EXPECT_EQ(rows.Cell(0, "weight"), "33");
  EXPECT_EQ(rows.Cell(0, "data_src"), "0x268100142");
  EXPECT_EQ(rows.Cell(0, "func"), "");
}

TEST(PebsRows, NameCgroupsByTheirPathAndUnknownOnesByNumber) {
  ScriptedEventSource source;
  Describe(source, kSampleDataSrc | kSampleWeight | kSampleCgroup, "cpu");
  source.Play([](EventSink& sink) {
    CgroupEvent cgroup;
    cgroup.id = 5;
    cgroup.path = "/user.slice";
    sink.OnCgroup(cgroup);
    CapturedSample sample;
    sample.has_data_src = true;
    sample.data_src = 0x268100142;
    sample.has_cgroup = true;
    sample.cgroup_id = 5;
    sink.OnSample(sample);
    sample.cgroup_id = 6;
    sink.OnSample(sample);
  });
  const TruthTable rows(EventsOf(source, EventKind::kAny).text);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows.Cell(0, "cgroup"), "/user.slice");
  EXPECT_EQ(rows.Cell(1, "cgroup"), "6");
}

TEST(PebsRows, LeaveEventsAloneThatOnlyAskForADataSource) {
  ScriptedEventSource source;
  Describe(source, kSampleDataSrc, "cpu");
  CapturedSample sample;
  sample.has_data_src = true;
  sample.data_src = 0x5080021;
  PlaySamples(source, sample, 1);
  EXPECT_TRUE(EventsOf(source, EventKind::kAny).text.starts_with("event\tcpu\tpid\t"));
}

}  // namespace
}  // namespace ptarmigan
