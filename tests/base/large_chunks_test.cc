#include "base/large_chunks.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace ptarmigan {
namespace {

TEST(LargeChunks, ValuesStayWhereTheyAreWhileOthersAreAdded) {
  using Value = std::array<uint32_t, 16>;
  LargeChunks<Value> values;
  Value* first = &values.Append();
  constexpr uint32_t kCount = 3 * kLargeBlockBytes / sizeof(Value);
  for (uint32_t i = 1; i < kCount; ++i) values.Append()[3] = i;
  EXPECT_EQ(values.size(), kCount);
  EXPECT_EQ(&values[0], first);
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(values[i][3], i);
    ASSERT_EQ(values[i][4], 0U);
  }
  EXPECT_GE(values.MemoryBytes(), kCount * sizeof(Value));
}

}  // namespace
}  // namespace ptarmigan
