#include "symbolize/jit_maps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "tests/support/byte_writer.h"
#include "tests/support/jit_dump_writer.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

std::string NameAt(const PerfMap& map, uint64_t address) {
  PerfMap::Symbol symbol;
  return map.Find({address}, &symbol) ? std::string(symbol.name) : "-";
}

std::string NameAt(const JitDump& dump, uint64_t address, uint64_t time_ns = JitDump::kLatest) {
  JitDump::Symbol symbol;
  return dump.Find({address}, time_ns, &symbol) ? std::string(symbol.name) : "-";
}

void WriteFile(const std::string& path, std::string_view text) {
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write(text));
  ASSERT_TRUE(file->Commit());
}

TEST(PerfMap, NamesAddressesWithinAPiece) {
  const PerfMap map = PerfMap::Parse(
      "1000 20 JS:~fn file.js:1:2\r\n0x2000 0x10 other\n\n3000 8 last without newline");
  EXPECT_EQ(NameAt(map, 0xfff), "-");
  EXPECT_EQ(NameAt(map, 0x1000), "JS:~fn file.js:1:2");
  EXPECT_EQ(NameAt(map, 0x101f), "JS:~fn file.js:1:2");
  EXPECT_EQ(NameAt(map, 0x1020), "-");
  EXPECT_EQ(NameAt(map, 0x2008), "other");
  EXPECT_EQ(NameAt(map, 0x3007), "last without newline");
  EXPECT_EQ(map.lines(), 3U);
  EXPECT_EQ(map.malformed_lines(), 0U);
}

TEST(PerfMap, LetsTheLaterLineWinAndKeepsWhatItLeaves) {
  const PerfMap map = PerfMap::Parse("1000 100 old\n1040 20 new\n10f0 40 edge\n");
  EXPECT_EQ(NameAt(map, 0x103f), "old");
  EXPECT_EQ(NameAt(map, 0x1040), "new");
  EXPECT_EQ(NameAt(map, 0x105f), "new");
  EXPECT_EQ(NameAt(map, 0x1060), "old");
  EXPECT_EQ(NameAt(map, 0x10ef), "old");
  EXPECT_EQ(NameAt(map, 0x10f0), "edge");
  EXPECT_EQ(NameAt(map, 0x112f), "edge");
  PerfMap::Symbol symbol;
  ASSERT_TRUE(map.Find({0x1060}, &symbol));
  EXPECT_EQ(symbol.start.value, 0x1000U);
  EXPECT_EQ(symbol.size_bytes, 0x100U);
}

TEST(PerfMap, CountsMalformedLines) {
  const PerfMap map = PerfMap::Parse(
      "hello\n1000\n1000 10\n1000 10 \nxyz 10 f\n1000 0 empty\nffffffffffffffff 10 wraps\n2000 10 "
      "good\n");
  EXPECT_EQ(map.malformed_lines(), 7U);
  EXPECT_EQ(map.lines(), 1U);
  EXPECT_EQ(NameAt(map, 0x2000), "good");
}

TEST(PerfMap, CutsNamesAtTheirBound) {
  const std::string longest(PerfMap::kNameBytesMax, 'n');
  EXPECT_EQ(NameAt(PerfMap::Parse("1000 10 " + longest + "x\n"), 0x1000), longest);
}

TEST(PerfMap, EqualsTheObviousImplementationOnRandomMaps) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::string text;
    std::map<uint64_t, std::string> truth;  // by single address
    for (int line = 0; line < 60; ++line) {
      const uint64_t start = 0x1000 + random() % 200;
      const uint64_t size = 1 + random() % 60;
      text += StrFormat("{:x} {:x} f{}\n", start, size, line);
      for (uint64_t at = start; at < start + size; ++at) truth[at] = StrFormat("f{}", line);
    }
    const PerfMap map = PerfMap::Parse(text);
    for (uint64_t at = 0xff0; at < 0x1200; ++at) {
      const auto expected = truth.find(at);
      ASSERT_EQ(NameAt(map, at), expected == truth.end() ? "-" : expected->second);
    }
  }
}

// /proc as it would stand for one process with its own root.
class FakeProc {
 public:
  explicit FakeProc(int32_t pid, int32_t namespace_pid, uint32_t uid) : pid_(pid) {
    directory_ = TestTemporaryDirectory();
    process_ = StrFormat("{}/{}", directory_, pid);
    EXPECT_TRUE(MakeDirectories(process_ + "/root/tmp"));
    WriteFile(process_ + "/status",
              StrFormat("Name:\tx\nPPid:\t1\nUid:\t{0}\t{0}\t{0}\t{0}\nNSpid:\t{1}\t{2}\n", uid,
                        pid, namespace_pid));
    WriteFile(process_ + "/maps", "");
  }
  ProcFs proc() const { return ProcFs(directory_); }
  std::string root() const { return process_ + "/root"; }
  std::string process() const { return process_; }

