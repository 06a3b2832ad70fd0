// Random programs whose every branch is known, recorded as each vendor's hardware would: what we count equals what ran.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "model/branch_summary.h"
#include "pipeline/import.h"
#include "tests/encoders/branch_encoder.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// The profile of a recording; the program's ELF file lies where its mapping says.
Profile ImportBytes(const std::string& recording) {
  SymbolizerOptions options;
  options.cache_directory = "-";
  Symbolizer symbolizer(options);
  auto source = OpenPerfDataBytes(AsBytes(recording), "recording");
  EXPECT_TRUE(source.has_value());
  auto profile = ImportRecording(**source, symbolizer, {});
  EXPECT_TRUE(profile.has_value());
  EXPECT_TRUE(profile->CheckValid().has_value());
  EXPECT_TRUE(profile->losses.Balances());
  return *std::move(profile);
}

struct Counted {
  std::map<BranchTruth::Run, BranchTruth::Edge> edges;
  std::map<BranchTruth::Run, BranchTruth::Block> blocks;
};

Counted CountedBy(const Profile& profile) {
  const BranchSummary& summary = profile.summary.branches;
  const auto address = [&](LocationId id) {
    return id == BranchSummary::kNone ? 0 : profile.locations[id].address;
  };
  Counted counted;
  for (const auto& edge : summary.edges) {
    counted.edges[{address(edge.from), address(edge.to)}] = {edge.count, edge.mispredicted,
                                                             edge.predicted, edge.cycles_sum};
  }
  for (const auto& block : summary.blocks) {
    BranchTruth::Block& entry = counted.blocks[{address(block.start), address(block.end)}];
    entry = {block.count, block.instructions, {}};
    for (const auto& [cycles, executions] : summary.Cycles(block))
      entry.cycles[cycles] = executions;
  }
  return counted;
}

std::string ToText(const std::map<BranchTruth::Run, BranchTruth::Block>& blocks) {
  std::string text;
  for (const auto& [run, block] : blocks) {
    text += StrFormat("{:x}..{:x} x{} {} instructions", run.first, run.second, block.count,
                      block.instructions);
    for (const auto& [cycles, executions] : block.cycles)
      text += StrFormat(" {}:{}", cycles, executions);
    text += '\n';
  }
  return text;
}

std::string ToText(const std::map<BranchTruth::Run, BranchTruth::Edge>& edges) {
  std::string text;
  for (const auto& [run, edge] : edges) {
    text += StrFormat("{:x}->{:x} x{} {} {} {}\n", run.first, run.second, edge.count,
                      edge.mispredicted, edge.predicted, edge.cycles_sum);
  }
  return text;
}

class BranchPrograms : public ::testing::TestWithParam<std::tuple<BranchVendor, unsigned>> {};

