// gzip and zstd around whole buffers, with a bound on what comes out.
#pragma once

#include <cstdint>
#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"

namespace ptarmigan::internal {

bool IsGzip(Bytes bytes);
bool IsZstd(Bytes bytes);

// One gzip member; the header has no name and no time, so equal input gives equal bytes. `level` 1 to 9.
std::string Gzip(Bytes plain, int level);

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

}  // namespace ptarmigan::internal
