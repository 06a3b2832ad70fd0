#include <array>

#include "decode/ibs.h"
#include "decode/internal/ibs_registers.h"

namespace ptarmigan {
namespace {

using internal::Bit;
using internal::Bits16;
using internal::IbsRegisters;
using internal::ReadIbsRegisters;

enum Register : size_t { kCtl, kRip, kData, kData2, kData3, kLinear, kPhysical, kFirstOptional };

struct MemorySource {
  std::string_view name;
  std::string_view level = {};  // empty: the level is not told, an open buffer may
  std::string_view remote_level =
      {};                  // with the remote-node bit; empty: the bit means nothing here
  bool is_cache = false;   // the cache-hit state counts
  bool is_remote = false;  // by its nature
};
constexpr MemorySource kReserved = {.name = "reserved"};

// IbsOpData2 bits 2:0 before Zen 4. Code 0 is "no valid status".
constexpr std::array<MemorySource, 8> kShortTable = {{
    {},
    kReserved,
    {.name = "local_cache", .level = "local cache", .is_cache = true},
    {.name = "dram", .level = "RAM", .remote_level = "remote RAM"},
    {.name = "remote_cache", .level = "remote cache", .is_remote = true},
    kReserved,
    kReserved,
    {.name = "other", .level = "IO"},
}};
// Bits 7:6 and 2:0 with kIbsCapExtended; codes behind the end are reserved.
constexpr std::array<MemorySource, 13> kLongTable = {{
    {},
    {.name = "local_l3_or_ccx", .level = "L3 hit", .is_cache = true},
    {.name = "near_ccx_cache", .level = "peer cache", .is_cache = true, .is_remote = true},
    {.name = "dram", .level = "RAM", .remote_level = "remote RAM"},
    kReserved,
    {.name = "far_ccx_cache", .level = "remote cache", .is_cache = true, .is_remote = true},
    {.name = "long_latency_dimm", .level = "PMEM", .remote_level = "remote PMEM"},
    {.name = "mmio", .level = "IO"},
    {.name = "ext_mem", .level = "CXL", .remote_level = "remote CXL"},
    kReserved,
    kReserved,
    kReserved,
    {.name = "peer_agent_mem"},
}};

constexpr uint8_t kDeviceCode = 7;  // in both tables

struct CodedSource {
  uint8_t code;
  const MemorySource& source;
};
CodedSource FindSource(uint64_t data2, uint32_t caps) {
  const uint64_t low = data2 & internal::op_data2::kSourceLowMask;
  if ((caps & kIbsCapExtended) == 0) {
    return {static_cast<uint8_t>(low), kShortTable[static_cast<size_t>(low)]};
  }
  const uint64_t code = (data2 >> internal::op_data2::kSourceHigh & 3) << 3 | low;
  const size_t index = static_cast<size_t>(code);
  return {static_cast<uint8_t>(code), index < kLongTable.size() ? kLongTable[index] : kReserved};
}

IbsOpKind KindOf(uint64_t data, uint64_t data3) {
  const bool load = Bit(data3, internal::op_data3::kLoad);
  const bool store = Bit(data3, internal::op_data3::kStore);
  if (load) return store ? IbsOpKind::kLoadStore : IbsOpKind::kLoad;
  if (store) return IbsOpKind::kStore;
  return Bit(data, internal::op_data::kBranchRetired) ? IbsOpKind::kBranch : IbsOpKind::kOther;
}

void SetBranch(uint64_t data, IbsOpRecord* record) {
  using namespace internal::op_data;
  record->branch_taken = Bit(data, kBranchTaken);
  record->branch_mispredicted = Bit(data, kBranchMispredicted);
  record->branch_return = Bit(data, kReturn);
  if ((record->caps & kIbsCapBranchFuse) != 0) record->branch_fused = Bit(data, kBranchFused);
}

void SetTlb(uint64_t data3, IbsOpRecord* record) {
  using namespace internal::op_data3;
  const bool l1_miss = Bit(data3, kL1TlbMiss);
  const bool linear_valid = Bit(data3, kLinearValid);
  const bool physical_valid = Bit(data3, kPhysicalValid);
  const bool sizes_are_numbers = (record->caps & kIbsCapTlbPageSize) != 0;
  // Since Zen 4 the refill latency stands only beside a physical address.
  if (l1_miss && (physical_valid || (record->caps & kIbsCapExtended) == 0)) {
    record->tlb_refill_cycles = Bits16(data3, kTlbRefillLatency);
  }
  if (!linear_valid || (sizes_are_numbers && !physical_valid)) return;
  record->tlb = !l1_miss ? "L1 hit" : Bit(data3, kL2TlbMiss) ? "L2 miss" : "L2 hit";
  if (sizes_are_numbers) {
    constexpr std::array<std::string_view, 4> kSizes = {"4K", "2M", "1G", ""};
    record->page_size = kSizes[static_cast<size_t>(data3 >> kL1TlbHit2M & 3)];
  } else if (!l1_miss) {
    record->page_size = Bit(data3, kL1TlbHit1G) ? "1G" : Bit(data3, kL1TlbHit2M) ? "2M" : "4K";
  }
}

void SetAddresses(const IbsRegisters& raw, uint64_t data3, IbsOpRecord* record) {
  const bool linear_valid = Bit(data3, internal::op_data3::kLinearValid);
  if (linear_valid) record->linear_address = raw.registers[kLinear];
  // The kernel writes 0 for those who may not know it; since Zen 4 it needs the linear one.
  if (Bit(data3, internal::op_data3::kPhysicalValid) && raw.registers[kPhysical] != 0 &&
      (linear_valid || (record->caps & kIbsCapExtended) == 0)) {
    record->physical_address = raw.registers[kPhysical];
  }
}

// Where the data came from, as the kernel reads the registers.
void SetLevel(uint64_t data2, const IbsQuirks& quirks, bool l2_void, IbsOpRecord* record) {
  const bool load = record->kind != IbsOpKind::kStore;
  const CodedSource found = FindSource(l2_void ? 0 : data2, record->caps);
  const MemorySource& source = found.source;
  const bool l2_hit = record->l2_miss == false;
  const bool beyond_l2 = *record->dc_miss && !l2_hit;
  // What the registers say of an uncached access is void, but for its going to a device.
  const bool uncached = *record->uncacheable && found.code != kDeviceCode;
  if (!l2_void) record->data_source_code = found.code;
  if (load && beyond_l2 && !uncached) record->data_source = source.name;

  if (uncached) {
    record->level = "UNC";
  } else if (!*record->dc_miss) {
    record->level = "L1 hit";
  } else if (l2_hit) {
    record->level = "L2 hit";
  } else if (load && !source.level.empty()) {
    const bool remote_node = Bit(data2, internal::op_data2::kRemoteNode);
    const bool far = remote_node && !source.remote_level.empty();
    record->level = far ? source.remote_level : source.level;
    record->remote = far || source.is_remote;
  } else if (*record->no_mab) {
    record->level = "LFB hit";
  }
  // The kernel looks at the state of uncached accesses too.
  if (load && (uncached || beyond_l2) && source.is_cache && !quirks.void_cache_hit_state &&
      !Bit(data2, internal::op_data2::kCacheHitState)) {
    record->snoop = "HITM";
  }
}

void SetMemory(const IbsRegisters& raw, const IbsQuirks& quirks, IbsOpRecord* record) {
  using namespace internal::op_data3;
  const uint64_t data2 = raw.registers[kData2];
  const uint64_t data3 = raw.registers[kData3];
  record->locked = Bit(data3, kLocked);
  record->dc_miss = Bit(data3, kDcMiss);
  record->software_prefetch = Bit(data3, kSoftwarePrefetch);
  record->no_mab = Bit(data3, kNoMab);
  record->misaligned = Bit(data3, kMisaligned);
  record->uncacheable = Bit(data3, kUncacheable);
  record->write_combining = Bit(data3, kWriteCombining);
  const bool l2_void =
      quirks.void_l2_after_prefetch && (*record->software_prefetch || *record->no_mab);
  if (!l2_void) {
    record->l2_miss = Bit(data3, kL2Miss);
    record->open_requests = static_cast<uint8_t>(data3 >> kOpenRequests & 0x3f);
    if ((record->caps & kIbsCapStreamingStore) != 0) {
      record->streaming_store = Bit(data2, internal::op_data2::kStreamingStore);
      record->remote_socket = Bit(data2, internal::op_data2::kRemoteSocket);
    }
  }
  if (const auto width = static_cast<unsigned>(data3 >> kWidth & 0xf); width != 0) {
    record->width_bytes = static_cast<uint16_t>(1U << (width - 1));
  }
  if (*record->dc_miss && record->kind != IbsOpKind::kStore) {
    record->dc_miss_cycles = Bits16(data3, kDcMissLatency);
  }
  SetTlb(data3, record);
  SetAddresses(raw, data3, record);
  SetLevel(data2, quirks, l2_void, record);
}

}  // namespace

IbsDecodeResult DecodeIbsOp(Bytes raw_bytes, std::endian order, const IbsQuirks& quirks,
                            IbsOpRecord* record) {
  const IbsRegisters raw = ReadIbsRegisters(raw_bytes, order);
  if (raw.count < internal::kIbsOpRegisters) return IbsDecodeResult::kShort;
  if (!Bit(raw.registers[kCtl], internal::op_ctl::kValid)) return IbsDecodeResult::kInvalid;
  const uint64_t data = raw.registers[kData];
  *record = IbsOpRecord{};
  record->caps = raw.caps;
  record->kind = KindOf(data, raw.registers[kData3]);
  record->rip = raw.registers[kRip];
  record->rip_valid =
      (raw.caps & kIbsCapRipInvalid) == 0 || !Bit(data, internal::op_data::kRipInvalid);
  record->microcode = Bit(data, internal::op_data::kMicrocode);
  record->completion_to_retire_cycles = Bits16(data, internal::op_data::kCompletionToRetire);
  record->tag_to_retire_cycles = Bits16(data, internal::op_data::kTagToRetire);
  const bool branch = Bit(data, internal::op_data::kBranchRetired);
  if (branch) SetBranch(data, record);

  size_t next = kFirstOptional;
  if ((raw.caps & kIbsCapBranchTarget) != 0 && next < raw.count) {
    const uint64_t target = raw.registers[next++];
    if (branch && target != 0) record->branch_target = target;
  }
  if ((raw.caps & kIbsCapOpData4) != 0 && next < raw.count) {
    record->load_resync = Bit(raw.registers[next], 0);
  }
  if (record->kind == IbsOpKind::kLoad || record->kind == IbsOpKind::kStore ||
      record->kind == IbsOpKind::kLoadStore) {
    SetMemory(raw, quirks, record);
  }
  return IbsDecodeResult::kOk;
}

bool LooksLikeIbsOp(Bytes raw_bytes, std::endian order) {
  const IbsRegisters raw = ReadIbsRegisters(raw_bytes, order);
  const size_t announced = internal::kIbsOpRegisters +
                           ((raw.caps & kIbsCapBranchTarget) != 0 ? 1 : 0) +
                           ((raw.caps & kIbsCapOpData4) != 0 ? 1 : 0);
  return (raw.caps & kIbsCapValid) != 0 && (raw.caps & kIbsCapOp) != 0 &&
         raw_bytes.size() == internal::kIbsCapsBytes + announced * sizeof(uint64_t) &&
         Bit(raw.registers[kCtl], internal::op_ctl::kValid);
}

}  // namespace ptarmigan
