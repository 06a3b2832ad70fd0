#include "symbolize/symbolizer.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/proc_fs.h"
#include "symbolize/kernel_symbols.h"
#include "tests/support/byte_writer.h"
#include "tests/support/jit_dump_writer.h"
#include "tests/support/test_data.h"
#include "tests/symbolize/test_programs.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kAnyTime = ~uint64_t{0};

SymbolizerOptions PlainOptions() {
  SymbolizerOptions options;
  options.cache_directory = TestTemporaryDirectory();
  return options;
}

CodeObject ObjectOf(CodeObject::Kind kind, const std::string& path) {
  CodeObject object;
  object.kind = kind;
  object.path = path;
  return object;
}

std::string NameAt(const Symbolizer& symbolizer, const ObjectSymbols& symbols, uint64_t address,
                   uint64_t time_ns = kAnyTime) {
  InlineStack frames;
  const bool found = symbols.by_runtime_address()
                         ? symbolizer.ResolveRuntime(symbols, {address}, time_ns, &frames)
                         : symbolizer.Resolve(symbols, {address}, &frames);
  return found ? frames.back().function : "-";
}

// The address of a function of the test program.
uint64_t AddressOf(const std::string& file, const std::string& demangled_start) {
  const CommandResult nm =
      RunCommand("nm -C '" + file + "' | grep ' [tT] " + demangled_start + "' | head -1");
  EXPECT_EQ(nm.exit_code, 0);
  EXPECT_FALSE(nm.out.empty()) << demangled_start;
  return nm.out.empty() ? 0 : std::stoull(nm.out.substr(0, 16), nullptr, 16);
}

class SymbolizerOfProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CanBuildPrograms()) GTEST_SKIP() << "g++ or binutils is not installed";
    ASSERT_FALSE(TestProgramDirectory().empty());
    full_ = TestProgramDirectory() + "/full";
  }
  std::string full_;
};

TEST_F(SymbolizerOfProgram, NamesFunctionsWithTheirLines) {
  Symbolizer symbolizer(PlainOptions());
  const CodeObject object = FileObject(full_);
  const ObjectSymbols* symbols = symbolizer.Load(object);
  ASSERT_EQ(symbols->miss(), SymbolMiss::kNone) << symbols->reason();
  EXPECT_EQ(symbols->reason(), "");
  EXPECT_EQ(symbols->file(), full_);
  const uint64_t walk = AddressOf(full_, "shop::Walk");
  InlineStack frames;
  ASSERT_TRUE(symbolizer.Resolve(*symbols, {walk + 1}, &frames));
  EXPECT_EQ(frames.back().function, "shop::Walk(int)");
  EXPECT_EQ(frames.back().system_name, "_ZN4shop4WalkEi");
  EXPECT_TRUE(frames.back().file.ends_with("/shop.cc")) << frames.back().file;
  EXPECT_GT(frames.back().line, 0U);
  EXPECT_GT(frames.back().start_line, 0U);
  EXPECT_EQ(symbolizer.FunctionStart(*symbols, {walk + 1})->value, walk);
  EXPECT_FALSE(symbolizer.Resolve(*symbols, {1}, &frames));
  EXPECT_TRUE(frames.empty());
  EXPECT_EQ(Symbolizer::MissOf(*symbols), SymbolMiss::kNotInSymbol);
  EXPECT_FALSE(symbolizer.FunctionStart(*symbols, {1}));
  // As a LineResolver, by build id.
  LineResolver& resolver = symbolizer;
  ASSERT_TRUE(resolver.Resolve(symbols->build_id(), {walk + 1}, &frames));
  EXPECT_EQ(frames.back().function, "shop::Walk(int)");
  EXPECT_FALSE(resolver.Resolve(*BuildId::FromHex("0011223344"), {walk}, &frames));
}

TEST_F(SymbolizerOfProgram, LeavesInlinesAndDemanglingOutOnRequest) {
  SymbolizerOptions options = PlainOptions();
  Symbolizer with(options);
  options.inlines = false;
  options.demangle = false;
  Symbolizer without(options);
  const CodeObject object = FileObject(full_);
  const uint64_t main_start = AddressOf(full_, "main$");
  size_t inlined = 0;
  for (uint64_t address = main_start; address < main_start + 400; ++address) {
    InlineStack all;
    InlineStack one;
    ASSERT_EQ(with.Resolve(*with.Load(object), {address}, &all),
              without.Resolve(*without.Load(object), {address}, &one));
    if (all.empty()) continue;
    ASSERT_EQ(one.size(), 1U);
    EXPECT_EQ(one[0].function, all.back().system_name);
    EXPECT_EQ(one[0].line, all[0].line);
    EXPECT_EQ(one[0].file, all[0].file);
    if (all.size() > 1) ++inlined;
  }
  EXPECT_GT(inlined, 20U);
  EXPECT_EQ(with.tables_built() + without.tables_built(), 1U);  // one table serves both
}

