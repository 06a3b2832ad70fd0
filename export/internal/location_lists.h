// LocationLists: the location_id fields of samples, as bytes. Stacks come in an order in which neighbours share their
// callers, and lists begin at the leaf: so what two neighbours share is the end of both lists. The bytes are made from
// the root on, back to front, and those of the shared callers stay where they are:
//
//   ................[tag, size][leaf][...][caller][caller][root]      the stack before
//   ..........[tag, size][leaf][...][...][caller][caller][root]       this one: only what stands left of the callers is new
//                                         └──── as before ────┘
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "model/profile.h"

namespace ptarmigan::internal {

class LocationLists {
 public:
  // `numbered` are the locations with the ids 1, 2, ...; all below `locations`.
  LocationLists(std::span<const LocationId> numbered, size_t locations);

  // The whole field, tag included; empty for a stack without frames. Every frame must be numbered. Valid until the next
  // call; `frames` until the one after that.
  std::string_view Field(std::span<const LocationId> frames);

  // Asks for the memory in which `id` will be looked for.
  [[gnu::always_inline]] void Fetch(LocationId id) const { __builtin_prefetch(&numbers_[id]); }

 private:
  // An id as a varint in the highest bytes, its size in the lowest: a whole entry is stored so that it ends where the
  // varint must end; what it spoils before that is not written yet.
  using Number = uint64_t;
  static Number Encoded(uint64_t id);

  void Grow(size_t frames);

  std::vector<Number> numbers_;  // by location
  std::vector<char> bytes_;
  std::span<const LocationId> last_;
  std::vector<uint32_t> sizes_ = {0};  // [n]: bytes of the n frames of last_ at the root
};

}  // namespace ptarmigan::internal
