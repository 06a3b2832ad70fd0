// Which addresses the rows already name, so that weaker collectors can leave them out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "symbolize/symbol_rows.h"

namespace ptarmigan::internal {

// A snapshot: later rows are not seen.
class Coverage {
 public:
  // Of the scopes whose source is at least `minimum`.
  Coverage(const SymbolRows& rows, SymbolSource minimum) {
    for (const SymbolRows::ScopeRange& row : rows.ranges()) {
      if (rows.scopes()[row.scope].source < minimum) continue;
      // A start of unknown size names at least its own address.
      const uint64_t start = row.range.start.value;
      ranges_.push_back({start, std::max(row.range.end.value, start + 1)});
    }
    std::sort(ranges_.begin(), ranges_.end());
    size_t kept = 0;
    for (const auto& range : ranges_) {
      if (kept > 0 && range.first <= ranges_[kept - 1].second) {
        ranges_[kept - 1].second = std::max(ranges_[kept - 1].second, range.second);
      } else {
        ranges_[kept++] = range;
      }
    }
    ranges_.resize(kept);
  }

  bool Contains(FileVaddr address) const {
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(),
                                        std::pair<uint64_t, uint64_t>(address.value, UINT64_MAX));
    return after != ranges_.begin() && address.value < std::prev(after)->second;
  }

 private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;  // sorted, disjoint
};

}  // namespace ptarmigan::internal
