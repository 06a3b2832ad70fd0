// AuxReader: the protocol of a perf AUX area over plain memory, so that it is tested without a kernel.
//
//   full trace (mapped writable)        tail (ours) ≤ head (the kernel's), both count bytes for ever; place = count % size.
//                                       The kernel stops one byte before the area would be full (TRUNCATED).
//   snapshot (mapped read-only)         the kernel goes round and round; head is the place where it would write next, not
//                                       a count; there is no tail. Only to be read while the tracer is off.
//
// As with the data ring, what stands before an acquired head may be read, and the tail is released after reading
// (kernel/events/ring_buffer.c, Linux 6.18). The area is not trusted: a head that cannot be true is counted. One thread at a
// time.
#pragma once

#include <cstdint>
#include <functional>

#include "base/byte_cursor.h"
#include "base/result.h"

namespace ptarmigan::internal {

// Where an AUX area lies; all pointers outlive the reader.
struct AuxRegion {
  const uint64_t* head = nullptr;  // written by the kernel
  uint64_t* tail = nullptr;        // written by us; null: snapshot
  Bytes data;                      // a power of two
};

struct AuxCounts {
  uint64_t bytes = 0;     // handed out
  uint64_t overruns = 0;  // the head ran past us: what was between is gone
  uint64_t overrun_bytes = 0;
};

class AuxReader {
 public:
  // kInvalidInput if the size is no power of two of at least kSizeBytesMin.
  static Result<AuxReader> Create(const AuxRegion& region);
  static constexpr uint64_t kSizeBytesMin = 64;

  // `offset` counts all bytes of this area, gaps included. `rest` follows `bytes`, where the area wraps.
  using Visitor = std::function<void(uint64_t offset, Bytes bytes, Bytes rest)>;

  // Hands out what is there, in one call if there is anything, and gives it back to the kernel. Full trace only.
  uint64_t Drain(const Visitor& visit);
  // Hands out what the area holds, oldest byte first. Snapshot only. The offsets of two snapshots never join.
  uint64_t Snapshot(const Visitor& visit);

  bool is_snapshot() const { return region_.tail == nullptr; }
  const AuxCounts& counts() const { return counts_; }
  uint64_t size() const { return region_.data.size(); }

 private:
  explicit AuxReader(const AuxRegion& region) : region_(region) {}

  AuxRegion region_;
  AuxCounts counts_;
  uint64_t snapshots_ = 0;
};

}  // namespace ptarmigan::internal
