#include "symbolize/symbol_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "symbolize/dwarf_collector.h"
#include "symbolize/internal/sandbox.h"
#include "symbolize/internal/table_build.h"

namespace ptarmigan {
namespace {

// The hidden first argument; its version is that of the argument list below.
constexpr char kWorkerArgument[] = "--ptarmigan-symbol-worker=1";

// The child's descriptors.
constexpr int kObjectFd = 3;
constexpr int kDebugFd = 4;
constexpr int kAltFd = 5;
constexpr int kOutputFd = 6;
constexpr int kFdsEnd = 7;

// The child's exit codes; others mean that it did not get to its end.
constexpr int kExitRefused = 10;
constexpr int kExitTooLarge = 11;

constexpr size_t kReasonBytesMax = 4096;
constexpr uint64_t kFilesMax = 64;

// Whether main() called RunSymbolWorkerIfAsked: without it a child would run the program again instead.
std::atomic<bool> g_main_runs_workers = false;

// --- the argument list: one "name=value" each ---

std::vector<std::string> ToArguments(const SymbolWorkerJob& job) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(job.timeout).count();
  return {
      "ptarmigan-symbols",
      kWorkerArgument,
      StrFormat("has={}{}{}", job.object_fd >= 0 ? "o" : "", job.debug_fd >= 0 ? "d" : "",
                job.alt_fd >= 0 ? "a" : ""),
      StrFormat("object={}", job.object_name),
      StrFormat("debug={}", job.debug_name),
      StrFormat("alt={}", job.alt_name),
      StrFormat("dwarf={}", job.dwarf ? 1 : 0),
      StrFormat("demangle={}", job.demangle ? 1 : 0),
      StrFormat("identity={}", job.identity),
      StrFormat("note={}", job.note),
      StrFormat("seconds={}", seconds),
      StrFormat("memory={}", job.memory_bytes_max),
      StrFormat("table={}", job.table_bytes_max),
  };
}

uint64_t ToNumber(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

SymbolWorkerJob FromArguments(std::span<char*> arguments) {
  SymbolWorkerJob job;
  for (const std::string_view argument : arguments) {
    const size_t equals = std::min(argument.find('='), argument.size() - 1);
    const std::string_view name = argument.substr(0, equals);
    const std::string_view value = argument.substr(equals + 1);
    if (name == "has") {
      if (value.find('o') != std::string_view::npos) job.object_fd = kObjectFd;
      if (value.find('d') != std::string_view::npos) job.debug_fd = kDebugFd;
      if (value.find('a') != std::string_view::npos) job.alt_fd = kAltFd;
    }
    if (name == "object") job.object_name = value;
    if (name == "debug") job.debug_name = value;
    if (name == "alt") job.alt_name = value;
    if (name == "dwarf") job.dwarf = value == "1";
    if (name == "demangle") job.demangle = value == "1";
    if (name == "identity") job.identity = value;
    if (name == "note") job.note = value;
    if (name == "seconds") job.timeout = std::chrono::seconds(ToNumber(value));
    if (name == "memory") job.memory_bytes_max = ToNumber(value);
    if (name == "table") job.table_bytes_max = ToNumber(value);
  }
  return job;
}

// --- the child ---

Status RunWorker(const SymbolWorkerJob& job) {
  const auto cpu_seconds =
      static_cast<uint64_t>(std::chrono::ceil<std::chrono::seconds>(job.timeout).count()) + 1;
  TRY(internal::LimitProcess({.memory_bytes_max = job.memory_bytes_max,
                              .cpu_seconds_max = cpu_seconds,
                              .file_bytes_max = job.table_bytes_max,
                              .files_max = kFilesMax}));
  // Mapping and our own ELF reader come before the filter, because it depends on what they find.
  TRY_ASSIGN(const internal::TableInputs inputs, internal::OpenTableInputs(job));
  const bool is_split =
      job.dwarf && inputs.dwarf_file() != nullptr && HasSplitDwarf(*inputs.dwarf_file());
  TRY(internal::FilterSystemCalls(is_split));
  TRY_ASSIGN(const std::string table, internal::BuildTable(job, inputs));
  return WriteAllAt(kOutputFd, AsBytes(table), 0, "symbol table");
}

int Complain(std::string_view message, int exit_code) {
  // Nobody is there to hear of a failure to complain.
  (void)!::write(STDERR_FILENO, message.data(), message.size());
  return exit_code;
}

int WorkerMain(const SymbolWorkerJob& job) {
  try {
    const Status status = RunWorker(job);
    if (status.has_value()) return 0;
    return Complain(status.error().message, status.error().code == ErrorCode::kResourceLimit
                                                ? kExitTooLarge
                                                : kExitRefused);
  } catch (const std::bad_alloc&) {
    return Complain("its symbols need more memory than allowed", kExitTooLarge);
  } catch (const std::exception& exception) {
    return Complain(exception.what(), kExitRefused);
  }
}

// --- the parent ---

// Descriptors above the child's numbers, so that giving one its number overwrites none of the others.
Result<Fd> CopyAbove(int fd, const char* what) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, kFdsEnd));
  if (!copy.valid()) return ErrnoError(what, errno);
  return copy;
}

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class SpawnAttributes {
 public:
  // Own process group (a terminal's Ctrl-C is for us to handle), no blocked and no handled signals.
  SpawnAttributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// Nothing of our environment, except what the dynamic linker and sanitizers need to start the same program.
std::vector<std::string> ChildEnvironment() {
  std::vector<std::string> environment;
  for (const char* name : {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the program does not change its environment.
    if (const char* value = ::getenv(name)) environment.push_back(StrFormat("{}={}", name, value));
  }
  // The worker makes a few large things and ends: memory from huge pages, given back never, saves a third of its time.
  environment.emplace_back(
      "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:"
      "glibc.malloc.top_pad=8388608:glibc.malloc.trim_threshold=1073741824");
  // Leak checking at the end would need system calls that the filter refuses.
  environment.emplace_back("LSAN_OPTIONS=detect_leaks=0");
  return environment;
}

std::vector<char*> ToPointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Child {
  pid_t pid = -1;
  Fd reason;  // what it writes to stderr
};

Result<Child> StartChild(const SymbolWorkerJob& job, int output_fd) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  Child child;
  child.reason = Fd(ends[0]);
  const Fd write_end(ends[1]);
  TRY_ASSIGN(const Fd reason, CopyAbove(write_end.get(), "dup"));
  SpawnActions actions;
  std::vector<Fd> copies;
  constexpr std::pair<int, int SymbolWorkerJob::*> kInputs[] = {
      {kObjectFd, &SymbolWorkerJob::object_fd},
      {kDebugFd, &SymbolWorkerJob::debug_fd},
      {kAltFd, &SymbolWorkerJob::alt_fd},
  };
  for (const auto& [number, member] : kInputs) {
    if (job.*member < 0) continue;
    TRY_ASSIGN(Fd copy, CopyAbove(job.*member, "symbol worker: input"));
    ::posix_spawn_file_actions_adddup2(actions.get(), copy.get(), number);
    copies.push_back(std::move(copy));
  }
  TRY_ASSIGN(const Fd output, CopyAbove(output_fd, "symbol worker: output"));
  ::posix_spawn_file_actions_adddup2(actions.get(), output.get(), kOutputFd);
  ::posix_spawn_file_actions_adddup2(actions.get(), reason.get(), STDERR_FILENO);
  ::posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(actions.get(), kFdsEnd);

  std::vector<std::string> arguments = ToArguments(job);
  std::vector<std::string> environment = ChildEnvironment();
  const SpawnAttributes attributes;
  const int error = ::posix_spawn(&child.pid, "/proc/self/exe", actions.get(), attributes.get(),
                                  ToPointers(&arguments).data(), ToPointers(&environment).data());
  if (error != 0) return ErrnoError("start of the symbol worker", error);
  return child;
}

struct Ending {
  bool timed_out = false;
  std::optional<int> status;  // as waitpid gives it; nothing if somebody else took it
  std::string reason;
};

// Reads the reason until the child closes it by ending, at most until `deadline`; the child is gone afterwards.
Ending AwaitChild(const Child& child, std::chrono::steady_clock::time_point deadline) {
  Ending ending;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      ending.timed_out = true;
      ::kill(child.pid, SIGKILL);
      break;
    }
    pollfd end = {.fd = child.reason.get(), .events = POLLIN, .revents = 0};
    constexpr int64_t kWaitMsMax = 60 * 60 * 1000;
    const int ready =
        ::poll(&end, 1, static_cast<int>(std::min<int64_t>(left.count(), kWaitMsMax)));
    if (ready <= 0) continue;
    char buffer[4096];
    const ssize_t count = ::read(child.reason.get(), buffer, sizeof(buffer));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) break;
    if (count > 0 && ending.reason.size() < kReasonBytesMax) {
      ending.reason.append(
          buffer, std::min(static_cast<size_t>(count), kReasonBytesMax - ending.reason.size()));
    }
  }
  int status = 0;
  pid_t waited = 0;
  do {
    waited = ::waitpid(child.pid, &status, 0);
  } while (waited < 0 && errno == EINTR);
  if (waited == child.pid) ending.status = status;
  return ending;
}

