// The protobuf wire format, only as much as pprof needs: written straight into a string and read straight from
// bytes. Building message objects for a profile of 70,000 samples takes longer than compressing it, and a hostile
// file could make them 50 times larger than itself.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Appends fields to a string. proto3 rule: a scalar of value 0 is not written.
class WireWriter {
 public:
  explicit WireWriter(std::string* out) : out_(*out) {}

  void Varint(uint64_t value) {
    std::array<char, 10> bytes;
    size_t size = 0;
    while (value >= 0x80) {
      bytes[size++] = static_cast<char>(static_cast<uint8_t>(value | 0x80U));
      value >>= 7U;
    }
    bytes[size++] = static_cast<char>(static_cast<uint8_t>(value));
    out_.append(bytes.data(), size);
  }
  void Tag(int field, WireType type) {
    Varint((static_cast<uint64_t>(field) << 3U) | static_cast<uint64_t>(type));
  }
  void Unsigned(int field, uint64_t value) {
    if (value == 0) return;
    Tag(field, WireType::kVarint);
    Varint(value);
  }
  void Signed(int field, int64_t value) { Unsigned(field, static_cast<uint64_t>(value)); }
  void Bool(int field, bool value) { Unsigned(field, value ? 1 : 0); }
  void Text(int field, std::string_view text) {
    Tag(field, WireType::kBytes);
    Varint(text.size());
    out_.append(text);
  }

 private:
  std::string& out_;
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
