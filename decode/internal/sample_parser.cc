#include "decode/internal/sample_parser.h"

#include <bit>

#include "decode/record_types.h"

namespace ptarmigan::internal {
namespace {

// The fixed fields up to PERIOD. False if they are not all there.
bool ReadFixedFields(ByteCursor* cursor, const EventLayout& layout, CapturedSample* sample) {
  const uint64_t type = layout.sample_type;
  RecordIdentity& identity = sample->identity;
  if ((type & kSampleIdentifier) != 0) identity.id = cursor->U64();
  if ((type & kSampleIp) != 0) {
    sample->ip = VirtAddr{cursor->U64()};
    sample->has_ip = true;
  }
  if ((type & kSampleTid) != 0) {
    identity.pid = cursor->S32();
    identity.tid = cursor->S32();
  }
  if ((type & kSampleTime) != 0) {
    identity.time_ns = cursor->U64();
    identity.has_time = true;
  }
  if ((type & kSampleAddr) != 0) {
    sample->addr = VirtAddr{cursor->U64()};
    sample->has_addr = true;
  }
  if ((type & kSampleId) != 0) identity.id = cursor->U64();
  if ((type & kSampleStreamId) != 0) identity.stream_id = cursor->U64();
  if ((type & kSampleCpu) != 0) {
    identity.cpu = cursor->U32();
    cursor->Skip(4);
  }
  if ((type & kSamplePeriod) != 0) {
    sample->period = cursor->U64();
    sample->has_period = true;
  }
  return cursor->ok();
}

bool ReadCounters(ByteCursor* cursor, uint64_t format, CapturedSample* sample) {
  const bool group = (format & kReadGroup) != 0;
  const auto read_times = [&] {
    if ((format & kReadTotalTimeEnabled) != 0) sample->time_enabled_ns = cursor->U64();
    if ((format & kReadTotalTimeRunning) != 0) sample->time_running_ns = cursor->U64();
  };
  const auto read_value = [&](ReadValue* value, bool times_inside) {
    value->value = cursor->U64();
    if (times_inside) read_times();
    if ((format & kReadId) != 0) value->id = cursor->U64();
    if ((format & kReadLost) != 0) value->lost = cursor->U64();
  };
  if (!group) {
    sample->read_values.resize(1);
    read_value(&sample->read_values.front(), true);
    return cursor->ok();
  }
  const uint64_t count = cursor->U64();
  read_times();
  const size_t entry_bytes =
      size_t{8} * (1 + ((format & kReadId) != 0 ? 1U : 0U) + ((format & kReadLost) != 0 ? 1U : 0U));
  if (!cursor->ok() || count > cursor->remaining() / entry_bytes) return false;
  sample->read_values.resize(static_cast<size_t>(count));
  for (ReadValue& value : sample->read_values) read_value(&value, false);
  return cursor->ok();
}

bool ReadChain(ByteCursor* cursor, CapturedSample* sample) {
  const uint64_t count = cursor->U64();
  if (!cursor->ok() || count > cursor->remaining() / 8) return false;
  const Bytes bytes = cursor->Take(count * 8);
  sample->chain.resize(static_cast<size_t>(count));
  if (count > 0) std::memcpy(sample->chain.data(), bytes.data(), bytes.size());
  if (cursor->swaps()) {
    for (uint64_t& entry : sample->chain) entry = ByteSwap(entry);
  }
  sample->has_chain = true;
  return true;
}

// perf_branch_entry's flags: the compiler of a little-endian machine fills them from the least significant bit, that of a
// big-endian one from the most significant.
void DecodeBranchFlags(uint64_t flags, bool big_endian, BranchRecord* branch) {
  unsigned position = 0;
  const auto take = [&](unsigned width) {
    position += width;
    const unsigned shift = big_endian ? 64 - position : position - width;
    return flags >> shift & ((uint64_t{1} << width) - 1);
  };
  branch->mispredicted = take(1) & 1;
  branch->predicted = take(1) & 1;
  branch->in_transaction = take(1) & 1;
  branch->abort = take(1) & 1;
  branch->cycles = take(16) & 0xffff;
  branch->type = take(4) & 15;
  branch->spec = take(2) & 3;
  branch->new_type = take(4) & 15;
  branch->privilege = take(3) & 7;
}

bool ReadBranches(ByteCursor* cursor, const EventLayout& layout, bool big_endian,
                  CapturedSample* sample) {
  const uint64_t count = cursor->U64();
  if ((layout.branch_sample_type & kBranchHwIndex) != 0) sample->branch_hw_index = cursor->U64();
  if (!cursor->ok() || count > cursor->remaining() / sizeof(BranchRecord)) return false;
  const Bytes bytes = cursor->Take(count * sizeof(BranchRecord));
  sample->branches.resize(static_cast<size_t>(count));
  if (!cursor->swaps()) {
    if (count > 0) std::memcpy(sample->branches.data(), bytes.data(), bytes.size());
  } else {
    const std::byte* entry = bytes.data();
    for (BranchRecord& branch : sample->branches) {
      uint64_t words[sizeof(BranchRecord) / sizeof(uint64_t)];
      std::memcpy(words, entry, sizeof(words));
      entry += sizeof(words);
      for (uint64_t& word : words) word = ByteSwap(word);
      branch.from = words[0];
      branch.to = words[1];
      DecodeBranchFlags(words[2], big_endian, &branch);
    }
  }
  sample->has_branches = true;
  if ((layout.branch_sample_type & kBranchCounters) != 0) {
    if (count > cursor->remaining() / sizeof(uint64_t)) return false;
    sample->branch_counters.resize(static_cast<size_t>(count));
    for (uint64_t& counters : sample->branch_counters) counters = cursor->U64();
  }
  return cursor->ok();
}

bool ReadRegisters(ByteCursor* cursor, uint64_t mask, RegisterSet* registers) {
  const uint64_t abi = cursor->U64();
  if (!cursor->ok() || abi > 2) return false;
  registers->abi = static_cast<RegisterSet::Abi>(abi);
  if (abi == 0) return true;
  if (cursor->remaining() < 8 * static_cast<size_t>(std::popcount(mask))) return false;
  registers->mask = mask;
  for (uint64_t rest = mask; rest != 0; rest &= rest - 1) {
    registers->values[static_cast<size_t>(std::countr_zero(rest))] = cursor->U64();
  }
  return true;
}

bool ReadUserStack(ByteCursor* cursor, CapturedSample* sample) {
  const uint64_t size = cursor->U64();
  sample->user_stack_requested_bytes = size;
  if (size == 0) return cursor->ok();
  const Bytes stack = cursor->Take(size);
  if (!cursor->ok()) return false;
  const uint64_t copied = cursor->U64();
  if (!cursor->ok()) return false;
  sample->user_stack = stack.first(static_cast<size_t>(copied < size ? copied : size));
  return true;
}

// Everything after PERIOD, in the kernel's order.
bool ReadVariableFields(ByteCursor* cursor, const EventLayout& layout, bool big_endian,
                        CapturedSample* sample) {
  const uint64_t type = layout.sample_type;
  if ((type & kSampleRead) != 0 && !ReadCounters(cursor, layout.read_format, sample)) return false;
  if ((type & kSampleCallchain) != 0 && !ReadChain(cursor, sample)) return false;
  if ((type & kSampleRaw) != 0) sample->raw = cursor->Take(cursor->U32());
  if (!cursor->ok()) return false;
  if ((type & kSampleBranchStack) != 0 && !ReadBranches(cursor, layout, big_endian, sample))
    return false;
  if ((type & kSampleRegsUser) != 0 &&
      !ReadRegisters(cursor, layout.user_regs_mask, &sample->user_regs)) {
    return false;
  }
  if ((type & kSampleStackUser) != 0 && !ReadUserStack(cursor, sample)) return false;
  if ((type & (kSampleWeight | kSampleWeightStruct)) != 0) {
    sample->weight = cursor->U64();
    sample->has_weight = true;
  }
  if ((type & kSampleDataSrc) != 0) {
    sample->data_src = cursor->U64();
    sample->has_data_src = true;
  }
  if ((type & kSampleTransaction) != 0) sample->transaction = cursor->U64();
  if ((type & kSampleRegsIntr) != 0 &&
      !ReadRegisters(cursor, layout.intr_regs_mask, &sample->intr_regs)) {
    return false;
  }
  if ((type & kSamplePhysAddr) != 0) sample->phys_addr = cursor->U64();
  if ((type & kSampleCgroup) != 0) {
    sample->cgroup_id = cursor->U64();
    sample->has_cgroup = true;
  }
  if ((type & kSampleDataPageSize) != 0) sample->data_page_bytes = cursor->U64();
  if ((type & kSampleCodePageSize) != 0) sample->code_page_bytes = cursor->U64();
  if ((type & kSampleAux) != 0) sample->aux = cursor->Take(cursor->U64());
  return cursor->ok();
}

void Reset(const EventLayout& layout, CapturedSample* sample) {
  sample->identity = RecordIdentity();
  sample->ip = VirtAddr{};
  sample->has_ip = false;
  sample->addr = VirtAddr{};
  sample->has_addr = false;
  sample->period = layout.fixed_period;
  sample->has_period = false;
  sample->chain.clear();
  sample->has_chain = false;
  sample->branches.clear();
  sample->branch_counters.clear();
  sample->has_branches = false;
  sample->branch_hw_index = UINT64_MAX;
  // The 512 bytes of values behind an empty mask are not worth clearing for each sample.
  sample->user_regs.abi = RegisterSet::Abi::kNone;
  sample->user_regs.mask = 0;
  sample->intr_regs.abi = RegisterSet::Abi::kNone;
  sample->intr_regs.mask = 0;
  sample->user_stack = {};
  sample->user_stack_requested_bytes = 0;
  sample->read_values.clear();
  sample->time_enabled_ns = 0;
  sample->time_running_ns = 0;
  sample->raw = {};
  sample->aux = {};
  sample->weight = 0;
  sample->has_weight = false;
  sample->data_src = 0;
  sample->has_data_src = false;
  sample->transaction = 0;
  sample->phys_addr = 0;
  sample->cgroup_id = 0;
  sample->has_cgroup = false;
  sample->data_page_bytes = 0;
  sample->code_page_bytes = 0;
}

}  // namespace

CpuMode CpuModeOf(uint16_t misc) {
  switch (misc & kMiscCpuModeMask) {
    case 1:
      return CpuMode::kKernel;
    case 2:
      return CpuMode::kUser;
    case 3:
      return CpuMode::kHypervisor;
    case 4:
      return CpuMode::kGuestKernel;
    case 5:
      return CpuMode::kGuestUser;
    default:
      return CpuMode::kUnknown;
  }
}

SampleOutcome ParseSample(Bytes record, const EventLayout& layout, std::endian order,
                          CapturedSample* sample) {
  ByteCursor cursor(record, order);
  cursor.Skip(4);
  const uint16_t misc = cursor.U16();
  cursor.Skip(2);
  Reset(layout, sample);
  sample->cpumode = CpuModeOf(misc);
  sample->exact_ip = (misc & kMiscExactIp) != 0;
  if (!ReadFixedFields(&cursor, layout, sample)) return SampleOutcome::kBroken;
  if (!ReadVariableFields(&cursor, layout, order == std::endian::big, sample))
    return SampleOutcome::kPartial;
  return SampleOutcome::kWhole;
}

RecordIdentity ParseTrailer(Bytes record, const EventLayout& layout, std::endian order) {
  RecordIdentity identity;
  if (layout.trailer_bytes == 0 || record.size() < kRecordHeaderBytes + layout.trailer_bytes)
    return identity;
  ByteCursor cursor(record.last(layout.trailer_bytes), order);
  const uint64_t type = layout.sample_type;
  if ((type & kSampleTid) != 0) {
    identity.pid = cursor.S32();
    identity.tid = cursor.S32();
  }
  if ((type & kSampleTime) != 0) {
    identity.time_ns = cursor.U64();
    identity.has_time = true;
  }
  if ((type & kSampleId) != 0) identity.id = cursor.U64();
  if ((type & kSampleStreamId) != 0) identity.stream_id = cursor.U64();
  if ((type & kSampleCpu) != 0) {
    identity.cpu = cursor.U32();
    cursor.Skip(4);
  }
  if ((type & kSampleIdentifier) != 0) identity.id = cursor.U64();
  return identity;
}

}  // namespace ptarmigan::internal