// The last line of what the child said, without unprintable bytes.
std::string ReasonText(const std::string& reason) {
  std::string_view text = reason;
  while (text.ends_with('\n')) text.remove_suffix(1);
  text = text.substr(text.rfind('\n') + 1);
  std::string clean(text);
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return clean;
}

struct Verdict {
  SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;
  Error error;  // where there is a failure
};

Verdict Judge(const SymbolWorkerJob& job, const Ending& ending) {
  const std::string& name = job.object_name.empty() ? job.debug_name : job.object_name;
  const auto fail = [&](SymbolWorkerFailure failure, ErrorCode code, std::string_view what) {
    return Verdict{.failure = failure,
                   .error = {.code = code, .message = StrFormat("symbols of {}: {}", name, what)}};
  };
  if (ending.timed_out) {
    return fail(SymbolWorkerFailure::kTimedOut, ErrorCode::kResourceLimit,
                StrFormat("not ready after {} ms", job.timeout.count()));
  }
  if (!ending.status.has_value()) {
    return fail(
        SymbolWorkerFailure::kStart, ErrorCode::kInternal,
        "how the worker ended is not known, because the program reaps its children elsewhere");
  }
  const int status = *ending.status;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (signal == SIGXCPU) {
      return fail(SymbolWorkerFailure::kTimedOut, ErrorCode::kResourceLimit,
                  "used all of its processor time");
    }
    if (signal == SIGXFSZ) {
      return fail(SymbolWorkerFailure::kTooLarge, ErrorCode::kResourceLimit,
                  "the table is larger than allowed");
    }
    return fail(SymbolWorkerFailure::kCrashed, ErrorCode::kInternal,
                signal == SIGSYS ? std::string("the reader made a forbidden system call")
                                 : StrFormat("the reader crashed with signal {}", signal));
  }
  const std::string reason = ReasonText(ending.reason);
  switch (WEXITSTATUS(status)) {
    case 0:
      return {};
    case kExitRefused: {
      Verdict verdict = fail(SymbolWorkerFailure::kRefused, ErrorCode::kInvalidInput, reason);
      verdict.error.message = reason;  // it names the file
      return verdict;
    }
    case kExitTooLarge:
      return fail(SymbolWorkerFailure::kTooLarge, ErrorCode::kResourceLimit, reason);
    case 127:
      return fail(SymbolWorkerFailure::kStart, ErrorCode::kInternal, "the worker did not start");
    default:
      return fail(SymbolWorkerFailure::kCrashed, ErrorCode::kInternal,
                  StrFormat("the reader ended with code {} {}", WEXITSTATUS(status), reason));
  }
}

