#include "hw/internal/duplicate_filter.h"

#include "hw/internal/attr_bits.h"

namespace ptarmigan::internal {

void DuplicateFilter::AddOpened(uint64_t id, uint32_t slot) {
  const uint64_t order = opened_.size();
  opened_[id] = Opened{slot, order, false};
}

bool DuplicateFilter::IsDuplicate(Bytes record) {
  if (!armed_) return false;
  ByteCursor cursor(record);
  cursor.Skip(kRecordHeaderBytes);
  const uint64_t id = cursor.U64();
  cursor.Skip(8 + 4);  // ip, pid
  const int32_t tid = cursor.S32();
  if (!cursor.ok()) return false;
  const auto found = opened_.find(id);
  if (found == opened_.end()) return false;
  Opened& opened = found->second;
  if (opened.duplicate) return true;
  const auto key = std::pair(tid, opened.slot);
  const auto known = id_of_thread_.find(key);
  if (known == id_of_thread_.end()) {
    if (id_of_thread_.size() < kWatchedMax) id_of_thread_[key] = id;
    return false;
  }
  if (known->second == id) return false;
  Opened& other = opened_[known->second];
  if (other.duplicate) {
    known->second = id;
    return false;
  }
  Opened& later = other.order > opened.order ? other : opened;
  later.duplicate = true;
  duplicate_ids_.push_back(other.order > opened.order ? known->second : id);
  if (&later == &opened) return true;
  known->second = id;
  return false;
}

std::vector<uint64_t> DuplicateFilter::TakeDuplicateIds() {
  return std::exchange(duplicate_ids_, {});
}

}  // namespace ptarmigan::internal
