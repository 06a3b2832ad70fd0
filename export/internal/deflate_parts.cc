#include "export/internal/deflate_parts.h"

#include <libdeflate.h>

#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "base/check.h"

namespace ptarmigan::internal {
namespace {

// RFC 1951, 3.2.
constexpr size_t kCodeBitsMax = 15;
constexpr size_t kLengthSymbols = 288;
constexpr size_t kOffsetSymbols = 32;
constexpr size_t kEndOfBlock = 256;
constexpr std::array<uint8_t, 29> kLengthExtraBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                      2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<uint8_t, 19> kCodeLengthOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                      11, 4,  12, 3, 13, 2, 14, 1, 15};

// Bits at any position, the lowest first.
class BitWalk {
 public:
  BitWalk(const uint8_t* stream, size_t size) : stream_(stream), bits_(size * 8) {}
  size_t position() const { return position_; }
  // At least 57 bits from here on; the others are 0.
  uint64_t Peek() const {
    uint64_t word = 0;
    std::memcpy(&word, stream_ + position_ / 8, sizeof(word));
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    return word >> (position_ % 8);
  }
  void Skip(size_t bits) {
    position_ += bits;
    CHECK(position_ <= bits_);
  }
  uint32_t Take(size_t bits) {
    const auto value = static_cast<uint32_t>(Peek() & ((uint64_t{1} << bits) - 1));
    Skip(bits);
    return value;
  }
  void ToByte() { Skip((8 - position_ % 8) % 8); }

 private:
  const uint8_t* stream_;
  size_t bits_;
  size_t position_ = 0;
};

// A prefix code as a table over the next bits of the stream: what the symbol that begins there says.
class CodeTable {
 public:
  // entries[symbol] is what the table holds for it; only its low bits are known here.
  void Build(std::span<const uint8_t> lengths, std::span<const uint8_t> entries) {
    std::array<uint16_t, kCodeBitsMax + 2> begin = {};
    bits_ = 1;
    for (const uint8_t length : lengths) {
      if (length == 0) continue;
      ++begin[length + 1U];
      bits_ = std::max<size_t>(bits_, length);
    }
    for (size_t length = 1; length < begin.size(); ++length) begin[length] += begin[length - 1];
    std::array<uint16_t, kLengthSymbols> sorted;
    auto next = begin;
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (lengths[symbol] != 0) sorted[next[lengths[symbol]]++] = static_cast<uint16_t>(symbol);
    }
    // Codes of one length fill the table of that size; each further bit doubles it.
    table_[0] = table_[1] = 0;
    uint32_t code = 0;  // its first bit lowest, as in the stream
    for (size_t length = 1; length <= bits_; ++length) {
      const uint32_t size = uint32_t{1} << length;
      if (length > 1) std::memcpy(&table_[size / 2], table_.data(), size / 2);
      for (size_t i = begin[length]; i < begin[length + 1]; ++i) {
        table_[code] = entries[sorted[i]];
        const uint32_t zeros = code ^ (size - 1);
        if (zeros == 0) continue;  // the last code
        const uint32_t highest_zero = std::bit_floor(zeros);
        code = (code & (highest_zero - 1)) | highest_zero;
      }
    }
    mask_ = (uint64_t{1} << bits_) - 1;
  }
  uint8_t Get(uint64_t bits) const { return table_[bits & mask_]; }

 private:
  size_t bits_ = 1;
  uint64_t mask_ = 1;
  std::array<uint8_t, size_t{1} << kCodeBitsMax> table_;
};

// An entry: how many bits the symbol and what follows it take, and what it is.
constexpr size_t BitsOf(uint8_t entry) { return entry & size_t{0x1f}; }
constexpr uint8_t kIsMatch = 0x40;
constexpr uint8_t kIsEnd = 0x80;

class BlockWalk {
 public:
  BlockWalk(const uint8_t* stream, size_t size) : walk_(stream, size) {}

  LastBlock ToLast() {
    for (;;) {
      LastBlock block{.begin = walk_.position()};
      const bool is_last = walk_.Take(1) != 0;
      switch (walk_.Take(2)) {
        case 0:
          SkipStored();
          break;
        case 1:
          FixedCodes();
          SkipSymbols();
          break;
        case 2:
          ReadCodes();
          SkipSymbols();
          break;
        default:
          CHECK(false);
      }
      block.end = walk_.position();
      if (is_last) return block;
    }
  }

 private:
  void SkipStored() {
    walk_.ToByte();
    const size_t bytes = walk_.Take(16);
    walk_.Skip(16 + bytes * 8);
  }

  void FixedCodes() {
    std::array<uint8_t, kLengthSymbols> lengths;
    for (size_t symbol = 0; symbol < kLengthSymbols; ++symbol)
      lengths[symbol] = symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8;
    std::array<uint8_t, kOffsetSymbols> offset_lengths;
    offset_lengths.fill(5);
    SetCodes(lengths, offset_lengths);
  }