TEST_F(SymbolizerOfProgram, TurnsFileOffsetsIntoAddresses) {
  Symbolizer symbolizer(PlainOptions());
  const CodeObject object = FileObject(full_);
  const ObjectSymbols* symbols = symbolizer.Load(object);
  const auto file = symbolizer.OpenObject(object);
  ASSERT_NE(file, nullptr);
  const FileVaddr walk = {AddressOf(full_, "shop::Walk")};
  const auto offset = file->ToOffset(walk);
  ASSERT_TRUE(offset);
  EXPECT_EQ(symbolizer.ToVaddr(*symbols, *offset)->value, walk.value);
  EXPECT_FALSE(symbolizer.ToVaddr(*symbols, {uint64_t{1} << 40}));
  SymbolizerOptions off = PlainOptions();
  off.symbols = false;
  Symbolizer without(off);
  const ObjectSymbols* unnamed = without.Load(object);
  EXPECT_EQ(unnamed->miss(), SymbolMiss::kSymbolsOff);
  EXPECT_EQ(without.ToVaddr(*unnamed, *offset)->value, walk.value);
  InlineStack frames;
  EXPECT_FALSE(without.Resolve(*unnamed, walk, &frames));
  EXPECT_EQ(without.tables_built(), 0U);
}

TEST_F(SymbolizerOfProgram, BuildsATableOnceAndAgainWhenMoreIsKnown) {
  const std::string directory = TestTemporaryDirectory();
  ASSERT_TRUE(RunIn(directory, "strip --strip-debug -o prog '" + full_ +
                                   "' && objcopy --only-keep-debug '" + full_ +
                                   "' prog.debug && cp prog plain && objcopy "
                                   "--add-gnu-debuglink=prog.debug prog && mv prog.debug later"));
  const SymbolizerOptions options = PlainOptions();
  const CodeObject object = FileObject(directory + "/prog");
  const uint64_t walk = AddressOf(full_, "shop::Walk");
  const auto line_at_walk = [&](uint64_t builds) {
    Symbolizer symbolizer(options);
    InlineStack frames;
    EXPECT_TRUE(symbolizer.Resolve(*symbolizer.Load(object), {walk}, &frames));
    EXPECT_EQ(symbolizer.tables_built(), builds);
    return frames.empty() ? 0U : frames.back().line;
  };
  EXPECT_EQ(line_at_walk(1), 0U);
  EXPECT_EQ(line_at_walk(0), 0U);
  ASSERT_TRUE(RunIn(directory, "mv later prog.debug"));
  EXPECT_GT(line_at_walk(1), 0U);
  EXPECT_GT(line_at_walk(0), 0U);
  // What was known stays known when the debug file goes, if the build id says it is the same program.
  ASSERT_TRUE(RunIn(directory, "rm prog.debug prog"));
  Symbolizer symbolizer(options);
  const CodeObject gone = FileObject(directory + "/prog", (*ElfFile::Open(full_))->build_id());
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(gone), walk), "shop::Walk(int)");
}

TEST_F(SymbolizerOfProgram, WorksWithoutACache) {
  SymbolizerOptions options;
  options.cache_directory = "-";
  Symbolizer symbolizer(options);
  const CodeObject object = FileObject(full_);
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(object), AddressOf(full_, "shop::Walk")),
            "shop::Walk(int)");
  options.cache_directory = "/proc/nowhere/at/all";  // cannot be made
  Symbolizer unwritable(options);
  EXPECT_EQ(NameAt(unwritable, *unwritable.Load(object), AddressOf(full_, "shop::Walk")),
            "shop::Walk(int)");
}

