// Bytes without meaning, which are compared when they come back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "tests/softpmu/script.h"

namespace ptarmigan {

// Bytes that repeat nowhere.
inline std::string Noise(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

struct EndlessOptions {
  uint64_t rate = 0;  // bytes a second
  uint32_t flags = 0;
};
// Plays `bytes` again and again, in pieces of odd sizes.
inline SoftPmuScript EndlessScript(std::string_view bytes, const EndlessOptions& options) {
  SoftPmuScript script(options.flags);
  script.Rate(options.rate);
  const uint32_t begin = script.here();
  std::mt19937_64 random(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min<size_t>(bytes.size() - at, 1 + random() % 300);
    script.Sync().Data(bytes.substr(at, size));
    at += size;
  }
  script.LoopTo({.target = begin});
  return script;
}

// Whether `bytes` are `period` again and again from its beginning on; the first place where they are not.
inline testing::AssertionResult Repeats(std::string_view bytes, std::string_view period) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != period[i % period.size()]) {
      return testing::AssertionFailure() << "differs at byte " << i << " of " << bytes.size();
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace ptarmigan
