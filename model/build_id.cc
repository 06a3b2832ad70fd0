#include "model/build_id.h"

#include <algorithm>
#include <cstring>

namespace ptarmigan {
namespace {

std::optional<uint8_t> HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<uint8_t>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<uint8_t>(digit - 'a' + 10);
  if (digit >= 'A' && digit <= 'F') return static_cast<uint8_t>(digit - 'A' + 10);
  return std::nullopt;
}

}  // namespace

BuildId::BuildId(Bytes bytes) : size_(static_cast<uint8_t>(std::min(bytes.size(), kBytesMax))) {
  if (size_ > 0) std::memcpy(bytes_.data(), bytes.data(), size_);
}

BuildId BuildId::FromPadded(Bytes field) {
  constexpr size_t kStepBytes = 4;
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  while (field.size() >= kStepBytes) {
    const Bytes tail = field.last(kStepBytes);
    if (!std::all_of(tail.begin(), tail.end(), is_zero)) break;
    field = field.first(field.size() - kStepBytes);
  }
  if (std::all_of(field.begin(), field.end(), is_zero)) field = {};
  return BuildId(field);
}

std::optional<BuildId> BuildId::FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  BuildId id;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const auto high = HexDigit(hex[i]);
    const auto low = HexDigit(hex[i + 1]);
    if (!high || !low) return std::nullopt;
    if (id.size_ < kBytesMax) id.bytes_[id.size_++] = static_cast<uint8_t>(*high << 4 | *low);
  }
  return id;
}

std::string BuildId::ToHex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(size_t{size_} * 2);
  for (size_t i = 0; i < size_; ++i) {
    hex += kDigits[bytes_[i] >> 4];
    hex += kDigits[bytes_[i] & 15];
  }
  return hex;
}

}  // namespace ptarmigan
