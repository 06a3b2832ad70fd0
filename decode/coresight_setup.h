// What PERF_RECORD_AUXTRACE_INFO of CoreSight (type 3, versions 0 to 2) says: which trace unit each CPU has and how it was
// programmed. Layout: Linux tools/perf/util/cs-etm.h (cs_etm_global_header, cs_etmv3_priv, cs_etmv4_priv, cs_ete_priv).
// Register names are those of the Arm ETM and ETE specifications (IHI 0014, IHI 0064, DDI 0487 D).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan {

// The language of a trace unit.
enum class EtmProtocol : uint8_t { kEtm3, kPtm, kEtm4, kEte };

std::string_view EtmProtocolName(EtmProtocol protocol);

// One CPU's trace unit: the registers that its decoder asks for.
struct EtmUnit {
  uint32_t cpu = 0;
  EtmProtocol protocol = EtmProtocol::kEtm4;
  uint32_t config = 0;  // TRCCONFIGR; ETMv3 and PTM: ETMCR
  uint32_t trace_id =
      0;  // TRCTRACEIDR; ETMv3 and PTM: ETMTRACEIDR. Means nothing where HW_ID records name the ids
  uint32_t idr0 = 0;  // TRCIDR0; ETMv3 and PTM: ETMIDR
  uint32_t idr1 = 0;
  uint32_t idr2 = 0;
  uint32_t idr8 = 0;
  uint32_t devarch = 0;  // ETE: TRCDEVARCH
  uint32_t ccer = 0;     // ETMv3 and PTM: ETMCCER

  bool operator==(const EtmUnit&) const = default;
};

struct CoreSightSetup {
  static constexpr size_t kUnitsMax = size_t{1} << 16;

  uint32_t pmu_type = 0;
  bool is_snapshot = false;
  // Trace ids stand in PERF_RECORD_AUX_OUTPUT_HW_ID, not in the units (version 2).
  bool has_hardware_ids = false;
  std::vector<EtmUnit> units;  // one per CPU, in the record's order
  bool is_cut = false;         // the record says that there are more units than it holds
  uint64_t unknown_units = 0;  // of a kind that is not known here
};

// `record` includes the header. Nothing if it is not CoreSight's or too short to say anything.
std::optional<CoreSightSetup> ReadCoreSightSetup(Bytes record, std::endian order);

// PERF_RECORD_AUX_OUTPUT_HW_ID of a CoreSight event (include/linux/coresight-pmu.h, CS_AUX_HW_ID_*).
struct CoreSightHardwareId {
  uint8_t trace_id = 0;
  std::optional<uint32_t> sink;  // since minor version 1; the same id may be used by several sinks
};

// Nothing if the id is of a major version that is not known or not a valid one (1 to 0x6f).
std::optional<CoreSightHardwareId> ReadCoreSightHardwareId(uint64_t hardware_id);

}  // namespace ptarmigan
