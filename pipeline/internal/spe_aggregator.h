// SpeAggregator: Arm SPE records on their way into the profile, flat by pc. A hot loop gives the same few kinds of record
// over and over: who ran what where, with which events, served from where. Each kind is looked up once (address space,
// place, labels) and counted from then on; only latencies and data addresses differ from record to record. Records come
// some at a time, so that the memory that the next one needs arrives while one is counted.
//
// Grows with what is distinct. Not thread-safe: places and labels are numbered in the order of the records, which makes
// equal recordings equal profiles.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/compact_index.h"
#include "base/large_chunks.h"
#include "base/large_pages.h"
#include "decode/spe_stream.h"
#include "model/address_space.h"
#include "model/quality.h"
#include "model/recording.h"
#include "model/stack.h"
#include "pipeline/internal/memory_table.h"
#include "pipeline/internal/place_numbers.h"
#include "pipeline/internal/sample_labels.h"
#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {

// What it looks places and labels up in. All references must outlive the aggregator.
struct SpeLookup {
  const RecordingDescription& description;
  ProcessTable& processes;
  PlaceNumbers& numbers;
  SampleLabels& labels;
  bool by_cpu = false;         // records of different CPUs have different labels
  bool memory_details = true;  // MemoryTable's
  // What the aggregator may hold; records beyond are counted as such and left out. 0: no bound.
  uint64_t memory_bytes_max = 0;
};

class SpeAggregator final : public SpeRecordSink {
 public:
  // Of the records received.
  struct Totals {
    std::vector<EventTotal> events;  // by event; without names
    std::array<uint64_t, kStackEnds> stack_ends = {};
    uint64_t kept = 0;
    uint64_t beyond_limit = 0;
    uint64_t first_ns = UINT64_MAX;
    uint64_t last_ns = 0;
  };

  explicit SpeAggregator(const SpeLookup& lookup)
      : lookup_(lookup), memory_(lookup.memory_details) {}

  void OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) override;
  void OnSpeRecords(std::span<const SpeSample> samples) override;
  const Totals& totals() const { return totals_; }
  // Hands over what was counted. Nothing can be added afterwards.
  void Finish(StackTable* table, MemoryTable* memory);

 private:
  // Records that differ in nothing but latencies and data addresses.
  struct Kind {
    // Looked up when the processes were as they were then; good for records since valid_from_ns.
    uint64_t changes = 0;
    uint64_t valid_from_ns = UINT64_MAX;
    std::array<uint64_t, kSpeCounters> sums = {};  // cycles; saturate
    uint64_t samples = 0;
    uint32_t place = 0;
    uint32_t labels = 0;
    uint32_t event = 0;
    StackEnd end = StackEnd::kComplete;
    uint8_t counters = 0;  // bit SpeCounter
  };
  static_assert(sizeof(Kind) == 64, "a cache line: counting is fetching it");

  static constexpr size_t kChunkRecords = 32;
  size_t MemoryBytes() const {
    return (kinds_.size() + past_.size()) * sizeof(Kind) + index_.MemoryBytes() +
           memory_.MemoryBytes();
  }
  void CountChunk(std::span<const SpeSample> samples);
  void Count(const SpeRecord& record, const SpeOrigin& origin, Kind* kind);
  // The kinds as they are and as they were, under one number each.
  const Kind& KindOf(uint32_t number) const {
    return number < past_.size() ? past_[number] : kinds_[number - past_.size()];
  }
  uint64_t PeriodOf(uint32_t event) const;
  void AddRows(StackTable* table, MemoryTable* memory);
  EventTotal& TotalOf(uint32_t event);
  CompactIndex::Key KeyOf(const SpeRecord& record, const SpeOrigin& origin, uint32_t event) const;
  void LookUp(const SpeRecord& record, const SpeOrigin& origin, uint64_t time_ns, Kind* kind);
  void AddLatencies(const SpeRecord& record, Kind* kind);
  void AddAccess(const SpeRecord& record, const SpeOrigin& origin);

  SpeLookup lookup_;
  Totals totals_;
  CompactIndex index_;  // 96 bits of the hash of what makes a kind
  LargeChunks<Kind> kinds_;
  // Kinds as they were before they were looked up anew and meant something else.
  LargeVector<Kind> past_;
  MemoryTable memory_;  // by place only: sums by row come with Finish
};

}  // namespace ptarmigan::internal
