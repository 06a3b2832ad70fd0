// What the text views share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/str_format.h"
#include "query/render.h"

namespace ptarmigan::internal {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

inline std::string Styled(std::string_view style, std::string_view text,
                          const RenderOptions& options) {
  if (!options.colour) return std::string(text);
  return StrFormat("{}{}{}", style, text, kPlain);
}

inline std::string WithThousands(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

inline std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Longer texts lose their middle: the ends say most.
inline std::string Shorten(std::string_view text, size_t columns) {
  if (text.size() <= columns || columns < 8) return std::string(text);
  const size_t head = columns * 2 / 3 - 1;
  const size_t tail = columns - head - 2;
  return StrFormat("{}..{}", text.substr(0, head), text.substr(text.size() - tail));
}

}  // namespace ptarmigan::internal