TEST_F(SymbolizerOfProgram, LoadsOneObjectOnceForManyThreads) {
  Symbolizer symbolizer(PlainOptions());
  const CodeObject object = FileObject(full_);
  const CodeObject same_file = FileObject(full_);  // another process's view of it
  std::vector<Symbolizer::Request> requests;
  for (int i = 0; i < 8; ++i)
    requests.push_back({.object = i % 2 == 0 ? &object : &same_file, .hints = {}});
  symbolizer.Prefetch(requests);
  EXPECT_EQ(symbolizer.tables_built(), 1U);
  const uint64_t walk = AddressOf(full_, "shop::Walk");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const ObjectSymbols* symbols = symbolizer.Load(object);
      for (int round = 0; round < 2000; ++round) {
        if (NameAt(symbolizer, *symbols, walk + static_cast<uint64_t>(round % 8)) !=
            "shop::Walk(int)")
          ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  symbolizer.Prefetch({});
}

TEST_F(SymbolizerOfProgram, RemembersThatATableCannotBeBuilt) {
  const std::string directory = TestTemporaryDirectory();
  // An object with a build id and nothing that could be named.
  ASSERT_TRUE(
      RunIn(directory,
            "printf 'int x;' > e.c && gcc -shared -nostdlib -Wl,--build-id e.c -o empty.so && "
            "objcopy -R .dynsym -R .symtab -R .eh_frame_hdr --strip-all empty.so bare.so "
            "2>/dev/null || cp empty.so bare.so"));
  const SymbolizerOptions options = PlainOptions();
  const CodeObject object = FileObject(directory + "/bare.so");
  std::string reason;
  {
    Symbolizer symbolizer(options);
    const ObjectSymbols* symbols = symbolizer.Load(object);
    EXPECT_EQ(symbols->miss(), SymbolMiss::kNoSymbols) << symbols->reason();
    EXPECT_FALSE(symbols->reason().empty());
    reason = symbols->reason();
  }
  Symbolizer symbolizer(options);
  EXPECT_EQ(symbolizer.Load(object)->reason(), reason);
  EXPECT_EQ(symbolizer.tables_built(), 0U);
}

TEST_F(SymbolizerOfProgram, GivesUpOnABuildThatTakesTooLong) {
  SymbolizerOptions options = PlainOptions();
  options.build_timeout = std::chrono::milliseconds(1);
  Symbolizer symbolizer(options);
  const CodeObject object = FileObject(full_);
  const ObjectSymbols* symbols = symbolizer.Load(object);
  EXPECT_EQ(symbols->miss(), SymbolMiss::kBuildFailed) << symbols->reason();
}

TEST(Symbolizer, SaysWhyAnObjectHasNoNames) {
  const std::string directory = TestTemporaryDirectory();
  WriteTestFile(directory + "/text",
                "this is no program, but it is long enough to be mistaken for one by size alone");
  Symbolizer symbolizer(PlainOptions());
  const CodeObject missing = FileObject(directory + "/missing");
  const CodeObject text = FileObject(directory + "/text");
  const CodeObject nothing = ObjectOf(CodeObject::Kind::kUnknown, "[unknown]");
  EXPECT_EQ(symbolizer.Load(missing)->miss(), SymbolMiss::kFileNotFound);
  EXPECT_NE(symbolizer.Load(missing)->reason().find("missing"), std::string::npos);
  EXPECT_EQ(symbolizer.Load(text)->miss(), SymbolMiss::kDamaged);
  EXPECT_EQ(symbolizer.Load(nothing)->miss(), SymbolMiss::kNoMapping);
  std::string reason;
  EXPECT_EQ(symbolizer.OpenObject(missing, {}, &reason), nullptr);
  EXPECT_FALSE(reason.empty());
  EXPECT_EQ(SymbolMissName(SymbolMiss::kBuildIdMismatch), "build id mismatch");
}

// --- kernel ---

class KernelSymbolizer : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = TestTemporaryDirectory();
    ASSERT_TRUE(MakeDirectories(root_ + "/sys/kernel"));
    ASSERT_TRUE(MakeDirectories(root_ + "/proc"));
    ByteWriter notes(std::endian::native);
    notes.U32(4).U32(4).U32(3).CString("GNU").U32(0x44332211);
    running_ = BuildId(AsBytes(notes.bytes()).last(4));
    WriteTestFile(root_ + "/sys/kernel/notes", notes.bytes());
    WriteTestFile(root_ + "/proc/kallsyms", kText);
    options_ = PlainOptions();
    options_.proc_root = root_ + "/proc";
    options_.sys_root = root_ + "/sys";
  }
  CodeObject Kernel(const BuildId& build_id, uint64_t text) const {
    CodeObject object = ObjectOf(CodeObject::Kind::kKernel, "[kernel.kallsyms]_text");
    object.build_id = build_id;
    object.first_offset = {text};
    return object;
  }

  static constexpr std::string_view kText =
      "ffffffff81000000 T _text\nffffffff81000100 T do_thing\nffffffff81001000 T _etext\n"
      "ffffffffc0000000 t mod_work\t[nf_tables]\nffffffffc0100000 t bpf_prog_00_count\t[bpf]\n";
  std::string root_;
  BuildId running_;
  SymbolizerOptions options_;
};

