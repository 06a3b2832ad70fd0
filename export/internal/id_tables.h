// Tables for readers of formats whose things have ids of the writer's choice.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "model/profile.h"

namespace ptarmigan::internal {

// From the ids of a file (any 64-bit numbers) to indexes. Dense ids, the usual case, need no hashing.
class IdTable {
 public:
  // False if the id is there already.
  bool Add(uint64_t id, uint32_t index) {
    if (id < kDenseMax && id < dense_.size() * 2 + kDenseStart) {
      if (id >= dense_.size()) dense_.resize(static_cast<size_t>(id) + 1, kNoId);
      if (dense_[id] != kNoId || sparse_.contains(id)) return false;
      dense_[id] = index;
      return true;
    }
    return Find(id) == kNoId && sparse_.emplace(id, index).second;
  }
  uint32_t Find(uint64_t id) const {
    if (id < dense_.size() && dense_[id] != kNoId) return dense_[id];
    if (sparse_.empty()) return kNoId;
    const auto found = sparse_.find(id);
    return found != sparse_.end() ? found->second : kNoId;
  }

 private:
  static constexpr size_t kDenseStart = 1024;
  static constexpr uint64_t kDenseMax = uint64_t{1} << 26;
  std::vector<uint32_t> dense_;
  std::unordered_map<uint64_t, uint32_t> sparse_;
};

// Finds an equal row of numbers among those added before. The hash is no protection from someone who
// makes rows with equal hashes, so a hit counts only if `same(id)` says that the content is equal.
class RowTable {
 public:
  template <typename T, typename Same, typename Add>
  uint32_t Intern(std::span<const T> row, const Same& same, const Add& add) {
    const auto [slot, is_new] = rows_.try_emplace(HashBytes128(std::as_bytes(row)), kNoId);
    if (!is_new && same(slot->second)) return slot->second;
    const uint32_t id = add();
    if (is_new) slot->second = id;
    return id;
  }

 private:
  std::unordered_map<Hash128, uint32_t, Hash128Hasher> rows_;
};

}  // namespace ptarmigan::internal
