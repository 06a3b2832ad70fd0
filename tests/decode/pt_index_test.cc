#include "decode/internal/pt_index.h"

#include <gtest/gtest.h>

#include <string>

namespace ptarmigan::internal {
namespace {

std::string Psb() {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += "\x02\x82";
  return bytes + "\x02\x23";  // PSBEND
}

TEST(IndexPt, FindsEveryPsb) {
  const std::string trace = "\x1c\x1c" + Psb() + "\x1c" + Psb();
  const auto points = IndexPt(AsBytes(trace));
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].offset, 2U);
  EXPECT_EQ(points[1].offset, 2U + Psb().size() + 1);
}

// CYC of two bytes (77 02) and a short TNT (82): together with the PSB behind them nine pairs of 02 82.
TEST(IndexPt, PacketsThatEndAsAPsbBeginsAreNoPartOfIt) {
  const std::string trace = "\x77\x02\x82" + Psb();
  const auto points = IndexPt(AsBytes(trace));
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].offset, 3U);
}

TEST(IndexPt, APsbThatIsCutIsNone) {
  EXPECT_TRUE(IndexPt(AsBytes(Psb().substr(0, 15))).empty());
  EXPECT_EQ(IndexPt(AsBytes(Psb().substr(0, 16))).size(), 1U);
  EXPECT_EQ(IndexPt(AsBytes(Psb().substr(0, 17))).size(), 1U);
}

}  // namespace
}  // namespace ptarmigan::internal
