#include "decode/memory_decoder.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace ptarmigan {
namespace {

constexpr std::string_view kOpPmu = "ibs_op";
constexpr std::string_view kFetchPmu = "ibs_fetch";
constexpr uint64_t kWeightBits = kSampleWeight | kSampleWeightStruct;
constexpr uint16_t kIbsCounterMax = UINT16_MAX;

// What all memory samples share; everything else as if nothing were recorded.
void StartMemSample(const CapturedSample& sample, MemSample::Source source, MemSample* memory) {
  *memory = MemSample{};
  memory->source = source;
  memory->cpumode = sample.cpumode;
  memory->identity = sample.identity;
  memory->ip = sample.ip;
  memory->has_ip = sample.has_ip;
}

void SetLatency(MemLatency which, std::optional<uint16_t> cycles, MemSample* memory) {
  if (!cycles) return;
  memory->Set(which, *cycles);
  if (*cycles == kIbsCounterMax) {
    memory->saturated =
        static_cast<uint8_t>(memory->saturated | 1U << static_cast<unsigned>(which));
  }
}

MemOp MemOpOf(IbsOpKind kind) {
  switch (kind) {
    case IbsOpKind::kLoad:
      return MemOp::kLoad;
    case IbsOpKind::kStore:
      return MemOp::kStore;
    case IbsOpKind::kLoadStore:
      return MemOp::kLoadStore;
    case IbsOpKind::kBranch:
      return MemOp::kBranch;
    case IbsOpKind::kOther:
      break;
  }
  return MemOp::kOther;
}

// Prefetches and instruction fetches are neither loads nor stores of the program.
MemOp MemOpOf(std::string_view data_source_op) {
  if (data_source_op == "load") return MemOp::kLoad;
  if (data_source_op == "store") return MemOp::kStore;
  if (data_source_op == "load+store") return MemOp::kLoadStore;
  return MemOp::kOther;
}

}  // namespace

MemoryDecoder::EventClass MemoryDecoder::Classify(const EventDescription& event) const {
  const EventAttr& attr = event.attr;
  const EventClass by_data_source =
      attr.Samples(kSampleDataSrc) ? EventClass::kPebs : EventClass::kNone;
  if (!attr.Samples(kSampleRaw)) return by_data_source;
  const auto pmu = description_.pmu_names.find(attr.type);
  const bool has_pmu = pmu != description_.pmu_names.end();
  const std::string_view name = has_pmu ? pmu->second : event.name;
  if (name.starts_with(kOpPmu)) return EventClass::kIbsOp;
  if (name.starts_with(kFetchPmu)) return EventClass::kIbsFetch;
  if (has_pmu || attr.type <= kPerfTypeBreakpoint) return by_data_source;
  const bool may_be_amd = description_.cpuid.empty() || AmdModelOf(description_.cpuid).has_value();
  return may_be_amd ? EventClass::kByShape : by_data_source;
}

MemoryDecoder::EventClass MemoryDecoder::ClassOf(uint32_t event) {
  while (classes_.size() < description_.events.size()) {
    classes_.push_back(Classify(description_.events[classes_.size()]));
    quirks_ = IbsQuirksOf(AmdModelOf(description_.cpuid));
  }
  return event < classes_.size() ? classes_[event] : EventClass::kNone;
}

MemoryDecoder::Expectation MemoryDecoder::Expect() {
  Expectation strongest = Expectation::kNothing;
  for (uint32_t i = 0; i < description_.events.size(); ++i) {
    const EventDescription& event = description_.events[i];
    Expectation expected = Expectation::kNothing;
    switch (ClassOf(i)) {
      case EventClass::kIbsOp:
      case EventClass::kIbsFetch:
        expected = Expectation::kIbs;
        break;
      case EventClass::kPebs: {
        const bool is_meant = (event.attr.sample_type & kWeightBits) != 0 ||
                              event.name.find("mem-") != std::string::npos;
        expected = is_meant ? Expectation::kDescribed : Expectation::kMaybeDescribed;
        break;
      }
      case EventClass::kByShape:
        expected = Expectation::kMaybeIbs;
        break;
      case EventClass::kNone:
        break;
    }
    strongest = std::max(strongest, expected);
  }
  return strongest;
}

MemoryDecoder::Outcome MemoryDecoder::Decode(const CapturedSample& sample, MemSample* memory) {
  switch (ClassOf(sample.event)) {
    case EventClass::kIbsOp:
      return DecodeOp(sample, memory);
    case EventClass::kIbsFetch:
      return DecodeFetch(sample, memory);
    case EventClass::kPebs:
      return DecodeDataSource(sample, memory);
    case EventClass::kByShape:
      if (LooksLikeIbsOp(sample.raw, description_.byte_order)) return DecodeOp(sample, memory);
      if (LooksLikeIbsFetch(sample.raw, description_.byte_order)) {
        return DecodeFetch(sample, memory);
      }
      return DecodeDataSource(sample, memory);
    case EventClass::kNone:
      break;
  }
  return Outcome::kNotMemory;
}

