#include "symbolize/symbol_rows.h"

#include <gtest/gtest.h>

#include <string>

namespace ptarmigan {
namespace {

TEST(SymbolRows, GivesEqualTextsAndFunctionsOneId) {
  SymbolRows rows;
  const auto a = rows.Intern("alpha");
  EXPECT_EQ(rows.Intern("alpha"), a);
  EXPECT_NE(rows.Intern("beta"), a);
  EXPECT_EQ(rows.Intern(""), 0U);
  EXPECT_EQ(rows.Text(a), "alpha");
  const auto f = rows.DefineFunction({.system_name = a, .start_line = 3});
  EXPECT_EQ(rows.DefineFunction({.system_name = a, .start_line = 3}), f);
  EXPECT_NE(rows.DefineFunction({.system_name = a, .start_line = 4}), f);
}

TEST(SymbolRows, KeepsManyTextsApart) {
  SymbolRows rows;
  std::vector<SymbolRows::StringId> ids;
  for (int i = 0; i < 50000; ++i) ids.push_back(rows.Intern("name" + std::to_string(i)));
  for (int i = 0; i < 50000; ++i) {
    ASSERT_EQ(rows.Text(ids[static_cast<size_t>(i)]), "name" + std::to_string(i));
    ASSERT_EQ(rows.Intern("name" + std::to_string(i)), ids[static_cast<size_t>(i)]);
  }
}

TEST(SymbolRows, CutsATextAtItsBound) {
  SymbolRows rows;
  const std::string longest(SymbolRows::kStringBytesMax, 'x');
  EXPECT_EQ(rows.Text(rows.Intern(longest + "y")), longest);
  EXPECT_EQ(rows.Intern(longest), rows.Intern(longest + "y"));
}

TEST(SymbolRows, DropsWhatLiesOutsideTheCodeRanges) {
  SymbolRows rows;
  rows.SetCodeRanges(
      {{{0x3000}, {0x4000}}, {{0x1000}, {0x2000}}, {{0x2000}, {0x2800}}, {{9}, {9}}});
  EXPECT_EQ(rows.code_ranges(),
            (std::vector<CodeRange>{{{0x1000}, {0x2800}}, {{0x3000}, {0x4000}}}));
  EXPECT_EQ(rows.AddFunction({.start = {0}, .size_bytes = 16, .names = {.system_name = "gone"}}),
            SymbolRows::kNone);
  EXPECT_NE(
      rows.AddFunction({.start = {0x27ff}, .size_bytes = 1, .names = {.system_name = "last"}}),
      SymbolRows::kNone);
  EXPECT_EQ(rows.AddFunction({.start = {0x2800}, .size_bytes = 1, .names = {.system_name = "gap"}}),
            SymbolRows::kNone);
  const SymbolRows::LineRow row = {.start = {0x4000}, .line = 1};
  rows.AddLines(SymbolSource::kDwarf, std::span(&row, 1), {0x4010});
  EXPECT_TRUE(rows.lines().empty());
  EXPECT_EQ(rows.dropped_outside_code(), 3U);
  EXPECT_EQ(rows.ranges().size(), 1U);
}

TEST(SymbolRows, StopsAnInlineChainAtItsDepthBound) {
  SymbolRows rows;
  const auto root = rows.AddFunction({.start = {0x10}, .size_bytes = 16, .names = {.name = "f"}});
  const CodeRange range = {{0x10}, {0x20}};
  auto scope = root;
  for (unsigned i = 0; i < SymbolRows::kInlineDepthMax; ++i) {
    scope = rows.AddInline(scope, {.name = "g"}, {.line = i}, std::span(&range, 1));
    ASSERT_NE(scope, SymbolRows::kNone);
  }
  EXPECT_EQ(rows.scopes()[scope].depth, SymbolRows::kInlineDepthMax);
  EXPECT_EQ(rows.AddInline(scope, {.name = "h"}, {}, std::span(&range, 1)), SymbolRows::kNone);
  EXPECT_EQ(rows.dropped_by_limit(), 1U);
  // Children of what was dropped are dropped without being counted again.
  EXPECT_EQ(rows.AddInline(SymbolRows::kNone, {.name = "i"}, {}, {}), SymbolRows::kNone);
  EXPECT_EQ(rows.dropped_by_limit(), 1U);
}

TEST(SymbolRows, SortsALineSequenceAndKeepsTheOrderOfEqualAddresses) {
  SymbolRows rows;
  const std::vector<SymbolRows::LineRow> lines = {
      {.start = {0x30}, .line = 3}, {.start = {0x10}, .line = 1}, {.start = {0x30}, .line = 4}};
  rows.AddLines(SymbolSource::kDwarf, lines, {0x40});
  ASSERT_EQ(rows.lines().size(), 3U);
  EXPECT_EQ(rows.lines()[0].line, 1U);
  EXPECT_EQ(rows.lines()[1].line, 3U);
  EXPECT_EQ(rows.lines()[2].line, 4U);
}

TEST(SymbolRows, KeepsNotesUpToTheirBound) {
  SymbolRows rows;
  for (size_t i = 0; i <= SymbolRows::kNotesMax; ++i) rows.AddNote("note");
  EXPECT_EQ(rows.notes().size(), SymbolRows::kNotesMax);
}

}  // namespace
}  // namespace ptarmigan
