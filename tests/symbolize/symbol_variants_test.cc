// One program in every form that symbols come in: the facade must name its code as llvm-symbolizer names the unstripped
// one.
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/proc_fs.h"
#include "elf/elf_file.h"
#include "symbolize/symbolizer.h"
#include "tests/support/symbol_oracle.h"
#include "tests/support/test_data.h"
#include "tests/symbolize/debuginfod_server.h"
#include "tests/symbolize/test_programs.h"

namespace ptarmigan {
namespace {

constexpr size_t kAddresses = 20'000;
constexpr double kEqualShareMin = 0.995;

// Addresses and the oracle's frames for one file, asked once.
struct Truth {
  std::vector<uint64_t> addresses;
  std::vector<InlineStack> frames;
};

Truth AskTruth(const std::string& path) {
  Truth truth;
  truth.addresses = SampleCodeAddresses(path, kAddresses);
  truth.frames = AskSymbolOracle(path, truth.addresses);
  return truth;
}

const Truth& TruthOfFull() {
  static const Truth truth = AskTruth(TestProgramDirectory() + "/full");
  return truth;
}

SymbolizerOptions PlainOptions() {
  SymbolizerOptions options;
  options.cache_directory = TestTemporaryDirectory();
  options.demangle = false;
  return options;
}

std::vector<InlineStack> ResolveAll(const Symbolizer& symbolizer, const ObjectSymbols& symbols,
                                    const std::vector<uint64_t>& addresses) {
  std::vector<InlineStack> all;
  for (const uint64_t address : addresses) {
    InlineStack frames;
    symbolizer.Resolve(symbols, {address}, &frames);
    all.push_back(std::move(frames));
  }
  return all;
}

void ExpectEqualsTruth(const Symbolizer& symbolizer, const ObjectSymbols& symbols,
                       const Truth& truth, const OracleOptions& options = {}) {
  EXPECT_EQ(symbols.miss(), SymbolMiss::kNone) << symbols.reason();
  const OracleComparison comparison = CompareWithOracle(
      truth.addresses, ResolveAll(symbolizer, symbols, truth.addresses), truth.frames, options);
  EXPECT_GT(comparison.known, truth.addresses.size() / 2);
  std::string differences;
  for (const std::string& one : comparison.differences) differences += one + "\n";
  EXPECT_GE(comparison.EqualShare(), kEqualShareMin) << differences;
  ::testing::Test::RecordProperty("equal_share", StrFormat("{:.5f}", comparison.EqualShare()));
}

class SymbolVariants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CanBuildPrograms()) GTEST_SKIP() << "g++ or binutils is not installed";
    if (SymbolOracleProgram().empty()) GTEST_SKIP() << "llvm-symbolizer is not installed";
    ASSERT_FALSE(TestProgramDirectory().empty());
    directory_ = TestTemporaryDirectory();
  }
  // Runs commands in a directory of this test; $FULL is the unstripped program.
  bool Run(const std::string& commands) {
    return RunIn(directory_, "FULL=" + TestProgramDirectory() + "/full; " + commands);
  }
  std::string At(const std::string& name) const { return directory_ + "/" + name; }

  std::string directory_;
};

TEST_F(SymbolVariants, OwnDebugInformation) {
  Symbolizer symbolizer(PlainOptions());
  const CodeObject object = FileObject(TestProgramDirectory() + "/full");
  ExpectEqualsTruth(symbolizer, *symbolizer.Load(object), TruthOfFull());
}

TEST_F(SymbolVariants, CompressedDebugSections) {
  for (const std::string kind : {"zlib", "zlib-gnu", "zstd"}) {
    if (!Run(StrFormat("objcopy --compress-debug-sections={0} $FULL {0}", kind))) continue;
    Symbolizer symbolizer(PlainOptions());
    const CodeObject object = FileObject(At(kind));
    ExpectEqualsTruth(symbolizer, *symbolizer.Load(object), TruthOfFull());
  }
}

TEST_F(SymbolVariants, StrippedWithDebugLink) {
  ASSERT_TRUE(
      Run("objcopy --only-keep-debug $FULL prog.debug && strip -o prog $FULL && "
          "objcopy --add-gnu-debuglink=prog.debug prog"));
  Symbolizer symbolizer(PlainOptions());
  const CodeObject object = FileObject(At("prog"));
  const ObjectSymbols* symbols = symbolizer.Load(object);
  EXPECT_EQ(symbols->file(), At("prog"));
  EXPECT_EQ(symbols->debug_file(), At("prog.debug"));
  ExpectEqualsTruth(symbolizer, *symbols, TruthOfFull());
}

