// PerfKernel: the system calls that perf events need, so that tests put a scripted kernel in their place.
//
// Descriptors are real ones (a scripted kernel hands out those of eventfd(2) or pipes): they are closed with close(2) and
// waited for with epoll. Everything else goes through here. perf_event_open(2), Linux 4.1 or later. The kernel itself may
// be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "model/event_attr.h"

namespace ptarmigan {

struct PerfOpenTarget {
  int32_t pid = 0;  // thread, 0: this one, -1: every one; a cgroup's descriptor if is_cgroup
  int32_t cpu = -1;
  bool is_cgroup = false;
  int group_fd = -1;  // of the group's leader; -1: leads or stands alone
};

// What of perf_event_attr an EventAttr does not hold. 0: leave the kernel's default.
struct PerfOpenExtras {
  uint32_t wakeup_watermark_bytes = 0;
};

class PerfKernel {
 public:
  virtual ~PerfKernel() = default;

  // The descriptor (close-on-exec), or -errno.
  virtual int Open(const EventAttr& attr, const PerfOpenTarget& target,
                   const PerfOpenExtras& extras) = 0;
  // mmap(2) of `bytes` at `offset`, shared; nullptr with *errno_value if it is refused.
  virtual void* Map(int fd, uint64_t bytes, uint64_t offset, bool writable, int* errno_value) = 0;
  virtual void Unmap(void* base, uint64_t bytes) = 0;
  // 0 or -errno. `Ioctl` is for PERF_EVENT_IOC_* that take a number, `IoctlPointer` for those that take an address.
  virtual int Ioctl(int fd, unsigned long request, unsigned long argument) = 0;
  virtual int IoctlPointer(int fd, unsigned long request, void* argument) = 0;
  // read(2): counts as read_format asks for. Bytes, or -errno.
  virtual int64_t Read(int fd, std::span<std::byte> into) = 0;
};

// The one that this program runs on.
PerfKernel& HostKernel();

}  // namespace ptarmigan