  void ReadCodes() {
    const size_t length_symbols = walk_.Take(5) + 257;
    const size_t offset_symbols = walk_.Take(5) + 1;
    const size_t order_size = walk_.Take(4) + 4;
    std::array<uint8_t, kCodeLengthOrder.size()> code_lengths = {};
    for (size_t i = 0; i < order_size; ++i)
      code_lengths[kCodeLengthOrder[i]] = static_cast<uint8_t>(walk_.Take(3));
    // What the table gives is the symbol; how long its code is stands in code_lengths.
    std::array<uint8_t, kCodeLengthOrder.size()> symbols;
    for (size_t i = 0; i < symbols.size(); ++i) symbols[i] = static_cast<uint8_t>(i);
    length_codes_.Build(code_lengths, symbols);
    std::array<uint8_t, kLengthSymbols + kOffsetSymbols> lengths = {};
    for (size_t i = 0; i < length_symbols + offset_symbols;) {
      const uint8_t symbol = length_codes_.Get(walk_.Peek());
      walk_.Skip(code_lengths[symbol]);
      if (symbol < 16) {
        lengths[i++] = symbol;
        continue;
      }
      size_t count = 0;
      uint8_t repeated = 0;
      if (symbol == 16) {
        CHECK(i > 0);
        repeated = lengths[i - 1];
        count = 3 + walk_.Take(2);
      } else {
        count = symbol == 17 ? 3 + walk_.Take(3) : 11 + walk_.Take(7);
      }
      CHECK(i + count <= length_symbols + offset_symbols);
      for (; count > 0; --count) lengths[i++] = repeated;
    }
    SetCodes(std::span(lengths).first(length_symbols),
             std::span(lengths).subspan(length_symbols, offset_symbols));
  }

  void SetCodes(std::span<const uint8_t> lengths, std::span<const uint8_t> offset_lengths) {
    std::array<uint8_t, kLengthSymbols> entries;
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      size_t bits = lengths[symbol];
      uint8_t kind = symbol == kEndOfBlock ? kIsEnd : 0;
      if (symbol > kEndOfBlock) {
        kind = kIsMatch;
        const size_t extra = symbol - kEndOfBlock - 1;
        if (extra < kLengthExtraBits.size()) bits += kLengthExtraBits[extra];
      }
      entries[symbol] = static_cast<uint8_t>(bits | kind);
    }
    length_codes_.Build(lengths, entries);
    for (size_t symbol = 0; symbol < offset_lengths.size(); ++symbol) {
      const size_t extra_bits = symbol < 4 ? 0 : symbol / 2 - 1;
      entries[symbol] = static_cast<uint8_t>(offset_lengths[symbol] + extra_bits);
    }
    offset_codes_.Build(offset_lengths, entries);
  }

  void SkipSymbols() {
    for (;;) {
      const uint64_t bits = walk_.Peek();
      const uint8_t entry = length_codes_.Get(bits);
      size_t used = BitsOf(entry);
      CHECK(used != 0);
      if ((entry & kIsMatch) != 0) used += BitsOf(offset_codes_.Get(bits >> used));
      walk_.Skip(used);
      if ((entry & kIsEnd) != 0) return;
    }
  }

  BitWalk walk_;
  CodeTable length_codes_;
  CodeTable offset_codes_;
};

}  // namespace

LastBlock FindLastBlock(const uint8_t* stream, size_t size) {
  return BlockWalk(stream, size).ToLast();
}

DeflateParts::DeflateParts(int level) : compressor_(libdeflate_alloc_compressor(level)) {
  CHECK(compressor_ != nullptr);
}

DeflateParts::~DeflateParts() { libdeflate_free_compressor(compressor_); }

std::string DeflateParts::Add(Bytes plain) {
  const size_t bound = libdeflate_deflate_compress_bound(compressor_, plain.size());
  if (packed_.size() < bound + kWalkSlackBytes) packed_.resize(bound + kWalkSlackBytes);
  const size_t size =
      libdeflate_deflate_compress(compressor_, plain.data(), plain.size(), packed_.data(), bound);
  CHECK(size != 0);
  const LastBlock last = FindLastBlock(packed_.data(), size);
  CHECK((last.end + 7) / 8 == size);
  packed_[last.begin / 8] &= static_cast<uint8_t>(~(1U << last.begin % 8));
  // The padding is zeros, and so is the header of a stored block: three bits, perhaps in a byte of their own.
  constexpr size_t kHeaderBits = 3;
  std::string part(reinterpret_cast<const char*>(packed_.data()), size);
  part.resize((last.end + kHeaderBits + 7) / 8, '\0');
  part.append("\0\0\xff\xff", 4);
  return part;
}

}  // namespace ptarmigan::internal
