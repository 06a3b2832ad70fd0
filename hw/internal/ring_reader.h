// RingReader: the protocol of a perf ring over a plain memory region, so that it is tested without a kernel.
//
//        tail (ours)                    head (the kernel's)
//          v                              v
//   |......[rec][record][rec][  record   ]......|     both count bytes for ever; place = count % size
//
// The kernel writes records, then releases `head`; we acquire `head`, read, then release `tail`, after which the
// kernel may overwrite (Documentation in tools/include/linux/ring_buffer.h, Linux 6.18). A record that wraps around
// the end is put together in a scratch buffer, others are handed out in place.
//
// The region is not trusted: a head that is too far ahead or a record whose size cannot be true is counted, and
// reading goes on at the head. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/event_source.h"

namespace ptarmigan::internal {

// Where a ring lies; all pointers outlive the reader.
struct RingRegion {
  const uint64_t* head = nullptr;  // written by the kernel
  uint64_t* tail = nullptr;        // written by us
  Bytes data;                      // a power of two
};

struct RingCounts {
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t overruns = 0;       // the head ran past us
  uint64_t corrupt_bytes = 0;  // given up because a header could not be true, or overrun
};

class RingReader {
 public:
  // kInvalidInput if the size is not a power of two of at least one page-like unit (kSizeBytesMin).
  static Result<RingReader> Create(const RingRegion& region);
  static constexpr uint64_t kSizeBytesMin = 64;

  // Hands out what the ring held when the call began, at most its size. Space is given back to the kernel while
  // reading, in steps of an eighth of the ring. Returns the bytes consumed.
  uint64_t Read(RawRecordSink& sink, uint32_t stream);

  const RingCounts& counts() const { return counts_; }

 private:
  explicit RingReader(const RingRegion& region) : region_(region) {}

  // `count` bytes at `position`, in place or from the scratch buffer.
  Bytes At(uint64_t position, uint64_t count);
  void ReleaseTail(uint64_t position);

  RingRegion region_;
  RingCounts counts_;
  std::vector<std::byte> scratch_;
};

}  // namespace ptarmigan::internal
