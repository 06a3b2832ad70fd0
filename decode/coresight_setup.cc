#include "decode/coresight_setup.h"

#include <algorithm>

#include "base/check.h"
#include "decode/internal/private_words.h"
#include "decode/record_types.h"

namespace ptarmigan {
namespace {

using internal::PrivateWords;

constexpr uint32_t kAuxtraceTypeCoreSight = 3;
constexpr size_t kGlobalWords = 3;  // version; CPUs and PMU type; snapshot
constexpr uint64_t kMagicEtm3 = 0x3030303030303030;
constexpr uint64_t kMagicEtm4 = 0x4040404040404040;
constexpr uint64_t kMagicEte = 0x5050505050505050;
constexpr uint64_t kVersionsMax = 2;
// Version 0 does not say how many words a unit has.
constexpr uint64_t kEtm3Parameters = 4;
constexpr uint64_t kEtm4Parameters = 7;

bool IsPtm(uint32_t etmidr) {
  // ETMIDR, architecture version major (bits 11:8): 2 is ETMv3, 3 is PFT.
  constexpr uint32_t kMajorShift = 8;
  constexpr uint32_t kMajorMask = 0xf;
  constexpr uint32_t kMajorPft = 3;
  return (etmidr >> kMajorShift & kMajorMask) == kMajorPft;
}

// `at` is where the parameters begin; words beyond the record are 0.
EtmUnit ReadUnit(const PrivateWords& words, uint64_t magic, size_t at) {
  const auto word = [&](size_t index) { return static_cast<uint32_t>(words[at + index]); };
  EtmUnit unit;
  unit.config = word(0);
  unit.trace_id = word(1);
  if (magic == kMagicEtm3) {
    unit.ccer = word(2);
    unit.idr0 = word(3);
    unit.protocol = IsPtm(unit.idr0) ? EtmProtocol::kPtm : EtmProtocol::kEtm3;
    return unit;
  }
  unit.protocol = magic == kMagicEte ? EtmProtocol::kEte : EtmProtocol::kEtm4;
  unit.idr0 = word(2);
  unit.idr1 = word(3);
  unit.idr2 = word(4);
  unit.idr8 = word(5);
  if (magic == kMagicEte) unit.devarch = word(7);  // TRCAUTHSTATUS stands between
  return unit;
}

}  // namespace

std::string_view EtmProtocolName(EtmProtocol protocol) {
  switch (protocol) {
    case EtmProtocol::kEtm3:
      return "ETMv3";
    case EtmProtocol::kPtm:
      return "PTM";
    case EtmProtocol::kEtm4:
      return "ETMv4";
    case EtmProtocol::kEte:
      return "ETE";
  }
  CHECK(false);
}

std::optional<CoreSightSetup> ReadCoreSightSetup(Bytes record, std::endian order) {
  ByteCursor cursor(record, order);
  cursor.Skip(kRecordHeaderBytes);
  const uint32_t type = cursor.U32();
  cursor.Skip(sizeof(uint32_t));
  const PrivateWords words(cursor.Rest(), order);
  if (!cursor.ok() || type != kAuxtraceTypeCoreSight || words.size() < kGlobalWords) return {};
  const uint64_t version = words[0];
  if (version > kVersionsMax) return {};

  CoreSightSetup setup;
  setup.pmu_type = static_cast<uint32_t>(words[1] >> 32);
  setup.is_snapshot = words[2] != 0;
  setup.has_hardware_ids = version == 2;
  const uint64_t cpus =
      std::min<uint64_t>(static_cast<uint32_t>(words[1]), CoreSightSetup::kUnitsMax);
  const size_t unit_header_words = version == 0 ? 2 : 3;  // magic, CPU and, later, parameters
  size_t next = kGlobalWords;
  for (uint64_t i = 0; i < cpus; ++i) {
    const uint64_t magic = words[next];
    const bool is_known = magic == kMagicEtm3 || magic == kMagicEtm4 || magic == kMagicEte;
    uint64_t parameters = magic == kMagicEtm3 ? kEtm3Parameters : kEtm4Parameters;
    if (version > 0) parameters = words[next + 2];
    const size_t first = next + unit_header_words;
    // Without a number of parameters nobody knows where the unit ends.
    if (first > words.size() || parameters > words.size() - first || (version == 0 && !is_known)) {
      setup.is_cut = true;
      break;
    }
    if (is_known) {
      // What the unit does not say is 0, not its neighbour's.
      const PrivateWords own = words.First(first + static_cast<size_t>(parameters));
      EtmUnit unit = ReadUnit(own, magic, first);
      unit.cpu = static_cast<uint32_t>(words[next + 1]);
      setup.units.push_back(unit);
    } else {
      ++setup.unknown_units;
    }
    next = first + static_cast<size_t>(parameters);
  }
  return setup;
}

std::optional<CoreSightHardwareId> ReadCoreSightHardwareId(uint64_t hardware_id) {
  constexpr uint64_t kTraceIdMask = 0xff;
  constexpr unsigned kSinkShift = 8;
  constexpr unsigned kMinorShift = 56;
  constexpr unsigned kMajorShift = 60;
  constexpr uint64_t kVersionMask = 0xf;
  constexpr uint64_t kTraceIdMax = 0x6f;
  const uint64_t trace_id = hardware_id & kTraceIdMask;
  const uint64_t major = hardware_id >> kMajorShift & kVersionMask;
  if (major != 0 || trace_id == 0 || trace_id > kTraceIdMax) return {};
  CoreSightHardwareId id;
  id.trace_id = static_cast<uint8_t>(trace_id);
  if ((hardware_id >> kMinorShift & kVersionMask) >= 1) {
    id.sink = static_cast<uint32_t>(hardware_id >> kSinkShift);
  }
  return id;
}

}  // namespace ptarmigan
