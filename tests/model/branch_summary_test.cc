#include "model/branch_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "model/profile.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

using ::testing::ElementsAre;

TEST(BranchSummary, AddsUpEqualEdgesAndPutsTheMostFrequentFirst) {
  BranchSummaryBuilder builder;
  builder.AddEdge(
      {.from = 1, .to = 2, .count = 3, .mispredicted = 1, .predicted = 1, .cycles_sum = 7});
  builder.AddEdge({.from = 3, .to = 4, .count = 9});
  builder.AddEdge({.from = 1, .to = 2, .count = 4, .predicted = 4, .cycles_sum = 5});
  const BranchSummary summary = builder.Finish();
  ASSERT_EQ(summary.edges.size(), 2U);
  EXPECT_EQ(summary.edges[0].count, 9U);
  EXPECT_EQ(summary.edges[0].unknown(), 9U);
  EXPECT_EQ(summary.edges[1].count, 7U);
  EXPECT_EQ(summary.edges[1].mispredicted, 1U);
  EXPECT_EQ(summary.edges[1].predicted, 5U);
  EXPECT_EQ(summary.edges[1].unknown(), 1U);
  EXPECT_EQ(summary.edges[1].cycles_sum, 12U);
}

TEST(BranchSummary, KeepsEveryBlocksCyclesApart) {
  BranchSummaryBuilder builder;
  builder.AddBlock({.start = 1, .end = 2, .count = 4, .instructions = 3});
  builder.AddBlock({.start = 5, .end = 6, .count = 1});
  builder.AddCycles({1, 2}, std::array{BranchSummary::CycleCount{9, 1}});
  builder.AddCycles({1, 2}, std::array{BranchSummary::CycleCount{4, 2}});
  builder.AddCycles({1, 2}, std::array{BranchSummary::CycleCount{0xffff, 1}});
  const BranchSummary summary = builder.Finish();
  ASSERT_EQ(summary.blocks.size(), 2U);
  const CycleFigures figures = FiguresOf(summary.Cycles(summary.blocks[0]));
  EXPECT_EQ(figures.executions, 4U);
  EXPECT_EQ(figures.min, 4U);
  EXPECT_EQ(figures.median, 6.5);
  EXPECT_EQ(figures.max, 0xffffU);
  EXPECT_EQ(figures.saturated, 1U);
  EXPECT_EQ(FiguresOf(summary.Cycles(summary.blocks[1])).executions, 0U);
}

// More than are kept before equal ones are added up.
TEST(BranchSummary, AddsUpWhatComesOverAndOver) {
  constexpr uint32_t kTimes = (1U << 16) + (1U << 15) + 5;
  BranchSummaryBuilder builder;
  for (uint32_t i = 0; i < kTimes; ++i) {
    builder.AddEdge({.from = 1, .to = 2 + i % 2, .count = 1, .predicted = 1});
    builder.AddBlock({.start = 2, .end = 1, .count = 1, .instructions = i % 3});
    builder.AddCycles({2, 1}, std::array{BranchSummary::CycleCount{7 + i % 2, 1}});
    builder.AddTrace({.from = 1, .to = 2, .end = i % 2, .is_return = i == 7, .count = 1});
  }
  const BranchSummary summary = builder.Finish();
  ASSERT_EQ(summary.edges.size(), 2U);
  EXPECT_EQ(summary.edges[0].to, 2U);
  EXPECT_EQ(summary.edges[0].count, kTimes / 2 + 1);
  EXPECT_EQ(summary.edges[1].predicted, kTimes / 2);
  ASSERT_EQ(summary.blocks.size(), 1U);
  EXPECT_EQ(summary.blocks[0].count, kTimes);
  EXPECT_EQ(summary.blocks[0].instructions, 2U);
  const auto cycles = summary.Cycles(summary.blocks[0]);
  ASSERT_EQ(cycles.size(), 2U);
  EXPECT_EQ(cycles[0].cycles, 7U);
  EXPECT_EQ(cycles[0].executions, kTimes / 2 + 1);
  EXPECT_EQ(cycles[1].executions, kTimes / 2);
  ASSERT_EQ(summary.traces.size(), 2U);
  EXPECT_EQ(summary.traces[0].end, 0U);
  EXPECT_FALSE(summary.traces[0].is_return);
  EXPECT_TRUE(summary.traces[1].is_return);
}

TEST(BranchSummary, MedianOfAnOddNumberIsTheMiddleOne) {
  const std::vector<BranchSummary::CycleCount> cycles = {{1, 2}, {7, 2}, {8, 1}};
  EXPECT_EQ(FiguresOf(cycles).median, 7.0);
}

// A profile with locations `first` and `second`, in that order, and an edge from 0x10 to 0x20.
Profile ProfileWithEdge(uint64_t first, uint64_t second) {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  const LocationId one = builder.Location({.address = first}, {});
  const LocationId two = builder.Location({.address = second}, {});
  const LocationId from = first == 0x10 ? one : two;
  const LocationId to = first == 0x10 ? two : one;
  BranchSummaryBuilder branches;
  branches.AddEdge({.from = from, .to = to, .count = 2, .predicted = 2});
  branches.AddEdge({.from = BranchSummary::kNone, .to = to, .count = 1});
  branches.AddBlock({.start = to, .end = from, .count = 5});
  branches.AddCycles({to, from}, std::array{BranchSummary::CycleCount{6, 5}});
  branches.AddTrace({.from = from, .to = to, .end = from, .count = 2});
  branches.AddFunctionStart(to, 0x18);
  branches.AddRejected(1);
  branches.AddWrongPath(3);
  Profile profile = builder.Finish();
  profile.summary.branches = branches.Finish();
  return profile;
}

TEST(BranchSummary, MergesByWhatLocationsMeanAndNotByTheirNumbers) {
  const Profile one = ProfileWithEdge(0x10, 0x20);
  const Profile other = ProfileWithEdge(0x20, 0x10);
  const Profile* both[] = {&one, &other};
  const auto merged = MergeProfiles(both);
  ASSERT_TRUE(merged.has_value());
  const BranchSummary& branches = merged->summary.branches;
  ASSERT_EQ(branches.edges.size(), 2U);
  EXPECT_EQ(branches.edges[0].count, 4U);
  EXPECT_EQ(merged->locations[branches.edges[0].from].address, 0x10U);
  EXPECT_EQ(merged->locations[branches.edges[0].to].address, 0x20U);
  EXPECT_EQ(branches.edges[1].from, BranchSummary::kNone);
  EXPECT_EQ(branches.edges[1].count, 2U);
  ASSERT_EQ(branches.blocks.size(), 1U);
  EXPECT_EQ(branches.blocks[0].count, 10U);
  EXPECT_EQ(FiguresOf(branches.Cycles(branches.blocks[0])).executions, 10U);
  ASSERT_EQ(branches.traces.size(), 1U);
  EXPECT_EQ(branches.traces[0].count, 4U);
  ASSERT_EQ(branches.function_starts.size(), 1U);
  EXPECT_EQ(branches.function_starts[0].address, 0x18U);
  EXPECT_EQ(branches.ranges_rejected, 2U);
  EXPECT_EQ(branches.wrong_path, 6U);
}

}  // namespace
}  // namespace ptarmigan
