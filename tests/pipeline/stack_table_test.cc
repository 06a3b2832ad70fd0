#include "pipeline/internal/stack_table.h"

#include <gtest/gtest.h>

namespace ptarmigan::internal {
namespace {

TEST(StackTable, HoldsEqualThingsOnce) {
  StackTable table;
  CodeObject object;
  const uint32_t a = table.InternPlace({.object = &object, .position = 1});
  const uint32_t b = table.InternPlace({.object = &object, .position = 2});
  EXPECT_EQ(table.InternPlace({.object = &object, .position = 1}), a);
  EXPECT_NE(table.InternPlace({.object = &object, .position = 1}, /*variant=*/7), a);
  const std::vector<uint32_t> one = {a, b};
  const std::vector<uint32_t> other = {b, a};
  const uint32_t stack = table.InternStack(one);
  EXPECT_EQ(table.InternStack(one), stack);
  EXPECT_NE(table.InternStack(other), stack) << "order is content";
  EXPECT_EQ(std::vector<uint32_t>(table.Stack(stack).begin(), table.Stack(stack).end()), one);
}

TEST(StackTable, KeepsTheEmptyStack) {
  StackTable table;
  const uint32_t empty = table.InternStack({});
  EXPECT_EQ(table.InternStack({}), empty);
  EXPECT_TRUE(table.Stack(empty).empty());
}

TEST(StackTable, AddsUpRowsPerEventAndSaturates) {
  StackTable table;
  const uint32_t stack = table.InternStack({});
  table.Add(stack, 0, 0, 5);
  table.Add(stack, 0, 0, UINT64_MAX);
  table.Add(stack, 0, 1, 3);
  ASSERT_EQ(table.rows().size(), 2U);
  EXPECT_EQ(table.rows()[0].samples, 2U);
  EXPECT_EQ(table.rows()[0].weight, UINT64_MAX);
  EXPECT_EQ(table.rows()[1].weight, 3U);
}

TEST(StackTable, TakesRowsThatAreKnownToBeNewAsTheyAre) {
  StackTable table;
  const uint32_t stack = table.InternStack({});
  EXPECT_FALSE(table.HasRows(stack));
  EXPECT_EQ(table.AppendRow({.stack = stack, .labels = 3, .samples = 2, .weight = 20}), 0U);
  EXPECT_EQ(table.AppendRow({.stack = stack, .labels = 4, .samples = 1, .weight = 10}), 1U);
  EXPECT_TRUE(table.HasRows(stack));
  EXPECT_EQ(table.Add(stack, 3, 0, 5), 0U) << "a stack's first row is found again";
  ASSERT_EQ(table.rows().size(), 2U);
  EXPECT_EQ(table.rows()[0].samples, 3U);
  EXPECT_EQ(table.rows()[0].weight, 25U);
}

TEST(StackTable, FindsEveryRowOfAStackAgain) {
  StackTable table;
  const uint32_t stack = table.InternStack({});
  const uint32_t other = table.InternStack(std::vector<uint32_t>{1});
  constexpr uint32_t kLabels = 3000;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t labels = 0; labels < kLabels; ++labels) {
      for (uint32_t event = 0; event < 2; ++event) {
        table.Add(stack, labels, event, 1);
        table.Add(other, labels, event, 1);
      }
    }
  }
  ASSERT_EQ(table.rows().size(), size_t{kLabels} * 4);
  for (const Row& row : table.rows()) EXPECT_EQ(row.samples, 2U);
}

TEST(StackTable, ReservesNoMoreThanItsBoundWhateverARecordingSaysOfItself) {
  StackTable table;
  table.Reserve(UINT64_MAX);
  EXPECT_LE(table.rows().capacity() * sizeof(Row), StackTable::kReserveBytesMax);
  EXPECT_LE(table.places().capacity() * sizeof(Place), StackTable::kReserveBytesMax);
  EXPECT_GT(table.rows().capacity(), size_t{0});
}

TEST(StackTable, SealKeepsWhatWasAdded) {
  StackTable table;
  CodeObject object;
  const uint32_t place = table.InternPlace({.object = &object, .position = 1});
  const uint32_t stack = table.InternStack(std::vector<uint32_t>{place});
  table.Add(stack, 0, 0, 1);
  const size_t before = table.MemoryBytes();
  table.Seal();
  EXPECT_LE(table.MemoryBytes(), before);
  EXPECT_EQ(table.Stack(stack).size(), 1U);
  EXPECT_EQ(table.rows().size(), 1U);
}

}  // namespace
}  // namespace ptarmigan::internal
