#include "pipeline/internal/stack_counter.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace ptarmigan::internal {
namespace {

using Stack = std::vector<uint32_t>;

class StackCounterTest : public ::testing::TestWithParam<bool> {
 protected:
  void AddNew(const Stack& places, uint32_t labels, uint64_t period,
              uint32_t chain = StackCounter::kNoChain) {
    counter_.places()->insert(counter_.places()->end(), places.begin(), places.end());
    counter_.Add({.chain = chain, .labels = labels, .period = period}, nullptr);
  }
  void AddKnown(uint32_t chain, uint32_t labels, uint64_t period) {
    counter_.Add({.chain = chain, .is_known = true, .labels = labels, .period = period}, nullptr);
  }
  // {stack, labels}: samples and their weight.
  using Rows = std::map<std::pair<Stack, uint32_t>, std::pair<uint64_t, uint64_t>>;
  Rows Finish() {
    counter_.Finish();
    Rows rows;
    for (const Row& row : table_.rows()) {
      const auto places = table_.Stack(row.stack);
      const auto [at, is_new] =
          rows.emplace(std::pair(Stack(places.begin(), places.end()), row.labels),
                       std::pair(row.samples, row.weight));
      EXPECT_TRUE(is_new) << "two rows for one stack and label set";
    }
    return rows;
  }

  StackTable table_;
  MemoryTable memory_;
  StackCounter counter_{table_, memory_, GetParam()};
};

TEST_P(StackCounterTest, CountsStacksByTheirPlacesAndLabels) {
  AddNew({1, 2, 3}, 0, 10);
  AddNew({2, 3}, 0, 20);
  AddNew({1, 2, 3}, 0, 30);
  AddNew({1, 2, 3}, 1, 40);
  AddNew({}, 0, 50);
  EXPECT_EQ(Finish(), (Rows{{{{1, 2, 3}, 0}, {2, 40}},
                            {{{2, 3}, 0}, {1, 20}},
                            {{{1, 2, 3}, 1}, {1, 40}},
                            {{{}, 0}, {1, 50}}}));
}

TEST_P(StackCounterTest, AKnownStackIsTheOneThatTookItsChainLast) {
  constexpr uint32_t kLast = StackCounter::kChains - 1;
  AddNew({1}, 0, 1, 0);
  AddNew({2}, 0, 1, kLast);
  AddKnown(0, 0, 1);
  AddNew({3}, 0, 1, 0);  // takes the chain, perhaps in the same group
  AddKnown(0, 0, 1);
  AddKnown(kLast, 7, 1);
  AddNew({1}, 0, 1);
  EXPECT_EQ(Finish(),
            (Rows{{{{1}, 0}, {3, 3}}, {{{2}, 0}, {1, 1}}, {{{3}, 0}, {2, 2}}, {{{2}, 7}, {1, 1}}}));
}

TEST_P(StackCounterTest, CountsTheSameWhateverTheBatches) {
  // Enough for many batches, some of which are full by their places first.
  std::mt19937 random(1);
  std::vector<Stack> chains(StackCounter::kChains);
  Rows expected;
  for (size_t i = 0; i < 8 * StackCounter::kBatchSamples; ++i) {
    const auto chain = static_cast<uint32_t>(random() % 50);
    const auto labels = static_cast<uint32_t>(random() % 3);
    const uint64_t period = random() % 100;
    Stack& stack = chains[chain];
    if (i < 1000 || random() % 2 == 0) {
      stack.assign(i < 5000 ? 3 : random() % 300, static_cast<uint32_t>(random() % 20));
      AddNew(stack, labels, period, chain);
    } else {
      AddKnown(chain, labels, period);
    }
    auto& [samples, weight] = expected[{stack, labels}];
    ++samples;
    weight += period;
  }
  EXPECT_EQ(Finish(), expected);
}

TEST_P(StackCounterTest, TakesADeepStackBeyondABatchsPlaces) {
  const Stack deep(StackCounter::kBatchPlaces + 1, 5);
  AddNew(deep, 0, 1);
  AddNew({5}, 0, 1);
  EXPECT_EQ(Finish(), (Rows{{{deep, 0}, {1, 1}}, {{{5}, 0}, {1, 1}}}));
}

TEST_P(StackCounterTest, HandsMemorySamplesOnWithTheirRow) {
  MemSample first;
  first.Set(MemLatency::kTotal, 100);
  MemSample second;
  second.Set(MemLatency::kTotal, 20);
  counter_.places()->push_back(1);
  counter_.Add({.labels = 0, .period = 1}, &first);
  AddNew({1}, 1, 1);
  counter_.places()->push_back(1);
  counter_.Add({.labels = 0, .period = 1}, &second);
  Finish();
  ASSERT_EQ(table_.rows().size(), 2U);
  EXPECT_EQ(memory_.SumsOf(0)[static_cast<size_t>(MemLatency::kTotal)], 120U);
  EXPECT_EQ(memory_.SumsOf(1)[static_cast<size_t>(MemLatency::kTotal)], 0U);
}

TEST_P(StackCounterTest, EndsWithoutFinish) {
  for (size_t i = 0; i < 3 * StackCounter::kBatchSamples; ++i)
    AddNew({static_cast<uint32_t>(i)}, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(Threads, StackCounterTest, ::testing::Bool(), [](const auto& chosen) {
  return chosen.param ? "InBackground" : "InTheCallersThread";
});

TEST(StackCounter, WithoutBackgroundTheTableIsNeverFarBehind) {
  StackTable table;
  MemoryTable memory;
  StackCounter counter(table, memory, /*in_background=*/false);
  for (uint32_t i = 0; i < 100; ++i) {
    counter.places()->push_back(i);
    counter.Add({}, nullptr);
    EXPECT_GE(table.rows().size() + 16, i + 1);
  }
}

}  // namespace
}  // namespace ptarmigan::internal
