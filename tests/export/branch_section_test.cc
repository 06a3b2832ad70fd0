#include "export/branch_section.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "export/archive.h"
#include "model/branch_summary.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

// Locations in an order that pprof changes; each edge has its row.
Profile ProfileWithBranches() {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  builder.SampleType("branches", "count");
  Profile::Mapping mapping;
  mapping.file = builder.String("/bin/app");
  const MappingId app = builder.Mapping(mapping);
  const LocationId from = builder.Location({.mapping = app, .address = 0x40}, {});
  const LocationId to = builder.Location({.mapping = app, .address = 0x10}, {});
  const LocationId lone = builder.Location({.address = 0x7000}, {});
  BranchSummaryBuilder branches;
  branches.AddEdge(
      {.from = from, .to = to, .count = 9, .mispredicted = 2, .predicted = 4, .cycles_sum = 31});
  branches.AddEdge({.from = BranchSummary::kNone, .to = lone, .count = 1});
  branches.AddBlock({.start = to, .end = from, .count = 8, .instructions = 5});
  branches.AddCycles({to, from}, std::array{BranchSummary::CycleCount{3, 6}});
  branches.AddCycles({to, from}, std::array{BranchSummary::CycleCount{4, 1}});
  branches.AddTrace(
      {.from = from, .to = to, .end = from, .is_return = true, .count = 8, .mispredicted = 2});
  branches.AddTrace({.from = from, .to = to, .count = 1});
  branches.AddFunctionStart(to, 0x8);
  branches.AddRejected(3);
  branches.AddWrongPath(7);
  const LocationId stacks[][2] = {{to, from}, {lone, lone}};
  for (const auto& stack : stacks) {
    const std::vector<int64_t> values = {0, 9};
    builder.Add({builder.Stack(stack), builder.LabelSet({})}, values);
  }
  Profile profile = builder.Finish();
  profile.summary.branches = branches.Finish();
  return profile;
}

std::string ArchiveOf(const Profile& profile) {
  std::string out;
  StringSink sink(&out);
  auto writer = ArchiveWriter::Begin(&sink);
  EXPECT_TRUE(writer.has_value());
  EXPECT_TRUE(writer->AddProfile(profile).has_value());
  EXPECT_TRUE(writer->Finish().has_value());
  return out;
}

TEST(BranchSection, ComesBackFromAnArchive) {
  const std::string bytes = ArchiveOf(ProfileWithBranches());
  const auto reader = ArchiveReader::Open(AsBytes(bytes));
  ASSERT_TRUE(reader.has_value());
  const auto profile = reader->ReadProfile();
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->losses.Lost(LossUnit::kRecords), 0U);
  const BranchSummary& branches = profile->summary.branches;
  const auto address = [&](uint32_t id) { return profile->locations[id].address; };
  ASSERT_EQ(branches.edges.size(), 2U);
  const auto& edge = branches.edges[0];
  EXPECT_EQ(std::tuple(address(edge.from), address(edge.to)), std::tuple(0x40U, 0x10U));
  EXPECT_EQ(std::tuple(edge.count, edge.mispredicted, edge.predicted, edge.cycles_sum),
            std::tuple(9U, 2U, 4U, 31U));
  EXPECT_EQ(branches.edges[1].from, BranchSummary::kNone);
  EXPECT_EQ(address(branches.edges[1].to), 0x7000U);
  ASSERT_EQ(branches.blocks.size(), 1U);
  EXPECT_EQ(branches.blocks[0].count, 8U);
  EXPECT_EQ(branches.blocks[0].instructions, 5U);
  EXPECT_EQ(FiguresOf(branches.Cycles(branches.blocks[0])).executions, 7U);
  ASSERT_EQ(branches.traces.size(), 2U);
  EXPECT_TRUE(branches.traces[0].is_return);
  EXPECT_EQ(address(branches.traces[0].end), 0x40U);
  EXPECT_EQ(branches.traces[1].end, BranchSummary::kNone);
  ASSERT_EQ(branches.function_starts.size(), 1U);
  EXPECT_EQ(address(branches.function_starts[0].location), 0x10U);
  EXPECT_EQ(branches.function_starts[0].address, 0x8U);
  EXPECT_EQ(branches.ranges_rejected, 3U);
  EXPECT_EQ(branches.wrong_path, 7U);
}

TEST(BranchSection, IsNotWrittenWithoutBranches) {
  Profile profile = ProfileWithBranches();
  profile.summary.branches = BranchSummary();
  const std::string bytes = ArchiveOf(profile);
  const auto reader = ArchiveReader::Open(AsBytes(bytes));
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->Find(ArchiveSection::kBranches, ""), reader->entries().size());
}

TEST(BranchSection, DamageIsAnErrorOrAnotherValidSummary) {
  const Profile whole = ProfileWithBranches();
  const std::string section = EncodeBranchSection(whole);
  for (size_t size = 0; size < section.size(); ++size) {
    Profile profile = whole;
    profile.summary.branches = BranchSummary();
    EXPECT_FALSE(DecodeBranchSection(AsBytes(section).first(size), &profile).has_value());
    EXPECT_TRUE(profile.summary.branches.empty());
  }
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = section;
    const size_t at = random() % damaged.size();
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << random() % 8);
    Profile profile = whole;
    if (!DecodeBranchSection(AsBytes(damaged), &profile)) continue;
    for (const auto& edge : profile.summary.branches.edges) {
      EXPECT_LE(edge.mispredicted + edge.predicted, edge.count);
      EXPECT_TRUE(edge.from == BranchSummary::kNone || edge.from < profile.locations.size());
    }
  }
}

}  // namespace
}  // namespace ptarmigan
