#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <unordered_set>

namespace ptarmigan {
namespace {

// Values of the XXH3 reference implementation for empty input and seed 0 (its published sanity checks).
TEST(HashBytes, EqualsTheReferenceValues) {
  EXPECT_EQ(HashBytes64({}), 0x2d06800538d394c2U);
  EXPECT_EQ(ToHex(HashBytes128({})), "99aa06d3014798d86001c324468d497f");
}

TEST(HashBytes, DependsOnEveryByteAndOnTheSeed) {
  const std::string text(300, 'a');
  std::unordered_set<Hash128, Hash128Hasher> seen = {HashBytes128(AsBytes(text))};
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = 'b';
    EXPECT_TRUE(seen.insert(HashBytes128(AsBytes(changed))).second) << i;
  }
  EXPECT_NE(HashBytes64(AsBytes(text), 1), HashBytes64(AsBytes(text), 2));
  EXPECT_NE(HashBytes128(AsBytes(text), 1), HashBytes128(AsBytes(text), 2));
}

// Published FNV-1a test vectors.
TEST(Fnv1a64, EqualsThePublishedVectors) {
  const auto hash_of = [](std::string_view text) {
    uint64_t state = kFnv1aBasis;
    for (const char byte : text) state = Fnv1a64(state, static_cast<uint8_t>(byte));
    return state;
  };
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8U);
}

TEST(ToHex, KeepsLeadingZeros) {
  EXPECT_EQ(ToHex(Hash128{.high = 0x1, .low = 0xab}), "000000000000000100000000000000ab");
}

}  // namespace
}  // namespace ptarmigan
