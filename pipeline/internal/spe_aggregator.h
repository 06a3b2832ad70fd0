// SpeAggregator: Arm SPE records on their way into the profile, flat by pc. A hot loop gives the same few kinds of record
// over and over: who ran what where, with which events, served from where. Each kind is looked up once (address space,
// place, labels) and counted from then on; only latencies and data addresses differ from record to record.
//
// Grows with what is distinct. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/compact_index.h"
#include "decode/spe_stream.h"
#include "model/address_space.h"
#include "model/stack.h"
#include "pipeline/internal/memory_table.h"
#include "pipeline/internal/place_numbers.h"
#include "pipeline/internal/sample_labels.h"
#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {

class SpeAggregator {
 public:
  // All references must outlive the counter. `by_cpu`: records of different CPUs have different labels.
  SpeAggregator(ProcessTable& processes, PlaceNumbers& numbers, SampleLabels& labels, bool by_cpu)
      : processes_(processes), numbers_(numbers), labels_(labels), by_cpu_(by_cpu) {}

  // Counts the record; how its stack (its pc) ended. `event` and `period` are what the row gets.
  StackEnd Add(const SpeRecord& record, const SpeOrigin& origin, uint32_t event, uint64_t period);
  // Hands over what was counted. Nothing can be added afterwards.
  void Finish(StackTable* table, MemoryTable* memory);
  size_t MemoryBytes() const {
    return kinds_.size() * sizeof(Kind) + past_.size() * sizeof(Kind) + index_.MemoryBytes() +
           memory_.MemoryBytes();
  }

 private:
  // Records that differ in nothing but latencies and data addresses.
  struct Kind {
    // Looked up when the processes were as they were then; good for records since valid_from_ns.
    uint64_t changes = 0;
    uint64_t valid_from_ns = UINT64_MAX;
    uint32_t place = 0;
    uint32_t labels = 0;
    uint32_t event = 0;
    StackEnd end = StackEnd::kComplete;
    uint8_t latencies = 0;
    uint64_t samples = 0;
    uint64_t weight = 0;
    MemoryTable::Sums sums = {};
  };

  static constexpr uint64_t kLow = (uint64_t{1} << 56) - 1;

  CompactIndex::Key KeyOf(const SpeRecord& record, const SpeOrigin& origin, uint32_t event) const;
  void LookUp(const SpeRecord& record, const SpeOrigin& origin, uint64_t time_ns, Kind* kind);
  void AddLatencies(const SpeRecord& record, Kind* kind);
  void AddAccess(const SpeRecord& record, const SpeOrigin& origin);

  ProcessTable& processes_;
  PlaceNumbers& numbers_;
  SampleLabels& labels_;
  const bool by_cpu_;
  CompactIndex index_;  // 96 bits of the hash of what makes a kind
  std::vector<Kind> kinds_;
  std::vector<Kind>
      past_;  // kinds as they were before they were looked up anew and meant something else
  MemoryTable memory_;  // by place only: sums by row come with Finish
};

}  // namespace ptarmigan::internal
