// The protobuf wire format, only as much as pprof needs: written straight into a buffer and read straight from
// bytes. Building message objects for a profile of 70,000 samples takes longer than compressing it, and a hostile
// file could make them 50 times larger than itself.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr size_t kVarintBytesMax = 10;

constexpr size_t VarintSize(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// Writes at `at`, where kVarintBytesMax bytes must be free whatever the value; returns the end.
inline char* PutVarint(char* at, uint64_t value) {
  if (value < uint64_t{1} << 28U) {  // without branches: sizes from 1 to 4 come in any order
    const auto v = static_cast<uint32_t>(value);
    const size_t size = VarintSize(v);
    uint32_t bytes = (v & 0x7fU) | (v & (0x7fU << 7U)) << 1U | (v & (0x7fU << 14U)) << 2U |
                     (v & (0x7fU << 21U)) << 3U;
    bytes |= 0x80808080U & ((1U << (8 * (size - 1))) - 1);
    if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap32(bytes);
    std::memcpy(at, &bytes, sizeof(bytes));
    return at + size;
  }
  while (value >= 0x80) {
    *at++ = static_cast<char>(static_cast<uint8_t>(value | 0x80U));
    value >>= 7U;
  }
  *at++ = static_cast<char>(static_cast<uint8_t>(value));
  return at;
}

inline char* PutBytes(char* at, std::string_view bytes) {
  if (bytes.empty()) return at;  // memcpy wants a pointer even for no bytes
  std::memcpy(at, bytes.data(), bytes.size());
  return at + bytes.size();
}

// Fields one behind the other, in a buffer that grows. proto3 rule: a scalar of value 0 is not written.
class WireWriter {
 public:
  static constexpr uint64_t TagOf(int field, WireType type) {
    return (static_cast<uint64_t>(field) << 3U) | static_cast<uint64_t>(type);
  }

  void Varint(uint64_t value) { at_ = PutVarint(Room(kVarintBytesMax), value); }
  void Tag(int field, WireType type) { Varint(TagOf(field, type)); }
  void Unsigned(int field, uint64_t value) {
    if (value == 0) return;
    char* at = Room(2 * kVarintBytesMax);
    at_ = PutVarint(PutVarint(at, TagOf(field, WireType::kVarint)), value);
  }
  void Signed(int field, int64_t value) { Unsigned(field, static_cast<uint64_t>(value)); }
  void Bool(int field, bool value) { Unsigned(field, value ? 1 : 0); }
  void Text(int field, std::string_view text) {
    char* at = Room(2 * kVarintBytesMax + text.size());
    at = PutVarint(PutVarint(at, TagOf(field, WireType::kBytes)), text.size());
    at_ = PutBytes(at, text);
  }
  // A nested message with the fields that `fields` writes to this writer.
  template <typename Fields>
  void Message(int field, const Fields& fields) {
    Tag(field, WireType::kBytes);
    const size_t length_at = size();
    at_ = Room(1) + 1;  // enough for most
    fields();
    const size_t bytes = size() - length_at - 1;
    const size_t length_bytes = VarintSize(bytes);
    Room(kVarintBytesMax);
    char* const length = buffer_.data() + length_at;
    if (length_bytes > 1) {
      std::memmove(length + length_bytes, length + 1, bytes);
      at_ += length_bytes - 1;
    }
    std::array<char, kVarintBytesMax> varint;
    PutVarint(varint.data(), bytes);
    std::memcpy(length, varint.data(), length_bytes);
  }

  // For those who write themselves: at least `bytes` free bytes, from where what was written ends to Advance's end.
  char* Room(size_t bytes) {
    if (static_cast<size_t>(end_ - at_) < bytes) Grow(bytes);
    return at_;
  }
  void Advance(char* end) { at_ = end; }

  size_t size() const { return static_cast<size_t>(at_ - buffer_.data()); }
  std::string_view bytes() const { return {buffer_.data(), size()}; }
  void Clear() { at_ = buffer_.data(); }
  // The first `bytes` bytes; what follows them stays. Goes on writing into the memory of `next`, whose bytes do not
  // matter.
  std::string Take(size_t bytes, std::string next = {});
  std::string Take() { return Take(size()); }

 private:
  void Grow(size_t bytes);

  std::string buffer_;
  char* at_ = buffer_.data();
  char* end_ = buffer_.data();  // of buffer_
};

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;  // of kVarint and the fixed types
  Bytes bytes;         // of kBytes
};

// Reads the fields of one message in order. After the last one, or at the first fault, Next() is false; ok()
// tells which.
class WireReader {
 public:
  explicit WireReader(Bytes message) : cursor_(message) {}

  bool Next(WireField* field);
  bool ok() const { return ok_; }
  // Where the next field starts.
  size_t position() const { return cursor_.position(); }

 private:
  ByteCursor cursor_;
  bool ok_ = true;
};

// Hands over every number of a repeated integer field, packed or not. False if a packed number is cut off.
template <typename Take>
bool ForEachNumber(const WireField& field, Take&& take) {
  if (field.type == WireType::kVarint) {
    take(field.value);
    return true;
  }
  if (field.type != WireType::kBytes) return false;
  ByteCursor cursor(field.bytes);
  while (!cursor.AtEnd()) {
    const uint64_t value = cursor.Uleb128();
    if (!cursor.ok()) return false;
    take(value);
  }
  return true;
}

}  // namespace ptarmigan::internal
