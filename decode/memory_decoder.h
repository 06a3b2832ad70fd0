// MemoryDecoder: samples that watched one memory access or instruction, AMD IBS and Intel PEBS, into MemSample and the
// vendor's own record. (Arm SPE records come in AUX data: decode/spe_decoder.h.)
//
//   MemoryDecoder decoder(source.description());
//   MemSample memory;
//   switch (decoder.Decode(sample, &memory)) { … }
//
// Which event is what: IBS by the PMU's name (`ibs_op`, `ibs_fetch`), or, in recordings without names, by the shape of
// the raw bytes of a dynamic event. Everything else that has PERF_SAMPLE_DATA_SRC is a Source::kPebs sample wherever
// the kernel described an access; so are IBS events that were recorded without raw bytes (`perf mem record` on AMD).
//
// How registers become a MemSample:
//   IBS op     latency: data cache miss (loads) -> kTotal, TLB refill -> kTranslation; data_source: the name by the
//              processor's table; retired: yes (hardware reports retired operations only)
//   IBS fetch  op kOther; iTLB refill -> kTranslation after an L1 TLB miss. The fetch's own latency is not a kTotal: it
//              would be summed with latencies of data (it stays in IbsFetchRecord)
//   PEBS       weight (its low 32 bits with WEIGHT_STRUCT) -> kTotal, second word -> kInstruction; data_source: the
//              level's text
//
// Not thread-safe. Allocates when an event is seen first, never per sample.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decode/ibs.h"
#include "decode/pebs.h"
#include "model/event.h"
#include "model/loss_ledger.h"
#include "model/mem_sample.h"
#include "model/recording.h"

namespace ptarmigan {

class MemoryDecoder {
 public:
  enum class Outcome : uint8_t {
    kNotMemory,  // a sample of another kind; `memory` is not touched
    kDecoded,
    kLost,  // a memory sample whose bytes are unusable; counted in losses()
  };

  // `description` outlives the decoder; events may be added to it.
  explicit MemoryDecoder(const RecordingDescription& description) : description_(description) {}

  // Sets every member of `memory` if kDecoded.
  Outcome Decode(const CapturedSample& sample, MemSample* memory);

  // The vendor's record of the last sample that was decoded with this source.
  const IbsOpRecord& ibs_op() const { return ibs_op_; }
  const IbsFetchRecord& ibs_fetch() const { return ibs_fetch_; }
  const PebsRecord& pebs() const { return pebs_; }

  // What the events of the description, as it is now, let one expect; the strongest counts.
  enum class Expectation : uint8_t {
    kNothing,
    kMaybeDescribed,  // `perf record -d` asks every event for its data source
    kMaybeIbs,        // a dynamic event of an unknown PMU has raw bytes
    kDescribed,
    kIbs,
  };
  Expectation Expect();
  bool AnyMemoryEvent() { return Expect() >= Expectation::kDescribed; }

  // Losses only, one for each kLost: (parse, short_raw) and (parse, bad_value). Neither captured() nor kept().
  const LossLedger& losses() const { return losses_; }

 private:
  enum class EventClass : uint8_t { kNone, kIbsOp, kIbsFetch, kPebs, kByShape };

  EventClass ClassOf(uint32_t event);
  EventClass Classify(const EventDescription& event) const;
  Outcome DecodeOp(const CapturedSample& sample, MemSample* memory);
  Outcome DecodeFetch(const CapturedSample& sample, MemSample* memory);
  Outcome DecodeDataSource(const CapturedSample& sample, MemSample* memory);
  Outcome Lose(IbsDecodeResult result);

  const RecordingDescription& description_;
  std::vector<EventClass> classes_;  // by event, as far as they were asked for
  IbsQuirks quirks_;
  IbsOpRecord ibs_op_;
  IbsFetchRecord ibs_fetch_;
  PebsRecord pebs_;
  LossLedger losses_;
};

}  // namespace ptarmigan
