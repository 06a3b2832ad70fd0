#include "symbolize/internal/object_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "symbolize/symbol_table_writer.h"

namespace ptarmigan {
namespace {

// "name+line.discriminator < outer+line", innermost first, lines counted from the declaration.
std::string Describe(CodeLines* lines, const std::vector<CodeFrame>& frames) {
  std::string text;
  for (const CodeFrame& frame : frames) {
    if (!text.empty()) text += " < ";
    if (frame.function == CodeFrame::kNoFunction) {
      text += "?";
      continue;
    }
    const CodeLines::FunctionFacts facts = lines->Function(frame.function);
    text += std::string(facts.name) + "+" + std::to_string(frame.line - facts.start_line);
    if (frame.discriminator != 0) text += "." + std::to_string(frame.discriminator);
  }
  return text;
}

// A function of DWARF whose second part a symbol renames, with an inlined call in the first, and an assembler function.
std::shared_ptr<const SymbolTable> MakeTable() {
  SymbolRows rows;
  const auto work = rows.AddFunction({.start = {0x1000},
                                      .size_bytes = 0x40,
                                      .names = {.system_name = "_Z4workv", .start_line = 10},
                                      .source = SymbolSource::kDwarf});
  rows.AddRange(work, {{0x2000}, {0x2010}});
  const std::vector<CodeRange> inlined = {{{0x1010}, {0x1020}}};
  rows.AddInline(work, {.system_name = "_Z5innerv", .start_line = 3},
                 {.file = "a.cc", .line = 12, .discriminator = 2}, inlined);
  const std::vector<SymbolRows::LineRow> lines = {
      {.start = {0x1000}, .file = rows.Intern("a.cc"), .line = 11},
      {.start = {0x1010}, .file = rows.Intern("a.cc"), .line = 4, .discriminator = 6},
      {.start = {0x1018}, .file = rows.Intern("a.cc"), .line = 5},
      {.start = {0x1020}, .file = rows.Intern("a.cc"), .line = 13}};
  rows.AddLines(SymbolSource::kDwarf, lines, {0x1040});
  const std::vector<SymbolRows::LineRow> cold = {
      {.start = {0x2000}, .file = rows.Intern("a.cc"), .line = 14}};
  rows.AddLines(SymbolSource::kDwarf, cold, {0x2010});
  const auto symbol = [&](uint64_t start, uint64_t size_bytes, std::string_view name) {
    rows.AddFunction({.start = {start},
                      .size_bytes = size_bytes,
                      .names = {.system_name = name},
                      .source = SymbolSource::kSymtab});
  };
  symbol(0x1000, 0x40, "_Z4workv");
  symbol(0x2000, 0x10, "_Z4workv.cold");
  symbol(0x3000, 0x10, "assembler");
  auto bytes = WriteSymbolTable(rows, {});
  EXPECT_TRUE(bytes.has_value());
  auto table = SymbolTable::FromString(std::move(bytes).value(), "test");
  EXPECT_TRUE(table.has_value());
  return std::move(table).value();
}

TEST(ObjectLines, WalksThroughCodeFromChangeToChange) {
  internal::ObjectLines lines(MakeTable(), nullptr, nullptr);
  std::vector<CodeFrame> frames;
  std::vector<std::string> walked;
  FileVaddr end;
  for (FileVaddr address = {0x1000}; address < FileVaddr{0x1040}; address = end) {
    lines.FramesAt(address, &frames, &end);
    ASSERT_GT(end, address);
    walked.push_back(Describe(&lines, frames));
  }
  EXPECT_EQ(walked, (std::vector<std::string>{"_Z4workv+1", "_Z5innerv+1.6 < _Z4workv+2.2",
                                              "_Z5innerv+2 < _Z4workv+2.2", "_Z4workv+3"}));
  lines.FramesAt({0x1040}, &frames, &end);
  EXPECT_TRUE(frames.empty());
  EXPECT_EQ(end, FileVaddr{0x2000});
  lines.FramesAt({0x10}, &frames, &end);
  EXPECT_TRUE(frames.empty());
  EXPECT_EQ(end, FileVaddr{0x1000});
  lines.FramesAt({0x3010}, &frames, &end);
  EXPECT_EQ(end, FileVaddr{UINT64_MAX});
}

TEST(ObjectLines, GivesTheNameOfDebugInformationWhereASymbolRenamesAPart) {
  internal::ObjectLines lines(MakeTable(), nullptr, nullptr);
  std::vector<CodeFrame> frames;
  FileVaddr end;
  lines.FramesAt({0x2004}, &frames, &end);
  EXPECT_EQ(Describe(&lines, frames), "_Z4workv+4");
  lines.FramesAt({0x3004}, &frames, &end);
  EXPECT_EQ(Describe(&lines, frames), "?");
}

TEST(ObjectLines, ListsTheCodeThatDebugInformationKnows) {
  internal::ObjectLines lines(MakeTable(), nullptr, nullptr);
  std::vector<std::string> pieces;
  for (const CodeLines::FunctionPiece& piece : lines.Functions()) {
    pieces.push_back(std::string(lines.Function(piece.function).name) + " " +
                     std::to_string(piece.start.value) + " " + std::to_string(piece.end.value));
  }
  EXPECT_EQ(pieces, (std::vector<std::string>{"_Z4workv 4096 4160", "_Z4workv 8192 8208"}));
  EXPECT_TRUE(lines.Symbols().empty());
}

}  // namespace
}  // namespace ptarmigan
