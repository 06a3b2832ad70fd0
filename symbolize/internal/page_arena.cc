#include "symbolize/internal/page_arena.h"

#include <algorithm>

namespace ptarmigan::internal {

void* PageArena::Allocate(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(mutex_);
  if (bytes > left_) {
    const size_t piece_bytes =
        std::max(piece_bytes_, (bytes + kPieceBytesMin - 1) / kPieceBytesMin * kPieceBytesMin);
    piece_bytes_ = std::min(piece_bytes_ * 2, kPieceBytesMax);
    void* piece = std::malloc(piece_bytes);
    if (piece == nullptr) throw std::bad_alloc();
    pieces_.emplace_back(piece);
    bytes_ += piece_bytes;
    next_ = static_cast<std::byte*>(piece);
    left_ = piece_bytes;
  }
  void* memory = next_;
  next_ += bytes;
  left_ -= bytes;
  return memory;
}

}  // namespace ptarmigan::internal