TEST_F(KernelSymbolizer, NamesTheRunningKernelItsModulesAndBpfPrograms) {
  options_.live = true;
  Symbolizer symbolizer(options_);
  const CodeObject kernel = Kernel(BuildId(), 0xffffffff81000000);
  const CodeObject module = ObjectOf(CodeObject::Kind::kKernelModule, "[nf_tables]");
  const CodeObject known_bpf = ObjectOf(CodeObject::Kind::kBpf, "[bpf_prog_00_count]");
  const CodeObject gone_bpf = ObjectOf(CodeObject::Kind::kBpf, "[bpf_prog_11_gone]");
  const CodeObject unmapped = ObjectOf(CodeObject::Kind::kUnknown, "[kernel]");
  const ObjectSymbols* symbols = symbolizer.Load(kernel);
  EXPECT_TRUE(symbols->by_runtime_address());
  EXPECT_EQ(symbols->miss(), SymbolMiss::kNone) << symbols->reason();
  EXPECT_EQ(NameAt(symbolizer, *symbols, 0xffffffff81000180), "do_thing");
  EXPECT_EQ(symbolizer.FunctionStartRuntime(*symbols, {0xffffffff81000180}, kAnyTime)->value,
            0xffffffff81000100U);
  EXPECT_EQ(NameAt(symbolizer, *symbols, 0x1000), "-");
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(module), 0xffffffffc0000010), "mod_work");
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(known_bpf), 0xffffffffc0100010),
            "bpf_prog_00_count");
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(gone_bpf), 0xffffffffc0900010), "bpf_prog_11_gone");
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(unmapped), 0xffffffff81000180), "do_thing");
}

TEST_F(KernelSymbolizer, AnswersFromAKeptTableAsFromTheListItself) {
  WriteTestFile(root_ + "/proc/modules", "nf_tables 4096 0 - Live 0xffffffffc0000000\n");
  ASSERT_TRUE(MakeDirectories(root_ + "/proc/sys/kernel/random"));
  WriteTestFile(root_ + "/proc/sys/kernel/random/boot_id", "boot\n");
  WriteTestFile(root_ + "/proc/kallsyms",
                std::string(kText) + "ffffffffc0001800 t bpf_prog_22_behind\t[bpf]\n");
  options_.live = true;
  options_.cache_directory = root_ + "/cache";
  const CodeObject kernel = Kernel(BuildId(), 0xffffffff81000000);
  const CodeObject module = ObjectOf(CodeObject::Kind::kKernelModule, "[nf_tables]");
  const CodeObject bpf = ObjectOf(CodeObject::Kind::kBpf, "[bpf_prog_33_of_the_record]");
  for (const bool is_kept : {false, true}) {
    EXPECT_EQ(PathExists(root_ + "/cache/kernel/" + running_.ToHex() + ".ksym"), is_kept);
    Symbolizer symbolizer(options_);
    const ObjectSymbols* symbols = symbolizer.Load(kernel);
    EXPECT_EQ(NameAt(symbolizer, *symbols, 0xffffffff81000180), "do_thing");
    EXPECT_EQ(NameAt(symbolizer, *symbols, 0x1000), "-");
    EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(module), 0xffffffffc0000010), "mod_work");
    // A program of this moment has no trace in the table, nor has one that follows a module closely.
    EXPECT_EQ(NameAt(symbolizer, *symbols, 0xffffffffc0100010), "bpf_prog_00_count");
    EXPECT_EQ(NameAt(symbolizer, *symbols, 0xffffffffc00017ff), "mod_work");
    EXPECT_EQ(NameAt(symbolizer, *symbols, 0xffffffffc0001800), "bpf_prog_22_behind");
    EXPECT_EQ(NameAt(symbolizer, *symbols, 0xffffffffd0000000), "-");
    // The program may have been replaced since the recording.
    EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(bpf), 0xffffffffc0100010),
              "bpf_prog_33_of_the_record");
  }
}

