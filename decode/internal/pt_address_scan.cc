#include "decode/internal/pt_address_scan.h"

#include <algorithm>

#include "decode/internal/pt_index.h"

namespace ptarmigan::internal {
namespace {

// Of address packets: the low five bits of the first byte say which, the upper three how much of the address there is.
constexpr uint8_t kKindMask = 0x1f;
constexpr uint8_t kTip = 0x0d;
constexpr uint8_t kTipPge = 0x11;
constexpr uint8_t kTipPgd = 0x01;
constexpr uint8_t kFup = 0x1d;
constexpr uint8_t kMode = 0x99;
constexpr uint8_t kExtended = 0x02;
constexpr uint8_t kExtendedPsb = 0x82;

uint8_t ByteAt(Bytes bytes, size_t at) {
  return at < bytes.size() ? std::to_integer<uint8_t>(bytes[at]) : uint8_t{0};
}

// False if the packet leaves its address out.
bool TakeAddress(Bytes packet, uint64_t* last) {
  const unsigned compression = ByteAt(packet, 0) >> 5;
  uint64_t value = 0;
  for (size_t i = 1; i < packet.size(); ++i) {
    value |= std::to_integer<uint64_t>(packet[i]) << 8 * (i - 1);
  }
  const auto low_bits = [&](unsigned bits) {
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    *last = (*last & ~mask) | (value & mask);
  };
  switch (compression) {
    case 1:
      low_bits(16);
      return true;
    case 2:
      low_bits(32);
      return true;
    case 3:  // 48 bits, sign-extended
      *last = static_cast<uint64_t>(static_cast<int64_t>(value << 16) >> 16);
      return true;
    case 4:
      low_bits(48);
      return true;
    case 6:
      *last = value;
      return true;
    default:
      return false;
  }
}

}  // namespace

void PtAddressScan::Begin(Bytes bytes) {
  bytes_ = bytes;
  at_ = 0;
  last_address_ = 0;
  is_64_bit_ = true;
}

std::optional<PtAddressScan::Landing> PtAddressScan::Next(size_t offset) {
  while (at_ < bytes_.size()) {
    const Bytes rest = bytes_.subspan(at_);
    const size_t size = PtPacketBytes(rest);
    if (size == 0) {
      at_ = bytes_.size();
      break;
    }
    const size_t begin = at_;
    at_ += size;
    const Bytes packet = rest.first(size);
    const uint8_t first = ByteAt(packet, 0);
    const uint8_t kind = first & kKindMask;
    if (first == kExtended) {
      if (ByteAt(packet, 1) == kExtendedPsb) last_address_ = 0;
      continue;
    }
    if (first == kMode) {
      // MODE.Exec is leaf 0; CS.L is bit 0.
      const uint8_t mode = ByteAt(packet, 1);
      if (mode >> 5 == 0) is_64_bit_ = (mode & 1) != 0;
      continue;
    }
    if (kind != kTip && kind != kTipPge && kind != kTipPgd && kind != kFup) continue;
    if (!TakeAddress(packet, &last_address_)) continue;
    if (begin < offset || (kind != kTip && kind != kTipPge)) continue;
    return Landing{.end_offset = at_,
                   .address = last_address_,
                   .enables = kind == kTipPge,
                   .is_64_bit = is_64_bit_};
  }
  return std::nullopt;
}

std::array<uint8_t, kPtEntryBytes> PtEntryAt(uint64_t address, bool is_64_bit) {
  std::array<uint8_t, kPtEntryBytes> entry = {};
  for (size_t i = 0; i < kPsbBytes; i += 2) {
    entry[i] = kExtended;
    entry[i + 1] = kExtendedPsb;
  }
  uint8_t* next = entry.data() + kPsbBytes;
  *next++ = kMode;
  *next++ = is_64_bit ? 0x01 : 0x02;
  *next++ = 3 << 5 | kFup;  // 48 bits of the address, sign-extended
  for (unsigned shift = 0; shift < 48; shift += 8) {
    *next++ = static_cast<uint8_t>(address >> shift);
  }
  *next++ = kExtended;
  *next++ = 0x23;  // PSBEND
  return entry;
}

}  // namespace ptarmigan::internal
