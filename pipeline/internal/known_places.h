// KnownPlaces: numbers of places by run-time address, as far as they were looked up lately: most frames of a sample stood
// in one before it, and need neither their mapping nor the StackTable's index.
//
// An address means one place as long as its address space stays as it is. So the key holds the space's generation,
// which no other state of any space has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ptarmigan::internal {

class KnownPlaces {
 public:
  // Each address has one slot, which the last one takes. Small enough to stay in the processor's cache.
  static constexpr size_t kSlots = size_t{1} << 14;

  struct Slot {
    uint64_t address = 0;
    uint32_t space = 0;
    uint32_t number = 0;
  };

  // What stands for a space in keys; 0 if nothing of it can be remembered.
  static uint32_t SpaceOf(uint64_t generation) {
    return generation <= std::numeric_limits<uint32_t>::max() ? static_cast<uint32_t>(generation)
                                                              : 0;
  }
  // Where the address is, if it is there.
  uint32_t SlotOf(uint64_t address, uint32_t space) const {
    // The upper bits of the product depend on all bits of the address.
    return static_cast<uint32_t>((address + space * kSpaceStep) * kMixer >> (64 - kSlotBits));
  }
  // `space` is not 0.
  bool Holds(uint32_t slot, uint64_t address, uint32_t space) const {
    return slots_[slot].address == address && slots_[slot].space == space;
  }
  uint32_t Number(uint32_t slot) const { return slots_[slot].number; }
  void Put(uint32_t slot, const Slot& content) { slots_[slot] = content; }
  // What the slot holds gets another number, if it is still what was put in with `old_number`.
  void Renumber(uint32_t slot, uint32_t old_number, uint32_t number) {
    if (slots_[slot].number == old_number) slots_[slot].number = number;
  }
  void Clear() { slots_.assign(kSlots, Slot()); }

 private:
  static constexpr unsigned kSlotBits = 14;
  static_assert(size_t{1} << kSlotBits == kSlots);
  // Odd numbers whose bits have no pattern.
  static constexpr uint64_t kMixer = 0x9e3779b97f4a7c15;
  static constexpr uint64_t kSpaceStep = 0xd1b54a32d192ed03;

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace ptarmigan::internal
