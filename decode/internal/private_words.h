// The private part of a PERF_RECORD_AUXTRACE_INFO: words of 64 bits whose meaning depends on the kind of trace.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

class PrivateWords {
 public:
  PrivateWords(Bytes bytes, std::endian order) : bytes_(bytes), order_(order) {}
  size_t size() const { return bytes_.size() / sizeof(uint64_t); }
  // 0 beyond the end.
  uint64_t operator[](size_t index) const {
    return index < size() ? ByteCursor(bytes_.subspan(index * sizeof(uint64_t)), order_).U64() : 0;
  }
  PrivateWords First(size_t words) const {
    return {bytes_.first(std::min(words, size()) * sizeof(uint64_t)), order_};
  }

 private:
  Bytes bytes_;
  std::endian order_;
};

}  // namespace ptarmigan::internal
