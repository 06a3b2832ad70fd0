#include <gtest/gtest.h>

#include "hw/trigger.h"

namespace ptarmigan {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kHour = 3600 * kSecond;

TEST(TriggerGate, WithoutLimitsEverythingIsTaken) {
  TriggerGate gate({}, 100);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(gate.Ask(100 + i, uint64_t{1} << 40), TriggerVerdict::kTake);
    gate.Taken(100 + i, uint64_t{1} << 40);
  }
  EXPECT_EQ(gate.count(TriggerVerdict::kTake), 1000U);
}

TEST(TriggerGate, HistoryCountsFromTheBeginningAndFromTheLastSnapshot) {
  TriggerGate gate({.history = seconds(2)}, 10 * kSecond);
  EXPECT_EQ(gate.Ask(12 * kSecond - 1, 1), TriggerVerdict::kShortHistory);
  EXPECT_EQ(gate.Ask(12 * kSecond, 1), TriggerVerdict::kTake);
  gate.Taken(12 * kSecond, 1);
  EXPECT_EQ(gate.Ask(13 * kSecond, 1), TriggerVerdict::kShortHistory);
  EXPECT_EQ(gate.Ask(14 * kSecond, 1), TriggerVerdict::kTake);
  EXPECT_EQ(gate.count(TriggerVerdict::kShortHistory), 2U);
}

TEST(TriggerGate, CoolsDownBetweenSnapshotsButNotBeforeTheFirst) {
  TriggerGate gate({.cooldown = minutes(1)}, 0);
  EXPECT_EQ(gate.Ask(1, 1), TriggerVerdict::kTake);
  gate.Taken(1, 1);
  EXPECT_EQ(gate.Ask(60 * kSecond, 1), TriggerVerdict::kCoolingDown);
  EXPECT_EQ(gate.Ask(60 * kSecond + 1, 1), TriggerVerdict::kTake);
}

TEST(TriggerGate, AnyHourHasAtMostSoMany) {
  TriggerGate gate({.snapshots_per_hour = 2}, 0);
  for (const uint64_t at : {uint64_t{0}, kHour / 2}) {
    ASSERT_EQ(gate.Ask(at, 1), TriggerVerdict::kTake);
    gate.Taken(at, 1);
  }
  EXPECT_EQ(gate.Ask(kHour - 1, 1), TriggerVerdict::kTooMany);
  EXPECT_EQ(gate.Ask(kHour, 1), TriggerVerdict::kTake);
  gate.Taken(kHour, 1);
  EXPECT_EQ(gate.Ask(kHour + kHour / 2 - 1, 1), TriggerVerdict::kTooMany);
}

TEST(TriggerGate, TheDiskLimitHoldsForTheSum) {
  TriggerGate gate({.bytes_max = 100}, 0);
  EXPECT_EQ(gate.Ask(1, 101), TriggerVerdict::kDiskFull);
  EXPECT_EQ(gate.Ask(2, 100), TriggerVerdict::kTake);
  gate.Taken(2, 60);  // less than it might have been
  EXPECT_EQ(gate.Ask(3, 41), TriggerVerdict::kDiskFull);
  EXPECT_EQ(gate.Ask(4, 40), TriggerVerdict::kTake);
  gate.Taken(4, 40);
  EXPECT_EQ(gate.Ask(5, 1), TriggerVerdict::kDiskFull);
  EXPECT_EQ(gate.count(TriggerVerdict::kDiskFull), 3U);
}

TEST(TriggerGate, AClockThatGoesBackIsNoHistory) {
  TriggerGate gate({.history = seconds(1)}, 10 * kSecond);
  EXPECT_EQ(gate.Ask(5 * kSecond, 1), TriggerVerdict::kShortHistory);
}

}  // namespace
}  // namespace ptarmigan
