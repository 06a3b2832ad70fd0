#include "base/byte_cursor.h"

namespace ptarmigan {

Bytes ByteCursor::Take(uint64_t count) {
  if (count > remaining()) [[unlikely]] {
    Fail();
    return {};
  }
  const Bytes taken = bytes_.subspan(position_, static_cast<size_t>(count));
  position_ += static_cast<size_t>(count);
  return taken;
}

void ByteCursor::Seek(uint64_t position) {
  if (position > bytes_.size()) {
    Fail();
    return;
  }
  position_ = static_cast<size_t>(position);
}

void ByteCursor::AlignTo(size_t alignment) {
  const size_t padding = (alignment - position_ % alignment) % alignment;
  Skip(padding);
}

std::string_view ByteCursor::CString() {
  const std::string_view rest = AsText(Rest());
  const size_t length = rest.find('\0');
  if (length == std::string_view::npos) {
    Fail();
    return rest;
  }
  position_ += length + 1;
  return rest.substr(0, length);
}

std::string_view ByteCursor::FixedString(uint64_t size) {
  const std::string_view field = AsText(Take(size));
  return field.substr(0, field.find('\0'));
}

uint64_t ByteCursor::Uleb128() {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = U8();
    if (!ok_) return 0;
    const uint64_t bits = byte & 0x7fU;
    if (shift >= 64 ? bits != 0 : (shift == 63 && bits > 1)) {
      Fail();
      return 0;
    }
    if (shift < 64) value |= bits << shift;
    if ((byte & 0x80) == 0) return value;
  }
}

int64_t ByteCursor::Sleb128() {
  uint64_t value = 0;
  unsigned shift = 0;
  uint8_t byte = 0;
  do {
    byte = U8();
    if (!ok_) return 0;
    if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
    shift += 7;
    if (shift > 140) {  // padding without end
      Fail();
      return 0;
    }
  } while ((byte & 0x80) != 0);
  if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
  return static_cast<int64_t>(value);
}

Bytes SubspanOrEmpty(Bytes bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return {};
  return bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
}

}  // namespace ptarmigan
