// PerfSession: perf events open on a target, read as raw records.
//
//   Open ──► Poll once (records of what is there already) ──► Enable ──► Poll … ──► Stop ──► Poll until kEnd
//                                                              │           └─ kEnd by itself when every target ended
//                                                              └─ a command enables itself when it execs
//
// Per CPU there is one ring; every event on that CPU writes into it. Stream 0 is what the session writes itself (names
// and mappings from before it began, at time 0); stream n + 1 is the ring of the n-th CPU. A `dummy` event that is
// enabled from the start carries names, mappings, forks and exits, so that nothing is missed between reading /proc and
// Enable; it is the last of description().events.
//
// If the first event fills an AUX area (Intel PT, Arm SPE, CoreSight), each ring has one: what the PMU wrote there is handed
// out as PERF_RECORD_AUXTRACE with its bytes, as perf does, behind the AUX records that speak of it; AUXTRACE_INFO and
// TIME_CONV come first of all. After a TRUNCATED AUX record tracing is stopped and started again, since some kernels (6.1,
// 6.12) otherwise leave it off.
//
// What the kernel cannot give is found by trying, left out, and told in notes(). Opened by perf_event_open(2), Linux
// 4.1 or later. One thread at a time; Stop may be called from any thread or signal handler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hw/event_spec.h"
#include "hw/perf_kernel.h"
#include "model/build_id.h"
#include "model/event_source.h"

namespace ptarmigan {

struct PerfTarget {
  enum class Kind {
    kPids,     // these processes, their threads, and what these create later
    kAllCpus,  // every process
    kCgroup,   // every process in a control group and below
    kCommand,  // one process that has not yet exec'd: sampling begins when it does
  };
  Kind kind = Kind::kAllCpus;
  std::vector<int32_t> pids;  // kPids, kCommand
  // Absolute, or relative to the mount point of control groups.
  std::string cgroup_path;
};

enum class CallChainMode {
  kNone,
  kKernel,         // kernel frames only: user frames are unwound from registers and stack
  kFramePointers,  // kernel and user frames, walked by the kernel along frame pointers
};

// What happens to the AUX area of the first event.
enum class AuxMode {
  kNone,      // it has none
  kFull,      // everything is read while it is written
  kSnapshot,  // only the newest is kept, and read at the end
  kSamples,  // the other events' samples carry the newest (PERF_SAMPLE_AUX); the area itself is not read
};

struct PerfSessionOptions {
  PerfTarget target;
  std::vector<EventSpec> events;  // 1..kEventsMax
  AuxMode aux_mode = AuxMode::kNone;
  // Only this code is traced: as PERF_EVENT_IOC_SET_FILTER takes it, "filter 0x1400/0x80@/bin/prog" (perf-record(1), --filter);
  // several are separated by commas. Empty: everything.
  std::string aux_filter;
  // Whether what a snapshot area holds when the session ends is handed out, too.
  bool snapshot_at_end = true;
  // Per ring; a power of two, kRingBytesMin..kRingBytesMax. 0: automatic (4 MiB full, 1 MiB otherwise, less where locked
  // memory is limited).
  uint64_t aux_bytes = 0;

  // For events that do not say themselves; period wins over frequency. Neither: kFrequencyHzDefault, but every
  // occurrence (period 1) of a tracepoint.
  std::optional<uint64_t> frequency_hz;
  std::optional<uint64_t> period;

  CallChainMode call_chain = CallChainMode::kKernel;
  // Bytes of user stack per sample with the user registers; 0: neither. Rounded up to 8; at most kStackBytesMax.
  uint32_t stack_user_bytes = 0;
  // 0: automatic (1 MiB per CPU, 4 MiB with stacks, less where locked memory is limited). Else rounded up to a power
  // of two; kRingBytesMin..kRingBytesMax.
  uint64_t ring_bytes = 0;
  // A reader is woken when so much is in a ring; 0: a quarter of it.
  uint32_t wakeup_bytes = 0;
  // CLOCK_MONOTONIC (1), CLOCK_MONOTONIC_RAW (4), CLOCK_BOOTTIME (7), ...; -1: perf's own clock.
  int32_t clockid = 1;
  bool context_switches = false;  // PERF_RECORD_SWITCH
  bool cgroup_ids = false;        // PERF_SAMPLE_CGROUP and CGROUP records
  bool text_poke = false;         // changes of kernel code

