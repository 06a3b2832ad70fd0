#include "base/proc_fs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

// A /proc of our own making.
class FakeProc {
 public:
  FakeProc() : root_(TestTemporaryDirectory()) {}

  void Write(const std::string& relative, std::string_view text) {
    const std::string path = JoinPath(root_, relative);
    ASSERT_TRUE(MakeDirectories(path.substr(0, path.rfind('/'))));
    const auto fd = OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ASSERT_TRUE(fd);
    ASSERT_TRUE(WriteAll(fd->get(), AsBytes(text), path));
  }
  ProcFs fs() const { return ProcFs(root_); }

 private:
  std::string root_;
};

TEST(ProcFs, ListsOnlyNumericNames) {
  FakeProc fake;
  fake.Write("12/comm", "a\n");
  fake.Write("7/comm", "b\n");
  fake.Write("self/comm", "c\n");
  fake.Write("12abc/comm", "d\n");
  auto pids = fake.fs().Pids();
  ASSERT_TRUE(pids);
  std::sort(pids->begin(), pids->end());
  EXPECT_EQ(*pids, (std::vector<int32_t>{7, 12}));
}

TEST(ProcFs, ReadsThreadsAndTheirNames) {
  FakeProc fake;
  fake.Write("12/task/12/comm", "main thread\n");
  fake.Write("12/task/13/comm", "worker");
  EXPECT_EQ(fake.fs().Tids(12)->size(), 2U);
  EXPECT_EQ(*fake.fs().Comm(12, 12), "main thread");
  EXPECT_EQ(*fake.fs().Comm(12, 13), "worker");
  EXPECT_EQ(fake.fs().Comm(12, 14).error().code, ErrorCode::kNotFound);
}

TEST(ProcFs, KeepsTheGoodLinesOfMaps) {
  FakeProc fake;
  fake.Write("12/maps",
             "55d000-55e000 r-xp 00001000 fd:01 1234                       /usr/bin/a b\n"
             "this line is damaged\n"
             "7f00-8000 rw-p 00000000 00:00 0 \n");
  const auto maps = fake.fs().Maps(12);
  ASSERT_TRUE(maps);
  ASSERT_EQ(maps->size(), 2U);
  EXPECT_EQ((*maps)[0].path, "/usr/bin/a b");
  EXPECT_EQ((*maps)[1].path, "");
}

TEST(ProcFs, ReadsStatusFields) {
  FakeProc fake;
  fake.Write("12/status",
             "Name:\tx\nPPid:\t3\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t12\t5\t1\nThreads:\t2\n");
  const auto status = fake.fs().Status(12);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->parent_pid, 3);
  EXPECT_EQ(status->effective_uid, 1001U);
  EXPECT_EQ(status->namespace_pid, 1);
}

TEST(ProcFs, TakesThePidItselfWhereTheKernelHasNoNamespaces) {
  FakeProc fake;
  fake.Write("12/status", "Name:\tx\nPPid:\t3\n");
  EXPECT_EQ(fake.fs().Status(12)->namespace_pid, 12);
}

TEST(ProcFs, FindsTheStartTimeBehindAnUglyName) {
  FakeProc fake;
  fake.Write("12/task/12/stat",
             "12 (a) b (c)) S 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 424242 22 23\n");
  const auto ticks = fake.fs().StartTimeTicks(12, 12);
  ASSERT_TRUE(ticks) << ticks.error().message;
  EXPECT_EQ(*ticks, 424242U);
}

TEST(ProcFs, RefusesAStatLineThatIsTooShort) {
  FakeProc fake;
  fake.Write("12/task/12/stat", "12 (a) S 3 4 5\n");
  fake.Write("13/task/13/stat", "");
  EXPECT_EQ(fake.fs().StartTimeTicks(12, 12).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(fake.fs().StartTimeTicks(13, 13).error().code, ErrorCode::kInvalidInput);
}

TEST(ProcFs, ReadsIntegers) {
  FakeProc fake;
  fake.Write("sys/kernel/perf_event_paranoid", "-1\n");
  fake.Write("sys/kernel/word", "none\n");
  EXPECT_EQ(*fake.fs().Integer("sys/kernel/perf_event_paranoid"), -1);
  EXPECT_EQ(fake.fs().Integer("sys/kernel/word").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(fake.fs().Integer("sys/kernel/none").error().code, ErrorCode::kNotFound);
}

TEST(ProcFs, DescribesThisVeryProcess) {
  const ProcFs proc;
  const auto pid = static_cast<int32_t>(::getpid());
  const auto maps = proc.Maps(pid);
  ASSERT_TRUE(maps);
  const auto here = reinterpret_cast<uint64_t>(&ParseProcMapLine);
  const auto code = std::find_if(maps->begin(), maps->end(), [here](const ProcMap& map) {
    return map.start <= here && here < map.end;
  });
  ASSERT_NE(code, maps->end());
  EXPECT_TRUE(code->executable);
  EXPECT_NE(code->path.find("base_test"), std::string::npos);

  EXPECT_EQ(proc.Status(pid)->parent_pid, ::getppid());
  EXPECT_EQ(proc.Status(pid)->effective_uid, ::geteuid());
  EXPECT_GT(*proc.StartTimeTicks(pid, pid), 0U);
  const auto pids = proc.Pids();
  EXPECT_NE(std::find(pids->begin(), pids->end(), pid), pids->end());
}

TEST(ParseProcMapLine, ReadsEveryField) {
  const auto map = ParseProcMapLine(
      "7f1234560000-7f1234570000 r-xp 0002a000 fd:01 98765          /usr/lib/libx.so.1 (deleted)");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->start, 0x7f1234560000U);
  EXPECT_EQ(map->end, 0x7f1234570000U);
  EXPECT_EQ(map->file_offset, 0x2a000U);
  EXPECT_TRUE(map->readable);
  EXPECT_FALSE(map->writable);
  EXPECT_TRUE(map->executable);
  EXPECT_EQ(map->device_major, 0xfdU);
  EXPECT_EQ(map->device_minor, 1U);
  EXPECT_EQ(map->inode, 98765U);
  EXPECT_EQ(map->path, "/usr/lib/libx.so.1");
  EXPECT_TRUE(map->deleted);
}

TEST(ParseProcMapLine, AcceptsTheTopOfTheAddressSpace) {
  const auto map =
      ParseProcMapLine("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->end, 0xffffffffff601000U);
  EXPECT_EQ(map->path, "[vsyscall]");
}

TEST(ParseProcMapLine, RefusesWhatIsNotAMapLine) {
  for (const char* line : {"", "-", "10-20", "20-10 r-xp 0 0:0 0", "10-10 r-xp 0 0:0 0",
                           "10-20 r-x", "10-20 r-xp", "10-20 r-xp 0 0 0", "10-20 r-xp zz 0:0 0",
                           "11112222333344445-20 r-xp 0 0:0 0 x", "10-20 r-xp 0 0:0 ", "xyz"}) {
    EXPECT_FALSE(ParseProcMapLine(line)) << line;
  }
}

}  // namespace
}  // namespace ptarmigan
