#include "base/large_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace ptarmigan {
namespace {

// The usual size of a huge page (x86-64, and arm64 with pages of 4 KiB); elsewhere only an alignment.
constexpr uintptr_t kHugePageBytes = uintptr_t{2} << 20;
constexpr size_t kCacheLineBytes = 64;

}  // namespace

void* AllocateLargeBlock(size_t bytes) {
  // Not aligned to a huge page: the heap would keep its note about the block just before, in another one that is then
  // cleared for nothing else.
  void* block = nullptr;
  if (::posix_memalign(&block, kCacheLineBytes, bytes) != 0) throw std::bad_alloc();
  // Only whole huge pages are asked for: the rest of the first and the last one is not ours to fill.
  const auto begin = reinterpret_cast<uintptr_t>(block);
  const uintptr_t first = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t end = (begin + bytes) / kHugePageBytes * kHugePageBytes;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  return block;
}

void FreeLargeBlock(void* block) { std::free(block); }

}  // namespace ptarmigan
