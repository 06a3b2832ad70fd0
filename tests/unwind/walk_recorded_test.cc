// Walks over processes that others recorded: cores of elfutils' tests and the offline cases of Android's unwinder.
#include <gtest/gtest.h>

#include <charconv>
#include <functional>
#include <map>
#include <sstream>

#include "base/str_format.h"
#include "tests/support/fake_process.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

// What the kernel would have copied with a sample.
constexpr size_t kDumpBytes = 65528;

uint64_t FromHex(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

std::string Bunzip(const std::string& path) {
  const CommandResult result = RunCommand("bzcat " + path);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

// ---- cores ----

struct CoreThread {
  RegisterSet registers;
  std::string stack;
};

RegisterSet RegistersFromPrstatus(Arch arch, Bytes prstatus) {
  // perf's number of each register of elf_gregset_t; 255 for those perf does not have.
  static const std::vector<uint8_t> kX86_64 = {23, 22, 21, 20, 6,   1, 19, 18, 17, 16, 0,
                                               2,  3,  4,  5,  255, 8, 10, 9,  7,  11};
  static const std::vector<uint8_t> kX86 = {1,  2,  3,   4, 5,  6, 0, 12, 13,
                                            14, 15, 255, 8, 10, 9, 7, 11};
  RegisterSet set;
  const bool is_32_bit = arch == Arch::kX86;
  set.abi = is_32_bit ? RegisterSet::Abi::k32 : RegisterSet::Abi::k64;
  ByteCursor cursor(prstatus, std::endian::little);
  cursor.Seek(is_32_bit ? 72 : 112);  // pr_reg
  const auto put = [&](unsigned number, uint64_t value) {
    set.values[number] = value;
    set.mask |= uint64_t{1} << number;
  };
  if (arch == Arch::kArm64) {
    for (unsigned i = 0; i < 33; ++i) put(i, cursor.U64());
  } else {
    for (const uint8_t number : is_32_bit ? kX86 : kX86_64) {
      const uint64_t value = is_32_bit ? cursor.U32() : cursor.U64();
      if (number != 255) put(number, value);
    }
  }
  EXPECT_TRUE(cursor.ok());
  return set;
}

std::vector<CoreThread> ThreadsOfCore(const ElfFile& core) {
  std::vector<CoreThread> threads;
  core.ForEachNote([&](const ElfNote& note) {
    if (note.name != "CORE" || note.type != NT_PRSTATUS) return;
    CoreThread thread;
    thread.registers = RegistersFromPrstatus(core.arch(), note.content);
    const uint64_t sp = thread.registers.values[core.arch() == Arch::kArm64 ? 31 : 7];
    thread.stack = AsText(core.ReadAt(FileVaddr{sp}, kDumpBytes));
    threads.push_back(std::move(thread));
  });
  return threads;
}

struct CoreCase {
  const char* core;
  const char* executable;
  Arch arch;
  std::vector<std::vector<std::string>> functions;  // per thread, leaf first
  StackEnd end;
};

void PrintTo(const CoreCase& core_case, std::ostream* out) { *out << core_case.core; }

class CoreFiles : public testing::TestWithParam<CoreCase> {};

INSTANTIATE_TEST_SUITE_P(
    Elfutils, CoreFiles,
    testing::Values(
        CoreCase{"elfutils/backtrace.x86_64.core.bz2",
                 "elfutils/backtrace.x86_64.exec.bz2",
                 Arch::kX86_64,
                 {{"raise", "sigusr2", "stdarg", "backtracegen", "start", "start_thread", "clone"},
                  {"pthread_join", "main", "__libc_start_main", "_start"}},
                 StackEnd::kComplete},
        CoreCase{"elfutils/backtrace.aarch64.core.bz2",
                 "elfutils/backtrace.aarch64.exec.bz2",
                 Arch::kArm64,
                 {{"raise", "sigusr2", "stdarg", "backtracegen", "start", "start_thread", "clone"},
                  {"pthread_join", "main", "__libc_start_main", "_start"}},
                 StackEnd::kComplete},
        // libc is not there: main's caller is seen, and no further.
        CoreCase{"elfutils/testfile-backtrace-demangle.core.bz2",
                 "elfutils/testfile-backtrace-demangle.bz2",
                 Arch::kX86_64,
                 {{"_Z7cxxfunci", "f", "main", "?"}},
                 StackEnd::kNoUnwindTable}));

TEST_P(CoreFiles, WalksEveryThread) {
  const std::string core_path = TestDataPath(GetParam().core);
  if (core_path.empty()) GTEST_SKIP() << TestDataMissing(GetParam().core);
  if (!HaveProgram("bzcat")) GTEST_SKIP() << "bzcat is not installed";
  const std::string core_bytes = Bunzip(core_path);
  const auto core = ElfFile::FromBytes(AsBytes(core_bytes), "core");
  ASSERT_TRUE(core.has_value());
  ASSERT_EQ((*core)->arch(), GetParam().arch);
  FakeProcess process;
  FakeProcess::Object* executable =
      process.AddObject("exec", Bunzip(TestDataPath(GetParam().executable)));
  ASSERT_NE(executable, nullptr);
  process.MapSegments(executable, 0);
  for (const ElfSegment& segment : (*core)->segments()) {  // libraries that are not at hand
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    const VirtAddr start{segment.vaddr.value};
    process.Map({.start = start, .end = start + segment.memory_bytes});
  }

  StackWalker walker(GetParam().arch);
  std::vector<std::vector<std::string>> functions;
  for (const CoreThread& thread : ThreadsOfCore(**core)) {
    std::vector<WalkedFrame> frames;
    const WalkResult result = walker.Walk(
        {.registers = thread.registers, .stack = AsBytes(thread.stack)}, process, &frames);
    std::vector<std::string>& names = functions.emplace_back();
    for (const WalkedFrame& frame : frames) names.push_back(process.FunctionAt(frame.lookup()));
    EXPECT_EQ(StackEndName(result.end), StackEndName(GetParam().end));
    EXPECT_EQ(result.origin, StackOrigin::kCfi);
    EXPECT_EQ(result.cfi_steps, frames.size() - 1);
  }
  EXPECT_EQ(functions, GetParam().functions);
}

// ---- offline cases: maps.txt, regs.txt, stack.data, output.txt and the objects ----

RegisterSet ReadRegisters(Arch arch, const std::string& path) {
  static const std::map<std::string, unsigned> kX86 = {{"ax", 0}, {"bx", 1}, {"cx", 2},
                                                       {"dx", 3}, {"si", 4}, {"di", 5},
                                                       {"bp", 6}, {"sp", 7}, {"ip", 8}};
  RegisterSet set;
  set.abi = arch == Arch::kX86 ? RegisterSet::Abi::k32 : RegisterSet::Abi::k64;
  std::istringstream lines(ReadTestFile(path));
  std::string name;
  std::string value;
  while (lines >> name >> value) {
    name.pop_back();  // the colon
    unsigned number = 64;
    if (arch == Arch::kArm64) {
      if (name == "pc")
        number = 32;
      else if (name == "sp")
        number = 31;
      else if (name == "lr")
        number = 30;
      else if (name[0] == 'x')
        number = static_cast<unsigned>(std::stoul(name.substr(1)));
    } else if (const auto found = kX86.find(name.substr(1)); found != kX86.end()) {
      number = found->second;
    } else if (name[0] == 'r') {
      number = static_cast<unsigned>(std::stoul(name.substr(1))) + 8;  // r8 is 16
    }
    if (number >= 64) continue;
    set.values[number] = FromHex(value);
    set.mask |= uint64_t{1} << number;
  }
  return set;
}

void MapObjects(const std::string& directory, FakeProcess* process) {
  std::map<std::string, FakeProcess::Object*> objects;
  std::istringstream lines(ReadTestFile(directory + "/maps.txt"));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string range;
    std::string permissions;
    std::string offset;
    std::string device;
    std::string inode;
    std::string name;
    fields >> range >> permissions >> offset >> device >> inode >> name;
    if (permissions.find('x') == std::string::npos) continue;
    if (!name.empty() && !objects.contains(name)) {
      const std::string path = directory + "/" + name + ".gz";
      objects[name] = PathExists(path) ? process->AddObject(name, ReadTestFile(path)) : nullptr;
    }
    const size_t dash = range.find('-');
    process->Map({.start = {FromHex(range.substr(0, dash))},
                  .end = {FromHex(range.substr(dash + 1))},
                  .offset = {FromHex(offset)},
                  .object = name.empty() ? nullptr : objects[name]});
  }
}

// "pc 0000000000000550  waiter64 (...)" of each line of output.txt.
std::vector<std::string> ExpectedFrames(const std::string& path) {
  std::vector<std::string> frames;
  std::istringstream lines(ReadTestFile(path));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string number;
    std::string pc_word;
    std::string pc;
    std::string object;
    fields >> number >> pc_word >> pc >> object;
    frames.push_back(StrFormat("{:x} {}", FromHex(pc), object));
  }
  return frames;
}

