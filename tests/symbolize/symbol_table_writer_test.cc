#include "symbolize/symbol_table_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "symbolize/symbol_table.h"

namespace ptarmigan {
namespace {

std::unique_ptr<SymbolTable> TableOf(const SymbolRows& rows,
                                     const SymbolTableWriterOptions& options = {}) {
  auto bytes = WriteSymbolTable(rows, options);
  EXPECT_TRUE(bytes.has_value());
  auto table = SymbolTable::FromString(std::move(bytes).value(), "test");
  EXPECT_TRUE(table.has_value());
  return std::move(table).value();
}

// "inner a.cc:1:2 < outer b.cc:3:4", innermost first; "-" where nothing is known.
std::string At(const SymbolTable& table, uint64_t address) {
  InlineStack frames;
  if (!table.Find({address}, &frames)) return "-";
  std::string text;
  for (const SourceFrame& frame : frames) {
    if (!text.empty()) text += " < ";
    text += (frame.system_name.empty() ? "?" : frame.system_name) + " " + frame.file + ":" +
            std::to_string(frame.line) + ":" + std::to_string(frame.column);
    if (frame.discriminator != 0) text += "@" + std::to_string(frame.discriminator);
  }
  return text;
}

void AddSymbol(SymbolRows* rows, SymbolSource source, uint64_t start, uint64_t size_bytes,
               std::string_view name) {
  rows->AddFunction({.start = {start},
                     .size_bytes = size_bytes,
                     .names = {.system_name = name},
                     .source = source});
}

TEST(SymbolTableWriter, GivesInlineChainsWithTheirCallSites) {
  SymbolRows rows;
  const auto outer =
      rows.AddFunction({.start = {0x1000},
                        .size_bytes = 0x100,
                        .names = {.system_name = "outer", .file = "outer.cc", .start_line = 9},
                        .source = SymbolSource::kDwarf});
  const std::vector<CodeRange> ranges = {{{0x1010}, {0x1020}}, {{0x1080}, {0x1090}}};
  const auto middle =
      rows.AddInline(outer, {.system_name = "middle", .start_line = 5},
                     {.file = "outer.cc", .line = 12, .column = 3, .discriminator = 2}, ranges);
  const CodeRange inner_range = {{0x1014}, {0x1018}};
  rows.AddInline(middle, {.system_name = "inner"}, {.file = "middle.h", .line = 6, .column = 7},
                 std::span(&inner_range, 1));
  const std::vector<SymbolRows::LineRow> lines = {
      {.start = {0x1000}, .file = rows.Intern("outer.cc"), .line = 10, .column = 1},
      {.start = {0x1014}, .file = rows.Intern("inner.h"), .line = 2, .column = 9},
      {.start = {0x1018}, .file = rows.Intern("outer.cc"), .line = 13}};
  rows.AddLines(SymbolSource::kDwarf, lines, {0x1100});
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0xfff), "-");
  EXPECT_EQ(At(*table, 0x1000), "outer outer.cc:10:1");
  EXPECT_EQ(At(*table, 0x1010), "middle outer.cc:10:1 < outer outer.cc:12:3@2");
  EXPECT_EQ(At(*table, 0x1014), "inner inner.h:2:9 < middle middle.h:6:7 < outer outer.cc:12:3@2");
  EXPECT_EQ(At(*table, 0x1017), "inner inner.h:2:9 < middle middle.h:6:7 < outer outer.cc:12:3@2");
  EXPECT_EQ(At(*table, 0x1018), "middle outer.cc:13:0 < outer outer.cc:12:3@2");
  EXPECT_EQ(At(*table, 0x1020), "outer outer.cc:13:0");
  EXPECT_EQ(At(*table, 0x108f), "middle outer.cc:13:0 < outer outer.cc:12:3@2");
  EXPECT_EQ(At(*table, 0x10ff), "outer outer.cc:13:0");
  EXPECT_EQ(At(*table, 0x1100), "-");
  InlineStack frames;
  ASSERT_TRUE(table->Find({0x1014}, &frames));
  EXPECT_EQ(frames[1].start_line, 5U);
  EXPECT_EQ(frames[2].start_line, 9U);
  EXPECT_TRUE(table->has_functions() && table->has_files() && table->has_lines() &&
              table->has_inlines());
}

