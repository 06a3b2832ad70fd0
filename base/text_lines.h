// Small pieces for reading text formats. Everything is a view into the text.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ptarmigan {

// Goes through the lines of a text; "\r\n" ends a line too.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  bool Next(std::string_view* line) {
    if (rest_.empty()) return false;
    const size_t end = rest_.find('\n');
    *line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line->ends_with('\r')) line->remove_suffix(1);
    return true;
  }
  // What has not been read yet.
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

constexpr std::string_view kBlanks = " \t\r\f\v";

inline std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Takes the next blank-separated word off the front; empty at the end.
inline std::string_view TakeWord(std::string_view* rest) {
  const size_t begin = rest->find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) {
    *rest = {};
    return {};
  }
  rest->remove_prefix(begin);
  const std::string_view word = rest->substr(0, rest->find_first_of(kBlanks));
  rest->remove_prefix(word.size());
  return word;
}

// The whole text as a number, nothing if it is not one or does not fit.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text, int base = 10) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Hex digits, with or without "0x".
inline std::optional<uint64_t> ParseHex(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  return ParseNumber<uint64_t>(text, 16);
}

inline bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace ptarmigan
