// IBS samples of any bytes: op and fetch registers, with any quirks and byte order, and any description of an access.
// No crash; each sample is decoded, counted as lost or no memory sample; presence follows from the registers.
//
//   byte 0: quirks │ byte 1: byte order, event │ 8 bytes: data source │ the rest: raw
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/check.h"
#include "decode/memory_decoder.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kOpType = 11;
constexpr uint32_t kFetchType = 12;
constexpr uint32_t kUnnamedType = 13;
constexpr size_t kHeadBytes = 10;

RecordingDescription Describe(std::endian order) {
  RecordingDescription description;
  description.byte_order = order;
  description.pmu_names = {{kOpType, "ibs_op"}, {kFetchType, "ibs_fetch"}};
  for (const uint32_t type : {kOpType, kFetchType, kUnnamedType}) {
    EventDescription event;
    event.attr.type = type;
    event.attr.sample_type = kSampleRaw | kSampleDataSrc | kSampleWeightStruct;
    description.events.push_back(event);
  }
  return description;
}

IbsQuirks QuirksOf(uint8_t bits) {
  return {.void_l2_after_prefetch = (bits & 1) != 0,
          .void_ic_miss = (bits & 2) != 0,
          .page_sizes_with_16k = (bits & 4) != 0,
          .void_cache_hit_state = (bits & 8) != 0,
          .fetch_needs_physical = (bits & 16) != 0};
}

void CheckOp(Bytes raw, std::endian order, const IbsQuirks& quirks) {
  IbsOpRecord record;
  const IbsDecodeResult result = DecodeIbsOp(raw, order, quirks, &record);
  CHECK((result == IbsDecodeResult::kShort) == (raw.size() < 4 + 7 * 8));
  if (result != IbsDecodeResult::kOk) {
    CHECK(record == IbsOpRecord());
    CHECK(!LooksLikeIbsOp(raw, order));
    return;
  }
  const bool memory = record.kind == IbsOpKind::kLoad || record.kind == IbsOpKind::kStore ||
                      record.kind == IbsOpKind::kLoadStore;
  CHECK(memory == record.dc_miss.has_value());
  CHECK(memory || record.level.empty());
  CHECK(record.data_source.empty() || record.data_source_code.has_value());
  CHECK(!record.dc_miss_cycles || (*record.dc_miss && record.kind != IbsOpKind::kStore));
  CHECK(!record.remote || record.level.starts_with("remote") || record.level == "peer cache");
  CHECK(!record.branch_target || (record.caps & kIbsCapBranchTarget) != 0);
  CHECK(record.tlb.empty() || record.linear_address.has_value());
}

void CheckFetch(Bytes raw, std::endian order, const IbsQuirks& quirks) {
  IbsFetchRecord record;
  const IbsDecodeResult result = DecodeIbsFetch(raw, order, quirks, &record);
  CHECK((result == IbsDecodeResult::kShort) == (raw.size() < 4 + 3 * 8));
  if (result != IbsDecodeResult::kOk) {
    CHECK(record == IbsFetchRecord());
    CHECK(!LooksLikeIbsFetch(raw, order));
    return;
  }
  CHECK(!record.l2_miss || record.complete);
  CHECK(!record.ic_miss || !quirks.void_ic_miss);
  CHECK(record.l1_tlb_miss.has_value() == record.latency_cycles.has_value());
}

void CheckDecoder(Bytes raw, std::endian order, uint32_t event, uint64_t data_src) {
  const RecordingDescription description = Describe(order);
  MemoryDecoder decoder(description);
  CapturedSample sample;
  sample.event = event;
  sample.raw = raw;
  sample.has_data_src = true;
  sample.data_src = data_src;
  sample.has_weight = true;
  MemSample memory;
  switch (decoder.Decode(sample, &memory)) {
    case MemoryDecoder::Outcome::kDecoded:
      CHECK(decoder.losses().Lost() == 0);
      break;
    case MemoryDecoder::Outcome::kLost:
      CHECK(decoder.losses().Lost() == 1);
      break;
    case MemoryDecoder::Outcome::kNotMemory:
      CHECK(decoder.losses().Lost() == 0);
      CHECK(description.events[event].attr.type == kUnnamedType);
      CHECK(!DescribesMemoryAccess(data_src));
      break;
  }
}

}  // namespace
}  // namespace ptarmigan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptarmigan;
  if (size < kHeadBytes) return 0;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const std::endian order = (data[1] & 0x80) != 0 ? std::endian::big : std::endian::little;
  ByteCursor cursor(bytes.subspan(2));
  const uint64_t data_src = cursor.U64();
  const Bytes raw = cursor.Rest();
  CheckOp(raw, order, QuirksOf(data[0]));
  CheckFetch(raw, order, QuirksOf(data[0]));
  CheckDecoder(raw, order, data[1] % 3U, data_src);
  return 0;
}
