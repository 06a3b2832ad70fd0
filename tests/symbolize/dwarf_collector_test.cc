// Our frames against llvm-symbolizer's, a program made by others, over objects of every producer and packing that
// we know.
#include "symbolize/dwarf_collector.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "elf/elf_file.h"
#include "symbolize/symbol_table.h"
#include "symbolize/symbol_worker.h"
#include "tests/support/symbol_oracle.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr size_t kAddresses = 20000;
constexpr double kEqualShareMin = 0.995;

std::string Source(std::string_view name) {
  return StrFormat("{}/tests/programs/symbols/{}", PTARMIGAN_SOURCE_DIR, name);
}

// Runs `command` in a new directory, where it makes the file `result`. Empty if it fails.
std::string Make(const std::string& command, const std::string& result) {
  const std::string directory = TestTemporaryDirectory();
  const CommandResult made = RunCommand(StrFormat("cd '{}' && {}", directory, command), 200);
  EXPECT_EQ(made.exit_code, 0) << command << "\n" << made.err;
  return made.exit_code == 0 ? JoinPath(directory, result) : std::string();
}

std::string MakeTemplates(const std::string& compiler_and_flags, int width = 1) {
  return Make(StrFormat("{} -std=c++20 -DWIDTH={} '{}' -o templates", compiler_and_flags, width,
                        Source("templates.cc")),
              "templates");
}

struct Built {
  std::unique_ptr<SymbolTable> table;
  uint64_t object_bytes = 0;
};

Built Build(const std::string& object, const std::string& alt = "") {
  Built built;
  auto object_fd = OpenFile(object, O_RDONLY);
  EXPECT_TRUE(object_fd.has_value());
  if (!object_fd.has_value()) return built;
  Fd alt_fd;
  if (!alt.empty()) alt_fd = OpenFile(alt, O_RDONLY).value();
  SymbolWorkerJob job;
  job.object_fd = object_fd->get();
  job.object_name = object;
  job.alt_fd = alt_fd.get();
  job.alt_name = alt;
  job.demangle = false;
  auto bytes = BuildSymbolTableHere(job);
  EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
  if (!bytes.has_value()) return built;
  built.object_bytes = IdentifyFile(object_fd->get()).value().size_bytes;
  built.table = SymbolTable::FromString(std::move(bytes).value(), object).value();
  return built;
}

// Addresses of any byte of .text. Other code sections hold linkage tables, which we name better.
std::vector<uint64_t> SampleText(const std::string& object, size_t count) {
  const auto file = ElfFile::Open(object);
  EXPECT_TRUE(file.has_value());
  const ElfSection* text = (*file)->FindSection(".text");
  std::mt19937_64 random(1);
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < count; ++i) {
    addresses.push_back(text->vaddr.value + random() % text->size_bytes);
  }
  return addresses;
}

std::vector<InlineStack> Ask(const SymbolTable& table, const std::vector<uint64_t>& addresses) {
  std::vector<InlineStack> answers(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) table.Find({addresses[i]}, &answers[i]);
  return answers;
}

double FramesPerAddress(const std::vector<InlineStack>& answers) {
  size_t frames = 0;
  for (const InlineStack& answer : answers) frames += answer.size();
  return static_cast<double>(frames) / static_cast<double>(answers.size());
}

// Prints the share of equal answers and checks it.
void ExpectEqual(std::string_view subject, const std::vector<uint64_t>& addresses,
                 const std::vector<InlineStack>& ours, const std::vector<InlineStack>& theirs) {
  const OracleComparison comparison = CompareWithOracle(addresses, ours, theirs);
  std::string text = StrFormat(
      "{}: {} of {} known addresses equal ({:.3f} %), {:.2f} frames per address", subject,
      comparison.equal, comparison.known, comparison.EqualShare() * 100, FramesPerAddress(ours));
  std::printf("%s\n", text.c_str());
  EXPECT_GE(comparison.EqualShare(), kEqualShareMin);
  EXPECT_GE(comparison.known, addresses.size() * 9 / 10) << "the oracle knows too little to judge";
  if (comparison.EqualShare() < kEqualShareMin) {
    for (const std::string& difference : comparison.differences) ADD_FAILURE() << difference;
  }
}