TEST_F(KernelSymbolizer, ExplainsHiddenSymbols) {
  WriteTestFile(root_ + "/proc/kallsyms", "0000000000000000 T _text\n");
  options_.live = true;
  Symbolizer symbolizer(options_);
  const CodeObject kernel = Kernel(BuildId(), 0xffffffff81000000);
  EXPECT_EQ(symbolizer.Load(kernel)->miss(), SymbolMiss::kKernelHidden);
  EXPECT_NE(symbolizer.Load(kernel)->reason().find("kptr_restrict"), std::string::npos);
}

TEST_F(KernelSymbolizer, UsesThisMachinesKernelForARecordingOnlyIfItIsTheSameBuild) {
  {
    // Another boot of the same build: randomized to another place.
    Symbolizer symbolizer(options_);
    const CodeObject kernel = Kernel(running_, 0xffffffffa0000000);
    const CodeObject module = ObjectOf(CodeObject::Kind::kKernelModule, "[nf_tables]");
    EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(kernel), 0xffffffffa0000180), "do_thing");
    EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(kernel), 0xffffffff81000180), "-");
    EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(module), 0xffffffffc0000010), "-");
  }
  {
    // The same boot.
    Symbolizer symbolizer(options_);
    const CodeObject kernel = Kernel(running_, 0xffffffff81000000);
    const CodeObject module = ObjectOf(CodeObject::Kind::kKernelModule, "[nf_tables]");
    symbolizer.UseKernel(kernel);
    EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(module), 0xffffffffc0000010), "mod_work");
  }
  Symbolizer symbolizer(options_);
  const CodeObject foreign = Kernel(*BuildId::FromHex("0badcafe"), 0xffffffff81000000);
  EXPECT_EQ(symbolizer.Load(foreign)->miss(), SymbolMiss::kOtherKernel);
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(foreign), 0xffffffff81000180), "-");
  EXPECT_NE(symbolizer.Load(foreign)->reason().find("0badcafe"), std::string::npos);
}

TEST_F(KernelSymbolizer, NamesNothingOfARecordingThatDoesNotTellItsKernel) {
  Symbolizer symbolizer(options_);
  const CodeObject kernel = Kernel(BuildId(), 0xffffffff81000000);
  EXPECT_EQ(symbolizer.Load(kernel)->miss(), SymbolMiss::kOtherKernel);
  Symbolizer guest_symbolizer(options_);
  CodeObject guest = Kernel(running_, 0xffffffff81000000);
  guest.path = "[guest.kernel.kallsyms]_text";
  EXPECT_EQ(guest_symbolizer.Load(guest)->miss(), SymbolMiss::kOtherKernel);
}

TEST_F(KernelSymbolizer, ReadsTheCopyOfKallsymsThatCameWithARecording) {
  const BuildId foreign = *BuildId::FromHex("0badcafe");
  const std::string copy = root_ + "/given/[kernel.kallsyms]/0badcafe";
  ASSERT_TRUE(MakeDirectories(copy));
  WriteTestFile(copy + "/kallsyms", "ffffffff90000000 T _text\nffffffff90000040 T other_thing\n");
  options_.binary_paths = {root_ + "/given"};
  Symbolizer symbolizer(options_);
  const CodeObject kernel = Kernel(foreign, 0xffffffff90000000);
  EXPECT_EQ(symbolizer.Load(kernel)->miss(), SymbolMiss::kNone)
      << symbolizer.Load(kernel)->reason();
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(kernel), 0xffffffff90000050), "other_thing");
}

