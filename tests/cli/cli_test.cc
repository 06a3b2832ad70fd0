#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/str_format.h"
#include "cli/common_options.h"
#include "tests/support/test_data.h"

namespace ptarmigan::cli {
namespace {

using ::testing::HasSubstr;

// The built binary, beside this test.
std::string Binary() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "ptarmigan").string();
}

CommandResult Ptarmigan(const std::string& arguments, int timeout_seconds = 60) {
  return RunCommand(Binary() + " " + arguments, timeout_seconds);
}

std::string WriteFolded(const std::string& text) {
  const std::string path = TestTemporaryDirectory() + "/stacks.folded";
  std::ofstream(path) << text;
  return path;
}

TEST(ParseDuration, TakesUnitsAndPlainSeconds) {
  EXPECT_EQ(ParseDuration("30s")->count(), 30'000'000'000);
  EXPECT_EQ(ParseDuration("1.5")->count(), 1'500'000'000);
  EXPECT_EQ(ParseDuration("250ms")->count(), 250'000'000);
  EXPECT_EQ(ParseDuration("2m")->count(), 120'000'000'000);
  EXPECT_FALSE(ParseDuration("soon").has_value());
  EXPECT_FALSE(ParseDuration("3 weeks").has_value());
  EXPECT_FALSE(ParseDuration("-1s").has_value());
  EXPECT_FALSE(ParseDuration("1e300s").has_value());
}

TEST(ParseSize, TakesBinaryUnits) {
  EXPECT_EQ(*ParseSize("16k"), 16384U);
  EXPECT_EQ(*ParseSize("1G"), uint64_t{1} << 30);
  EXPECT_EQ(*ParseSize("1MiB"), uint64_t{1} << 20);
  EXPECT_EQ(*ParseSize("123"), 123U);
  EXPECT_FALSE(ParseSize("1T").has_value());
  EXPECT_FALSE(ParseSize("").has_value());
}

TEST(Cli, PrintsHelpForEveryVerb) {
  for (const std::string verb :
       {"doctor", "record", "convert", "report", "version", "completion"}) {
    const CommandResult result = Ptarmigan(verb + " --help");
    EXPECT_EQ(result.exit_code, 0) << verb;
    EXPECT_THAT(result.out, HasSubstr("--help")) << verb;
  }
}

TEST(Cli, UsageErrorsEndWithTwo) {
  EXPECT_EQ(Ptarmigan("").exit_code, 2);
  EXPECT_EQ(Ptarmigan("nonsense").exit_code, 2);
  EXPECT_EQ(Ptarmigan("report --view nonsense x").exit_code, 2);
  EXPECT_EQ(Ptarmigan("record").exit_code, 2);
  EXPECT_EQ(Ptarmigan("record -a -p 1").exit_code, 2);
}

TEST(Cli, ConvertsAndReports) {
  const std::string folded = WriteFolded("main;a 3\nmain;b 7\n");
  const std::string pprof = TestTemporaryDirectory() + "/out.pb.gz";
  const CommandResult convert = Ptarmigan(StrFormat("convert {} -o {}", folded, pprof));
  ASSERT_EQ(convert.exit_code, 0) << convert.err;
  const CommandResult report = Ptarmigan(StrFormat("report {} --json", pprof));
  ASSERT_EQ(report.exit_code, 0) << report.err;
  const auto json = nlohmann::json::parse(report.out);
  EXPECT_EQ(json["rows"][0]["function"], "b");
  EXPECT_EQ(json["rows"][0]["self"][0], 7);
  EXPECT_EQ(json["total"][0], 10);
}

TEST(Cli, ConvertsBranchesForCompilersAndOptimizers) {
  const std::string script = TestDataPath("llvm-profgen/inline-noprobe.perfscript");
  const std::string binary = TestDataPath("llvm-profgen/inline-noprobe.perfbin");
  if (script.empty() || binary.empty()) GTEST_SKIP() << TestDataMissing("llvm-profgen");
  const std::string out = TestTemporaryDirectory() + "/out";
  const auto converted = [&](const std::string& suffix, const std::string& options) {
    const CommandResult result = Ptarmigan(
        StrFormat("convert {} --binary {} -o {}{} {}", script, binary, out, suffix, options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ReadTestFile(out + suffix);
  };
  EXPECT_THAT(converted(".afdo.txt", ""), HasSubstr("main:"));
  EXPECT_THAT(converted(".fdata", ""), HasSubstr("1 main "));
  EXPECT_THAT(converted(".preagg", ""), HasSubstr("B 400691 400669 "));
  EXPECT_THAT(converted(".preagg", "--bolt-traces"), HasSubstr("T 400691 400669 "));
  const CommandResult other =
      Ptarmigan(StrFormat("convert {} --binary nobody -o {}.fdata", script, out));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("no branches of 'nobody' were recorded"));
}

TEST(Cli, LooksInSeveralBinaryPathsBeforeItsInput) {
  const std::string path = WriteFolded("main;f 3\n");
  const CommandResult result =
      Ptarmigan("report --json --binary-path /nowhere --binary-path /nowhere/else " + path);
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(Cli, MergesSeveralInputs) {
  const std::string one = WriteFolded("main;a 3\n");
  const std::string two = WriteFolded("main;a 4\n");
  const auto json =
      nlohmann::json::parse(Ptarmigan(StrFormat("report {} {} --json", one, two)).out);
  EXPECT_EQ(json["total"][0], 7);
}

TEST(Cli, BadInputGetsOneSentenceAndTwo) {
  const std::string directory = TestTemporaryDirectory();
  std::ofstream(directory + "/empty").flush();
  for (const std::string& input : {directory + "/empty", directory + "/missing", directory}) {
    const CommandResult result =
        Ptarmigan(StrFormat("convert {} -o {}/out.pb.gz", input, directory));
    EXPECT_EQ(result.exit_code, 2) << input;
    EXPECT_THAT(result.err, HasSubstr(input));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_FALSE(PathExists(directory + "/out.pb.gz"));
  }
}

TEST(Cli, RefusesUnknownSuffixes) {
  const std::string folded = WriteFolded("main 1\n");
  const CommandResult result = Ptarmigan(StrFormat("convert {} -o /dev/null/x.unknown", folded));
  EXPECT_EQ(result.exit_code, 2);
}

TEST(Cli, EndsQuietlyWhenItsReaderGoesAway) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += StrFormat("main;f{} 1\n", i);
  const std::string folded = WriteFolded(text);
  const CommandResult result =
      RunCommand(StrFormat("{} report {} --json | head -c 10", Binary(), folded), 60);
  EXPECT_EQ(result.exit_code, 0);
}

TEST(Cli, CompletionScriptsParse) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const CommandResult script = Ptarmigan("completion " + shell);
    ASSERT_EQ(script.exit_code, 0);
    EXPECT_THAT(script.out, HasSubstr("binary-path"));
    EXPECT_THAT(script.out, HasSubstr("convert"));
    if (!HaveProgram(shell)) continue;
    const std::string path = TestTemporaryDirectory() + "/script";
    std::ofstream(path) << script.out;
    EXPECT_EQ(RunCommand(StrFormat("{} -n {}", shell, path)).exit_code, 0) << shell;
  }
}

TEST(Cli, AnswersToTheNameThatGosPprofCalls) {
  const std::string directory = TestTemporaryDirectory();
  std::filesystem::create_symlink(Binary(), directory + "/perf_to_profile");
  const std::string folded = WriteFolded("main 1\n");
  const std::string call = StrFormat("{0}/perf_to_profile -i {1} -o {0}/out", directory, folded);
  EXPECT_EQ(RunCommand(call).exit_code, 0);
  EXPECT_EQ(RunCommand(call).exit_code, 2) << "without -f an existing file stays";
  EXPECT_EQ(RunCommand(call + " -f").exit_code, 0);
}

TEST(Cli, DoctorJsonHasTheContractsShape) {
  const CommandResult result = Ptarmigan("doctor --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_FALSE(json["sources"].empty());
  for (const auto& source : json["sources"]) {
    EXPECT_TRUE(source["available"].is_boolean());
    if (!source["available"].get<bool>()) {
      EXPECT_NE(source["reason"], "") << source["name"];
    }
  }
  EXPECT_TRUE(json.contains("kernel"));
  EXPECT_TRUE(json.contains("bpf"));
  EXPECT_TRUE(json["capabilities"].is_array());
}

TEST(Cli, RecordsACommand) {
  const auto doctor = nlohmann::json::parse(Ptarmigan("doctor --json").out);
  for (const auto& source : doctor["sources"]) {
    if (source["name"] == "cpu-clock" && !source["available"].get<bool>()) {
      GTEST_SKIP() << source["reason"].get<std::string>();
    }
  }
  const std::string output = TestTemporaryDirectory() + "/out.pb.gz";
  const CommandResult record = Ptarmigan(StrFormat(
      "record -o {} -- sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'", output));
  ASSERT_EQ(record.exit_code, 0) << record.err;
  EXPECT_THAT(record.err, HasSubstr("samples kept"));
  const auto json = nlohmann::json::parse(Ptarmigan(StrFormat("report {} --json", output)).out);
  EXPECT_GT(json["total"][0], 10);
  EXPECT_EQ(json["events"][0]["name"], "cpu-clock");
}

}  // namespace
}  // namespace ptarmigan::cli
