#include "symbolize/elf_symbols.h"

#include <gtest/gtest.h>
#include <lzma.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "symbolize/internal/xz.h"
#include "symbolize/symbol_table.h"
#include "symbolize/symbol_table_writer.h"
#include "tests/support/elf_bytes.h"
#include "tests/support/symbol_oracle.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

std::unique_ptr<SymbolTable> TableOf(const SymbolRows& rows) {
  auto bytes = WriteSymbolTable(rows, {});
  EXPECT_TRUE(bytes);
  auto table = SymbolTable::FromString(*std::move(bytes), "test");
  EXPECT_TRUE(table);
  return *std::move(table);
}

std::string NameAt(const SymbolTable& table, uint64_t address) {
  InlineStack frames;
  return table.Find({address}, &frames) ? frames.back().system_name : "-";
}

struct Collected {
  ElfSymbolsSummary summary;
  std::unique_ptr<SymbolTable> table;
};

Collected Collect(const ElfFile& object, const ElfFile* debug = nullptr) {
  SymbolRows rows;
  Collected collected;
  collected.summary = CollectElfSymbols(object, debug, &rows);
  collected.table = TableOf(rows);
  return collected;
}

Collected CollectFile(const std::string& path) {
  const auto file = ElfFile::Open(path);
  EXPECT_TRUE(file);
  return Collect(**file);
}

std::unique_ptr<ElfFile> Parse(const std::string& bytes,
                               const std::string& name = "/usr/lib/libtest.so") {
  auto file = ElfFile::FromBytes(AsBytes(bytes), name);
  EXPECT_TRUE(file) << file.error().message;
  return *std::move(file);
}

// Builds a file from source with a shell command that contains {} for the directory; empty if it cannot.
std::string Make(const std::string& source_name, std::string_view source,
                 const std::string& command, const std::string& result_name) {
  const std::string directory = TestTemporaryDirectory();
  auto file = OutputFile::Create(JoinPath(directory, source_name));
  EXPECT_TRUE(file && file->Write(source) && file->Commit());
  const CommandResult made = RunCommand("cd '" + directory + "' && " + command, 120);
  EXPECT_EQ(made.exit_code, 0) << command << "\n" << made.err;
  return made.exit_code == 0 ? JoinPath(directory, result_name) : std::string();
}

constexpr std::string_view kProgram = R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
int twice(int x) { return x + x; }
static int local_work(const char* text) { return (int)strlen(text) + twice(atoi(text)); }
int (*volatile indirect)(const char*) = puts;
int main(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) printf("%d %f\n", local_work(argv[i]), cos(i));
  free(malloc(twice(3)));
  return indirect("done") < 0;
}
)";

TEST(ElfSymbols, TakesTheFunctionsOfASymbolTable) {
  ElfBytes elf;
  elf.Add({.name = ".text",
           .flags = SHF_ALLOC | SHF_EXECINSTR,
           .vaddr = 0x1000,
           .content = std::string(0x200, '\x90')});
  elf.Add({.name = ".data",
           .flags = SHF_ALLOC | SHF_WRITE,
           .vaddr = 0x3000,
           .content = std::string(0x10, 'd')});
  elf.AddSymbols(
      ".symtab",
      {
          {.name = "unit.c", .type = STT_FILE, .binding = STB_LOCAL, .section = SHN_ABS},
          {.name = "local", .value = 0x1000, .size_bytes = 0x10, .binding = STB_LOCAL},
          {.name = "$x", .value = 0x1010, .type = STT_NOTYPE, .binding = STB_LOCAL},
          {.name = "$d.7", .value = 0x1014, .type = STT_NOTYPE, .binding = STB_LOCAL},
          {.name = ".Lfoo", .value = 0x1018, .type = STT_NOTYPE, .binding = STB_LOCAL},
          {.name = "versioned@@LIB_2.1", .value = 0x1020, .size_bytes = 0x10},
          {.name = "old@LIB_1.0", .value = 0x1030, .size_bytes = 0x10},
          {.name = "ifunc", .value = 0x1040, .size_bytes = 0x10, .type = STT_GNU_IFUNC},
          {.name = "assembly", .value = 0x1050, .size_bytes = 0, .type = STT_NOTYPE},
          {.name = "after", .value = 0x1100, .size_bytes = 0x20},
          {.name = "undefined", .value = 0, .section = SHN_UNDEF},
          {.name = "variable", .value = 0x3000, .size_bytes = 8, .type = STT_OBJECT, .section = 2},
          {.name = "absolute", .value = 0x1060, .section = SHN_ABS},
          {.name = "$money", .value = 0x1180, .size_bytes = 4},
          {.name = "last_without_size", .value = 0x11f0, .type = STT_NOTYPE},
      });
  const std::string bytes = elf.Build();
  const Collected collected = Collect(*Parse(bytes));
  EXPECT_EQ(collected.summary.symtab, 8U);
  const SymbolTable& table = *collected.table;
  InlineStack frames;
  ASSERT_TRUE(table.Find({0x1008}, &frames));
  EXPECT_EQ(frames[0].system_name, "local");
  EXPECT_EQ(frames[0].file, "unit.c");
  EXPECT_EQ(NameAt(table, 0x1010), "-");
  EXPECT_EQ(NameAt(table, 0x1020), "versioned");
  EXPECT_EQ(NameAt(table, 0x103f), "old");
  EXPECT_EQ(NameAt(table, 0x1040), "ifunc");
  EXPECT_EQ(NameAt(table, 0x1050), "assembly");
  EXPECT_EQ(NameAt(table, 0x10ff), "assembly");  // no size: up to the next symbol
  EXPECT_EQ(NameAt(table, 0x1100), "after");
  EXPECT_EQ(NameAt(table, 0x1120), "-");
  EXPECT_EQ(NameAt(table, 0x1180), "$money");
  EXPECT_EQ(NameAt(table, 0x11ff), "last_without_size");  // or to the section's end
  EXPECT_EQ(NameAt(table, 0x1200), "-");
  EXPECT_EQ(NameAt(table, 0x3000), "-");
}