TEST_F(KernelSymbolizer, ReadsLinesFromAVmlinuxOfTheSameBuild) {
  if (!CanBuildPrograms()) GTEST_SKIP() << "g++ is not installed";
  ASSERT_TRUE(MakeDirectories(root_ + "/given"));
  // As good as a kernel: linked to a fixed address, with a symbol _text and a build id.
  WriteTestFile(
      root_ + "/k.c",
      "int helper(int x) { return x * 3; }\nint _text(int x) { return helper(x) + 1; }\n");
  ASSERT_TRUE(RunIn(root_,
                    "gcc -O1 -fno-inline -g -ffreestanding -nostdlib -static "
                    "-Wl,--build-id=0x0badcafe -Wl,-e,_text k.c -o given/vmlinux"));
  const uint64_t text = AddressOf(root_ + "/given/vmlinux", "_text");
  const uint64_t helper = AddressOf(root_ + "/given/vmlinux", "helper");
  options_.binary_paths = {root_ + "/given"};
  Symbolizer symbolizer(options_);
  const uint64_t base = 0xffffffff90000000;
  const CodeObject kernel = Kernel(*BuildId::FromHex("0badcafe"), base);
  const ObjectSymbols* symbols = symbolizer.Load(kernel);
  EXPECT_EQ(symbols->miss(), SymbolMiss::kNone) << symbols->reason();
  InlineStack frames;
  ASSERT_TRUE(symbolizer.ResolveRuntime(*symbols, {base + (helper - text)}, kAnyTime, &frames));
  EXPECT_EQ(frames[0].function, "helper");
  EXPECT_EQ(frames[0].line, 1U);
}

// --- vdso and JIT code ---

TEST(Symbolizer, NamesTheVdso) {
  const unsigned long start = ::getauxval(AT_SYSINFO_EHDR);
  if (start == 0) GTEST_SKIP() << "this kernel gives programs no vdso";
  SymbolizerOptions options = PlainOptions();
  options.live = true;
  Symbolizer symbolizer(options);
  const CodeObject vdso = ObjectOf(CodeObject::Kind::kVdso, "[vdso]");
  const ObjectSymbols* symbols = symbolizer.Load(vdso);
  ASSERT_EQ(symbols->miss(), SymbolMiss::kNone) << symbols->reason();
  const auto file = symbolizer.OpenObject(vdso);
  ASSERT_NE(file, nullptr);
  size_t named = 0;
  file->ForEachSymbol(".dynsym", [&](const ElfSymbol& symbol) {
    if (symbol.type != STT_FUNC || symbol.section == 0) return;
    EXPECT_NE(NameAt(symbolizer, *symbols, symbol.value.value), "-") << symbol.name;
    ++named;
  });
  EXPECT_GT(named, 0U);
  // A recording under another kernel must not get this one's.
  Symbolizer recorded(PlainOptions());
  EXPECT_EQ(recorded.Load(vdso)->miss(), SymbolMiss::kOtherKernel);
}

class JitSymbolizer : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = TestTemporaryDirectory();
    process_ = root_ + "/77";
    ASSERT_TRUE(MakeDirectories(process_ + "/root/tmp"));
    WriteTestFile(process_ + "/status",
                  StrFormat("PPid:\t1\nUid:\t{0}\t{0}\t{0}\t{0}\nNSpid:\t77\t3\n", ::geteuid()));
    WriteTestFile(process_ + "/maps", "");
    options_ = PlainOptions();
    options_.proc_root = root_;
    options_.live = true;
    anonymous_ = ObjectOf(CodeObject::Kind::kAnonymous, "//anon");
    anonymous_.pid = 77;
  }
  std::string root_;
  std::string process_;
  SymbolizerOptions options_;
  CodeObject anonymous_;
};

TEST_F(JitSymbolizer, ReadsThePerfMapOfARunningProcess) {
  WriteTestFile(process_ + "/root/tmp/perf-3.map",
                "1000 100 LHot;::leaf\n2000 100 JS:*add file:///app/x.js:12:5\n3000 100 JS:~ "
                "/app/y.js:1:1\n");
  Symbolizer symbolizer(options_);
  const ObjectSymbols* symbols = symbolizer.Load(anonymous_);
  EXPECT_TRUE(symbols->by_runtime_address());
  EXPECT_EQ(NameAt(symbolizer, *symbols, 0x1010), "LHot;::leaf");
  InlineStack frames;
  ASSERT_TRUE(symbolizer.ResolveRuntime(*symbols, {0x2010}, kAnyTime, &frames));
  EXPECT_EQ(frames[0].function, "add");
  EXPECT_EQ(frames[0].system_name, "JS:*add file:///app/x.js:12:5");
  EXPECT_EQ(frames[0].file, "/app/x.js");
  EXPECT_EQ(frames[0].line, 12U);
  EXPECT_EQ(NameAt(symbolizer, *symbols, 0x3010), "(anonymous)");
  EXPECT_EQ(symbolizer.FunctionStartRuntime(*symbols, {0x2010}, kAnyTime)->value, 0x2000U);
  EXPECT_EQ(NameAt(symbolizer, *symbols, 0x9000), "-");
}

