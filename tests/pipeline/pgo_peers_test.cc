// Our PGO profiles against those that LLVM's own tools make from the same recording and binary, and LLVM's tools on ours.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "export/formats.h"
#include "pipeline/import.h"
#include "pipeline/object_branches.h"
#include "tests/pipeline/step_recorder.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr std::string_view kPerf2Bolt = "/usr/lib/llvm-19/bin/perf2bolt";
constexpr std::string_view kLlvmBolt = "/usr/lib/llvm-19/bin/llvm-bolt";

ImportOptions PlainOptions(const std::string& binary) {
  ImportOptions options;
  options.binary = binary;
  options.symbolizer.cache_directory = "-";
  options.symbolizer.binary_paths = {std::filesystem::path(binary).parent_path().string()};
  return options;
}

// What `convert --to FORMAT --binary BINARY` writes; "error: …" if it fails.
std::string Converted(const std::string& input, const std::string& binary, Format format) {
  const ImportOptions options = PlainOptions(binary);
  const auto profile = ReadProfile(input, options);
  if (!profile.has_value()) return "error: " + profile.error().message;
  EXPECT_TRUE(profile->losses.Balances());
  const auto object = PgoObject::Select(*profile, binary, options.symbolizer);
  if (!object.has_value()) return "error: " + object.error().message;
  std::string text;
  StringSink sink(&text);
  const auto written = WriteObjectProfile(object->branches(), object->lines(), format, {}, &sink);
  return written.has_value() ? text : "error: " + written.error().message;
}

void WriteText(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A sample profile as facts that can be compared whatever their order: "main;3.2:inner;1" -> "7 callee:5".
std::map<std::string, std::string> Facts(const std::string& profile) {
  std::map<std::string, std::string> facts;
  std::vector<std::string> path;
  std::istringstream lines(profile);
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) continue;
    path.resize(std::min(path.size(), indent));
    std::string prefix;
    for (const std::string& part : path) prefix += part + ";";
    const std::string text = line.substr(indent);
    if (indent == 0) {
      const size_t colon = text.find(':');
      path.push_back(text.substr(0, colon));
      facts[path.back()] = text.substr(colon + 1);
      continue;
    }
    const size_t colon = text.find(": ");
    const std::string place = text.substr(0, colon);
    const std::string rest = text.substr(colon + 2);
    if (rest.find_first_not_of("0123456789") == rest.find(' ')) {
      facts[prefix + place] = rest;
      continue;
    }
    const size_t total = rest.rfind(':');
    path.push_back(place + ":" + rest.substr(0, total));
    facts[prefix + path.back()] = rest.substr(total + 1);
  }
  return facts;
}

std::string LlvmProfgen(const std::string& script, const std::string& binary) {
  const std::string output = TestTemporaryDirectory() + "/llvm-profgen.txt";
  const CommandResult made = RunCommand(
      StrFormat("llvm-profgen-19 --format=text --ignore-stack-samples --perfscript={} --binary={} "
                "--output={}",
                script, binary, output));
  EXPECT_EQ(made.exit_code, 0) << made.err;
  return ReadText(output);
}

void ExpectAcceptedByLlvm(const std::string& profile) {
  const std::string directory = TestTemporaryDirectory();
  WriteText(directory + "/ours.afdo.txt", profile);
  const CommandResult merged = RunCommand(StrFormat(
      "llvm-profdata-19 merge --sample --text {0}/ours.afdo.txt -o {0}/merged.txt", directory));
  EXPECT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_EQ(Facts(ReadText(directory + "/merged.txt")), Facts(profile));
}

struct ProfgenCase {
  const char* script;
  const char* binary;
  // llvm-profgen drops a sample with all its branches if the leaf of its call chain lies in a prologue or epilogue, where a
  // chain may be wrong, even if it is told to ignore call chains. The branches are good all the same, and we count them:
  // compared with what it makes of the text without the chains.
  bool without_chains = false;
};

