#include "hw/internal/coresight_metadata.h"

#include <array>

#include "base/str_format.h"
#include "hw/internal/pmu_events.h"

namespace ptarmigan::internal {
namespace {

constexpr uint64_t kVersion = 1;
constexpr uint64_t kEtm4Magic = 0x4040404040404040;
constexpr uint64_t kEteMagic = 0x5050505050505050;
constexpr unsigned kArchitectureVersionShift = 12;  // TRCDEVARCH.ARCHVER
constexpr uint64_t kEteArchitectureVersion = 5;

// TRCCONFIGR (Arm ARM, D17) by the term of the event's config that sets it.
struct ConfigBit {
  std::string_view term;
  uint64_t bits;
};
constexpr std::array<ConfigBit, 6> kConfigBits = {{
    {"branch_broadcast", 1U << 3},
    {"cycacc", 1U << 4},
    {"contextid1", 1U << 6},
    {"contextid2", 1U << 7 | 1U << 15},  // VMID and VMIDOPT: the virtual context id
    {"timestamp", 1U << 11},
    {"retstack", 1U << 12},
}};

std::string UnitFile(int32_t cpu, std::string_view file) {
  return StrFormat("cpu{}/{}", cpu, file);
}

uint64_t Register(std::string_view pmu, int32_t cpu, std::string_view file,
                  const EventRoots& roots) {
  return ParseNumber(ReadPmuFile(pmu, UnitFile(cpu, file), roots)).value_or(0);
}

// Whether the config has any bit of the term; a PMU without the term has none.
bool HasTerm(std::string_view pmu, std::string_view term, const EventAttr& attr,
             const EventRoots& roots) {
  const auto format = ReadTermFormat(pmu, term, roots);
  if (!format || format->word != 0) return false;
  const uint64_t all = format->Width() >= 64 ? UINT64_MAX : (uint64_t{1} << format->Width()) - 1;
  return (attr.config & format->Place(all).value_or(0)) != 0;
}

uint64_t ConfigRegister(std::string_view pmu, const EventAttr& attr, const EventRoots& roots) {
  uint64_t value = 0;
  for (const ConfigBit& bit : kConfigBits) {
    if (HasTerm(pmu, bit.term, attr, roots)) value |= bit.bits;
  }
  return value;
}

// Before kernels gave ids out themselves (AUX_OUTPUT_HW_ID, Linux 6.3), each CPU had this one.
uint64_t LegacyTraceId(int32_t cpu) {
  constexpr uint64_t kFirst = 0x10;
  return kFirst + 2 * static_cast<uint64_t>(cpu);
}

}  // namespace

std::vector<int32_t> CoreSightCpus(std::string_view pmu, const std::vector<int32_t>& cpus,
                                   const EventRoots& roots) {
  std::vector<int32_t> with_unit;
  for (const int32_t cpu : cpus) {
    if (!ReadPmuFile(pmu, UnitFile(cpu, "trcidr/trcidr0"), roots).empty()) with_unit.push_back(cpu);
  }
  return with_unit;
}

std::vector<uint64_t> CoreSightMetadata(std::string_view pmu, const EventAttr& attr,
                                        bool is_snapshot, const std::vector<int32_t>& cpus,
                                        const EventRoots& roots) {
  const std::vector<int32_t> units = CoreSightCpus(pmu, cpus, roots);
  std::vector<uint64_t> words = {kVersion, uint64_t{attr.type} << 32 | units.size(),
                                 is_snapshot ? uint64_t{1} : 0};
  for (const int32_t cpu : units) {
    const auto read = [&](std::string_view file) { return Register(pmu, cpu, file, roots); };
    const uint64_t architecture = read("mgmt/trcdevarch");
    const bool is_ete = (architecture >> kArchitectureVersionShift & 15) == kEteArchitectureVersion;
    std::vector<uint64_t> parameters = {ConfigRegister(pmu, attr, roots), LegacyTraceId(cpu),
                                        read("trcidr/trcidr0"),           read("trcidr/trcidr1"),
                                        read("trcidr/trcidr2"),           read("trcidr/trcidr8"),
                                        read("mgmt/trcauthstatus")};
    if (is_ete) parameters.push_back(architecture);
    words.insert(words.end(),
                 {is_ete ? kEteMagic : kEtm4Magic, static_cast<uint64_t>(cpu), parameters.size()});
    words.insert(words.end(), parameters.begin(), parameters.end());
  }
  return words;
}

}  // namespace ptarmigan::internal
