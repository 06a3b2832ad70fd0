#include "decode/event_merger.h"

#include <algorithm>
#include <utility>

namespace ptarmigan {

std::span<const EventMerger::Reference> EventMerger::EndRound() {
  const std::span<const Reference> released = ReleaseUpTo(previous_round_ns_);
  previous_round_ns_ = newest_ns_;
  return released;
}

std::span<const EventMerger::Reference> EventMerger::ReleaseOlderHalf() {
  if (waiting_.empty()) return {};
  std::vector<uint64_t> times;
  times.reserve(waiting_.size());
  for (const Reference& reference : waiting_) times.push_back(reference.time_ns);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return ReleaseUpTo(*middle);
}

std::span<const EventMerger::Reference> EventMerger::ReleaseAll() {
  return ReleaseUpTo(UINT64_MAX);
}

void EventMerger::FreeSpare() {
  released_ = {};
  scratch_ = {};
  waiting_.shrink_to_fit();
}

std::span<const EventMerger::Reference> EventMerger::ReleaseUpTo(uint64_t time_ns) {
  released_.clear();
  if (time_ns >= newest_ns_) {
    std::swap(released_, waiting_);
  } else {
    size_t kept = 0;
    for (const Reference& reference : waiting_) {
      if (reference.time_ns <= time_ns) {
        released_.push_back(reference);
      } else {
        waiting_[kept++] = reference;
      }
    }
    waiting_.resize(kept);
  }
  SortReleased();
  if (!released_.empty()) released_ns_ = std::max(released_ns_, released_.back().time_ns);
  return released_;
}

// What is released is a few rising runs, one for each ring and round: merging them pairwise is faster than sorting.
void EventMerger::SortReleased() {
  run_ends_.clear();
  for (size_t i = 1; i < released_.size(); ++i) {
    if (released_[i].time_ns < released_[i - 1].time_ns) run_ends_.push_back(i);
  }
  if (run_ends_.empty()) return;
  run_ends_.push_back(released_.size());
  scratch_.resize(released_.size());
  const auto older = [](const Reference& a, const Reference& b) { return a.time_ns < b.time_ns; };
  while (run_ends_.size() > 1) {
    size_t start = 0;
    size_t merged = 0;
    for (size_t run = 0; run < run_ends_.size(); run += 2) {
      const size_t middle = run_ends_[run];
      const size_t end = run + 1 < run_ends_.size() ? run_ends_[run + 1] : middle;
      const auto at = [&](size_t index) {
        return released_.begin() + static_cast<std::ptrdiff_t>(index);
      };
      std::merge(at(start), at(middle), at(middle), at(end),
                 scratch_.begin() + static_cast<std::ptrdiff_t>(start), older);
      run_ends_[merged++] = end;
      start = end;
    }
    run_ends_.resize(merged);
    std::swap(released_, scratch_);
  }
}

}  // namespace ptarmigan
