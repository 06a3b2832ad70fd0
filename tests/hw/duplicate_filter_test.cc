#include "hw/internal/duplicate_filter.h"

#include <gtest/gtest.h>

#include "hw/internal/record_builder.h"

namespace ptarmigan::internal {
namespace {

bool Sees(DuplicateFilter& filter, uint64_t id, int32_t tid) {
  RecordBuilder builder;
  builder.Begin(9, 0);
  builder.Put<uint64_t>(id);
  builder.Put<uint64_t>(0x1000);
  builder.Put<int32_t>(1);
  builder.Put<int32_t>(tid);
  return filter.IsDuplicate(builder.Finish(RecordTrailer{}));
}

TEST(DuplicateFilter, LeavesOutTheIdThatWasOpenedLater) {
  DuplicateFilter filter;
  filter.AddOpened(100, 0);  // the creator, CPU 0
  filter.AddOpened(200, 0);  // thread 7, opened although it had inherited from the creator
  filter.Arm();
  EXPECT_FALSE(Sees(filter, 100, 7));
  EXPECT_TRUE(Sees(filter, 200, 7));
  EXPECT_EQ(filter.TakeDuplicateIds(), (std::vector<uint64_t>{200}));
  EXPECT_TRUE(filter.TakeDuplicateIds().empty());
  // Also from a child of thread 7, which inherited both.
  EXPECT_TRUE(Sees(filter, 200, 8));
  EXPECT_FALSE(Sees(filter, 100, 8));
}

TEST(DuplicateFilter, KeepsTheEarlierIdWhicheverComesFirst) {
  DuplicateFilter filter;
  filter.AddOpened(100, 0);
  filter.AddOpened(200, 0);
  filter.Arm();
  EXPECT_FALSE(Sees(filter, 200, 7));
  EXPECT_FALSE(Sees(filter, 100, 7));
  EXPECT_TRUE(Sees(filter, 200, 7));
  EXPECT_FALSE(Sees(filter, 100, 7));
  EXPECT_EQ(filter.TakeDuplicateIds(), (std::vector<uint64_t>{200}));
}

TEST(DuplicateFilter, KeepsOtherEventsOtherCpusAndOtherThreads) {
  DuplicateFilter filter;
  filter.AddOpened(100, 0);
  filter.AddOpened(101, 1);
  filter.AddOpened(200, 0);
  filter.Arm();
  EXPECT_FALSE(Sees(filter, 100, 7));
  EXPECT_FALSE(Sees(filter, 101, 7));
  EXPECT_FALSE(Sees(filter, 200, 8));
  EXPECT_FALSE(Sees(filter, 999, 7));  // not ours: not our business
  EXPECT_TRUE(filter.TakeDuplicateIds().empty());
}

TEST(DuplicateFilter, LooksAtNothingBeforeAThreadAppearsLate) {
  DuplicateFilter filter;
  filter.AddOpened(100, 0);
  filter.AddOpened(200, 0);
  EXPECT_FALSE(Sees(filter, 100, 7));
  EXPECT_FALSE(Sees(filter, 200, 7));
  filter.Arm();
  constexpr std::byte kShort[16] = {};
  EXPECT_FALSE(filter.IsDuplicate(kShort));
}

}  // namespace
}  // namespace ptarmigan::internal
