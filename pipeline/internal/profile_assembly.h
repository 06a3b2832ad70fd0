// The last step of the pipeline: places, stacks and rows become a Profile with names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/address_space.h"
#include "model/profile_builder.h"
#include "model/recording.h"
#include "pipeline/internal/stack_table.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan::internal {

// How the values of one perf event enter the profile.
struct EventColumn {
  bool is_clock = false;  // weights are nanoseconds
  bool is_dummy = false;
  EventTotal total;
};

// Where an object was seen mapped, for finding its file while the process lives.
using ObjectHints = std::vector<LoadHints>;  // by CodeObject::index

class ProfileAssembly {
 public:
  ProfileAssembly(const StackTable& table, Symbolizer& symbolizer, const ObjectHints& hints)
      : table_(table), symbolizer_(symbolizer), hints_(hints) {}

  // Adds sample types, locations, stacks and rows to `builder`, which holds the label sets already. Fills
  // `quality`'s frame counts.
  void Fill(std::span<const EventColumn> columns, ProfileBuilder* builder, Quality* quality);

 private:
  struct ObjectState {
    ObjectSymbols* symbols = nullptr;
    Profile::Mapping mapping;
    MappingId id = kNoId;
    uint64_t address_delta = 0;  // Location::address - file offset, where the ELF file is unknown
    bool used = false;
  };

  // What became of a place.
  struct Named {
    uint64_t address = 0;  // as Location::address
    uint32_t lines_begin = 0;
    uint32_t lines_count = 0;
    SymbolMiss miss = SymbolMiss::kNone;
  };

  void CollectObjects();
  void LoadObjects();
  void DescribeMapping(const CodeObject& object, ObjectState* state);
  void Symbolize(const Place& place, ProfileBuilder* builder, Named* named);
  void AddLines(const InlineStack& frames, ProfileBuilder* builder, Named* named);
  void AddMappings(ProfileBuilder* builder);
  void AddLocations(ProfileBuilder* builder);
  void AddRows(std::span<const EventColumn> columns, ProfileBuilder* builder);
  void CountFrames(Quality* quality) const;
  LoadHints HintsFor(const CodeObject& object) const;

  const StackTable& table_;
  Symbolizer& symbolizer_;
  const ObjectHints& hints_;
  std::vector<const CodeObject*> objects_;  // used ones, in order of first use
  std::vector<ObjectState> states_;         // by CodeObject::index
  std::vector<Named> named_;                // by place
  std::vector<Profile::Line> lines_;        // of all places
  std::vector<LocationId> locations_;       // by place
  InlineStack frames_;                      // scratch
};

}  // namespace ptarmigan::internal
