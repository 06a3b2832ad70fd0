// The software PMU as tests see it: scripts to play, what it counted, and events on it straight from the kernel.
#pragma once

#include <linux/perf_event.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace ptarmigan {

// Of /sys/bus/event_source/devices/NAME/type; 0 if it is not there.
uint32_t PmuType(std::string_view pmu);

// Gives the software PMU a script for one of its files ("intel_pt"). The errno, or 0.
int LoadScript(std::string_view file, std::string_view script);
// A number of the PMU's status file; UINT64_MAX if there is none of that name.
uint64_t PmuCount(std::string_view name);
// A line of it without its name.
std::string PmuStatusLine(std::string_view name);

// An attribute with what all tests want: this thread's user mode, disabled, ids and times in every record.
perf_event_attr UserAttr(uint32_t type);

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

struct EventPlace {
  int pid = 0;
  int cpu = -1;
  int group = -1;
};

// An open event with its rings, closed with it. Move-only.
class KernelEvent {
 public:
  // `refusal` gets the errno where the result is null.
  static std::unique_ptr<KernelEvent> Open(const perf_event_attr& attr, const EventPlace& place,
                                           int* refusal);
  // Or fails the test.
  static std::unique_ptr<KernelEvent> Open(const perf_event_attr& attr,
                                           const EventPlace& place = {});
  ~KernelEvent();
  KernelEvent(const KernelEvent&) = delete;
  KernelEvent& operator=(const KernelEvent&) = delete;

  // Each the errno, or 0. Sizes are powers of two of at least a page; an AUX ring can be mapped once the other is.
  int MapRing(size_t ring_bytes);
  int MapAux(size_t aux_bytes, bool snapshot);
  int Enable();
  int Disable();
  int SetPeriod(uint64_t period);
  int SetFilter(const std::string& text);

  // What came since the last call.
  std::vector<KernelRecord> Records();
  // AUX records among those that came, with the bytes of each in `bytes` (unless it is null), which then are free again.
  std::vector<AuxRecord> TakeAux(std::string* bytes);
  uint64_t aux_head() const;
  std::string aux_content() const;
  int fd() const { return fd_.get(); }

 private:
  explicit KernelEvent(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
  perf_event_mmap_page* page_ = nullptr;
  size_t ring_bytes_ = 0;
  char* aux_ = nullptr;
  size_t aux_bytes_ = 0;
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
bool Work(const std::function<bool()>& done, int seconds_max = 5);
uint64_t ThreadTimeNs();
// Until so much time of this thread has passed.
void WorkFor(uint64_t work_ns);

}  // namespace ptarmigan
