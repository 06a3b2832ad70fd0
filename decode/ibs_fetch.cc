#include <array>

#include "decode/ibs.h"
#include "decode/internal/ibs_registers.h"

namespace ptarmigan {
namespace {

using internal::Bit;
using internal::Bits16;
using internal::IbsRegisters;
using internal::ReadIbsRegisters;

enum Register : size_t { kCtl, kLinear, kPhysical, kExtended };

constexpr std::array<std::string_view, 4> kPageSizes = {"4K", "2M", "1G", ""};
constexpr std::array<std::string_view, 4> kPageSizesWith16K = {"4K", "16K", "2M", "1G"};

}  // namespace

IbsDecodeResult DecodeIbsFetch(Bytes raw_bytes, std::endian order, const IbsQuirks& quirks,
                               IbsFetchRecord* record) {
  using namespace internal::fetch_ctl;
  const IbsRegisters raw = ReadIbsRegisters(raw_bytes, order);
  if (raw.count < internal::kIbsFetchRegisters) return IbsDecodeResult::kShort;
  const uint64_t ctl = raw.registers[kCtl];
  if (!Bit(ctl, kValid)) return IbsDecodeResult::kInvalid;
  *record = IbsFetchRecord{};
  record->caps = raw.caps;
  record->linear_address = raw.registers[kLinear];
  record->complete = Bit(ctl, kComplete);

  const bool physical_valid = Bit(ctl, kPhysicalValid);
  if (quirks.fetch_needs_physical && !physical_valid) return IbsDecodeResult::kOk;
  record->latency_cycles = Bits16(ctl, kLatency);
  if (!quirks.void_ic_miss) record->ic_miss = Bit(ctl, kIcMiss);
  record->l1_tlb_miss = Bit(ctl, kL1TlbMiss);
  record->l2_tlb_miss = Bit(ctl, kL2TlbMiss);
  if (record->complete) record->l2_miss = Bit(ctl, kL2Miss);
  if ((raw.caps & kIbsCapExtended) != 0) {
    record->op_cache_miss = Bit(ctl, kOpCacheMiss);
    record->l3_miss = Bit(ctl, kL3Miss);
  }
  if ((raw.caps & kIbsCapFetchExtended) != 0 && raw.count > kExtended) {
    record->tlb_refill_cycles = Bits16(raw.registers[kExtended], 0);
  }
  if (physical_valid) {
    const auto& sizes = quirks.page_sizes_with_16k ? kPageSizesWith16K : kPageSizes;
    record->page_size = sizes[static_cast<size_t>(ctl >> kPageSize & 3)];
    // The kernel writes 0 for those who may not know it.
    if (raw.registers[kPhysical] != 0) record->physical_address = raw.registers[kPhysical];
  }
  return IbsDecodeResult::kOk;
}

bool LooksLikeIbsFetch(Bytes raw_bytes, std::endian order) {
  const IbsRegisters raw = ReadIbsRegisters(raw_bytes, order);
  const size_t announced =
      internal::kIbsFetchRegisters + ((raw.caps & kIbsCapFetchExtended) != 0 ? 1 : 0);
  return (raw.caps & kIbsCapValid) != 0 && (raw.caps & kIbsCapFetch) != 0 &&
         raw_bytes.size() == internal::kIbsCapsBytes + announced * sizeof(uint64_t) &&
         Bit(raw.registers[kCtl], internal::fetch_ctl::kValid);
}

}  // namespace ptarmigan
