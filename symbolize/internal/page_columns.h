// From packed pages of a `.sym` file (docs/formats/sym.md) to columns of numbers in memory that can be searched.
#pragma once

#include <zstd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "symbolize/internal/page_arena.h"
#include "symbolize/internal/sym_format.h"

namespace ptarmigan::internal {

// One packed page as the directory describes it; checked to lie inside the file.
struct PageEntry {
  uint64_t offset = 0;
  uint32_t packed_bytes = 0;
  uint32_t raw_bytes = 0;
};

// What unpacking needs beside the page: made once for each thread, because it costs more than a page.
class Unpacker {
 public:
  static Unpacker& OfThisThread() {
    static thread_local Unpacker unpacker;
    return unpacker;
  }

  // Unpacks a page into `raw`, which has room for it and for ColumnReader behind it.
  bool Unpack(Bytes file, const PageEntry& entry, std::span<uint8_t> raw) {
    std::memset(raw.data() + entry.raw_bytes, 0, ColumnReader::kPadding);
    const Bytes packed = SubspanOrEmpty(file, entry.offset, entry.packed_bytes);
    if (decompressor_ == nullptr) decompressor_.reset(ZSTD_createDCtx());
    const size_t unpacked = ZSTD_decompressDCtx(decompressor_.get(), raw.data(), entry.raw_bytes,
                                                packed.data(), packed.size());
    return ZSTD_isError(unpacked) == 0 && unpacked == entry.raw_bytes;
  }
  // Room for `count` numbers, until the next call.
  std::span<uint32_t> Scratch(size_t count) {
    if (numbers_.size() < count) numbers_.resize(count);
    return {numbers_.data(), count};
  }
  // Unpacks it into memory that holds it until the next call; empty if it is damaged.
  std::optional<std::span<const uint8_t>> Unpack(Bytes file, const PageEntry& entry) {
    const size_t room = entry.raw_bytes + ColumnReader::kPadding;
    if (room > scratch_bytes_ || scratch_bytes_ > kScratchBytesKept) {
      scratch_bytes_ = std::max(room, kScratchBytesMin);
      scratch_ = std::make_unique_for_overwrite<uint8_t[]>(scratch_bytes_);
    }
    if (!Unpack(file, entry, {scratch_.get(), room})) return std::nullopt;
    return std::span<const uint8_t>(scratch_.get(), entry.raw_bytes);
  }

 private:
  static constexpr size_t kScratchBytesMin = size_t{64} << 10;
  static constexpr size_t kScratchBytesKept = size_t{1} << 20;

  struct Free {
    void operator()(ZSTD_DCtx* decompressor) const { ZSTD_freeDCtx(decompressor); }
  };

  std::unique_ptr<ZSTD_DCtx, Free> decompressor_;
  std::vector<uint32_t> numbers_;  // at most kSymNodesMax
  std::unique_ptr<uint8_t[]> scratch_;
  size_t scratch_bytes_ = 0;
};

// Rising offsets from differences; false if they leave 32 bits.
inline bool AccumulateRising(std::span<uint32_t> values) {
  uint32_t sum = 0;
  for (uint32_t& value : values) {
    if (__builtin_add_overflow(sum, value, &sum)) return false;
    value = sum;
  }
  return true;
}

// The number of entries at or before `offset` in a rising list. Without branches on the values: which way they go
// is random here, and a wrong guess costs more than the comparisons.
inline size_t CountAtOrBefore(std::span<const uint32_t> starts, uint32_t offset) {
  const uint32_t* first = starts.data();
  size_t count = starts.size();
  while (count > 1) {
    const size_t half = count / 2;
    first += first[half - 1] <= offset ? half : 0;
    count -= half;
  }
  const auto before = static_cast<size_t>(first - starts.data());
  return before + (count == 1 && *first <= offset ? 1 : 0);
}

// The numbers of an unpacked column. Touching fresh memory costs more than unpacking does, so each takes only as many
// bytes as the widest needs, counted from the smallest.
class Column {
 public:
  uint32_t operator[](size_t i) const {
    switch (width_) {
      case 0:
        return smallest_;
      case 1:
        return smallest_ + static_cast<const uint8_t*>(numbers_)[i];
      case 2:
        return smallest_ + static_cast<const uint16_t*>(numbers_)[i];
      default:
        return smallest_ + static_cast<const uint32_t*>(numbers_)[i];
    }
  }

