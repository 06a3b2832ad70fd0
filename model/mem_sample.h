// MemSample: one operation that the hardware chose and watched: an Arm SPE record, an AMD IBS op or fetch sample, an
// Intel PEBS memory sample. One schema over the vendors, for profiles and reports; what only one vendor has stays in
// its decoder's own record (decode/), which the `events` view prints.
//
// A plain value without ownership: every string_view refers to static storage. Absent is not zero: each value that a
// recording can lack says so.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/address.h"
#include "model/event.h"

namespace ptarmigan {

enum class MemOp : uint8_t { kOther, kLoad, kStore, kLoadStore, kBranch };
constexpr size_t kMemOps = static_cast<size_t>(MemOp::kBranch) + 1;

constexpr std::string_view MemOpName(MemOp op) {
  switch (op) {
    case MemOp::kOther:
      return "other";
    case MemOp::kLoad:
      return "load";
    case MemOp::kStore:
      return "store";
    case MemOp::kLoadStore:
      return "loadstore";
    case MemOp::kBranch:
      return "branch";
  }
  return "";
}

// Latencies in cycles. What each means is the vendor's: docs/formats/pprof.md.
enum class MemLatency : uint8_t {
  kTotal,        // SPE total (dispatch to complete), IBS data cache miss, PEBS weight
  kIssue,        // SPE dispatch to issue
  kTranslation,  // SPE translation, IBS TLB refill
  kInstruction,  // PEBS: dispatch or fetch to retirement
};
constexpr size_t kMemLatencies = static_cast<size_t>(MemLatency::kInstruction) + 1;

enum class Answer : uint8_t { kUnknown, kNo, kYes };

struct MemSample {
  enum class Source : uint8_t { kSpe, kIbsOp, kIbsFetch, kPebs };

  Source source = Source::kSpe;
  CpuMode cpumode = CpuMode::kUnknown;
  MemOp op = MemOp::kOther;
  Answer mispredicted = Answer::kUnknown;
  Answer retired = Answer::kUnknown;
  Answer remote = Answer::kUnknown;  // data came from another socket or node
  int8_t exception_level = -1;       // Arm EL of the instruction; -1: not known
  uint8_t has_latency = 0;           // bit MemLatency: latency[i] is recorded
  uint8_t saturated = 0;             // bit MemLatency: the counter stood at its maximum
  bool has_ip = false;
  bool has_data_address = false;
  bool has_physical_address = false;

  RecordIdentity identity;
  VirtAddr ip;
  uint64_t latency[kMemLatencies] = {};
  VirtAddr data_address;  // without tag
  uint64_t physical_address = 0;
  uint64_t data_source_code = 0;  // the vendor's own
  // Where the data came from, by the vendor's table (SPE, IBS) or level (PEBS): the name that reports group by. Empty:
  // not recorded or meaningless for this operation; "unknown": recorded, but no table knows the code.
  std::string_view data_source;
  std::string_view level;  // "L1 hit", "RAM hit", ...: one spelling for all vendors
  std::string_view tlb;
  std::string_view snoop;

  bool Has(MemLatency which) const {
    return (has_latency >> static_cast<unsigned>(which) & 1) != 0;
  }
  void Set(MemLatency which, uint64_t cycles) {
    latency[static_cast<size_t>(which)] = cycles;
    has_latency = static_cast<uint8_t>(has_latency | 1U << static_cast<unsigned>(which));
  }
};

}  // namespace ptarmigan
