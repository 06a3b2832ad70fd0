#include "export/bolt.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/export/code_lines_fake.h"

namespace ptarmigan {
namespace {

constexpr FileVaddr kOutside = ObjectBranches::kOutside;

class Bolt : public testing::Test {
 protected:
  void SetUp() override {
    lines_.symbols = {
        {.name = "leaf", .file = "a.c", .start = {0x100}, .size_bytes = 0x20, .is_local = true},
        {.name = "main", .start = {0x200}, .size_bytes = 0x80},
        {.name = "alias", .start = {0x200}, .size_bytes = 0x80},
        {.name = "label", .start = {0x210}, .is_local = true},
        {.name = "leaf", .file = "b.c", .start = {0x300}, .size_bytes = 0x20, .is_local = true},
        {.name = "odd name\\", .start = {0x400}, .size_bytes = 0}};
  }
  std::string Fdata() {
    std::string text;
    StringSink sink(&text);
    const auto written = WriteBoltFdata(branches_, &lines_, &sink);
    return written.has_value() ? text : "error: " + written.error().message;
  }
  std::string Preaggregated(PreaggregatedDialect dialect) {
    std::string text;
    StringSink sink(&text);
    const auto written = WriteBoltPreaggregated(branches_, dialect, &lines_, &sink);
    return written.has_value() ? text : "error: " + written.error().message;
  }

  FakeCodeLines lines_;
  ObjectBranches branches_;
};

TEST_F(Bolt, WritesBranchesByFunctionAndOffset) {
  branches_.edges = {
      {{0x214}, {0x200}, 12, 3}, {{0x21a}, {0x100}, 5, 0}, {{0x230}, kOutside, 4, 1}};
  EXPECT_EQ(Fdata(),
            "1 main 14 1 main 0 3 12\n"
            "1 main 1a 1 leaf/1 0 0 5\n"
            "1 main 30 0 [unknown] 0 1 4\n");
}

TEST_F(Bolt, NumbersLocalFunctionsOfOneNameByAddress) {
  branches_.edges = {{{0x110}, {0x308}, 1, 0}};
  EXPECT_EQ(Fdata(), "1 leaf/1 10 1 leaf/2 8 0 1\n");
}

TEST_F(Bolt, EscapesNames) {
  branches_.edges = {{{0x404}, {0x400}, 1, 0}};
  EXPECT_EQ(Fdata(), "1 odd\\ name\\\\ 4 1 odd\\ name\\\\ 0 0 1\n");
}

TEST_F(Bolt, AddsWaysThatWereNotBranchesAndLeavesReturnsOut) {
  branches_.edges = {{{0x214}, {0x220}, 12, 3}, {{0x11f}, {0x218}, 9, 0, true}};
  branches_.fall_throughs = {{{0x214}, {0x216}, 7, 0}, {{0x214}, {0x220}, 1, 0}};
  EXPECT_EQ(Fdata(),
            "1 main 14 1 main 16 0 7\n"
            "1 main 14 1 main 20 3 13\n");
}

TEST_F(Bolt, SumsEntriesFromOtherObjects) {
  branches_.edges = {{kOutside, {0x200}, 5, 1}, {{0x150}, {0x200}, 2, 0}, {{0x150}, {0x160}, 8, 0}};
  std::string text;
  StringSink sink(&text);
  const auto written = WriteBoltFdata(branches_, &lines_, &sink);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(text, "0 [unknown] 0 1 main 0 1 7\n");
  EXPECT_EQ(written->branches_without_function, 8U);
  EXPECT_EQ(written->lines, 1U);
}

TEST_F(Bolt, SaysThatAStrippedBinaryIsOfNoUse) {
  lines_.symbols.clear();
  branches_.path = "/bin/a";
  branches_.edges = {{{0x214}, {0x200}, 12, 3}};
  EXPECT_TRUE(Fdata().starts_with("error: /bin/a: none of the branches")) << Fdata();
}

TEST_F(Bolt, WritesBranchesAndFallThroughsForEveryVersion) {
  branches_.edges = {
      {{0x21a}, {0x100}, 5, 2}, {kOutside, {0x200}, 1, 0}, {{0x11f}, {0x21f}, 5, 0, true}};
  branches_.traces = {{kOutside, {0x200}, {0x21a}, false, 1, 0},
                      {{0x11f}, {0x21f}, {0x22f}, true, 4, 0},
                      {{0x22f}, {0x21f}, {0x22f}, false, 3, 0},
                      {{0x21a}, {0x100}, kOutside, false, 5, 2}};
  EXPECT_EQ(Preaggregated(PreaggregatedDialect::kBranches),
            "B 21a 100 5 2\n"
            "B X:0 200 1 0\n"
            "B 11f 21f 5 0\n"
            "f 200 21a 1\n"
            "F 21f 22f 3\n"
            "f 21f 22f 4\n");
}

TEST_F(Bolt, WritesBlocksAloneAsFallThroughs) {
  branches_.blocks = {{{0x200}, {0x21a}, {0x21f}, 6}};
  EXPECT_EQ(Preaggregated(PreaggregatedDialect::kBranches), "F 200 21a 6\n");
}

TEST_F(Bolt, WritesTracesForNewerVersions) {
  branches_.edges = {{{0x230}, kOutside, 4, 1}, {{0x21a}, {0x100}, 5, 2}};
  branches_.traces = {{{0x11f}, {0x21f}, {0x22f}, true, 4, 0},
                      {{0x22f}, {0x21f}, {0x22f}, false, 3, 1},
                      {{0x21a}, {0x100}, kOutside, false, 5, 2}};
  EXPECT_EQ(Preaggregated(PreaggregatedDialect::kTraces),
            "R 11f 21f 22f 4\n"
            "T 22f 21f 22f 3\n"
            "B 21a 100 5 2\n"
            "B 230 X:0 4 1\n");
  branches_ = {};
  EXPECT_TRUE(Preaggregated(PreaggregatedDialect::kTraces).starts_with("error: "));
}

}  // namespace
}  // namespace ptarmigan
