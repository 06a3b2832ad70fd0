// Sorting many ids by 64-bit keys: what the encoder does with a hundred thousand stacks and locations. Comparing takes
// a cache miss or a mispredicted branch at every step, counting digits neither.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ptarmigan::internal {

struct KeyedId {
  uint64_t key = 0;
  uint32_t id = 0;
};

// By key, then id. Ids of equal keys must come in ascending order. `scratch` is for the next call.
void SortKeyedIds(std::span<KeyedId> items, std::vector<KeyedId>* scratch);

}  // namespace ptarmigan::internal