TEST(SymbolTableWriter, LetsTheBetterSourceWin) {
  SymbolRows rows;
  AddSymbol(&rows, SymbolSource::kUnwindEntry, 0x100, 0x400, "fde");
  AddSymbol(&rows, SymbolSource::kGoTable, 0x200, 0x100, "go");
  AddSymbol(&rows, SymbolSource::kDwarf, 0x280, 0x10, "dwarf");
  AddSymbol(&rows, SymbolSource::kPlt, 0x100, 0x10, "plt");
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x100), "plt :0:0");
  EXPECT_EQ(At(*table, 0x110), "fde :0:0");
  EXPECT_EQ(At(*table, 0x200), "go :0:0");
  EXPECT_EQ(At(*table, 0x280), "dwarf :0:0");
  EXPECT_EQ(At(*table, 0x290), "go :0:0");
  EXPECT_EQ(At(*table, 0x300), "fde :0:0");
  EXPECT_FALSE(table->has_lines());
  EXPECT_FALSE(table->has_inlines());
}

TEST(SymbolTableWriter, NamesTheOutermostFrameByTheSymbolTable) {
  SymbolRows rows;
  const auto scope = rows.AddFunction({.start = {0x100},
                                       .size_bytes = 0x20,
                                       .names = {.system_name = "f", .start_line = 7},
                                       .source = SymbolSource::kDwarf});
  rows.AddRange(scope, {{0x400}, {0x410}});
  const CodeRange inlined = {{0x404}, {0x408}};
  rows.AddInline(scope, {.system_name = "g"}, {.line = 8}, std::span(&inlined, 1));
  AddSymbol(&rows, SymbolSource::kSymtab, 0x100, 0x20, "f.isra.0");
  AddSymbol(&rows, SymbolSource::kSymtab, 0x400, 0x10, "f.cold");
  AddSymbol(&rows, SymbolSource::kDynsym, 0x400, 0x10, "exported");
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x11f), "f.isra.0 :0:0");
  EXPECT_EQ(At(*table, 0x400), "f.cold :0:0");
  EXPECT_EQ(At(*table, 0x404), "g :0:0 < f.cold :8:0");
  InlineStack frames;
  ASSERT_TRUE(table->Find({0x400}, &frames));
  EXPECT_EQ(frames[0].start_line, 7U) << "the declaration stays that of DWARF";
  EXPECT_EQ(table->FindFunction({0x405}), (CodeRange{{0x400}, {0x410}}));
  EXPECT_EQ(table->FindFunction({0x110}), (CodeRange{{0x100}, {0x120}}));
  EXPECT_EQ(table->FindFunction({0x120}), std::nullopt);
}

TEST(SymbolTableWriter, FindsTheWholeFunctionBehindASymbolThatEndsEarly) {
  SymbolRows rows;
  AddSymbol(&rows, SymbolSource::kDwarf, 0x100, 0x20, "f");
  AddSymbol(&rows, SymbolSource::kSymtab, 0x100, 0x8, "f.start");
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x107), "f.start :0:0");
  EXPECT_EQ(table->FindFunction({0x107}), (CodeRange{{0x100}, {0x108}}));
  EXPECT_EQ(At(*table, 0x108), "f :0:0");
  EXPECT_EQ(table->FindFunction({0x108}), (CodeRange{{0x100}, {0x120}}));
}

TEST(SymbolTableWriter, EndsAFunctionWhereAnInlinedCallClaimsToGoOn) {
  SymbolRows rows;
  const auto scope = rows.AddFunction({.start = {0x100},
                                       .size_bytes = 0x20,
                                       .names = {.system_name = "f"},
                                       .source = SymbolSource::kDwarf});
  const CodeRange inlined = {{0x118}, {0x130}};
  rows.AddInline(scope, {.system_name = "g"}, {.line = 8}, std::span(&inlined, 1));
  const auto table = TableOf(rows);
  EXPECT_EQ(table->FindFunction({0x11f}), (CodeRange{{0x100}, {0x120}}));
  EXPECT_EQ(table->FindFunction({0x120}), (CodeRange{{0x120}, {0x130}}));
  EXPECT_EQ(At(*table, 0x12f), "g :0:0 < f :8:0");
  EXPECT_EQ(At(*table, 0x130), "-");
}