TEST_F(SymbolVariants, StrippedWithBuildIdDirectory) {
  const auto full = ElfFile::Open(TestProgramDirectory() + "/full");
  const BuildId build_id = (*full)->build_id();
  const std::string hex = build_id.ToHex();
  ASSERT_TRUE(
      Run(StrFormat("strip -o prog $FULL && mkdir -p given/.build-id/{0} && "
                    "objcopy --only-keep-debug $FULL given/.build-id/{0}/{1}.debug",
                    hex.substr(0, 2), hex.substr(2))));
  SymbolizerOptions options = PlainOptions();
  options.binary_paths = {At("given")};
  {
    Symbolizer symbolizer(options);
    const CodeObject object = FileObject(At("prog"));
    ExpectEqualsTruth(symbolizer, *symbolizer.Load(object), TruthOfFull());
  }
  // The program itself is on another machine: its debug file alone names everything.
  Symbolizer symbolizer(options);
  const CodeObject object = FileObject("/nowhere/prog", build_id);
  ExpectEqualsTruth(symbolizer, *symbolizer.Load(object), TruthOfFull());
}

TEST_F(SymbolVariants, StrippedWithDebuginfod) {
  if (!HaveProgram("debuginfod")) GTEST_SKIP() << "debuginfod is not installed";
  ASSERT_TRUE(Run(
      "mkdir served && objcopy --only-keep-debug $FULL served/prog.debug && strip -o prog $FULL"));
  const auto full = ElfFile::Open(TestProgramDirectory() + "/full");
  DebuginfodServer server(At("served"));
  ASSERT_TRUE(server.WaitFor((*full)->build_id().ToHex() + "/debuginfo"));
  SymbolizerOptions options = PlainOptions();
  const CodeObject object = FileObject(At("prog"));
  {
    // Not asked: never contacted.
    Symbolizer symbolizer(options);
    const ObjectSymbols* symbols = symbolizer.Load(object);
    EXPECT_NE(symbols->reason().find("lines are not known"), std::string::npos)
        << symbols->reason();
  }
  options.debuginfod_urls = {server.url()};
  {
    Symbolizer symbolizer(options);
    ExpectEqualsTruth(symbolizer, *symbolizer.Load(object), TruthOfFull());
    EXPECT_EQ(symbolizer.tables_built(), 1U);
  }
  // Later the table is there, and the server is not needed any more, nor need it be asked.
  server.Stop();
  for (const bool ask : {true, false}) {
    if (!ask) options.debuginfod_urls.clear();
    Symbolizer symbolizer(options);
    ExpectEqualsTruth(symbolizer, *symbolizer.Load(object), TruthOfFull());
    EXPECT_EQ(symbolizer.tables_built(), 0U);
  }
}

TEST_F(SymbolVariants, SymbolsArriveThoughDebuginfodIsDown) {
  ASSERT_TRUE(Run("strip --strip-debug -o prog $FULL"));
  SymbolizerOptions options = PlainOptions();
  options.debuginfod_urls = {"http://127.0.0.1:1"};
  options.debuginfod_timeout = std::chrono::seconds(2);
  Symbolizer symbolizer(options);
  const CodeObject object = FileObject(At("prog"));
  const ObjectSymbols* symbols = symbolizer.Load(object);
  EXPECT_EQ(symbols->miss(), SymbolMiss::kNone);
  EXPECT_NE(symbols->reason().find("debuginfod"), std::string::npos) << symbols->reason();
}

// Names (no lines) equal those that the oracle gives for the file that has .symtab and no DWARF.
TEST_F(SymbolVariants, MiniDebugInfo) {
  if (!HaveProgram("xz")) GTEST_SKIP() << "xz is not installed";
  ASSERT_TRUE(
      Run("strip --strip-debug -o symbols $FULL && cp symbols mini && xz -k mini && strip -o prog "
          "$FULL && "
          "objcopy --add-section .gnu_debugdata=mini.xz prog"));
  Symbolizer symbolizer(PlainOptions());
  const CodeObject object = FileObject(At("prog"));
  ExpectEqualsTruth(symbolizer, *symbolizer.Load(object), AskTruth(At("symbols")),
                    {.lines = false});
}

TEST_F(SymbolVariants, SharedDwzFile) {
  if (!HaveProgram("dwz")) GTEST_SKIP() << "dwz is not installed";
  // A shared file needs two objects with something in common.
  ASSERT_TRUE(Run("cp $FULL a && g++ -O1 -g -std=c++17 -Wl,--build-id " + TestProgramDirectory() +
                  "/shop.cc -o b && "
                  "dwz -m common -M common a b"));
  if (!PathExists(At("common"))) GTEST_SKIP() << "dwz made no shared file";
  Symbolizer symbolizer(PlainOptions());
  const CodeObject object = FileObject(At("a"));
  const ObjectSymbols* symbols = symbolizer.Load(object);
  EXPECT_EQ(symbols->reason(), "");
  ExpectEqualsTruth(symbolizer, *symbols, TruthOfFull());
}

