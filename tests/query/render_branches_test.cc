#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "model/branch_summary.h"
#include "model/profile_builder.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;

Profile ProfileWithBranches() {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  Profile::Mapping mapping;
  mapping.file = builder.String("/bin/app");
  mapping.build_id = builder.String("abcd");
  const MappingId app = builder.Mapping(mapping);
  const Profile::Line line{.function = builder.Function({.name = builder.String("hot")})};
  const LocationId end = builder.Location({.mapping = app, .address = 0x4011d0}, {&line, 1});
  const LocationId start = builder.Location({.mapping = app, .address = 0x4011c0}, {});
  BranchSummaryBuilder branches;
  branches.AddEdge(
      {.from = end, .to = start, .count = 10, .mispredicted = 2, .predicted = 6, .cycles_sum = 44});
  branches.AddEdge({.from = BranchSummary::kNone, .to = start, .count = 1});
  branches.AddBlock({.start = start, .end = end, .count = 9, .instructions = 6});
  branches.AddBlock({.start = end, .end = end, .count = 1});
  branches.AddCycles({start, end}, std::array{BranchSummary::CycleCount{3, 8}});
  branches.AddCycles({start, end}, std::array{BranchSummary::CycleCount{0xffff, 1}});
  branches.AddFunctionStart(end, 0x4011a0);
  branches.AddRejected(4);
  branches.AddWrongPath(5);
  Profile profile = builder.Finish();
  profile.events = {{"cycles:u", 3, 300}};
  profile.summary.branches = branches.Finish();
  return profile;
}

TEST(RenderBranches, JsonHasTheContractsShape) {
  const Profile profile = ProfileWithBranches();
  const auto json =
      nlohmann::json::parse(RenderBranchesJson(profile, MakeBranchReport(profile, 100)));
  EXPECT_EQ(json["events"][0]["name"], "cycles:u");
  ASSERT_EQ(json["edges"].size(), 2U);
  const auto& edge = json["edges"][0];
  EXPECT_EQ(edge["from"]["object"], "/bin/app");
  EXPECT_EQ(edge["from"]["build_id"], "abcd");
  EXPECT_EQ(edge["from"]["address"], "0x4011d0");
  EXPECT_EQ(edge["from"]["function"], "hot");
  EXPECT_EQ(edge["from"]["offset"], 0x30);
  EXPECT_EQ(edge["to"]["function"], "");
  EXPECT_TRUE(edge["to"]["offset"].is_null());
  EXPECT_EQ(edge["count"], 10);
  EXPECT_EQ(edge["mispredicted"], 2);
  EXPECT_EQ(edge["predicted"], 6);
  EXPECT_EQ(edge["unknown"], 2);
  EXPECT_EQ(edge["cycles_sum"], 44);
  EXPECT_EQ(json["edges"][1]["from"]["address"], "");
  const auto& block = json["blocks"][0];
  EXPECT_EQ(block["start"], "0x4011c0");
  EXPECT_EQ(block["end"], "0x4011d0");
  EXPECT_EQ(block["count"], 9);
  EXPECT_EQ(block["cycles"]["min"], 3);
  EXPECT_EQ(block["cycles"]["median"], 3);
  EXPECT_EQ(block["cycles"]["max"], 0xffff);
  EXPECT_EQ(block["cycles"]["saturated"], 1);
  EXPECT_EQ(block["instructions"], 6);
  EXPECT_TRUE(json["blocks"][1]["cycles"]["median"].is_null());
  EXPECT_TRUE(json["blocks"][1]["instructions"].is_null());
  EXPECT_EQ(json["ranges_rejected"], 4);
  EXPECT_EQ(json["wrong_path"], 5);
}

TEST(RenderBranches, TextSaysRatesWithTheirIntervals) {
  const Profile profile = ProfileWithBranches();
  const std::string text = RenderBranchesText(profile, MakeBranchReport(profile, 1), {});
  EXPECT_THAT(text, HasSubstr("11 branches, 25.00 % of 8 with a known outcome mispredicted"));
  EXPECT_THAT(text, HasSubstr("4 runs between them rejected; 5 wrong-path entries left out"));
  EXPECT_THAT(text, HasSubstr("25.0%   7.1.. 59.1 %   hot+0x30 -> app:0x4011c0"));
  EXPECT_THAT(text, HasSubstr("... 1 more edges (--limit)"));
  EXPECT_THAT(text, HasSubstr("3/3/>=65535"));
  EXPECT_THAT(text, HasSubstr("2.00"));
}

}  // namespace
}  // namespace ptarmigan
