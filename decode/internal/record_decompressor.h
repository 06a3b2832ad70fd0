// The records inside COMPRESSED and COMPRESSED2 records. Together these hold one zstd stream: a frame, and a record
// inside it, may go on in the next one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

class RecordDecompressor {
 public:
  RecordDecompressor();
  ~RecordDecompressor();
  RecordDecompressor(const RecordDecompressor&) = delete;
  RecordDecompressor& operator=(const RecordDecompressor&) = delete;

  // Inflates one record's payload piece by piece. `consume` gets all inflated bytes that it has not taken yet and
  // says how many it takes; the rest is kept for the next piece or record. False if the payload does not inflate:
  // what came before is consumed, and the stream starts anew with the next record.
  bool Inflate(Bytes payload, const std::function<size_t(Bytes)>& consume);
  // Inflated bytes that nobody has taken.
  size_t pending_bytes() const { return pending_.size(); }
  // Forgets them.
  void DropPending() { pending_.clear(); }

 private:
  struct Stream;  // zstd's
  std::unique_ptr<Stream> stream_;
  std::vector<std::byte> pending_;
};

}  // namespace ptarmigan::internal
