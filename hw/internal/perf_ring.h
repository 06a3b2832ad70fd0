// PerfRing: the mapped ring of one CPU, owned. The descriptor that it was mapped from is borrowed for Map only; the
// mapping keeps the kernel's buffer alive.
#pragma once

#include <cstdint>
#include <utility>

#include "hw/internal/ring_reader.h"

namespace ptarmigan::internal {

class PerfRing {
 public:
  // `ring_bytes`: a power of two, at least a page. Returns the errno in the error; see ExplainMapError.
  static Result<PerfRing> Map(int fd, uint64_t ring_bytes);
  PerfRing(PerfRing&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        mapped_bytes_(other.mapped_bytes_),
        reader_(std::move(other.reader_)) {}
  PerfRing& operator=(PerfRing&&) = delete;
  ~PerfRing();

  RingReader& reader() { return reader_; }
  const RingReader& reader() const { return reader_; }
  uint64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  PerfRing(void* base, uint64_t mapped_bytes, RingReader reader)
      : base_(base), mapped_bytes_(mapped_bytes), reader_(std::move(reader)) {}

  void* base_;
  uint64_t mapped_bytes_;
  RingReader reader_;
};

}  // namespace ptarmigan::internal
