#include "pipeline/internal/latency_counts.h"

#include <bit>
#include <functional>
#include <span>
#include <utility>

#include "base/radix_sort.h"

namespace ptarmigan::internal {
namespace {

static_assert(kMemLatencies <= 4, "a key has two bits for it");

void AddTo(const LatencyCounts::Entry& entry, LargeVector<LatencyCounts::Entry>* entries) {
  if (!entries->empty() && entries->back().key == entry.key) {
    entries->back().samples += entry.samples;
  } else {
    entries->push_back(entry);
  }
}

// Keys keep their order.
uint64_t RoundedDown(uint64_t key) {
  constexpr int kBitsKept = 4;
  const uint64_t cycles = key & LatencyCounts::kCyclesMax;
  const int dropped = static_cast<int>(std::bit_width(cycles)) - kBitsKept;
  return dropped > 0 ? key >> dropped << dropped : key;
}

}  // namespace

void LatencyCounts::Settle() {
  if (pending_.empty()) return;
  RadixSort(std::span(pending_), std::identity(), &scratch_);
  LargeVector<Entry> counted;
  counted.reserve(pending_.size());
  for (const uint64_t key : pending_) AddTo({.key = key, .samples = 1}, &counted);
  pending_.clear();
  Merge(counted);
}

void LatencyCounts::Merge(const LargeVector<Entry>& more) {
  merged_.clear();
  merged_.reserve(entries_.size() + more.size());
  auto ours = entries_.begin();
  for (const Entry& theirs : more) {
    while (ours != entries_.end() && ours->key <= theirs.key) AddTo(*ours++, &merged_);
    AddTo(theirs, &merged_);
  }
  while (ours != entries_.end()) AddTo(*ours++, &merged_);
  std::swap(entries_, merged_);
  is_rounded_ = is_rounded_ || entries_.size() > kExactMax;
  if (is_rounded_) RoundDown();
}

void LatencyCounts::RoundDown() {
  merged_.clear();
  for (const Entry& entry : entries_) {
    AddTo({.key = RoundedDown(entry.key), .samples = entry.samples}, &merged_);
  }
  std::swap(entries_, merged_);
}

void LatencyCounts::Add(LatencyCounts* other) { Merge(other->Entries()); }

const LargeVector<LatencyCounts::Entry>& LatencyCounts::Entries() {
  Settle();
  return entries_;
}

}  // namespace ptarmigan::internal
