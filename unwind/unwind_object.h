// UnwindObject: what a walk asks of one object file: the unwind row at an address, quickly the second time.
//
// A row costs some microseconds to make (find the entry, run its instructions). Profiles hit the same addresses again
// and again, so rows are kept by address in a hash table, and equal rows are kept once: about 16 bytes per address.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "elf/elf_file.h"
#include "model/address.h"
#include "unwind/cfi.h"
#include "unwind/unwind_row.h"

namespace ptarmigan {

// Not thread-safe.
class UnwindObject {
 public:
  // Bounds: when one is reached, what is kept is forgotten and made again as needed.
  static constexpr size_t kCachedAddressesMax = size_t{1} << 16;
  static constexpr size_t kCachedRowsMax = size_t{1} << 14;

  // Both files must outlive the object. `debug_file` (may be null) is the object's separate debug file: its
  // .debug_frame answers where the object itself has no row.
  explicit UnwindObject(const ElfFile& file, const ElfFile* debug_file = nullptr);

  const ElfFile& file() const { return file_; }
  // The rules at `pc`; null if there are none. Valid until the next call.
  const UnwindRow* FindRow(FileVaddr pc) {
    const Slot& slot = slots_[SlotIndex(pc)];
    return slot.key == KeyOf(pc) ? slot.row : FindRowSlow(pc);
  }
  // Up to `size_bytes` bytes that the program cannot have changed: from segments that are not writable.
  Bytes ReadOnlyBytes(FileVaddr address, uint64_t size_bytes) const;

  size_t cached_addresses() const { return used_; }
  size_t cached_rows() const { return rows_.size(); }

 private:
  struct Slot {
    uint64_t key = 0;  // 0: empty
    const UnwindRow* row = nullptr;
  };
  // No instruction lies at the last address, so that 0 can mean empty.
  static uint64_t KeyOf(FileVaddr pc) { return pc.value + 1; }
  // The slot that holds `pc`, or the empty one where it would go.
  size_t SlotIndex(FileVaddr pc) const {
    const uint64_t key = KeyOf(pc);
    size_t index = static_cast<size_t>(key * 0x9e3779b97f4a7c15U >> shift_);
    while (slots_[index].key != key && slots_[index].key != 0) index = (index + 1) & mask_;
    return index;
  }
  const UnwindRow* FindRowSlow(FileVaddr pc);
  const UnwindRow* KeepRow(const UnwindRow& row);
  void Resize(size_t slot_count);

  const ElfFile& file_;
  CfiTable cfi_;
  std::unique_ptr<CfiTable> debug_cfi_;
  std::vector<Slot> slots_;  // size is a power of two, at most 3/4 used
  size_t mask_ = 0;
  unsigned shift_ = 0;
  size_t used_ = 0;
  std::deque<UnwindRow> rows_;
  std::unordered_multimap<uint64_t, const UnwindRow*> row_by_hash_;
  UnwindRow scratch_;
};

}  // namespace ptarmigan
