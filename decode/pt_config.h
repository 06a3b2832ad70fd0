// PtConfig: what must be known of the traced processor, and of how tracing was set up, to decode Intel PT. A perf
// recording says it in PERF_RECORD_AUXTRACE_INFO (tools/perf/util/intel-pt.h in Linux), in the config of the event that
// traced, and in its header's cpuid.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_cursor.h"

namespace ptarmigan {

struct PtConfig {
  // Of the traced CPU, for the errata to work around.
  bool cpu_is_intel = false;  // false: not known
  uint16_t cpu_family = 0;
  uint8_t cpu_model = 0;
  uint8_t cpu_stepping = 0;

  // TSC ticks = crystal ticks * tsc_ratio / crystal_ratio (CPUID 15h EBX and EAX); 0: not known.
  uint32_t tsc_ratio = 0;
  uint32_t crystal_ratio = 0;
  uint8_t mtc_frequency =
      0;  // IA32_RTIT_CTL.MTCFreq: MTC packets come every 2^n ticks of the crystal
  bool mtc = false;
  bool cyc = false;
  uint8_t nominal_ratio = 0;  // MSR_PLATFORM_INFO[15:8], the maximum non-turbo ratio; 0: not known
  bool return_compression = true;
  bool address_filter = false;  // only some code was traced

  // TSC to the recording's clock: ns = zero + tsc * mult / 2^shift. mult 0: not known.
  uint16_t time_shift = 0;
  uint32_t time_mult = 0;
  uint64_t time_zero = 0;

  bool has_clock() const { return time_mult != 0; }
  // Modulo 2^64. 0 without a clock.
  uint64_t ToNs(uint64_t ticks) const;
  // The first tick at or after `ns`; 0 where that lies before all ticks, or without a clock.
  uint64_t ToTicks(uint64_t ns) const;
  // Ticks of the TSC between two MTC packets; 0: not known.
  uint64_t MtcPeriodTicks() const;
};

// A recording's Intel PT part.
struct PtRecording {
  PtConfig config;
  uint32_t pmu_type = 0;
  bool per_cpu_mmaps = false;      // one AUX buffer per CPU, not per thread
  bool have_sched_switch = false;  // context switches are recorded
  bool snapshot_mode = false;
  std::string filter;  // of addresses, as the kernel was given it

  // Where attr.config has what.
  uint64_t noretcomp_bit = 0;
  uint64_t mtc_bit = 0;
  uint64_t mtc_frequency_bits = 0;
  uint64_t cyc_bit = 0;

  // Adds what the config of the PT event (of PMU `pmu_type`) says.
  void SetEventConfig(uint64_t attr_config);
  // Adds the CPU, from the header's text "GenuineIntel,FAMILY,MODEL,STEPPING". False if it is none such.
  bool SetCpu(std::string_view cpuid);
};

// `record` includes the header. Nothing if it is not Intel PT's, or too short.
std::optional<PtRecording> ReadPtRecording(Bytes record, std::endian order);

}  // namespace ptarmigan
