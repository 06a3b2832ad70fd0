// The software PMU as tests see it: scripts to play, what it counted, and events on it by the classes of hw.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "hw/internal/perf_ring.h"
#include "hw/perf_kernel.h"
#include "model/event_attr.h"

namespace ptarmigan {

// Of /sys/bus/event_source/devices/NAME/type; 0 if it is not there.
uint32_t PmuType(std::string_view pmu);

// Gives the software PMU a script for one of its files ("intel_pt"). The errno, or 0.
int LoadScript(std::string_view file, std::string_view script);
// A number of the PMU's status file; UINT64_MAX if there is none of that name.
uint64_t PmuCount(std::string_view name);
// A line of it without its name.
std::string PmuStatusLine(std::string_view name);

// An attribute with what all tests want: this thread's user mode, disabled.
EventAttr UserAttr(uint32_t type);

struct KernelRecord {
  uint32_t type = 0;
  uint16_t misc = 0;
  std::string body;  // behind the header

  uint64_t Word(size_t offset) const;
};

// PERF_RECORD_AUX
struct AuxRecord {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t flags = 0;
};

// One event with its rings, as PerfSession has many, closed with it.
class GuestEvent {
 public:
  // `refusal` gets the errno where the result is null.
  static std::unique_ptr<GuestEvent> Open(const EventAttr& attr, const PerfOpenTarget& target,
                                          int* refusal);
  // Or fails the test.
  static std::unique_ptr<GuestEvent> Open(const EventAttr& attr, const PerfOpenTarget& target = {});

  // Each the errno, or 0. Sizes are powers of two of at least a page; an AUX area can be mapped once the ring is.
  int MapRing(uint64_t ring_bytes);
  int MapAux(uint64_t aux_bytes, bool is_snapshot);
  int Enable();
  int Disable();
  int SetPeriod(uint64_t period);
  int SetFilter(std::string text);

  // What came since the last call.
  std::vector<KernelRecord> Records();
  // AUX records among those that came. What the area holds is appended to `bytes`, and given back to the kernel; null:
  // neither.
  std::vector<AuxRecord> TakeAux(std::string* bytes);
  std::string Snapshot();
  int fd() const { return fd_.get(); }

 private:
  explicit GuestEvent(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
  std::optional<internal::PerfRing> ring_;
};

// Keeps this thread, and processes that it begins, on one CPU.
class OnCpu {
 public:
  explicit OnCpu(int cpu);
  ~OnCpu();
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;

 private:
  cpu_set_t before_;
};

// Calls functions that keep frame pointers, until `done` says so or `seconds_max` have passed; whether it said so.
bool Work(const std::function<bool()>& done, int seconds_max = 10);
uint64_t ThreadTimeNs();
// Until so much time of this thread has passed.
void WorkFor(uint64_t work_ns);

}  // namespace ptarmigan
