// The PMUs that sysfs lists (Documentation/ABI/testing/sysfs-bus-event_source-devices*, Linux 6.18): their formats
// and named events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hw/event_spec.h"

namespace ptarmigan::internal {

// Which bits of which config word a term fills, lowest first: "config:0-7,21" or "config1:0".
struct TermFormat {
  int word = 0;  // 0: config, 1: config1, 2: config2, 3: config3
  std::vector<std::pair<unsigned, unsigned>> ranges;  // first and last bit, inclusive

  unsigned Width() const;
  // Spreads `value` over the ranges; nothing if it does not fit.
  std::optional<uint64_t> Place(uint64_t value) const;
};
std::optional<TermFormat> ParseTermFormat(std::string_view text);

// "pmu/terms/" -> spec without modifiers.
Result<EventSpec> ParsePmuEvent(std::string_view pmu, std::string_view terms,
                                const EventRoots& roots);
// Files of a PMU's folder: the format of a term (nothing if there is none), and any small file as text without the line's
// end ("" if it cannot be read).
std::optional<TermFormat> ReadTermFormat(std::string_view pmu, std::string_view term,
                                         const EventRoots& roots);
std::string ReadPmuFile(std::string_view pmu, std::string_view relative, const EventRoots& roots);
// Decimal, 0x hexadecimal or 0 octal, the whole text.
std::optional<uint64_t> ParseNumber(std::string_view text);
// The PMU of a CPU that lists `event` under events/, if any ("cpu", "cpu_core", "armv8_pmuv3_0").
std::optional<std::string> CpuPmuWithEvent(std::string_view event, const EventRoots& roots);
std::vector<std::string> PmuNames(const EventRoots& roots);
// Names under <pmu>/events, without ".scale" and the like.
std::vector<std::string> PmuEventNames(std::string_view pmu, const EventRoots& roots);
// "0-3,8" -> numbers; bounded by kCpusMax.
std::vector<int32_t> ParseCpuList(std::string_view text);
constexpr int32_t kCpusMax = 8192;  // CONFIG_NR_CPUS of the largest kernels

}  // namespace ptarmigan::internal
