#include "decode/internal/aux_queue.h"

#include <algorithm>
#include <utility>

namespace ptarmigan::internal {
namespace {

constexpr uint64_t kChunkAlignment = 8;

bool AllZero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

AuxQueue::~AuxQueue() {
  while (!pieces_.empty()) PopPiece();
  budget_->waiting -= fragments_.size();
}

void AuxQueue::AddFragment(uint64_t offset, uint64_t size_bytes) {
  if (size_bytes == 0) return;
  had_fragments_ = true;
  if (budget_->waiting >= budget_->waiting_max) {
    counts_->missing_bytes += size_bytes;
    return;
  }
  ++budget_->waiting;
  fragments_.push_back({offset, offset + size_bytes});
}

void AuxQueue::AddBytes(uint64_t offset, Bytes bytes, bool borrow, bool continues) {
  if (UINT64_MAX - offset < bytes.size()) {
    counts_->refused_bytes += bytes.size();
    return;
  }
  CutFilling(offset);
  if (offset < bytes_end_) {
    // Seen before: snapshots of a buffer overlap.
    const uint64_t seen = std::min<uint64_t>(bytes_end_ - offset, bytes.size());
    counts_->uncovered_bytes += seen;
    bytes = bytes.subspan(static_cast<size_t>(seen));
    offset += seen;
  }
  if (bytes.empty()) return;
  continues = continues && offset == bytes_end_;
  bytes_end_ = offset + bytes.size();
  if (!borrow && continues && Extend(bytes)) return;
  const uint64_t copied = borrow ? 0 : bytes.size();
  if (budget_->waiting >= budget_->waiting_max ||
      copied > budget_->copied_bytes_max - budget_->copied_bytes) {
    counts_->refused_bytes += bytes.size();
    return;
  }
  ++budget_->waiting;
  budget_->copied_bytes += copied;
  Piece& piece = pieces_.emplace_back();
  piece.offset = offset;
  piece.bytes = bytes;
  if (borrow) return;
  piece.copy.assign(bytes.begin(), bytes.end());
  piece.bytes = piece.copy;
}

// Appends to the last piece, which the bytes continue.
bool AuxQueue::Extend(Bytes bytes) {
  if (pieces_.empty()) return false;
  Piece& piece = pieces_.back();
  if (piece.copy.empty() || bytes.size() > budget_->copied_bytes_max - budget_->copied_bytes) {
    return false;
  }
  budget_->copied_bytes -= piece.copy.size();
  // What was handed out of it goes first.
  piece.copy.erase(piece.copy.begin(),
                   piece.copy.begin() + (piece.bytes.data() - piece.copy.data()));
  piece.copy.resize(piece.bytes.size());
  piece.copy.insert(piece.copy.end(), bytes.begin(), bytes.end());
  piece.bytes = piece.copy;
  budget_->copied_bytes += piece.copy.size();
  return true;
}

void AuxQueue::CutFilling(uint64_t offset) {
  if (pieces_.empty() || offset >= bytes_end_ || bytes_end_ - offset >= kChunkAlignment) return;
  Piece& last = pieces_.back();
  const uint64_t filling = bytes_end_ - offset;
  if (last.end() != bytes_end_ || offset < std::max(last.offset, taken_end_)) return;
  if (!AllZero(last.bytes.last(static_cast<size_t>(filling)))) return;
  last.bytes = last.bytes.first(last.bytes.size() - static_cast<size_t>(filling));
  bytes_end_ = offset;
  counts_->filling_bytes += filling;
  // It was nothing else. Pieces are never empty: whoever skips them would not get on.
  if (last.bytes.empty()) {
    budget_->copied_bytes -= last.copy.size();
    --budget_->waiting;
    pieces_.pop_back();
  }
}

void AuxQueue::PopPiece() {
  budget_->copied_bytes -= pieces_.front().copy.size();
  --budget_->waiting;
  pieces_.pop_front();
}

void AuxQueue::Forget(uint64_t offset) {
  while (!pieces_.empty() && pieces_.front().offset < offset) {
    Piece& piece = pieces_.front();
    const uint64_t count = std::min<uint64_t>(offset - piece.offset, piece.bytes.size());
    piece.bytes = piece.bytes.subspan(static_cast<size_t>(count));
    piece.offset += count;
    if (!piece.bytes.empty()) return;
    PopPiece();
  }
}

void AuxQueue::Skip(uint64_t offset) {
  while (!pieces_.empty() && pieces_.front().offset < offset) {
    const Piece& piece = pieces_.front();
    const uint64_t end = std::min(offset, piece.end());
    uint64_t* count = end == piece.end() && EndsInFilling(piece) ? &counts_->filling_bytes
                                                                 : &counts_->uncovered_bytes;
    *count += end - piece.offset;
    Forget(end);
  }
}

// Of the front piece: whether what is left of it is perf's filling. Where the stream goes on right behind it, it is not.
bool AuxQueue::EndsInFilling(const Piece& piece) const {
  const bool goes_on = pieces_.size() > 1 && pieces_[1].offset == piece.end();
  return piece.bytes.size() < kChunkAlignment && !goes_on && AllZero(piece.bytes);
}

Bytes AuxQueue::Gather(uint64_t offset, uint64_t end) {
  if (pieces_.empty() || pieces_.front().offset > offset) return {};
  const Piece& first = pieces_.front();
  if (first.end() >= end) return first.bytes.first(static_cast<size_t>(end - offset));
  scratch_.clear();
  for (const Piece& piece : pieces_) {
    if (piece.offset != offset) break;
    const uint64_t left = std::min(end - offset, budget_->copied_bytes_max - scratch_.size());
    const Bytes part =
        piece.bytes.first(static_cast<size_t>(std::min<uint64_t>(left, piece.bytes.size())));
    scratch_.insert(scratch_.end(), part.begin(), part.end());
    offset += part.size();
    if (part.size() < piece.bytes.size()) break;
  }
  return scratch_;
}

bool AuxQueue::Take(bool finishing, Fragment* fragment) {
  Forget(taken_end_);
  while (!fragments_.empty()) {
    const Waiting next = fragments_.front();
    if (!finishing && bytes_end_ < next.end) return false;
    fragments_.pop_front();
    --budget_->waiting;
    Skip(next.offset);
    fragment->offset = next.offset;
    fragment->bytes = Gather(next.offset, next.end);
    counts_->missing_bytes += next.end - next.offset - fragment->bytes.size();
    taken_end_ = next.offset + fragment->bytes.size();
    if (!fragment->bytes.empty()) return true;
  }
  return false;
}

bool AuxQueue::TakeChunk(Fragment* chunk) {
  Forget(taken_end_);
  if (pieces_.empty()) return false;
  chunk->offset = pieces_.front().offset;
  chunk->bytes = pieces_.front().bytes;
  taken_end_ = pieces_.front().end();
  return true;
}

void AuxQueue::DropRest() {
  Forget(taken_end_);
  Skip(UINT64_MAX);
}

}  // namespace ptarmigan::internal
