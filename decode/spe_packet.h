// Arm SPE packets: what a statistical profiling extension writes into the AUX buffer, one packet at a time. For tests,
// dumps and fuzzers; what decodes whole recordings is decode/spe_decoder.h, which reads the same table of headers.
//
//   ┌────────┬──────────────────────┐   ┌────┬────────┬──────────────────────┐
//   │ header │ payload, 0 … 8 bytes │   │ 2x │ header │ payload, 0 … 8 bytes │  (extended)
//   └────────┴──────────────────────┘   └────┴────────┴──────────────────────┘
//
// Payloads are little endian. Source: Arm ARM (DDI 0487), "Statistical Profiling Extension sample record"; names of
// events and operations are those of perf (tools/perf/util/arm-spe-decoder, Linux 7.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/byte_cursor.h"

namespace ptarmigan {

enum class SpePacketKind : uint8_t {
  kBad,        // a header that matches nothing
  kTruncated,  // the bytes end inside the packet
  kPadding,    // one or more zero bytes
  kAlignment,  // what follows starts at the next multiple of 2^(index + 1) of the AUX offset
  kEnd,        // ends a record that has no timestamp
  kTimestamp,  // ends a record
  kEvents,
  kDataSource,
  kContext,    // index 0: CONTEXTIDR_EL1, 1: CONTEXTIDR_EL2
  kOperation,  // index: SpeOperationClass
  kAddress,    // index: SpeAddress
  kCounter,    // index: SpeCounter
};

enum class SpeOperationClass : uint8_t { kOther, kLoadStore, kBranch };

// Indexes of address packets; others are not assigned.
enum class SpeAddress : uint8_t { kPc, kTarget, kVirtual, kPhysical, kPreviousTarget };
constexpr unsigned kSpeAddresses = 5;

// Indexes of counter packets (cycles); others are not assigned.
enum class SpeCounter : uint8_t { kTotal, kIssue, kTranslation };
constexpr unsigned kSpeCounters = 3;

enum class SpeEvent : uint8_t {
  kException = 0,
  kRetired = 1,
  kL1dAccess = 2,
  kL1dRefill = 3,
  kTlbAccess = 4,
  kTlbWalk = 5,
  kNotTaken = 6,
  kMispredicted = 7,
  kLlcAccess = 8,
  kLlcMiss = 9,
  kRemoteAccess = 10,
  kMisaligned = 11,
  kTransaction = 16,
  kPartialPredicate = 17,
  kEmptyPredicate = 18,
  kL2dAccess = 19,
  kL2dMiss = 20,
  kHitModified = 21,
  kLineFillBuffer = 22,
  kSnooped = 23,
  kStreamingSve = 24,
  kSmcu = 25,
};

struct SpePacket {
  SpePacketKind kind = SpePacketKind::kBad;
  uint8_t index = 0;
  uint8_t payload_bytes = 0;
  size_t size_bytes =
      0;  // header included; of padding the whole run; 1 for kBad, what is there for kTruncated
  uint64_t payload = 0;
};

// The first packet of `bytes`, which is not empty.
SpePacket ReadSpePacket(Bytes bytes);

// The packet as perf's dumps print it ("PC 0xffff8000 el2 ns=1", "EV RETIRED L1D-ACCESS", "LAT 4 ISSUE").
void DescribeSpePacket(const SpePacket& packet, std::string* text);

// "LD", "ST", "B" or "OTHER".
std::string_view SpeOperationName(SpeOperationClass operation_class, uint8_t payload);
// What perf prints after it ("GP-REG", "COND CR-BL", "SVE-OTHER EVLEN 256 PRED"); may be empty. Static storage.
std::string_view SpeOperationDetail(SpeOperationClass operation_class, uint8_t payload);
// Names of the bits that are set, lowest first; IMPDEFn for bits without an architected meaning.
void AppendSpeEventNames(uint64_t events, char separator, std::string* text);

}  // namespace ptarmigan