void ExpectEqualToOracle(std::string_view subject, const std::string& object) {
  ASSERT_FALSE(object.empty());
  const Built built = Build(object);
  ASSERT_NE(built.table, nullptr);
  const auto addresses = SampleText(object, kAddresses);
  ExpectEqual(subject, addresses, Ask(*built.table, addresses), AskSymbolOracle(object, addresses));
}

#define SKIP_WITHOUT(program) \
  if (!HaveProgram(program)) GTEST_SKIP() << program << " is not installed"
#define SKIP_WITHOUT_ORACLE() \
  if (SymbolOracleProgram().empty()) GTEST_SKIP() << "llvm-symbolizer is not installed"

TEST(DwarfCollector, EqualsTheOracleOnGccAndItsCompressedSections) {
  SKIP_WITHOUT("g++");
  SKIP_WITHOUT_ORACLE();
  const std::string object = MakeTemplates("g++ -O2 -g", 3);
  ASSERT_FALSE(object.empty());
  const auto addresses = SampleText(object, kAddresses);
  const auto theirs = AskSymbolOracle(object, addresses);
  const Built plain = Build(object);
  ASSERT_NE(plain.table, nullptr);
  ExpectEqual("gcc", addresses, Ask(*plain.table, addresses), theirs);
  EXPECT_GE(FramesPerAddress(theirs), 2) << "the subject has too few inlined functions";
  EXPECT_LE(static_cast<double>(plain.table->size_bytes()),
            0.15 * static_cast<double>(plain.object_bytes));

  SKIP_WITHOUT("objcopy");
  for (const char* method : {"zlib", "zlib-gnu", "zstd"}) {
    const std::string packed = object + "." + method;
    const CommandResult made = RunCommand(
        StrFormat("objcopy --compress-debug-sections={} '{}' '{}'", method, object, packed));
    if (made.exit_code != 0) {
      std::printf("objcopy cannot compress with %s: not compared\n", method);
      continue;
    }
    const Built built = Build(packed);
    ASSERT_NE(built.table, nullptr);
    ExpectEqual(method, addresses, Ask(*built.table, addresses), theirs);
  }
}

TEST(DwarfCollector, EqualsTheOracleOnOlderDwarf) {
  SKIP_WITHOUT("g++");
  SKIP_WITHOUT_ORACLE();
  ExpectEqualToOracle("gcc, DWARF 4", MakeTemplates("g++ -O2 -gdwarf-4"));
  ExpectEqualToOracle("gcc, DWARF 2", MakeTemplates("g++ -O1 -gdwarf-2 -gstrict-dwarf"));
}

TEST(DwarfCollector, EqualsTheOracleOnTypeUnitsAndRemovedSections) {
  SKIP_WITHOUT("g++");
  SKIP_WITHOUT_ORACLE();
  ExpectEqualToOracle("gcc, type units, --gc-sections",
                      MakeTemplates("g++ -O2 -g -fdebug-types-section -ffunction-sections "
                                    "-Wl,--gc-sections"));
}

TEST(DwarfCollector, EqualsTheOracleOnClangThatWritesNoAranges) {
  SKIP_WITHOUT("clang++");
  SKIP_WITHOUT_ORACLE();
  const std::string object = MakeTemplates("clang++ -O2 -g", 2);
  ExpectEqualToOracle("clang", object);
  const auto file = ElfFile::Open(object);
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE((*file)->HasDwarf());
}

TEST(DwarfCollector, EqualsTheOracleOnRust) {
  const std::string rustc = PathExists("/usr/bin/rustc") ? "/usr/bin/rustc" : "rustc";
  SKIP_WITHOUT(rustc.substr(rustc.rfind('/') + 1));
  SKIP_WITHOUT_ORACLE();
  ExpectEqualToOracle("rust", Make(StrFormat("{} --edition 2021 -O -g '{}/tests/programs/busy.rs' "
                                             "-o busy",
                                             rustc, PTARMIGAN_SOURCE_DIR),
                                   "busy"));
}

TEST(DwarfCollector, EqualsTheOracleOnGo) {
  SKIP_WITHOUT("go");
  SKIP_WITHOUT_ORACLE();
  ExpectEqualToOracle(
      "go", Make(StrFormat("GO111MODULE=off GOFLAGS= GOTOOLCHAIN=local GOCACHE=\"$PWD/cache\" "
                           "go build -o busy '{}/tests/programs/busy.go'",
                           PTARMIGAN_SOURCE_DIR),
                 "busy"));
}