 private:
  int32_t pid_;
  std::string directory_;
  std::string process_;
};

TEST(PerfMap, IsReadWhereTheProcessItselfSeesIt) {
  const FakeProc fake(4321, 7, ::geteuid());
  EXPECT_EQ(ReadPerfMapOf(fake.proc(), 4321).error().code, ErrorCode::kNotFound);
  WriteFile(fake.root() + "/tmp/perf-7.map", "1000 10 inner\n");
  WriteFile(fake.root() + "/tmp/perf-4321.map", "1000 10 outer\n");
  const auto map = ReadPerfMapOf(fake.proc(), 4321);
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(NameAt(*map, 0x1000), "inner");
}

TEST(PerfMap, DoesNotFollowLinksOutOfTheProcessesRoot) {
  const FakeProc fake(4321, 4321, ::geteuid());
  const std::string outside = TestTemporaryDirectory();
  WriteFile(outside + "/perf-4321.map", "1000 10 outside\n");
  ::rmdir((fake.root() + "/tmp").c_str());
  ASSERT_EQ(::symlink(outside.c_str(), (fake.root() + "/tmp").c_str()), 0);
  EXPECT_FALSE(ReadPerfMapOf(fake.proc(), 4321));
  // The same link, if it leads to a place inside the root, is fine.
  ::unlink((fake.root() + "/tmp").c_str());
  ASSERT_TRUE(MakeDirectories(fake.root() + "/var/tmp"));
  ASSERT_EQ(::symlink("/var/tmp", (fake.root() + "/tmp").c_str()), 0);
  WriteFile(fake.root() + "/var/tmp/perf-4321.map", "1000 10 inside\n");
  const auto map = ReadPerfMapOf(fake.proc(), 4321);
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(NameAt(*map, 0x1000), "inside");
}

TEST(PerfMap, IsRefusedIfAnotherUserOwnsIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make a file of another user";
  const FakeProc fake(4321, 4321, 1000);
  const std::string path = fake.root() + "/tmp/perf-4321.map";
  WriteFile(path, "1000 10 f\n");
  ASSERT_EQ(::chown(path.c_str(), 1001, 1001), 0);
  const auto refused = ReadPerfMapOf(fake.proc(), 4321);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermission);
  EXPECT_NE(refused.error().message.find("1001"), std::string::npos);
  ASSERT_EQ(::chown(path.c_str(), 1000, 1000), 0);
  EXPECT_TRUE(ReadPerfMapOf(fake.proc(), 4321));
  ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  EXPECT_TRUE(ReadPerfMapOf(fake.proc(), 4321));
}

TEST(PerfMap, IsRefusedIfItIsNoRegularFile) {
  const FakeProc fake(4321, 4321, ::geteuid());
  ASSERT_EQ(::mkfifo((fake.root() + "/tmp/perf-4321.map").c_str(), 0600), 0);
  const auto refused = ReadPerfMapOf(fake.proc(), 4321);  // and does not wait for a writer
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
}

TEST(PerfMap, IsRefusedAboveItsSizeBound) {
  const FakeProc fake(4321, 4321, ::geteuid());
  const std::string path = fake.root() + "/tmp/perf-4321.map";
  WriteFile(path, "1000 10 f\n");
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(PerfMap::kFileBytesMax) + 1), 0);
  const auto refused = ReadPerfMapOf(fake.proc(), 4321);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit);
}

class JitDumpOrder : public ::testing::TestWithParam<std::endian> {};
INSTANTIATE_TEST_SUITE_P(BothOrders, JitDumpOrder,
                         ::testing::Values(std::endian::little, std::endian::big));