TEST(ElfSymbols, PrefersTheDebugFilesTableAndFallsBackToTheDynamicOne) {
  const auto with_symbols = [](const std::string& table, const std::string& name) {
    ElfBytes elf;
    elf.Add({.name = ".text",
             .flags = SHF_ALLOC | SHF_EXECINSTR,
             .vaddr = 0x1000,
             .content = std::string(0x100, '\x90')});
    elf.AddSymbols(table, {{.name = name, .value = 0x1000, .size_bytes = 0x10}});
    return elf.Build();
  };
  const std::string dynamic_bytes = with_symbols(".dynsym", "exported");
  const std::string full_bytes = with_symbols(".symtab", "full");
  const auto object = Parse(dynamic_bytes);
  const auto debug = Parse(full_bytes);
  EXPECT_EQ(NameAt(*Collect(*object).table, 0x1000), "exported");
  EXPECT_EQ(NameAt(*Collect(*object, debug.get()).table, 0x1000), "full");
  const Collected both = Collect(*object, debug.get());
  EXPECT_EQ(both.summary.symtab, 1U);
  EXPECT_EQ(both.summary.dynsym, 0U);
}

// "address name@plt" as objdump prints it.
std::map<uint64_t, std::string> PltByObjdump(const std::string& objdump, const std::string& path) {
  std::map<uint64_t, std::string> names;
  std::istringstream lines(RunCommand(StrFormat("{} -d '{}'", objdump, path)).out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.ends_with("@plt>:")) continue;
    const std::string name = line.substr(18, line.size() - 20);
    // Slots without a symbol, which objdump names after their addend.
    if (name.starts_with("*ABS*")) continue;
    names[std::stoull(line.substr(0, 16), nullptr, 16)] = name;
  }
  return names;
}

void ExpectPltNames(const std::string& objdump, const std::string& path) {
  const auto expected = PltByObjdump(objdump, path);
  ASSERT_GE(expected.size(), 3U);
  const Collected collected = CollectFile(path);
  EXPECT_GE(collected.summary.plt, expected.size());
  for (const auto& [address, name] : expected) {
    EXPECT_EQ(NameAt(*collected.table, address), name) << path;
    EXPECT_EQ(NameAt(*collected.table, address + 5), name) << path;
  }
}

TEST(ElfSymbols, NamesPltEntriesAsObjdumpDoes) {
  if (!HaveProgram("gcc") || !HaveProgram("objdump"))
    GTEST_SKIP() << "gcc or objdump is not installed";
#if defined(__x86_64__)
  // Lazy .plt, .plt.got only (-z now), both halves of a split table, and the linkers' other layouts.
  for (const std::string flags :
       {"-Wl,-z,lazy", "-Wl,-z,now", "-fcf-protection -Wl,-z,lazy -Wl,-z,ibtplt",
        "-fcf-protection -Wl,-z,now -Wl,-z,ibtplt", "-no-pie -Wl,-z,lazy"}) {
    const std::string path =
        Make("p.c", kProgram, "gcc -O1 p.c -o p " + flags + " -lm && strip p", "p");
    ASSERT_FALSE(path.empty());
    ExpectPltNames("objdump", path);
  }
#endif
  if (!HaveProgram("aarch64-linux-gnu-gcc"))
    GTEST_SKIP() << "arm64: aarch64-linux-gnu-gcc is not installed";
  for (const std::string flags :
       {"-Wl,-z,lazy", "-mbranch-protection=standard -Wl,-z,force-bti -Wl,-z,now"}) {
    const std::string path = Make(
        "p.c", kProgram,
        "aarch64-linux-gnu-gcc -O1 p.c -o p " + flags + " -lm && aarch64-linux-gnu-strip p", "p");
    ASSERT_FALSE(path.empty());
    ExpectPltNames("aarch64-linux-gnu-objdump", path);
  }
}

