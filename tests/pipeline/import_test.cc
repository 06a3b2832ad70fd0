#include "pipeline/import.h"

#include <gtest/gtest.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/str_format.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

ImportOptions WithoutSymbols() {
  ImportOptions options;
  options.symbolizer.symbols = false;
  return options;
}

TEST(ReadProfile, SaysWhatIsWrongWithFilesThatAreNoProfile) {
  const std::string directory = TestTemporaryDirectory();
  const std::string empty = directory + "/empty";
  std::ofstream(empty).flush();
  const std::string text = directory + "/text.txt";
  std::ofstream(text) << "hello\nworld\n";
  for (const std::string& path : {empty, text, directory, directory + "/missing"}) {
    const auto profile = ReadProfile(path, WithoutSymbols());
    ASSERT_FALSE(profile.has_value()) << path;
    EXPECT_NE(profile.error().message.find(path), std::string::npos) << profile.error().message;
    EXPECT_EQ(profile.error().message.find('\n'), std::string::npos);
  }
}

TEST(ReadProfile, ReadsCompressedPerfScriptLikeThePlainText) {
  const std::string path = TestTemporaryDirectory() + "/branches.txt";
  {
    std::ofstream file(path);
    file << "PERF_RECORD_MMAP2 1/1: [0x400000(0x1000) @ 0 00:1d 12 52]: r-xp /bin/program\n";
    for (int i = 0; i < 1000; ++i) file << " 40062f 0x40062f/0x4005b0/P/-/-/9 \n";
  }
  const auto plain = ReadProfile(path, WithoutSymbols());
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(plain->losses.captured(), 1000U);
  ASSERT_EQ(RunCommand("gzip " + path).exit_code, 0);
  EXPECT_TRUE(IsRecording(path + ".gz").value());
  const auto inflated = ReadProfile(path + ".gz", WithoutSymbols());
  ASSERT_TRUE(inflated.has_value()) << inflated.error().message;
  EXPECT_EQ(inflated->losses.captured(), 1000U);
  EXPECT_EQ(inflated->summary.branches.edges.size(), plain->summary.branches.edges.size());
  // Cut: what is wrong, in one sentence with the file's name.
  std::filesystem::resize_file(path + ".gz", std::filesystem::file_size(path + ".gz") - 8);
  const auto cut = ReadProfile(path + ".gz", WithoutSymbols());
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code, ErrorCode::kTruncated);
  EXPECT_NE(cut.error().message.find(path), std::string::npos) << cut.error().message;
}

// What the rival made of a recording, from its `.p2p.txt`: sums over all events, nothing if it refused the file.
struct RivalTotals {
  uint64_t samples = 0;
  uint64_t period_sum = 0;
};

std::optional<RivalTotals> ReadRivalTotals(std::string_view text) {
  if (text.find("\nresult\texit 0") == std::string_view::npos) return std::nullopt;
  constexpr std::string_view kHeading = "## Sample types and totals\n";
  const size_t heading = text.find(kHeading);
  if (heading == std::string_view::npos) return std::nullopt;
  text.remove_prefix(heading + kHeading.size());
  RivalTotals totals;
  while (!text.empty() && !text.starts_with('\n')) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t tab = line.find('\t');
    uint64_t value = 0;
    std::from_chars(line.data() + tab + 1, line.data() + line.size(), value);
    if (line.substr(0, tab).ends_with("_sample/count")) totals.samples += value;
    if (line.substr(0, tab).ends_with("_event/count")) totals.period_sum += value;
  }
  return totals;
}

// Recordings for which the reference itself says that the rival's totals are something else than perf's.
bool RivalCountsOtherThings(const std::string& name) {
  // SPE packets are decoded into samples by the rival; here they are memory records, not samples.
  return name.find("spe") != std::string::npos;
}

TEST(ReadProfile, GivesTheRivalsTotalsWhereTheReferenceCallsThemRight) {
  size_t compared = 0;
  for (const std::string folder :
       {"perf_data_converter", "autofdo", "kdab-perfparser", "simpleperf", "linux-perf-data"}) {
    const std::string root = TestDataPath(folder);
    if (root.empty()) GTEST_SKIP() << TestDataMissing(folder);
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      const std::string reference = entry.path().string();
      if (!reference.ends_with(".p2p.txt") || RivalCountsOtherThings(entry.path().filename()))
        continue;
      const auto totals = ReadRivalTotals(ReadTestFile(reference));
      std::string recording =
          reference.substr(0, reference.size() - std::string_view(".p2p.txt").size());
      if (!totals || recording.ends_with(".pb")) continue;
      if (!std::filesystem::exists(recording)) {
        const std::string plain = TestTemporaryDirectory() + "/recording";
        std::ofstream(plain, std::ios::binary) << ReadTestFile(recording + ".gz");
        recording = plain;
      }
      SCOPED_TRACE(reference);
      const auto profile = ReadProfile(recording, WithoutSymbols());
      ASSERT_TRUE(profile.has_value()) << profile.error().message;
      ASSERT_TRUE(profile->CheckValid().has_value());
      EXPECT_TRUE(profile->losses.Balances());
      uint64_t samples = 0;
      uint64_t period_sum = 0;
      for (const EventTotal& event : profile->events) {
        samples += event.samples;
        period_sum += event.period_sum;
      }
      EXPECT_EQ(samples, totals->samples);
      EXPECT_EQ(period_sum, totals->period_sum);
      ++compared;
    }
  }
  EXPECT_GE(compared, 30U);
}

TEST(ReadProfile, ConvertsWhatTheRivalRefuses) {
  // Registers and stacks in samples, zstd, one damaged record.
  const std::pair<const char*, uint64_t> recordings[] = {
      {"kdab-perfparser/vector_static_gcc.perf.data", 20},
      {"kdab-perfparser/vector_static_gcc.perf.data.zstd", 20},
      {"kdab-perfparser/parallel_static_gcc.perf.data.zstd", 100},
      {"linux-perf-data/sleep.compressed.data", 1},
      {"simpleperf/perf_with_arm_regs.data", 1},
      {"simpleperf/perf_with_mini_debug_info.data", 1},
  };
  for (const auto& [name, samples_min] : recordings) {
    const std::string path = TestDataPath(name);
    if (path.empty()) GTEST_SKIP() << TestDataMissing(name);
    SCOPED_TRACE(name);
    const auto profile = ReadProfile(path, WithoutSymbols());
    ASSERT_TRUE(profile.has_value()) << profile.error().message;
    EXPECT_GE(profile->losses.kept(), samples_min);
    EXPECT_TRUE(profile->losses.Balances());
  }
}

TEST(ReadProfile, SaysWhatTheKernelSaidAboutTheTraceBuffers) {
  const std::string path = TestDataPath("mem-synth/spe-flags.perf.data");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("mem-synth");
  const auto profile = ReadProfile(path, WithoutSymbols());
  ASSERT_TRUE(profile.has_value());
  std::string comments;
  for (const StringId comment : profile->comments) {
    comments += std::string(profile->Text(comment)) + "\n";
  }
  EXPECT_NE(comments.find("aux: of 124 pieces 26 were cut because the buffer was full, 11 are "
                          "partial, 37 had collisions"),
            std::string::npos)
      << comments;
}

}  // namespace
}  // namespace ptarmigan
