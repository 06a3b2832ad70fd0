// The `.sym` format, shared by its writer and its reader. Byte-exact description: docs/formats/sym.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

inline constexpr char kSymMagic[8] = {'\x89', 'P', 'S', 'Y', 'M', '\r', '\n', '\x1a'};
inline constexpr uint32_t kSymVersion = 2;
inline constexpr size_t kSymHeaderBytes = 64;
inline constexpr size_t kSymChecksumOffset = 24;
inline constexpr size_t kSymCodeEntryBytes = 24;
inline constexpr size_t kSymPageEntryBytes = 16;

// Flags.
inline constexpr uint32_t kSymHasFunctions = 1U << 0;
inline constexpr uint32_t kSymHasFiles = 1U << 1;
inline constexpr uint32_t kSymHasLines = 1U << 2;
inline constexpr uint32_t kSymHasInlines = 1U << 3;

inline constexpr uint32_t kSymFunctionsPerPage = 1024;
inline constexpr uint32_t kSymStringsPerPage = 256;

// How a function page says what DWARF calls a function: one of these, or kSymDebugNameString + the string's number.
inline constexpr uint32_t kSymDebugNameNone = 0;
inline constexpr uint32_t kSymDebugNameLinked = 1;
inline constexpr uint32_t kSymDebugNameString = 2;

// Bounds of one page, checked by the reader before anything is allocated.
inline constexpr uint32_t kSymNodesMax = 1U << 18;      // of a code page
inline constexpr uint32_t kSymCodeItemsMax = 1U << 16;  // segments, lines: each
inline constexpr uint32_t kSymCodeRawBytesMax = 1U << 24;
inline constexpr uint32_t kSymFunctionRawBytesMax = 1U << 16;
inline constexpr uint32_t kSymStringRawBytesMax = kSymStringsPerPage * ((1U << 16) + 4) + 64;
inline constexpr uint32_t kSymNotesBytesMax = 1U << 20;

constexpr uint32_t ZigZag(uint32_t delta) { return (delta << 1) ^ (0U - (delta >> 31)); }
constexpr uint32_t UnZigZag(uint32_t coded) { return (coded >> 1) ^ (0U - (coded & 1)); }

// A column of 32-bit numbers: two bits for each tell its length (0, 1, 2 or 4 bytes), four to a control byte, lowest
// bits first; all control bytes first, then the little-endian bytes of the numbers.
inline void AppendColumn(std::span<const uint32_t> values, std::string* out) {
  const size_t control = out->size();
  out->append((values.size() + 3) / 4, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t value = values[i];
    const unsigned code = value == 0 ? 0 : value < 0x100 ? 1 : value < 0x10000 ? 2 : 3;
    (*out)[control + i / 4] = static_cast<char>(
        static_cast<unsigned char>((*out)[control + i / 4]) | code << (i % 4 * 2));
    static constexpr unsigned kLengths[4] = {0, 1, 2, 4};
    for (unsigned byte = 0; byte < kLengths[code]; ++byte) {
      out->push_back(static_cast<char>(value >> (byte * 8) & 0xff));
    }
  }
}

// Reads columns one after another. `bytes` needs kPadding readable bytes behind its end.
class ColumnReader {
 public:
  static constexpr size_t kPadding = 16;  // four numbers of the greatest length

  ColumnReader(const uint8_t* bytes, size_t size) : next_(bytes), end_(bytes + size) {}

  // False (and nothing usable in `values`) if the column does not fit.
  bool Read(std::span<uint32_t> values) {
    const uint8_t* control = nullptr;
    if (!TakeControl(values.size(), &control)) return false;
    const uint8_t* data = next_;
    size_t i = 0;
    for (; i + 4 <= values.size(); i += 4, ++control) {
      if (data > end_) return false;
      const unsigned code = *control;
      uint32_t* out = values.data() + i;
      if (code == 0) {  // the most common of all
        out[0] = out[1] = out[2] = out[3] = 0;
        continue;
      }
      const uint8_t* second = data + kLengths[code & 3];
      const uint8_t* third = second + kLengths[code >> 2 & 3];
      const uint8_t* fourth = third + kLengths[code >> 4 & 3];
      out[0] = Load(data, code & 3);
      out[1] = Load(second, code >> 2 & 3);
      out[2] = Load(third, code >> 4 & 3);
      out[3] = Load(fourth, code >> 6);
      data = fourth + kLengths[code >> 6];
    }
    if (data > end_) return false;
    for (unsigned shift = 0; i < values.size(); ++i, shift += 2) {
      const unsigned code = *control >> shift & 3;
      values[i] = Load(data, code);
      data += kLengths[code];
    }
    if (data > end_) return false;
    next_ = data;
    return true;
  }
  // Passes over a column of `count` numbers if all of them are 0; else it stays where it is.
  bool SkipZeros(size_t count) {
    const size_t control_bytes = (count + 3) / 4;
    if (remaining() < control_bytes) return false;
    for (size_t i = 0; i < control_bytes; ++i) {
      if (next_[i] != 0) return false;
    }
    next_ += control_bytes;
    return true;
  }
  // Passes over a column of `count` numbers.
  bool Skip(size_t count) {
    const uint8_t* control = nullptr;
    if (!TakeControl(count, &control)) return false;
    size_t bytes = 0;
    size_t i = 0;
    for (; i + 4 <= count; i += 4, ++control) {
      const unsigned code = *control;
      bytes += size_t{kLengths[code & 3]} + kLengths[code >> 2 & 3] + kLengths[code >> 4 & 3] +
               kLengths[code >> 6];
    }
    for (unsigned shift = 0; i < count; ++i, shift += 2) bytes += kLengths[*control >> shift & 3];
    if (bytes > remaining()) return false;
    next_ += bytes;
    return true;
  }
  const uint8_t* position() const { return next_; }
  size_t remaining() const { return static_cast<size_t>(end_ - next_); }

 private:
  static constexpr uint8_t kLengths[4] = {0, 1, 2, 4};

  static uint32_t Load(const uint8_t* data, unsigned code) {
    static constexpr uint32_t kMasks[4] = {0, 0xff, 0xffff, 0xffffffff};
    uint32_t value;
    std::memcpy(&value, data, sizeof(value));
    if constexpr (std::endian::native == std::endian::big) value = ByteSwap(value);
    return value & kMasks[code];
  }
  bool TakeControl(size_t count, const uint8_t** control) {
    const size_t control_bytes = (count + 3) / 4;
    if (remaining() < control_bytes) return false;
    *control = next_;
    next_ += control_bytes;
    return true;
  }

  const uint8_t* next_;
  const uint8_t* end_;
};

}  // namespace ptarmigan::internal
