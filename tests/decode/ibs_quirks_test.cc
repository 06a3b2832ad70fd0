#include <gtest/gtest.h>

#include "decode/ibs.h"

namespace ptarmigan {
namespace {

TEST(IbsQuirks, ReadsFamilyAndModelFromPerfsCpuid) {
  const auto zen3 = AmdModelOf("AuthenticAMD,25,17,1");
  ASSERT_TRUE(zen3.has_value());
  EXPECT_EQ(zen3->family, 25U);
  EXPECT_EQ(zen3->model, 17U);
  EXPECT_TRUE(AmdModelOf("HygonGenuine,24,1,1").has_value());
  for (const char* other :
       {"", "AuthenticAMD", "AuthenticAMD,", "AuthenticAMD,25", "AuthenticAMD,25,",
        "AuthenticAMD,25x,1,1", "AuthenticAMD,-1,1,1", "AuthenticAMD,99999999999,1,1",
        "GenuineIntel,6,143,8", "0x00000000413fd0c0"}) {
    EXPECT_FALSE(AmdModelOf(other).has_value()) << other;
  }
}

IbsQuirks Of(uint32_t family, uint32_t model) {
  return IbsQuirksOf(AmdModel{.family = family, .model = model});
}

TEST(IbsQuirks, Family19hBelowModel10hHasThreeErrataAndNoCacheHitState) {
  constexpr IbsQuirks kZen3 = {.void_l2_after_prefetch = true,
                               .void_ic_miss = true,
                               .page_sizes_with_16k = true,
                               .void_cache_hit_state = true};
  EXPECT_EQ(Of(0x19, 0x00), kZen3);
  EXPECT_EQ(Of(0x19, 0x0f), kZen3);
  EXPECT_EQ(Of(0x19, 0x10), IbsQuirks());
  EXPECT_EQ(Of(0x17, 0x01), IbsQuirks());
  EXPECT_EQ(Of(0x1a, 0x01), IbsQuirks());
}

TEST(IbsQuirks, CacheHitStateIsVoidOnMoreModelsOfFamily19h) {
  for (const uint32_t model : {0x20U, 0x44U, 0x5fU}) {
    EXPECT_EQ(Of(0x19, model), IbsQuirks{.void_cache_hit_state = true}) << model;
  }
  for (const uint32_t model : {0x10U, 0x1fU, 0x60U, 0xa0U}) {
    EXPECT_EQ(Of(0x19, model), IbsQuirks()) << model;
  }
}

TEST(IbsQuirks, FetchNeedsAPhysicalAddressOnLateModelsOfFamily1AhAndAfter) {
  for (const uint32_t model : {0x50U, 0x5fU, 0x80U, 0xafU, 0xc0U, 0xcfU}) {
    EXPECT_EQ(Of(0x1a, model), IbsQuirks{.fetch_needs_physical = true}) << model;
  }
  for (const uint32_t model : {0x4fU, 0x60U, 0x7fU, 0xb0U, 0xbfU, 0xd0U}) {
    EXPECT_EQ(Of(0x1a, model), IbsQuirks()) << model;
  }
  EXPECT_TRUE(Of(0x1b, 0).fetch_needs_physical);
}

TEST(IbsQuirks, AnUnknownProcessorHasNone) { EXPECT_EQ(IbsQuirksOf(std::nullopt), IbsQuirks()); }

}  // namespace
}  // namespace ptarmigan
