// The `memory` view against recordings with known truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<Row> ReadTsv(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream split(line);
    for (std::string cell; std::getline(split, cell, '\t');) cells.push_back(cell);
    if (names.empty()) {
      names = cells;
      continue;
    }
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = i < cells.size() ? cells[i] : "";
  }
  return rows;
}

// What the truth knows of a function, in both files' terms.
struct Sums {
  std::map<std::string, int64_t> numbers;
  std::map<std::string, int64_t> sources;
  bool operator==(const Sums&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Sums& sums) {
  for (const auto& [name, number] : sums.numbers) out << name << "=" << number << " ";
  for (const auto& [name, number] : sums.sources) out << "[" << name << "]=" << number << " ";
  return out;
}

void Add(const Sums& more, Sums* sums) {
  for (const auto& [name, number] : more.numbers) sums->numbers[name] += number;
  for (const auto& [name, number] : more.sources) sums->sources[name] += number;
}

using Functions = std::map<std::pair<std::string, std::string>, Sums>;

Functions Truth(const std::vector<Row>& rows, const std::string& file) {
  Functions functions;
  for (const Row& row : rows) {
    if (row.at("file") != file) continue;
    Sums sums;
    const std::pair<const char*, const char*> columns[] = {
        {"samples", "samples"}, {"sum", "sum_lat"},  {"n", "n_lat"},
        {"load", "loads"},      {"store", "stores"}, {"loadstore", "loadstores"},
        {"branch", "branches"}, {"other", "other"},  {"mispredicted", "mispred"}};
    for (const auto& [ours, theirs] : columns) sums.numbers[ours] = std::stoll(row.at(theirs));
    std::istringstream sources(row.at("sources"));
    for (std::string source; std::getline(sources, source, ';');) {
      const size_t equals = source.rfind('=');
      sums.sources[source.substr(0, equals)] = std::stoll(source.substr(equals + 1));
    }
    functions[{row.at("binary"), row.at("function")}] = sums;
  }
  return functions;
}

// Functions that the truth leaves without a name (stubs of the PLT, symbols without a size) have one here.
Functions Reported(const nlohmann::json& json, const Functions& truth) {
  Functions functions;
  for (const auto& function : json["functions"]) {
    std::string object = function["object"];
    if (object.starts_with("[kernel")) object = "[kernel]";
    const auto& total = function["latency"]["total"];
    Sums sums;
    sums.numbers = {{"samples", function["samples"]},
                    {"sum", total["sum"]},
                    {"n", total["n"].is_null() ? 0 : total["n"].get<int64_t>()},
                    {"mispredicted", function["mispredicted"]}};
    for (const auto& [op, count] : function["ops"].items()) sums.numbers[op] = count;
    for (const auto& [source, count] : function["by_source"].items()) sums.sources[source] = count;
    std::string name = function["function"];
    if (!truth.contains({object, name})) name = "";
    Add(sums, &functions[{object, name}]);
  }
  return functions;
}

class MemoryView : public testing::TestWithParam<std::string> {};

TEST_P(MemoryView, EqualsTheTruthOfEveryFunction) {
  const std::string folder = TestDataPath("mem-synth");
  if (folder.empty()) GTEST_SKIP() << TestDataMissing("mem-synth");
  const std::string binary =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "ptarmigan").string();
  const CommandResult result =
      RunCommand(binary + " report --view memory --json --binary-path " + folder + "/bin " +
                     folder + "/" + GetParam() + ".perf.data",
                 60);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Functions truth = Truth(ReadTsv(folder + "/functions.tsv"), GetParam());
  ASSERT_FALSE(truth.empty());
  const Functions reported = Reported(nlohmann::json::parse(result.out), truth);
  for (const auto& [name, sums] : truth) {
    const auto found = reported.find(name);
    ASSERT_NE(found, reported.end()) << name.first << " " << name.second;
    EXPECT_EQ(found->second, sums) << name.first << " " << name.second;
  }
  EXPECT_EQ(reported.size(), truth.size());
}

class SpeQuality : public testing::TestWithParam<std::string> {};

TEST_P(SpeQuality, HasEveryByteOfTheTraceInOneCount) {
  const std::string folder = TestDataPath("mem-synth");
  if (folder.empty()) GTEST_SKIP() << TestDataMissing("mem-synth");
  std::map<std::string, int64_t> totals;
  for (const Row& row : ReadTsv(folder + "/totals.tsv")) {
    if (row.at("file") == GetParam()) totals[row.at("key")] = std::stoll(row.at("value"));
  }
  const std::string command =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "ptarmigan").string() +
      " report --view quality --no-symbols ";
  const std::string recording = folder + "/" + GetParam() + ".perf.data";
  const CommandResult result = RunCommand(command + "--json " + recording, 60);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto bytes = nlohmann::json::parse(result.out)["trace_bytes"];
  int64_t sum = 0;
  for (const auto& [fate, count] : bytes.items()) sum += count.get<int64_t>();
  EXPECT_EQ(sum, totals.at("auxtrace_bytes")) << bytes;
  EXPECT_GT(bytes["decoded"], 0);
  EXPECT_EQ(bytes["after_error"] > 0,
            totals.at("bad_packet_resyncs") + totals.at("dropped_truncated_tail") > 0);
  EXPECT_THAT(RunCommand(command + recording, 60).out, testing::HasSubstr("trace bytes"));
}

INSTANTIATE_TEST_SUITE_P(MemSynth, SpeQuality,
                         testing::Values("spe-n2-random-order", "spe-end-ctx", "spe-align",
                                         "spe-flags", "spe-garbage", "spe-drops"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(MemoryProfile, HasTheSameBytesEachTime) {
  const std::string recording = TestDataPath("mem-synth/spe-n1-v1-canonical.perf.data");
  if (recording.empty()) GTEST_SKIP() << TestDataMissing("mem-synth");
  const std::string binary =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "ptarmigan").string();
  const std::string profile = TestTemporaryDirectory() + "/spe.pb.gz";
  std::string first;
  for (int i = 0; i < 10; ++i) {
    const CommandResult result =
        RunCommand(binary + " convert --no-symbols " + recording + " -o " + profile, 60);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::ifstream file(profile, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(bytes.empty());
    if (i == 0) first = bytes;
    ASSERT_EQ(bytes, first);
  }
}

INSTANTIATE_TEST_SUITE_P(MemSynth, MemoryView,
                         testing::Values("spe-n1-v1-canonical", "spe-n2-random-order",
                                         "spe-timeless-end", "spe-end-ctx", "spe-switch",
                                         "spe-hetero-ds", "spe-align", "spe-flags", "spe-garbage",
                                         "spe-drops", "spe-attr136", "ibs-op-zen2-raw",
                                         "ibs-op-zen3-errata", "ibs-op-zen4", "ibs-fetch-zen3",
                                         "ibs-fetch-zen4", "pebs-skylake", "pebs-icelake-pages",
                                         "pebs-spr-wstruct", "pebs-adl-hybrid"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ptarmigan
