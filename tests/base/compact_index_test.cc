#include "base/compact_index.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace ptarmigan {
namespace {

TEST(CompactIndex, GivesTheFirstValueOfEachKey) {
  CompactIndex index;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> truth;
  uint64_t state = 1;
  for (uint32_t i = 0; i < 200'000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const uint64_t first = state >> 48;
    const auto second = static_cast<uint32_t>(state >> 46) & 7;
    const auto [known, is_new] = truth.try_emplace({first, second}, i);
    ASSERT_EQ(index.FindOrInsert({first, second}, i), known->second);
    ASSERT_EQ(index.size(), truth.size());
  }
  ASSERT_GT(truth.size(), size_t{100'000});
}

TEST(CompactIndex, TellsKeysApartThatDifferInOneHalf) {
  CompactIndex index;
  EXPECT_EQ(index.FindOrInsert({0, 0}, 10), 10U);
  EXPECT_EQ(index.FindOrInsert({0, 1}, 11), 11U);
  EXPECT_EQ(index.FindOrInsert({1, 0}, 12), 12U);
  EXPECT_EQ(index.FindOrInsert({UINT64_MAX, UINT32_MAX}, 13), 13U);
  EXPECT_EQ(index.FindOrInsert({0, 0}, 20), 10U);
  EXPECT_EQ(index.FindOrInsert({UINT64_MAX, UINT32_MAX}, 20), 13U);
}

TEST(CompactIndex, TellsWhetherItHoldsAKeyWithoutAddingIt) {
  CompactIndex index;
  index.FindOrInsert({7, 1}, 3);
  EXPECT_TRUE(index.Contains({7, 1}));
  EXPECT_FALSE(index.Contains({7, 2}));
  EXPECT_EQ(index.size(), 1U);
}

TEST(CompactIndex, KnowsNothingAfterClear) {
  CompactIndex index;
  for (uint32_t i = 0; i < 5000; ++i) index.FindOrInsert({i, i}, i);
  const size_t before = index.MemoryBytes();
  index.Clear();
  EXPECT_EQ(index.size(), 0U);
  EXPECT_LT(index.MemoryBytes(), before);
  EXPECT_EQ(index.FindOrInsert({7, 7}, 1), 1U);
}

TEST(CompactIndex, KeepsItsKeysWhenRoomIsMade) {
  CompactIndex index;
  for (uint32_t i = 0; i < 100; ++i) index.FindOrInsert({i, i}, i);
  index.Reserve(50'000);
  const size_t bytes = index.MemoryBytes();
  for (uint32_t i = 0; i < 50'000; ++i) ASSERT_EQ(index.FindOrInsert({i, i}, i), i);
  EXPECT_EQ(index.MemoryBytes(), bytes);
  index.Reserve(1);
  EXPECT_EQ(index.MemoryBytes(), bytes);
}

TEST(CompactIndex, TakesTheLargestValue) {
  CompactIndex index;
  EXPECT_EQ(index.FindOrInsert({1, 1}, CompactIndex::kValueLimit - 1),
            CompactIndex::kValueLimit - 1);
  EXPECT_EQ(index.FindOrInsert({1, 1}, 0), CompactIndex::kValueLimit - 1);
}

}  // namespace
}  // namespace ptarmigan
