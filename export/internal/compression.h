// gzip and zstd around whole buffers, with a bound on what comes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"

namespace ptarmigan::internal {

bool IsGzip(Bytes bytes);
bool IsZstd(Bytes bytes);

// One gzip member; the header has no name and no time, so equal input gives equal bytes. `level` 1 to 9.
std::string Gzip(Bytes plain, int level);

// The same by several threads, for writers that make their output piece by piece: compressing goes on while the next
// piece is made. The result depends neither on how the bytes are cut nor on the threads.
class GzipStream {
 public:
  // What is compressed on its own, and so the size of the pieces that Write does not copy. Larger parts compress
  // better (nothing refers back beyond a part), smaller ones end together.
  static constexpr size_t kPartBytes = size_t{256} << 10;

  explicit GzipStream(int level);
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  void Write(std::string piece);
  // For the next piece: the memory of one that is compressed already, with its bytes; empty if there is none.
  std::string Buffer();
  // The member. Once, after the last Write.
  std::string Finish();

 private:
  struct Team;
  std::unique_ptr<Team> team_;
};

struct Inflated {
  std::string plain;
  // Bytes after the last member that are neither a member nor zero padding.
  uint64_t trailing_bytes = 0;
};
// All members, one after the other. kTruncated if the last one is cut off, kInvalidInput if one is damaged,
// kResourceLimit if more than `plain_bytes_max` would come out.
Result<Inflated> Gunzip(Bytes compressed, uint64_t plain_bytes_max);

Result<std::string> ZstdCompress(Bytes plain, int level);
// All frames. Errors as Gunzip.
Result<std::string> ZstdDecompress(Bytes compressed, uint64_t plain_bytes_max);

// Gunzip or ZstdDecompress, as the first bytes say; bytes of neither are an error.
Result<std::string> Inflate(Bytes compressed, uint64_t plain_bytes_max);
// The first plain bytes of a (perhaps cut) gzip or zstd file: at most `plain_bytes`, fewer if there are no more.
// kInvalidInput if not even one comes out.
Result<std::string> InflatePrefix(Bytes compressed, size_t plain_bytes);

}  // namespace ptarmigan::internal
