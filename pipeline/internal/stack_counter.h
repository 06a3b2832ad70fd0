// StackCounter: the second half of what the pipeline does with a sample: from the numbers of its places to its stack in the
// StackTable, from stack, labels and event to its row, and from there to the MemoryTable. A thread of its own does it in
// large batches; what it looks up lies in memory that no other thread needs.
//
//   pipeline thread:  places() <- numbers, Add, ... (batch full) ──▶ counter's thread: InternStack, Add to the row
//   Finish() ─────────────── joins ────────────────────────────────▶ the table may be read
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/mem_sample.h"
#include "pipeline/internal/batch_worker.h"
#include "pipeline/internal/memory_table.h"
#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {

class StackCounter {
 public:
  // A batch is full with so many samples, or so many places.
  static constexpr size_t kBatchSamples = 1024;
  static constexpr size_t kBatchPlaces = 32768;
  // Batches that wait; Add blocks beyond.
  static constexpr size_t kBatchesMax = 4;
  // Stacks that are remembered by a number which the caller gives out.
  static constexpr uint32_t kChains = uint32_t{1} << 13;
  static constexpr uint32_t kNoChain = UINT32_MAX;

  struct Sample {
    uint32_t chain = kNoChain;  // below kChains: where the stack is remembered
    bool is_known = false;  // it is the stack remembered last in `chain`, and has no places here
    uint32_t labels = 0;
    uint32_t event = 0;
    uint64_t period = 0;
  };

  // With `in_background` false every few samples are counted in the caller's thread, so that the tables can be looked at
  // at any time.
  StackCounter(StackTable& table, MemoryTable& memory, bool in_background);

  // The numbers of the next sample's places, leaf first, are appended here.
  std::vector<uint32_t>* places() { return &filling_.places; }
  // Takes what was appended to places() since the last call. `memory` is null if it is no memory sample.
  void Add(const Sample& sample, const MemSample* memory);
  // Everything is counted, and the thread has ended.
  void Finish();

 private:
  // So many samples are looked up together, each loop asking for the memory that the next one needs.
  static constexpr size_t kGroupSamples = 16;

  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {
    Sample sample;
    uint32_t places_begin = 0;
    uint32_t places_count = 0;
    uint32_t memory = kNone;  // of the batch's
  };
  struct Batch {
    std::vector<Entry> entries;
    std::vector<uint32_t> places;
    std::vector<MemSample> memory;

    void Clear();
  };
  struct Remembered {
    uint32_t stack = 0;
    uint32_t row = StackTable::kNoRow;
  };

  void Count(const Batch& batch);
  void CountGroup(std::span<const Entry> group, const Batch& batch);

  StackTable& table_;
  MemoryTable& memory_;
  const bool in_background_;
  Batch filling_;
  // Owned by the counter's thread until Finish has joined it.
  std::vector<Remembered> chains_ = std::vector<Remembered>(kChains);
  BatchWorker<Batch> worker_;
};

}  // namespace ptarmigan::internal
