#include "hw/internal/aux_reader.h"

#include <algorithm>
#include <bit>

#include "base/str_format.h"

namespace ptarmigan::internal {

Result<AuxReader> AuxReader::Create(const AuxRegion& region) {
  if (!std::has_single_bit(region.data.size()) || region.data.size() < kSizeBytesMin) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("an AUX area of {} bytes: not a power of two of at least {}",
                           region.data.size(), kSizeBytesMin)};
  }
  return AuxReader(region);
}

uint64_t AuxReader::Drain(const Visitor& visit) {
  const uint64_t size = region_.data.size();
  const uint64_t head = __atomic_load_n(region_.head, __ATOMIC_ACQUIRE);
  // Only we write the tail.
  const uint64_t position = __atomic_load_n(region_.tail, __ATOMIC_RELAXED);
  if (head - position > size) {
    // Cannot happen in an area that is mapped writable: what was there is gone or was never valid.
    ++counts_.overruns;
    counts_.overrun_bytes += head - position;
    __atomic_store_n(region_.tail, head, __ATOMIC_RELEASE);
    return 0;
  }
  const uint64_t count = head - position;
  if (count == 0) return 0;
  const uint64_t place = position & (size - 1);
  const uint64_t until_end = std::min(count, size - place);
  visit(position, region_.data.subspan(place, until_end), region_.data.first(count - until_end));
  __atomic_store_n(region_.tail, head, __ATOMIC_RELEASE);
  counts_.bytes += count;
  return count;
}

uint64_t AuxReader::Snapshot(const Visitor& visit) {
  const uint64_t size = region_.data.size();
  const uint64_t place = __atomic_load_n(region_.head, __ATOMIC_ACQUIRE) & (size - 1);
  // A gap of a whole area stands between snapshots, so that nobody takes one for the other's continuation.
  const uint64_t offset = snapshots_ * 2 * size;
  const Bytes newer = region_.data.first(place);
  const Bytes older = region_.data.subspan(place);
  // The kernel gives zeroed pages; until the tracer has been round once, nothing stands behind the head.
  const bool been_round =
      std::any_of(older.begin(), older.end(), [](std::byte byte) { return byte != std::byte{0}; });
  const uint64_t bytes = been_round ? size : place;
  if (bytes == 0) return 0;
  ++snapshots_;
  if (been_round)
    visit(offset, older, newer);
  else
    visit(offset, newer, {});
  counts_.bytes += bytes;
  return bytes;
}

}  // namespace ptarmigan::internal