Verdict RunChild(const SymbolWorkerJob& job, int output_fd) {
  auto child = StartChild(job, output_fd);
  if (!child.has_value()) {
    return {.failure = SymbolWorkerFailure::kStart, .error = std::move(child).error()};
  }
  return Judge(job, AwaitChild(*child, std::chrono::steady_clock::now() + job.timeout));
}

}  // namespace

std::string_view SymbolWorkerFailureName(SymbolWorkerFailure failure) {
  switch (failure) {
    case SymbolWorkerFailure::kNone:
      return "none";
    case SymbolWorkerFailure::kStart:
      return "not started";
    case SymbolWorkerFailure::kRefused:
      return "refused";
    case SymbolWorkerFailure::kCrashed:
      return "crashed";
    case SymbolWorkerFailure::kTimedOut:
      return "timed out";
    case SymbolWorkerFailure::kTooLarge:
      return "too large";
  }
  return "?";
}

bool RunSymbolWorkerIfAsked(int argc, char** argv, int* exit_code) {
  if (argc < 2 || std::strcmp(argv[1], kWorkerArgument) != 0) {
    g_main_runs_workers.store(true, std::memory_order_relaxed);
    return false;
  }
  *exit_code = WorkerMain(FromArguments(std::span(argv + 2, static_cast<size_t>(argc) - 2)));
  // Nothing that the program would do at its end belongs here, and the filter may refuse it.
  ::_exit(*exit_code);
}

Status BuildSymbolTable(const SymbolWorkerJob& job, int output_fd, SymbolWorkerFailure* failure) {
  SymbolWorkerFailure ignored = SymbolWorkerFailure::kNone;
  if (failure == nullptr) failure = &ignored;
  if (!g_main_runs_workers.load(std::memory_order_relaxed)) {
    *failure = SymbolWorkerFailure::kStart;
    return Error{ErrorCode::kInternal, "this program's main does not run symbol workers"};
  }
  Verdict verdict = RunChild(job, output_fd);
  *failure = verdict.failure;
  if (verdict.failure == SymbolWorkerFailure::kNone) return OkStatus();
  const bool dwarf_may_be_why = verdict.failure == SymbolWorkerFailure::kCrashed ||
                                verdict.failure == SymbolWorkerFailure::kTimedOut ||
                                verdict.failure == SymbolWorkerFailure::kTooLarge;
  if (!job.dwarf || !dwarf_may_be_why) return std::move(verdict.error);
  SymbolWorkerJob plain = job;
  plain.dwarf = false;
  plain.note = StrFormat("DWARF left out: {}", verdict.error.message);
  if (::ftruncate(output_fd, 0) != 0) return ErrnoError("symbol table", errno);
  if (RunChild(plain, output_fd).failure == SymbolWorkerFailure::kNone) return OkStatus();
  return std::move(verdict.error);
}

Result<std::string> BuildSymbolTableHere(const SymbolWorkerJob& job) {
  TRY_ASSIGN(const internal::TableInputs inputs, internal::OpenTableInputs(job));
  return internal::BuildTable(job, inputs);
}

}  // namespace ptarmigan
