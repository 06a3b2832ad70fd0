// Triggers: the conditions of `record --trigger`, watched beside a session that keeps a snapshot, and what follows them.
//
//   function:OBJECT:SYMBOL>DURATION   a call took longer        signal         SIGUSR2 came
//   syscall:NAME>DURATION             a system call did         control:PATH   "snapshot" came through a socket
//   sched>DURATION                    ready, but not running
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/control_socket.h"
#include "hw/perf_session.h"
#include "hw/trigger.h"

namespace ptarmigan::cli {

struct TriggerOptions {
  std::vector<std::string> conditions;
  std::string history;
  std::string cooldown;
  uint64_t snapshots_per_hour = 0;
  std::string disk_limit;

  bool any() const { return !conditions.empty(); }
};

// One of --trigger.
struct TriggerText {
  enum class Kind { kWatched, kSignal, kControl };
  Kind kind = Kind::kWatched;
  TriggerCondition watched;  // kFunction: `file_offset` is found by OpenTriggers
  std::string symbol;        // kFunction
  std::string path;          // kControl
};
Result<TriggerText> ParseTrigger(std::string_view text);
// Where the function's code begins in the file; kNotFound with near facts if there is no such function.
Result<uint64_t> FindFunctionOffset(const std::string& object, const std::string& symbol);

class Triggers {
 public:
  // Begins to watch; `target` is the session's. SIGUSR2 belongs to this object from now on, if a signal is asked for: at most
  // one such object at a time.
  static Result<std::unique_ptr<Triggers>> Open(const TriggerOptions& options,
                                                const PerfTarget& target, PerfSession* session);
  ~Triggers();
  Triggers(const Triggers&) = delete;
  Triggers& operator=(const Triggers&) = delete;

  // Looks what has happened, and takes snapshots into `sink`. After each poll of the session.
  Status Look(RawRecordSink& sink);
  // "3 snapshots; 5 more conditions met: 4 cooling down, 1 disk limit".
  std::string Summary() const;

 private:
  Triggers(const TriggerLimits& limits, PerfSession* session);
  Status Add(const TriggerText& trigger, const PerfTarget& target);
  // What became of a condition that was met.
  Result<TriggerVerdict> Follow(std::string_view why, RawRecordSink& sink);

  PerfSession* session_;
  TriggerGate gate_;
  std::vector<std::unique_ptr<TriggerWatch>> watches_;
  std::unique_ptr<ControlSocket> control_;
  bool owns_signal_ = false;
};

}  // namespace ptarmigan::cli