TEST_P(JitDumpOrder, TellsCodeApartByTime) {
  JitDumpWriter writer(GetParam(), 77);
  writer.Load(100, 0x1000, 0x100, "first");
  writer.Load(200, 0x1080, 0x40, "second");
  writer.Move(300, 0x1080, 0x9000, 0x40);
  writer.Load(400, 0x1000, 0x100, "third");
  const auto dump = JitDump::Parse(AsBytes(writer.bytes()));
  ASSERT_TRUE(dump) << dump.error().message;
  EXPECT_EQ(dump->pid(), 77);
  EXPECT_EQ(dump->loads(), 3U);
  EXPECT_EQ(dump->damaged_records(), 0U);
  EXPECT_EQ(NameAt(*dump, 0x1010, 150), "first");
  EXPECT_EQ(NameAt(*dump, 0x1090, 150), "first");
  EXPECT_EQ(NameAt(*dump, 0x1090, 250), "second");
  EXPECT_EQ(NameAt(*dump, 0x10c0, 250), "first");
  EXPECT_EQ(NameAt(*dump, 0x1090, 350), "-");
  EXPECT_EQ(NameAt(*dump, 0x9010, 350), "second");
  EXPECT_EQ(NameAt(*dump, 0x1090, 400), "third");
  EXPECT_EQ(NameAt(*dump, 0x1090), "third");
  EXPECT_EQ(NameAt(*dump, 0x1010, 399), "first");
  // Clocks differ a little: the first code at an address also holds before its load.
  EXPECT_EQ(NameAt(*dump, 0x1010, 5), "first");
  EXPECT_EQ(NameAt(*dump, 0x1100, 150), "-");
  JitDump::Symbol symbol;
  ASSERT_TRUE(dump->Find({0x9010}, 500, &symbol));
  EXPECT_EQ(symbol.start.value, 0x9000U);
  EXPECT_EQ(symbol.size_bytes, 0x40U);
}

TEST_P(JitDumpOrder, GivesLines) {
  JitDumpWriter writer(GetParam(), 77);
  writer.Lines(90, 0x1000,
               {{0x1000, 10, 0, "a.js"}, {0x1010, 11, 2, "\xff"}, {0x1020, 5, 0, "b.js"}});
  writer.Load(100, 0x1000, 0x100, "f");
  writer.Load(110, 0x2000, 0x100, "without lines");
  writer.Move(120, 0x1000, 0x5000, 0x100);
  const auto dump = JitDump::Parse(AsBytes(writer.bytes()));
  ASSERT_TRUE(dump) << dump.error().message;
  JitDump::Symbol symbol;
  ASSERT_TRUE(dump->Find({0x100f}, 105, &symbol));
  EXPECT_EQ(symbol.line.file, "a.js");
  EXPECT_EQ(symbol.line.line, 10U);
  ASSERT_TRUE(dump->Find({0x5010}, 130, &symbol));
  EXPECT_EQ(symbol.line.file, "a.js");
  EXPECT_EQ(symbol.line.line, 11U);
  EXPECT_EQ(symbol.line.discriminator, 2U);
  ASSERT_TRUE(dump->Find({0x50ff}, 130, &symbol));
  EXPECT_EQ(symbol.line.file, "b.js");
  ASSERT_TRUE(dump->Find({0x2000}, 130, &symbol));
  EXPECT_EQ(symbol.line.line, 0U);
}

TEST(JitDump, TakesTheElfHeaderOutOfV8sLineAddresses) {
  JitDumpWriter writer(std::endian::little, 77);
  writer.Lines(90, 0x1000, {{0x1040, 10, 0, "a.js"}, {0x1050, 11, 0, "a.js"}});
  writer.Load(100, 0x1000, 0x100, "f");
  const auto dump = JitDump::Parse(AsBytes(writer.bytes()));
  ASSERT_TRUE(dump);
  JitDump::Symbol symbol;
  ASSERT_TRUE(dump->Find({0x1000}, 105, &symbol));
  EXPECT_EQ(symbol.line.line, 10U);
  ASSERT_TRUE(dump->Find({0x1010}, 105, &symbol));
  EXPECT_EQ(symbol.line.line, 11U);
}

TEST(JitDump, KeepsCodeOnRequest) {
  JitDumpWriter writer(std::endian::little, 77);
  writer.Load(100, 0x1000, 4, "f", "\x90\x90\x90\xc3");
  JitDump::Symbol symbol;
  const auto without = JitDump::Parse(AsBytes(writer.bytes()));
  ASSERT_TRUE(without->Find({0x1000}, 105, &symbol));
  EXPECT_TRUE(symbol.code.empty());
  const auto with = JitDump::Parse(AsBytes(writer.bytes()), true);
  ASSERT_TRUE(with->Find({0x1000}, 105, &symbol));
  EXPECT_EQ(AsText(symbol.code), "\x90\x90\x90\xc3");
}

