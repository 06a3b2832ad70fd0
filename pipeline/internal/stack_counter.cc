#include "pipeline/internal/stack_counter.h"

#include <algorithm>
#include <array>

namespace ptarmigan::internal {

void StackCounter::Batch::Clear() {
  entries.clear();
  places.clear();
  memory.clear();
}

StackCounter::StackCounter(StackTable& table, MemoryTable& memory, bool in_background)
    : table_(table),
      memory_(memory),
      in_background_(in_background),
      worker_(kBatchesMax, [this](Batch& batch) { Count(batch); }) {}

void StackCounter::Add(const Sample& sample, const MemSample* memory) {
  const auto begin = filling_.entries.empty() ? 0
                                              : filling_.entries.back().places_begin +
                                                    filling_.entries.back().places_count;
  const auto end = static_cast<uint32_t>(filling_.places.size());
  Entry& entry = filling_.entries.emplace_back();
  entry = {.sample = sample, .places_begin = begin, .places_count = end - begin};
  if (memory != nullptr) {
    entry.memory = static_cast<uint32_t>(filling_.memory.size());
    filling_.memory.push_back(*memory);
  }
  if (!in_background_) {
    if (filling_.entries.size() < kGroupSamples) return;
    Count(filling_);
  } else {
    if (filling_.entries.size() < kBatchSamples && filling_.places.size() < kBatchPlaces) return;
    worker_.Give(&filling_);
  }
  filling_.Clear();
}

void StackCounter::Finish() {
  worker_.Finish();
  Count(filling_);
  filling_ = Batch();
}

void StackCounter::Count(const Batch& batch) {
  std::span<const Entry> entries(batch.entries);
  while (!entries.empty()) {
    const size_t count = std::min(entries.size(), kGroupSamples);
    CountGroup(entries.first(count), batch);
    entries = entries.subspan(count);
  }
}

void StackCounter::CountGroup(std::span<const Entry> group, const Batch& batch) {
  const auto places_of = [&batch](const Entry& entry) {
    return std::span(batch.places).subspan(entry.places_begin, entry.places_count);
  };
  std::array<Hash128, kGroupSamples> hashes;
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i].sample.is_known) {
      table_.PrefetchRow(chains_[group[i].sample.chain].row);
    } else {
      hashes[i] = table_.HashOf(places_of(group[i]));
    }
  }
  std::array<uint32_t, kGroupSamples> stacks;
  for (size_t i = 0; i < group.size(); ++i) {
    const Sample& sample = group[i].sample;
    if (sample.is_known) {
      stacks[i] = chains_[sample.chain].stack;
      continue;
    }
    stacks[i] = table_.InternStack(places_of(group[i]), hashes[i]);
    table_.PrefetchStack(stacks[i]);
    if (sample.chain != kNoChain) chains_[sample.chain].stack = stacks[i];
  }
  for (size_t i = 0; i < group.size(); ++i) table_.PrefetchFirstRow(stacks[i]);
  for (size_t i = 0; i < group.size(); ++i) {
    const Sample& sample = group[i].sample;
    // (A row that belonged to another stack of the chain is seen to be no likely one.)
    Remembered unremembered;
    Remembered& remembered = sample.chain != kNoChain ? chains_[sample.chain] : unremembered;
    remembered.row =
        table_.Add(stacks[i], sample.labels, sample.event, sample.period, remembered.row);
    if (group[i].memory != kNone)
      memory_.Add(remembered.row, table_.Leaf(stacks[i]), batch.memory[group[i].memory]);
  }
}

}  // namespace ptarmigan::internal