TEST(DwarfCollector, EqualsTheOracleOnSplitDwarf) {
  SKIP_WITHOUT("g++");
  SKIP_WITHOUT_ORACLE();
  const std::string object = MakeTemplates("g++ -O2 -g -gsplit-dwarf");
  ASSERT_FALSE(object.empty());
  EXPECT_TRUE(HasSplitDwarf(**ElfFile::Open(object)));
  ExpectEqualToOracle("gcc, split", object);
  ExpectEqualToOracle("gcc, split, DWARF 4", MakeTemplates("g++ -O2 -gdwarf-4 -gsplit-dwarf"));
  if (HaveProgram("clang++")) {
    ExpectEqualToOracle("clang, split", MakeTemplates("clang++ -O2 -g -gsplit-dwarf"));
  }

  // Without the .dwo file symbols and lines are left, and a note says why there is no more.
  const std::string directory = object.substr(0, object.rfind('/'));
  ASSERT_EQ(RunCommand(StrFormat("rm '{}'/*.dwo", directory)).exit_code, 0);
  const Built built = Build(object);
  ASSERT_NE(built.table, nullptr);
  EXPECT_TRUE(built.table->has_lines());
  EXPECT_FALSE(built.table->has_inlines());
  EXPECT_TRUE(
      std::any_of(built.table->notes().begin(), built.table->notes().end(),
                  [](const std::string& note) { return note.find(".dwo") != std::string::npos; }));
  const auto addresses = SampleText(object, 2000);
  ExpectEqual("gcc, split, no .dwo", addresses, Ask(*built.table, addresses),
              AskSymbolOracle(object, addresses));
}

TEST(DwarfCollector, FindsSplitDwarfBesideAnObjectThatMoved) {
  SKIP_WITHOUT("gcc");
  const std::string object =
      Make(StrFormat("mkdir old && cd old && gcc -O2 -g -gsplit-dwarf -nostdlib -ffreestanding "
                     "-static '{}' -o plain && mv ../old ../new",
                     Source("plain.c")),
           "new/plain");
  ASSERT_FALSE(object.empty());
  const Built built = Build(object);
  ASSERT_NE(built.table, nullptr);
  EXPECT_TRUE(built.table->has_inlines());
}

// dwz moves what two objects share into a third file. The oracle does not follow there, so the answers are compared
// with those for the objects before.
TEST(DwarfCollector, FollowsDwzIntoTheSharedFile) {
  SKIP_WITHOUT("dwz");
  SKIP_WITHOUT("g++");
  SKIP_WITHOUT_ORACLE();
  const std::string first = MakeTemplates("g++ -O2 -gdwarf-4");
  const std::string second = MakeTemplates("g++ -O1 -gdwarf-4");
  ASSERT_FALSE(first.empty() || second.empty());
  const std::string shared = Make(
      StrFormat("cp '{}' first && cp '{}' second && dwz -m shared first second", first, second),
      "shared");
  ASSERT_FALSE(shared.empty());
  const std::string directory = shared.substr(0, shared.rfind('/'));
  const std::string packed = JoinPath(directory, "first");
  ASSERT_TRUE((*ElfFile::Open(packed))->DebugAltLink().has_value());
  const auto addresses = SampleText(first, kAddresses);
  const Built built = Build(packed, shared);
  ASSERT_NE(built.table, nullptr);
  ExpectEqual("gcc, dwz -m", addresses, Ask(*built.table, addresses),
              AskSymbolOracle(first, addresses));

  const Built alone = Build(packed);
  ASSERT_NE(alone.table, nullptr);
  EXPECT_TRUE(std::any_of(
      alone.table->notes().begin(), alone.table->notes().end(),
      [](const std::string& note) { return note.find("shared") != std::string::npos; }));
}

