// CompactIndex: from keys of 96 bits to numbers, in slots of 16 bytes: what a general hash map spends on padding and
// control bytes is a cache miss more for each look-up, and look-ups of places and stacks are what importing a recording
// consists of. Nothing is ever removed.
//
// Where the bits of a key come from outside, a random number of this process is mixed in, so that nobody can choose
// keys that share a slot. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/large_pages.h"

namespace ptarmigan {

class CompactIndex {
 public:
  struct Key {
    uint64_t first = 0;
    uint32_t second = 0;
    bool operator==(const Key&) const = default;
  };
  // Values lie below this.
  static constexpr uint32_t kValueLimit = UINT32_MAX;

  CompactIndex();

  // Asks for the memory in which `key` will be looked for. Worth it where several keys are known before the first is
  // needed.
  // (always_inline: calls of a function that does nothing else are dropped.)
  [[gnu::always_inline]] void Prefetch(const Key& key) const {
    __builtin_prefetch(&slots_[SlotOf(key)]);
  }
  // The value that stands for `key`. A new key gets `value`: then it is what is returned and size() has grown.
  uint32_t FindOrInsert(const Key& key, uint32_t value) {
    for (size_t at = SlotOf(key);; at = (at + 1) & mask_) {
      Slot& slot = slots_[at];
      if (slot.value == kEmpty) {
        slot = {key.first, key.second, value};
        if (++size_ > capacity_) Rehash(slots_.size() * 2);
        return value;
      }
      if (slot.first == key.first && slot.second == key.second) return slot.value;
    }
  }
  bool Contains(const Key& key) const {
    for (size_t at = SlotOf(key); slots_[at].value != kEmpty; at = (at + 1) & mask_) {
      if (slots_[at].first == key.first && slots_[at].second == key.second) return true;
    }
    return false;
  }
  // Makes room for this many keys in all.
  void Reserve(size_t keys);
  size_t size() const { return size_; }
  size_t MemoryBytes() const { return slots_.size() * sizeof(Slot); }
  // Frees the memory; the index is empty.
  void Clear();

 private:
  static constexpr uint32_t kEmpty = kValueLimit;
  __extension__ using Wide = unsigned __int128;
  struct Slot {
    uint64_t first = 0;
    uint32_t second = 0;
    uint32_t value = kEmpty;
  };

  size_t SlotOf(const Key& key) const {
    const Wide product = static_cast<Wide>(key.first ^ seeds_[0]) * (key.second ^ seeds_[1]);
    return (static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64)) & mask_;
  }
  void Rehash(size_t slots);

  LargeVector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
  size_t capacity_ = 0;  // grows beyond this many
  uint64_t seeds_[2];
};

}  // namespace ptarmigan
