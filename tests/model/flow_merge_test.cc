#include "model/flow_merge.h"

#include <gtest/gtest.h>

#include "model/profile.h"
#include "tests/support/flow_profile.h"

namespace ptarmigan {
namespace {

TEST(FlowMerge, SumsOfTheSameProgramAddUpAndThreadsStayApart) {
  const Profile one = FlowProfile();
  const Profile* const both[] = {&one, &one};
  const auto merged = MergeProfiles(both);
  ASSERT_TRUE(merged.has_value());
  const FlowSummary& flow = merged->summary.flow;
  const FlowSummary& before = one.summary.flow;
  EXPECT_EQ(flow.source, "pt");
  EXPECT_EQ(flow.threads.size(), 2 * before.threads.size());
  ASSERT_EQ(flow.functions.size(), before.functions.size());
  uint64_t instructions = 0;
  uint64_t interrupts = 0;
  for (const FlowSummary::Function& function : flow.functions) {
    instructions += function.instructions;
    interrupts += function.interrupts;
  }
  EXPECT_EQ(instructions, 2000U);
  EXPECT_EQ(interrupts, 6U);
  ASSERT_EQ(flow.calls.size(), before.calls.size());
  for (const FlowSummary::Calls& calls : flow.calls) {
    if (calls.entry != FlowSummary::Entry::kCall) continue;
    EXPECT_EQ(calls.count, 4U);
    EXPECT_EQ(calls.unwound, 2U);
    EXPECT_EQ(calls.total.count(), 4U);
    EXPECT_EQ(calls.total.sum_ns(), 3000U);
    EXPECT_EQ(calls.self.max_ns(), 900U);
    EXPECT_EQ(calls.unbounded, 2U);
  }
  ASSERT_EQ(flow.intervals.size(), 2 * before.intervals.size());
  for (size_t i = 0; i < before.intervals.size(); ++i) {
    const FlowSummary::Interval& second = flow.intervals[before.intervals.size() + i];
    EXPECT_EQ(second.thread, before.intervals[i].thread + before.threads.size());
    EXPECT_EQ(merged->locations[second.function].address,
              one.locations[before.intervals[i].function].address);
  }
  EXPECT_EQ(flow.marks.size(), 2 * before.marks.size());
  EXPECT_EQ(flow.intervals_cut, 16U);
  EXPECT_EQ(flow.marks_cut, 18U);
  EXPECT_EQ(flow.missing_code.at("/lib/gone.so"), 642U);
}

TEST(FlowMerge, SourcesAreNamedOnceEach) {
  const Profile one = FlowProfile();
  Profile other = one;
  other.summary.flow.source = "coresight";
  const Profile* const both[] = {&one, &other};
  const auto merged = MergeProfiles(both);
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->summary.flow.source, "pt,coresight");
}

}  // namespace
}  // namespace ptarmigan
