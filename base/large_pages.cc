#include "base/large_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace ptarmigan {
namespace {

// The usual size of a huge page (x86-64, and arm64 with pages of 4 KiB); elsewhere only an alignment.
constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

void* AllocateLargeBlock(size_t bytes) {
  void* block = nullptr;
  if (::posix_memalign(&block, kHugePageBytes, bytes) != 0) throw std::bad_alloc();
  // Only whole huge pages are asked for: the rest of the last one is not ours to fill.
  const size_t whole = bytes / kHugePageBytes * kHugePageBytes;
  if (whole > 0) ::madvise(block, whole, MADV_HUGEPAGE);
  return block;
}

void FreeLargeBlock(void* block) { std::free(block); }

}  // namespace ptarmigan