TEST(ElfSymbols, ReadsMiniDebugInfo) {
  if (!HaveProgram("gcc") || !HaveProgram("objcopy") || !HaveProgram("xz")) {
    GTEST_SKIP() << "gcc, objcopy or xz is not installed";
  }
  // As Fedora's find-debuginfo does it: a copy with nothing but the function symbols, compressed, in a section.
  const std::string path = Make("p.c", kProgram,
                                "gcc -O1 p.c -o full -lm && objcopy --only-keep-debug full mini && "
                                "strip --strip-debug mini && xz -k mini && "
                                "strip -o p full && objcopy --add-section .gnu_debugdata=mini.xz p",
                                "p");
  ASSERT_FALSE(path.empty());
  const Collected collected = CollectFile(path);
  const CommandResult nm = RunCommand(StrFormat(
      "nm '{}/full' | grep -E ' [tT] (main|twice|local_work)'", path.substr(0, path.rfind('/'))));
  size_t seen = 0;
  std::istringstream lines(nm.out);
  for (std::string line; std::getline(lines, line); ++seen) {
    EXPECT_EQ(NameAt(*collected.table, std::stoull(line.substr(0, 16), nullptr, 16)),
              line.substr(19));
  }
  EXPECT_GE(seen, 2U);
}

std::string Xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                    reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                                    reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

std::string WithMiniDebug(const std::string& content) {
  ElfBytes elf;
  elf.Add({.name = ".text",
           .flags = SHF_ALLOC | SHF_EXECINSTR,
           .vaddr = 0x1000,
           .content = std::string(0x100, '\x90')});
  elf.Add({.name = ".gnu_debugdata", .content = content});
  return elf.Build();
}

TEST(ElfSymbols, SurvivesDamagedMiniDebugInfo) {
  ElfBytes mini;
  mini.Add({.name = ".text",
            .type = SHT_NOBITS,
            .flags = SHF_ALLOC | SHF_EXECINSTR,
            .vaddr = 0x1000,
            .content = std::string(0x100, '\0')});
  mini.AddSymbols(".symtab", {{.name = "hidden", .value = 0x1000, .size_bytes = 0x10}});
  const std::string compressed = Xz(mini.Build());
  const std::string good = WithMiniDebug(compressed);
  EXPECT_EQ(NameAt(*Collect(*Parse(good)).table, 0x1000), "hidden");
  for (size_t cut = 0; cut < compressed.size(); cut += 7) {
    const std::string bytes = WithMiniDebug(compressed.substr(0, cut));
    SymbolRows rows;
    CollectElfSymbols(*Parse(bytes), nullptr, &rows);
    EXPECT_FALSE(rows.notes().empty()) << cut;
  }
}

TEST(ElfSymbols, BoundsTheSizeOfInflatedMiniDebugInfo) {
  const std::string content(100'000, 'x');
  const std::string compressed = Xz(content);
  const auto whole = internal::InflateXz(AsBytes(compressed), content.size());
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(*whole, content);
  const auto too_large = internal::InflateXz(AsBytes(compressed), content.size() - 1);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, ErrorCode::kResourceLimit);
}

TEST(ElfSymbols, NamesWhatIsLeftByItsUnwindEntries) {
  if (!HaveProgram("gcc") || !HaveProgram("readelf"))
    GTEST_SKIP() << "gcc or readelf is not installed";
  const std::string path = Make("p.c", kProgram,
                                "gcc -O1 -fno-inline p.c -o libfoo.so -shared -fPIC "
                                "-fvisibility=hidden -lm && strip libfoo.so",
                                "libfoo.so");
  ASSERT_FALSE(path.empty());
  const Collected collected = CollectFile(path);
  EXPECT_GE(collected.summary.unwind_entries, 3U);
  size_t seen = 0;
  std::istringstream lines(RunCommand(StrFormat("readelf --debug-dump=frames '{}' 2>/dev/null | "
                                                "grep -o 'pc=[0-9a-f]*\\.\\.[0-9a-f]*'",
                                                path))
                               .out);
  for (std::string line; std::getline(lines, line);) {
    const uint64_t start = std::stoull(line.substr(3), nullptr, 16);
    const uint64_t end = std::stoull(line.substr(line.find("..") + 2), nullptr, 16);
    const std::string expected = StrFormat("libfoo.so+{:#x}", start);
    const std::string name = NameAt(*collected.table, end - 1);
    if (name.ends_with("@plt")) continue;
    EXPECT_EQ(name, expected);
    EXPECT_EQ(NameAt(*collected.table, start), expected);
    ++seen;
  }
  EXPECT_GE(seen, 3U);
}

