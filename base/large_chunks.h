// LargeChunks: many small values that are only added and read by number. Unlike a vector they stay where they are: growing
// copies nothing and leaves nothing behind, and memory that is new to a process is the most expensive that there is.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/large_pages.h"

namespace ptarmigan {

// Values begin as T().
template <typename T>
class LargeChunks {
 public:
  size_t size() const { return size_; }
  T& operator[](size_t index) { return chunks_[index / kChunkValues][index % kChunkValues]; }
  const T& operator[](size_t index) const {
    return chunks_[index / kChunkValues][index % kChunkValues];
  }
  T& Append() {
    if (size_ % kChunkValues == 0) chunks_.emplace_back().reserve(kChunkValues);
    ++size_;
    return chunks_.back().emplace_back();
  }
  size_t MemoryBytes() const { return chunks_.size() * kChunkValues * sizeof(T); }

 private:
  // (A power of two, so that finding a value is a shift.)
  static constexpr size_t ChunkValues() {
    size_t values = 1;
    while (values * 2 * sizeof(T) <= kLargeBlockBytes * 2) values *= 2;
    return values;
  }
  static constexpr size_t kChunkValues = ChunkValues();

  std::vector<LargeVector<T>> chunks_;
  size_t size_ = 0;
};

}  // namespace ptarmigan
