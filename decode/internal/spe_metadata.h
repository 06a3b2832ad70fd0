// What PERF_RECORD_AUXTRACE_INFO of Arm SPE (type 4, versions 1 and 2) and PERF_RECORD_TIME_CONV say.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <optional>

#include "base/byte_cursor.h"
#include "decode/spe_data_source.h"

namespace ptarmigan::internal {

struct SpeCpuMetadata {
  const SpeSourceTable* data_sources = nullptr;
  std::optional<uint32_t> pmu_type;
};

struct SpeMetadata {
  static constexpr size_t kCpusMax = size_t{1} << 16;

  bool has_cpus = false;  // version 2
  uint32_t pmu_type = 0;  // version 1: of every CPU
  std::map<uint32_t, SpeCpuMetadata> cpus;
  // The table that all CPUs share; null if they differ or there are none.
  const SpeSourceTable* shared_data_sources = nullptr;
};

// `record` includes the header. Nothing if it is not SPE's or too short.
std::optional<SpeMetadata> ReadSpeMetadata(Bytes record, std::endian order);

// Timer ticks to perf's clock (include/uapi/linux/perf_event.h, perf_event_mmap_page).
struct TimeConversion {
  uint64_t shift = 0;
  uint64_t mult = 0;
  uint64_t zero = 0;
  uint64_t cycles = 0;
  uint64_t mask = 0;
  bool extends = false;  // cap_user_time_short: the counter has fewer bits and is extended first

  uint64_t ToNanoseconds(uint64_t ticks) const;
};

// Nothing if the record is too short or says that it cannot be used.
std::optional<TimeConversion> ReadTimeConversion(Bytes record, std::endian order);

}  // namespace ptarmigan::internal