TEST_F(JitSymbolizer, PrefersTheJitDump) {
  JitDumpWriter writer(std::endian::native, 3);
  writer.Lines(90, 0x1000, {{0x1000, 10, 0, "a.js"}});
  writer.Load(100, 0x1000, 0x100, "old");
  writer.Load(200, 0x1000, 0x100, "new");
  WriteTestFile(process_ + "/root/tmp/jit-3.dump", writer.bytes());
  WriteTestFile(process_ + "/maps",
                "7f0000000000-7f0000001000 r-xp 00000000 08:01 13 /tmp/jit-3.dump\n");
  WriteTestFile(process_ + "/root/tmp/perf-3.map", "1000 100 from_map\n5000 100 only_in_map\n");
  Symbolizer symbolizer(options_);
  const ObjectSymbols* symbols = symbolizer.Load(anonymous_);
  EXPECT_EQ(NameAt(symbolizer, *symbols, 0x1010, 150), "old");
  EXPECT_EQ(NameAt(symbolizer, *symbols, 0x1010, 250), "new");
  EXPECT_EQ(NameAt(symbolizer, *symbols, 0x5010), "only_in_map");
  InlineStack frames;
  ASSERT_TRUE(symbolizer.ResolveRuntime(*symbols, {0x1010}, 150, &frames));
  EXPECT_EQ(frames[0].file, "a.js");
  EXPECT_EQ(frames[0].line, 10U);
}

TEST_F(JitSymbolizer, SaysThatThereIsNoMap) {
  Symbolizer symbolizer(options_);
  const ObjectSymbols* symbols = symbolizer.Load(anonymous_);
  EXPECT_EQ(symbols->miss(), SymbolMiss::kNoJitMap);
  EXPECT_FALSE(symbols->reason().empty());
}

TEST_F(JitSymbolizer, ReadsWhatComesWithARecording) {
  ASSERT_TRUE(MakeDirectories(root_ + "/given/tmp"));
  WriteTestFile(root_ + "/given/tmp/perf-77.map", "1000 100 from_directory\n");
  options_.live = false;
  options_.binary_paths = {root_ + "/given"};
  Symbolizer symbolizer(options_);
  EXPECT_EQ(NameAt(symbolizer, *symbolizer.Load(anonymous_), 0x1010), "from_directory");
  Symbolizer from_archive(options_);
  from_archive.AddPerfMap(77, "1000 100 from_archive\n");
  EXPECT_EQ(NameAt(from_archive, *from_archive.Load(anonymous_), 0x1010), "from_archive");
  Symbolizer from_dump(options_);
  JitDumpWriter writer(std::endian::little, 77);
  writer.Load(100, 0x1000, 0x100, "from_dump");
  ASSERT_TRUE(from_dump.AddJitDump(77, AsBytes(writer.bytes())));
  EXPECT_FALSE(from_dump.AddJitDump(78, AsBytes(std::string("nonsense"))));
  EXPECT_EQ(NameAt(from_dump, *from_dump.Load(anonymous_), 0x1010), "from_dump");
}

TEST(Symbolizer, FindsItsCacheDirectoryByTheEnvironment) {
  const auto with = [](const char* own, const char* xdg, const char* home) {
    for (const auto& [name, value] : {std::pair("PTARMIGAN_CACHE", own),
                                      std::pair("XDG_CACHE_HOME", xdg), std::pair("HOME", home)}) {
      if (value != nullptr)
        ::setenv(name, value, 1);
      else
        ::unsetenv(name);
    }
    return DefaultSymbolCacheDirectory();
  };
  const char* old_home = std::getenv("HOME");
  const std::string home = old_home != nullptr ? old_home : "";
  EXPECT_EQ(with("/own", "/xdg", "/home/u"), "/own/symbols");
  EXPECT_EQ(with(nullptr, "/xdg", "/home/u"), "/xdg/ptarmigan/symbols");
  EXPECT_EQ(with("", "", "/home/u"), "/home/u/.cache/ptarmigan/symbols");
  EXPECT_EQ(with(nullptr, nullptr, nullptr), "");
  ::unsetenv("PTARMIGAN_CACHE");
  ::unsetenv("XDG_CACHE_HOME");
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace ptarmigan
