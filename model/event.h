// Events: what a recording or a live session says, parsed. An event is valid during the EventSink
// call that delivers it: strings and vectors are owned and reused by the source, `Bytes` members
// borrow the record. A sink copies what it keeps. (Owned variants were rejected: copying 8 KiB of
// stack for each sample, and one allocation per callchain, cost more than the rest of the import.)
//
// Field meanings are those of include/uapi/linux/perf_event.h (Linux 6.18).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "model/address.h"
#include "model/build_id.h"

namespace ptarmigan {

enum class CpuMode : uint8_t { kUnknown, kKernel, kUser, kHypervisor, kGuestKernel, kGuestUser };
constexpr bool IsGuest(CpuMode mode) {
  return mode == CpuMode::kGuestKernel || mode == CpuMode::kGuestUser;
}

// Values in a callchain that say in which mode the following addresses are (PERF_CONTEXT_*).
constexpr uint64_t kContextHypervisor = static_cast<uint64_t>(-32);
constexpr uint64_t kContextKernel = static_cast<uint64_t>(-128);
constexpr uint64_t kContextUser = static_cast<uint64_t>(-512);
constexpr uint64_t kContextUserDeferred = static_cast<uint64_t>(-640);
constexpr uint64_t kContextGuest = static_cast<uint64_t>(-2048);
constexpr uint64_t kContextGuestKernel = static_cast<uint64_t>(-2176);
constexpr uint64_t kContextGuestUser = static_cast<uint64_t>(-2560);
constexpr uint64_t kContextMax = static_cast<uint64_t>(-4095);
constexpr bool IsContextMarker(uint64_t chain_entry) { return chain_entry >= kContextMax; }

// Who and when: the sample_id fields, at the end of most records and at the front of samples.
struct RecordIdentity {
  static constexpr uint32_t kNoCpu = UINT32_MAX;
  int32_t pid = -1;  // -1: not recorded
  int32_t tid = -1;
  uint64_t time_ns = 0;
  uint64_t id = 0;
  uint64_t stream_id = 0;
  uint32_t cpu = kNoCpu;
  bool has_time = false;
};

// Registers by perf's numbering of the recording's architecture; values[i] is valid if mask has bit
// i.
struct RegisterSet {
  enum class Abi : uint8_t { kNone, k32, k64 };
  Abi abi = Abi::kNone;
  uint64_t mask = 0;
  std::array<uint64_t, 64> values = {};

  bool Has(unsigned index) const { return index < 64 && (mask >> index & 1) != 0; }
};

// As struct perf_branch_entry, so that a recording of the host's byte order is copied as it is. (The bit-fields are
// uint64_t because a field of a smaller type would not lie across that type's boundary.)
struct BranchRecord {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t mispredicted : 1 = 0;
  uint64_t predicted : 1 = 0;  // both 0: not known
  uint64_t in_transaction : 1 = 0;
  uint64_t abort : 1 = 0;
  uint64_t cycles : 16 = 0;
  uint64_t type : 4 = 0;  // PERF_BR_*; 0 unknown, PERF_BR_EXTEND_ABI (15) says new_type holds it
  uint64_t spec : 2 = 0;  // PERF_BR_SPEC_*
  uint64_t new_type : 4 = 0;
  uint64_t privilege : 3 = 0;
  uint64_t reserved : 31 = 0;
};
static_assert(sizeof(BranchRecord) == 24);

struct ReadValue {
  uint64_t value = 0;
  uint64_t id = 0;    // kReadId only
  uint64_t lost = 0;  // kReadLost only
};

struct CapturedSample {
  RecordIdentity identity;
  CpuMode cpumode = CpuMode::kUnknown;
  bool exact_ip = false;
  uint32_t event = 0;  // index into RecordingDescription::events
  VirtAddr ip;
  bool has_ip = false;
  VirtAddr addr;
  bool has_addr = false;
  uint64_t period = 0;  // the record's, else the attr's fixed one, else 1
  bool has_period = false;

  std::vector<uint64_t>
      chain;  // as recorded: leaf first, with context markers; the first address repeats ip
  bool has_chain = false;

  std::vector<BranchRecord> branches;     // newest first
  std::vector<uint64_t> branch_counters;  // of each of them; kBranchCounters only
  bool has_branches = false;
  uint64_t branch_hw_index = UINT64_MAX;

