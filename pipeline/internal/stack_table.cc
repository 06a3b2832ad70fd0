#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {

uint32_t StackTable::InternPlace(const Place& place, uint64_t variant) {
  const auto [found, is_new] =
      place_index_.try_emplace(PlaceKey{place.object->index, place.position, variant},
                               static_cast<uint32_t>(places_.size()));
  if (is_new) places_.push_back(place);
  return found->second;
}

uint32_t StackTable::InternStack(std::span<const uint32_t> places) {
  const auto [found, is_new] = stack_index_.try_emplace(HashBytes128(std::as_bytes(places)),
                                                        static_cast<uint32_t>(stacks()));
  if (is_new) {
    frames_.insert(frames_.end(), places.begin(), places.end());
    stack_begin_.push_back(frames_.size());
  }
  return found->second;
}

void StackTable::Add(uint32_t stack, uint32_t labels, uint32_t event, uint64_t weight) {
  const auto [found, is_new] = row_index_.try_emplace(RowKey{uint64_t{stack} << 32 | labels, event},
                                                      static_cast<uint32_t>(rows_.size()));
  if (is_new) rows_.push_back({.stack = stack, .labels = labels, .event = event});
  Row& row = rows_[found->second];
  ++row.samples;
  if (__builtin_add_overflow(row.weight, weight, &row.weight)) row.weight = UINT64_MAX;
}

void StackTable::Seal() {
  decltype(place_index_)().swap(place_index_);
  decltype(stack_index_)().swap(stack_index_);
  decltype(row_index_)().swap(row_index_);
}

size_t StackTable::MemoryBytes() const {
  // Index entries: key, value and about a quarter of empty slots.
  const size_t per_place = sizeof(Place) + (sizeof(PlaceKey) + sizeof(uint32_t)) * 5 / 4;
  const size_t per_stack = sizeof(size_t) + (sizeof(Hash128) + sizeof(uint32_t)) * 5 / 4;
  const size_t per_row = sizeof(Row) + (sizeof(RowKey) + sizeof(uint32_t)) * 5 / 4;
  return places_.size() * per_place + stacks() * per_stack + frames_.size() * sizeof(uint32_t) +
         rows_.size() * per_row;
}

}  // namespace ptarmigan::internal
