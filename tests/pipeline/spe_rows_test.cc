// The `events` view of Arm SPE recordings against what was put into them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "pipeline/event_table.h"
#include "tests/fakes/scripted_event_source.h"
#include "tests/support/test_data.h"
#include "tests/support/truth_table.h"

namespace ptarmigan {
namespace {

struct Table {
  std::string text;
  LossLedger losses;
};

Table EventsOf(EventSource& source, EventKind kind) {
  Table table;
  EventTableOptions options{.kind = kind};
  options.symbolizer.binary_paths = {TestDataPath("mem-synth/bin")};
  options.symbolizer.cache_directory = "-";
  auto losses = WriteEventTable(source, options, [&table](std::string_view piece) {
    table.text += piece;
    return OkStatus();
  });
  EXPECT_TRUE(losses.has_value());
  if (losses.has_value()) table.losses = *std::move(losses);
  return table;
}

// CPU and AUX offset, which name a record.
using RecordKey = std::pair<std::string, std::string>;
std::map<RecordKey, size_t> RowsByKey(const TruthTable& table) {
  std::map<RecordKey, size_t> rows;
  for (size_t row = 0; row < table.size(); ++row) {
    rows[{std::string(table.Cell(row, "cpu")), std::string(table.Cell(row, "aux_off"))}] = row;
  }
  return rows;
}

class SpeRecording : public testing::TestWithParam<const char*> {};

TEST_P(SpeRecording, GivesTheRowsThatWerePutIntoIt) {
  const std::string base = StrFormat("mem-synth/{}", GetParam());
  const std::string recording = TestDataPath(base + ".perf.data");
  const std::string truth_path = TestDataPath(base + ".truth.tsv.gz");
  if (recording.empty() || truth_path.empty()) GTEST_SKIP() << TestDataMissing(base);
  const TruthTable truth(ReadTestFile(truth_path));
  ASSERT_GE(truth.size(), 500U);

  auto source = OpenPerfData(recording);
  ASSERT_TRUE(source.has_value());
  const Table printed = EventsOf(**source, EventKind::kAny);
  EXPECT_TRUE(printed.losses.Balances());
  EXPECT_EQ(printed.losses.kept(), truth.size());
  const TruthTable actual(printed.text);
  ASSERT_EQ(actual.size(), truth.size());
  const std::map<RecordKey, size_t> rows = RowsByKey(actual);
  size_t differences = 0;
  for (size_t row = 0; row < truth.size() && differences < 10; ++row) {
    const auto found =
        rows.find({std::string(truth.Cell(row, "cpu")), std::string(truth.Cell(row, "aux_off"))});
    ASSERT_NE(found, rows.end()) << "row " << row;
    for (const std::string& column : truth.columns()) {
      // Numbers of the truth's rows, not of records.
      if (column == "idx" || column == "must") continue;
      ASSERT_TRUE(actual.Has(column)) << column;
      if (actual.Cell(found->second, column) == truth.Cell(row, column)) continue;
      ++differences;
      ADD_FAILURE() << "row " << row << ' ' << column << ": " << actual.Cell(found->second, column)
                    << " instead of " << truth.Cell(row, column);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, SpeRecording,
                         testing::Values("spe-align", "spe-attr136", "spe-drops", "spe-end-ctx",
                                         "spe-flags", "spe-garbage", "spe-hetero-ds",
                                         "spe-n1-v1-canonical", "spe-n2-random-order", "spe-switch",
                                         "spe-timeless-end"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

TEST(SpeRows, PrintsSamplesOfASpeRecordingOnlyIfAsked) {
  const std::string recording = TestDataPath("mem-synth/spe-drops.perf.data");
  if (recording.empty()) GTEST_SKIP() << TestDataMissing("mem-synth/spe-drops.perf.data");
  auto source = OpenPerfData(recording);
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(EventsOf(**source, EventKind::kSample).text,
            "event\tcpu\tpid\ttid\ttime_ns\tip\tperiod\tchain\n");
}

TEST(SpeRows, DecodesAStreamWithoutAuxRecords) {
  const std::string recording = TestDataPath("arm-spe/spe-wrapped.perf.data");
  if (recording.empty()) GTEST_SKIP() << TestDataMissing("arm-spe/spe-wrapped.perf.data");
  auto source = OpenPerfData(recording);
  ASSERT_TRUE(source.has_value());
  const TruthTable rows(EventsOf(**source, EventKind::kAny).text);
  std::multiset<std::string> addresses;
  for (size_t row = 0; row < rows.size(); ++row) {
    addresses.insert(std::string(rows.Cell(row, "pc")));
  }
  // Six streams that others have published, one after the other.
  EXPECT_EQ(addresses,
            (std::multiset<std::string>{"0xffffba66eda1c2d0", "0xffffba66edefb0e0",
                                        "0x7ffdbf2143e0", "0x7ffdbf2143e0", "0xffff80001029d3f4",
                                        "0xffff80001029f97c", "0xffffadc04120"}));
}

TEST(SpeRows, HasAHeaderWhereNothingWasRecorded) {
  ScriptedEventSource source;
  source.AddEvent("cpu-clock", kPerfTypeSoftware, 0);
  const std::string text = EventsOf(source, EventKind::kMemory).text;
  EXPECT_TRUE(text.starts_with("cpu\taux_off\tts\ttime_ns\ttid\ttid_src\tpc\tel\top\tdetail\t"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

}  // namespace
}  // namespace ptarmigan