  RegisterSet user_regs;
  RegisterSet intr_regs;
  Bytes user_stack;  // the bytes really copied, from the stack pointer upwards
  uint64_t user_stack_requested_bytes = 0;

  std::vector<ReadValue> read_values;
  uint64_t time_enabled_ns = 0;
  uint64_t time_running_ns = 0;

  Bytes raw;  // tracepoint fields or PMU-specific data
  Bytes aux;  // PERF_SAMPLE_AUX
  uint64_t weight =
      0;  // 64-bit weight, or var1_dw | var2_w << 32 | var3_w << 48 for kSampleWeightStruct
  bool has_weight = false;
  uint64_t data_src = 0;
  bool has_data_src = false;
  uint64_t transaction = 0;
  uint64_t phys_addr = 0;
  uint64_t cgroup_id = 0;
  bool has_cgroup = false;
  uint64_t data_page_bytes = 0;
  uint64_t code_page_bytes = 0;
};

struct MmapEvent {
  RecordIdentity identity;
  CpuMode cpumode = CpuMode::kUnknown;
  int32_t pid = 0;  // -1: kernel and modules
  int32_t tid = 0;
  VirtAddr start;
  uint64_t length_bytes = 0;
  FileOffset file_offset;
  std::string path;
  bool executable = true;
  uint32_t protection = 0;  // MMAP2 only
  uint32_t map_flags = 0;
  BuildId build_id;  // empty if the record has none
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  uint64_t inode_generation = 0;
};

struct CommEvent {
  RecordIdentity identity;
  int32_t pid = 0;
  int32_t tid = 0;
  std::string comm;
  bool is_exec = false;
};

// PERF_RECORD_FORK (a process if pid != parent_pid, else a thread) and PERF_RECORD_EXIT.
struct TaskEvent {
  RecordIdentity identity;
  int32_t pid = 0;
  int32_t parent_pid = 0;
  int32_t tid = 0;
  int32_t parent_tid = 0;
  uint64_t time_ns = 0;
};

struct LostEvent {
  RecordIdentity identity;
  uint64_t count = 0;
  bool samples_only = false;  // LOST_SAMPLES; a plain LOST counts records of every kind
};

struct ThrottleEvent {
  RecordIdentity identity;
  bool throttled = false;  // false: sampling goes on again
};

struct SwitchEvent {
  RecordIdentity identity;
  bool out = false;
  bool preempted = false;
  int32_t other_pid = -1;  // SWITCH_CPU_WIDE: the next task (out) or the previous one (in)
  int32_t other_tid = -1;
};

struct KsymbolEvent {
  RecordIdentity identity;
  VirtAddr start;
  uint32_t length_bytes = 0;
  uint16_t type = 0;  // PERF_RECORD_KSYMBOL_TYPE_*: 1 BPF, 2 out of line
  bool unregister = false;
  std::string name;
};

struct TextPokeEvent {
  RecordIdentity identity;
  VirtAddr address;
  Bytes old_bytes;
  Bytes new_bytes;
};

struct CgroupEvent {
  RecordIdentity identity;
  uint64_t id = 0;
  std::string path;
};

// A build id from the recording's header or a BUILD_ID record, by path.
struct BuildIdEvent {
  int32_t pid = -1;
  CpuMode cpumode = CpuMode::kUnknown;
  BuildId build_id;
  std::string path;
};

// PERF_RECORD_AUX: a piece of the AUX area became valid.
struct AuxEvent {
  RecordIdentity identity;
  uint64_t aux_offset = 0;
  uint64_t size_bytes = 0;
  uint64_t flags = 0;  // PERF_AUX_FLAG_*
};

// PERF_RECORD_AUXTRACE with its data.
struct AuxChunk {
  uint64_t size_bytes = 0;
  uint64_t offset = 0;
  uint64_t reference = 0;
  uint32_t index = 0;
  int32_t tid = -1;
  uint32_t cpu = RecordIdentity::kNoCpu;
  Bytes data;
  bool data_outlives_call = false;  // `data` stays valid as long as the source (a mapped file)
};

// A record that is delivered as bytes because only some decoder knows it (AUXTRACE_INFO, TIME_CONV,
// ITRACE_START, AUX_OUTPUT_HW_ID, BPF_EVENT, NAMESPACES, ...). `bytes` includes the header.
struct OtherRecord {
  RecordIdentity identity;
  uint32_t type = 0;
  uint16_t misc = 0;
  Bytes bytes;
};

}  // namespace ptarmigan
