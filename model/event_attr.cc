#include "model/event_attr.h"

#include <array>

#include "base/str_format.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kSwCpuClock = 0;
constexpr uint64_t kSwTaskClock = 1;
constexpr uint64_t kSwDummy = 9;

// perf_hw_id and perf_sw_ids in order, by the names that perf prints.
constexpr std::array<std::string_view, 10> kHardwareNames = {"cycles",
                                                             "instructions",
                                                             "cache-references",
                                                             "cache-misses",
                                                             "branches",
                                                             "branch-misses",
                                                             "bus-cycles",
                                                             "stalled-cycles-frontend",
                                                             "stalled-cycles-backend",
                                                             "ref-cycles"};
constexpr std::array<std::string_view, 12> kSoftwareNames = {
    "cpu-clock",        "task-clock",   "page-faults",  "context-switches",
    "cpu-migrations",   "minor-faults", "major-faults", "alignment-faults",
    "emulation-faults", "dummy",        "bpf-output",   "cgroup-switches"};
constexpr std::array<std::string_view, 7> kCacheNames = {"L1-dcache", "L1-icache", "LLC", "dTLB",
                                                         "iTLB",      "branch",    "node"};
constexpr std::array<std::string_view, 3> kCacheOps = {"load", "store", "prefetch"};
constexpr std::array<std::string_view, 3> kCacheOpPlurals = {"loads", "stores", "prefetches"};

std::string CacheName(uint64_t config) {
  const uint64_t cache = config & 0xff;
  const uint64_t op = config >> 8 & 0xff;
  const uint64_t result = config >> 16 & 0xff;
  if (cache >= kCacheNames.size() || op >= kCacheOps.size() || result > 1) {
    return StrFormat("cache 0x{:x}", config);
  }
  if (result == 1) return StrFormat("{}-{}-misses", kCacheNames[cache], kCacheOps[op]);
  return StrFormat("{}-{}", kCacheNames[cache], kCacheOpPlurals[op]);
}

std::string BaseName(const EventAttr& attr) {
  switch (attr.type) {
    case kPerfTypeHardware:
      // The upper half selects the PMU on hybrid machines.
      if ((attr.config & 0xffffffff) < kHardwareNames.size()) {
        return std::string(kHardwareNames[attr.config & 0xffffffff]);
      }
      return StrFormat("hardware 0x{:x}", attr.config);
    case kPerfTypeSoftware:
      if (attr.config < kSoftwareNames.size()) return std::string(kSoftwareNames[attr.config]);
      return StrFormat("software 0x{:x}", attr.config);
    case kPerfTypeTracepoint:
      return StrFormat("tracepoint {}", attr.config);
    case kPerfTypeHwCache:
      return CacheName(attr.config & 0xffffffff);
    case kPerfTypeRaw:
      return StrFormat("raw 0x{:x}", attr.config);
    case kPerfTypeBreakpoint:
      return StrFormat("mem:0x{:x}", attr.config1);
    default:
      return StrFormat("pmu {} config 0x{:x}", attr.type, attr.config);
  }
}

}  // namespace

std::string NameFromAttr(const EventAttr& attr) {
  std::string name = BaseName(attr);
  std::string modifiers;
  if (attr.exclude_user() || attr.exclude_kernel() || attr.exclude_hv()) {
    // perf itself always excludes the hypervisor together with one of the others.
    if (attr.exclude_user() || attr.exclude_kernel()) {
      if (!attr.exclude_kernel()) modifiers += 'k';
      if (!attr.exclude_user()) modifiers += 'u';
      if (!attr.exclude_hv()) modifiers += 'h';
    }
  }
  for (unsigned i = 0; i < attr.precise_ip(); ++i) modifiers += 'p';
  if (!modifiers.empty()) name += ":" + modifiers;
  return name;
}

bool IsClockEvent(const EventAttr& attr) {
  return attr.type == kPerfTypeSoftware &&
         (attr.config == kSwCpuClock || attr.config == kSwTaskClock);
}

bool IsDummyEvent(const EventAttr& attr) {
  return attr.type == kPerfTypeSoftware && attr.config == kSwDummy;
}

std::string_view NameWithoutModifiers(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash != std::string_view::npos && slash > 0) return name.substr(0, slash + 1);
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return name;
  // A tracepoint is "system:name"; modifiers are a short run of these letters.
  const std::string_view tail = name.substr(colon + 1);
  if (tail.empty() || tail.find_first_not_of("ukhpPHGSDWIeb") != std::string_view::npos)
    return name;
  return name.substr(0, colon);
}

}  // namespace ptarmigan
