#include "base/heap.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace ptarmigan {

bool UseLargePagesForHeap() {
#ifdef __GLIBC__
  constexpr uintptr_t kHugePageBytes = uintptr_t{2} << 20;
  constexpr int kReservedBytes = 512 << 20;
  constexpr int kUsualPadBytes = 128 << 10;  // glibc's own
  constexpr int kMmapBytesMin = 32 << 20;    // the most that glibc accepts
  constexpr int kTrimBytes = INT32_MAX;  // more than is reserved: it would be given back at once
  constexpr size_t kProbeBytes = size_t{1} << 20;  // more than the heap has at the start
  const auto end_of_heap = [] { return reinterpret_cast<uintptr_t>(::sbrk(0)); };
  const uintptr_t old_end = end_of_heap();
  if (::mallopt(M_ARENA_MAX, 1) == 0 || ::mallopt(M_MMAP_THRESHOLD, kMmapBytesMin) == 0 ||
      ::mallopt(M_TRIM_THRESHOLD, kTrimBytes) == 0 || ::mallopt(M_TOP_PAD, kReservedBytes) == 0) {
    return false;
  }
  // (Volatile: a block that nobody uses would not be asked for.)
  void* volatile probe = std::malloc(kProbeBytes);
  ::mallopt(M_TOP_PAD, kUsualPadBytes);
  const auto probe_at = reinterpret_cast<uintptr_t>(probe);
  std::free(probe);
  const uintptr_t begin = (old_end + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t end = end_of_heap() / kHugePageBytes * kHugePageBytes;
  if (end <= begin || ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE) != 0) {
    return false;
  }
  // What lies before the first huge page stays unused, and costs nothing but addresses.
  constexpr uintptr_t kBlockHeaderBytes = 2 * sizeof(size_t);
  if (probe_at >= old_end - kProbeBytes && probe_at + kBlockHeaderBytes < begin) {
    void* volatile unused = std::malloc(begin - probe_at - kBlockHeaderBytes);
    static_cast<void>(unused);
  }
  return true;
#else
  return false;
#endif
}

}  // namespace ptarmigan
