#include "hw/internal/ring_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/str_format.h"
#include "hw/internal/attr_bits.h"

namespace ptarmigan::internal {

Result<RingReader> RingReader::Create(const RingRegion& region) {
  if (!std::has_single_bit(region.data.size()) || region.data.size() < kSizeBytesMin) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("a ring of {} bytes: not a power of two of at least {}",
                           region.data.size(), kSizeBytesMin)};
  }
  return RingReader(region);
}

Bytes RingReader::At(uint64_t position, uint64_t count) {
  const uint64_t size = region_.data.size();
  const uint64_t offset = position & (size - 1);
  const uint64_t until_end = size - offset;
  if (count <= until_end) return region_.data.subspan(offset, count);
  scratch_.resize(kRecordBytesMax);
  std::memcpy(scratch_.data(), region_.data.data() + offset, until_end);
  std::memcpy(scratch_.data() + until_end, region_.data.data(), count - until_end);
  return Bytes(scratch_).first(count);
}

void RingReader::ReleaseTail(uint64_t position) {
  __atomic_store_n(region_.tail, position, __ATOMIC_RELEASE);
}

uint64_t RingReader::Read(RawRecordSink& sink, uint32_t stream) {
  const uint64_t size = region_.data.size();
  const uint64_t head = __atomic_load_n(region_.head, __ATOMIC_ACQUIRE);
  // Only we write the tail.
  const uint64_t start = __atomic_load_n(region_.tail, __ATOMIC_RELAXED);
  if (head - start > size) {
    // Cannot happen in a ring that the kernel writes forward: what was there is gone or was never valid.
    ++counts_.overruns;
    counts_.corrupt_bytes += size;
    ReleaseTail(head);
    return 0;
  }
  const uint64_t release_step = std::max<uint64_t>(size / 8, 1);
  uint64_t position = start;
  uint64_t released = start;
  while (head - position >= kRecordHeaderBytes) {
    uint16_t record_size = 0;
    std::memcpy(&record_size, At(position, kRecordHeaderBytes).data() + 6, sizeof(record_size));
    if (record_size < kRecordHeaderBytes || record_size > head - position) break;
    sink.OnRecord(RawRecord{At(position, record_size), stream});
    ++counts_.records;
    counts_.bytes += record_size;
    position += record_size;
    if (position - released >= release_step) {
      ReleaseTail(position);
      released = position;
    }
  }
  counts_.corrupt_bytes += head - position;
  ReleaseTail(head);
  return head - start;
}

}  // namespace ptarmigan::internal
