#include "pipeline/internal/memory_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

MemSample Load(uint32_t cycles) {
  MemSample sample;
  sample.op = MemOp::kLoad;
  sample.Set(MemLatency::kTotal, cycles);
  return sample;
}

MemSample Access(MemOp op, int32_t tid, uint64_t address) {
  MemSample sample;
  sample.op = op;
  sample.identity.pid = 1;
  sample.identity.tid = tid;
  sample.has_data_address = true;
  sample.data_address = {address};
  return sample;
}

TEST(MemoryTable, SumsLatenciesByRowAndCountsThemByPlace) {
  MemoryTable table;
  table.Add(5, 0, Load(10));
  table.Add(5, 0, Load(30));
  table.Add(7, 1, Load(10));
  EXPECT_EQ(table.SumsOf(5)[0], 40U);
  EXPECT_EQ(table.SumsOf(7)[0], 10U);
  EXPECT_EQ(table.SumsOf(6)[0], 0U);
  EXPECT_EQ(table.SumsOf(1000)[0], 0U);
  EXPECT_EQ(table.latencies(), 1U);
  const LocationId locations[] = {3, 3};
  const MemorySummary summary = table.Finish(locations);
  ASSERT_EQ(summary.distributions.size(), 1U) << "two places that are one location";
  EXPECT_EQ(summary.distributions[0].location, 3U);
  EXPECT_THAT(summary.distributions[0].counts, ElementsAre(Pair(10, 2), Pair(30, 1)));
}

TEST(MemoryTable, HasOnlySumsByRowWithoutDetails) {
  MemoryTable table(/*keeps_details=*/false);
  for (int32_t tid = 1; tid <= 2; ++tid) {
    MemSample sample = Access(MemOp::kStore, tid, 0x1000);
    sample.Set(MemLatency::kTotal, 40);
    table.Add(0, 0, sample);
  }
  EXPECT_EQ(table.SumsOf(0)[0], 80U);
  const MemorySummary summary = table.Finish(std::vector<LocationId>{0});
  EXPECT_TRUE(summary.distributions.empty());
  EXPECT_TRUE(summary.lines.empty());
  EXPECT_FALSE(table.keeps_details()) << "also when it is used again";
}

TEST(MemoryTable, KeepsTheSumOfASampleWithoutAPlace) {
  MemoryTable table;
  table.Add(0, StackTable::kNoPlace, Load(10));
  EXPECT_EQ(table.SumsOf(0)[0], 10U);
  EXPECT_TRUE(table.Finish({}).distributions.empty());
}

TEST(MemoryTable, FindsLinesThatSeveralThreadsWrite) {
  MemoryTable table;
  table.Add(0, 0, Access(MemOp::kStore, 1, 0x1000));
  table.Add(0, 0, Access(MemOp::kStore, 2, 0x103f));
  table.Add(0, 0, Access(MemOp::kLoad, 3, 0x1020));
  table.Add(0, 0, Access(MemOp::kStore, 1, 0x1040));
  table.Add(0, 0, Access(MemOp::kLoad, 2, 0x1040));
  const LocationId locations[] = {0};
  const MemorySummary summary = table.Finish(locations);
  ASSERT_EQ(summary.lines.size(), 1U) << "one writer is no conflict";
  EXPECT_EQ(summary.lines[0].address, 0x1000U);
  EXPECT_EQ(summary.lines[0].writers, 2U);
  EXPECT_EQ(summary.lines[0].readers, 1U);
  EXPECT_EQ(summary.lines[0].stores, 2U);
  EXPECT_EQ(summary.lines[0].loads, 1U);
}

TEST(MemoryTable, TellsProcessesApartUnlessPhysicalAddressesJoinThem) {
  MemoryTable table;
  MemSample other = Access(MemOp::kStore, 9, 0x1000);
  other.identity.pid = 2;
  table.Add(0, 0, Access(MemOp::kStore, 1, 0x1000));
  table.Add(0, 0, other);
  for (MemSample sample : {Access(MemOp::kStore, 1, 0x2000), other}) {
    sample.has_physical_address = true;
    sample.physical_address = 0x88000;
    table.Add(0, 0, sample);
  }
  const LocationId locations[] = {0};
  const MemorySummary summary = table.Finish(locations);
  ASSERT_EQ(summary.lines.size(), 1U);
  EXPECT_TRUE(summary.lines[0].is_physical);
  EXPECT_EQ(summary.lines[0].address, 0x88000U);
}

TEST(MemoryTable, CountsAccessesOfLinesBeyondItsBound) {
  MemoryTable table;
  for (uint64_t line = 0; line <= MemoryTable::kLinesMax; ++line) {
    table.Add(0, 0, Access(MemOp::kStore, 1, line * MemoryTable::kLineBytes));
  }
  table.Add(0, 0, Access(MemOp::kStore, 2, 0));
  const LocationId locations[] = {0};
  const MemorySummary summary = table.Finish(locations);
  EXPECT_EQ(summary.lines_not_counted, 1U);
  ASSERT_EQ(summary.lines.size(), 1U) << "a line that is held goes on being counted";
  EXPECT_EQ(summary.lines[0].writers, 2U);
}

}  // namespace
}  // namespace ptarmigan::internal
