// What is inside a gzip or zstd file, for readers of other rooms whose inputs may be compressed as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"

namespace ptarmigan {

// Whether the first bytes are those of a gzip or zstd file.
bool IsCompressedFile(Bytes prefix);
// The first `plain_bytes`, fewer if there are no more; the file may be cut. kInvalidInput if not even one comes out.
Result<std::string> ReadCompressedPrefix(Bytes file, size_t plain_bytes);
// All. kTruncated if the file is cut, kInvalidInput if it is damaged, kResourceLimit if more than `plain_bytes_max`
// would come out.
Result<std::string> ReadCompressedFile(Bytes file, uint64_t plain_bytes_max);

}  // namespace ptarmigan
