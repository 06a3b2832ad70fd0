#include "hw/perf_kernel.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace ptarmigan {
namespace {

class SystemCalls final : public PerfKernel {
 public:
  int Open(const EventAttr& attr, const PerfOpenTarget& target,
           const PerfOpenExtras& extras) override {
    std::vector<std::byte> bytes = EncodeAttr(attr);
    std::memcpy(bytes.data() + offsetof(perf_event_attr, wakeup_watermark),
                &extras.wakeup_watermark_bytes, sizeof(extras.wakeup_watermark_bytes));
    unsigned long flags = PERF_FLAG_FD_CLOEXEC;
    if (target.is_cgroup) flags |= PERF_FLAG_PID_CGROUP;
    for (;;) {
      const long fd = ::syscall(SYS_perf_event_open, bytes.data(), target.pid, target.cpu,
                                target.group_fd, flags);
      if (fd >= 0) return static_cast<int>(fd);
      if (errno != EINTR) return -errno;
    }
  }

  void* Map(int fd, uint64_t bytes, uint64_t offset, bool writable, int* errno_value) override {
    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void* base = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
    *errno_value = base == MAP_FAILED ? errno : 0;
    return base == MAP_FAILED ? nullptr : base;
  }

  void Unmap(void* base, uint64_t bytes) override { ::munmap(base, bytes); }

  int Ioctl(int fd, unsigned long request, unsigned long argument) override {
    return ::ioctl(fd, request, argument) == 0 ? 0 : -errno;
  }

  int IoctlPointer(int fd, unsigned long request, void* argument) override {
    return ::ioctl(fd, request, argument) == 0 ? 0 : -errno;
  }

  int64_t Read(int fd, std::span<std::byte> into) override {
    for (;;) {
      const ssize_t count = ::read(fd, into.data(), into.size());
      if (count >= 0) return count;
      if (errno != EINTR) return -errno;
    }
  }
};

}  // namespace

PerfKernel& HostKernel() {
  static SystemCalls kernel;
  return kernel;
}

}  // namespace ptarmigan
