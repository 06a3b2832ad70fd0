#include "pipeline/internal/known_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ptarmigan::internal {
namespace {

TEST(KnownPlaces, HoldWhatWasPutInUnderItsAddressAndSpaceAlone) {
  KnownPlaces known;
  const uint32_t slot = known.SlotOf(0x401000, 7);
  EXPECT_FALSE(known.Holds(slot, 0x401000, 7));
  known.Put(slot, {.address = 0x401000, .space = 7, .number = 3});
  EXPECT_TRUE(known.Holds(slot, 0x401000, 7));
  EXPECT_EQ(known.Number(slot), 3U);
  EXPECT_FALSE(known.Holds(slot, 0x401001, 7));
  EXPECT_FALSE(known.Holds(slot, 0x401000, 8));
}

TEST(KnownPlaces, TheLastAddressOfASlotTakesIt) {
  KnownPlaces known;
  const uint32_t slot = known.SlotOf(0x401000, 7);
  uint64_t other = 0x401001;
  while (known.SlotOf(other, 7) != slot) ++other;
  known.Put(slot, {.address = 0x401000, .space = 7, .number = 3});
  known.Put(slot, {.address = other, .space = 7, .number = 4});
  EXPECT_FALSE(known.Holds(slot, 0x401000, 7));
  EXPECT_EQ(known.Number(slot), 4U);
}

TEST(KnownPlaces, RenumberOnlyWhatIsStillThere) {
  KnownPlaces known;
  const uint32_t slot = known.SlotOf(0x401000, 7);
  known.Put(slot, {.address = 0x401000, .space = 7, .number = 100});
  known.Renumber(slot, 101, 5);
  EXPECT_EQ(known.Number(slot), 100U);
  known.Renumber(slot, 100, 5);
  EXPECT_EQ(known.Number(slot), 5U);
}

TEST(KnownPlaces, EverySlotIsInRangeAndUsed) {
  const KnownPlaces known;
  std::vector<bool> used(KnownPlaces::kSlots);
  // Neighbouring return addresses, and the same address in neighbouring spaces.
  for (uint64_t i = 0; i < 20 * KnownPlaces::kSlots; ++i) {
    used.at(known.SlotOf(0x7f0000000000 + 5 * i, 1)) = true;
    used.at(known.SlotOf(0x7f0000000000, static_cast<uint32_t>(i + 1))) = true;
  }
  EXPECT_EQ(std::count(used.begin(), used.end(), true), std::ptrdiff_t{KnownPlaces::kSlots});
}

TEST(KnownPlaces, NothingIsRememberedOfSpacesBeyondItsKeys) {
  EXPECT_EQ(KnownPlaces::SpaceOf(1), 1U);
  EXPECT_EQ(KnownPlaces::SpaceOf(UINT32_MAX), UINT32_MAX);
  EXPECT_EQ(KnownPlaces::SpaceOf(uint64_t{UINT32_MAX} + 1), 0U);
  EXPECT_EQ(KnownPlaces::SpaceOf(UINT64_MAX), 0U);
}

TEST(KnownPlaces, ClearForgetsEverything) {
  KnownPlaces known;
  const uint32_t slot = known.SlotOf(0x401000, 7);
  known.Put(slot, {.address = 0x401000, .space = 7, .number = 3});
  known.Clear();
  EXPECT_FALSE(known.Holds(slot, 0x401000, 7));
}

}  // namespace
}  // namespace ptarmigan::internal