TEST(SymbolTableWriter, NamesTheOutermostFrameByDynsymWithoutSymtab) {
  SymbolRows rows;
  AddSymbol(&rows, SymbolSource::kDwarf, 0x100, 0x20, "__f");
  AddSymbol(&rows, SymbolSource::kDynsym, 0x100, 0x20, "f");
  EXPECT_EQ(At(*TableOf(rows), 0x110), "f :0:0");
}

TEST(SymbolTableWriter, ChoosesAmongSymbolsAtOneAddressTheLargestThenTheLast) {
  SymbolRows rows;
  AddSymbol(&rows, SymbolSource::kSymtab, 0x100, 0x20, "first");
  AddSymbol(&rows, SymbolSource::kSymtab, 0x100, 0x20, "second");
  AddSymbol(&rows, SymbolSource::kSymtab, 0x100, 0x8, "small");
  AddSymbol(&rows, SymbolSource::kSymtab, 0x110, 0x4, "part");
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x100), "second :0:0");
  EXPECT_EQ(At(*table, 0x111), "part :0:0");
  EXPECT_EQ(At(*table, 0x118), "second :0:0");
}

TEST(SymbolTableWriter, ExtendsSymbolsWithoutSizeToTheNextOrTheEndOfTheirSection) {
  SymbolRows rows;
  rows.SetCodeRanges({{{0x100}, {0x200}}, {{0x300}, {0x340}}});
  AddSymbol(&rows, SymbolSource::kSymtab, 0x100, 0, "a");
  AddSymbol(&rows, SymbolSource::kSymtab, 0x180, 0, "b");
  AddSymbol(&rows, SymbolSource::kSymtab, 0x310, 0, "c");
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x17f), "a :0:0");
  EXPECT_EQ(At(*table, 0x1ff), "b :0:0");
  EXPECT_EQ(At(*table, 0x200), "-");
  EXPECT_EQ(At(*table, 0x33f), "c :0:0");
  EXPECT_EQ(At(*table, 0x340), "-");
}

TEST(SymbolTableWriter, ShowsTheFileOfASymbolOnlyWhereNoLineCoversIt) {
  SymbolRows rows;
  rows.AddFunction({.start = {0x100},
                    .size_bytes = 0x20,
                    .names = {.system_name = "f", .file = "from_symbol.c"},
                    .source = SymbolSource::kSymtab});
  const SymbolRows::LineRow line = {.start = {0x100}, .file = rows.Intern("line.c"), .line = 3};
  rows.AddLines(SymbolSource::kDwarf, std::span(&line, 1), {0x110});
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x100), "f line.c:3:0");
  EXPECT_EQ(At(*table, 0x110), "f from_symbol.c:0:0");
}

TEST(SymbolTableWriter, KeepsLinesThatHaveNoFunction) {
  SymbolRows rows;
  const SymbolRows::LineRow line = {.start = {0x100}, .file = rows.Intern("a.s"), .line = 3};
  rows.AddLines(SymbolSource::kDwarf, std::span(&line, 1), {0x110});
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x10f), "? a.s:3:0");
  EXPECT_EQ(At(*table, 0x110), "-");
  EXPECT_EQ(table->FindFunction({0x100}), std::nullopt);
}

TEST(SymbolTableWriter, EndsWithTheLastAddress) {
  SymbolRows rows;
  AddSymbol(&rows, SymbolSource::kDwarf, UINT64_MAX - 1, 8, "f");
  const SymbolRows::LineRow line = {.start = {UINT64_MAX - 2}, .line = 3};
  rows.AddLines(SymbolSource::kDwarf, std::span(&line, 1), {UINT64_MAX});
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, UINT64_MAX - 2), "? :3:0");
  EXPECT_EQ(At(*table, UINT64_MAX - 1), "f :3:0");
  EXPECT_EQ(At(*table, UINT64_MAX), "-");
}