// --- Go ---

constexpr std::string_view kGoProgram = R"(
package main

import ("os"; "sort"; "strings")

type item struct { name string; n int }

func square(x int) int { return x * x }

func sum(v []int) (t int) {
	for _, x := range v {
		t += square(x)
	}
	return
}

//go:noinline
func work(n int) int {
	v := make([]int, n)
	for i := range v {
		v[i] = square(i) % 7
	}
	return sum(v)
}

func (i *item) Show() string { return strings.Repeat(i.name, i.n) }

func main() {
	items := []item{{"a", 3}, {"b", work(len(os.Args))}}
	sort.Slice(items, func(a, b int) bool { return items[a].n < items[b].n })
	for i := range items {
		println(items[i].Show())
	}
}
)";

// The stripped program must give the frames that the DWARF of the same program gives.
void ExpectGoFrames(const std::string& build_flags) {
  const std::string path = Make("p.go", kGoProgram,
                                StrFormat("export HOME=${{HOME:-$PWD}}; go build {0} -o full "
                                          "p.go && go build {0} -ldflags='-s -w' -o stripped p.go",
                                          build_flags),
                                "stripped");
  ASSERT_FALSE(path.empty());
  const std::string full = path.substr(0, path.rfind('/')) + "/full";
  const Collected collected = CollectFile(path);
  EXPECT_GT(collected.summary.go_functions, 1000U);
  const std::vector<uint64_t> addresses = SampleCodeAddresses(full, 5000);
  std::vector<InlineStack> theirs = AskSymbolOracle(full, addresses);
  // .symtab tells the two calling conventions of a function apart, Go's own table does not.
  for (InlineStack& frames : theirs) {
    for (SourceFrame& frame : frames) {
      const size_t at = frame.system_name.rfind(".abi");
      if (at != std::string::npos) frame.system_name.resize(at);
      if (frame.file == "./<autogenerated>") frame.file = "<autogenerated>";
    }
  }
  std::vector<InlineStack> ours;
  size_t inlined = 0;
  for (const uint64_t address : addresses) {
    InlineStack frames;
    collected.table->Find({address}, &frames);
    if (frames.size() > 1) ++inlined;
    ours.push_back(std::move(frames));
  }
  EXPECT_GT(inlined, addresses.size() / 20);
  const OracleComparison comparison = CompareWithOracle(addresses, ours, theirs);
  EXPECT_GT(comparison.known, addresses.size() * 8 / 10);
  std::string differences;
  for (const std::string& one : comparison.differences) differences += one + "\n";
  EXPECT_GE(comparison.EqualShare(), 0.99) << differences;
  ::testing::Test::RecordProperty("equal_share", StrFormat("{:.4f}", comparison.EqualShare()));
}

TEST(ElfSymbols, ReadsGoFramesWithoutDwarf) {
  if (!HaveProgram("go") || SymbolOracleProgram().empty())
    GTEST_SKIP() << "go or llvm-symbolizer is not installed";
  ExpectGoFrames("");
}

TEST(ElfSymbols, ReadsGoFramesOfPositionIndependentPrograms) {
  if (!HaveProgram("go") || SymbolOracleProgram().empty())
    GTEST_SKIP() << "go or llvm-symbolizer is not installed";
  ExpectGoFrames("-buildmode=pie");
}

TEST(ElfSymbols, ReadsDebiansStrippedGoCommand) {
  const std::string path = "/usr/lib/go-1.19/bin/go";
  if (!PathExists(path)) GTEST_SKIP() << path << " is not installed";
  const Collected collected = CollectFile(path);
  EXPECT_GT(collected.summary.go_functions, 5000U);
  // The entry point is _rt0_<arch>_linux of the runtime's assembly.
  const auto file = ElfFile::Open(path);
  InlineStack frames;
  ASSERT_TRUE(collected.table->Find((*file)->entry(), &frames));
  EXPECT_TRUE(frames.back().function.starts_with("_rt0_")) << frames.back().function;
  EXPECT_TRUE(frames.back().file.find("runtime/rt0_linux_") != std::string::npos)
      << frames.back().file;
  EXPECT_GT(frames.back().line, 0U);
}

}  // namespace
}  // namespace ptarmigan
