// StackTable: what the pipeline aggregates while samples arrive, before anything is symbolized: places in code,
// stacks of places, and rows (stack, labels, event) with their sums. Everything distinct is held once; nothing
// here grows with the number of samples.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "model/address_space.h"

namespace ptarmigan::internal {

// A place in code: an offset in an object's file, or a run-time address where the object has no file (kernel,
// JIT, unmapped).
struct Place {
  const CodeObject* object = nullptr;
  uint64_t position = 0;
  // Code of a JIT compiler that was replaced or moved: when it was seen; else kAnyTime.
  static constexpr uint64_t kAnyTime = UINT64_MAX;
  uint64_t time_ns = kAnyTime;
};

struct Row {
  uint32_t stack = 0;
  uint32_t labels = 0;
  uint32_t event = 0;
  uint64_t samples = 0;
  uint64_t weight = 0;  // sum of periods; saturates
};

class StackTable {
 public:
  // `variant` tells code apart that stood at one address at different times; 0 where there is only one.
  uint32_t InternPlace(const Place& place, uint64_t variant = 0);
  // Leaf first.
  uint32_t InternStack(std::span<const uint32_t> places);
  void Add(uint32_t stack, uint32_t labels, uint32_t event, uint64_t weight);

  const std::vector<Place>& places() const { return places_; }
  size_t stacks() const { return stack_begin_.size() - 1; }
  std::span<const uint32_t> Stack(uint32_t stack) const {
    return std::span(frames_).subspan(stack_begin_[stack],
                                      stack_begin_[stack + 1] - stack_begin_[stack]);
  }
  const std::vector<Row>& rows() const { return rows_; }
  // Nothing is added any more: frees what only finding equal things needed.
  void Seal();
  // What the table holds on to, roughly (vectors may have reserved up to twice that).
  size_t MemoryBytes() const;

 private:
  struct PlaceKey {
    uint32_t object;
    uint64_t position;
    uint64_t variant;
    bool operator==(const PlaceKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H state, const PlaceKey& key) {
      return H::combine(std::move(state), key.object, key.position, key.variant);
    }
  };
  struct RowKey {
    uint64_t stack_and_labels;
    uint32_t event;
    bool operator==(const RowKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H state, const RowKey& key) {
      return H::combine(std::move(state), key.stack_and_labels, key.event);
    }
  };

  std::vector<Place> places_;
  absl::flat_hash_map<PlaceKey, uint32_t> place_index_;
  std::vector<uint32_t> frames_;
  std::vector<size_t> stack_begin_ = {0};
  absl::flat_hash_map<Hash128, uint32_t, Hash128Hasher> stack_index_;
  std::vector<Row> rows_;
  absl::flat_hash_map<RowKey, uint32_t> row_index_;
};

}  // namespace ptarmigan::internal
