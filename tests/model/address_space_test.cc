#include "model/address_space.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace ptarmigan {
namespace {

MmapEvent Mmap(int32_t pid, uint64_t start, uint64_t length, uint64_t offset, std::string path) {
  MmapEvent event;
  event.cpumode = pid == -1 ? CpuMode::kKernel : CpuMode::kUser;
  event.pid = pid;
  event.tid = pid;
  event.start = {start};
  event.length_bytes = length;
  event.file_offset = {offset};
  event.path = std::move(path);
  return event;
}

TaskEvent Fork(int32_t pid, int32_t parent, uint64_t time_ns) {
  return {.identity = {},
          .pid = pid,
          .parent_pid = parent,
          .tid = pid,
          .parent_tid = parent,
          .time_ns = time_ns};
}

TEST(AddressSpace, ConvertsAddressesThroughTheMappingThatCoversThem) {
  ProcessTable table;
  table.Apply(Mmap(1, 0x7000, 0x2000, 0x1000, "/lib/a.so"));
  const CodeMapping* mapping = table.Lookup(table.Find(1), {0x8010}, CpuMode::kUser);
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(mapping->ToFileOffset({0x8010}).value, 0x2010U);
  EXPECT_EQ(table.Lookup(table.Find(1), {0x9000}, CpuMode::kUser), nullptr);
}

TEST(AddressSpace, CutsWhatANewMappingOverlaps) {
  AddressSpace space;
  CodeObject a;
  CodeObject b;
  ASSERT_TRUE(space.Map({{0x1000}, {0x5000}, {0}, &a}));
  ASSERT_TRUE(space.Map({{0x2000}, {0x3000}, {0x100}, &b}));
  ASSERT_EQ(space.mappings().size(), 3U);
  EXPECT_EQ(space.Find({0x1fff})->object, &a);
  EXPECT_EQ(space.Find({0x2000})->object, &b);
  EXPECT_EQ(space.Find({0x3000})->ToFileOffset({0x3000}).value, 0x2000U);
}

TEST(AddressSpace, IgnoresEmptyAndWrappingRanges) {
  AddressSpace space;
  EXPECT_FALSE(space.Map({{0x1000}, {0x1000}, {0}, nullptr}));
  EXPECT_FALSE(space.Map({{0x1000}, {0x10}, {0}, nullptr}));
}

TEST(AddressSpace, ForkSharesUntilOneSideChanges) {
  AddressSpace parent;
  CodeObject object;
  parent.Map({{0x1000}, {0x2000}, {0}, &object});
  AddressSpace child = parent.Fork();
  EXPECT_EQ(child.generation(), parent.generation());
  child.Map({{0x5000}, {0x6000}, {0}, &object});
  EXPECT_NE(child.generation(), parent.generation());
  EXPECT_EQ(parent.Find({0x5000}), nullptr);
  EXPECT_NE(child.Find({0x1000}), nullptr);
}

TEST(ProcessTable, ForgetsMappingsOnExec) {
  ProcessTable table;
  table.Apply(Mmap(5, 0x1000, 0x1000, 0, "/bin/old"));
  table.Apply(CommEvent{.identity = {}, .pid = 5, .tid = 5, .comm = "new", .is_exec = true});
  EXPECT_EQ(table.Lookup(table.Find(5), {0x1000}, CpuMode::kUser), nullptr);
  EXPECT_EQ(table.Find(5).comm, "new");
}

TEST(ProcessTable, TellsApartTwoLivesOfOnePid) {
  ProcessTable table;
  table.ApplyFork(Fork(7, 1, 100));
  const uint64_t first_life = table.Find(7).life;
  table.Apply(Mmap(7, 0x1000, 0x1000, 0, "/bin/first"));
  table.ApplyExit(Fork(7, 1, 200));
  // A late sample of the exited process still finds its mappings.
  EXPECT_NE(table.Lookup(table.Find(7), {0x1000}, CpuMode::kUser), nullptr);
  table.ApplyFork(Fork(7, 1, 300));
  EXPECT_NE(table.Find(7).life, first_life);
  EXPECT_EQ(table.Find(7).start_time_ns, 300U);
  EXPECT_EQ(table.Lookup(table.Find(7), {0x1000}, CpuMode::kUser), nullptr);
}

TEST(ProcessTable, ForgetsTheOldestExitedProcessesAtItsBound) {
  ProcessTable table;
  const auto count = static_cast<int32_t>(ProcessTable::kExitedMax) + 1;
  for (int32_t pid = 1; pid <= count; ++pid) {
    table.ApplyFork(Fork(pid, 0, 10));
    table.Apply(Mmap(pid, 0x1000, 0x1000, 0, "/bin/x"));
    table.ApplyExit(Fork(pid, 0, 20));
  }
  EXPECT_EQ(table.Lookup(table.Find(1), {0x1000}, CpuMode::kUser), nullptr);
  EXPECT_NE(table.Lookup(table.Find(2), {0x1000}, CpuMode::kUser), nullptr);
}

TEST(ProcessTable, NeverSendsUserAddressesToTheKernelMap) {
  ProcessTable table;
  table.Apply(
      Mmap(-1, 0xffffffff81000000, 0x1000000, 0xffffffff81000000, "[kernel.kallsyms]_text"));
  EXPECT_EQ(table.Lookup(table.Find(1), {0xffffffff81000010}, CpuMode::kUser), nullptr);
  const CodeMapping* mapping = table.Lookup(table.Find(1), {0xffffffff81000010}, CpuMode::kKernel);
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(mapping->object->kind, CodeObject::Kind::kKernel);
  EXPECT_EQ(mapping->ToFileOffset({0xffffffff81000010}).value, 0xffffffff81000010U);
}

TEST(ProcessTable, KeepsModulesInsideAKernelMapThatCoversEverything) {
  ProcessTable table;
  table.Apply(Mmap(-1, 0xffffffffc0000000, 0x4000, 0, "/lib/modules/x/nf.ko"));
  table.Apply(
      Mmap(-1, 0xffffffff81000000, 0x7effffff, 0xffffffff81000000, "[kernel.kallsyms]_text"));
  EXPECT_EQ(table.Lookup(table.Find(1), {0xffffffffc0000100}, CpuMode::kKernel)->object->path,
            "/lib/modules/x/nf.ko");
}

TEST(ProcessTable, AddsAndRemovesBpfPrograms) {
  ProcessTable table;
  KsymbolEvent symbol;
  symbol.start = {0xffffffffc0010000};
  symbol.length_bytes = 0x100;
  symbol.type = 1;
  symbol.name = "bpf_prog_abc_f";
  table.Apply(symbol);
  ASSERT_NE(table.Lookup(table.Find(1), {0xffffffffc0010010}, CpuMode::kKernel), nullptr);
  symbol.unregister = true;
  table.Apply(symbol);
  EXPECT_EQ(table.Lookup(table.Find(1), {0xffffffffc0010010}, CpuMode::kKernel), nullptr);
}

TEST(ObjectTable, SharesOneObjectBetweenProcesses) {
  ObjectTable objects;
  const CodeObject* a = objects.Intern(Mmap(1, 0x1000, 0x1000, 0, "/lib/a.so"));
  EXPECT_EQ(objects.Intern(Mmap(2, 0x9000, 0x1000, 0, "/lib/a.so")), a);
  const CodeObject* anonymous = objects.Intern(Mmap(1, 0x1000, 0x1000, 0, "//anon"));
  EXPECT_NE(objects.Intern(Mmap(2, 0x1000, 0x1000, 0, "//anon")), anonymous)
      << "JIT code belongs to a process";
}

TEST(ObjectTable, TellsApartAReplacedFile) {
  ObjectTable objects;
  MmapEvent event = Mmap(1, 0x1000, 0x1000, 0, "/bin/x");
  event.inode = 5;
  const CodeObject* before = objects.Intern(event);
  event.inode = 6;
  EXPECT_NE(objects.Intern(event), before);
}

TEST(ObjectTable, FindsTheSameObjectsInWhateverOrderFilesAreMapped) {
  // More files than are remembered as mapped lately; each in two versions, by build id and by inode.
  ObjectTable objects;
  std::map<std::tuple<int, int, int>, const CodeObject*> expected;
  for (int turn = 0; turn < 3; ++turn) {
    for (int file = 0; file < 200; ++file) {
      for (const int version : {0, 1, 0}) {
        for (const int with_id : {0, 1}) {
          MmapEvent event = Mmap(turn + 1, 0x1000, 0x1000, 0, "/lib/" + std::to_string(file));
          event.inode = static_cast<uint64_t>(version);
          const auto byte = static_cast<std::byte>(version + 1);
          if (with_id != 0) event.build_id = BuildId({&byte, 1});
          const CodeObject* object = objects.Intern(event);
          const auto [at, is_new] = expected.emplace(std::tuple(file, version, with_id), object);
          ASSERT_EQ(at->second, object);
        }
      }
    }
  }
  EXPECT_EQ(objects.objects().size(), expected.size());
}

TEST(ObjectTable, AFileMappedBeforeItsBuildIdBecameKnownIsAnotherObject) {
  ObjectTable objects;
  const MmapEvent event = Mmap(1, 0x1000, 0x1000, 0, "/lib/a.so");
  const CodeObject* before = objects.Intern(event);
  const std::byte byte{1};
  objects.RememberBuildId("/lib/a.so", BuildId({&byte, 1}));
  const CodeObject* after = objects.Intern(event);
  EXPECT_NE(after, before);
  EXPECT_EQ(objects.Intern(event), after);
  EXPECT_FALSE(after->build_id.empty());
}

MmapEvent MmapAt(uint64_t time_ns, uint64_t start, std::string path) {
  MmapEvent event = Mmap(1, start, 0x1000, 0, std::move(path));
  event.identity.time_ns = time_ns;
  return event;
}

TEST(ProcessTableHistory, AnswersForAMomentBeforeAMappingWasReplaced) {
  ProcessTable table;
  table.KeepHistory();
  table.Apply(MmapAt(10, 0x1000, "/old.so"));
  table.Apply(MmapAt(20, 0x1000, "/new.so"));
  const auto path_at = [&](uint64_t time_ns) {
    return table
        .LookupAt(table.FindTaskAt(1, 1, time_ns).process, {0x1800}, CpuMode::kUser, time_ns)
        ->object->path;
  };
  EXPECT_EQ(path_at(15), "/old.so");
  EXPECT_EQ(path_at(20), "/new.so");
  EXPECT_EQ(path_at(UINT64_MAX), "/new.so");
}

TEST(ProcessTableHistory, TakesTheNextMappingForCodeThatRanBeforeItsRecord) {
  ProcessTable table;
  table.KeepHistory();
  table.Apply(MmapAt(10, 0x1000, "/a.so"));
  EXPECT_NE(table.LookupAt(table.Find(1), {0x1800}, CpuMode::kUser, 5), nullptr);
}

TEST(ProcessTableHistory, RemembersNoMoreMappingsThanItsBound) {
  ProcessTable table;
  table.KeepHistory();
  for (uint64_t i = 0; i <= AddressSpace::kPastMax + 1; ++i) {
    table.Apply(MmapAt(10 + i, 0x1000, "/" + std::to_string(i)));
  }
  const auto path_at = [&](uint64_t time_ns) {
    return table.LookupAt(table.Find(1), {0x1800}, CpuMode::kUser, time_ns)->object->path;
  };
  EXPECT_EQ(path_at(11), "/1");
  EXPECT_EQ(path_at(10), "/" + std::to_string(AddressSpace::kPastMax + 1)) << "the oldest is gone";
}

TEST(ProcessTableHistory, TellsTheLivesOfAPidApart) {
  ProcessTable table;
  table.KeepHistory();
  table.Apply(CommEvent{.identity = {}, .pid = 1, .tid = 1, .comm = "sh", .is_exec = false});
  table.Apply(MmapAt(10, 0x1000, "/shell"));
  CommEvent exec{.identity = {}, .pid = 1, .tid = 1, .comm = "tool", .is_exec = true};
  exec.identity.time_ns = 20;
  table.Apply(exec);
  table.Apply(MmapAt(21, 0x1000, "/tool"));
  EXPECT_EQ(table.FindTaskAt(1, 1, 12).thread.comm, "sh");
  EXPECT_EQ(table.FindTaskAt(1, 1, 25).thread.comm, "tool");
  const auto path_at = [&](uint64_t time_ns) {
    const auto [process, thread] = table.FindTaskAt(1, 1, time_ns);
    return table.LookupAt(process, {0x1800}, CpuMode::kUser, time_ns)->object->path;
  };
  EXPECT_EQ(path_at(12), "/shell");
  EXPECT_EQ(path_at(25), "/tool");
}

TEST(ProcessTableHistory, ForgetsTheOldestLifeOfAPidAtTheBound) {
  ProcessTable table;
  table.KeepHistory();
  for (uint64_t i = 0; i <= ProcessTable::kPastLivesMax + 1; ++i) {
    CommEvent exec{.identity = {}, .pid = 1, .tid = 1, .comm = "tool", .is_exec = true};
    exec.identity.time_ns = 10 + i;
    table.Apply(exec);
  }
  EXPECT_EQ(table.FindTaskAt(1, 1, 12).process.since_ns, 12U);
  EXPECT_EQ(table.FindTaskAt(1, 1, 10).process.since_ns, 10 + ProcessTable::kPastLivesMax + 1);
}

}  // namespace
}  // namespace ptarmigan
