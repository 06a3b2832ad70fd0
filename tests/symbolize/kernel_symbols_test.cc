#include "symbolize/kernel_symbols.h"

#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "base/str_format.h"
#include "tests/support/byte_writer.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr std::string_view kText =
    "0000000000000000 A fixed_percpu_data\n"
    "ffffffff81000000 T _stext\n"
    "ffffffff81000000 T _text\n"
    "ffffffff81000100 t __do_thing\n"
    "ffffffff81000100 T do_thing\n"
    "ffffffff81000100 W weak_do_thing_with_long_name\n"
    "ffffffff81000200 T last_text\n"
    "ffffffff81001000 T _etext\n"
    "ffffffff81200000 R some_rodata\n"
    "ffffffffc0000000 t mod_init\t[nf_tables]\n"
    "ffffffffc0000040 t mod_work\t[nf_tables]\n"
    "ffffffffc0100000 t bpf_prog_0011223344556677_count\t[bpf]\n";

std::string NameAt(const KernelSymbols& table, uint64_t address) {
  KernelSymbols::Symbol symbol;
  return table.Find({address}, &symbol) ? std::string(symbol.name) : "-";
}

TEST(KernelSymbols, NamesTheCodeAtAnAddress) {
  const auto table = KernelSymbols::Parse(kText);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(NameAt(*table, 0xffffffff80ffffff), "-");
  EXPECT_EQ(NameAt(*table, 0xffffffff81000000),
            "_stext");  // as long as _text has one underscore, longer wins
  EXPECT_EQ(NameAt(*table, 0xffffffff810001ff), "do_thing");
  EXPECT_EQ(NameAt(*table, 0xffffffff81000200), "last_text");
  EXPECT_EQ(NameAt(*table, 0xffffffff81200000), "-");  // data
  KernelSymbols::Symbol symbol;
  ASSERT_TRUE(table->Find({0xffffffffc0000050}, &symbol));
  EXPECT_EQ(symbol.name, "mod_work");
  EXPECT_EQ(symbol.module, "nf_tables");
  EXPECT_EQ(symbol.start.value, 0xffffffffc0000040U);
  ASSERT_TRUE(table->Find({0xffffffffc0100000}, &symbol));
  EXPECT_EQ(symbol.name, "bpf_prog_0011223344556677_count");
  EXPECT_EQ(symbol.module, "bpf");
}

TEST(KernelSymbols, EndsTheLastSymbolOfAModuleWithItsPage) {
  const auto table = KernelSymbols::Parse(kText);
  ASSERT_TRUE(table);
  EXPECT_EQ(NameAt(*table, 0xffffffffc0001fff), "mod_work");
  EXPECT_EQ(NameAt(*table, 0xffffffffc0002000), "-");
  EXPECT_EQ(NameAt(*table, 0xffffffffc0101fff), "bpf_prog_0011223344556677_count");
  EXPECT_EQ(NameAt(*table, 0xffffffffc0102000), "-");
}

TEST(KernelSymbols, ExplainsHiddenAddresses) {
  const auto table = KernelSymbols::Parse("0000000000000000 T _text\n0000000000000000 t helper\n");
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, ErrorCode::kPermission);
  EXPECT_NE(table.error().message.find("kptr_restrict"), std::string::npos);
  EXPECT_NE(table.error().message.find("CAP_SYSLOG"), std::string::npos);
}

TEST(KernelSymbols, CountsLinesThatCannotBeRead) {
  const auto table = KernelSymbols::Parse(
      "ffffffff81000000 T _text\nzzzz T nothing\nffffffff81000010\nffffffff81000020 T "
      "\nffffffff81000030 T ok");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->malformed_lines(), 3U);
  EXPECT_EQ(NameAt(*table, 0xffffffff81000031), "ok");
  const auto nothing = KernelSymbols::Parse("hello\nworld\n");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kInvalidInput);
  EXPECT_FALSE(KernelSymbols::Parse(""));
}

TEST(KernelSymbols, MovesToWhereTheKernelWasLoaded) {
  auto table = KernelSymbols::Parse(kText);
  ASSERT_TRUE(table);
  EXPECT_FALSE(table->MoveTo("no_such_symbol", {1}));
  EXPECT_EQ(NameAt(*table, 0xffffffff81000100), "do_thing");
  ASSERT_TRUE(table->MoveTo("_text", {0xffffffffa4000000}));
  EXPECT_EQ(NameAt(*table, 0xffffffffa4000100), "do_thing");
  EXPECT_EQ(NameAt(*table, 0xffffffff81000100), "-");
  EXPECT_EQ(NameAt(*table, 0xffffffffc0000050), "-");  // modules do not move with the kernel
  EXPECT_EQ(table->AddressOf("_stext")->value, 0xffffffffa4000000U);
}

TEST(KernelSymbols, CutsNamesAtTheirBound) {
  const std::string longest(KernelSymbols::kNameBytesMax, 'n');
  const auto table = KernelSymbols::Parse("ffffffff81000000 T " + longest + "n\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(NameAt(*table, 0xffffffff81000000), longest);
}

TEST(KernelSymbols, ReadsTheRunningKernel) {
  const auto table = KernelSymbols::OfRunningKernel();
  if (!table) GTEST_SKIP() << table.error().message;
  const auto text = ReadFile("/proc/kallsyms", KernelSymbols::kTextBytesMax);
  ASSERT_TRUE(text);
  const size_t at = text->find(" T schedule\n");
  if (at == std::string::npos) GTEST_SKIP() << "this kernel has no symbol 'schedule'";
  const uint64_t address = std::stoull(text->substr(text->rfind('\n', at) + 1, 16), nullptr, 16);
  EXPECT_EQ(NameAt(*table, address + 1), "schedule");
}

TEST(KernelSymbols, ReadsTheBuildIdFromTheKernelsNotes) {
  const std::string root = TestTemporaryDirectory();
  ASSERT_TRUE(MakeDirectories(JoinPath(root, "kernel")));
  ByteWriter notes(std::endian::native);
  notes.U32(6).U32(4).U32(0x100).CString("Linux").PadTo(4).U32(
      7);  // LINUX_ELFNOTE_BUILD_SALT comes before it
  notes.U32(4).U32(20).U32(3).CString("GNU");
  for (int i = 0; i < 20; ++i) notes.U8(static_cast<uint8_t>(0xa0 + i));
  auto file = OutputFile::Create(JoinPath(root, "kernel/notes"));
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write(notes.bytes()));
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(RunningKernelBuildId(root).ToHex(), "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3");
  EXPECT_TRUE(RunningKernelBuildId(JoinPath(root, "nothing")).empty());
}

TEST(KernelSymbols, TellsHowARecordingNamesItsKernel) {
  EXPECT_EQ(KernelReferenceSymbol("[kernel.kallsyms]_text"), "_text");
  EXPECT_EQ(KernelReferenceSymbol("[kernel.kallsyms]"), "");
  EXPECT_EQ(KernelReferenceSymbol("vmlinux"), "");
  EXPECT_TRUE(IsGuestKernelPath("[guest.kernel.kallsyms]_text"));
  EXPECT_FALSE(IsGuestKernelPath("[kernel.kallsyms]_text"));
}

}  // namespace
}  // namespace ptarmigan
