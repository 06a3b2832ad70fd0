// RadixSort: sorting many small items by 64-bit keys. Comparing takes a cache miss or a mispredicted branch at every step,
// counting digits neither.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ptarmigan {

// By key_of(item), items of equal keys as they stood. `scratch` is for the next call.
template <typename Item, typename KeyOf>
void RadixSort(std::span<Item> items, const KeyOf& key_of, std::vector<Item>* scratch) {
  constexpr size_t kCountingMin = 512;
  if (items.size() < kCountingMin) {
    std::stable_sort(items.begin(), items.end(),
                     [&key_of](const Item& a, const Item& b) { return key_of(a) < key_of(b); });
    return;
  }
  uint64_t differing = 0;
  for (const Item& item : items) differing |= key_of(item) ^ key_of(items[0]);
  if (scratch->size() < items.size()) scratch->resize(items.size());
  std::span<Item> from = items;
  std::span<Item> to = std::span(*scratch).first(items.size());
  constexpr unsigned kDigitBits = 11;
  constexpr uint64_t kDigitMask = (uint64_t{1} << kDigitBits) - 1;
  for (unsigned shift = 0; shift < 64; shift += kDigitBits) {
    if ((differing >> shift & kDigitMask) == 0) continue;
    std::array<uint32_t, size_t{1} << kDigitBits> next = {};
    for (const Item& item : from) ++next[key_of(item) >> shift & kDigitMask];
    uint32_t begin = 0;
    for (uint32_t& place : next) {
      const uint32_t count = place;
      place = begin;
      begin += count;
    }
    for (const Item& item : from) to[next[key_of(item) >> shift & kDigitMask]++] = item;
    std::swap(from, to);
  }
  if (from.data() != items.data()) std::copy(from.begin(), from.end(), items.begin());
}

}  // namespace ptarmigan
