#include "decode/branch_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ptarmigan {
namespace {

BranchStackFormat FormatOf(uint64_t branch_sample_type, Arch arch = Arch::kX86_64) {
  RecordingDescription description;
  description.arch = arch;
  EventDescription event;
  event.attr.sample_type = kSampleBranchStack;
  event.attr.branch_sample_type = branch_sample_type;
  return BranchStackFormatOf(description, event);
}

CapturedSample SampleOf(std::vector<BranchRecord> branches) {
  CapturedSample sample;
  sample.branches = std::move(branches);
  sample.has_branches = true;
  return sample;
}

TEST(BranchStack, TellsFlowFromCallStacks) {
  EXPECT_EQ(FormatOf(kBranchAny).mode, BranchStackMode::kFlow);
  EXPECT_EQ(FormatOf(kBranchCallStack | kBranchNoFlags).mode, BranchStackMode::kCallStack);
  EXPECT_FALSE(FormatOf(kBranchCallStack).every_branch);
  EXPECT_EQ(BranchStackFormatOf({}, {}).mode, BranchStackMode::kNone);
}

TEST(BranchStack, KnowsRunsOnlyWhereNoKindOfBranchIsLeftOut) {
  EXPECT_TRUE(FormatOf(kBranchAny).every_branch);
  EXPECT_TRUE(FormatOf(kBranchAny | kBranchAnyCall).every_branch);
  EXPECT_TRUE(FormatOf(kBranchHwIndex).every_branch);
  EXPECT_FALSE(FormatOf(kBranchAnyCall).every_branch);
  EXPECT_FALSE(FormatOf(kBranchConditional | kBranchIndirectJump).every_branch);
  EXPECT_FALSE(FormatOf(kBranchAny | kBranchInTx).every_branch);
}

TEST(BranchStack, DropsWrongPathEntriesAndKeepsTheOthers) {
  const auto sample = SampleOf({{.from = 1, .to = 2, .predicted = true, .spec = 2},
                                {.from = 3, .to = 4, .mispredicted = true, .spec = 1},
                                {.from = 5, .to = 6, .mispredicted = true, .spec = 3},
                                {.from = 7, .to = 8}});
  std::vector<BranchEdge> edges;
  const auto counts = AppendBranchStack(sample, FormatOf(kBranchAny), &edges);
  EXPECT_EQ(counts.whole, 3U);
  EXPECT_EQ(counts.wrong_path, 1U);
  EXPECT_EQ(counts.all(), 4U);
  ASSERT_EQ(edges.size(), 3U);
  EXPECT_EQ(edges[0].outcome, BranchOutcome::kPredicted);
  EXPECT_EQ(edges[1].from, 5U);
  EXPECT_EQ(edges[1].outcome, BranchOutcome::kMispredicted);
  EXPECT_EQ(edges[2].outcome, BranchOutcome::kUnknown);
}

TEST(BranchStack, AcceptsHalfRecordsAndCountsEmptyOnes) {
  const auto sample =
      SampleOf({{.from = 0, .to = 2}, {.from = 3, .to = 0}, {}, {.from = 5, .to = 6}});
  std::vector<BranchEdge> edges;
  const auto counts = AppendBranchStack(sample, FormatOf(kBranchAny, Arch::kArm64), &edges);
  EXPECT_EQ(counts.half, 2U);
  EXPECT_EQ(counts.empty, 1U);
  EXPECT_EQ(counts.whole, 1U);
  EXPECT_EQ(edges.size(), 3U);
}

TEST(BranchStack, TakesNoOutcomeFromEventsThatRecordNone) {
  const auto sample = SampleOf({{.from = 1, .to = 2, .predicted = true, .cycles = 9}});
  std::vector<BranchEdge> edges;
  AppendBranchStack(sample, FormatOf(kBranchAny | kBranchNoFlags | kBranchNoCycles), &edges);
  EXPECT_EQ(edges[0].outcome, BranchOutcome::kUnknown);
  EXPECT_EQ(edges[0].cycles, 0);
}

TEST(BranchStack, DoesNotBelieveOutcomesThatPerfMadeUpForCoresight) {
  const auto sample = SampleOf({{.from = 1, .to = 2, .predicted = true}});
  std::vector<BranchEdge> edges;
  AppendBranchStack(sample, FormatOf(kBranchHwIndex, Arch::kArm64), &edges);
  EXPECT_EQ(edges[0].outcome, BranchOutcome::kUnknown);
  edges.clear();
  AppendBranchStack(sample, FormatOf(kBranchAny, Arch::kArm64), &edges);
  EXPECT_EQ(edges[0].outcome, BranchOutcome::kPredicted);
}

TEST(BranchStack, CountsEveryEntryOnceWhateverItHolds) {
  std::mt19937_64 random(7);
  std::vector<BranchEdge> edges;
  for (int round = 0; round < 500; ++round) {
    CapturedSample sample = SampleOf(std::vector<BranchRecord>(random() % 70));
    for (BranchRecord& branch : sample.branches) {
      branch.from = random() % 3 == 0 ? 0 : random();
      branch.to = random() % 3 == 0 ? 0 : random();
      branch.spec = random() & 3;
      branch.mispredicted = random() & 1;
      branch.predicted = random() & 1;
    }
    edges.clear();
    const auto counts = AppendBranchStack(sample, FormatOf(random() & 0xfffff), &edges);
    EXPECT_EQ(counts.all(), sample.branches.size());
    EXPECT_EQ(counts.kept(), edges.size());
  }
}

// Where processors differ, each PMU has its own depth; a generic event names its PMU in the upper half of its config.
TEST(BranchStack, KnowsTheHardwaresDepthFromThePmuOfTheEvent) {
  RecordingDescription description;
  EventDescription event;
  event.attr.sample_type = kSampleBranchStack;
  event.attr.type = kPerfTypeHardware;
  const auto depth = [&] { return BranchStackFormatOf(description, event).entries_max; };
  EXPECT_EQ(depth(), 0U);
  description.pmu_caps["cpu"]["branches"] = "32";
  EXPECT_EQ(depth(), 32U);
  description.pmu_names = {{8, "cpu_core"}, {10, "cpu_atom"}};
  description.pmu_caps["cpu_atom"]["branches"] = "16";
  event.attr.config = uint64_t{10} << 32;
  EXPECT_EQ(depth(), 16U);
  event.attr.type = 10;
  event.attr.config = 0x3c;
  EXPECT_EQ(depth(), 16U);
  for (const char* wrong : {"", "-1", "32x", "99999999999999999999999"}) {
    description.pmu_caps["cpu_atom"]["branches"] = wrong;
    EXPECT_EQ(depth(), 0U) << wrong;
  }
}

TEST(BranchStack, KnowsCountersOnlyWhereTheirLayoutIsPossible) {
  RecordingDescription description;
  EventDescription event;
  event.attr.sample_type = kSampleBranchStack;
  const auto counters = [&](const char* number, const char* bits) {
    description.pmu_caps["cpu"] = {{"branch_counter_nr", number}, {"branch_counter_width", bits}};
    return BranchStackFormatOf(description, event).counters;
  };
  EXPECT_EQ(counters("4", "2"), 0U);  // not recorded
  event.attr.branch_sample_type = kBranchAny | kBranchCounters;
  EXPECT_EQ(counters("4", "2"), 4U);
  EXPECT_EQ(counters("64", "1"), 64U);
  EXPECT_EQ(counters("0", "2"), 0U);
  EXPECT_EQ(counters("1", "64"), 0U);
  EXPECT_EQ(counters("33", "2"), 0U);
  const BranchStackFormat format{.counters = 4, .counter_bits = 2};
  EXPECT_EQ(BranchCounterOf(0xe4, format, 2).value, 2U);
  EXPECT_FALSE(BranchCounterOf(0xe4, format, 2).is_saturated);
  EXPECT_EQ(BranchCounterOf(0xe4, format, 3).value, 3U);
  EXPECT_TRUE(BranchCounterOf(0xe4, format, 3).is_saturated);
}

}  // namespace
}  // namespace ptarmigan
