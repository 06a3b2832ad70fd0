// AuxQueue: one AUX stream of a recording. PERF_RECORD_AUX says which fragments of it are valid, PERF_RECORD_AUXTRACE
// brings the bytes, in either order and cut differently; the queue pairs them.
//
//   bytes      ├───────────────┤├────────┤      ├─────────┤
//   fragments  ├────┤├─────┤    ├──────────────────┤├──┤
//   becomes     ready  ready ▲uncovered  ready ▲missing
//
// Both come in ascending order of offset; what was passed is not looked for again. perf fills each chunk up to a
// multiple of 8 bytes: zeros at a chunk's end that no fragment covers are no part of the stream. Bytes that do not
// outlive the call are copied, within a bound that all queues share. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

class AuxQueue {
 public:
  // Shared by all queues of a recording.
  struct Budget {
    uint64_t copied_bytes_max = 0;
    size_t waiting_max = 0;  // pieces and fragments
    uint64_t copied_bytes = 0;
    size_t waiting = 0;
  };
  struct Counts {
    uint64_t filling_bytes = 0;    // perf's, at the end of chunks
    uint64_t uncovered_bytes = 0;  // of no fragment
    uint64_t refused_bytes = 0;    // beyond the budget
    uint64_t missing_bytes = 0;    // of fragments, without bytes
  };
  struct Fragment {
    uint64_t offset = 0;
    Bytes bytes;
  };

  AuxQueue(Budget* budget, Counts* counts) : budget_(budget), counts_(counts) {}
  ~AuxQueue();
  AuxQueue(const AuxQueue&) = delete;
  AuxQueue& operator=(const AuxQueue&) = delete;

  // offset + size_bytes does not overflow.
  void AddFragment(uint64_t offset, uint64_t size_bytes);
  // `borrow`: the bytes outlive the queue. `continues`: they follow those added last, as part of the same chunk.
  void AddBytes(uint64_t offset, Bytes bytes, bool borrow, bool continues);

  // The next fragment with all its bytes, or, if `finishing`, with what there is of them from its start on. Valid
  // until the next call. False if there is none (yet).
  bool Take(bool finishing, Fragment* fragment);
  // The next chunk of bytes, for queues that have no fragments.
  bool TakeChunk(Fragment* chunk);
  // Whether the bytes of the last chunk are the queue's own and go with the next call.
  bool OwnsTaken() const { return !pieces_.empty() && !pieces_.front().copy.empty(); }
  // What is left is counted as uncovered. At the end.
  void DropRest();

  bool had_fragments() const { return had_fragments_; }

 private:
  struct Waiting {
    uint64_t offset;
    uint64_t end;
  };
  struct Piece {
    uint64_t offset = 0;  // of bytes
    Bytes bytes;
    std::vector<std::byte> copy;  // empty if borrowed

    uint64_t end() const { return offset + bytes.size(); }
  };

  bool Extend(Bytes bytes);
  // Takes perf's filling off the last piece if the next one begins at `offset`, inside of it.
  void CutFilling(uint64_t offset);
  // Forgets bytes before `offset` that were handed out.
  void Forget(uint64_t offset);
  // Forgets bytes before `offset` that were not, and counts them.
  void Skip(uint64_t offset);
  bool EndsInFilling(const Piece& piece) const;
  void PopPiece();
  Bytes Gather(uint64_t offset, uint64_t end);

  Budget* budget_;
  Counts* counts_;
  std::deque<Waiting> fragments_;
  std::deque<Piece> pieces_;
  uint64_t bytes_end_ = 0;  // of all bytes so far, refused ones too
  uint64_t taken_end_ = 0;  // of what was handed out last
  bool had_fragments_ = false;
  std::vector<std::byte> scratch_;  // a fragment that lies in several pieces
};

}  // namespace ptarmigan::internal
