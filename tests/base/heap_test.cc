#include "base/heap.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace ptarmigan {
namespace {

// In a process of its own: it changes the heap for good.
TEST(HeapDeathTest, WorksOnWithLargePages) {
  const auto use_heap = [] {
    UseLargePagesForHeap();
    std::vector<std::vector<uint32_t>> blocks;
    for (uint32_t i = 0; i < 300; ++i) {
      blocks.emplace_back(size_t{1} << (i % 21), i);
      if (i % 3 == 0) blocks[i / 2].clear();
    }
    for (uint32_t i = 150; i < 300; ++i) {
      for (const uint32_t number : blocks[i]) {
        if (number != i) std::exit(1);
      }
    }
    std::exit(0);
  };
  EXPECT_EXIT(use_heap(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ptarmigan
