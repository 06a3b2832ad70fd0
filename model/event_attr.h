// EventAttr: struct perf_event_attr of any size and byte order, parsed
// (include/uapi/linux/perf_event.h, Linux 6.18). Numbers keep the kernel's meaning and names.
// EventDescription adds what a recording knows about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ptarmigan {

// perf_event_attr::type
enum PerfType : uint32_t {
  kPerfTypeHardware = 0,
  kPerfTypeSoftware = 1,
  kPerfTypeTracepoint = 2,
  kPerfTypeHwCache = 3,
  kPerfTypeRaw = 4,
  kPerfTypeBreakpoint = 5,
};

// perf_event_attr::sample_type bits
enum SampleTypeBit : uint64_t {
  kSampleIp = 1U << 0,
  kSampleTid = 1U << 1,
  kSampleTime = 1U << 2,
  kSampleAddr = 1U << 3,
  kSampleRead = 1U << 4,
  kSampleCallchain = 1U << 5,
  kSampleId = 1U << 6,
  kSampleCpu = 1U << 7,
  kSamplePeriod = 1U << 8,
  kSampleStreamId = 1U << 9,
  kSampleRaw = 1U << 10,
  kSampleBranchStack = 1U << 11,
  kSampleRegsUser = 1U << 12,
  kSampleStackUser = 1U << 13,
  kSampleWeight = 1U << 14,
  kSampleDataSrc = 1U << 15,
  kSampleIdentifier = 1U << 16,
  kSampleTransaction = 1U << 17,
  kSampleRegsIntr = 1U << 18,
  kSamplePhysAddr = 1U << 19,
  kSampleAux = 1U << 20,
  kSampleCgroup = 1U << 21,
  kSampleDataPageSize = 1U << 22,
  kSampleCodePageSize = 1U << 23,
  kSampleWeightStruct = 1U << 24,
};
constexpr uint64_t kSampleBitsKnown = (uint64_t{1} << 25) - 1;

// perf_event_attr::read_format bits
enum ReadFormatBit : uint64_t {
  kReadTotalTimeEnabled = 1U << 0,
  kReadTotalTimeRunning = 1U << 1,
  kReadId = 1U << 2,
  kReadGroup = 1U << 3,
  kReadLost = 1U << 4,
};

// perf_event_attr::branch_sample_type bits: which branches are recorded, and what about them
enum BranchSampleBit : uint64_t {
  kBranchAny = 1U << 3,
  kBranchAnyCall = 1U << 4,
  kBranchAnyReturn = 1U << 5,
  kBranchIndirectCall = 1U << 6,
  kBranchAbortTx = 1U << 7,
  kBranchInTx = 1U << 8,
  kBranchNoTx = 1U << 9,
  kBranchConditional = 1U << 10,
  kBranchCallStack = 1U << 11,
  kBranchIndirectJump = 1U << 12,
  kBranchCall = 1U << 13,
  kBranchNoFlags = 1U << 14,
  kBranchNoCycles = 1U << 15,
  kBranchTypeSave = 1U << 16,
  kBranchHwIndex = 1U << 17,
  kBranchPrivSave = 1U << 18,
  kBranchCounters = 1U << 19,
};

struct EventAttr {
  uint32_t type = 0;
  uint32_t size_bytes = 0;  // as recorded
  uint64_t config = 0;
  uint64_t config1 = 0;  // or breakpoint address, uprobe path
  uint64_t config2 = 0;
  uint64_t config3 = 0;
  uint64_t sample_period = 0;   // valid if !freq
  uint64_t sample_freq_hz = 0;  // valid if freq
  uint64_t sample_type = 0;     // SampleTypeBit
  uint64_t read_format = 0;     // ReadFormatBit
  uint64_t branch_sample_type = 0;
  uint64_t sample_regs_user = 0;  // mask, perf's register numbers of the recording's architecture
  uint64_t sample_regs_intr = 0;
  uint32_t sample_stack_user_bytes = 0;
  uint32_t breakpoint_type = 0;
  int32_t clockid = 0;
  uint32_t aux_watermark_bytes = 0;
  uint32_t aux_sample_bytes = 0;
  uint16_t sample_max_stack = 0;
  uint64_t flags = 0;  // the bit field as recorded, bit 0 = disabled

  bool freq() const { return Flag(10); }
  bool sample_id_all() const { return Flag(18); }
  bool exclude_user() const { return Flag(4); }
  bool exclude_kernel() const { return Flag(5); }
  bool exclude_hv() const { return Flag(6); }
  bool exclude_host() const { return Flag(19); }
  bool exclude_guest() const { return Flag(20); }
  bool use_clockid() const { return Flag(25); }
  bool context_switch() const { return Flag(26); }
  bool write_backward() const { return Flag(27); }
  unsigned precise_ip() const { return static_cast<unsigned>(flags >> 15 & 3); }
  bool Flag(unsigned bit) const { return (flags >> bit & 1) != 0; }
  bool Samples(SampleTypeBit bit) const { return (sample_type & bit) != 0; }
};

struct EventDescription {
  EventAttr attr;
  std::string name;           // perf's name, e.g. "cycles:u"; never empty once a recording is open
  std::vector<uint64_t> ids;  // sample ids; empty where the recording has none
  uint32_t group_leader = 0;  // index of the leader; its own index if it leads or stands alone
  std::string unit;           // EVENT_UPDATE's unit, usually empty
  double scale = 1.0;
};

// struct perf_event_attr in this machine's byte order: PERF_ATTR_SIZE_VER7 (128 bytes), or VER8
// (136) if config3 is set. `size_bytes` is ignored. What EventAttr does not hold (wake-up counts,
// sig_data) is zero.
std::vector<std::byte> EncodeAttr(const EventAttr& attr);

// perf's name of a generic event ("cpu-clock", "cycles", "L1-dcache-load-misses", "raw 0x1cd"),
// with the modifiers that the attr implies (":u", ":kH", ":P" is never guessed). For recordings
// without EVENT_DESC.
std::string NameFromAttr(const EventAttr& attr);

// Whether a sample's period counts nanoseconds (cpu-clock, task-clock).
bool IsClockEvent(const EventAttr& attr);
// perf's placeholder (`dummy`), which has records but whose samples mean nothing.
bool IsDummyEvent(const EventAttr& attr);
// "cycles:u" -> "cycles", "cpu_core/cycles/u" -> "cpu_core/cycles/".
std::string_view NameWithoutModifiers(std::string_view name);

}  // namespace ptarmigan
