#include "base/hash.h"

#include <xxhash.h>

#include "base/str_format.h"

namespace ptarmigan {

uint64_t HashBytes64(Bytes bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 HashBytes128(Bytes bytes, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {.high = hash.high64, .low = hash.low64};
}

std::string ToHex(const Hash128& hash) { return StrFormat("{:016x}{:016x}", hash.high, hash.low); }

}  // namespace ptarmigan
