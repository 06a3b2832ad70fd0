#include "hw/internal/perf_ring.h"

#include <linux/perf_event.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/file.h"

namespace ptarmigan::internal {

Result<PerfRing> PerfRing::Map(int fd, uint64_t ring_bytes) {
  const uint64_t mapped_bytes = ring_bytes + PageSizeBytes();
  void* base = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return ErrnoError("mmap", errno);
  auto* page = static_cast<perf_event_mmap_page*>(base);
  static_assert(sizeof(page->data_head) == sizeof(uint64_t));
  auto* head = reinterpret_cast<const uint64_t*>(&page->data_head);
  auto* tail = reinterpret_cast<uint64_t*>(&page->data_tail);
  const Bytes data(static_cast<const std::byte*>(base) + PageSizeBytes(), ring_bytes);
  auto reader = RingReader::Create(RingRegion{head, tail, data});
  if (!reader) {
    ::munmap(base, mapped_bytes);
    return std::move(reader).error();
  }
  return PerfRing(base, mapped_bytes, *std::move(reader));
}

PerfRing::~PerfRing() {
  if (base_ != nullptr) ::munmap(base_, mapped_bytes_);
}

}  // namespace ptarmigan::internal
