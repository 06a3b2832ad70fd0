// PerfRing: the mapped ring of one CPU, owned, with its AUX area if it has one. The descriptor that it was mapped from is
// borrowed for Map only; the mappings keep the kernel's buffers alive, and the kernel interface outlives the ring.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "hw/internal/aux_reader.h"
#include "hw/internal/ring_reader.h"
#include "hw/perf_kernel.h"

namespace ptarmigan::internal {

// How time-stamp counter ticks become perf's own clock (perf_event_mmap_page, cap_user_time_zero):
// ns = zero + (ticks * mult >> shift), where bits of `mask` above what was counted since `cycles` are corrected if
// `is_short` (cap_user_time_short).
struct ClockConversion {
  uint16_t shift = 0;
  uint32_t mult = 0;
  uint64_t zero = 0;
  uint64_t cycles = 0;
  uint64_t mask = 0;
  bool has_zero = false;
  bool is_short = false;
};

class PerfRing {
 public:
  // `ring_bytes`: a power of two, at least a page. Returns the errno in the error; see ExplainMapError.
  static Result<PerfRing> Map(PerfKernel& kernel, int fd, uint64_t ring_bytes);
  PerfRing(PerfRing&& other) noexcept
      : kernel_(other.kernel_),
        base_(std::exchange(other.base_, nullptr)),
        mapped_bytes_(other.mapped_bytes_),
        reader_(std::move(other.reader_)),
        aux_base_(std::exchange(other.aux_base_, nullptr)),
        aux_bytes_(other.aux_bytes_),
        aux_(std::move(other.aux_)) {}
  PerfRing& operator=(PerfRing&&) = delete;
  ~PerfRing();

  // Adds an AUX area of `bytes` (a power of two, at least a page) to the ring, which must be that of `fd`, whose PMU fills
  // it. A snapshot area is mapped read-only: the tracer overwrites what is old.
  Status MapAux(int fd, uint64_t bytes, bool is_snapshot);

  RingReader& reader() { return reader_; }
  const RingReader& reader() const { return reader_; }
  uint64_t mapped_bytes() const { return mapped_bytes_; }
  // Null without an AUX area.
  AuxReader* aux() { return aux_ ? &*aux_ : nullptr; }
  const AuxReader* aux() const { return aux_ ? &*aux_ : nullptr; }
  ClockConversion clock() const;

 private:
  PerfRing(PerfKernel& kernel, void* base, uint64_t mapped_bytes, RingReader reader)
      : kernel_(&kernel), base_(base), mapped_bytes_(mapped_bytes), reader_(std::move(reader)) {}

  PerfKernel* kernel_;
  void* base_;
  uint64_t mapped_bytes_;
  RingReader reader_;
  void* aux_base_ = nullptr;
  uint64_t aux_bytes_ = 0;
  std::optional<AuxReader> aux_;
};

}  // namespace ptarmigan::internal