TEST_F(SymbolVariants, OtherCompilers) {
  struct Compiler {
    std::string program;
    std::string command;
  };
  const std::string source = TestProgramDirectory() + "/shop.cc";
  for (const Compiler& compiler :
       std::vector<Compiler>{{"clang++", "clang++ -O2 -g -std=c++17 " + source + " -o clang++"},
                             {"rustc",
                              "printf '%s\\n' 'fn area(w: u64) -> u64 { w * 3 + 1 }' "
                              "'#[inline(never)] fn total(v: &[u64]) -> u64 "
                              "{ v.iter().map(|w| area(*w)).sum() }' 'fn main() { let v: Vec<u64> "
                              "= (0..std::env::args().count() "
                              "as u64 + 9).collect(); println!(\"{}\", total(&v)); }' > r.rs && "
                              "rustc -O -g r.rs -o rustc"}}) {
    if (!HaveProgram(compiler.program)) continue;
    if (!Run(compiler.command)) continue;
    Symbolizer symbolizer(PlainOptions());
    const CodeObject object = FileObject(At(compiler.program));
    ExpectEqualsTruth(symbolizer, *symbolizer.Load(object), AskTruth(At(compiler.program)));
  }
}

// --- running programs ---

CodeObject MappedObject(pid_t pid, const std::string& path) {
  CodeObject object = FileObject(path);
  const auto maps = ProcFs().Maps(pid);
  EXPECT_TRUE(maps);
  for (const ProcMap& map : *maps) {
    if (map.path != path || !map.executable) continue;
    object.inode = map.inode;
    object.first_start = {map.start};
    object.first_offset = {map.file_offset};
  }
  EXPECT_NE(object.first_start.value, 0U) << path;
  return object;
}

TEST_F(SymbolVariants, DeletedProgram) {
  ASSERT_TRUE(Run("cp $FULL prog"));
  const WaitingChild child("exec '" + At("prog") + "' wait");
  ASSERT_TRUE(child.ready());
  const CodeObject object = MappedObject(child.pid(), At("prog"));
  ASSERT_EQ(::unlink(At("prog").c_str()), 0);
  SymbolizerOptions options = PlainOptions();
  options.live = true;
  Symbolizer symbolizer(options);
  const ObjectSymbols* symbols = symbolizer.Load(object, {.pid = child.pid()});
  ExpectEqualsTruth(symbolizer, *symbols, TruthOfFull());
  EXPECT_EQ(symbols->build_id(), (*ElfFile::Open(TestProgramDirectory() + "/full"))->build_id());
}

TEST_F(SymbolVariants, ReplacedProgram) {
  ASSERT_TRUE(Run("cp $FULL prog && g++ -O0 -Wl,--build-id " + TestProgramDirectory() +
                  "/shop.cc -o other"));
  const WaitingChild child("exec '" + At("prog") + "' wait");
  ASSERT_TRUE(child.ready());
  const CodeObject object = MappedObject(child.pid(), At("prog"));
  ASSERT_TRUE(Run("mv other prog"));
  SymbolizerOptions options = PlainOptions();
  options.live = true;
  Symbolizer symbolizer(options);
  ExpectEqualsTruth(symbolizer, *symbolizer.Load(object, {.pid = child.pid()}), TruthOfFull());
}

TEST_F(SymbolVariants, ProgramInAnotherMountNamespace) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make a mount namespace";
  if (RunCommand("unshare -m true").exit_code != 0)
    GTEST_SKIP() << "mount namespaces are not allowed here";
  ASSERT_TRUE(Run("mkdir inside"));
  const std::string inside = At("inside");
  const WaitingChild child("exec unshare -m sh -c 'mount -t tmpfs none " + inside + " && cp " +
                           TestProgramDirectory() + "/full " + inside + "/prog && exec " + inside +
                           "/prog wait'");
  if (!child.ready()) GTEST_SKIP() << "tmpfs cannot be mounted here";
  ASSERT_FALSE(PathExists(inside + "/prog"));
  const CodeObject object = MappedObject(child.pid(), inside + "/prog");
  SymbolizerOptions options = PlainOptions();
  options.live = true;
  Symbolizer symbolizer(options);
  ExpectEqualsTruth(symbolizer, *symbolizer.Load(object, {.pid = child.pid()}), TruthOfFull());
}

TEST_F(SymbolVariants, SharedLibraryLoadedAfterStart) {
  Symbolizer symbolizer(PlainOptions());
  const std::string path = RunCommand("ldd '" + TestProgramDirectory() +
                                      "/full' | sed -n 's/.*libstdc++.*=> \\([^ ]*\\).*/\\1/p'")
                               .out;
  ASSERT_FALSE(path.empty());
  const CodeObject object = FileObject(path.substr(0, path.find('\n')));
  const ObjectSymbols* symbols = symbolizer.Load(object);
  EXPECT_EQ(symbols->miss(), SymbolMiss::kNone) << symbols->reason();
}

}  // namespace
}  // namespace ptarmigan
