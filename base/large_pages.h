// LargePageAllocator: for vectors that grow to megabytes and are read at random. Their memory asks for huge pages
// (MADV_HUGEPAGE), so that filling it costs one page fault where it would cost 512, and reading it one TLB entry. A
// hint: where the kernel gives none, everything works as before.
//
// Stateless; any number of threads.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace ptarmigan {

// Smaller blocks come from the ordinary heap.
constexpr size_t kLargeBlockBytes = size_t{1} << 20;

// At least kLargeBlockBytes. Throws std::bad_alloc as every allocator does.
void* AllocateLargeBlock(size_t bytes);
void FreeLargeBlock(void* block);

template <typename T>
class LargePageAllocator {
 public:
  using value_type = T;
  LargePageAllocator() = default;
  template <typename U>
  explicit(false) LargePageAllocator(const LargePageAllocator<U>&) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    return static_cast<T*>(bytes < kLargeBlockBytes ? ::operator new(bytes)
                                                    : AllocateLargeBlock(bytes));
  }
  void deallocate(T* memory, size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kLargeBlockBytes) {
      ::operator delete(memory);
    } else {
      FreeLargeBlock(memory);
    }
  }
  bool operator==(const LargePageAllocator&) const = default;
};

template <typename T>
using LargeVector = std::vector<T, LargePageAllocator<T>>;

}  // namespace ptarmigan
