// CodeNames: for tables that print one row per record, the names of where an instruction lies: the object's path as
// recorded and the function that stands in it (not what was inlined into it). Follows the mappings as events come.
//
// Names are looked up once per place; what is remembered is bounded. One thread.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "model/address_space.h"
#include "model/event_source.h"
#include "model/recording.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan::internal {

class CodeNames : public EventSink {
 public:
  static constexpr size_t kPlacesMax = size_t{1} << 20;

  struct Names {
    std::string_view binary;    // "[kernel]" for the kernel; empty where nothing is mapped
    std::string_view function;  // demangled; empty if not known
  };

  CodeNames(const RecordingDescription& description, const SymbolizerOptions& options);

  // Of `address` as a task saw it in `mode`, at its time if it has one. Valid until the next call.
  Names Find(const RecordIdentity& task, VirtAddr address, CpuMode mode);

  void OnMmap(const MmapEvent& event) override { processes_.Apply(event); }
  void OnComm(const CommEvent& event) override { processes_.Apply(event); }
  void OnFork(const TaskEvent& event) override { processes_.ApplyFork(event); }
  void OnExit(const TaskEvent& event) override { processes_.ApplyExit(event); }
  void OnKsymbol(const KsymbolEvent& event) override { processes_.Apply(event); }
  void OnBuildId(const BuildIdEvent& event) override;

 private:
  struct Place {
    const CodeObject* object = nullptr;
    uint64_t position = 0;  // file offset, or address where the object has no file
    bool operator==(const Place&) const = default;
    template <typename H>
    friend H AbslHashValue(H state, const Place& place) {
      return H::combine(std::move(state), place.object, place.position);
    }
  };

  std::string FunctionAt(const CodeMapping& mapping, int32_t pid, VirtAddr address,
                         uint64_t time_ns);

  // The symbolizer must not outlive the objects of the table.
  ProcessTable processes_;
  Symbolizer symbolizer_;
  absl::flat_hash_map<Place, std::string> functions_;
};

}  // namespace ptarmigan::internal
