// EventSet: every descriptor and ring of a session: one event per (thread or everything, CPU, attribute), one ring per
// CPU, and the waiting for them. One thread at a time, but Wake.
#pragma once

#include <cstdint>
#include <deque>
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
  // `plan` and `options` outlive the set. `ring_bytes` is a power of two. An error of code kResourceLimit with
  // map_refused() set can be retried (with a new set) and smaller rings.
  EventSet(const PerfSessionOptions& options, const SessionAttrs& plan, uint64_t ring_bytes);
  Status Open(const std::vector<int32_t>& cpus);
  bool map_refused() const { return map_refused_; }

  // Sampling events only, or the tracking event too.
  Status Enable();
  Status Disable(bool tracking_too);
  // Waits until a ring has enough to read, a target ends, Wake is called or the time is over.
  void Wait(int timeout_ms);
  // Async-signal-safe.
  void Wake() const;
  // Every thread that was opened and everything that it started has ended (task targets only).
  bool all_ended() const { return of_tasks_ && live_ == 0; }

  std::deque<PerfRing>& rings() { return rings_; }
  const std::deque<PerfRing>& rings() const { return rings_; }
  DuplicateFilter& duplicates() { return duplicates_; }
  void StopDuplicates();
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
  Status OpenOne(const OpenTarget& target, uint32_t event, bool* vanished);
  Status AttachRing(int fd, int32_t cpu, uint32_t* ring);
  Status Watch(size_t index);
  Result<Fd> OpenCgroup() const;

  const PerfSessionOptions& options_;
  const SessionAttrs& plan_;
  uint64_t ring_bytes_;
  bool of_tasks_;
  bool map_refused_ = false;
  std::vector<Opened> opened_;
  std::deque<PerfRing> rings_;
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
