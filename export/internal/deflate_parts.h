// DeflateParts: raw deflate (RFC 1951) in parts that can stand one behind the other, made by libdeflate.
//
// libdeflate compresses whole buffers, three times as fast as zlib at the same size, and marks the last block of each as
// the last of the stream. A part here has that mark cleared, and ends like zlib's Z_SYNC_FLUSH at a byte:
//
//   [block]...[block, last: 1 -> 0][empty stored block, padded to a byte, 00 00 ff ff]
//
// So parts made by different threads make one stream, which a last (empty) block ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_cursor.h"

struct libdeflate_compressor;

namespace ptarmigan::internal {

class DeflateParts {
 public:
  // 1 (fast) to 12 (small).
  explicit DeflateParts(int level);
  ~DeflateParts();
  DeflateParts(const DeflateParts&) = delete;
  DeflateParts& operator=(const DeflateParts&) = delete;

  std::string Add(Bytes plain);

 private:
  libdeflate_compressor* compressor_;
  std::vector<uint8_t> packed_;
};

// Where the header of the last block begins, and where that block ends, in bits.
struct LastBlock {
  size_t begin = 0;
  size_t end = 0;
};
// `stream` is a whole deflate stream as a compressor wrote it (a damaged one is a bug); kWalkSlackBytes more can be read
// behind it.
constexpr size_t kWalkSlackBytes = 8;
LastBlock FindLastBlock(const uint8_t* stream, size_t size);

}  // namespace ptarmigan::internal
