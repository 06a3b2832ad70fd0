// What each first byte of an Arm SPE packet means, as a table. Payload sizes follow from bits 5:4 of the header but for
// END, padding and extended headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "decode/spe_packet.h"
#include "decode/spe_record.h"

namespace ptarmigan::internal {

struct SpeHeader {
  enum class Action : uint8_t {
    kStore,      // payload into its slot
    kTimestamp,  // the same, and the record ends
    kEnd,
    kExtended,  // look at the second byte
    kBad,
    kPadding,
  };
  Action action = Action::kBad;
  uint8_t slot = SpeRecord::kIgnoredSlot;
  SpePacketKind kind = SpePacketKind::kBad;
};

constexpr unsigned SpePayloadBytes(uint8_t header) { return 1U << (header >> 4 & 3); }
constexpr bool IsSpeAddressHeader(uint8_t header) { return (header & 0xf8) == 0xb0; }
constexpr bool IsSpeCounterHeader(uint8_t header) { return (header & 0xf8) == 0x98; }
constexpr bool IsSpeExtendedHeader(uint8_t header) { return (header & 0xfc) == 0x20; }

// The slot of a packet with an index; one slot for all indexes that are not assigned.
constexpr uint8_t IndexedSpeSlot(unsigned first_slot, unsigned index, unsigned assigned) {
  const unsigned ignored = SpeRecord::kIgnoredSlot;
  return static_cast<uint8_t>(index < assigned ? first_slot + index : ignored);
}

constexpr SpeHeader ClassifySpeHeader(uint8_t header) {
  using Action = SpeHeader::Action;
  const unsigned index = header & 7;
  if (header == 0) return {Action::kPadding, SpeRecord::kIgnoredSlot, SpePacketKind::kPadding};
  if (header == 0x01) return {Action::kEnd, SpeRecord::kIgnoredSlot, SpePacketKind::kEnd};
  if (header == 0x71)
    return {Action::kTimestamp, SpeRecord::kTimestampSlot, SpePacketKind::kTimestamp};
  if ((header & 0xcf) == 0x42)
    return {Action::kStore, SpeRecord::kEventsSlot, SpePacketKind::kEvents};
  if ((header & 0xcf) == 0x43)
    return {Action::kStore, SpeRecord::kDataSourceSlot, SpePacketKind::kDataSource};
  if ((header & 0xfc) == 0x64) {
    return {Action::kStore, IndexedSpeSlot(SpeRecord::kContextSlot, header & 3, 2),
            SpePacketKind::kContext};
  }
  if ((header & 0xfc) == 0x48 && (header & 3) != 3)
    return {Action::kStore, SpeRecord::kOperationSlot, SpePacketKind::kOperation};
  if (IsSpeExtendedHeader(header))
    return {Action::kExtended, SpeRecord::kIgnoredSlot, SpePacketKind::kBad};
  if (IsSpeAddressHeader(header)) {
    return {Action::kStore, IndexedSpeSlot(SpeRecord::kAddressSlot, index, kSpeAddresses),
            SpePacketKind::kAddress};
  }
  if (IsSpeCounterHeader(header)) {
    return {Action::kStore, IndexedSpeSlot(SpeRecord::kCounterSlot, index, kSpeCounters),
            SpePacketKind::kCounter};
  }
  return {};
}

inline constexpr std::array<SpeHeader, 256> kSpeHeaders = [] {
  std::array<SpeHeader, 256> table = {};
  for (unsigned header = 0; header < table.size(); ++header) {
    table[header] = ClassifySpeHeader(static_cast<uint8_t>(header));
  }
  return table;
}();

// The slot of an extended address or counter packet: its index has two more bits, in the first byte.
constexpr uint8_t ExtendedSpeSlot(uint8_t first, uint8_t second) {
  return (first & 3) != 0 ? uint8_t{SpeRecord::kIgnoredSlot} : ClassifySpeHeader(second).slot;
}

}  // namespace ptarmigan::internal
