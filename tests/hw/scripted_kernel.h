// ScriptedKernel: a perf_event_open that follows a script. Events are remembered, rings are plain memory, and a test plays
// the tracer: it writes records and AUX bytes as the kernel does (kernel/events/ring_buffer.c, Linux 6.18), and fails
// calls where it is told to. Descriptors are those of pipes, readable when a ring was written to.
#pragma once

#include <linux/perf_event.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "base/file.h"
#include "hw/perf_kernel.h"

namespace ptarmigan {

class ScriptedKernel final : public PerfKernel {
 public:
  struct Ring {
    std::vector<std::byte> memory;  // the control page and the data, aligned by hand
    std::vector<std::byte> aux;
    perf_event_mmap_page* page = nullptr;
    std::byte* data = nullptr;
    uint64_t data_bytes = 0;
    std::byte* aux_data = nullptr;
    uint64_t aux_bytes = 0;
    bool aux_overwrites = false;
  };
  struct Event {
    EventAttr attr;
    PerfOpenTarget target;
    int fd = -1;
    Fd wake;  // the pipe's other end
    uint64_t inode = 0;
    uint64_t id = 0;
    bool enabled = false;
    bool tracing = false;  // 6.1 on CPU 0: enabled, but the driver has stopped
    Ring* ring = nullptr;
    uint64_t lost = 0;
  };

  ScriptedKernel() = default;
  ~ScriptedKernel() override = default;

  // 0, or an errno, for an event that is being opened; mapped (`aux`: as AUX area); an ioctl.
  std::function<int(const EventAttr&, const PerfOpenTarget&)> on_open;
  std::function<int(uint64_t bytes, bool aux)> on_map;
  std::function<int(const Event&, unsigned long request)> on_ioctl;
  // Called when an event has its ring.
  std::function<void(Event*)> after_map;
  // The address filter of an event, as PERF_EVENT_IOC_SET_FILTER gave it.
  std::map<uint64_t, std::string> filters;
  // True: after TRUNCATED the event stays enabled though nothing traces, and ENABLE does nothing (Linux 6.1 on CPU 0).
  bool stays_enabled_when_truncated = false;
  uint16_t time_shift = 31;
  uint32_t time_mult = 1U << 30;
  uint64_t time_zero = 1000;

  int Open(const EventAttr& attr, const PerfOpenTarget& target,
           const PerfOpenExtras& extras) override;
  void* Map(int fd, uint64_t bytes, uint64_t offset, bool writable, int* errno_value) override;
  void Unmap(void* base, uint64_t bytes) override;
  int Ioctl(int fd, unsigned long request, unsigned long argument) override;
  int IoctlPointer(int fd, unsigned long request, void* argument) override;
  int64_t Read(int fd, std::span<std::byte> into) override;

  // The events that are open now.
  std::vector<Event*> events();
  // The first open event of a PMU type; null if there is none. `cpu` -1: any.
  Event* Find(uint32_t type, int32_t cpu = -1);
  uint64_t opens() const { return opens_; }
  const std::vector<std::string>& calls() const { return calls_; }  // "enable 3", "disable 3", ...
  size_t mapped() const { return mapped_; }                         // areas that are mapped now

  // Writes a record (header included) into the event's ring. False if there is no room: it is counted as lost.
  bool WriteRecord(Event* event, Bytes record);
  // The tracer: writes as much as has room; says so in an AUX record with `flags`, and TRUNCATED where the rest was cut
  // off. Returns the bytes written. Nothing while it is off.
  uint64_t Trace(Event* event, Bytes bytes, uint64_t flags = 0);

 private:
  Event* EventOf(int fd);
  static bool IsOpen(const Event& event);
  void WriteAuxRecord(Event* event, uint64_t offset, uint64_t size, uint64_t flags);

  std::map<int, std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::string> calls_;
  uint64_t opens_ = 0;
  uint64_t next_id_ = 100;
  size_t mapped_ = 0;
};

}  // namespace ptarmigan
