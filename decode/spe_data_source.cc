#include "decode/spe_data_source.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ptarmigan {
namespace {

constexpr std::string_view kUnknownSource = "unknown";
constexpr std::string_view kL1Hit = "L1 hit";
constexpr std::string_view kL2Hit = "L2 hit";
constexpr std::string_view kL3Hit = "L3 hit";
constexpr std::string_view kRemote = "remote";
constexpr std::string_view kRam = "RAM";
constexpr std::string_view kRemoteRam = "remote RAM";
constexpr std::string_view kIo = "IO";

constexpr std::array kCommonSources = {
    SpeSource{0, "l1d", kL1Hit},
    SpeSource{8, "l2", kL2Hit},
    SpeSource{9, "peer_core", kL2Hit},
    SpeSource{10, "local_cluster", kL3Hit},
    SpeSource{11, "sys_cache", kL3Hit},
    SpeSource{12, "peer_cluster", kL3Hit},
    SpeSource{13, "remote", kRemote, Answer::kYes},
    SpeSource{14, "dram", kRam},
};
constexpr std::array kAmpereOneSources = {
    SpeSource{0, "local_chip_cache_or_device", kL2Hit},
    SpeSource{3, "slc", kL3Hit},
    SpeSource{5, "remote_chip_cache", kRemote, Answer::kYes},
    SpeSource{7, "ddr", kRam},
    SpeSource{8, "l1d", kL1Hit},
    SpeSource{9, "l2d", kL2Hit},
};
constexpr std::array kHip12Sources = {
    SpeSource{0, "peer_cpu", kL2Hit},
    SpeSource{1, "peer_cpu_hitm", kL2Hit, Answer::kNo, true},
    SpeSource{2, "l3", kL3Hit},
    SpeSource{3, "l3_hitm", kL3Hit, Answer::kNo, true},
    SpeSource{4, "peer_cluster", kL3Hit},
    SpeSource{5, "peer_cluster_hitm", kL3Hit, Answer::kNo, true},
    SpeSource{6, "remote_socket", kRemote, Answer::kYes},
    SpeSource{7, "remote_socket_hitm", kRemote, Answer::kYes, true},
    SpeSource{8, "local_mem", kRam},
    SpeSource{9, "remote_mem", kRemoteRam, Answer::kYes},
    SpeSource{13, "nc_dev", kIo},
    SpeSource{16, "l2", kL2Hit},
    SpeSource{17, "l2_hitm", kL2Hit, Answer::kNo, true},
    SpeSource{18, "l1", kL1Hit},
};

constexpr SpeSourceTable kNoTable = {};
constexpr SpeSourceTable kCommonTable = {"common", kCommonSources};
constexpr SpeSourceTable kAmpereOneTable = {"ampereone", kAmpereOneSources};
constexpr SpeSourceTable kHip12Table = {"hip12", kHip12Sources};

constexpr uint32_t kArm = 0x41;
constexpr uint32_t kHiSilicon = 0x48;
constexpr uint32_t kNvidia = 0x4e;
constexpr uint32_t kAmpere = 0xc0;

struct CpuFamily {
  uint32_t implementer;
  uint32_t part;
  const SpeSourceTable* table;
};

constexpr std::array kCpuFamilies = {
    CpuFamily{kArm, 0xd0c, &kCommonTable},        // Neoverse N1
    CpuFamily{kArm, 0xd49, &kCommonTable},        // Neoverse N2
    CpuFamily{kArm, 0xd8e, &kCommonTable},        // Neoverse N3
    CpuFamily{kArm, 0xd40, &kCommonTable},        // Neoverse V1
    CpuFamily{kArm, 0xd4f, &kCommonTable},        // Neoverse V2
    CpuFamily{kArm, 0xd83, &kCommonTable},        // Neoverse V3AE
    CpuFamily{kArm, 0xd84, &kCommonTable},        // Neoverse V3
    CpuFamily{kArm, 0xd4d, &kCommonTable},        // Cortex-A715
    CpuFamily{kArm, 0xd81, &kCommonTable},        // Cortex-A720
    CpuFamily{kArm, 0xd89, &kCommonTable},        // Cortex-A720AE
    CpuFamily{kArm, 0xd87, &kCommonTable},        // Cortex-A725
    CpuFamily{kArm, 0xd4b, &kCommonTable},        // Cortex-A78C
    CpuFamily{kArm, 0xd44, &kCommonTable},        // Cortex-X1
    CpuFamily{kArm, 0xd4c, &kCommonTable},        // Cortex-X1C
    CpuFamily{kArm, 0xd4e, &kCommonTable},        // Cortex-X3
    CpuFamily{kArm, 0xd82, &kCommonTable},        // Cortex-X4
    CpuFamily{kArm, 0xd85, &kCommonTable},        // Cortex-X925
    CpuFamily{kNvidia, 0x010, &kCommonTable},     // Olympus
    CpuFamily{kAmpere, 0xac4, &kAmpereOneTable},  // AmpereOne A
    CpuFamily{kHiSilicon, 0xd06, &kHip12Table},   // HIP12
};

struct CacheLevel {
  SpeEvent access;
  SpeEvent miss;
  std::string_view hit_level;
  std::string_view miss_level;
};

// Nearest first. Between the first two stands the line fill buffer, which has one event.
constexpr std::array<CacheLevel, 3> kCacheLevels = {
    CacheLevel{SpeEvent::kL1dAccess, SpeEvent::kL1dRefill, "L1 hit", "L1 miss"},
    CacheLevel{SpeEvent::kL2dAccess, SpeEvent::kL2dMiss, "L2 hit", "L2 miss"},
    CacheLevel{SpeEvent::kLlcAccess, SpeEvent::kLlcMiss, "L3 hit", "L3 miss"},
};
constexpr std::string_view kBufferHit = "LFB hit";

std::string_view LoadLevel(const SpeRecord& record) {
  for (size_t i = 0; i < kCacheLevels.size(); ++i) {
    if (record.Event(kCacheLevels[i].access) && !record.Event(kCacheLevels[i].miss)) {
      return kCacheLevels[i].hit_level;
    }
    if (i == 0 && record.Event(SpeEvent::kLineFillBuffer)) return kBufferHit;
  }
  for (size_t i = kCacheLevels.size(); i-- > 0;) {
    if (record.Event(kCacheLevels[i].miss)) return kCacheLevels[i].miss_level;
  }
  return "";
}

std::string_view StoreLevel(const SpeRecord& record) {
  for (size_t i = kCacheLevels.size(); i-- > 0;) {
    if (record.Event(kCacheLevels[i].miss)) return kCacheLevels[i].miss_level;
    if (record.Event(kCacheLevels[i].access)) return kCacheLevels[i].hit_level;
  }
  return "";
}

Answer AnswerOf(const SpeRecord& record, SpeEvent event) {
  if (!record.HasEvent(event)) return Answer::kUnknown;
  return record.Event(event) ? Answer::kYes : Answer::kNo;
}

MemOp OpOf(const SpeRecord& record) {
  if (record.IsStore()) return MemOp::kStore;
  if (record.IsLoad()) return MemOp::kLoad;
  return record.IsBranch() ? MemOp::kBranch : MemOp::kOther;
}

void SetLatencies(const SpeRecord& record, uint16_t counter_max, MemSample* sample) {
  constexpr std::array<MemLatency, kSpeCounters> kLatencies = {
      MemLatency::kTotal, MemLatency::kIssue, MemLatency::kTranslation};
  for (unsigned i = 0; i < kSpeCounters; ++i) {
    const auto counter = static_cast<SpeCounter>(i);
    if (!record.Has(counter)) continue;
    sample->Set(kLatencies[i], record.Counter(counter));
    if (record.Counter(counter) == counter_max) {
      sample->saturated =
          static_cast<uint8_t>(sample->saturated | 1U << static_cast<unsigned>(kLatencies[i]));
    }
  }
}

}  // namespace

