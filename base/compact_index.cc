#include "base/compact_index.h"

#include <random>
#include <utility>

namespace ptarmigan {
namespace {

constexpr size_t kSlotsMin = 1024;

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
  LargeVector<Slot>(kSlotsMin).swap(slots_);
  mask_ = kSlotsMin - 1;
  size_ = 0;
  // Linear probing stays short below two thirds.
  capacity_ = kSlotsMin / 8 * 5;
}

void CompactIndex::Grow() {
  LargeVector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  capacity_ = slots_.size() / 8 * 5;
  for (const Slot& moved : old) {
    if (moved.value == kEmpty) continue;
    size_t at = SlotOf({moved.first, moved.second});
    while (slots_[at].value != kEmpty) at = (at + 1) & mask_;
    slots_[at] = moved;
  }
}

}  // namespace ptarmigan
