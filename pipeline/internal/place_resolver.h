// PlaceResolver: names places while samples still arrive. Places are handed over in batches as they appear first; a
// thread of its own finds each object's file and symbols (loading many objects at once) and resolves the addresses, so
// that at the end of a recording nearly everything has its name already.
//
//   pipeline thread                     resolver thread
//   Add(place, hints) ... (batch full)──▶ Prefetch objects, ToVaddr, Resolve ──▶ lines, mappings
//   Finish() ───────────── joins ───────▶ results may be read
//
// Opening an object soon after its first sample also means that a live process's file is opened while the process
// still has it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model/address_space.h"
#include "model/profile_builder.h"
#include "pipeline/internal/batch_worker.h"
#include "pipeline/internal/stack_table.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan::internal {

// What became of a place.
struct NamedPlace {
  uint64_t address = 0;      // as Profile::Location::address
  uint32_t lines_begin = 0;  // into lines()
  uint32_t lines_count = 0;
  SymbolMiss miss = SymbolMiss::kNone;
};

// An object that some place lies in, described as a mapping of the profile.
struct NamedObject {
  const CodeObject* object = nullptr;  // null: not used
  LoadHints hints;
  ObjectSymbols* symbols = nullptr;
  Profile::Mapping mapping;  // file and build_id are not set here
  uint64_t address_delta =
      0;  // address - file offset, where a place lies outside the file's segments
  bool has_segments = false;  // start, limit and offset are those of the ELF file
  uint64_t position_min = UINT64_MAX;
  uint64_t position_max = 0;
};

class PlaceResolver {
 public:
  static constexpr size_t kBatchPlaces = 1024;
  // Batches that wait; Add blocks beyond.
  static constexpr size_t kBatchesMax = 256;
  // What symbol tables may keep; looked at once in so many places, which at worst need 64 KiB each.
  static constexpr size_t kTrimPlaces = 256;
  static constexpr size_t kSymbolBytesMax = size_t{24} << 20;

  // With `in_background` false everything happens in Finish: for sources that bring build ids at their end.
  PlaceResolver(Symbolizer& symbolizer, bool in_background);
  PlaceResolver(const PlaceResolver&) = delete;
  PlaceResolver& operator=(const PlaceResolver&) = delete;

  // Each place once. Anonymous code waits for Finish: JIT compilers add to their maps as long as they run.
  void Add(uint32_t index, const Place& place, const LoadHints& hints);
  // Resolves the rest and ends the thread. The results below are valid from then on.
  void Finish();

  const std::vector<NamedPlace>& places() const { return named_; }      // by index
  const std::vector<NamedObject>& objects() const { return objects_; }  // by CodeObject::index
  // In order of first use.
  const std::vector<uint32_t>& object_order() const { return object_order_; }
  const std::vector<Profile::Line>& lines() const { return lines_; }
  // Holds the functions and strings that lines() refer to.
  ProfileBuilder& builder() { return builder_; }

 private:
  struct Request {
    uint32_t index = 0;
    Place place;
    LoadHints hints;
  };
  using Batch = std::vector<Request>;

  void Resolve(const Batch& batch);
  void LoadNewObjects(const Batch& batch);
  void DescribeMapping(NamedObject* object);
  void ResolvePlace(const Place& place, NamedPlace* named);
  void AddLines(NamedPlace* named);
  FunctionId FunctionOf(const SourceFrame& frame);
  // The same for a frame of stack_.
  FunctionId FunctionOf(const FrameNumbers& numbers);

  Symbolizer& symbolizer_;
  const bool in_background_;
  Batch filling_;
  Batch anonymous_;

  // Owned by the resolver thread until Finish has joined it.
  std::vector<NamedPlace> named_;
  std::vector<NamedObject> objects_;
  std::vector<uint32_t> object_order_;
  std::vector<Profile::Line> lines_;
  ProfileBuilder builder_;
  std::vector<std::pair<uint64_t, const Request*>> order_;  // by object and position
  NumberedStack stack_;
  // Functions of the profile by their numbers in a table (high half) and the file of the line (low half).
  using KnownFunctions = absl::flat_hash_map<uint64_t, FunctionId>;
  absl::flat_hash_map<const FrameNames*, std::unique_ptr<KnownFunctions>> known_functions_;
  // Where the last frame was found: the next one is often of the same function.
  const FrameNames* last_names_ = nullptr;
  KnownFunctions* last_functions_ = nullptr;
  uint64_t last_key_ = 0;
  FunctionId last_function_ = 0;
  SourceFrame texts_;
  BatchWorker<Batch> worker_;
};

}  // namespace ptarmigan::internal
