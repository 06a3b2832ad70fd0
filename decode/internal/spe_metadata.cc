#include "decode/internal/spe_metadata.h"

#include <algorithm>

#include "decode/internal/private_words.h"
#include "decode/record_types.h"

namespace ptarmigan::internal {
namespace {

constexpr uint32_t kAuxtraceTypeSpe = 4;
constexpr size_t kVersion1Words = 2;   // PMU type, per-CPU mmaps
constexpr size_t kVersion2Words = 4;   // version, header words, PMU type, CPUs
constexpr size_t kCpuHeaderWords = 3;  // magic, CPU, number of parameters
constexpr uint64_t kNoPmu = UINT64_MAX;

// One CPU's words, as many as it says itself: those unknown to us are skipped.
SpeCpuMetadata ReadCpu(const PrivateWords& words, size_t first_parameter, uint64_t parameters) {
  SpeCpuMetadata cpu;
  cpu.data_sources =
      parameters >= 1 ? &SpeDataSourcesOf(words[first_parameter]) : &UnknownSpeDataSources();
  if (parameters >= 2 && words[first_parameter + 1] != kNoPmu) {
    cpu.pmu_type = static_cast<uint32_t>(words[first_parameter + 1]);
  }
  return cpu;
}

}  // namespace

std::optional<SpeMetadata> ReadSpeMetadata(Bytes record, std::endian order) {
  ByteCursor cursor(record, order);
  cursor.Skip(kRecordHeaderBytes);
  const uint32_t type = cursor.U32();
  cursor.Skip(sizeof(uint32_t));
  const PrivateWords words(cursor.Rest(), order);
  if (!cursor.ok() || type != kAuxtraceTypeSpe || words.size() < kVersion1Words) return {};

  SpeMetadata metadata;
  if (words.size() < kVersion2Words) {
    metadata.pmu_type = static_cast<uint32_t>(words[0]);
    return metadata;
  }
  metadata.has_cpus = true;
  metadata.pmu_type = static_cast<uint32_t>(words[2]);
  const uint64_t cpus = std::min<uint64_t>(words[3], SpeMetadata::kCpusMax);
  uint64_t next = std::max<uint64_t>(words[1], kVersion2Words);
  for (uint64_t i = 0; i < cpus; ++i) {
    if (next > words.size() || words.size() - next < kCpuHeaderWords) break;
    const uint64_t parameters = words[next + 2];
    const uint64_t first_parameter = next + kCpuHeaderWords;
    if (parameters > words.size() - first_parameter) break;
    metadata.cpus[static_cast<uint32_t>(words[next + 1])] =
        ReadCpu(words, first_parameter, parameters);
    next = first_parameter + parameters;
  }
  for (const auto& [number, cpu] : metadata.cpus) {
    if (metadata.shared_data_sources == nullptr) {
      metadata.shared_data_sources = cpu.data_sources;
    } else if (metadata.shared_data_sources != cpu.data_sources) {
      metadata.shared_data_sources = nullptr;
      break;
    }
  }
  return metadata;
}

}  // namespace ptarmigan::internal
