#include "base/json_writer.h"

#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/str_format.h"

namespace ptarmigan {
namespace {

constexpr size_t kFlushBytes = size_t{64} << 10;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Size of the UTF-8 sequence at the front of `text` (Unicode 15, table 3-7), 0 if it is none.
size_t SequenceSize(std::string_view text) {
  const auto byte = [text](size_t i) -> unsigned {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  const auto continues = [&byte](size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool is_overlong = first == 0xe0 && second < 0xa0;
    const bool is_surrogate = first == 0xed && second >= 0xa0;
    return continues(1) && continues(2) && !is_overlong && !is_surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool is_overlong = first == 0xf0 && second < 0x90;
    const bool is_too_large = first == 0xf4 && second >= 0x90;
    return continues(1) && continues(2) && continues(3) && !is_overlong && !is_too_large ? 4 : 0;
  }
  return 0;
}

bool IsPlain(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\' && c != '<';
}

// How many bytes at the front of `text` stand for themselves.
size_t PlainSize(std::string_view text) {
  size_t size = 0;
  while (size < text.size() && IsPlain(text[size])) ++size;
  return size;
}

}  // namespace

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  out_ += bracket;
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_ += bracket;
  has_items_.pop_back();
  FlushIfLarge();
  return *this;
}

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) out_ += ',';
  has_items_.back() = true;
  if (has_items_.size() <= line_depth_) out_ += '\n';
  FlushIfLarge();
}

void JsonWriter::FlushIfLarge() {
  if (out_.size() < kFlushBytes) return;
  if (status_) status_ = sink_.Write(out_);
  out_.clear();
}

void JsonWriter::Quote(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    const size_t plain = PlainSize(text);
    out_.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const size_t size = SequenceSize(text);
    if (size == 0) {
      out_ += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    const char c = text[0];
    if (size > 1) {
      out_.append(text.substr(0, size));
    } else if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else {
      out_ += StrFormat("\\u{:04x}", static_cast<unsigned>(c));
    }
    text.remove_prefix(size);
  }
  out_ += '"';
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  Quote(key);
  out_ += ':';
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  Quote(text);
  return *this;
}

template <typename Number>
JsonWriter& JsonWriter::Digits(Number number) {
  Separate();
  char digits[32];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), number);
  CHECK(error == std::errc());
  out_.append(digits, end);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t number) { return Digits(number); }

JsonWriter& JsonWriter::Uint(uint64_t number) { return Digits(number); }

JsonWriter& JsonWriter::Double(double number) {
  return std::isfinite(number) ? Digits(number) : Null();
}

JsonWriter& JsonWriter::Milliseconds(int64_t nanoseconds) { return Fraction(nanoseconds, 6); }
JsonWriter& JsonWriter::Microseconds(int64_t nanoseconds) { return Fraction(nanoseconds, 3); }

// The number with a point before its last `digits` digits.
JsonWriter& JsonWriter::Fraction(int64_t number, unsigned digits) {
  Separate();
  uint64_t unit = 1;
  for (unsigned i = 0; i < digits; ++i) unit *= 10;
  const bool is_negative = number < 0;
  const uint64_t magnitude =
      is_negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string text =
      StrFormat("{}{}.{:0{}}", is_negative ? "-" : "", magnitude / unit, magnitude % unit, digits);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  out_ += "null";
  return *this;
}

Status JsonWriter::Finish() {
  if (status_) status_ = sink_.Write(out_);
  out_.clear();
  return std::move(status_);
}

}  // namespace ptarmigan