TEST(SymbolTableWriter, LetsTheBetterAndLaterLineSequenceWin) {
  SymbolRows rows;
  const auto add = [&](SymbolSource source, uint64_t start, uint64_t end, uint32_t line) {
    const SymbolRows::LineRow row = {.start = {start}, .file = rows.Intern("f"), .line = line};
    rows.AddLines(source, std::span(&row, 1), {end});
  };
  add(SymbolSource::kDwarf, 0x120, 0x140, 1);
  add(SymbolSource::kDwarf, 0x130, 0x138, 2);
  add(SymbolSource::kGoTable, 0x100, 0x200, 3);
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x11f), "? f:3:0");
  EXPECT_EQ(At(*table, 0x120), "? f:1:0");
  EXPECT_EQ(At(*table, 0x130), "? f:2:0");
  EXPECT_EQ(At(*table, 0x138), "? f:1:0");
  EXPECT_EQ(At(*table, 0x140), "? f:3:0");
}

TEST(SymbolTableWriter, TakesTheLastOfRowsAtOneAddress) {
  SymbolRows rows;
  const auto file = rows.Intern("f");
  const std::vector<SymbolRows::LineRow> lines = {{.start = {0x10}, .file = file, .line = 1},
                                                  {.start = {0x10}, .file = file, .line = 2},
                                                  {.start = {0x18}, .file = file, .line = 0}};
  rows.AddLines(SymbolSource::kDwarf, lines, {0x20});
  const auto table = TableOf(rows);
  EXPECT_EQ(At(*table, 0x10), "? f:2:0");
  EXPECT_EQ(At(*table, 0x18), "? f:0:0");
}

TEST(SymbolTableWriter, DemanglesOnlyNamesThatHaveNoReadableOne) {
  SymbolRows rows;
  AddSymbol(&rows, SymbolSource::kDwarf, 0x10, 8, "_Z1fv");
  rows.AddFunction({.start = {0x20},
                    .size_bytes = 8,
                    .names = {.system_name = "_Z1gv", .name = "given"},
                    .source = SymbolSource::kDwarf});
  AddSymbol(&rows, SymbolSource::kDwarf, 0x30, 8, "plain");
  const auto table = TableOf(rows, {.demangle = [](std::string_view name) {
                               return name == "_Z1fv" ? "f()" : std::string(name);
                             }});
  InlineStack frames;
  ASSERT_TRUE(table->Find({0x10}, &frames));
  EXPECT_EQ(frames[0].function, "f()");
  EXPECT_EQ(frames[0].system_name, "_Z1fv");
  ASSERT_TRUE(table->Find({0x20}, &frames));
  EXPECT_EQ(frames[0].function, "given");
  EXPECT_EQ(frames[0].system_name, "_Z1gv");
  ASSERT_TRUE(table->Find({0x30}, &frames));
  EXPECT_EQ(frames[0].function, "plain");
}

// Enough rows for many pages, against a plain search through the rows.
TEST(SymbolTableWriter, AnswersTheSameOverManyPages) {
  SymbolRows rows;
  struct Truth {
    uint64_t start;
    uint64_t end;
    std::string text;
  };
  std::vector<Truth> truths;
  uint64_t address = 0x400000;
  uint64_t random = 1;
  for (int i = 0; i < 20000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const uint64_t size_bytes = 4 + (random >> 60);
    const std::string name = "function_" + std::to_string(random >> 50);
    const std::string file = "dir/file_" + std::to_string(random >> 57) + ".cc";
    const auto scope = rows.AddFunction({.start = {address},
                                         .size_bytes = size_bytes,
                                         .names = {.system_name = name},
                                         .source = SymbolSource::kDwarf});
    const CodeRange half = {{address + 2}, {address + size_bytes}};
    const auto line = static_cast<uint32_t>(random >> 40 & 0xffff);
    rows.AddInline(scope, {.system_name = "inlined"},
                   {.file = file, .line = line, .column = line % 90}, std::span(&half, 1));
    const SymbolRows::LineRow row = {
        .start = {address}, .file = rows.Intern(file), .line = line + 1};
    rows.AddLines(SymbolSource::kDwarf, std::span(&row, 1), {address + size_bytes});
    const std::string here = file + ":" + std::to_string(line + 1) + ":0";
    const std::string call = file + ":" + std::to_string(line) + ":" + std::to_string(line % 90);
    truths.push_back({address, address + 2, name + " " + here});
    truths.push_back(
        {address + 2, address + size_bytes, "inlined " + here + " < " + name + " " + call});
    address += size_bytes + (random >> 58 == 0 ? uint64_t{1} << 33 : 0);  // gaps over 4 GiB too
  }
  const auto table = TableOf(rows);
  for (const Truth& truth : truths) {
    ASSERT_EQ(At(*table, truth.start), truth.text);
    ASSERT_EQ(At(*table, truth.end - 1), truth.text);
  }
  EXPECT_EQ(At(*table, address), "-");
  EXPECT_FALSE(table->damaged());
}

