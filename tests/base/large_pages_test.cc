#include "base/large_pages.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ptarmigan {
namespace {

TEST(LargePages, VectorsKeepTheirValuesAcrossTheBorderToLargeBlocks) {
  LargeVector<uint64_t> numbers;
  const size_t count = 3 * kLargeBlockBytes / sizeof(uint64_t);
  for (size_t i = 0; i < count; ++i) numbers.push_back(i);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(numbers[i], i);
}

TEST(LargePages, BlocksOfEverySizeAtTheBorderCanBeWritten) {
  for (const size_t bytes : {kLargeBlockBytes - 1, kLargeBlockBytes, kLargeBlockBytes + 1,
                             2 * kLargeBlockBytes - 1, 2 * kLargeBlockBytes + 1}) {
    LargeVector<char> text(bytes, 'x');
    EXPECT_EQ(text.front(), 'x');
    EXPECT_EQ(text.back(), 'x');
  }
}

}  // namespace
}  // namespace ptarmigan
