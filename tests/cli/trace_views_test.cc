// Control-flow traces from the command line: views, formats, archives. Recordings are those of pt-synth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/str_format.h"
#include "cli/common_options.h"
#include "tests/support/test_data.h"

namespace ptarmigan::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

CommandResult Ptarmigan(const std::string& arguments) {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return RunCommand((here / "ptarmigan").string() + " " + arguments, 120);
}

TEST(ParseMoment, IsExactToTheNanosecond) {
  EXPECT_EQ(*ParseMoment("421.999965691"), 421'999'965'691U);
  EXPECT_EQ(*ParseMoment("5"), 5'000'000'000U);
  EXPECT_EQ(*ParseMoment("0.5"), 500'000'000U);
  EXPECT_EQ(*ParseMoment("1.0000000019"), 1'000'000'001U);
  for (const char* bad : {"", "soon", "-1", "1.x", "1.-5", "99999999999999999999", "1e9"}) {
    EXPECT_FALSE(ParseMoment(bad).has_value()) << bad;
  }
}

class TraceViews : public testing::Test {
 protected:
  void SetUp() override {
    if (TestDataPath("pt-synth").empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  }
  // A recording with where its objects are.
  static std::string Recording(const std::string& name) {
    return StrFormat("{} --binary-path {}", TestDataPath("pt-synth/" + name + ".perf.data"),
                     TestDataPath("pt-synth/symfs"));
  }
  static std::string Output(const std::string& name) {
    return TestTemporaryDirectory() + "/" + name;
  }
  static Json Report(const std::string& input, const std::string& options) {
    const CommandResult result = Ptarmigan(StrFormat("report {} --json {}", input, options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }
};

TEST_F(TraceViews, FunctionsHaveLatenciesPerCaller) {
  const Json json = Report(Recording("shapes.ret-cyc"), "--view functions --focus '^fib'");
  ASSERT_EQ(json["functions"].size(), 1U);
  const Json& row = json["functions"][0];
  EXPECT_GT(row["total"]["n"], 10);
  EXPECT_GE(row["total"]["max"], row["total"]["p99"]);
  EXPECT_GE(row["total"]["p99"], row["total"]["p50"]);
  EXPECT_GT(row["callers"].size(), 1U);
  uint64_t sum = 0;
  for (const Json& caller : row["callers"]) sum += caller["total"]["sum"].get<uint64_t>();
  EXPECT_EQ(sum, row["total"]["sum"]);
}

TEST_F(TraceViews, TimelineIsCutToAThreadAndATime) {
  const std::string recording = Recording("threads.percpu-cyc");
  const Json whole = Report(recording, "--view timeline");
  ASSERT_GT(whole["threads"].size(), 2U);
  const Json& thread = whole["threads"][1];
  const uint64_t begin = thread["begin_ns"];
  const uint64_t middle = begin + (thread["end_ns"].get<uint64_t>() - begin) / 2;
  const auto seconds = [](uint64_t ns) {
    return StrFormat("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
  };
  const Json part =
      Report(recording, StrFormat("--view timeline --thread {} --from {} --to {}",
                                  thread["tid"].get<int>(), seconds(begin), seconds(middle)));
  size_t expected = 0;
  for (const Json& interval : thread["intervals"]) {
    expected += interval["begin_ns"].get<uint64_t>() < middle ? 1U : 0U;
  }
  EXPECT_EQ(part["threads"][1]["intervals"].size(), expected);
  EXPECT_LT(expected, thread["intervals"].size());
  EXPECT_TRUE(part["threads"][0]["intervals"].empty());
  EXPECT_EQ(Ptarmigan(StrFormat("report {} --view timeline --from soon", recording)).exit_code, 2);
}

TEST_F(TraceViews, AnArchiveHoldsWhatItsRecordingSays) {
  const std::string recording = Recording("coro.ret-mtc");
  const std::string archive = Output("coro.ptarmigan");
  const CommandResult convert = Ptarmigan(StrFormat("convert {} -o {}", recording, archive));
  ASSERT_EQ(convert.exit_code, 0) << convert.err;
  for (const char* view : {"functions", "timeline"}) {
    const std::string option = StrFormat("--view {}", view);
    EXPECT_TRUE(Report(archive, option) == Report(recording, option)) << view;
  }
  EXPECT_EQ(Report(archive, "--view branches")["edges"].size(),
            Report(recording, "--view branches")["edges"].size());
  EXPECT_EQ(Report(archive, "--view flow")["threads"][0]["instructions"],
            Report(recording, "--view flow")["threads"][0]["instructions"]);
}

TEST_F(TraceViews, EitherDecoderSaysTheSameAndBothFindNothingToWarnOf) {
  const std::string recording = Recording("threads.percpu-cyc");
  const CommandResult fast = Ptarmigan(StrFormat("report {} --json --view flow", recording));
  ASSERT_EQ(fast.exit_code, 0) << fast.err;
  for (const char* decoder : {"fast", "libipt", "both"}) {
    const CommandResult result =
        Ptarmigan(StrFormat("report {} --json --view flow --decoder {}", recording, decoder));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, fast.out) << decoder;
    EXPECT_EQ(result.err, fast.err) << decoder;
  }
  EXPECT_NE(Ptarmigan(StrFormat("report {} --decoder perf", recording)).exit_code, 0);
}

TEST_F(TraceViews, AnyNumberOfThreadsWritesTheSameBytes) {
  for (const std::string suffix : {"pb.gz", "perfetto-trace", "trace.json", "ptarmigan"}) {
    std::string first;
    for (const int threads : {1, 2, 8}) {
      const std::string output = Output(StrFormat("threads{}.{}", threads, suffix));
      const CommandResult result = Ptarmigan(StrFormat(
          "convert {} -o {} --threads {}", Recording("shapes.ret-mtc-psb2k"), output, threads));
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const std::string bytes = ReadTestFile(output);
      ASSERT_FALSE(bytes.empty());
      if (threads == 1) first = bytes;
      EXPECT_TRUE(bytes == first) << suffix << " with " << threads << " threads";
    }
  }
}

TEST_F(TraceViews, ChromeTraceHoldsTheTimeline) {
  const std::string recording = Recording("shapes.ret-cyc");
  const std::string output = Output("shapes.trace.json");
  ASSERT_EQ(Ptarmigan(StrFormat("convert {} -o {}", recording, output)).exit_code, 0);
  const Json trace = Json::parse(ReadTestFile(output));
  const Json timeline = Report(recording, "--view timeline");
  const uint64_t begin = std::stoull(trace["otherData"]["begin_ns"].get<std::string>());
  std::vector<std::tuple<uint64_t, uint64_t>> expected;
  for (const Json& interval : timeline["threads"][0]["intervals"]) {
    if (interval["begin_ns"].is_null()) continue;
    expected.emplace_back(interval["begin_ns"].get<uint64_t>() - begin,
                          interval["end_ns"].get<uint64_t>() - begin);
  }
  std::vector<std::tuple<uint64_t, uint64_t>> seen;
  const auto ns = [](const Json& time) {
    return static_cast<uint64_t>(time.get<double>() * 1000 + 0.5);
  };
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const uint64_t at = ns(event["ts"]);
    seen.emplace_back(at, at + ns(event["dur"]));
  }
  EXPECT_GT(seen.size(), 1000U);
  EXPECT_TRUE(seen == expected);
}

TEST_F(TraceViews, SamplesAreNoTimeline) {
  const std::string folded = Output("stacks.folded");
  ASSERT_EQ(RunCommand("echo 'main;a 3' > " + folded, 10).exit_code, 0);
  const CommandResult result =
      Ptarmigan(StrFormat("convert {} -o {}", folded, Output("x.perfetto-trace")));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no timeline"));
}

TEST_F(TraceViews, QualityAccountsForEveryByteOfATrace) {
  for (const char* name : {"shapes.ring", "dispatch.ovf-irq", "coro.pad-tnt64"}) {
    const Json quality = Report(Recording(name), "--view quality");
    uint64_t sum = 0;
    for (const auto& [reason, bytes] : quality["trace_bytes"].items()) {
      sum += bytes.get<uint64_t>();
    }
    const auto decoded = quality["trace_bytes"]["decoded"].get<uint64_t>();
    EXPECT_GT(decoded, sum / 2) << name;
    EXPECT_TRUE(quality["trace_bytes"].contains("before_sync"));
  }
}

}  // namespace
}  // namespace ptarmigan::cli
