// SwitchHistory: which task ran on one CPU, as context switches told it, for questions about the recent past.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace ptarmigan::internal {

class SwitchHistory {
 public:
  struct Entry {
    uint64_t time_ns = 0;
    int32_t pid = -1;
    int32_t tid = -1;
  };

  // Nearly always the newest; with more than `entries_max` the oldest is forgotten.
  void Add(const Entry& entry, size_t entries_max) {
    const auto at = std::upper_bound(entries_.begin(), entries_.end(), entry.time_ns, IsBefore);
    entries_.insert(at, entry);
    if (entries_.size() > entries_max) entries_.pop_front();
  }
  // The task that came in last at or before `time_ns`; null if that is not known. Valid until the next change.
  const Entry* Find(uint64_t time_ns) const {
    const auto next = std::upper_bound(entries_.begin(), entries_.end(), time_ns, IsBefore);
    return next == entries_.begin() ? nullptr : &*(next - 1);
  }
  // Nobody will ask about times before `time_ns` any more.
  void Forget(uint64_t time_ns) {
    while (entries_.size() >= 2 && entries_[1].time_ns <= time_ns) entries_.pop_front();
  }
  bool empty() const { return entries_.empty(); }

 private:
  static bool IsBefore(uint64_t time_ns, const Entry& entry) { return time_ns < entry.time_ns; }

  std::deque<Entry> entries_;
};

}  // namespace ptarmigan::internal
