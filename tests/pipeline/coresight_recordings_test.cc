// CoreSight recordings made by others, through the whole pipeline.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "pipeline/import.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

// What simpleperf counts: addresses within the ELF file.
struct BranchList {
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> ranges;  // first and last instruction
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> branches;
};

// "1000-1004:1" and "1004->100c:1"; targets that are not told are 0.
BranchList ReadInjected(const std::string& text) {
  BranchList list;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t colon = line.find(':');
    const size_t arrow = line.find("->");
    const size_t dash = line.find('-');
    if (line.starts_with("//") || colon == std::string::npos || dash == std::string::npos) continue;
    const size_t second = arrow != std::string::npos ? arrow + 2 : dash + 1;
    const std::pair key(std::stoull(line, nullptr, 16),
                        std::stoull(line.substr(second), nullptr, 16));
    const uint64_t count = std::stoull(line.substr(colon + 1));
    if (arrow == std::string::npos) {
      list.ranges[key] = count;
    } else {
      list.branches[key] = count;
    }
  }
  return list;
}

class CoreSightRecording : public testing::Test {
 protected:
  void Read(const std::string& name) {
    const std::string path = TestDataPath("simpleperf/" + name);
    if (path.empty()) GTEST_SKIP() << TestDataMissing("simpleperf");
    ImportOptions options;
    options.symbolizer.binary_paths = {TestDataPath("simpleperf")};
    options.pipeline.trace.digest = true;
    auto profile = ReadProfile(path, options);
    ASSERT_TRUE(profile) << profile.error().message;
    profile_ = std::move(*profile);
  }
  // Within the traced program, which is loaded at its page of code.
  uint64_t AddressOf(uint32_t id) const {
    if (id == BranchSummary::kNone) return 0;
    const Profile::Location& location = profile_.locations[id];
    const Profile::Mapping& mapping = profile_.mappings[location.mapping];
    return location.address - mapping.start.value + mapping.offset.value;
  }

  Profile profile_;
};

TEST_F(CoreSightRecording, ALoopRanWhatItRan) {
  Read("perf_etm.data");
  if (IsSkipped() || HasFatalFailure()) return;
  ASSERT_EQ(profile_.summary.flow.threads.size(), 1U);
  EXPECT_EQ(profile_.summary.flow.source, "coresight");
  const FlowSummary::Thread& thread = profile_.summary.flow.threads[0];
  EXPECT_EQ(thread.tid, 17235);
  EXPECT_EQ(thread.instructions, 944U);
  EXPECT_EQ(thread.blocks, 208U);
  EXPECT_EQ(thread.bad, 0U);
  EXPECT_EQ(thread.bytes.Sum(), 384U);
  EXPECT_TRUE(thread.ip_digest);
}

// simpleperf says of returns, and of branches to code that it does not have, only where they came from.
TEST_F(CoreSightRecording, ItsBranchesAndRunsAreThoseThatSimpleperfCounts) {
  Read("perf_etm.data");
  if (IsSkipped() || HasFatalFailure()) return;
  const BranchList expected =
      ReadInjected(ReadTestFile(TestDataPath("simpleperf/perf_inject.data")));
  ASSERT_FALSE(expected.branches.empty());
  using Key = std::pair<uint64_t, uint64_t>;
  std::map<Key, uint64_t> branches;
  for (const BranchSummary::Edge& edge : profile_.summary.branches.edges) {
    const Key key(AddressOf(edge.from), AddressOf(edge.to));
    const bool is_told = !expected.branches.contains({key.first, 0});
    branches[is_told ? key : Key(key.first, 0)] += edge.count;
  }
  for (const auto& [key, count] : expected.branches) {
    if (key.second == 0) {
      EXPECT_LE(branches[key], count);
      branches[key] = count;
    }
  }
  EXPECT_EQ(branches, expected.branches);
  std::map<Key, uint64_t> runs;
  for (const BranchSummary::Block& block : profile_.summary.branches.blocks) {
    runs[{AddressOf(block.start), AddressOf(block.end)}] += block.count;
  }
  EXPECT_EQ(runs, expected.ranges);
}

// Only the records of its AUX area are there, not the area itself.
TEST_F(CoreSightRecording, TraceThatIsNotInTheFileIsCountedAsLost) {
  Read("perf_with_missing_aux_data.data");
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_EQ(profile_.losses.Lost(LossStage::kMerge, LossReason::kMissingFile, LossUnit::kBytes),
            0xa6fc0U + 0x57870 + 0x74e30 + 0x30 + 0x30 + 0x36b0);
}

}  // namespace
}  // namespace ptarmigan
