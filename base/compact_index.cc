#include "base/compact_index.h"

#include <random>
#include <utility>

namespace ptarmigan {
namespace {

constexpr size_t kSlotsMin = 1024;

// Linear probing stays short below two thirds.
constexpr size_t CapacityOf(size_t slots) { return slots / 8 * 5; }

uint64_t RandomWord() {
  static std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

CompactIndex::CompactIndex() {
  for (uint64_t& seed : seeds_) seed = RandomWord() | 1;
  Clear();
}

void CompactIndex::Clear() {
  LargeVector<Slot>().swap(slots_);
  size_ = 0;
  Rehash(kSlotsMin);
}

void CompactIndex::Reserve(size_t keys) {
  size_t slots = slots_.size();
  while (CapacityOf(slots) < keys) slots *= 2;
  if (slots != slots_.size()) Rehash(slots);
}

void CompactIndex::Rehash(size_t slots) {
  LargeVector<Slot> old(slots);
  old.swap(slots_);
  mask_ = slots - 1;
  capacity_ = CapacityOf(slots);
  for (const Slot& moved : old) {
    if (moved.value == kEmpty) continue;
    size_t at = SlotOf({moved.first, moved.second});
    while (slots_[at].value != kEmpty) at = (at + 1) & mask_;
    slots_[at] = moved;
  }
}

}  // namespace ptarmigan
