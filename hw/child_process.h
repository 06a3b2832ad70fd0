// ChildProcess: a command that is forked at once but runs only when Start is called, so that perf events can be
// opened on it (enable on exec) before its first instruction.
//
// The child is reaped by Wait, TryWait or the destructor (which kills it first): it never stays a zombie. Signals
// are the caller's business: the child is in our process group, so Ctrl-C reaches both, unless `own_process_group`.
// One thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace ptarmigan {

struct ChildProcessOptions {
  std::vector<std::string> argv;  // argv[0] is searched on PATH
  bool own_process_group = false;
};

class ChildProcess {
 public:
  // Forks. kInvalidInput without a command; kResourceLimit if fork is refused.
  static Result<ChildProcess> Fork(const ChildProcessOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Kills (SIGKILL) and reaps if it still runs.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Lets it exec; returns when it has. kNotFound or kPermission (with the command's name) if exec fails: the child has
  // ended then and is reaped.
  Status Start();
  bool started() const { return started_; }
  // Sends a signal if it still runs.
  void Signal(int signal_number) const;
  // The exit code as a shell gives it (128 + signal if killed) once it has ended; nothing while it runs.
  std::optional<int> TryWait();
  // Waits up to `timeout_ms` (-1: without limit) for the end.
  std::optional<int> Wait(int timeout_ms);

 private:
  ChildProcess(pid_t pid, Fd go, Fd failure, std::string command)
      : pid_(pid), go_(std::move(go)), failure_(std::move(failure)), command_(std::move(command)) {}

  pid_t pid_ = -1;  // -1 after it was moved from
  Fd go_;           // a byte written here starts it
  Fd failure_;      // gives exec's errno, or ends when exec succeeded
  std::string command_;
  bool started_ = false;
  std::optional<int> exit_code_;
};

}  // namespace ptarmigan
