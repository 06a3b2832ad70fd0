#include "hw/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace ptarmigan {
namespace {

// Runs in the child: only async-signal-safe calls.
[[noreturn]] void RunChild(int go, int failure, char* const* argv, bool own_process_group) {
  if (own_process_group) ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Ignored signals stay ignored across exec: give the command what a shell would.
  for (const int signal_number : {SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD})
    ::signal(signal_number, SIG_DFL);
  char byte = 0;
  ssize_t count = 0;
  do {
    count = ::read(go, &byte, 1);
  } while (count < 0 && errno == EINTR);
  if (count != 1) ::_exit(127);  // the parent went away or gave up
  ::execvp(argv[0], argv);
  const int error = errno;
  // If the parent is gone nobody needs the number.
  if (::write(failure, &error, sizeof(error)) < 0) ::_exit(126);
  ::_exit(127);
}

int ExitCodeOf(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  constexpr int kShellSignalBase = 128;
  return kShellSignalBase + WTERMSIG(wait_status);
}

}  // namespace

Result<ChildProcess> ChildProcess::Fork(const ChildProcessOptions& options) {
  if (options.argv.empty() || options.argv[0].empty())
    return Error{ErrorCode::kInvalidInput, "no command to run"};
  int go[2];
  int failure[2];
  if (::pipe2(go, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  Fd go_read(go[0]);
  Fd go_write(go[1]);
  if (::pipe2(failure, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  Fd failure_read(failure[0]);
  const Fd failure_write(failure[1]);
  std::vector<char*> argv;
  std::vector<std::string> words = options.argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoError("fork", errno);
  if (pid == 0) {
    go_write.Close();  // else its own copy keeps the pipe open when the parent dies
    RunChild(go_read.get(), failure_write.get(), argv.data(), options.own_process_group);
  }
  return ChildProcess(pid, std::move(go_write), std::move(failure_read), options.argv[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      go_(std::move(other.go_)),
      failure_(std::move(other.failure_)),
      command_(std::move(other.command_)),
      started_(other.started_),
      exit_code_(other.exit_code_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || TryWait()) return;
  ::kill(pid_, SIGKILL);
  Wait(-1);
}

Status ChildProcess::Start() {
  if (started_) return Error{ErrorCode::kInvalidInput, "the command was started already"};
  started_ = true;
  const std::byte byte{1};
  // SIGPIPE cannot come: while the child lives it holds the reading end; if it was killed, write fails below.
  sigset_t pipe_only;
  sigset_t before;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  const Status written = WriteAll(go_.get(), Bytes(&byte, 1), command_);
  if (!written) {
    constexpr timespec kNow = {};
    ::sigtimedwait(&pipe_only, nullptr, &kNow);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  go_.Close();
  if (!written) {
    Wait(-1);
    return Error{ErrorCode::kUnavailable, command_ + ": ended before it was started"};
  }
  int exec_errno = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure_.get(), &exec_errno, sizeof(exec_errno));
  } while (count < 0 && errno == EINTR);
  failure_.Close();
  if (count != static_cast<ssize_t>(sizeof(exec_errno))) return OkStatus();
  Wait(-1);
  return ErrnoError(command_, exec_errno);
}

void ChildProcess::Signal(int signal_number) const {
  if (pid_ > 0 && !exit_code_) ::kill(pid_, signal_number);
}

std::optional<int> ChildProcess::TryWait() {
  if (exit_code_ || pid_ < 0) return exit_code_;
  int wait_status = 0;
  const pid_t ended = ::waitpid(pid_, &wait_status, WNOHANG);
  if (ended == pid_) exit_code_ = ExitCodeOf(wait_status);
  // Reaped by someone else (SIGCHLD ignored): the code is lost, the child is gone.
  if (ended < 0 && errno == ECHILD) exit_code_ = 0;
  return exit_code_;
}

std::optional<int> ChildProcess::Wait(int timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  while (!TryWait()) {
    int left_ms = -1;
    if (timeout_ms >= 0) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return std::nullopt;
      left_ms = static_cast<int>(left.count());
    }
    // Without pidfds (before Linux 5.3) look again every few milliseconds.
    constexpr int kLookAgainMs = 5;
    if (pidfd.valid()) {
      pollfd end = {pidfd.get(), POLLIN, 0};
      ::poll(&end, 1, left_ms);
    } else {
      ::poll(nullptr, 0, left_ms < 0 || left_ms > kLookAgainMs ? kLookAgainMs : left_ms);
    }
  }
  return exit_code_;
}

}  // namespace ptarmigan
