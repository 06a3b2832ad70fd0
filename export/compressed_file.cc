#include "export/compressed_file.h"

#include "export/internal/compression.h"

namespace ptarmigan {

bool IsCompressedFile(Bytes prefix) { return internal::IsGzip(prefix) || internal::IsZstd(prefix); }

Result<std::string> ReadCompressedPrefix(Bytes file, size_t plain_bytes) {
  return internal::InflatePrefix(file, plain_bytes);
}

Result<std::string> ReadCompressedFile(Bytes file, uint64_t plain_bytes_max) {
  return internal::Inflate(file, plain_bytes_max);
}

}  // namespace ptarmigan