// The text without the lines of call chains.
std::string WithoutChains(const std::string& text) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_chain =
        line.starts_with('\t') || (line.starts_with("  ") && line.find("0x") == std::string::npos);
    if (!is_chain) kept += line + "\n";
  }
  return kept;
}

class LlvmProfgenInputs : public testing::TestWithParam<ProfgenCase> {};

TEST_P(LlvmProfgenInputs, GiveTheProfileThatLlvmMakes) {
  if (!HaveProgram("llvm-profgen-19")) GTEST_SKIP() << "llvm-19 is not installed";
  const std::string script = TestDataPath(std::string("llvm-profgen/") + GetParam().script);
  const std::string binary = TestDataPath(std::string("llvm-profgen/") + GetParam().binary);
  if (script.empty() || binary.empty()) GTEST_SKIP() << TestDataMissing("llvm-profgen");
  const std::string ours = Converted(script, binary, Format::kAutofdo);
  std::string peer_script = script;
  if (GetParam().without_chains) {
    EXPECT_NE(Facts(ours), Facts(LlvmProfgen(script, binary)));
    peer_script = TestTemporaryDirectory() + "/without-chains.perfscript";
    WriteText(peer_script, WithoutChains(ReadText(script)));
  }
  EXPECT_EQ(Facts(ours), Facts(LlvmProfgen(peer_script, binary)));
  ExpectAcceptedByLlvm(ours);
}

INSTANTIATE_TEST_SUITE_P(
    All, LlvmProfgenInputs,
    testing::Values(
        ProfgenCase{"callback-external-addr.perfscript", "callback-external-addr.perfbin"},
        ProfgenCase{"inline-cs-noprobe.perfscript", "inline-cs-noprobe.perfbin"},
        ProfgenCase{"external-address.perfscript", "inline-cs-noprobe.perfbin"},
        ProfgenCase{"inline-noprobe.perfscript", "inline-noprobe.perfbin"},
        ProfgenCase{"noinline-cs-noprobe.perfscript", "noinline-cs-noprobe.perfbin", true},
        ProfgenCase{"noinline-cs-noprobe.aggperfscript", "noinline-cs-noprobe.perfbin", true},
        ProfgenCase{"cs-interrupt.perfscript", "noinline-cs-noprobe.perfbin"},
        ProfgenCase{"noprobe.perfscript", "noprobe.perfbin"},
        ProfgenCase{"noprobe.aggperfscript", "noprobe.perfbin"},
        ProfgenCase{"noprobe.mmap.perfscript", "noprobe.perfbin"},
        ProfgenCase{"noprobe-skid.perfscript", "noprobe.perfbin"},
        ProfgenCase{"unique-linkage-name-dwarf.perfscript", "unique-linkage-name-dwarf.perfbin"}),
    [](const testing::TestParamInfo<ProfgenCase>& tested) {
      std::string name;
      for (const char c : std::string_view(tested.param.script)) {
        name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      }
      return name;
    });

// Recordings of whole programs, whose text perf prints.
class LlvmProfgenRecordings : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(LlvmProfgenRecordings, GiveTheProfileThatLlvmMakes) {
  if (!HaveProgram("llvm-profgen-19") || !HaveProgram("perf")) {
    GTEST_SKIP() << "llvm-19 or perf is not installed";
  }
  const std::string recording = TestDataPath(GetParam().first);
  const std::string binary = TestDataPath(GetParam().second);
  if (recording.empty() || binary.empty()) GTEST_SKIP() << TestDataMissing(GetParam().first);
  const std::string script = TestTemporaryDirectory() + "/recording.perfscript";
  const CommandResult printed = RunCommand(StrFormat(
      "perf script --show-mmap-events -F ip,brstack -i {} > {} 2>/dev/null", recording, script));
  ASSERT_EQ(printed.exit_code, 0);
  const std::string ours = Converted(recording, binary, Format::kAutofdo);
  EXPECT_EQ(Facts(ours), Facts(LlvmProfgen(script, binary)));
  // The text is a recording too.
  EXPECT_EQ(Converted(script, binary, Format::kAutofdo), ours);
  ExpectAcceptedByLlvm(ours);
}

