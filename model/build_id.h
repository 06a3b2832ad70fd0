// BuildId: the GNU build id note of an object (usually 20 bytes of SHA-1, 16 of MD5/UUID, 8 of a
// fast hash).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_cursor.h"

namespace ptarmigan {

class BuildId {
 public:
  // Longer notes are cut to this; perf keeps 20.
  static constexpr size_t kBytesMax = 32;

  BuildId() = default;
  // Exactly these bytes (cut to kBytesMax).
  explicit BuildId(Bytes bytes);
  // From a fixed field that older perf versions pad with zeros: trailing zeros are removed in steps
  // of four bytes. All zeros give an empty id.
  static BuildId FromPadded(Bytes field);
  // From hex digits in either case; nothing if it is not an even number of them.
  static std::optional<BuildId> FromHex(std::string_view hex);

  bool empty() const { return size_ == 0; }
  Bytes bytes() const { return std::as_bytes(std::span(bytes_.data(), size_)); }
  std::string ToHex() const;

  auto operator<=>(const BuildId&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const BuildId& id) {
    return H::combine_contiguous(std::move(state), id.bytes_.data(), id.size_);
  }

 private:
  std::array<uint8_t, kBytesMax> bytes_ = {};  // unused tail is zero
  uint8_t size_ = 0;
};

}  // namespace ptarmigan
