// What PERF_RECORD_AUXTRACE_INFO of Arm SPE (type 4, versions 1 and 2) says.
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

}  // namespace ptarmigan::internal
