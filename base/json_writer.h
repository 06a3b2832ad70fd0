// JSON written straight to a sink: no tree in memory, the same bytes for the same calls.
//
// Strings are made valid UTF-8 (each byte that cannot be read becomes U+FFFD). '<' is written \u003c, so that the
// text can stand inside an HTML script element. The caller keeps the grammar: a key before each value of an
// object, and matching ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_sink.h"
#include "base/result.h"

namespace ptarmigan {

class JsonWriter {
 public:
  // Items of brackets that are nested up to `line_depth` deep begin on a line of their own.
  explicit JsonWriter(ByteSink* sink, size_t line_depth = 0)
      : sink_(*sink), line_depth_(line_depth) {}

  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t number);
  JsonWriter& Uint(uint64_t number);
  // The shortest decimal number that is read back as this one; null for what is none (JSON has no infinity).
  JsonWriter& Double(double number);
  // Milliseconds of nanoseconds, exactly: 1500000 is 1.5.
  JsonWriter& Milliseconds(int64_t nanoseconds);
  // The same in microseconds: 1500 is 1.5.
  JsonWriter& Microseconds(int64_t nanoseconds);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  // "key": value in one call.
  JsonWriter& Field(std::string_view key, std::string_view text) { return Key(key).String(text); }
  JsonWriter& Field(std::string_view key, int64_t number) { return Key(key).Int(number); }

  // Writes what is left; the first error of the sink, if there was one.
  Status Finish();

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();
  JsonWriter& Fraction(int64_t number, unsigned digits);
  void Quote(std::string_view text);
  void FlushIfLarge();

  template <typename Number>
  JsonWriter& Digits(Number number);

  ByteSink& sink_;
  const size_t line_depth_;
  Status status_;
  std::string out_;
  std::vector<bool> has_items_;  // of each open bracket
  bool after_key_ = false;
};

}  // namespace ptarmigan
