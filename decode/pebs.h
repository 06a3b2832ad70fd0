// Memory samples that the kernel describes itself: PERF_SAMPLE_DATA_SRC with weights, addresses and page sizes. Intel
// PEBS loads and stores first of all; other processors' kernels use the same words.
//
// The numbers are those of union perf_mem_data_src in include/uapi/linux/perf_event.h (Linux 7.2). Every string_view
// refers to static storage; functions are thread-safe and allocate nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/event.h"
#include "model/event_attr.h"

namespace ptarmigan {

struct PebsRecord {
  uint64_t data_src = 0;
  // Texts of data_src; empty: nothing recorded. Several bits of a kind are joined by " or ".
  std::string_view op;       // "load", "store", "load+store", "prefetch", "exec"
  std::string_view level;    // "L1 hit", "remote RAM hit", "UNC", ...: see LevelText in the .cc
  std::string_view snoop;    // "NA", "None", "Hit", "Miss", "HitM"
  std::string_view snoopx;   // "Fwd", "Peer"
  std::string_view lock;     // "yes", "NA"
  std::string_view tlb;      // "L1 or L2 hit", "Walker hit", "NA", ...
  std::string_view blocked;  // "data", "addr", "NA"
  uint16_t level_bits = 0;   // the old levels, PERF_MEM_LVL_*
  uint8_t level_number = 0;  // PERF_MEM_LVLNUM_*
  uint8_t hops = 0;          // PERF_MEM_HOPS_*
  bool remote = false;

  std::optional<uint64_t> weight;  // cycles; with WEIGHT_STRUCT the low 32 bits: memory latency
  std::optional<uint16_t> instruction_cycles;  // WEIGHT_STRUCT only: dispatch to retirement
  std::optional<uint16_t> retire_cycles;
  std::optional<uint64_t> data_address;
  std::optional<uint64_t> physical_address;
  std::optional<uint64_t> data_page_bytes;
  std::optional<uint64_t> code_page_bytes;
  std::optional<uint64_t> cgroup_id;

  friend bool operator==(const PebsRecord&, const PebsRecord&) = default;
};

// `attr` is that of the sample's event: it says which values the sample has. Without DATA_SRC the texts are empty.
void DecodePebs(const CapturedSample& sample, const EventAttr& attr, PebsRecord* record);

// Whether the kernel said anything: neither the operation nor the level is recorded for samples of events that do not
// sample memory (`perf record -d -e cycles`).
bool DescribesMemoryAccess(uint64_t data_src);

}  // namespace ptarmigan