  static Column Make(std::span<const uint32_t> values, uint32_t smallest, uint32_t largest,
                     PageArena* arena) {
    Column column;
    column.smallest_ = smallest;
    const uint32_t range = largest - smallest;
    if (range == 0) return column;
    if (range <= UINT8_MAX) {
      column.Fill<uint8_t>(values, arena);
    } else if (range <= UINT16_MAX) {
      column.Fill<uint16_t>(values, arena);
    } else {
      column.Fill<uint32_t>(values, arena);
    }
    return column;
  }

 private:
  template <typename T>
  void Fill(std::span<const uint32_t> values, PageArena* arena) {
    const std::span<T> numbers = arena->Make<T>(values.size());
    for (size_t i = 0; i < values.size(); ++i) numbers[i] = static_cast<T>(values[i] - smallest_);
    numbers_ = numbers.data();
    width_ = sizeof(T);
  }

  const void* numbers_ = nullptr;
  uint32_t smallest_ = 0;
  uint32_t width_ = 0;  // bytes of each; 0: all are the smallest
};

// Reads columns into scratch memory and packs them from there.
class ColumnPacker {
 public:
  enum class Kind { kPlain, kDifferences, kRising };

  ColumnPacker(const uint8_t* bytes, size_t size, PageArena* arena)
      : reader_(bytes, size), arena_(arena) {}

  // All values are at most `value_max`, or it is damaged.
  template <Kind kKind>
  bool Read(size_t count, Column* column, uint32_t value_max = UINT32_MAX) {
    if (reader_.SkipZeros(count)) {
      *column = Column();
      return true;
    }
    const std::span values = Unpacker::OfThisThread().Scratch(count);
    if (!reader_.Read(values)) return false;
    uint32_t smallest = UINT32_MAX;
    uint32_t largest = 0;
    uint32_t sum = 0;
    for (uint32_t& value : values) {
      if constexpr (kKind == Kind::kDifferences) value = sum += UnZigZag(value);
      if constexpr (kKind == Kind::kRising) {
        if (__builtin_add_overflow(sum, value, &sum)) return false;
        value = sum;
      }
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
    }
    *column = Column::Make(values, smallest, largest, arena_);
    return largest <= value_max;
  }
  // Reads the distances to parents, and makes of them how many nodes with a parent stand before each. `with_parent`
  // counts them all. A parent stands before its children, so that chains end; else it is damaged.
  bool ReadParents(size_t count, Column* parents, Column* before, size_t* with_parent) {
    *with_parent = 0;
    *parents = *before = Column();
    if (reader_.SkipZeros(count)) return true;
    const std::span values = Unpacker::OfThisThread().Scratch(count);
    if (!reader_.Read(values)) return false;
    uint32_t largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] > i) return false;
      largest = std::max(largest, values[i]);
    }
    *parents = Column::Make(values, 0, largest, arena_);
    uint32_t inlined = 0;
    for (uint32_t& value : values) inlined += std::exchange(value, inlined) != 0 ? 1U : 0U;
    *before = Column::Make(values, 0, inlined, arena_);
    *with_parent = inlined;
    return true;
  }
  // For binary search.
  bool ReadStarts(size_t count, std::span<uint32_t>* starts) {
    *starts = arena_->Make<uint32_t>(count);
    return reader_.Read(*starts) && AccumulateRising(*starts);
  }
  bool Skip(size_t count) { return reader_.Skip(count); }
  size_t remaining() const { return reader_.remaining(); }

 private:
  ColumnReader reader_;
  PageArena* arena_;
};

}  // namespace ptarmigan::internal