MemoryDecoder::Outcome MemoryDecoder::Lose(IbsDecodeResult result) {
  losses_.Lose(LossStage::kParse,
               result == IbsDecodeResult::kShort ? LossReason::kShortRaw : LossReason::kBadValue);
  return Outcome::kLost;
}

MemoryDecoder::Outcome MemoryDecoder::DecodeOp(const CapturedSample& sample, MemSample* memory) {
  const IbsDecodeResult result =
      DecodeIbsOp(sample.raw, description_.byte_order, quirks_, &ibs_op_);
  if (result != IbsDecodeResult::kOk) return Lose(result);
  const IbsOpRecord& record = ibs_op_;
  StartMemSample(sample, MemSample::Source::kIbsOp, memory);
  if (!memory->has_ip && record.rip_valid) {
    memory->ip = {record.rip};
    memory->has_ip = true;
  }
  memory->op = MemOpOf(record.kind);
  memory->retired = Answer::kYes;
  if (record.branch_mispredicted) {
    memory->mispredicted = *record.branch_mispredicted ? Answer::kYes : Answer::kNo;
  }
  if (record.remote)
    memory->remote = Answer::kYes;
  else if (!record.level.empty())
    memory->remote = Answer::kNo;
  SetLatency(MemLatency::kTotal, record.dc_miss_cycles, memory);
  SetLatency(MemLatency::kTranslation, record.tlb_refill_cycles, memory);
  if (record.linear_address) memory->data_address = {*record.linear_address};
  memory->has_data_address = record.linear_address.has_value();
  memory->physical_address = record.physical_address.value_or(0);
  memory->has_physical_address = record.physical_address.has_value();
  memory->data_source_code = record.data_source_code.value_or(0);
  memory->data_source = record.data_source;
  memory->level = record.level;
  memory->tlb = record.tlb;
  memory->snoop = record.snoop;
  return Outcome::kDecoded;
}

MemoryDecoder::Outcome MemoryDecoder::DecodeFetch(const CapturedSample& sample, MemSample* memory) {
  const IbsDecodeResult result =
      DecodeIbsFetch(sample.raw, description_.byte_order, quirks_, &ibs_fetch_);
  if (result != IbsDecodeResult::kOk) return Lose(result);
  const IbsFetchRecord& record = ibs_fetch_;
  StartMemSample(sample, MemSample::Source::kIbsFetch, memory);
  if (!memory->has_ip) {
    memory->ip = {record.linear_address};
    memory->has_ip = true;
  }
  if (record.l1_tlb_miss == true) {
    SetLatency(MemLatency::kTranslation, record.tlb_refill_cycles, memory);
  }
  memory->physical_address = record.physical_address.value_or(0);
  memory->has_physical_address = record.physical_address.has_value();
  if (record.l1_tlb_miss) {
    memory->tlb = !*record.l1_tlb_miss ? "L1 hit" : *record.l2_tlb_miss ? "L2 miss" : "L2 hit";
  }
  return Outcome::kDecoded;
}

MemoryDecoder::Outcome MemoryDecoder::DecodeDataSource(const CapturedSample& sample,
                                                       MemSample* memory) {
  if (!sample.has_data_src || !DescribesMemoryAccess(sample.data_src)) return Outcome::kNotMemory;
  DecodePebs(sample, description_.events[sample.event].attr, &pebs_);
  const PebsRecord& record = pebs_;
  StartMemSample(sample, MemSample::Source::kPebs, memory);
  memory->op = MemOpOf(record.op);
  memory->retired = Answer::kYes;
  if (record.remote || record.level.starts_with("remote"))
    memory->remote = Answer::kYes;
  else if (!record.level.empty())
    memory->remote = Answer::kNo;
  if (record.weight) memory->Set(MemLatency::kTotal, *record.weight);
  SetLatency(MemLatency::kInstruction, record.instruction_cycles, memory);
  // The kernel writes 0 where it does not know an address.
  const uint64_t data_address = record.data_address.value_or(0);
  memory->data_address = {data_address};
  memory->has_data_address = data_address != 0;
  memory->physical_address = record.physical_address.value_or(0);
  memory->has_physical_address = memory->physical_address != 0;
  memory->data_source_code = record.data_src;
  memory->data_source = record.level;
  memory->level = record.level;
  memory->tlb = record.tlb;
  memory->snoop = record.snoop;
  return Outcome::kDecoded;
}

}  // namespace ptarmigan
