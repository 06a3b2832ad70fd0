#include "model/code_image.h"

#include <gtest/gtest.h>

#include <string>

namespace ptarmigan {
namespace {

CodeRegion RegionAt(uint64_t start, std::string_view text) {
  return {.start = {start}, .bytes = AsBytes(text)};
}

TEST(CodeImage, FindsCodeByAddress) {
  ArrayCodeImage image;
  image.AddRegion(RegionAt(0x2000, "second"));
  image.AddRegion(RegionAt(0x1000, "first"));
  EXPECT_EQ(AsText(image.CodeAt({0x1002}, 0)), "rst");
  EXPECT_EQ(AsText(image.CodeAt({0x2000}, 0)), "second");
  EXPECT_TRUE(image.CodeAt({0x1005}, 0).empty());
  EXPECT_TRUE(image.CodeAt({0xfff}, 0).empty());
}

TEST(CodeImage, RegionReplacesWhatItOverlaps) {
  ArrayCodeImage image;
  image.AddRegion({.start = {0x1000}, .bytes = AsBytes("abcdefgh"), .fd = 3, .file_offset = 64});
  image.AddRegion(RegionAt(0x1002, "XY"));
  ASSERT_EQ(image.Regions(0).size(), 3U);
  EXPECT_EQ(AsText(image.CodeAt({0x1000}, 0)), "ab");
  EXPECT_EQ(AsText(image.CodeAt({0x1002}, 0)), "XY");
  EXPECT_EQ(AsText(image.CodeAt({0x1004}, 0)), "efgh");
  EXPECT_EQ(image.Regions(0)[2].file_offset, 68U);
}

TEST(CodeImage, EpochsBeginWithWhatWasThere) {
  ArrayCodeImage image;
  image.AddRegion(RegionAt(0x1000, "old"));
  image.AddRegion(RegionAt(0x2000, "keep"));
  image.StartEpoch(500);
  image.AddRegion(RegionAt(0x1000, "new"));
  EXPECT_EQ(image.EpochAt(0), 0U);
  EXPECT_EQ(image.EpochAt(499), 0U);
  EXPECT_EQ(image.EpochAt(500), 1U);
  EXPECT_EQ(AsText(image.CodeAt({0x1000}, 0)), "old");
  EXPECT_EQ(AsText(image.CodeAt({0x1000}, 1)), "new");
  EXPECT_EQ(AsText(image.CodeAt({0x2000}, 1)), "keep");
}

TEST(CodeImage, NamesFunctionsAndWhatIsMissing) {
  ArrayCodeImage image;
  image.AddFunction({{0x1010}, {0x1020}});
  image.AddFunction({{0x1000}, {0x1008}});
  image.AddMissingObject({{0x7000}, {0x8000}}, "libgone.so");
  EXPECT_EQ(image.FunctionContaining({0x1007}, 0).start, VirtAddr{0x1000});
  EXPECT_TRUE(image.FunctionContaining({0x1008}, 0).empty());
  EXPECT_EQ(image.FunctionContaining({0x101f}, 0).start, VirtAddr{0x1010});
  EXPECT_EQ(image.ObjectAt({0x7fff}, 0), "libgone.so");
  EXPECT_EQ(image.ObjectAt({0x8000}, 0), "");
}

}  // namespace
}  // namespace ptarmigan