const SpeSource* SpeSourceTable::Find(uint64_t code) const {
  for (const SpeSource& source : sources) {
    if (source.code == code) return &source;
  }
  return nullptr;
}

const SpeSourceTable& SpeDataSourcesOf(uint64_t midr) {
  const uint64_t implementer = midr >> 24 & 0xff;
  const uint64_t part = midr >> 4 & 0xfff;
  for (const CpuFamily& family : kCpuFamilies) {
    if (family.implementer == implementer && family.part == part) return *family.table;
  }
  return kNoTable;
}

const SpeSourceTable& UnknownSpeDataSources() { return kNoTable; }

uint64_t MidrFromCpuid(std::string_view cpuid) {
  if (cpuid.starts_with("0x") || cpuid.starts_with("0X")) cpuid.remove_prefix(2);
  uint64_t midr = 0;
  const auto [end, error] = std::from_chars(cpuid.data(), cpuid.data() + cpuid.size(), midr, 16);
  return error == std::errc() && end != cpuid.data() ? midr : 0;
}

std::string_view SpeDataSourceName(const SpeRecord& record, const SpeSourceTable& table) {
  if (!record.IsLoad() || !record.HasDataSource()) return "";
  const SpeSource* source = table.Find(record.DataSource());
  return source != nullptr ? source->name : kUnknownSource;
}