TEST(JitDump, UsesWhatIsWholeAndCountsTheRest) {
  JitDumpWriter writer(std::endian::little, 77);
  writer.Load(100, 0x1000, 0x100, "f");
  writer.Unknown(110, 99);
  writer.Move(120, 0x7777000, 0x8000, 0x10);  // of code that was never loaded
  const std::string whole = writer.bytes();
  const auto dump = JitDump::Parse(AsBytes(whole));
  ASSERT_TRUE(dump);
  EXPECT_EQ(dump->unknown_records(), 1U);
  EXPECT_EQ(dump->damaged_records(), 1U);
  for (size_t cut = 40; cut < whole.size(); ++cut) {
    const auto part = JitDump::Parse(AsBytes(whole).first(cut));
    ASSERT_TRUE(part) << cut << ": " << part.error().message;
  }
  for (size_t cut = 0; cut < 40; ++cut)
    EXPECT_FALSE(JitDump::Parse(AsBytes(whole).first(cut))) << cut;
  EXPECT_EQ(JitDump::Parse(AsBytes(std::string("ELF, not a dump, and long enough to be one…")))
                .error()
                .code,
            ErrorCode::kInvalidInput);
  std::string version_2 = whole;
  version_2[4] = 2;
  EXPECT_EQ(JitDump::Parse(AsBytes(version_2)).error().code, ErrorCode::kUnsupported);
}

TEST(JitDump, StopsAtTheCloseRecord) {
  JitDumpWriter writer(std::endian::little, 77);
  writer.Load(100, 0x1000, 0x100, "f");
  writer.Close(110);
  writer.Load(120, 0x2000, 0x100, "after");
  const auto dump = JitDump::Parse(AsBytes(writer.bytes()));
  ASSERT_TRUE(dump);
  EXPECT_EQ(NameAt(*dump, 0x2000), "-");
}

TEST(JitDump, EqualsTheObviousImplementationOnRandomHistories) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    JitDumpWriter writer(std::endian::little, 1);
    constexpr uint64_t kTimes = 120;
    constexpr uint64_t kSpace = 160;
    // truth[time][address]; what is standing now is copied into each next step.
    std::vector<std::vector<std::string>> truth(kTimes + 1, std::vector<std::string>(kSpace, "-"));
    std::vector<std::string> first(kSpace, "-");
    std::vector<bool> ever(kSpace, false);
    std::vector<std::string> now(kSpace, "-");
    for (uint64_t time = 1; time <= kTimes; ++time) {
      if (time % 3 == 0) {
        const uint64_t start = random() % 100;
        const uint64_t size = 1 + random() % 50;
        const std::string name = StrFormat("f{}", time);
        writer.Load(time, 0x1000 + start, size, name);
        for (uint64_t at = start; at < start + size; ++at) {
          now[at] = name;
          if (!ever[at]) {
            for (uint64_t before = 0; before < time; ++before) truth[before][at] = name;
          }
          ever[at] = true;
        }
      }
      truth[time] = now;
    }
    const auto dump = JitDump::Parse(AsBytes(writer.bytes()));
    ASSERT_TRUE(dump);
    for (uint64_t time = 0; time <= kTimes; ++time) {
      for (uint64_t at = 0; at < kSpace; ++at) {
        ASSERT_EQ(NameAt(*dump, 0x1000 + at, time), truth[time][at]) << time << " " << at;
      }
    }
  }
}

TEST(JitDump, IsFoundThroughTheProcessesMappings) {
  const FakeProc fake(4321, 7, ::geteuid());
  EXPECT_EQ(ReadJitDumpOf(fake.proc(), 4321).error().code, ErrorCode::kNotFound);
  JitDumpWriter writer(std::endian::native, 7);
  writer.Load(100, 0x1000, 0x100, "f");
  ASSERT_TRUE(MakeDirectories(fake.root() + "/home/u"));
  WriteFile(fake.root() + "/home/u/jit-7.dump", writer.bytes());
  WriteFile(fake.process() + "/maps",
            "00400000-00401000 r-xp 00000000 08:01 12 /bin/x\n"
            "7f0000000000-7f0000001000 r-xp 00000000 08:01 13 /home/u/jit-7.dump\n");
  const auto dump = ReadJitDumpOf(fake.proc(), 4321);
  ASSERT_TRUE(dump) << dump.error().message;
  EXPECT_EQ(NameAt(*dump, 0x1000), "f");
}

TEST(JitDump, IsToldByTheNameOfItsFile) {
  int32_t pid = 0;
  EXPECT_TRUE(IsJitDumpPath("/tmp/jit-1234.dump", &pid));
  EXPECT_EQ(pid, 1234);
  EXPECT_TRUE(IsJitDumpPath("jit-1.dump", &pid));
  for (const std::string_view path :
       {"/tmp/jit-.dump", "/tmp/jit-12x.dump", "/tmp/xjit-12.dump", "/tmp/jit-12.dumps", ""}) {
    EXPECT_FALSE(IsJitDumpPath(path, &pid)) << path;
  }
}

}  // namespace
}  // namespace ptarmigan
