#include "decode/internal/pt_fast_packets.h"

#include <array>
#include <bit>
#include <cstring>

#include "decode/internal/pt_index.h"

namespace ptarmigan::internal {
namespace {

using Kind = PtFastPacket::Kind;

constexpr uint8_t kExtended = 0x02;
constexpr uint8_t kTsc = 0x19;
constexpr uint8_t kMtc = 0x59;
constexpr uint8_t kMode = 0x99;
constexpr uint8_t kAddressMask = 0x1f;
constexpr uint8_t kTip = 0x0d;
constexpr uint8_t kTipPge = 0x11;
constexpr uint8_t kTipPgd = 0x01;
constexpr uint8_t kFup = 0x1d;
// Second bytes.
constexpr uint8_t kCbr = 0x03;
constexpr uint8_t kPsbEnd = 0x23;
constexpr uint8_t kPip = 0x43;
constexpr uint8_t kTma = 0x73;
constexpr uint8_t kPsb = 0x82;
constexpr uint8_t kLongTnt = 0xa3;
constexpr uint8_t kVmcs = 0xc8;
constexpr uint8_t kOvf = 0xf3;

constexpr size_t kTscBytes = 8;
constexpr size_t kMtcBytes = 2;
constexpr size_t kModeBytes = 2;
constexpr size_t kTmaBytes = 7;
constexpr size_t kCbrBytes = 4;
constexpr size_t kExtendedBytes = 2;  // of OVF, PSBEND
constexpr size_t kLongTntBytes = 8;
// No processor counts so far; decoders disagree on longer ones.
constexpr size_t kCycBytesMax = 8;
constexpr std::array<uint8_t, 8> kAddressBytes = {0, 2, 4, 6, 6, 0, 8, 0};

bool IsTiming(uint8_t first) {
  return first == 0 || first == kTsc || first == kMtc || (first & 3) == 3;
}

// Of `count` bits in the lower bits of `value`, the oldest first, with a 1 above them.
uint64_t FromTop(uint64_t value, unsigned count) { return (value << 1 | 1) << (63 - count); }

}  // namespace

size_t PtFastPackets::TimingBytes(size_t at) {
  const size_t left = bytes_.size() - at;
  const uint8_t first = ByteAt(at);
  if (first == 0) return 1;
  if (first == kTsc) {
    may_have_tma_ = true;
    return left >= kTscBytes ? kTscBytes : 0;
  }
  if (first == kMtc) return left >= kMtcBytes ? kMtcBytes : 0;
  if ((first & 3) == 3) {
    size_t size = 1;
    for (bool more = (first & 4) != 0; more; ++size) {
      if (size >= left || size >= kCycBytesMax) return 0;
      more = (ByteAt(at + size) & 1) != 0;
    }
    // Erratum SKD007: it may be the start of an OVF.
    const bool may_be_overflow = size == 2 && (first >> 3 | (ByteAt(at + 1) >> 1) << 5) >> 5 == 1 &&
                                 left > 2 && ByteAt(at + 2) == kOvf;
    return may_be_overflow ? 0 : size;
  }
  if (first != kExtended || left < kTmaBytes || ByteAt(at + 1) != kTma) return 0;
  // Crystal clock, a reserved byte, and nine bits of the fast counter.
  const bool is_sound = may_have_tma_ && ByteAt(at + 4) == 0 && ByteAt(at + 6) <= 1;
  may_have_tma_ = false;
  return is_sound ? kTmaBytes : 0;
}

bool PtFastPackets::ReadAddress(size_t at, size_t* size, bool* has_address) {
  const unsigned form = ByteAt(at) >> 5;
  const size_t bytes = kAddressBytes[form];
  *size = 1 + bytes;
  *has_address = bytes != 0;
  if (bytes == 0) return form == 0;
  if (bytes_.size() - at < *size) return false;
  uint64_t value = 0;
  for (size_t i = bytes; i > 0; --i) value = value << 8 | ByteAt(at + i);
  constexpr unsigned kSignExtended = 3;
  if (form == kSignExtended) {
    last_address_ = static_cast<uint64_t>(static_cast<int64_t>(value << 16) >> 16);
  } else {
    const uint64_t kept = bytes == 8 ? 0 : ~uint64_t{0} << (8 * bytes);
    last_address_ = (last_address_ & kept) | value;
  }
  return true;
}

// CS.L is bit 0, CS.D bit 1.
bool PtFastPackets::ReadExecutionMode(size_t at, bool* is_64_bit) const {
  if (bytes_.size() - at < kModeBytes) return false;
  const uint8_t mode = ByteAt(at + 1);
  if (mode >> 5 != 0 || ((mode & 3) != 1 && (mode & 3) != 2)) return false;
  *is_64_bit = (mode & 3) == 1;
  return true;
}

PtFastPackets::Header PtFastPackets::ReadHeader(size_t* at, uint8_t* states) {
  Header header;
  bool has_mode = false;
  last_address_ = 0;
  *states = 0;
  if (bytes_.size() - *at < kPsbBytes || PtPacketBytes(bytes_.subspan(*at)) != kPsbBytes)
    return header;
  *at += kPsbBytes;
  while (*at < bytes_.size()) {
    const uint8_t first = ByteAt(*at);
    size_t size = TimingBytes(*at);
    if (size == 0) {
      size = PtPacketBytes(bytes_.subspan(*at));
      if (size == 0) return header;
      if (first == kMode) {
        ++*states;
        constexpr uint8_t kTransactions = 1;
        if (ReadExecutionMode(*at, &header.is_64_bit)) {
          has_mode = true;
        } else if (ByteAt(*at + 1) >> 5 != kTransactions) {
          return header;
        }
      } else if ((first & kAddressMask) == kFup) {
        if (!ReadAddress(*at, &size, &header.has_address)) return header;
        header.address = last_address_;
      } else if (first == kExtended) {
        const uint8_t second = ByteAt(*at + 1);
        if (second == kPsbEnd) {
          *at += size;
          header.is_plain = has_mode;
          return header;
        }
        if (second != kCbr && second != kPip && second != kVmcs) return header;
        if (second == kCbr && ByteAt(*at + 2) == 0) return header;
        ++*states;
      } else {
        return header;
      }
    }
    *at += size;
  }
  return header;
}

PtFastPackets::Header PtFastPackets::Begin(Bytes bytes, size_t own_bytes) {
  bytes_ = bytes;
  own_bytes_ = own_bytes;
  at_ = 0;
  may_have_tma_ = false;
  uint8_t states = 0;
  return ReadHeader(&at_, &states);
}

void PtFastPackets::Next(PtFastPacket* packet) {
  bool has_from = false;
  size_t at = at_;
  const size_t size = bytes_.size();
  packet->kind = Kind::kOdd;
  packet->has_mode = false;
  for (;;) {
    if (at >= size) {
      if (!has_from && !packet->has_mode) packet->kind = Kind::kEnd;
      packet->offset = packet->end = size;
      return;
    }
    const uint8_t first = ByteAt(at);
    if ((first & 1) == 0 && first > kExtended) {
      if (has_from || packet->has_mode) return;
      const unsigned value = first >> 1;
      packet->kind = Kind::kBits;
      packet->bits = FromTop(value, static_cast<unsigned>(std::bit_width(value)) - 1);
      packet->offset = at;
      packet->end = at_ = at + 1;
      return;
    }
    if ((first & 7) == 3) {  // CYC of one byte
      ++at;
      continue;
    }
    if (IsTiming(first) || (first == kExtended && at + 1 < size && ByteAt(at + 1) == kTma)) {
      const size_t timing = TimingBytes(at);
      if (timing == 0) return;
      at += timing;
      continue;
    }
    packet->offset = at;
    size_t bytes = 0;
    const uint8_t form = first & kAddressMask;
    // What a mode is told before is where tracing begins; else it may have changed.
    if (packet->has_mode && form != kTipPge) return;
    switch (form) {
      case kTip:
        if (!ReadAddress(at, &bytes, &packet->has_address) || !packet->has_address) return;
        packet->kind = has_from ? Kind::kInterrupt : Kind::kTarget;
        break;
      case kTipPgd:
        if (!ReadAddress(at, &bytes, &packet->has_address)) return;
        packet->kind = has_from ? Kind::kStopAt : Kind::kStop;
        break;
      case kTipPge:
        if (has_from || !ReadAddress(at, &bytes, &packet->has_address) || !packet->has_address) {
          return;
        }
        packet->kind = Kind::kStart;
        break;
      case kFup:
        if (has_from || !ReadAddress(at, &bytes, &has_from) || !has_from) return;
        packet->from = last_address_;
        at += bytes;
        continue;
      default:
        if (has_from) return;
        if (first == kMode) {
          if (!ReadExecutionMode(at, &packet->is_64_bit)) return;
          packet->has_mode = true;
          at += kModeBytes;
          continue;
        }
        if (first == kExtended) NextExtended(at, packet);
        return;
    }
    packet->address = last_address_;
    packet->end = at_ = at + bytes;
    return;
  }
}

void PtFastPackets::NextExtended(size_t at, PtFastPacket* packet) {
  const size_t left = bytes_.size() - at;
  if (left < kExtendedBytes) return;
  switch (ByteAt(at + 1)) {
    case kLongTnt: {
      if (left < kLongTntBytes) return;
      uint64_t value = 0;
      for (size_t i = kLongTntBytes; i-- > kExtendedBytes;) value = value << 8 | ByteAt(at + i);
      const auto width = static_cast<unsigned>(std::bit_width(value));
      if (width < 2) return;
      packet->kind = Kind::kBits;
      packet->bits = FromTop(value, width - 1);
      packet->end = at_ = at + kLongTntBytes;
      return;
    }
    case kCbr:
      if (left < kCbrBytes || ByteAt(at + 2) == 0) return;
      packet->kind = Kind::kRatio;
      packet->end = at_ = at + kCbrBytes;
      return;
    case kOvf:
      if (!odd_overflows_) Overflow(at, packet);
      return;
    case kPsb: {
      if (at != own_bytes_) return;
      const Header header = ReadHeader(&at, &packet->states);
      if (!header.is_plain || !header.has_address || at != bytes_.size()) return;
      packet->kind = Kind::kNextHeader;
      packet->is_64_bit = header.is_64_bit;
      packet->address = header.address;
      packet->end = at_ = at;
      // libipt has read the header, and waits at its end.
      packet->offset = at - kExtendedBytes;
      return;
    }
    default:
      return;
  }
}

// A FUP behind it, if nothing but timing stands between, says where tracing goes on. Else tracing went off before packets
// came again.
void PtFastPackets::Overflow(size_t at, PtFastPacket* packet) {
  last_address_ = 0;
  const bool may_have_tma = may_have_tma_;
  const size_t behind = at + kExtendedBytes;
  for (size_t look = behind; look < bytes_.size();) {
    const size_t timing = TimingBytes(look);
    if (timing != 0) {
      look += timing;
      continue;
    }
    const size_t other = PtPacketBytes(bytes_.subspan(look));
    if (other == 0) return;
    const uint8_t first = ByteAt(look);
    if ((first & kAddressMask) == kFup) {
      size_t size = 0;
      if (!ReadAddress(look, &size, &packet->has_address) || !packet->has_address) return;
      packet->kind = Kind::kOverflow;
      packet->address = last_address_;
      packet->end = at_ = look + size;
      return;
    }
    if ((first & kAddressMask) == kTipPge || first == kMode) break;
    if (first == kExtended && ByteAt(look + 1) == kPsb) break;
    return;
  }
  may_have_tma_ = may_have_tma;
  packet->kind = Kind::kOverflow;
  packet->has_address = false;
  packet->end = at_ = behind;
}

}  // namespace ptarmigan::internal