TEST_P(BranchPrograms, AreCountedAsTheyRan) {
  const auto [vendor, interruptions] = GetParam();
  const std::string directory = TestTemporaryDirectory();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    BranchProgram program({.seed = seed,
                           .vendor = vendor,
                           .functions = 2 + seed % 12,
                           .depth = seed % 2 == 0 ? size_t{32} : size_t{16},
                           .interruptions_per_mille = interruptions,
                           .hw_index = seed % 3 == 0});
    const std::string elf_path = StrFormat("{}/program-{}", directory, seed);
    WriteFile(elf_path, program.Elf());
    const Profile profile = ImportBytes(program.Record(elf_path));
    const BranchSummary& summary = profile.summary.branches;
    const Counted counted = CountedBy(profile);
    EXPECT_EQ(ToText(counted.edges), ToText(program.truth().edges));
    EXPECT_EQ(ToText(counted.blocks), ToText(program.truth().blocks));
    EXPECT_EQ(summary.ranges_rejected, program.truth().rejected);
    EXPECT_EQ(summary.wrong_path, program.truth().wrong_path);
    EXPECT_EQ(profile.losses.Lost(LossStage::kFilter, LossReason::kWrongPath, LossUnit::kRecords),
              program.truth().wrong_path);
    EXPECT_EQ(summary.ranges_rejected > 0, interruptions > 0);
    // Every branch of these programs stands in a function whose start is known.
    for (const auto& start : summary.function_starts) {
      const auto& starts = program.functions();
      EXPECT_NE(std::find(starts.begin(), starts.end(), start.address), starts.end());
    }
    EXPECT_FALSE(summary.function_starts.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Vendors, BranchPrograms,
    ::testing::Combine(::testing::Values(BranchVendor::kIntel, BranchVendor::kIntelNoCycles,
                                         BranchVendor::kIntelArchitectural, BranchVendor::kAmd,
                                         BranchVendor::kAmdBrs, BranchVendor::kArm),
                       ::testing::Values(0U, 20U)));

TEST(BranchProgram, ReturnsAreKnownByTheirTypeOrTheirCode) {
  const std::string elf_path = TestTemporaryDirectory() + "/program";
  for (const BranchVendor vendor : {BranchVendor::kIntel, BranchVendor::kAmd, BranchVendor::kArm}) {
    BranchProgram program({.seed = 5, .vendor = vendor});
    WriteFile(elf_path, program.Elf());
    const Profile profile = ImportBytes(program.Record(elf_path));
    size_t returns = 0;
    for (const auto& trace : profile.summary.branches.traces) {
      if (!trace.is_return || trace.from == BranchSummary::kNone) continue;
      ++returns;
      // A return is the last instruction of its function, which padding and the next one follow.
      const auto& starts = program.functions();
      const uint64_t from = profile.locations[trace.from].address;
      const auto next = std::upper_bound(starts.begin(), starts.end(), from);
      EXPECT_TRUE(next == starts.end() || *next - from < 32);
    }
    EXPECT_GT(returns, 0U);
  }
}

TEST(BranchProgram, PerfScriptSeesTheSameBranches) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  const std::string directory = TestTemporaryDirectory();
  const std::string elf_path = directory + "/program";
  BranchProgram program({.seed = 3, .functions = 20, .samples = 400});
  WriteFile(elf_path, program.Elf());
  WriteFile(directory + "/perf.data", program.Record(elf_path));
  const CommandResult script =
      RunCommand(StrFormat("perf script -i {}/perf.data -F brstack 2>/dev/null", directory));
  ASSERT_EQ(script.exit_code, 0);
  // 0xFROM/0xTO/M|P|-/X|-/A|-/CYCLES/TYPE
  std::map<BranchTruth::Run, BranchTruth::Edge> seen;
  for (size_t at = script.out.find("0x"); at != std::string::npos;) {
    size_t used = 0;
    const uint64_t from = std::stoull(script.out.substr(at, 20), &used, 16);
    size_t next = at + used + 1;
    const uint64_t to = std::stoull(script.out.substr(next, 20), &used, 16);
    next += used + 1;
    BranchTruth::Edge& edge = seen[{from, to}];
    ++edge.count;
    edge.mispredicted += script.out[next] == 'M' ? 1U : 0U;
    edge.predicted += script.out[next] == 'P' ? 1U : 0U;
    edge.cycles_sum += std::stoull(script.out.substr(next + 6, 8));
    at = script.out.find("0x", next);
  }
  EXPECT_EQ(ToText(seen), ToText(program.truth().edges));
}

TEST(BranchProgram, DamagedRecordingsLoseNothingUnseen) {
  const std::string elf_path = TestTemporaryDirectory() + "/program";
  BranchProgram program({.seed = 9, .vendor = BranchVendor::kAmd, .samples = 60});
  WriteFile(elf_path, program.Elf());
  const std::string whole = program.Record(elf_path);
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    std::string damaged = whole;
    for (int flip = 0; flip < 30; ++flip) {
      // Behind the header and the attrs: there the recording itself would become another.
      const size_t at = 600 + random() % (damaged.size() - 600);
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << random() % 8);
    }
    auto source = OpenPerfDataBytes(AsBytes(damaged), "damaged");
    if (!source) continue;
    SymbolizerOptions options;
    options.symbols = false;
    Symbolizer symbolizer(options);
    const auto profile = ImportRecording(**source, symbolizer, {});
    if (!profile) continue;
    EXPECT_TRUE(profile->CheckValid().has_value());
    EXPECT_TRUE(profile->losses.Balances());
    uint64_t edges = 0;
    for (const auto& edge : profile->summary.branches.edges) {
      edges += edge.count;
      EXPECT_GE(edge.count, edge.mispredicted + edge.predicted);
    }
    uint64_t runs = profile->summary.branches.ranges_rejected;
    for (const auto& block : profile->summary.branches.blocks) runs += block.count;
    EXPECT_LE(runs, edges);
  }
}

}  // namespace
}  // namespace ptarmigan
