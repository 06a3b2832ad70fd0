// ByteWriter: appends numbers in a chosen byte order to a string; the counterpart of ByteCursor for
// tests that make their own files.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ptarmigan {

class ByteWriter {
 public:
  explicit ByteWriter(std::endian order = std::endian::little) : order_(order) {}

  ByteWriter& U8(uint64_t value) { return Number(value, 1); }
  ByteWriter& U16(uint64_t value) { return Number(value, 2); }
  ByteWriter& U32(uint64_t value) { return Number(value, 4); }
  ByteWriter& U64(uint64_t value) { return Number(value, 8); }
  ByteWriter& Number(uint64_t value, size_t size_bytes) {
    for (size_t i = 0; i < size_bytes; ++i) {
      const size_t shift = 8 * (order_ == std::endian::little ? i : size_bytes - 1 - i);
      bytes_.push_back(static_cast<char>(value >> shift & 0xff));
    }
    return *this;
  }
  ByteWriter& Uleb(uint64_t value) {
    do {
      const uint64_t low = value & 0x7f;
      value >>= 7;
      U8(low | (value != 0 ? 0x80U : 0U));
    } while (value != 0);
    return *this;
  }
  ByteWriter& Sleb(int64_t value) {
    for (;;) {
      const auto low = static_cast<uint64_t>(value) & 0x7f;
      value >>= 7;
      const bool last = (value == 0 && (low & 0x40) == 0) || (value == -1 && (low & 0x40) != 0);
      U8(low | (last ? 0U : 0x80U));
      if (last) return *this;
    }
  }
  ByteWriter& Text(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  ByteWriter& CString(std::string_view text) { return Text(text).U8(0); }
  ByteWriter& PadTo(size_t alignment, uint8_t fill = 0) {
    while (bytes_.size() % alignment != 0) U8(fill);
    return *this;
  }
  // Overwrites a number written before.
  void Patch(size_t position, uint64_t value, size_t size_bytes) {
    ByteWriter patch(order_);
    patch.Number(value, size_bytes);
    bytes_.replace(position, size_bytes, patch.bytes_);
  }

  size_t size() const { return bytes_.size(); }
  std::endian order() const { return order_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::endian order_;
  std::string bytes_;
};

}  // namespace ptarmigan
