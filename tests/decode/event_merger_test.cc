#include "decode/event_merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ptarmigan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void AddAll(EventMerger* merger, const std::vector<uint64_t>& times) {
  for (const uint64_t time : times) {
    EventMerger::Reference reference;
    reference.time_ns = time;
    merger->Add(reference);
  }
}

std::vector<uint64_t> Times(std::span<const EventMerger::Reference> released) {
  std::vector<uint64_t> times;
  for (const EventMerger::Reference& reference : released) times.push_back(reference.time_ns);
  return times;
}

TEST(EventMerger, ReleasesAtARoundsEndWhatTheRoundBeforeHadSeen) {
  EventMerger merger;
  AddAll(&merger, {1, 4, 7, 2, 3, 9});
  EXPECT_THAT(Times(merger.EndRound()), IsEmpty());
  AddAll(&merger, {8, 10, 11, 12});
  EXPECT_THAT(Times(merger.EndRound()), ElementsAre(1, 2, 3, 4, 7, 8, 9));
  EXPECT_THAT(Times(merger.EndRound()), ElementsAre(10, 11, 12));
  EXPECT_EQ(merger.late(), 0U);
}

TEST(EventMerger, KeepsTheOrderOfEqualTimes) {
  EventMerger merger;
  // Two rings; size_bytes tells the records apart.
  for (uint32_t i = 0; i < 8; ++i) {
    EventMerger::Reference reference;
    reference.time_ns = i % 4 / 2;
    reference.size_bytes = i;
    merger.Add(reference);
  }
  std::vector<uint32_t> order;
  for (const EventMerger::Reference& reference : merger.ReleaseAll())
    order.push_back(reference.size_bytes);
  EXPECT_THAT(order, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
}

TEST(EventMerger, SortsAnyNumberOfRunsLikeAStableSort) {
  std::mt19937 random(7);
  for (const size_t count : {1U, 2U, 3U, 17U, 1000U}) {
    for (const uint64_t range : {1U, 10U, 1000000U}) {
      EventMerger merger;
      std::vector<std::pair<uint64_t, uint32_t>> expected;
      for (uint32_t i = 0; i < count; ++i) {
        EventMerger::Reference reference;
        reference.time_ns = random() % range;
        reference.size_bytes = i;
        expected.emplace_back(reference.time_ns, i);
        merger.Add(reference);
      }
      std::stable_sort(expected.begin(), expected.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      std::vector<std::pair<uint64_t, uint32_t>> released;
      for (const EventMerger::Reference& reference : merger.ReleaseAll()) {
        released.emplace_back(reference.time_ns, reference.size_bytes);
      }
      EXPECT_EQ(released, expected);
    }
  }
}

TEST(EventMerger, ReleasesTheOlderHalfWhenFull) {
  EventMerger merger(/*records_max=*/4);
  AddAll(&merger, {40, 10, 30});
  EXPECT_FALSE(merger.full());
  AddAll(&merger, {20});
  EXPECT_TRUE(merger.full());
  EXPECT_THAT(Times(merger.ReleaseOlderHalf()), ElementsAre(10, 20));
  EXPECT_FALSE(merger.full());
  EXPECT_EQ(merger.size(), 2U);
}

TEST(EventMerger, ReleasesAllOfEqualTimesWhenFull) {
  // Otherwise a full merger could stay full.
  EventMerger merger(/*records_max=*/3);
  AddAll(&merger, {5, 5, 5});
  EXPECT_EQ(merger.ReleaseOlderHalf().size(), 3U);
}

TEST(EventMerger, CountsAndStillReleasesWhatComesLate) {
  EventMerger merger;
  AddAll(&merger, {10, 20});
  merger.ReleaseAll();
  AddAll(&merger, {15, 25});
  EXPECT_EQ(merger.late(), 1U);
  EXPECT_THAT(Times(merger.ReleaseAll()), ElementsAre(15, 25));
}

}  // namespace
}  // namespace ptarmigan