  // Build id of the object at a path that this process can open, for mappings from before the session; may be empty.
  std::function<BuildId(const std::string& path)> build_id_of;
  // Parts of the machine, so that tests lay out their own. The kernel outlives the session.
  PerfKernel* kernel = &HostKernel();
  std::string proc_root = "/proc";
  std::string sysfs_root = "/sys";
};

constexpr uint64_t kFrequencyHzDefault = 997;
constexpr uint32_t kStackBytesDefault = 16384;
constexpr uint32_t kStackBytesMax = 65528;
constexpr uint64_t kRingBytesMin = uint64_t{4} << 10;
constexpr uint64_t kRingBytesMax = uint64_t{1} << 30;

struct PerfSessionStatistics {
  uint64_t records = 0;  // from the rings
  uint64_t bytes = 0;
  uint64_t samples = 0;
  uint64_t lost_records = 0;  // of every kind, because a ring was full
  uint64_t lost_samples = 0;  // said by the driver (LOST_SAMPLES)
  uint64_t throttles = 0;
  uint64_t aux_bytes = 0;        // handed out
  uint64_t aux_areas_bytes = 0;  // of all areas together
  uint64_t aux_records = 0;
  uint64_t aux_truncated = 0;   // AUX records that say so: the area was full and tracing stopped
  uint64_t aux_partial = 0;     // bytes are missing
  uint64_t aux_collisions = 0;  // Arm SPE: operations were dropped because another was in flight
  uint64_t aux_restarts = 0;    // tracing stopped and started again after truncation
  uint64_t aux_overrun_bytes = 0;
  uint64_t corrupt_bytes = 0;  // of rings whose content could not be true
  uint64_t duplicates = 0;     // samples of a thread that was opened twice, left out
  uint64_t polls = 0;
  uint64_t events_opened = 0;
  uint64_t threads_vanished = 0;  // ended while being opened
  uint64_t rings = 0;
  uint64_t ring_bytes = 0;  // of each
  uint64_t synthesized_records = 0;
  uint64_t cpu_ns = 0;      // of this process since Open, user and system
  uint64_t elapsed_ns = 0;  // since Open
};

class PerfSession : public RawRecordSource {
 public:
  // Opens everything, disabled (a command: enabled by its exec). Errors name what was refused and the remedy.
  static Result<std::unique_ptr<PerfSession>> Open(PerfSessionOptions options);
  ~PerfSession() override;
  PerfSession(const PerfSession&) = delete;
  PerfSession& operator=(const PerfSession&) = delete;

  const RecordingDescription& description() const override;
  // Starts or pauses sampling; names and mappings are recorded regardless. Not needed for a command.
  Status Enable();
  Status Disable();
  // Snapshot mode: stops the tracers, hands out what the rings and AUX areas hold, and starts them again. Returns the bytes
  // of trace. Also possible once Poll has returned kEnd.
  Result<uint64_t> TakeSnapshot(RawRecordSink& sink);
  // Poll returns when `fd` is readable, too. It stays the caller's.
  Status WakeOn(int fd);
  // Readable when there is something to Poll for.
  int wait_fd() const;
  // The next Poll stops everything, delivers what is left and returns kEnd. Async-signal-safe.
  void Stop();
  // The Poll that waits, or the next one, returns at once. Async-signal-safe.
  void Wake();
  // kIdle: nothing was there. The first call writes what was there before the session.
  Result<PollOutcome> Poll(RawRecordSink& sink, int timeout_ms) override;

  PerfSessionStatistics statistics() const;
  // Sentences about what was changed or left out because this kernel or user cannot have it.
  const std::vector<std::string>& notes() const;

 private:
  class Impl;
  explicit PerfSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ptarmigan
