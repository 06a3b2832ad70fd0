// StackTable: what the pipeline aggregates while samples arrive, before anything is symbolized: places in code,
// stacks of places, and rows (stack, labels, event) with their sums. Everything distinct is held once; nothing
// here grows with the number of samples.
//
// One thread may add places while another adds stacks and rows; nobody reads what another adds meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/compact_index.h"
#include "base/hash.h"
#include "base/large_pages.h"
#include "model/address_space.h"

namespace ptarmigan::internal {

// A place in code: an offset in an object's file, or a run-time address where the object has no file (kernel,
// JIT, unmapped).
struct Place {
  const CodeObject* object = nullptr;
  uint64_t position = 0;
  // Code of a JIT compiler that was replaced or moved: when it was seen; else kAnyTime.
  static constexpr uint64_t kAnyTime = UINT64_MAX;
  uint64_t time_ns = kAnyTime;
};

// Whether places of the object are offsets in its file.
inline bool HasFilePositions(const CodeObject& object) {
  return object.kind == CodeObject::Kind::kFile || object.kind == CodeObject::Kind::kVdso;
}

struct Row {
  uint32_t stack = 0;
  uint32_t labels = 0;
  uint32_t event = 0;
  uint64_t samples = 0;
  uint64_t weight = 0;  // sum of periods; saturates
};

class StackTable {
 public:
  static constexpr uint32_t kNoRow = UINT32_MAX;
  // Reserve goes no further than this for each of four tables.
  static constexpr size_t kReserveBytesMax = size_t{64} << 20;

  // Sets address space aside for what `records_bytes` of a recording will fill: a table that need not move when it grows
  // is neither copied nor cleared again. What stays unused costs nothing.
  void Reserve(uint64_t records_bytes);

  // `variant` tells code apart that stood at one address at different times; 0 where there is only one.
  uint32_t InternPlace(const Place& place, uint64_t variant = 0);
  // For places that InternPlace is about to be called for, one after the other.
  void Prefetch(const Place& place) const {
    place_index_.Prefetch({place.position, place.object->index});
  }
  // Places are leaf first. The hash is HashOf(places): between computing it, which asks for the memory that InternStack
  // will need, and using it the caller can do something else.
  Hash128 HashOf(std::span<const uint32_t> places) const;
  uint32_t InternStack(std::span<const uint32_t> places, const Hash128& hash);
  uint32_t InternStack(std::span<const uint32_t> places) {
    return InternStack(places, HashOf(places));
  }
  // `stack` is one that InternStack gave out. Returns the row; `likely_row` is where an equal one was added lately.
  // `weight` is that of all `samples`.
  uint32_t Add(uint32_t stack, uint32_t labels, uint32_t event, uint64_t weight,
               uint32_t likely_row = kNoRow, uint64_t samples = 1);
  bool HasRows(uint32_t stack) const { return stacks_[stack].first_row != kNoRow; }
  // As Add, for a row that the caller knows to be new; Add does not find it afterwards unless it is the stack's first.
  uint32_t AppendRow(const Row& row);
  [[gnu::always_inline]] void PrefetchStack(uint32_t stack) const {
    __builtin_prefetch(&stacks_[stack]);
  }
  [[gnu::always_inline]] void PrefetchFirstRow(uint32_t stack) const {
    PrefetchRow(stacks_[stack].first_row);
  }
  [[gnu::always_inline]] void PrefetchRow(uint32_t row) const {
    if (row < rows_.size()) __builtin_prefetch(&rows_[row]);
  }

  const LargeVector<Place>& places() const { return places_; }
  size_t stacks() const { return stacks_.size(); }
  std::span<const uint32_t> Stack(uint32_t stack) const {
    return std::span(frames_).subspan(stacks_[stack].begin, stacks_[stack].count);
  }
  static constexpr uint32_t kNoPlace = UINT32_MAX;
  // The stack's innermost place; kNoPlace if it is empty.
  uint32_t Leaf(uint32_t stack) const {
    return stacks_[stack].count > 0 ? frames_[stacks_[stack].begin] : kNoPlace;
  }
  const LargeVector<Row>& rows() const { return rows_; }
  // The frames of all stacks, one after the other; the stacks are empty afterwards, and nothing may be added.
  LargeVector<uint32_t> TakeFrames();
  // Nothing is added any more: frees what only finding equal things needed.
  void Seal();
  // What the table holds on to (vectors may have reserved up to twice that).
  size_t MemoryBytes() const;

 private:
  static CompactIndex::Key StackKey(const Hash128& hash) {
    return {hash.low, static_cast<uint32_t>(hash.high)};
  }
  struct StackEntry {
    uint64_t begin = 0;  // into frames_
    uint32_t count = 0;
    uint32_t first_row = kNoRow;
  };

  static constexpr size_t kCacheLineBytes = 64;

  LargeVector<Place> places_;
  CompactIndex place_index_;    // (position, object)
  CompactIndex variant_index_;  // (hash of position and variant, object)
  // What the other thread changes stands in cache lines of its own.
  alignas(kCacheLineBytes) LargeVector<uint32_t> frames_;
  LargeVector<StackEntry> stacks_;
  CompactIndex stack_index_;  // 96 bits of the frames' hash
  LargeVector<Row> rows_;
  // (stack and labels, event) of the rows that are not their stack's first: most stacks have one row, which is found
  // without a look-up.
  CompactIndex row_index_;
};

}  // namespace ptarmigan::internal
