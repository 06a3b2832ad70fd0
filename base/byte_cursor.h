// ByteCursor: the one way to read foreign bytes. Reads are bounds-checked, unaligned and in the
// byte order that the cursor was made with. A read beyond the end returns zero (or an empty span),
// moves to the end and makes `ok()` false for ever: a parser may read a whole structure and check
// once.
//
// Holds a borrowed span; not thread-safe; copying is cheap and gives an independent position.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace ptarmigan {

using Bytes = std::span<const std::byte>;

inline Bytes AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
constexpr T ByteSwap(T value) {
  static_assert(std::is_integral_v<T>);
  if constexpr (sizeof(T) == 1)
    return value;
  else if constexpr (sizeof(T) == 2)
    return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  else if constexpr (sizeof(T) == 4)
    return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  else
    return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
}

class ByteCursor {
 public:
  explicit ByteCursor(Bytes bytes, std::endian order = std::endian::native)
      : bytes_(bytes), swap_(order != std::endian::native) {}

  bool ok() const { return ok_; }
  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  bool AtEnd() const { return position_ == bytes_.size(); }
  bool swaps() const { return swap_; }
  // The bytes not read yet; does not move.
  Bytes Rest() const { return bytes_.subspan(position_); }

  template <typename T>
  T Read() {
    static_assert(std::is_integral_v<T>);
    if (remaining() < sizeof(T)) [[unlikely]] {
      Fail();
      return 0;
    }
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return swap_ ? ByteSwap(value) : value;
  }
  uint8_t U8() { return Read<uint8_t>(); }
  uint16_t U16() { return Read<uint16_t>(); }
  uint32_t U32() { return Read<uint32_t>(); }
  uint64_t U64() { return Read<uint64_t>(); }
  int32_t S32() { return Read<int32_t>(); }
  int64_t S64() { return Read<int64_t>(); }

  // `count` bytes, borrowed from the underlying span; empty and not ok if there are fewer.
  Bytes Take(uint64_t count);
  bool Skip(uint64_t count) { return Take(count).size() == count; }
  // Moves to an absolute position; not ok if beyond the end.
  void Seek(uint64_t position);
  // Moves forward to the next multiple of `alignment` (a power of two), counted from the span's
  // start.
  void AlignTo(size_t alignment);

  // A NUL-terminated string; not ok (and everything up to the end) if the NUL is missing.
  std::string_view CString();
  // The text of a fixed-size, NUL-padded field of `size` bytes.
  std::string_view FixedString(uint64_t size);

  // DWARF LEB128. Values beyond 64 bits are not ok.
  uint64_t Uleb128();
  int64_t Sleb128();
  // Protobuf-style varint is the same encoding as ULEB128.

 private:
  void Fail() {
    ok_ = false;
    position_ = bytes_.size();
  }

  Bytes bytes_;
  size_t position_ = 0;
  bool swap_;
  bool ok_ = true;
};

// a + b and a * b that say when they do not fit.
inline bool CheckedAdd(uint64_t a, uint64_t b, uint64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

inline uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return CheckedAdd(a, b, &sum) ? sum : UINT64_MAX;
}
inline uint64_t SaturatingMultiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
inline bool CheckedMul(uint64_t a, uint64_t b, uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}
// The part [offset, offset + size) of `bytes`, or nothing (empty) if it does not lie inside.
Bytes SubspanOrEmpty(Bytes bytes, uint64_t offset, uint64_t size);

}  // namespace ptarmigan
