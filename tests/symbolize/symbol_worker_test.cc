#include "symbolize/symbol_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "elf/elf_file.h"
#include "symbolize/internal/sandbox.h"
#include "symbolize/symbol_table.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

Fd MemoryFile(std::string_view content) {
  Fd fd(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_TRUE(fd.valid());
  EXPECT_TRUE(WriteAll(fd.get(), AsBytes(content), "test").has_value());
  return fd;
}

// This test program itself: an object with symbols and, as tests are built, DWARF.
SymbolWorkerJob OwnJob(const Fd& own) {
  SymbolWorkerJob job;
  job.object_fd = own.get();
  job.object_name = "self";
  job.identity = "id 1";
  return job;
}

Fd OpenSelf() { return OpenFile("/proc/self/exe", O_RDONLY).value(); }

std::unique_ptr<SymbolTable> TableIn(const Fd& output) {
  auto table = SymbolTable::FromFd(output.get(), "output");
  EXPECT_TRUE(table.has_value()) << table.error().message;
  return table.has_value() ? std::move(table).value() : nullptr;
}

bool HasNote(const SymbolTable& table, std::string_view text) {
  return std::any_of(table.notes().begin(), table.notes().end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

TEST(SymbolWorker, BuildsTheSameTableAsInThisProcess) {
  const Fd own = OpenSelf();
  const Fd output = MemoryFile("");
  SymbolWorkerFailure failure = SymbolWorkerFailure::kCrashed;
  const Status built = BuildSymbolTable(OwnJob(own), output.get(), &failure);
  ASSERT_TRUE(built.has_value()) << built.error().message;
  EXPECT_EQ(failure, SymbolWorkerFailure::kNone);
  const auto here = BuildSymbolTableHere(OwnJob(own));
  ASSERT_TRUE(here.has_value());
  EXPECT_EQ(ReadFile(StrFormat("/proc/self/fd/{}", output.get()), uint64_t{1} << 30).value(),
            *here);
  const auto table = TableIn(output);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->identity(), "id 1");
  EXPECT_TRUE(table->has_functions());
}

TEST(SymbolWorker, KeepsDescriptorsApartWhateverTheirNumbers) {
  const Fd own = OpenSelf();
  // Put the files where the child wants others to be.
  const Fd output = MemoryFile("");
  const Fd alt = MemoryFile("not an object");
  SymbolWorkerJob job = OwnJob(own);
  job.debug_fd = own.get();
  job.debug_name = "self again";
  job.alt_fd = alt.get();
  job.alt_name = "alt";
  ASSERT_TRUE(BuildSymbolTable(job, output.get()).has_value());
  const auto table = TableIn(output);
  ASSERT_NE(table, nullptr);
  EXPECT_TRUE(HasNote(*table, "alt: not an ELF file")) << "a bad file among good ones is noted";
}

TEST(SymbolWorker, RefusesWhatIsNoObject) {
  const Fd text = MemoryFile("#!/bin/sh\n");
  const Fd output = MemoryFile("");
  SymbolWorkerJob job;
  job.object_fd = text.get();
  job.object_name = "script";
  SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;
  const Status built = BuildSymbolTable(job, output.get(), &failure);
  ASSERT_FALSE(built.has_value());
  EXPECT_EQ(failure, SymbolWorkerFailure::kRefused);
  EXPECT_EQ(built.error().message, "script: not an ELF file");
}

TEST(SymbolWorker, RefusesAJobWithoutFiles) {
  const Fd output = MemoryFile("");
  SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;
  EXPECT_FALSE(BuildSymbolTable({}, output.get(), &failure).has_value());
  EXPECT_EQ(failure, SymbolWorkerFailure::kRefused);
}

TEST(SymbolWorker, StopsAtTheTimeLimit) {
  const Fd own = OpenSelf();
  const Fd output = MemoryFile("");
  SymbolWorkerJob job = OwnJob(own);
  job.timeout = std::chrono::milliseconds(1);
  SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;
  const auto start = std::chrono::steady_clock::now();
  const Status built = BuildSymbolTable(job, output.get(), &failure);
  ASSERT_FALSE(built.has_value());
  EXPECT_EQ(failure, SymbolWorkerFailure::kTimedOut);
  EXPECT_EQ(built.error().code, ErrorCode::kResourceLimit);
  EXPECT_NE(built.error().message.find("self"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(SymbolWorker, StopsAtTheTableBound) {
  const Fd own = OpenSelf();
  const Fd output = MemoryFile("");
  SymbolWorkerJob job = OwnJob(own);
  job.table_bytes_max = 1000;
  SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;
  const Status built = BuildSymbolTable(job, output.get(), &failure);
  ASSERT_FALSE(built.has_value());
  EXPECT_EQ(failure, SymbolWorkerFailure::kTooLarge) << built.error().message;
  EXPECT_LE(IdentifyFile(output.get()).value().size_bytes, 1000U);
}

// An object of half a million lines of DWARF and one symbol; empty if there is no compiler.
std::string MakeLargeDwarf() {
  if (!HaveProgram("gcc") || !HaveProgram("awk")) return {};
  const std::string directory = TestTemporaryDirectory();
  const CommandResult made = RunCommand(
      StrFormat("cd '{}' && {{ echo '.text'; echo '.globl f'; echo '.type f,@function'; echo 'f:'; "
                "echo '.file 1 \"large.s\"'; awk 'BEGIN {{ for (i = 1; i < 500000; ++i) print "
                "\".loc 1 \" i \"\\nnop\" }}'; echo '.size f,.-f'; }} > large.s && gcc -c large.s "
                "-o large.o",
                directory),
      100);
  EXPECT_EQ(made.exit_code, 0) << made.err;
  return JoinPath(directory, "large.o");
}

TEST(SymbolWorker, FallsBackToSymbolsWhereDwarfNeedsTooMuchMemory) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need more address space than a bound would leave";
  const std::string object = MakeLargeDwarf();
  if (object.empty()) GTEST_SKIP() << "gcc or awk is not installed";
  const Fd input = OpenFile(object, O_RDONLY).value();
  SymbolWorkerJob job;
  job.object_fd = input.get();
  job.object_name = "large.o";
  // The least memory that the symbols alone need.
  constexpr uint64_t kStepBytes = uint64_t{16} << 20;
  job.dwarf = false;
  for (job.memory_bytes_max = kStepBytes;; job.memory_bytes_max += kStepBytes) {
    ASSERT_LT(job.memory_bytes_max, uint64_t{1} << 30);
    const Fd output = MemoryFile("");
    if (BuildSymbolTable(job, output.get()).has_value()) break;
  }
  job.dwarf = true;
  const Fd output = MemoryFile("");
  SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;
  const Status built = BuildSymbolTable(job, output.get(), &failure);
  ASSERT_TRUE(built.has_value()) << built.error().message;
  EXPECT_EQ(failure, SymbolWorkerFailure::kTooLarge);
  const auto table = TableIn(output);
  ASSERT_NE(table, nullptr);
  EXPECT_FALSE(table->has_lines());
  EXPECT_TRUE(table->has_functions());
  EXPECT_TRUE(HasNote(*table, "DWARF left out: symbols of large.o"));
}

// The only child of a thread of this process; nothing if there is none or the kernel does not tell.
std::optional<pid_t> ChildOf(pid_t tid) {
  const auto text = ReadFile(StrFormat("/proc/self/task/{}/children", tid));
  if (!text.has_value() || text->empty()) return std::nullopt;
  return static_cast<pid_t>(std::stol(*text));
}

TEST(SymbolWorker, TellsACrashAndFallsBackToSymbols) {
  if (!PathExists(StrFormat("/proc/self/task/{}/children", ::getpid()))) {
    GTEST_SKIP() << "the kernel does not list the children of a thread";
  }
  const std::string object = MakeLargeDwarf();
  if (object.empty()) GTEST_SKIP() << "gcc or awk is not installed";
  const Fd input = OpenFile(object, O_RDONLY).value();
  SymbolWorkerJob job;
  job.object_fd = input.get();
  job.object_name = "large.o";
  const Fd output = MemoryFile("");
  SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;
  std::atomic<pid_t> builder_tid = 0;
  bool built = false;
  std::thread builder([&] {
    builder_tid = static_cast<pid_t>(::syscall(SYS_gettid));
    built = BuildSymbolTable(job, output.get(), &failure).has_value();
  });
  // What a wild pointer in the reader would do.
  std::optional<pid_t> child;
  for (int i = 0; i < 5000 && !child.has_value(); ++i) {
    if (builder_tid != 0) child = ChildOf(builder_tid);
    if (!child.has_value()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (child.has_value()) ::kill(*child, SIGSEGV);
  builder.join();
  ASSERT_TRUE(child.has_value());
  EXPECT_TRUE(built);
  EXPECT_EQ(failure, SymbolWorkerFailure::kCrashed);
  const auto table = TableIn(output);
  ASSERT_NE(table, nullptr);
  EXPECT_FALSE(table->has_lines());
  EXPECT_TRUE(HasNote(*table, "the reader crashed with signal 11"));
}

TEST(SymbolWorker, BuildsFromManyThreadsAtOnce) {
  const Fd own = OpenSelf();
  std::vector<std::thread> threads;
  std::vector<Fd> outputs;
  std::atomic<int> built = 0;
  for (int i = 0; i < 4; ++i) outputs.push_back(MemoryFile(""));
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      SymbolWorkerJob job = OwnJob(own);
      job.dwarf = false;
      if (BuildSymbolTable(job, outputs[static_cast<size_t>(i)].get()).has_value()) ++built;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(built, 4);
}

// Runs `act` in a child of its own after `confine`; its wait status.
template <typename Confine, typename Act>
int InConfinedChild(const Confine& confine, const Act& act) {
  const pid_t child = ::fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    if (!confine().has_value()) ::_exit(99);
    act();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

Status Confine(bool may_open_files) {
  TRY(internal::LimitProcess({.memory_bytes_max = uint64_t{1} << 40,
                              .cpu_seconds_max = 20,
                              .file_bytes_max = 1 << 20,
                              .files_max = 64}));
  return internal::FilterSystemCalls(may_open_files);
}

TEST(Sandbox, AllowsWorkOnOpenDescriptorsAndMemory) {
  const Fd file = MemoryFile("abc");
  const int status = InConfinedChild([] { return Confine(false); },
                                     [&] {
                                       char byte = 0;
                                       if (::pread(file.get(), &byte, 1, 1) != 1) ::_exit(1);
                                       std::vector<char> memory(100 << 20, byte);
                                       if (memory.back() != 'b') ::_exit(2);
                                       if (::pwrite(file.get(), "x", 1, 0) != 1) ::_exit(3);
                                     });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Sandbox, RefusesToOpenFiles) {
  const int status = InConfinedChild([] { return Confine(false); },
                                     [] {
                                       if (::open("/etc/passwd", O_RDONLY) >= 0 || errno != EACCES)
                                         ::_exit(1);
                                     });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Sandbox, OpensFilesForReadingOnlyWhereAllowed) {
  const std::string path = JoinPath(TestTemporaryDirectory(), "file");
  ASSERT_EQ(RunCommand("touch '" + path + "'").exit_code, 0);
  const int status =
      InConfinedChild([] { return Confine(true); },
                      [&] {
                        if (::open(path.c_str(), O_RDONLY) < 0) ::_exit(1);
                        if (::open(path.c_str(), O_RDWR) >= 0) ::_exit(2);
                        if (::open((path + "2").c_str(), O_RDONLY | O_CREAT, 0600) >= 0) ::_exit(3);
                        if (::open(path.c_str(), O_WRONLY | O_TRUNC) >= 0) ::_exit(4);
                      });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Sandbox, KillsOnDangerousSystemCalls) {
  const auto expect_killed = [](const auto& act) {
    const int status = InConfinedChild([] { return Confine(true); }, act);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
  };
  expect_killed([] { ::syscall(SYS_socket, 2, 1, 0); });
  expect_killed([] { ::syscall(SYS_execve, "/bin/true", nullptr, nullptr); });
  expect_killed([] { ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); });
  expect_killed([] { ::syscall(SYS_ptrace, 0, 0, 0, 0); });
  expect_killed([] { ::syscall(SYS_unlinkat, -100, "/nothing", 0); });
  expect_killed([] { ::syscall(SYS_kill, ::getppid(), 0); });
}

TEST(Sandbox, RefusesNewCodePages) {
  const int status = InConfinedChild([] { return Confine(false); },
                                     [] {
                                       void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                                       if (page == MAP_FAILED) ::_exit(1);
                                       if (::mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0)
                                         ::_exit(2);
                                     });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Sandbox, DropsCapabilitiesAndNewPrivileges) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int status = InConfinedChild(
      [] {
        return internal::LimitProcess({.memory_bytes_max = uint64_t{1} << 40,
                                       .cpu_seconds_max = 20,
                                       .file_bytes_max = 1 << 20,
                                       .files_max = 64});
      },
      [&] {
        // Not dumpable, so that /proc/self is root's: read through a descriptor of our own making.
        const auto text = ReadFile("/proc/thread-self/status");
        if (!text.has_value()) ::_exit(1);
        (void)!::write(ends[1], text->data(), text->size());
      });
  ::close(ends[1]);
  EXPECT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const std::string text = ReadFd(ends[0], "pipe", 1 << 20).value();
  ::close(ends[0]);
  for (const char* line :
       {"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
        "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace ptarmigan
