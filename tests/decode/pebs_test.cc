#include "decode/pebs.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "tests/encoders/pebs_encoder.h"

namespace ptarmigan {
namespace {

TEST(Pebs, DecodesWhatWasEncoded) {
  std::mt19937_64 random(20260303);
  for (int i = 0; i < 50'000; ++i) {
    const PebsFacts facts = RandomPebs(random);
    PebsRecord record;
    DecodePebs(facts.sample, facts.attr, &record);
    ASSERT_EQ(record, facts.truth) << "data_src " << facts.truth.data_src << " level "
                                   << record.level << " not " << facts.truth.level;
  }
}

std::string_view LevelOf(uint64_t data_src) {
  CapturedSample sample;
  sample.has_data_src = true;
  sample.data_src = data_src;
  PebsRecord record;
  DecodePebs(sample, {}, &record);
  return record.level;
}

TEST(Pebs, TheNewWayOfNamingALevelWinsOverTheOld) {
  constexpr uint64_t kL3Bits = 0x42 << 5;  // L3, hit
  EXPECT_EQ(LevelOf(kL3Bits), "L3 hit");
  EXPECT_EQ(LevelOf(kL3Bits | uint64_t{9} << 33), "CXL hit");
  EXPECT_EQ(LevelOf(kL3Bits | uint64_t{15} << 33), "L3 hit");
}

TEST(Pebs, OfSeveralOldLevelsTheNearestIsNamed) {
  EXPECT_EQ(LevelOf((0x40 | 0x400 | 0x2) << 5), "L3 hit");
}

TEST(Pebs, EventsThatDoNotSampleMemoryDescribeNothing) {
  // PERF_MEM_NA of Linux 4.3, 4.14 and 5.12.
  EXPECT_FALSE(DescribesMemoryAccess(0x5080021));
  EXPECT_FALSE(DescribesMemoryAccess(0x1e05080021));
  EXPECT_FALSE(DescribesMemoryAccess(0x11e05080021));
  EXPECT_FALSE(DescribesMemoryAccess(0));
  EXPECT_TRUE(DescribesMemoryAccess(0x5080022));
  EXPECT_TRUE(DescribesMemoryAccess(0x268100142));
}

TEST(Pebs, AnyDataSourceHasTexts) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; ++i) {
    CapturedSample sample;
    sample.has_data_src = true;
    sample.data_src = random() & random();
    PebsRecord record;
    DecodePebs(sample, {}, &record);
    EXPECT_EQ(record.op.empty(), (sample.data_src & 0x1e) == 0);
    EXPECT_EQ(record.tlb.empty(), (sample.data_src >> 26 & 0x7f) == 0);
    EXPECT_EQ(record.level_number, sample.data_src >> 33 & 15);
  }
}

}  // namespace
}  // namespace ptarmigan
