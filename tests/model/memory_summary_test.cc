#include "model/memory_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/profile.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(MemorySummary, FindsQuantilesOfCountedValues) {
  const MemorySummary::CyclesCount counts[] = {{4, 50}, {10, 49}, {300, 1}};
  EXPECT_EQ(QuantileOf(counts, 0.5), 4U);
  EXPECT_EQ(QuantileOf(counts, 0.51), 10U);
  EXPECT_EQ(QuantileOf(counts, 0.99), 10U);
  EXPECT_EQ(QuantileOf(counts, 1.0), 300U);
  EXPECT_EQ(QuantileOf({}, 0.5), 0U);
}

TEST(MemorySummary, AddsCountsValueByValue) {
  std::vector<MemorySummary::CyclesCount> sum = {{1, 1}, {5, 2}, {9, 3}};
  const MemorySummary::CyclesCount more[] = {{0, 7}, {5, 1}, {12, 4}};
  AddCounts(more, &sum);
  EXPECT_THAT(sum, ElementsAre(Pair(0, 7), Pair(1, 1), Pair(5, 3), Pair(9, 3), Pair(12, 4)));
}

Profile ProfileWithLatency(uint64_t address, MemorySummary::CyclesCount count) {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  // A location that nothing refers to moves the numbers apart.
  if (address > 1) builder.Location({.mapping = kNoId, .address = 77777}, {});
  const LocationId location = builder.Location({.mapping = kNoId, .address = address}, {});
  const int64_t one = 1;
  builder.Add({builder.Stack({&location, 1}), builder.LabelSet({})}, {&one, 1});
  builder.profile().summary.memory.distributions.push_back(
      {.location = location, .which = MemLatency::kTotal, .counts = {count}});
  return builder.Finish();
}

TEST(MemorySummary, IsMergedWithItsProfile) {
  const Profile a = ProfileWithLatency(1, {10, 2});
  const Profile b = ProfileWithLatency(2, {20, 3});
  const Profile c = ProfileWithLatency(2, {25, 1});
  const Profile* all[] = {&a, &b, &c};
  const auto merged = MergeProfiles(all);
  ASSERT_TRUE(merged);
  const auto& distributions = merged->summary.memory.distributions;
  ASSERT_EQ(distributions.size(), 2U);
  for (const auto& distribution : distributions) {
    if (merged->locations[distribution.location].address == 1) {
      EXPECT_THAT(distribution.counts, ElementsAre(Pair(10, 2)));
    } else {
      EXPECT_EQ(merged->locations[distribution.location].address, 2U);
      EXPECT_THAT(distribution.counts, ElementsAre(Pair(20, 3), Pair(25, 1)));
    }
  }
}

}  // namespace
}  // namespace ptarmigan
