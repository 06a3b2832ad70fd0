#include "pipeline/internal/latency_counts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace ptarmigan::internal {
namespace {

using Truth = std::map<std::tuple<uint32_t, MemLatency, uint32_t>, uint64_t>;

Truth ByValue(LatencyCounts* counts) {
  Truth values;
  uint64_t last = 0;
  for (const LatencyCounts::Entry& entry : counts->Entries()) {
    EXPECT_TRUE(values.empty() || entry.key > last);
    last = entry.key;
    values[{entry.place(), entry.which(), entry.cycles()}] = entry.samples;
  }
  return values;
}

TEST(LatencyCounts, CountsEachValueOfEachPlace) {
  std::mt19937 random(3);
  LatencyCounts counts;
  Truth truth;
  for (size_t i = 0; i < 3 * LatencyCounts::kPendingMax + 5; ++i) {
    const auto place = static_cast<uint32_t>(random() % 50);
    const auto which = static_cast<MemLatency>(random() % kMemLatencies);
    const auto cycles = static_cast<uint32_t>(random() % 300);
    counts.Add(place, which, cycles);
    ++truth[{place, which, cycles}];
  }
  EXPECT_EQ(ByValue(&counts), truth);
}

TEST(LatencyCounts, AddsWhatAnotherCounted) {
  LatencyCounts a;
  LatencyCounts b;
  a.Add(1, MemLatency::kTotal, 5);
  b.Add(1, MemLatency::kTotal, 5);
  b.Add(2, MemLatency::kIssue, 7);
  a.Add(&b);
  EXPECT_EQ(ByValue(&a), (Truth{{{1, MemLatency::kTotal, 5}, 2}, {{2, MemLatency::kIssue, 7}, 1}}));
}

TEST(LatencyCounts, CountsLatenciesBeyondItsFieldAsTheLargest) {
  LatencyCounts counts;
  counts.Add(1, MemLatency::kTotal, UINT64_MAX);
  counts.Add(1, MemLatency::kTotal, LatencyCounts::kCyclesMax);
  EXPECT_EQ(ByValue(&counts).begin()->second, 2U);
}

TEST(LatencyCounts, RoundsDownBeyondItsBoundAndLosesNone) {
  LatencyCounts counts;
  constexpr auto kMax = static_cast<uint32_t>(LatencyCounts::kExactMax);
  for (uint32_t cycles = 0; cycles < kMax; ++cycles) counts.Add(0, MemLatency::kTotal, cycles);
  EXPECT_EQ(counts.Entries().size(), kMax) << "as many as the bound are exact";
  counts.Add(1, MemLatency::kTotal, 1001);
  counts.Add(1, MemLatency::kTotal, 9);
  const Truth rounded = ByValue(&counts);
  EXPECT_EQ(rounded.at({1, MemLatency::kTotal, 9}), 1U);
  EXPECT_EQ(rounded.at({1, MemLatency::kTotal, 960}), 1U);
  EXPECT_LT(rounded.size(), 300U);
  uint64_t samples = 0;
  for (const auto& [value, count] : rounded) samples += count;
  EXPECT_EQ(samples, kMax + 2U);
}

}  // namespace
}  // namespace ptarmigan::internal
