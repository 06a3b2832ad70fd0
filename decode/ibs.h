// AMD Instruction-Based Sampling: the raw part of an `ibs_op` or `ibs_fetch` sample into a record with every value that
// the registers hold.
//
//   raw:  u32 caps │ u64 register … (unaligned, in the recording's byte order)
//   op    IbsOpCtl, IbsOpRip, IbsOpData, IbsOpData2, IbsOpData3, IbsDcLinAd, IbsDcPhysAd │ IbsBrTarget, if caps bit 5 │
//         IbsOpData4, if caps bit 10
//   fetch IbsFetchCtl, IbsFetchLinAd, IbsFetchPhysAd │ IbsExtdCtl, if caps bit 9
//
// The caps word says what the processor's registers mean; errata, which it does not tell, are a table by family and
// model (IbsQuirksOf). Absent is not zero: a value that the processor lacks, that an erratum voids or that has no
// meaning for this operation is absent.
//
// Sources: AMD PPR for Family 19h Model 01h (55898) and Model 11h (55901), revision guides for the errata; Linux 7.2
// arch/x86/include/asm/amd/ibs.h and arch/x86/events/amd/ibs.c. Records are plain values: every string_view refers to
// static storage. Functions here are thread-safe and allocate nothing.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/byte_cursor.h"

namespace ptarmigan {

// Bits of the caps word: CPUID Fn8000_001B_EAX.
enum IbsCap : uint32_t {
  kIbsCapValid = 1U << 0,
  kIbsCapFetch = 1U << 1,
  kIbsCapOp = 1U << 2,
  kIbsCapBranchTarget = 1U << 5,
  kIbsCapRipInvalid = 1U << 7,
  kIbsCapBranchFuse = 1U << 8,
  kIbsCapFetchExtended = 1U << 9,
  kIbsCapOpData4 = 1U << 10,
  kIbsCapExtended = 1U << 11,        // Zen 4: long data source table, L3 miss bits
  kIbsCapStreamingStore = 1U << 16,  // streaming store and remote socket indicators
  kIbsCapTlbPageSize = 1U << 19,     // page size as a number; TLB fields need a physical address
};

// What cannot be believed on some processors.
struct IbsQuirks {
  // Erratum 1293: after a software prefetch, or a miss that found an open buffer, IbsOpData2, L2Miss and the count of
  // open requests are void.
  bool void_l2_after_prefetch = false;
  bool void_ic_miss = false;          // Erratum 1238
  bool page_sizes_with_16k = false;   // Erratum 1347: fetch page sizes are 4K, 16K, 2M, 1G
  bool void_cache_hit_state = false;  // the cache-hit state bit tells nothing
  bool fetch_needs_physical = false;  // fetch status is void without a physical address

  friend bool operator==(const IbsQuirks&, const IbsQuirks&) = default;
};

struct AmdModel {
  uint32_t family = 0;
  uint32_t model = 0;
};
// From perf's cpuid text ("AuthenticAMD,25,17,1"); nothing for another vendor or another text.
std::optional<AmdModel> AmdModelOf(std::string_view cpuid);
// All false for a model that is not known.
IbsQuirks IbsQuirksOf(std::optional<AmdModel> model);

enum class IbsOpKind : uint8_t { kOther, kLoad, kStore, kLoadStore, kBranch };

struct IbsOpRecord {
  uint32_t caps = 0;
  IbsOpKind kind = IbsOpKind::kOther;  // a branch that also loads is a load
  bool rip_valid = true;
  bool microcode = false;
  uint64_t rip = 0;  // of the sampled operation; stale if !rip_valid
  uint16_t completion_to_retire_cycles = 0;
  uint16_t tag_to_retire_cycles = 0;

  // Retired branches.
  std::optional<bool> branch_taken;
  std::optional<bool> branch_mispredicted;
  std::optional<bool> branch_return;
  std::optional<bool> branch_fused;
  std::optional<uint64_t> branch_target;

  // Loads and stores.
  std::optional<uint8_t> data_source_code;
  std::string_view
      data_source;         // loads that missed the L2 cache; "reserved": a code without a meaning
  std::string_view level;  // "L1 hit", "remote RAM", ...; empty: not told
  std::string_view snoop;  // "HITM" or empty
  std::string_view tlb;    // "L1 hit", "L2 hit", "L2 miss"
  std::string_view page_size;  // of an L1 TLB hit; with kIbsCapTlbPageSize of every access
  bool remote = false;  // the data came from another node, or another core complex of this one
  std::optional<bool> locked;
  std::optional<bool> dc_miss;
  std::optional<bool> l2_miss;
  std::optional<bool> software_prefetch;
  std::optional<bool> no_mab;  // the miss found a miss address buffer that was open already
  std::optional<bool> misaligned;
  std::optional<bool> uncacheable;
  std::optional<bool> write_combining;
  std::optional<bool> streaming_store;
  std::optional<bool> remote_socket;
  std::optional<uint8_t> open_requests;
  std::optional<uint16_t> width_bytes;
  std::optional<uint16_t> dc_miss_cycles;     // loads that missed
  std::optional<uint16_t> tlb_refill_cycles;  // after an L1 TLB miss
  std::optional<uint64_t> linear_address;
  std::optional<uint64_t> physical_address;  // absent too where the kernel hid it
  std::optional<bool> load_resync;           // IbsOpData4

  friend bool operator==(const IbsOpRecord&, const IbsOpRecord&) = default;
};

struct IbsFetchRecord {
  uint32_t caps = 0;
  uint64_t linear_address = 0;
  bool complete = false;
  std::optional<uint16_t> latency_cycles;
  std::optional<bool> ic_miss;
  std::optional<bool> l1_tlb_miss;
  std::optional<bool> l2_tlb_miss;
  std::optional<bool> l2_miss;        // complete fetches
  std::optional<bool> op_cache_miss;  // kIbsCapExtended, as l3_miss
  std::optional<bool> l3_miss;
  std::optional<uint16_t> tlb_refill_cycles;  // kIbsCapFetchExtended
  std::optional<uint64_t> physical_address;
  std::string_view page_size;  // fetches with a physical address

  friend bool operator==(const IbsFetchRecord&, const IbsFetchRecord&) = default;
};

enum class IbsDecodeResult : uint8_t {
  kOk,
  kShort,    // fewer registers than every processor has; the record is not touched
  kInvalid,  // the control register says that the registers hold no sample
};
IbsDecodeResult DecodeIbsOp(Bytes raw, std::endian order, const IbsQuirks& quirks,
                            IbsOpRecord* record);
IbsDecodeResult DecodeIbsFetch(Bytes raw, std::endian order, const IbsQuirks& quirks,
                               IbsFetchRecord* record);

// Whether raw bytes of an unknown event have exactly the size that their caps word announces for op or fetch
// samples, and a valid sample in the control register. For recordings without names of PMUs.
bool LooksLikeIbsOp(Bytes raw, std::endian order);
bool LooksLikeIbsFetch(Bytes raw, std::endian order);

}  // namespace ptarmigan
