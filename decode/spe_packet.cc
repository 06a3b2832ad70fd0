#include "decode/spe_packet.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/str_format.h"
#include "decode/internal/spe_header_table.h"

namespace ptarmigan {
namespace {

using internal::SpeHeader;

constexpr std::array<std::string_view, 26> kEventNames = {"EXCEPTION-GEN",
                                                          "RETIRED",
                                                          "L1D-ACCESS",
                                                          "L1D-REFILL",
                                                          "TLB-ACCESS",
                                                          "TLB-REFILL",
                                                          "NOT-TAKEN",
                                                          "MISPRED",
                                                          "LLC-ACCESS",
                                                          "LLC-REFILL",
                                                          "REMOTE-ACCESS",
                                                          "ALIGNMENT",
                                                          "",
                                                          "",
                                                          "",
                                                          "",
                                                          "TXN",
                                                          "SVE-PARTIAL-PRED",
                                                          "SVE-EMPTY-PRED",
                                                          "L2D-ACCESS",
                                                          "L2D-MISS",
                                                          "HITM",
                                                          "LFB",
                                                          "SNOOPED",
                                                          "STREAMING-SVE",
                                                          "SMCU"};

uint64_t ReadPayload(Bytes bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

void AddWord(std::string_view word, std::string* text) {
  if (!text->empty()) *text += ' ';
  *text += word;
}

// Bits 6:4 of SVE and SME operations.
unsigned VectorBits(uint8_t payload) { return 32U << (payload >> 4 & 7); }

std::string OtherDetail(uint8_t payload) {
  std::string text;
  if ((payload & 0xf8) == 0) {
    if ((payload & 4) != 0) AddWord("ASE", &text);
    if ((payload & 2) != 0) AddWord("FP", &text);
    AddWord((payload & 1) != 0 ? "COND-SELECT" : "INSN-OTHER", &text);
  } else if ((payload & 0x89) == 0x08) {
    text = StrFormat("SVE-OTHER EVLEN {}", VectorBits(payload));
    if ((payload & 2) != 0) AddWord("FP", &text);
    if ((payload & 4) != 0) AddWord("PRED", &text);
  } else if ((payload & 0x89) == 0x88) {
    const unsigned size = (payload >> 4 & 7U) << 1 | (payload >> 2 & 1U);
    text = StrFormat("SME-OTHER ETS {}", 128U << size);
    if ((payload & 2) != 0) AddWord("FP", &text);
  }
  return text;
}

std::string LoadStoreDetail(uint8_t payload) {
  std::string text;
  if ((payload & 0xe2) == 0x02) {
    if ((payload & 4) != 0) AddWord("AT", &text);
    if ((payload & 8) != 0) AddWord("EXCL", &text);
    if ((payload & 0x10) != 0) AddWord("AR", &text);
    return text;
  }
  if ((payload & 0x0a) == 0x08) {
    text = StrFormat("SVE-SME-REG EVLEN {}", VectorBits(payload));
    if ((payload & 4) != 0) AddWord("PRED", &text);
    if ((payload & 0x80) != 0) AddWord("SG", &text);
    return text;
  }
  if ((payload & 0xfa) == 0x40) return (payload & 4) != 0 ? "GCS COMM" : "GCS";
  if (payload == 0x25) return "MEMSET";
  switch (payload & 0xfe) {
    case 0x00:
      return "GP-REG";
    case 0x04:
      return "SIMD-FP";
    case 0x10:
      return "UNSPEC-REG";
    case 0x30:
      return "NV-SYSREG";
    case 0x14:
      return "MTE-TAG";
    case 0x20:
      return "MEMCPY";
    default:
      return text;
  }
}

std::string BranchDetail(uint8_t payload) {
  constexpr std::array<std::string_view, 4> kCallOrReturn = {"", "CR-BL", "CR-RET",
                                                             "CR-NON-BL-RET"};
  std::string text;
  if ((payload & 1) != 0) AddWord("COND", &text);
  if ((payload & 2) != 0) AddWord("IND", &text);
  if ((payload & 4) != 0) AddWord("GCS", &text);
  if ((payload >> 3 & 3) != 0) AddWord(kCallOrReturn[payload >> 3 & 3], &text);
  return text;
}

using DetailTable = std::array<std::array<std::string, 256>, 3>;

DetailTable MakeDetails() {
  DetailTable table;
  for (unsigned payload = 0; payload < 256; ++payload) {
    const auto byte = static_cast<uint8_t>(payload);
    table[0][payload] = OtherDetail(byte);
    table[1][payload] = LoadStoreDetail(byte);
    table[2][payload] = BranchDetail(byte);
  }
  return table;
}

// As printf's %#x: zero has no prefix.
void AppendHex(uint64_t value, std::string* text) {
  *text += value == 0 ? "0" : StrFormat("0x{:x}", value);
}

void DescribeAddress(const SpePacket& packet, std::string* text) {
  constexpr std::array<std::string_view, kSpeAddresses> kNames = {"PC ", "TGT ", "VA ", "PA ",
                                                                  "PBT "};
  constexpr uint64_t kAddressMask = ~(uint64_t{0xff} << 56);
  const uint64_t raw = packet.payload;
  if (packet.index >= kSpeAddresses) {
    *text += "ADDR ";
    AppendHex(raw, text);
    *text += StrFormat(" ({})", packet.index);
    return;
  }
  *text += kNames[packet.index];
  const auto address = static_cast<SpeAddress>(packet.index);
  AppendHex(address == SpeAddress::kVirtual ? raw : raw & kAddressMask, text);
  if (address == SpeAddress::kVirtual) return;
  if (address == SpeAddress::kPhysical) {
    *text += StrFormat(" ns={} ch={} pat={:x}", raw >> 63, raw >> 62 & 1, raw >> 56 & 0xf);
  } else {
    *text += StrFormat(" el{} ns={}", raw >> 61 & 3, raw >> 63);
  }
}

void DescribeCounter(const SpePacket& packet, std::string* text) {
  constexpr std::array<std::string_view, kSpeCounters> kNames = {" TOT", " ISSUE", " XLAT"};
  *text += StrFormat("LAT {}", packet.payload);
  if (packet.index < kSpeCounters) *text += kNames[packet.index];
}

void DescribeOperation(const SpePacket& packet, std::string* text) {
  const auto operation_class = static_cast<SpeOperationClass>(packet.index);
  const auto payload = static_cast<uint8_t>(packet.payload);
  *text += SpeOperationName(operation_class, payload);
  const std::string_view detail = SpeOperationDetail(operation_class, payload);
  if (!detail.empty()) *text += ' ';
  *text += detail;
}

}  // namespace

SpePacket ReadSpePacket(Bytes bytes) {
  SpePacket packet;
  const auto first = std::to_integer<uint8_t>(bytes[0]);
  const SpeHeader header = internal::kSpeHeaders[first];
  packet.kind = header.kind;
  packet.size_bytes = 1;
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  size_t header_bytes = 1;
  uint8_t last = first;
  switch (header.action) {
    case SpeHeader::Action::kBad:
    case SpeHeader::Action::kEnd:
      return packet;
    case SpeHeader::Action::kPadding:
      packet.size_bytes =
          static_cast<size_t>(std::ranges::find_if_not(bytes, is_zero) - bytes.begin());
      return packet;
    case SpeHeader::Action::kExtended: {
      if (bytes.size() < 2) {
        packet.kind = SpePacketKind::kTruncated;
        return packet;
      }
      header_bytes = 2;
      last = std::to_integer<uint8_t>(bytes[1]);
      packet.index = static_cast<uint8_t>((first & 3) << 3 | (last & 7));
      if (last == 0) {
        packet.kind = SpePacketKind::kAlignment;
        packet.index = first & 0xf;
        packet.size_bytes = 2;
        return packet;
      }
      if (!internal::IsSpeAddressHeader(last) && !internal::IsSpeCounterHeader(last)) return packet;
      packet.kind = internal::kSpeHeaders[last].kind;
      break;
    }
    case SpeHeader::Action::kStore:
    case SpeHeader::Action::kTimestamp:
      packet.index =
          packet.kind == SpePacketKind::kOperation || packet.kind == SpePacketKind::kContext
              ? first & 3
              : first & 7;
      break;
  }
  const unsigned payload_bytes = internal::SpePayloadBytes(last);
  if (bytes.size() < header_bytes + payload_bytes) {
    packet.kind = SpePacketKind::kTruncated;
    packet.size_bytes = bytes.size();
    return packet;
  }
  packet.size_bytes = header_bytes + payload_bytes;
  packet.payload_bytes = static_cast<uint8_t>(payload_bytes);
  packet.payload = ReadPayload(bytes.subspan(header_bytes, payload_bytes));
  return packet;
}

void DescribeSpePacket(const SpePacket& packet, std::string* text) {
  switch (packet.kind) {
    case SpePacketKind::kBad:
      *text += "BAD";
      return;
    case SpePacketKind::kTruncated:
      *text += "TRUNCATED";
      return;
    case SpePacketKind::kPadding:
      *text += "PAD";
      return;
    case SpePacketKind::kAlignment:
      *text += "ALIGNMENT";
      return;
    case SpePacketKind::kEnd:
      *text += "END";
      return;
    case SpePacketKind::kTimestamp:
      *text += StrFormat("TS {}", packet.payload);
      return;
    case SpePacketKind::kEvents:
      *text += packet.payload == 0 ? "EV" : "EV ";
      AppendSpeEventNames(packet.payload, ' ', text);
      return;
    case SpePacketKind::kDataSource:
      *text += StrFormat("DATA-SOURCE {}", packet.payload);
      return;
    case SpePacketKind::kContext:
      *text += StrFormat("CONTEXT 0x{:x} el{}", packet.payload, packet.index + 1);
      return;
    case SpePacketKind::kOperation:
      DescribeOperation(packet, text);
      return;
    case SpePacketKind::kAddress:
      DescribeAddress(packet, text);
      return;
    case SpePacketKind::kCounter:
      DescribeCounter(packet, text);
      return;
  }
}

std::string_view SpeOperationName(SpeOperationClass operation_class, uint8_t payload) {
  switch (operation_class) {
    case SpeOperationClass::kLoadStore:
      return (payload & 1) != 0 ? "ST" : "LD";
    case SpeOperationClass::kBranch:
      return "B";
    case SpeOperationClass::kOther:
      break;
  }
  return "OTHER";
}

std::string_view SpeOperationDetail(SpeOperationClass operation_class, uint8_t payload) {
  static const DetailTable& table = *new DetailTable(MakeDetails());
  return table[static_cast<size_t>(operation_class)][payload];
}

void AppendSpeEventNames(uint64_t events, char separator, std::string* text) {
  bool first = true;
  for (; events != 0; events &= events - 1) {
    const auto bit = static_cast<unsigned>(std::countr_zero(events));
    if (!first) *text += separator;
    first = false;
    if (bit < kEventNames.size() && !kEventNames[bit].empty()) {
      *text += kEventNames[bit];
    } else {
      *text += StrFormat("IMPDEF{}", bit);
    }
  }
}

}  // namespace ptarmigan
