#include "model/build_id.h"

#include <gtest/gtest.h>

namespace ptarmigan {
namespace {

TEST(BuildId, SurvivesHexRoundTrip) {
  const auto id = BuildId::FromHex("00ff10ABcd");
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->ToHex(), "00ff10abcd");
  EXPECT_EQ(BuildId(id->bytes()), *id);
}

TEST(BuildId, RefusesTextThatIsNotHex) {
  EXPECT_FALSE(BuildId::FromHex("abc").has_value());
  EXPECT_FALSE(BuildId::FromHex("zz").has_value());
}

TEST(BuildId, RemovesPaddingOfShorterIds) {
  const std::string field =
      std::string("\x01\x02\x03\x04\x05\x06\x07\x08", 8) + std::string(12, '\0');
  EXPECT_EQ(BuildId::FromPadded(AsBytes(field)).ToHex(), "0102030405060708");
  EXPECT_TRUE(BuildId::FromPadded(AsBytes(std::string(20, '\0'))).empty());
}

TEST(BuildId, CutsAtItsBound) {
  const std::string field(BuildId::kBytesMax + 8, 'x');
  EXPECT_EQ(BuildId(AsBytes(field)).bytes().size(), BuildId::kBytesMax);
}

}  // namespace
}  // namespace ptarmigan
