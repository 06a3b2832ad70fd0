// Content hashes (XXH3). Not for adversaries who may choose both sides of a collision.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "base/byte_cursor.h"

namespace ptarmigan {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
};

// XXH3 of `bytes`; the same on every machine (little-endian words are the caller's business).
uint64_t HashBytes64(Bytes bytes, uint64_t seed = 0);
Hash128 HashBytes128(Bytes bytes, uint64_t seed = 0);

// FNV-1a 64 as the contract's `ip_digest` uses it.
constexpr uint64_t kFnv1aBasis = 0xcbf29ce484222325U;
constexpr uint64_t Fnv1a64(uint64_t state, uint8_t byte) { return (state ^ byte) * 0x100000001b3U; }

// For std::unordered_map and absl::flat_hash_map keyed by a Hash128, which is already mixed.
struct Hash128Hasher {
  size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.low); }
};

// 32 lower-case hex digits.
std::string ToHex(const Hash128& hash);

}  // namespace ptarmigan