INSTANTIATE_TEST_SUITE_P(All, LlvmProfgenRecordings,
                         testing::Values(std::pair{"lbr-synth/shapes.any32.perf.data",
                                                   "pt-synth/symfs/ptsynth/bin/shapes"},
                                         std::pair{"lbr-synth/coro.any32-hwidx.perf.data",
                                                   "pt-synth/symfs/ptsynth/bin/coro"},
                                         std::pair{"lbr-synth/dispatch.any32-chain.perf.data",
                                                   "pt-synth/symfs/ptsynth/bin/dispatch"},
                                         std::pair{"lbr-synth/threads.any32-hwidx.perf.data",
                                                   "pt-synth/symfs/ptsynth/bin/threads"}));

// tests/programs/branchy.c, recorded by stepping through it.
class SteppedProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (!HaveProgram("clang-14")) GTEST_SKIP() << "clang-14 is not installed";
    directory_ = TestTemporaryDirectory();
    program_ = directory_ + "/program";
    const std::string sources = PTARMIGAN_SOURCE_DIR "/tests/programs/";
    const CommandResult built = RunCommand(
        StrFormat("cd {} && clang-14 -O2 -g -fdebug-info-for-profiling -fno-stack-protector "
                  "-fno-asynchronous-unwind-tables -nostdlib -static -Wl,--emit-relocs "
                  "{}branchy.c {}branchy_other.c -o program",
                  directory_, sources, sources));
    ASSERT_EQ(built.exit_code, 0) << built.err;
    const auto recorded = RecordBySteps(program_, 200000);
    if (!recorded.has_value()) GTEST_SKIP() << recorded.error().message;
    ASSERT_TRUE(recorded->finished);
    ASSERT_GT(recorded->branches.size(), 1000U);
    recording_ = directory_ + "/recording.perf.data";
    WriteText(recording_, PerfDataOf(*recorded, program_));
    exit_code_ = RunCommand(program_).exit_code;
  }

  std::string directory_;
  std::string program_;
  std::string recording_;
  int exit_code_ = 0;
};

// Branch data as facts: "main 1a leaf/1 0" -> (mispredicted, count).
std::map<std::string, std::pair<uint64_t, uint64_t>> Branches(const std::string& fdata) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> branches;
  std::istringstream lines(fdata);
  std::string from_kind, from, from_offset, to_kind, to, to_offset;
  uint64_t mispredicted = 0;
  uint64_t count = 0;
  while (lines >> from_kind >> from >> from_offset >> to_kind >> to >> to_offset >> mispredicted >>
         count) {
    branches[from + " " + from_offset + " " + to + " " + to_offset] = {mispredicted, count};
  }
  return branches;
}

TEST_F(SteppedProgram, GivesTheSampleProfileThatLlvmMakes) {
  if (!HaveProgram("llvm-profgen-19") || !HaveProgram("perf")) {
    GTEST_SKIP() << "llvm-19 or perf is not installed";
  }
  const std::string script = directory_ + "/recording.perfscript";
  ASSERT_EQ(RunCommand(StrFormat("perf script --show-mmap-events -F ip,brstack -i {} > {}",
                                 recording_, script))
                .exit_code,
            0);
  const std::string ours = Converted(recording_, program_, Format::kAutofdo);
  EXPECT_TRUE(ours.starts_with("work:")) << ours;
  EXPECT_EQ(Facts(ours), Facts(LlvmProfgen(script, program_)));
  ExpectAcceptedByLlvm(ours);
}

