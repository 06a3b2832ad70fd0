#include "model/duration_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ptarmigan {
namespace {

TEST(DurationCounts, EveryDurationLiesInItsStep) {
  uint32_t last = 0;
  std::vector<uint64_t> durations = {0, 1, 31, 32, 33, 63, 64, UINT64_MAX};
  for (unsigned bit = 5; bit < 64; ++bit) {
    durations.insert(durations.end(),
                     {(uint64_t{1} << bit) - 1, uint64_t{1} << bit, (uint64_t{1} << bit) + 1});
  }
  std::ranges::sort(durations);
  for (const uint64_t ns : durations) {
    const uint32_t step = DurationCounts::StepOf(ns);
    EXPECT_GE(step, last);
    EXPECT_LT(step, DurationCounts::kStepsMax);
    EXPECT_LE(DurationCounts::LowestOf(step), ns);
    EXPECT_GE(DurationCounts::HighestOf(step), ns);
    last = step;
  }
}

TEST(DurationCounts, StepsFollowEachOtherWithoutGaps) {
  for (uint32_t step = 0; step + 1 < DurationCounts::kStepsMax; ++step) {
    ASSERT_EQ(DurationCounts::HighestOf(step) + 1, DurationCounts::LowestOf(step + 1)) << step;
  }
  EXPECT_EQ(DurationCounts::HighestOf(DurationCounts::kStepsMax - 1), UINT64_MAX);
}

TEST(DurationCounts, QuantilesAreOffByAThirtySecondAtMost) {
  std::mt19937_64 random(7);
  std::vector<uint64_t> durations;
  DurationCounts counts;
  for (int i = 0; i < 10000; ++i) {
    durations.push_back(random() >> (24 + random() % 32));
    counts.Add(durations.back());
  }
  std::ranges::sort(durations);
  EXPECT_EQ(counts.max_ns(), durations.back());
  for (const double share : {0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto index = static_cast<size_t>(share * static_cast<double>(durations.size())) - 1;
    const auto exact = static_cast<double>(durations[index]);
    EXPECT_NEAR(static_cast<double>(counts.QuantileNs(share)), exact, exact / 32 + 1) << share;
  }
}

TEST(DurationCounts, OneDurationIsItsOwnMeanAndQuantile) {
  DurationCounts counts;
  counts.Add(1000);
  EXPECT_EQ(counts.MeanNs(), 1000);
  EXPECT_LE(counts.QuantileNs(0.5), 1000U);
  EXPECT_EQ(counts.max_ns(), 1000U);
  EXPECT_EQ(DurationCounts().QuantileNs(0.5), 0U);
  EXPECT_EQ(DurationCounts().MeanNs(), 0);
}

TEST(DurationCounts, SumsOfPartsEqualTheWhole) {
  DurationCounts whole;
  DurationCounts odd;
  DurationCounts even;
  for (uint64_t i = 0; i < 1000; ++i) {
    whole.Add(i * i);
    (i % 2 == 0 ? even : odd).Add(i * i);
  }
  DurationCounts sum = even;
  sum.Add(odd);
  EXPECT_EQ(sum, whole);
  DurationCounts copied;
  whole.ForEachStep(
      [&](uint32_t step, uint64_t count) { EXPECT_TRUE(copied.AddStep(step, count)); });
  copied.AddSum(whole.sum_ns(), whole.max_ns());
  EXPECT_EQ(copied, whole);
  EXPECT_FALSE(copied.AddStep(DurationCounts::kStepsMax, 1));
  EXPECT_FALSE(copied == even);
}

}  // namespace
}  // namespace ptarmigan
