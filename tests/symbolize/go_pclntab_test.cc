#include "symbolize/internal/go_pclntab.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <tuple>

#include "base/str_format.h"
#include "symbolize/symbol_table.h"
#include "symbolize/symbol_table_writer.h"
#include "tests/support/go_table_bytes.h"

namespace ptarmigan {
namespace {

using Parameter = std::tuple<GoTableVersion, std::endian>;
class GoPclntab : public ::testing::TestWithParam<Parameter> {};
INSTANTIATE_TEST_SUITE_P(
    EveryVersionAndOrder, GoPclntab,
    ::testing::Combine(::testing::Values(GoTableVersion::k1_2, GoTableVersion::k1_16,
                                         GoTableVersion::k1_18, GoTableVersion::k1_20),
                       ::testing::Values(std::endian::little, std::endian::big)));

// "name file:line(start)" of each frame, innermost first.
std::string FramesAt(const SymbolTable& table, uint64_t address) {
  InlineStack frames;
  table.Find({address}, &frames);
  std::string text;
  for (const SourceFrame& frame : frames) {
    text +=
        StrFormat("{}{} {}:{}", text.empty() ? "" : " < ", frame.function, frame.file, frame.line);
  }
  return text;
}

std::unique_ptr<SymbolTable> TableOf(const SymbolRows& rows) {
  auto bytes = WriteSymbolTable(rows, {});
  EXPECT_TRUE(bytes);
  auto table = SymbolTable::FromString(*std::move(bytes), "test");
  EXPECT_TRUE(table);
  return *std::move(table);
}

TEST_P(GoPclntab, GivesNamesLinesAndInlinedCalls) {
  const auto [version, order] = GetParam();
  const std::string bytes = GoTableBytes(version, order).Build(GoTableExample());
  const auto file = ElfFile::FromBytes(AsBytes(bytes), "prog");
  ASSERT_TRUE(file) << file.error().message;
  SymbolRows rows;
  EXPECT_EQ(internal::AddGoFunctions(**file, &rows), 3U);
  const auto table = TableOf(rows);
  const uint64_t text = GoTableBytes::kTextVaddr;
  EXPECT_EQ(FramesAt(*table, text), "main.leaf /src/a.go:4");
  EXPECT_EQ(FramesAt(*table, text + 31), "main.leaf /src/a.go:5");
  EXPECT_EQ(FramesAt(*table, text + 96), "main.main /src/a.go:41");
  EXPECT_EQ(FramesAt(*table, text + 112), "");
  const uint64_t work = text + 32;
  EXPECT_EQ(FramesAt(*table, work), "main.work /src/b.go:11");
  EXPECT_EQ(FramesAt(*table, work + 40), "main.work /src/b.go:13");
  if (version < GoTableVersion::k1_18) {
    EXPECT_EQ(FramesAt(*table, work + 16), "main.work /src/b.go:31");
    return;
  }
  EXPECT_TRUE(rows.notes().empty()) << rows.notes()[0];
  EXPECT_EQ(FramesAt(*table, work + 8), "main.sum /src/b.go:21 < main.work /src/b.go:11");
  EXPECT_EQ(FramesAt(*table, work + 16),
            "main.square /src/b.go:31 < main.sum /src/b.go:21 < main.work /src/b.go:11");
  EXPECT_EQ(FramesAt(*table, work + 31), "main.square /src/b.go:21 < main.work /src/b.go:12");
  InlineStack frames;
  ASSERT_TRUE(table->Find({work + 16}, &frames));
  const uint32_t expected_start = version == GoTableVersion::k1_20 ? 20 : 0;
  EXPECT_EQ(frames[0].start_line, expected_start);
  EXPECT_EQ(frames[2].start_line, version == GoTableVersion::k1_20 ? 10U : 0U);
}

TEST_P(GoPclntab, SurvivesEveryChangedByte) {
  const auto [version, order] = GetParam();
  const std::string whole = GoTableBytes(version, order).Build(GoTableExample());
  const auto file = ElfFile::FromBytes(AsBytes(whole), "prog");
  ASSERT_TRUE(file);
  const ElfSection* section = (*file)->FindSection(".gopclntab");
  ASSERT_NE(section, nullptr);
  for (uint64_t at = section->offset.value; at < section->offset.value + section->size_bytes;
       ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      SymbolRows rows;
      const auto object = ElfFile::FromBytes(AsBytes(damaged), "prog");
      ASSERT_TRUE(object);
      internal::AddGoFunctions(**object, &rows);
    }
  }
}

TEST(GoPclntab, LeavesOutWhatDwarfDescribes) {
  const std::string bytes =
      GoTableBytes(GoTableVersion::k1_20, std::endian::little).Build(GoTableExample());
  const auto file = ElfFile::FromBytes(AsBytes(bytes), "prog");
  SymbolRows rows;
  rows.AddFunction({.start = {GoTableBytes::kTextVaddr},
                    .size_bytes = 32,
                    .names = {.system_name = "main.leaf"},
                    .source = SymbolSource::kDwarf});
  EXPECT_EQ(internal::AddGoFunctions(**file, &rows), 2U);
}

TEST(GoPclntab, StopsWhereOneTableWouldBeWalkedForEachOfManyFunctions) {
  // Many functions that share one long pc-value table: more steps than a table of this size may ask for.
  std::vector<GoTableFunction> functions;
  GoTableFunction function = {.name = "f", .file = "f.go", .size_bytes = 60'000};
  for (int i = 0; i < 30'000; ++i) function.lines.push_back({2, i});
  functions.push_back(function);
  std::string bytes = GoTableBytes(GoTableVersion::k1_16, std::endian::little).Build(functions);
  const auto file = ElfFile::FromBytes(AsBytes(bytes), "prog");
  ASSERT_TRUE(file);
  const ElfSection* section = (*file)->FindSection(".gopclntab");
  // 4,000 entries of the function table, all naming the one _func; their ranges nest at the end of the text.
  ByteWriter functab;
  const uint64_t count = 4'000;
  const uint64_t structure = (count * 2 + 1) * 8;
  for (uint64_t i = 0; i < count; ++i)
    functab.U64(GoTableBytes::kTextVaddr + (i % 2) * 60'000).U64(structure);
  functab.U64(GoTableBytes::kTextVaddr + 60'000);
  std::string table(AsText((*file)->RawContent(*section)));
  const uint64_t old_functab = ByteCursor(AsBytes(table).subspan(56, 8)).U64();
  const uint64_t old_structure = ByteCursor(AsBytes(table).subspan(old_functab + 8, 8)).U64();
  const std::string func = table.substr(old_functab + old_structure, 96);
  ByteWriter header;
  header.Text(table);
  header.PadTo(8);
  const uint64_t new_functab = header.size();
  header.Text(functab.bytes()).Text(func);
  header.Patch(8, count, 8);
  header.Patch(56, new_functab, 8);
  ElfBytes elf;
  elf.Add({.name = ".text",
           .flags = SHF_ALLOC | SHF_EXECINSTR,
           .vaddr = GoTableBytes::kTextVaddr,
           .content = std::string(60'000, '\x90')});
  elf.Add({.name = ".gopclntab",
           .flags = SHF_ALLOC,
           .vaddr = GoTableBytes::kTableVaddr,
           .content = header.bytes()});
  const std::string hostile = elf.Build();
  const auto object = ElfFile::FromBytes(AsBytes(hostile), "prog");
  ASSERT_TRUE(object);
  SymbolRows rows;
  const auto start = std::chrono::steady_clock::now();
  internal::AddGoFunctions(**object, &rows);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  bool noted = false;
  for (const std::string& note : rows.notes())
    noted = noted || note.find("cut") != std::string::npos;
  EXPECT_TRUE(noted);
}

}  // namespace
}  // namespace ptarmigan