TEST_F(SteppedProgram, GivesTheBranchDataThatPerf2BoltMakes) {
  if (!PathExists(std::string(kPerf2Bolt)) || !HaveProgram("perf")) {
    GTEST_SKIP() << "bolt-19 or perf is not installed";
  }
  const CommandResult made = RunCommand(
      StrFormat("{} -p {} -o {}/peer.fdata {}", kPerf2Bolt, recording_, directory_, program_));
  ASSERT_EQ(made.exit_code, 0) << made.out << made.err;
  const auto peer = Branches(ReadText(directory_ + "/peer.fdata"));
  EXPECT_GT(peer.size(), 20U);
  EXPECT_EQ(Branches(Converted(recording_, program_, Format::kBolt)), peer);
  // The pre-aggregated form says the same.
  WriteText(directory_ + "/ours.preagg",
            Converted(recording_, program_, Format::kBoltPreaggregated));
  const CommandResult aggregated = RunCommand(StrFormat(
      "{0} --pa -p {1}/ours.preagg -o {1}/pa.fdata {2}", kPerf2Bolt, directory_, program_));
  ASSERT_EQ(aggregated.exit_code, 0) << aggregated.out << aggregated.err;
  EXPECT_EQ(Branches(ReadText(directory_ + "/pa.fdata")), peer);
}

TEST_F(SteppedProgram, IsOptimizedByBoltWithOurProfile) {
  if (!PathExists(std::string(kLlvmBolt))) GTEST_SKIP() << "bolt-19 is not installed";
  WriteText(directory_ + "/ours.fdata", Converted(recording_, program_, Format::kBolt));
  const CommandResult optimized =
      RunCommand(StrFormat("{0} {1} -data={2}/ours.fdata -o {2}/optimized -reorder-blocks=ext-tsp "
                           "-reorder-functions=hfsort -split-functions -dyno-stats",
                           kLlvmBolt, program_, directory_),
                 120);
  ASSERT_EQ(optimized.exit_code, 0) << optimized.out << optimized.err;
  // All functions that ran have a profile, and none of it was found stale.
  EXPECT_NE(optimized.out.find("have non-empty execution profile"), std::string::npos);
  EXPECT_EQ(optimized.out.find("invalid (possibly stale) profile"), std::string::npos)
      << optimized.out;
  EXPECT_EQ(RunCommand(directory_ + "/optimized").exit_code, exit_code_);
}

TEST(PropellerSample, ConvertsToEveryPgoFormat) {
  const std::string packed = TestDataPath("autofdo/propeller_sample_1.perfdata1.gz");
  const std::string binary = TestDataPath("autofdo/propeller_sample_1.bin");
  if (packed.empty() || binary.empty()) GTEST_SKIP() << TestDataMissing("autofdo");
  const std::string directory = TestTemporaryDirectory();
  const std::string recording = directory + "/propeller.perf.data";
  WriteText(recording, ReadTestFile(packed));
  const std::string fdata = Converted(recording, binary, Format::kBolt);
  EXPECT_GT(Branches(fdata).size(), 5U) << fdata;
  if (PathExists(std::string(kPerf2Bolt))) {
    WriteText(directory + "/ours.preagg", Converted(recording, binary, Format::kBoltPreaggregated));
    const CommandResult aggregated = RunCommand(StrFormat(
        "{0} --pa -p {1}/ours.preagg -o {1}/pa.fdata {2}", kPerf2Bolt, directory, binary));
    ASSERT_EQ(aggregated.exit_code, 0) << aggregated.out << aggregated.err;
    EXPECT_EQ(Branches(ReadText(directory + "/pa.fdata")), Branches(fdata));
  }
  // DWARF says nothing about its two functions.
  const std::string autofdo = Converted(recording, binary, Format::kAutofdo);
  EXPECT_TRUE(autofdo.starts_with("main:")) << autofdo;
  EXPECT_NE(autofdo.find("\ncompute_flag:"), std::string::npos) << autofdo;
  if (HaveProgram("llvm-profdata-19")) ExpectAcceptedByLlvm(autofdo);
}

}  // namespace
}  // namespace ptarmigan
