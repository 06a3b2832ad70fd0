// One .xz stream out of memory (liblzma behind it).
#pragma once

#include <cstdint>
#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"

namespace ptarmigan::internal {

// The decoder's own memory, whatever the stream asks for.
inline constexpr uint64_t kXzMemoryBytesMax = uint64_t{128} << 20;

// kInvalidInput for damaged streams, kTruncated for cut ones, kResourceLimit above `bytes_max` or the memory bound.
Result<std::string> InflateXz(Bytes stream, uint64_t bytes_max);

}  // namespace ptarmigan::internal