TEST(SymbolTableWriter, KeepsVeryDeepChainsWithinThePageBounds) {
  SymbolRows rows;
  for (uint64_t function = 0; function < 200; ++function) {
    const uint64_t start = 0x10000 * (function + 1);
    auto scope = rows.AddFunction({.start = {start},
                                   .size_bytes = 0x8000,
                                   .names = {.system_name = "f" + std::to_string(function)},
                                   .source = SymbolSource::kDwarf});
    for (uint32_t depth = 1; depth <= SymbolRows::kInlineDepthMax; ++depth) {
      const CodeRange range = {{start + depth}, {start + 0x8000 - depth}};
      scope = rows.AddInline(scope, {.system_name = "g"}, {.line = depth}, std::span(&range, 1));
    }
  }
  const auto table = TableOf(rows);
  FrameRef frames[SymbolTable::kFramesMax];
  for (uint64_t function = 0; function < 200; ++function) {
    const uint64_t start = 0x10000 * (function + 1);
    ASSERT_EQ(table->FindFrames({start + 0x1000}, frames), SymbolTable::kFramesMax);
    EXPECT_EQ(frames[SymbolTable::kFramesMax - 1].system_name, "f" + std::to_string(function));
    EXPECT_EQ(frames[SymbolTable::kFramesMax - 1].line, 1U);
    EXPECT_EQ(frames[1].line, SymbolRows::kInlineDepthMax);
  }
  // With less room the innermost frames and the outermost one are given.
  ASSERT_EQ(table->FindFrames({0x11000}, std::span(frames).first(3)), 3U);
  EXPECT_EQ(frames[0].system_name, "g");
  EXPECT_EQ(frames[1].line, SymbolRows::kInlineDepthMax);
  EXPECT_EQ(frames[2].system_name, "f0");
}

TEST(SymbolTableWriter, WritesTheSameBytesForTheSameRows) {
  const auto make = [] {
    SymbolRows rows;
    for (uint64_t i = 0; i < 3000; ++i) {
      AddSymbol(&rows, SymbolSource::kSymtab, 0x100 + i * 8, 8, "s" + std::to_string(i));
    }
    return WriteSymbolTable(rows, {.identity = "same"}).value();
  };
  EXPECT_EQ(make(), make());
}

TEST(SymbolTableWriter, RefusesATableAboveItsBound) {
  SymbolRows rows;
  AddSymbol(&rows, SymbolSource::kSymtab, 0x100, 8, "f");
  const auto size_bytes = WriteSymbolTable(rows, {}).value().size();
  EXPECT_TRUE(WriteSymbolTable(rows, {.table_bytes_max = size_bytes}).has_value());
  const auto refused = WriteSymbolTable(rows, {.table_bytes_max = size_bytes - 1});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit);
}

TEST(SymbolTableWriter, KeepsIdentityAndNotes) {
  SymbolRows rows;
  rows.AddNote("DWARF from a file");
  rows.AddNote(std::string("a\0b", 3));
  const auto table = TableOf(rows, {.identity = "debug file 12"});
  EXPECT_EQ(table->identity(), "debug file 12");
  EXPECT_EQ(table->notes(), (std::vector<std::string>{"DWARF from a file", "a b"}));
  EXPECT_EQ(At(*table, 0), "-");
  EXPECT_FALSE(table->has_functions());
}

TEST(SymbolTableWriter, CutsAnIdentityAtItsBound) {
  SymbolRows rows;
  const std::string longest(SymbolTableWriterOptions::kIdentityBytesMax, 'x');
  EXPECT_EQ(TableOf(rows, {.identity = longest + "y"})->identity(), longest);
}

}  // namespace
}  // namespace ptarmigan
