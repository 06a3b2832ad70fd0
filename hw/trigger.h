// When the newest part of a trace that always runs is worth keeping: a condition (TriggerWatch) and how often it may be
// followed (TriggerGate).
//
//   uprobe pair, syscall pair, scheduling delay ──► TriggerWatch ──hit──► TriggerGate ──► PerfSession::TakeSnapshot
//   a signal, a command on a socket (the caller's) ─────────────hit──────────▲  └─► refused, counted by reason
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hw/perf_session.h"

namespace ptarmigan {

// What took too long.
struct TriggerCondition {
  enum class Kind {
    kFunction,  // from its entry to its return, in one thread
    kSyscall,   // likewise
    kSched,     // from being ready to run to running
  };
  Kind kind = Kind::kFunction;
  std::string object;        // kFunction: path of the ELF file, as this process sees it
  uint64_t file_offset = 0;  // kFunction: of the function's first instruction in it
  std::string syscall;       // kSyscall: its name, as in tracefs
  std::chrono::nanoseconds threshold{0};
};

struct TriggerHit {
  int32_t tid = 0;
  uint64_t end_ns = 0;  // on the clock of the watch's records
  uint64_t duration_ns = 0;
};

struct TriggerWatchCounts {
  uint64_t events = 0;
  uint64_t spans = 0;      // with both ends seen
  uint64_t unmatched = 0;  // ends without a beginning: before the watch began, or lost
  uint64_t lost_records = 0;
  uint64_t refused_threads = 0;  // beyond kThreadsMax or kDepthMax
};

class TriggerWatch {
 public:
  static constexpr size_t kThreadsMax = 65536;
  static constexpr size_t kDepthMax = 1024;  // of recursion

  struct Options {
    TriggerCondition condition;
    PerfTarget target;
    PerfKernel* kernel = &HostKernel();
    std::string proc_root = "/proc";
    EventRoots roots;
  };

  // Begins to watch (a command: when it execs). Errors name what was refused and the remedy.
  static Result<std::unique_ptr<TriggerWatch>> Open(const Options& options);
  ~TriggerWatch();
  TriggerWatch(const TriggerWatch&) = delete;
  TriggerWatch& operator=(const TriggerWatch&) = delete;

  // Readable when there is something to look at; for PerfSession::WakeOn.
  int wait_fd() const;
  // What has ended since the last call and took longer than the threshold. Does not wait.
  Result<std::vector<TriggerHit>> Poll();
  const TriggerWatchCounts& counts() const;
  const std::vector<std::string>& notes() const;

 private:
  class Impl;
  explicit TriggerWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct TriggerLimits {
  std::chrono::nanoseconds history{
      0};  // the trace must have run so long since it began or was read last
  std::chrono::nanoseconds cooldown{0};  // between snapshots
  uint64_t snapshots_per_hour = 0;       // in any hour; 0: no limit
  uint64_t bytes_max = 0;                // of all snapshots; 0: no limit
};

enum class TriggerVerdict : uint8_t {
  kTake,
  kShortHistory,
  kCoolingDown,
  kTooMany,
  kDiskFull,
};
constexpr size_t kTriggerVerdicts = 5;
std::string_view TriggerVerdictName(TriggerVerdict verdict);

// Pure: time is what it is told. Not thread-safe.
class TriggerGate {
 public:
  // `begin_ns`: when tracing began.
  TriggerGate(const TriggerLimits& limits, uint64_t begin_ns)
      : limits_(limits), since_ns_(begin_ns) {}

  // Whether a condition that was met at `now_ns` is followed by a snapshot, which may have `bytes`. Counts either way.
  TriggerVerdict Ask(uint64_t now_ns, uint64_t bytes);
  // What a snapshot that was taken had; at most what was asked for.
  void Taken(uint64_t now_ns, uint64_t bytes);

  uint64_t count(TriggerVerdict verdict) const { return counts_[static_cast<size_t>(verdict)]; }

 private:
  TriggerVerdict Decide(uint64_t now_ns, uint64_t bytes) const;

  TriggerLimits limits_;
  uint64_t since_ns_;
  std::vector<uint64_t> taken_ns_;  // within the last hour
  bool any_taken_ = false;
  uint64_t last_taken_ns_ = 0;
  uint64_t bytes_ = 0;
  std::array<uint64_t, kTriggerVerdicts> counts_ = {};
};

}  // namespace ptarmigan
