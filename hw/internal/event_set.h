// EventSet: every descriptor and ring of a session: one event per (thread or everything, CPU, attribute), one ring per
// CPU, and the waiting for them. One thread at a time, but Wake.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "hw/internal/duplicate_filter.h"
#include "hw/internal/perf_open.h"
#include "hw/internal/perf_ring.h"
#include "hw/internal/session_attrs.h"
#include "hw/perf_session.h"

namespace ptarmigan::internal {

struct EventSetCounts {
  uint64_t events_opened = 0;
  uint64_t threads_vanished = 0;
};

class EventSet {
 public:
  // `plan` and `options` outlive the set. Sizes are powers of two; `aux_bytes` 0: no AUX areas. An error of code
  // kResourceLimit with map_refused() set can be retried (with a new set) and smaller rings.
  EventSet(const PerfSessionOptions& options, const SessionAttrs& plan, uint64_t ring_bytes,
           uint64_t aux_bytes);
  Status Open(const std::vector<int32_t>& cpus);
  bool map_refused() const { return map_refused_; }

  // Sampling events only, or the tracking event too.
  Status Enable();
  Status Disable(bool tracking_too);
  // Everything that fills an AUX area.
  Status SwitchAux(bool on);
  // Stops and starts what fills the ring's AUX area: what a truncated area needs after it was drained. `between` runs while
  // it is off.
  Status RestartAux(uint32_t ring, const std::function<void()>& between);
  // Waits until a ring has enough to read, a target ends, Wake is called or the time is over.
  void Wait(int timeout_ms);
  // Async-signal-safe.
  void Wake() const;
  // Wait returns when `fd` is readable, too.
  Status WakeOn(int fd);
  int wait_fd() const { return epoll_.get(); }
  // Every thread that was opened and everything that it started has ended (task targets only).
  bool all_ended() const { return of_tasks_ && live_ == 0; }

  std::deque<PerfRing>& rings() { return rings_; }
  const std::deque<PerfRing>& rings() const { return rings_; }
  DuplicateFilter& duplicates() { return duplicates_; }
  void StopDuplicates();
  int32_t CpuOf(uint32_t ring) const { return cpu_of_ring_[ring]; }
  // Records that the kernel could not write into each ring, by its own count (PERF_FORMAT_LOST); 0 if it has none.
  std::vector<uint64_t> LostPerRing() const;
  // Ids of the attribute's events.
  std::vector<uint64_t> IdsOf(uint32_t event) const;
  const EventSetCounts& counts() const { return counts_; }

 private:
  struct Opened {
    Fd fd;
    uint64_t id = 0;
    uint32_t event = 0;
    uint32_t ring = 0;
    bool live = true;
  };

  Status OpenTasks(const std::vector<int32_t>& cpus);
  Status OpenThread(int32_t pid, int32_t tid, const std::vector<int32_t>& cpus, bool* vanished);
  Status OpenEverywhere(const std::vector<int32_t>& cpus);
  // Opens one event; *vanished is set instead of an error if the thread or the CPU is gone.
  // `leaders`: the descriptors of this target's events so far, by event.
  Status OpenOne(PerfOpenTarget target, uint32_t event, std::vector<int>* leaders, bool* vanished);
  Status SetFilter(int fd) const;
  Status AttachRing(int fd, int32_t cpu, bool fills_aux, uint32_t* ring);
  Status Switch(const Opened& opened, bool on) const;
  Status Watch(size_t index);
  Result<Fd> OpenCgroup() const;

  const PerfSessionOptions& options_;
  const SessionAttrs& plan_;
  uint64_t ring_bytes_;
  uint64_t aux_bytes_;
  PerfKernel& kernel_;
  bool of_tasks_;
  bool map_refused_ = false;
  std::vector<Opened> opened_;
  std::deque<PerfRing> rings_;
  std::vector<int32_t> cpu_of_ring_;
  std::map<int32_t, std::pair<uint32_t, int>>
      ring_of_cpu_;  // CPU -> ring index, descriptor that owns it
  std::unordered_map<uint64_t, int> fd_of_id_;
  std::set<int32_t> threads_;
  Fd epoll_;
  Fd wake_;
  Fd cgroup_;
  size_t live_ = 0;
  EventSetCounts counts_;
  DuplicateFilter duplicates_;
};

}  // namespace ptarmigan::internal
