#include "hw/internal/perf_ring.h"

#include <linux/perf_event.h>

#include "base/file.h"

namespace ptarmigan::internal {
namespace {

// The kernel rewrites the clock while `lock` is odd; it does so for some instructions only.
constexpr int kClockTriesMax = 1000;
// perf_event_mmap_page::capabilities
constexpr uint64_t kCapUserTimeZero = 1U << 4;
constexpr uint64_t kCapUserTimeShort = 1U << 5;

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
  // Each load is an acquire: the kernel's second change of `lock` is seen after everything that was read before.
  const auto load = [](const auto* field) { return __atomic_load_n(field, __ATOMIC_ACQUIRE); };
  const perf_event_mmap_page* page = PageOf(base_);
  ClockConversion clock;
  for (int i = 0; i < kClockTriesMax; ++i) {
    const uint32_t before = load(&page->lock);
    clock.shift = load(&page->time_shift);
    clock.mult = load(&page->time_mult);
    clock.zero = load(&page->time_zero);
    clock.cycles = load(&page->time_cycles);
    clock.mask = load(&page->time_mask);
    const uint64_t capabilities = load(&page->capabilities);
    clock.has_zero = (capabilities & kCapUserTimeZero) != 0;
    clock.is_short = (capabilities & kCapUserTimeShort) != 0;
    if (load(&page->lock) == before && (before & 1) == 0) return clock;
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
