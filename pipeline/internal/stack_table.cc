#include "pipeline/internal/stack_table.h"

#include <algorithm>
#include <utility>

namespace ptarmigan::internal {

void StackTable::Reserve(uint64_t records_bytes) {
  // A frame is recorded in 8 bytes, a sample in some 64 and more.
  constexpr uint64_t kFrameBytes = 8;
  constexpr uint64_t kSampleBytes = 64;
  const auto reserve = [](auto* table, uint64_t entries) {
    const size_t entry_bytes = sizeof((*table)[0]);
    table->reserve(
        static_cast<size_t>(std::min<uint64_t>(entries, kReserveBytesMax / entry_bytes)));
  };
  reserve(&frames_, records_bytes / kFrameBytes);
  reserve(&rows_, records_bytes / kSampleBytes);
  reserve(&stacks_, records_bytes / kSampleBytes);
  reserve(&places_, records_bytes / kSampleBytes);
}

uint32_t StackTable::InternPlace(const Place& place, uint64_t variant) {
  const auto next = static_cast<uint32_t>(places_.size());
  const uint32_t object = place.object->index;
  uint32_t found = 0;
  if (variant == 0) {
    found = place_index_.FindOrInsert({place.position, object}, next);
  } else {
    const uint64_t words[] = {place.position, variant};
    found =
        variant_index_.FindOrInsert({HashBytes64(std::as_bytes(std::span(words))), object}, next);
  }
  if (found == next) places_.push_back(place);
  return found;
}

Hash128 StackTable::HashOf(std::span<const uint32_t> places) const {
  const Hash128 hash = HashBytes128(std::as_bytes(places));
  stack_index_.Prefetch(StackKey(hash));
  return hash;
}

uint32_t StackTable::InternStack(std::span<const uint32_t> places, const Hash128& hash) {
  const auto next = static_cast<uint32_t>(stacks_.size());
  const uint32_t found = stack_index_.FindOrInsert(StackKey(hash), next);
  if (found == next) {
    stacks_.push_back({.begin = frames_.size(), .count = static_cast<uint32_t>(places.size())});
    frames_.insert(frames_.end(), places.begin(), places.end());
  }
  return found;
}

uint32_t StackTable::Add(uint32_t stack, uint32_t labels, uint32_t event, uint64_t weight,
                         uint32_t likely_row, uint64_t samples) {
  const auto is_it = [&](uint32_t row) {
    return rows_[row].stack == stack && rows_[row].labels == labels && rows_[row].event == event;
  };
  uint32_t found = likely_row;
  if (likely_row >= rows_.size() || !is_it(likely_row)) {
    const auto next = static_cast<uint32_t>(rows_.size());
    uint32_t& first = stacks_[stack].first_row;
    found = first;
    if (first == kNoRow) {
      first = found = next;
    } else if (!is_it(first)) {
      found = row_index_.FindOrInsert({uint64_t{stack} << 32 | labels, event}, next);
    }
    if (found == next) rows_.push_back({.stack = stack, .labels = labels, .event = event});
  }
  Row& row = rows_[found];
  row.samples += samples;
  if (__builtin_add_overflow(row.weight, weight, &row.weight)) row.weight = UINT64_MAX;
  return found;
}

uint32_t StackTable::AppendRow(const Row& row) {
  const auto index = static_cast<uint32_t>(rows_.size());
  uint32_t& first = stacks_[row.stack].first_row;
  if (first == kNoRow) first = index;
  rows_.push_back(row);
  return index;
}

LargeVector<uint32_t> StackTable::TakeFrames() {
  for (StackEntry& stack : stacks_) stack.count = 0;
  return std::move(frames_);
}

void StackTable::Seal() {
  place_index_.Clear();
  variant_index_.Clear();
  stack_index_.Clear();
  row_index_.Clear();
}

size_t StackTable::MemoryBytes() const {
  return places_.size() * sizeof(Place) + stacks_.size() * sizeof(StackEntry) +
         frames_.size() * sizeof(uint32_t) + rows_.size() * sizeof(Row) +
         place_index_.MemoryBytes() + variant_index_.MemoryBytes() + stack_index_.MemoryBytes() +
         row_index_.MemoryBytes();
}

}  // namespace ptarmigan::internal
