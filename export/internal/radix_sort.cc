#include "export/internal/radix_sort.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace ptarmigan::internal {

void SortKeyedIds(std::span<KeyedId> items, std::vector<KeyedId>* scratch) {
  constexpr size_t kCountingMin = 512;
  if (items.size() < kCountingMin) {
    std::sort(items.begin(), items.end(), [](const KeyedId& a, const KeyedId& b) {
      return std::tie(a.key, a.id) < std::tie(b.key, b.id);
    });
    return;
  }
  uint64_t differing = 0;
  for (const KeyedId& item : items) differing |= item.key ^ items[0].key;
  if (scratch->size() < items.size()) scratch->resize(items.size());
  std::span<KeyedId> from = items;
  std::span<KeyedId> to = std::span(*scratch).first(items.size());
  constexpr unsigned kDigitBits = 11;
  constexpr uint64_t kDigitMask = (uint64_t{1} << kDigitBits) - 1;
  for (unsigned shift = 0; shift < 64; shift += kDigitBits) {
    if ((differing >> shift & kDigitMask) == 0) continue;
    std::array<uint32_t, size_t{1} << kDigitBits> next = {};
    for (const KeyedId& item : from) ++next[item.key >> shift & kDigitMask];
    uint32_t begin = 0;
    for (uint32_t& place : next) {
      const uint32_t count = place;
      place = begin;
      begin += count;
    }
    for (const KeyedId& item : from) to[next[item.key >> shift & kDigitMask]++] = item;
    std::swap(from, to);
  }
  if (from.data() != items.data()) std::copy(from.begin(), from.end(), items.begin());
}

}  // namespace ptarmigan::internal
