#include "base/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <tuple>
#include <vector>

namespace ptarmigan {
namespace {

struct KeyedId {
  uint64_t key = 0;
  uint32_t id = 0;
};

TEST(RadixSort, OrdersByKeyAndKeepsTheOrderOfEqualOnes) {
  std::mt19937_64 random(7);
  std::vector<KeyedId> scratch;
  for (const uint64_t mask : {UINT64_MAX, uint64_t{0}, uint64_t{0x3}, uint64_t{0xffff0000},
                              uint64_t{0x8000000000000001}, uint64_t{0x00fff00000000000}}) {
    for (const size_t size : std::initializer_list<size_t>{0, 1, 2, 511, 512, 513, 20000}) {
      std::vector<KeyedId> items;
      for (size_t i = 0; i < size; ++i)
        items.push_back({(random() & mask) | 0x0000100000000000, static_cast<uint32_t>(i)});
      std::vector<KeyedId> expected = items;
      std::ranges::sort(expected, {},
                        [](const KeyedId& item) { return std::tuple(item.key, item.id); });
      RadixSort(
          std::span(items), [](const KeyedId& item) { return item.key; }, &scratch);
      EXPECT_TRUE(std::ranges::equal(items, expected, {}, &KeyedId::id, &KeyedId::id))
          << mask << " " << size;
    }
  }
}

}  // namespace
}  // namespace ptarmigan