struct OfflineCase {
  const char* name;
  Arch arch;
  size_t frames;  // how many of the expected ones can be reached with the objects that are there
  StackEnd end;
  StackOrigin origin = StackOrigin::kCfi;
};

void PrintTo(const OfflineCase& offline_case, std::ostream* out) { *out << offline_case.name; }

class OfflineCases : public testing::TestWithParam<OfflineCase> {};

INSTANTIATE_TEST_SUITE_P(
    Libunwindstack, OfflineCases,
    testing::Values(
        // Its libc says that nobody calls __libc_init.
        OfflineCase{"bad_eh_frame_hdr_arm64", Arch::kArm64, 5, StackEnd::kComplete},
        OfflineCase{"debug_frame_first_x86", Arch::kX86, 5, StackEnd::kNoUnwindTable},
        OfflineCase{"eh_frame_hdr_begin_x86_64", Arch::kX86_64, 5, StackEnd::kNoUnwindTable},
        OfflineCase{"empty_arm64", Arch::kArm64, 7, StackEnd::kComplete},
        // The program's file is missing; its frame pointers lead back to libc, whose CFI goes on.
        OfflineCase{"load_bias_ro_rx_x86_64", Arch::kX86_64, 17, StackEnd::kComplete,
                    StackOrigin::kMixed},
        OfflineCase{"shared_lib_in_apk_single_map_arm64", Arch::kArm64, 2,
                    StackEnd::kNoUnwindTable},
        OfflineCase{"straddle_arm64", Arch::kArm64, 6, StackEnd::kUserStackCut}));

