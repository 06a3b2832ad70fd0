// PlaceNumbers: from places in code to their numbers in a StackTable. New places go to the resolver, which names them
// while samples still arrive.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "model/address_space.h"
#include "pipeline/internal/place_resolver.h"
#include "pipeline/internal/stack_table.h"
#include "pipeline/internal/user_unwinder.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan::internal {

struct FoundPlace {
  const CodeObject* object = nullptr;
  uint64_t position = 0;  // as Place's
};

// Where `address`, which `mapping` covers, lies.
FoundPlace PlaceIn(const CodeMapping& mapping, VirtAddr address);

class PlaceNumbers {
 public:
  // All references must outlive the object. `hints` grows while samples arrive.
  PlaceNumbers(StackTable& table, PlaceResolver& resolver, Symbolizer& symbolizer,
               const ObjectHints& hints)
      : table_(table), resolver_(resolver), symbolizer_(symbolizer), hints_(hints) {}

  // From now on anonymous code of this process is told apart by the time at which it was seen: its JIT compiler says
  // when it moves or replaces code.
  void TellApartByTime(int32_t pid) { timed_pids_.insert(pid); }
  bool AreToldApartByTime(int32_t pid) const { return timed_pids_.contains(pid); }
  // How many processes are.
  size_t ToldApartByTime() const { return timed_pids_.size(); }
  // Whether places in `object` are told apart by time.
  bool DependsOnTime(const CodeObject& object) const {
    return object.kind == CodeObject::Kind::kAnonymous && AreToldApartByTime(object.pid);
  }

  // Asks for the table's memory for a place that Append will be called for.
  void Prefetch(const FoundPlace& place) const {
    table_.Prefetch({.object = place.object, .position = place.position});
  }
  // `time_ns` is the sample's, or Place::kAnyTime.
  uint32_t NumberOf(const FoundPlace& found, uint64_t time_ns);

 private:
  LoadHints HintsOf(const CodeObject& object) const;
  // What distinguishes the code at a JIT address at its time from other code there.
  uint64_t Variant(const Place& place);

  StackTable& table_;
  PlaceResolver& resolver_;
  Symbolizer& symbolizer_;
  const ObjectHints& hints_;
  std::unordered_set<int32_t> timed_pids_;
};

}  // namespace ptarmigan::internal