// The frames of the first address for which Outer is the outermost and Innermost the innermost function.
std::string KnownChain(const SymbolTable& table, uint64_t start, uint64_t end) {
  for (uint64_t address = start; address < end; ++address) {
    InlineStack frames;
    if (!table.Find({address}, &frames) || frames.front().system_name != "Innermost") continue;
    std::string text;
    for (const SourceFrame& frame : frames) {
      text += StrFormat("{}:{} ", frame.system_name, frame.line);
    }
    return text;
  }
  return "none";
}

TEST(DwarfCollector, ReadsRelocatableObjectsByFileOffset) {
  for (const char* compiler : {"gcc", "clang", "clang --target=aarch64-linux-gnu"}) {
    const std::string_view program =
        std::string_view(compiler).substr(0, std::string_view(compiler).find(' '));
    if (!HaveProgram(program)) continue;
    const std::string object =
        Make(StrFormat("{} -O2 -g -ffreestanding -c '{}' -o plain.o", compiler, Source("plain.c")),
             "plain.o");
    ASSERT_FALSE(object.empty());
    const Built built = Build(object);
    ASSERT_NE(built.table, nullptr);
    const auto file = ElfFile::Open(object);
    const ElfSection* text = (*file)->FindSection(".text");
    const uint64_t start = text->offset.value;
    EXPECT_EQ(KnownChain(*built.table, start, start + text->size_bytes),
              "Innermost:3 Middle:7 Outer:11 ")
        << compiler;
    const ElfSection* cold = (*file)->FindSection(".text.cold_part");
    ASSERT_NE(cold, nullptr);
    InlineStack frames;
    ASSERT_TRUE(built.table->Find({cold->offset.value + 4}, &frames)) << compiler;
    EXPECT_EQ(frames[0].system_name, "Cold");
    EXPECT_EQ(frames[0].start_line, 15U);
    EXPECT_TRUE(frames[0].file.ends_with("plain.c"));
  }
}

TEST(DwarfCollector, Reads32BitObjects) {
  SKIP_WITHOUT("gcc");
  SKIP_WITHOUT_ORACLE();
  const std::string object =
      Make(StrFormat("gcc -m32 -O2 -g -nostdlib -static -ffreestanding '{}' -o plain",
                     Source("plain.c")),
           "plain");
  ASSERT_FALSE(object.empty());
  const Built built = Build(object);
  ASSERT_NE(built.table, nullptr);
  const auto addresses = SampleText(object, 200);
  ExpectEqual("gcc -m32", addresses, Ask(*built.table, addresses),
              AskSymbolOracle(object, addresses));
}

TEST(DwarfCollector, SaysThatAFileHasNoDwarf) {
  SKIP_WITHOUT("gcc");
  const std::string object =
      Make(StrFormat("gcc -O2 -nostdlib -static -ffreestanding '{}' -o plain", Source("plain.c")),
           "plain");
  ASSERT_FALSE(object.empty());
  const auto file = ElfFile::Open(object);
  SymbolRows rows;
  const auto collected = CollectDwarf({.debug = file->get()}, &rows);
  ASSERT_FALSE(collected.has_value());
  EXPECT_EQ(collected.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(HasSplitDwarf(**file));
}

TEST(DwarfCollector, KeepsWhatStandsBeforeDamage) {
  SKIP_WITHOUT("gcc");
  const std::string object = Make(
      StrFormat("gcc -O2 -g -nostdlib -static -ffreestanding '{}' -o plain", Source("plain.c")),
      "plain");
  ASSERT_FALSE(object.empty());
  const std::string good = ReadFile(object).value();
  // The second half of .debug_line overwritten: functions are known, some lines are not.
  const auto file = ElfFile::Open(object);
  const ElfSection* line = (*file)->FindSection(".debug_line");
  ASSERT_NE(line, nullptr);
  std::string bad = good;
  std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(line->offset.value + line->size_bytes / 2),
              line->size_bytes / 2, '\xff');
  const auto damaged = ElfFile::FromBytes(AsBytes(bad), "damaged");
  ASSERT_TRUE(damaged.has_value());
  SymbolRows rows;
  const auto collected = CollectDwarf({.debug = damaged->get()}, &rows);
  ASSERT_TRUE(collected.has_value());
  EXPECT_EQ(collected->functions, 3U);
  EXPECT_EQ(collected->units_damaged, 1U);
  EXPECT_FALSE(rows.notes().empty());
}

}  // namespace
}  // namespace ptarmigan
