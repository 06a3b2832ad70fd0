#include "hw/internal/perf_ring.h"

#include <linux/perf_event.h>

#include <atomic>

#include "base/file.h"

namespace ptarmigan::internal {
namespace {

// The kernel rewrites the clock while `lock` is odd; it does so for some instructions only.
constexpr int kClockTriesMax = 1000;

perf_event_mmap_page* PageOf(void* base) { return static_cast<perf_event_mmap_page*>(base); }

}  // namespace

Result<PerfRing> PerfRing::Map(PerfKernel& kernel, int fd, uint64_t ring_bytes) {
  const uint64_t mapped_bytes = ring_bytes + PageSizeBytes();
  int error = 0;
  void* base = kernel.Map(fd, mapped_bytes, 0, /*writable=*/true, &error);
  if (base == nullptr) return ErrnoError("mmap", error);
  perf_event_mmap_page* page = PageOf(base);
  static_assert(sizeof(page->data_head) == sizeof(uint64_t));
  auto* head = reinterpret_cast<const uint64_t*>(&page->data_head);
  auto* tail = reinterpret_cast<uint64_t*>(&page->data_tail);
  const Bytes data(static_cast<const std::byte*>(base) + PageSizeBytes(), ring_bytes);
  auto reader = RingReader::Create(RingRegion{head, tail, data});
  if (!reader) {
    kernel.Unmap(base, mapped_bytes);
    return std::move(reader).error();
  }
  return PerfRing(kernel, base, mapped_bytes, *std::move(reader));
}

Status PerfRing::MapAux(int fd, uint64_t bytes, bool is_snapshot) {
  perf_event_mmap_page* page = PageOf(base_);
  // Both must be set before the area is mapped; it lies behind the ring.
  page->aux_offset = mapped_bytes_;
  page->aux_size = bytes;
  int error = 0;
  void* base = kernel_->Map(fd, bytes, mapped_bytes_, !is_snapshot, &error);
  if (base == nullptr) return ErrnoError("mmap of the AUX area", error);
  AuxRegion region;
  region.head = reinterpret_cast<const uint64_t*>(&page->aux_head);
  region.tail = is_snapshot ? nullptr : reinterpret_cast<uint64_t*>(&page->aux_tail);
  region.data = Bytes(static_cast<const std::byte*>(base), bytes);
  auto reader = AuxReader::Create(region);
  if (!reader) {
    kernel_->Unmap(base, bytes);
    return std::move(reader).error();
  }
  aux_base_ = base;
  aux_bytes_ = bytes;
  aux_.emplace(*std::move(reader));
  return OkStatus();
}

ClockConversion PerfRing::clock() const {
  const auto* page = static_cast<const volatile perf_event_mmap_page*>(base_);
  ClockConversion clock;
  for (int i = 0; i < kClockTriesMax; ++i) {
    const uint32_t before = page->lock;
    std::atomic_thread_fence(std::memory_order_acquire);
    clock.shift = page->time_shift;
    clock.mult = page->time_mult;
    clock.zero = page->time_zero;
    clock.cycles = page->time_cycles;
    clock.mask = page->time_mask;
    clock.has_zero = page->cap_user_time_zero != 0;
    clock.is_short = page->cap_user_time_short != 0;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (page->lock == before && (before & 1) == 0) return clock;
  }
  clock.has_zero = false;
  return clock;
}

PerfRing::~PerfRing() {
  // The AUX area first: the ring owns it in the kernel.
  if (aux_base_ != nullptr) kernel_->Unmap(aux_base_, aux_bytes_);
  if (base_ != nullptr) kernel_->Unmap(base_, mapped_bytes_);
}

}  // namespace ptarmigan::internal
