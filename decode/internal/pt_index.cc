#include "decode/internal/pt_index.h"

#include <algorithm>
#include <cstring>

namespace ptarmigan::internal {
namespace {

constexpr size_t kPsbPairBytes = 2;  // a PSB is eight times 02 82
constexpr uint8_t kPsb[kPsbBytes] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                     2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
// The packets of a header are some 60 bytes; CYC and PAD may stand between them.
constexpr size_t kHeaderBytesMax = 512;
constexpr size_t kCycBytesMax = 12;

constexpr uint8_t kExtended = 0x02;
constexpr uint8_t kExtendedPsbEnd = 0x23;
constexpr uint8_t kExtendedOverflow = 0xf3;
constexpr uint8_t kTsc = 0x19;
constexpr uint8_t kFupMask = 0x1f;
constexpr uint8_t kFup = 0x1d;
constexpr uint8_t kTip = 0x0d;
constexpr uint8_t kTipPge = 0x11;
constexpr uint8_t kTipPgd = 0x01;
constexpr int kPacketsLookedAtMax = 64;

uint8_t ByteAt(Bytes bytes, size_t at) { return std::to_integer<uint8_t>(bytes[at]); }

// Sizes of packets 02 xx (SDM volume 3, table "Packet Formats").
size_t ExtendedPacketBytes(Bytes bytes) {
  if (bytes.size() < 2) return 0;
  const uint8_t second = ByteAt(bytes, 1);
  switch (second) {
    case 0x82:
      return bytes.size() >= kPsbBytes && std::memcmp(bytes.data(), kPsb, kPsbBytes) == 0
                 ? kPsbBytes
                 : 0;
    case kExtendedPsbEnd:
    case kExtendedOverflow:
    case 0x83:  // TraceStop
    case 0x62:  // EXSTOP
    case 0xe2:
    case 0x33:  // block end
    case 0xb3:
      return 2;
    case 0x03:  // CBR
    case 0x22:  // PWRE
    case 0x13:  // CFE
      return 4;
    case 0xd9:  // TRIG
      return 3;
    case 0x63:  // block begin
      return 3;
    case 0xc8:  // VMCS
    case 0x73:  // TMA
    case 0xa2:  // PWRX
      return 7;
    case 0x43:  // PIP
    case 0xa3:  // long TNT
      return 8;
    case 0xc2:  // MWAIT
      return 10;
    case 0x53:  // EVD
    case 0xc3:  // MNT
      return 11;
    default:
      break;
  }
  if ((second & 0x1f) == 0x12) {  // PTW
    switch (second >> 5 & 3) {
      case 0:
        return 6;
      case 1:
        return 10;
      default:
        return 0;
    }
  }
  return 0;
}

size_t AddressBytes(uint8_t header) {
  constexpr uint8_t kBytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};
  return kBytes[header >> 5];
}

size_t PacketBytes(Bytes bytes) {
  const uint8_t first = ByteAt(bytes, 0);
  if (first == kExtended) return ExtendedPacketBytes(bytes);
  if ((first & 1) == 0) return 1;  // PAD and short TNT
  switch (first & 0x1f) {
    case 0x01:  // TIP.PGD
    case 0x0d:  // TIP
    case 0x11:  // TIP.PGE
    case kFup:
      return 1 + AddressBytes(first);
    default:
      break;
  }
  switch (first) {
    case kTsc:
      return 8;
    case 0x59:  // MTC
    case 0x99:  // MODE
      return 2;
    case 0xd9:  // TRIG
      return 3;
    default:
      break;
  }
  if ((first & 3) != 3) return 0;
  // CYC: bit 2 of the first byte and bit 0 of the others say that more follow.
  size_t size = 1;
  bool more = (first & 4) != 0;
  while (more) {
    if (size >= bytes.size() || size >= kCycBytesMax) return 0;
    more = (ByteAt(bytes, size) & 1) != 0;
    ++size;
  }
  return size;
}

uint64_t Little(Bytes bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | ByteAt(bytes, i);
  return value;
}

// After a PSB the address before it is 0 for what only updates its lower bytes.
bool ReadAddress(Bytes packet, uint64_t* address) {
  const uint8_t kind = static_cast<uint8_t>(ByteAt(packet, 0) >> 5);
  if (packet.size() == 1) return false;
  *address = Little(packet.subspan(1));
  if (kind == 3) *address = static_cast<uint64_t>(static_cast<int64_t>(*address << 16) >> 16);
  return true;
}

// CBR, PIP, VMCS, TMA, MNT.
bool IsStatus(uint8_t second) {
  return second == 0x03 || second == 0x43 || second == 0xc8 || second == 0x73 || second == 0xc3;
}

// Whether tracing begins with the first packet that tells of flow. Then it was off, whatever the header says: hardware
// names the address at which it is about to begin (errata BDM70, SKD024 and others).
bool BeginsTracing(Bytes bytes) {
  for (int packets = 0; packets < kPacketsLookedAtMax; ++packets) {
    const size_t size = PtPacketBytes(bytes);
    if (size == 0) return false;
    const uint8_t first = ByteAt(bytes, 0);
    if ((first & kFupMask) == kTipPge) return true;
    const bool tells_of_flow = (first & kFupMask) == kTip || (first & kFupMask) == kTipPgd ||
                               (first & kFupMask) == kFup || ((first & 1) == 0 && first > 2) ||
                               (first == kExtended && !IsStatus(ByteAt(bytes, 1)));
    if (tells_of_flow) return false;
    bytes = bytes.subspan(size);
  }
  return false;
}

void ReadHeader(Bytes trace, PtSyncPoint* point) {
  size_t at = static_cast<size_t>(point->offset) + kPsbBytes;
  const size_t end = std::min(trace.size(), at + kHeaderBytesMax);
  while (at < end) {
    const Bytes rest = trace.subspan(at);
    const size_t size = PtPacketBytes(rest);
    if (size == 0) return;
    const Bytes packet = rest.first(size);
    const uint8_t first = ByteAt(packet, 0);
    at += size;
    if (first == kTsc) {
      point->has_tsc = true;
      point->tsc = Little(packet.subspan(1));
    } else if ((first & kFupMask) == kFup) {
      point->has_address = ReadAddress(packet, &point->address);
    } else if (first == kExtended) {
      const uint8_t second = ByteAt(packet, 1);
      if (second == kExtendedPsbEnd) {
        point->header_end = at;
        if (point->has_address && BeginsTracing(trace.subspan(at))) point->has_address = false;
        return;
      }
      if (second == kExtendedOverflow || second == 0x82) return;
    }
  }
}

}  // namespace

size_t PtPacketBytes(Bytes bytes) {
  if (bytes.empty()) return 0;
  const size_t size = PacketBytes(bytes);
  return size <= bytes.size() ? size : 0;
}

std::vector<PtSyncPoint> IndexPt(Bytes trace) {
  std::vector<PtSyncPoint> points;
  const std::byte* at = trace.data();
  const std::byte* const end = at + trace.size();
  while (at != end) {
    const void* found = memmem(at, static_cast<size_t>(end - at), kPsb, kPsbBytes);
    if (found == nullptr) break;
    PtSyncPoint& point = points.emplace_back();
    at = static_cast<const std::byte*>(found);
    // The packets before it may end as a PSB begins (a CYC and a TNT): nothing that follows one begins so.
    while (static_cast<size_t>(end - at) >= kPsbBytes + kPsbPairBytes &&
           std::memcmp(at + kPsbBytes, kPsb, kPsbPairBytes) == 0) {
      at += kPsbPairBytes;
    }
    point.offset = static_cast<uint64_t>(at - trace.data());
    at += kPsbBytes;
    ReadHeader(trace, &point);
  }
  return points;
}

}  // namespace ptarmigan::internal
