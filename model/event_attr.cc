#include "model/event_attr.h"

#include <array>
#include <cstring>

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

class AttrBytes {
 public:
  explicit AttrBytes(size_t size_bytes) : bytes_(size_bytes) {}
  template <typename T>
  void Put(size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
  }
  std::vector<std::byte> Take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> EncodeAttr(const EventAttr& attr) {
  constexpr uint32_t kVersion7Bytes = 128;
  constexpr uint32_t kVersion8Bytes = 136;
  const uint32_t size_bytes = attr.config3 != 0 ? kVersion8Bytes : kVersion7Bytes;
  AttrBytes bytes(size_bytes);
  bytes.Put<uint32_t>(0, attr.type);
  bytes.Put<uint32_t>(4, size_bytes);
  bytes.Put<uint64_t>(8, attr.config);
  bytes.Put<uint64_t>(16, attr.freq() ? attr.sample_freq_hz : attr.sample_period);
  bytes.Put<uint64_t>(24, attr.sample_type);
  bytes.Put<uint64_t>(32, attr.read_format);
  bytes.Put<uint64_t>(40, attr.flags);
  bytes.Put<uint32_t>(52, attr.breakpoint_type);
  bytes.Put<uint64_t>(56, attr.config1);
  bytes.Put<uint64_t>(64, attr.config2);
  bytes.Put<uint64_t>(72, attr.branch_sample_type);
  bytes.Put<uint64_t>(80, attr.sample_regs_user);
  bytes.Put<uint32_t>(88, attr.sample_stack_user_bytes);
  bytes.Put<int32_t>(92, attr.clockid);
  bytes.Put<uint64_t>(96, attr.sample_regs_intr);
  bytes.Put<uint32_t>(104, attr.aux_watermark_bytes);
  bytes.Put<uint16_t>(108, attr.sample_max_stack);
  bytes.Put<uint32_t>(112, attr.aux_sample_bytes);
  if (size_bytes == kVersion8Bytes) bytes.Put<uint64_t>(128, attr.config3);
  return std::move(bytes).Take();
}

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
