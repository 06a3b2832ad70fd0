// DuplicateFilter: leaves out samples of a thread that is sampled twice.
//
// A thread that appears while its process is being opened may have inherited the events of its creator or not; no
// interface tells. Such threads are opened anyway, so that none is missed. If one had inherited after all, its samples
// arrive under two ids for the same event and CPU: then the id that was opened later is a duplicate of the other one,
// and what comes under it is left out from then on.
//
// Costs nothing until a thread appeared late. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

class DuplicateFilter {
 public:
  // Events in the order in which they were opened. `slot` is the same for the same event on the same CPU.
  void AddOpened(uint64_t id, uint32_t slot);
  // A thread was opened that may have inherited.
  void Arm() { armed_ = true; }
  bool armed() const { return armed_; }

  // `record` is a PERF_RECORD_SAMPLE that begins IDENTIFIER, IP, TID. True: leave it out.
  bool IsDuplicate(Bytes record);
  // Ids found to be duplicates since the last call: they need not run any longer.
  std::vector<uint64_t> TakeDuplicateIds();

  // At most this many (thread, slot) pairs are watched; beyond it samples pass.
  static constexpr size_t kWatchedMax = 1 << 18;

 private:
  struct Opened {
    uint32_t slot = 0;
    uint64_t order = 0;
    bool duplicate = false;
  };
  bool armed_ = false;
  std::unordered_map<uint64_t, Opened> opened_;
  std::map<std::pair<int32_t, uint32_t>, uint64_t> id_of_thread_;  // (tid, slot) -> id
  std::vector<uint64_t> duplicate_ids_;
};

}  // namespace ptarmigan::internal