std::string_view SpeLevelByEvents(const SpeRecord& record) {
  if (record.IsStore()) return StoreLevel(record);
  return record.IsLoad() ? LoadLevel(record) : "";
}

std::string_view SpeLevel(const SpeRecord& record, const SpeSourceTable& table) {
  if (record.IsLoad() && record.HasDataSource()) {
    const SpeSource* source = table.Find(record.DataSource());
    if (source != nullptr) return source->level;
  }
  return SpeLevelByEvents(record);
}

MemSample ToMemSample(const SpeRecord& record, const SpeOrigin& origin) {
  MemSample sample;
  sample.source = MemSample::Source::kSpe;
  sample.identity = origin.identity;
  sample.op = OpOf(record);
  if (record.Has(SpeAddress::kPc)) {
    const unsigned level = record.ExceptionLevel(SpeAddress::kPc);
    sample.has_ip = true;
    sample.ip = record.Pc();
    sample.exception_level = static_cast<int8_t>(level);
    // The host's kernel runs at EL2 with VHE, else at EL1.
    sample.cpumode = level == 0 ? CpuMode::kUser : CpuMode::kKernel;
  }
  SetLatencies(record, origin.counter_max, &sample);
  if (record.IsBranch()) sample.mispredicted = AnswerOf(record, SpeEvent::kMispredicted);
  sample.retired = AnswerOf(record, SpeEvent::kRetired);
  if (record.Has(SpeAddress::kVirtual)) {
    sample.has_data_address = true;
    sample.data_address = {record.AddressOf(SpeAddress::kVirtual)};
  }
  if (record.Has(SpeAddress::kPhysical)) {
    sample.has_physical_address = true;
    sample.physical_address = record.AddressOf(SpeAddress::kPhysical);
  }
  if (!record.IsLoadStore()) return sample;

  sample.remote = AnswerOf(record, SpeEvent::kRemoteAccess);
  if (record.Event(SpeEvent::kTlbWalk)) {
    sample.tlb = "walk";
  } else if (record.Event(SpeEvent::kTlbAccess)) {
    sample.tlb = "hit";
  }
  if (record.Event(SpeEvent::kHitModified)) {
    sample.snoop = "HITM";
  } else if (record.Event(SpeEvent::kSnooped)) {
    sample.snoop = "hit";
  }
  const SpeSource* source = nullptr;
  if (record.IsLoad() && record.HasDataSource()) {
    const SpeSourceTable& table =
        origin.data_sources != nullptr ? *origin.data_sources : UnknownSpeDataSources();
    source = table.Find(record.DataSource());
    sample.data_source_code = record.DataSource();
    sample.data_source = source != nullptr ? source->name : kUnknownSource;
  }
  sample.level = source != nullptr ? source->level : SpeLevelByEvents(record);
  if (source != nullptr && source->remote == Answer::kYes) sample.remote = Answer::kYes;
  if (source != nullptr && source->modified) sample.snoop = "HITM";
  return sample;
}

}  // namespace ptarmigan
