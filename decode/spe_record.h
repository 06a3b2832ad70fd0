// SpeRecord: one sampled operation as its packets tell it, nothing interpreted away; and SpeOrigin, what the recording
// around it adds (thread, time, CPU). Both are plain values, cheap to reuse; strings and tables they refer to are
// static.
#pragma once

#include <array>
#include <cstdint>

#include "decode/spe_packet.h"
#include "model/address.h"
#include "model/event.h"

namespace ptarmigan {

struct SpeSourceTable;

// Each packet that matters has a slot for its payload and one for its header byte, which is never 0 where the packet
// was there. Of packets that come twice the last one counts.
struct SpeRecord {
  enum Slot : uint8_t {
    kAddressSlot = 0,  // + SpeAddress
    kCounterSlot = 5,  // + SpeCounter
    kContextSlot = 8,  // + index
    kEventsSlot = 10,
    kDataSourceSlot = 11,
    kOperationSlot = 12,
    kTimestampSlot = 13,
    kIgnoredSlot = 14,  // packets with an index that is not assigned
    kSlots = 16,
  };

  uint64_t aux_offset =
      0;  // of the first packet that is no padding, in the AUX stream of its CPU or thread
  std::array<uint64_t, kSlots> values = {};  // meaningful where headers[] is not 0
  std::array<uint8_t, kSlots> headers = {};

  bool Has(Slot slot) const { return headers[slot] != 0; }
  bool HasTimestamp() const { return Has(kTimestampSlot); }
  uint64_t timestamp() const { return values[kTimestampSlot]; }  // generic timer ticks

  bool Has(SpeAddress address) const { return headers[SlotOf(address)] != 0; }
  // Payload as written, with its metadata in the top byte.
  uint64_t Raw(SpeAddress address) const { return values[SlotOf(address)]; }
  // Of kPc, kTarget, kPreviousTarget: exception level and non-secure bit.
  unsigned ExceptionLevel(SpeAddress code) const {
    return static_cast<unsigned>(Raw(code) >> 61 & 3);
  }
  bool NonSecure(SpeAddress address) const { return Raw(address) >> 63 != 0; }
  // The address proper: code addresses of EL1 and EL2 and data addresses of the kernel half get the top byte that
  // their metadata displaced; physical addresses are bits 55:0.
  uint64_t AddressOf(SpeAddress address) const;
  VirtAddr Pc() const { return {AddressOf(SpeAddress::kPc)}; }
  uint8_t DataAddressTag() const { return static_cast<uint8_t>(Raw(SpeAddress::kVirtual) >> 56); }

  bool Has(SpeCounter counter) const { return headers[SlotOf(counter)] != 0; }
  uint16_t Counter(SpeCounter counter) const {
    return static_cast<uint16_t>(values[SlotOf(counter)]);
  }

  // CONTEXTIDR_EL2 where there is one (the host's under VHE), else CONTEXTIDR_EL1.
  bool HasContext() const { return Has(kContextSlot) || headers[kContextSlot + 1] != 0; }
  uint32_t Context() const {
    return static_cast<uint32_t>(
        values[headers[kContextSlot + 1] != 0 ? kContextSlot + 1 : kContextSlot]);
  }

  // Bits beyond the packet's size are absent, not zero.
  unsigned EventBytes() const {
    return Has(kEventsSlot) ? 1U << (headers[kEventsSlot] >> 4 & 3) : 0;
  }
  uint64_t Events() const { return Has(kEventsSlot) ? values[kEventsSlot] : 0; }
  bool Event(SpeEvent event) const { return (Events() >> static_cast<unsigned>(event) & 1) != 0; }
  bool HasEvent(SpeEvent event) const { return static_cast<unsigned>(event) < EventBytes() * 8; }

  bool HasOperation() const { return Has(kOperationSlot); }
  SpeOperationClass OperationClass() const {
    return static_cast<SpeOperationClass>(headers[kOperationSlot] & 3);
  }
  uint8_t Operation() const { return static_cast<uint8_t>(values[kOperationSlot]); }
  bool IsLoadStore() const {
    return HasOperation() && OperationClass() == SpeOperationClass::kLoadStore;
  }
  bool IsStore() const { return IsLoadStore() && (Operation() & 1) != 0; }
  bool IsLoad() const { return IsLoadStore() && (Operation() & 1) == 0; }
  bool IsBranch() const { return HasOperation() && OperationClass() == SpeOperationClass::kBranch; }

  bool HasDataSource() const { return Has(kDataSourceSlot); }
  uint64_t DataSource() const { return values[kDataSourceSlot]; }

  static constexpr size_t SlotOf(SpeAddress address) {
    return kAddressSlot + static_cast<size_t>(address);
  }
  static constexpr size_t SlotOf(SpeCounter counter) {
    return kCounterSlot + static_cast<size_t>(counter);
  }
};

enum class SpeThreadSource : uint8_t {
  kNone,      // not known: identity.tid is -1
  kContext,   // CONTEXT packet
  kSwitch,    // the task that was switched in last
  kAuxtrace,  // a recording per thread
};

struct SpeOrigin {
  static constexpr uint32_t kNoEvent = UINT32_MAX;

  // cpu is that of the AUX buffer, kNoCpu in a recording per thread. time_ns only if the recording says how to convert
  // the timestamp. pid is -1 where only the tid is known.
  RecordIdentity identity;
  SpeThreadSource thread_source = SpeThreadSource::kNone;
  uint16_t counter_max =
      0x0fff;                 // where counters of this CPU saturate, as far as seen: 12 or 16 bits
  uint32_t event = kNoEvent;  // index into RecordingDescription::events
  const SpeSourceTable* data_sources = nullptr;  // never null in what SpeStream delivers
};

inline uint64_t SpeRecord::AddressOf(SpeAddress address) const {
  constexpr uint64_t kTopByte = uint64_t{0xff} << 56;
  const uint64_t raw = Raw(address);
  switch (address) {
    case SpeAddress::kPhysical:
      return raw & ~kTopByte;
    case SpeAddress::kVirtual:
      return (raw >> 52 & 0xf) == 0xf ? raw | kTopByte : raw & ~kTopByte;
    default: {
      const unsigned level = static_cast<unsigned>(raw >> 61 & 3);
      return raw >> 63 != 0 && (level == 1 || level == 2) ? raw | kTopByte : raw & ~kTopByte;
    }
  }
}

}  // namespace ptarmigan
