// EventMerger: puts records into time order. It holds references to records, never parsed events.
//
// A recording is a row of rounds: in each, the recorder empties one ring after the other, so that times rise within
// a ring's run and fall back where the next run starts. When a round ends, everything up to the newest time seen by
// the end of the round before can be released: a record that old was in its ring when this round read it.
//
//        round 1                round 2                     Release at the end of round 2
//   | 1 4 7 | 2 3 9 |  9  | 8 10 | 11 12 |  12  |  -->  1 2 3 4 7 8 9    (10 11 12 wait)
//    ring 0  ring 1   newest ring 0 ring 1  newest
//
// Recordings without rounds (and rings that fill up faster) are bounded by kRecordsMax: when that many wait, the
// older half is released. A record that comes after a newer one was released is delivered with the next release and
// counted. Equal times keep the order in which they were added.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_cursor.h"
#include "base/large_pages.h"

namespace ptarmigan {

class EventMerger {
 public:
  // Waiting references, 24 bytes each (and as much again while they are sorted).
  static constexpr size_t kRecordsMax = size_t{1} << 18;

  struct Reference {
    uint64_t time_ns = 0;
    const std::byte* data = nullptr;
    uint32_t size_bytes = 0;
    uint32_t block = 0;  // the owner's business
  };

  explicit EventMerger(size_t records_max = kRecordsMax) : records_max_(records_max) {}

  void Add(const Reference& reference) {
    if (reference.time_ns < released_ns_) ++late_;
    if (reference.time_ns > newest_ns_) newest_ns_ = reference.time_ns;
    waiting_.push_back(reference);
  }
  bool full() const { return waiting_.size() >= records_max_; }
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  // The newest time added so far.
  uint64_t newest_ns() const { return newest_ns_; }
  // Records that came after a newer one had been released.
  uint64_t late() const { return late_; }
  // The references that wait, in the order in which they were added.
  std::span<const Reference> waiting() const { return waiting_; }

  // Each of these returns what is released, in order, valid until the next call of any of them.
  std::span<const Reference> EndRound();
  std::span<const Reference> ReleaseOlderHalf();
  std::span<const Reference> ReleaseAll();
  // Frees memory that nothing waits in. What was released is invalid.
  void FreeSpare();

 private:
  std::span<const Reference> ReleaseUpTo(uint64_t time_ns);
  void SortReleased();

  size_t records_max_;
  LargeVector<Reference> waiting_;
  LargeVector<Reference> released_;
  LargeVector<Reference> scratch_;
  std::vector<size_t> run_ends_;
  uint64_t newest_ns_ = 0;
  uint64_t previous_round_ns_ = 0;
  uint64_t released_ns_ = 0;
  uint64_t late_ = 0;
};

}  // namespace ptarmigan
