#include "query/branches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "model/branch_summary.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

// Two functions of /bin/app: `hot` at 0x1000, `cold` at 0x2000; an edge within and one between.
Profile ProfileWithBranches() {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  Profile::Mapping mapping;
  mapping.file = builder.String("/bin/app");
  mapping.build_id = builder.String("abcd");
  const MappingId app = builder.Mapping(mapping);
  const auto location = [&](uint64_t address, std::string_view name) {
    const Profile::Line lines[] = {
        {.function = builder.Function({.name = builder.String("inlined")})},
        {.function = builder.Function({.name = builder.String(name)})}};
    return builder.Location({.mapping = app, .address = address}, lines);
  };
  const LocationId loop_end = location(0x1010, "hot");
  const LocationId loop_start = location(0x1004, "hot");
  const LocationId cold = location(0x2000, "cold");
  BranchSummaryBuilder branches;
  branches.AddEdge({.from = cold, .to = loop_start, .count = 1, .predicted = 1});
  branches.AddEdge(
      {.from = loop_end, .to = loop_start, .count = 10, .mispredicted = 2, .predicted = 6});
  branches.AddEdge({.from = BranchSummary::kNone, .to = cold, .count = 3});
  branches.AddBlock({.start = loop_start, .end = loop_end, .count = 9, .instructions = 6});
  branches.AddCycles({loop_start, loop_end}, std::array{BranchSummary::CycleCount{3, 9}});
  branches.AddFunctionStart(loop_start, 0x1000);
  branches.AddFunctionStart(loop_end, 0x1000);
  branches.AddFunctionStart(cold, 0x2000);
  Profile profile = builder.Finish();
  profile.summary.branches = branches.Finish();
  return profile;
}

TEST(Branches, NamesPlacesByTheFunctionThatStandsThere) {
  const Profile profile = ProfileWithBranches();
  const BranchReport report = MakeBranchReport(profile, 10);
  ASSERT_EQ(report.edges.size(), 3U);
  EXPECT_EQ(report.edges[0].from.function, "hot");
  EXPECT_EQ(report.edges[0].from.offset, 0x10U);
  EXPECT_EQ(report.edges[0].from.address, 0x1010U);
  EXPECT_EQ(report.edges[0].from.build_id, "abcd");
  EXPECT_FALSE(report.edges[1].from.is_known);
  EXPECT_EQ(report.edges[1].to.offset, 0U);
  EXPECT_EQ(report.branches, 14U);
  EXPECT_EQ(report.mispredicted, 2U);
  EXPECT_EQ(report.predicted, 7U);
}

TEST(Branches, GivesInstructionsPerCycleOfBlocks) {
  const Profile profile = ProfileWithBranches();
  const BranchReport report = MakeBranchReport(profile, 10);
  ASSERT_EQ(report.blocks.size(), 1U);
  EXPECT_EQ(report.blocks[0].cycles.median, 3.0);
  EXPECT_EQ(report.blocks[0].instructions_per_cycle, 2.0);
}

TEST(Branches, SaysHowMuchTheLimitCut) {
  const Profile profile = ProfileWithBranches();
  const BranchReport report = MakeBranchReport(profile, 1);
  EXPECT_EQ(report.edges.size(), 1U);
  EXPECT_EQ(report.edges_cut, 2U);
  EXPECT_EQ(report.blocks_cut, 0U);
  EXPECT_EQ(report.branches, 14U);
}

TEST(Branches, ShowsOnlyWhatTheFilterKeeps) {
  const Profile profile = ProfileWithBranches();
  const EntityTable entities(profile);
  const auto report = [&](const SampleFilter& filter) {
    const auto made = LocationFilter::Make(profile, entities, filter);
    return MakeBranchReport(profile, 10, &*made);
  };
  // A row is kept for either of its sides, and dropped for either.
  const BranchReport cold = report({.focus = "^cold$", .ignore = ""});
  EXPECT_EQ(cold.edges.size(), 2U);
  EXPECT_EQ(cold.branches, 4U);
  EXPECT_EQ(cold.predicted, 1U);
  EXPECT_TRUE(cold.blocks.empty());
  const BranchReport hot = report({.focus = "", .ignore = "^cold$"});
  ASSERT_EQ(hot.edges.size(), 1U);
  EXPECT_EQ(hot.branches, 10U);
  EXPECT_EQ(hot.blocks.size(), 1U);
  EXPECT_TRUE(report({.focus = "hot", .ignore = "cold|hot"}).edges.empty());
  EXPECT_EQ(report({}).edges.size(), 3U);
  EXPECT_EQ(LocationFilter::Make(profile, entities, {.focus = "(", .ignore = ""}).error().code,
            ErrorCode::kInvalidInput);
}

// Values of the formula in Wilson (1927), as R's prop.test(correct = FALSE) gives them.
TEST(Branches, IntervalsAreWilsons) {
  EXPECT_NEAR(WilsonInterval(2, 8).low, 0.07148, 1e-5);
  EXPECT_NEAR(WilsonInterval(2, 8).high, 0.59072, 1e-5);
  EXPECT_NEAR(WilsonInterval(0, 10).low, 0.0, 1e-12);
  EXPECT_NEAR(WilsonInterval(0, 10).high, 0.27753, 1e-5);
  EXPECT_NEAR(WilsonInterval(10, 10).low, 0.72247, 1e-5);
  EXPECT_EQ(WilsonInterval(0, 0).low, 0.0);
  EXPECT_EQ(WilsonInterval(0, 0).high, 1.0);
}

}  // namespace
}  // namespace ptarmigan
