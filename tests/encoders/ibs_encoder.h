// AMD IBS registers for tests: facts about a sampled operation or fetch, their raw bytes, and the record that a decoder
// has to make of them. Layouts and rules are written down here a second time, from the processor's manual and the
// kernel; registers that the facts leave open hold noise.
#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <string>

#include "decode/ibs.h"

namespace ptarmigan {

// Every member goes into a register as it stands, even where caps, errata or other members void it.
struct IbsOpFacts {
  uint32_t caps = 0;
  IbsQuirks quirks;  // of the processor; not in the bytes
  uint64_t rip = 0;
  bool rip_invalid = false;
  bool load = false;
  bool store = false;
  bool branch = false;
  bool branch_taken = false;
  bool branch_mispredicted = false;
  bool branch_return = false;
  bool branch_fused = false;
  bool microcode = false;
  uint16_t completion_to_retire = 0;
  uint16_t tag_to_retire = 0;
  unsigned source = 0;  // 5 bits; the short table sees the low 3
  bool remote_node = false;
  bool owned = false;  // cache-hit state O; else M
  bool streaming_store = false;
  bool remote_socket = false;
  bool l1_tlb_miss = false;
  bool l2_tlb_miss = false;
  unsigned page = 0;  // 0 4K, 1 2M, 2 1G
  bool dc_miss = false;
  bool l2_miss = false;
  bool misaligned = false;
  bool write_combining = false;
  bool uncacheable = false;
  bool locked = false;
  bool no_mab = false;
  bool software_prefetch = false;
  unsigned width_log2_plus_1 = 0;  // 0: not told
  unsigned open_requests = 0;
  uint16_t dc_miss_latency = 0;
  uint16_t tlb_refill_latency = 0;
  bool linear_valid = false;
  bool physical_valid = false;
  uint64_t linear = 0;
  uint64_t physical = 0;
  uint64_t branch_target = 0;
  bool load_resync = false;
  uint64_t noise = 0;  // for bits that mean nothing
};

IbsOpFacts RandomIbsOp(std::mt19937_64& random, uint32_t caps, const IbsQuirks& quirks);
std::string EncodeIbsOp(const IbsOpFacts& facts, std::endian order = std::endian::little);
IbsOpRecord TruthOf(const IbsOpFacts& facts);

struct IbsFetchFacts {
  uint32_t caps = 0;
  IbsQuirks quirks;
  uint64_t linear = 0;
  uint64_t physical = 0;
  bool physical_valid = false;
  bool complete = false;
  bool ic_miss = false;
  bool l1_tlb_miss = false;
  bool l2_tlb_miss = false;
  bool l2_miss = false;
  bool op_cache_miss = false;
  bool l3_miss = false;
  unsigned page = 0;  // 2 bits
  uint16_t latency = 0;
  uint16_t tlb_refill_latency = 0;
  uint64_t noise = 0;
};

IbsFetchFacts RandomIbsFetch(std::mt19937_64& random, uint32_t caps, const IbsQuirks& quirks);
std::string EncodeIbsFetch(const IbsFetchFacts& facts, std::endian order = std::endian::little);
IbsFetchRecord TruthOf(const IbsFetchFacts& facts);

}  // namespace ptarmigan