TEST_P(OfflineCases, GivesTheExpectedFrames) {
  const std::string directory =
      TestDataPath(std::string("libunwindstack-offline/") + GetParam().name);
  if (directory.empty()) GTEST_SKIP() << TestDataMissing(GetParam().name);
  const Arch arch = GetParam().arch;
  FakeProcess process;
  MapObjects(directory, &process);
  const RegisterSet registers = ReadRegisters(arch, directory + "/regs.txt");
  const std::string stack_file = ReadTestFile(directory + "/stack.data");
  ByteCursor stack(AsBytes(stack_file), std::endian::little);
  const VirtAddr stack_start{stack.U64()};

  StackWalker walker(arch);
  std::vector<WalkedFrame> walked;
  const WalkResult result =
      walker.Walk({.registers = registers, .stack = stack.Rest(), .stack_start = stack_start},
                  process, &walked);
  const uint64_t adjustment = arch == Arch::kArm64 ? 4 : 1;
  std::vector<std::string> frames;
  for (const WalkedFrame& frame : walked) {
    const VirtAddr shown = frame.is_return_address ? frame.pc - adjustment : frame.pc;
    const FakeProcess::Mapping* mapping = process.FindMapping(shown);
    ASSERT_NE(mapping, nullptr);
    if (mapping->object == nullptr) {
      frames.push_back("no object");
      continue;
    }
    // A stub of a file has no segments; the reference then shows the offset in the mapping.
    const FileVaddr place{shown.value - mapping->start.value + mapping->offset.value};
    frames.push_back(
        StrFormat("{:x} {}", process.ToVaddr(shown).value_or(place).value, mapping->object->name));
  }
  std::vector<std::string> expected = ExpectedFrames(directory + "/output.txt");
  expected.resize(GetParam().frames);
  for (size_t i = 0; i < std::min(frames.size(), expected.size()); ++i) {
    if (frames[i] == "no object") expected[i] = frames[i];  // its file is not part of the case
  }
  EXPECT_EQ(frames, expected);
  EXPECT_EQ(StackEndName(result.end), StackEndName(GetParam().end));
  EXPECT_EQ(StackOriginName(result.origin), StackOriginName(GetParam().origin));
}

}  // namespace
}  // namespace ptarmigan
