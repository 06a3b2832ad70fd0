#include "unwind/unwind_object.h"

#include <elf.h>

#include <bit>
#include <span>

#include "base/hash.h"

namespace ptarmigan {
namespace {

constexpr size_t kFirstSlots = 64;

uint64_t HashOf(const UnwindRow& row) {
  const uint64_t seed = uint64_t{row.return_register} << 2 | uint64_t{row.signal_frame} << 1 |
                        uint64_t{row.return_address_signed};
  return HashBytes64(std::as_bytes(std::span(row.rules)),
                     HashBytes64(std::as_bytes(std::span(&row.cfa, 1)), seed));
}

}  // namespace

UnwindObject::UnwindObject(const ElfFile& file, const ElfFile* debug_file)
    : file_(file), cfi_(file) {
  if (debug_file != nullptr) debug_cfi_ = std::make_unique<CfiTable>(*debug_file);
  Resize(kFirstSlots);
}

void UnwindObject::Resize(size_t slot_count) {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(slot_count, Slot{});
  mask_ = slot_count - 1;
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(slot_count));
  for (const Slot& slot : old) {
    if (slot.key != 0) slots_[SlotIndex(FileVaddr{slot.key - 1})] = slot;
  }
}

const UnwindRow* UnwindObject::FindRowSlow(FileVaddr pc) {
  if (KeyOf(pc) == 0) return nullptr;
  if (used_ >= kCachedAddressesMax || rows_.size() >= kCachedRowsMax) {
    slots_.clear();
    Resize(kFirstSlots);
    used_ = 0;
    row_by_hash_.clear();
    rows_.clear();
  }
  if ((used_ + 1) * 4 > slots_.size() * 3) Resize(slots_.size() * 2);
  const bool found =
      cfi_.FindRow(pc, &scratch_) || (debug_cfi_ != nullptr && debug_cfi_->FindRow(pc, &scratch_));
  const UnwindRow* row = found ? KeepRow(scratch_) : nullptr;
  slots_[SlotIndex(pc)] = {KeyOf(pc), row};
  ++used_;
  return row;
}

const UnwindRow* UnwindObject::KeepRow(const UnwindRow& row) {
  const uint64_t hash = HashOf(row);
  const auto [first, last] = row_by_hash_.equal_range(hash);
  for (auto entry = first; entry != last; ++entry) {
    if (*entry->second == row) return entry->second;
  }
  rows_.push_back(row);
  row_by_hash_.emplace(hash, &rows_.back());
  return &rows_.back();
}

Bytes UnwindObject::ReadOnlyBytes(FileVaddr address, uint64_t size_bytes) const {
  for (const ElfSegment& segment : file_.segments()) {
    if (segment.type == PT_LOAD && address >= segment.vaddr &&
        address - segment.vaddr < segment.file_bytes) {
      return (segment.flags & PF_W) != 0 ? Bytes() : file_.ReadAt(address, size_bytes);
    }
  }
  return {};
}

}  // namespace ptarmigan
