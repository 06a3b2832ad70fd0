#include "pipeline/internal/profile_assembly.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/compact_index.h"
#include "pipeline/internal/branch_assembly.h"

namespace ptarmigan::internal {
namespace {

// Places between asking for memory and reading it.
constexpr size_t kAhead = 8;

// What pprof calls the column of an event.
std::pair<std::string, std::string> SampleTypeOf(const EventColumn& column, bool cpu_taken) {
  if (column.is_clock && !cpu_taken) return {"cpu", "nanoseconds"};
  return {column.type, column.is_clock ? "nanoseconds" : "count"};
}

// By MemLatency.
constexpr std::string_view kLatencyTypes[kMemLatencies] = {
    "latency", "issue_latency", "translation_latency", "instruction_latency"};

int64_t Saturated(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

class Assembly {
 public:
  Assembly(const AssemblyInput& input, PlaceResolver& resolver)
      : input_(input), resolver_(resolver), builder_(resolver.builder()) {}

  void AddMappings() {
    mappings_.assign(resolver_.objects().size(), kNoId);
    for (const uint32_t index : resolver_.object_order()) {
      const NamedObject& named = resolver_.objects()[index];
      Profile::Mapping mapping = named.mapping;
      mapping.file = builder_.String(named.object->path);
      const BuildId& build_id =
          named.object->build_id.empty() ? named.symbols->build_id() : named.object->build_id;
      mapping.build_id = builder_.String(build_id.ToHex());
      mappings_[index] = builder_.Mapping(mapping);
    }
  }

  void AddLocations() {
    const std::vector<NamedPlace>& places = resolver_.places();
    const std::span lines(resolver_.lines());
    locations_.reserve(places.size());
    builder_.profile().locations.reserve(places.size());
    builder_.profile().lines.reserve(lines.size());
    // Two places can be one address (an object that was recorded under two names). An address of JIT code can hold
    // different code by turns.
    CompactIndex by_address;
    by_address.Reserve(places.size());
    const auto key_of = [&](size_t i) {
      return CompactIndex::Key{places[i].address,
                               mappings_[input_.table.places()[i].object->index]};
    };
    for (size_t i = 0; i < places.size(); ++i) {
      if (i + kAhead < places.size()) by_address.Prefetch(key_of(i + kAhead));
      const CodeObject& object = *input_.table.places()[i].object;
      const auto lines_of_it = lines.subspan(places[i].lines_begin, places[i].lines_count);
      Profile::Location location;
      location.mapping = mappings_[object.index];
      location.address = places[i].address;
      if (object.kind == CodeObject::Kind::kAnonymous) {
        locations_.push_back(builder_.Location(location, lines_of_it));
        continue;
      }
      const auto next = static_cast<LocationId>(builder_.profile().locations.size());
      const LocationId id = by_address.FindOrInsert(key_of(i), next);
      if (id == next) builder_.AppendLocation(location, lines_of_it);
      locations_.push_back(id);
    }
    // Different places that became one location can make different stacks equal; else stacks stay distinct.
    distinct_ = builder_.profile().locations.size() == places.size();
  }

  void SummariseBranchTable() {
    if (input_.branches.traces().empty()) return;
    branches_ = SummariseBranches(input_.branches, locations_, &input_.branch_code);
  }

  void AddSampleTypes() {
    builder_.SampleType("samples", "count");
    for (size_t i = 0; i < kMemLatencies; ++i) {
      if ((input_.memory.latencies() >> i & 1) == 0) continue;
      type_of_latency_[i] = builder_.SampleType(kLatencyTypes[i], "cycles");
      SetDefaultType(kLatencyTypes[i]);
    }
    type_of_event_.assign(input_.columns.size(), kNoType);
    bool cpu_taken = false;
    size_t used_events = 0;
    for (size_t event = 0; event < input_.columns.size(); ++event) {
      const EventColumn& column = input_.columns[event];
      // Only events with samples get a column; the first of them is the default.
      if (column.is_dummy || column.total.samples == 0) continue;
      ++used_events;
      if (!column.has_weight) continue;
      const auto [type, unit] = SampleTypeOf(column, cpu_taken);
      cpu_taken |= column.is_clock;
      type_of_event_[event] = builder_.SampleType(type, unit);
      SetDefaultType(type);
    }
    SetDefaultType("samples");
    if (!branches_.edges.empty()) branch_columns_ = AddBranchColumns(&builder_);
    if (!input_.traces.stacks().empty()) {
      trace_columns_ = AddTraceColumns(input_.traces, &builder_);
      if (used_events == 0)
        builder_.profile().default_sample_type = builder_.String("instructions");
    }
    // Rows differ in (stack, labels) unless several events share them.
    distinct_rows_ = used_events <= 1;
  }

  void AddStacks() {
    StackTable& table = input_.table;
    stacks_.reserve(table.stacks());
    if (distinct_) {
      // A place's number is its location's, so that the frames can be handed over as they are.
      std::vector<Profile::Range> ranges;
      ranges.reserve(table.stacks());
      uint32_t begin = 0;
      for (uint32_t stack = 0; stack < table.stacks(); ++stack) {
        const auto count = static_cast<uint32_t>(table.Stack(stack).size());
        ranges.push_back({begin, count});
        begin += count;
        stacks_.push_back(stack);
      }
      builder_.AppendStacks(table.TakeFrames(), std::move(ranges));
      return;
    }
    std::vector<LocationId> frames;
    for (uint32_t stack = 0; stack < table.stacks(); ++stack) {
      frames.clear();
      for (const uint32_t place : table.Stack(stack)) frames.push_back(locations_[place]);
      stacks_.push_back(builder_.Stack(frames));
    }
  }

  void AddRows() {
    label_sets_ = AddLabelSets();
    std::vector<int64_t> values(builder_.profile().sample_types.size());
    builder_.profile().samples.reserve(input_.table.rows().size());
    builder_.profile().values.reserve(input_.table.rows().size() * values.size());
    for (uint32_t index = 0; index < input_.table.rows().size(); ++index) {
      const Row& row = input_.table.rows()[index];
      std::ranges::fill(values, 0);
      values[0] = Saturated(row.samples);
      if (type_of_event_[row.event] != kNoType) {
        values[type_of_event_[row.event]] = Saturated(row.weight);
      }
      AddLatencies(index, values);
      const Profile::Sample sample{stacks_[row.stack], label_sets_[row.labels]};
      if (distinct_ && distinct_rows_) {
        builder_.AppendRow(sample, values);
      } else {
        builder_.Add(sample, values);
      }
    }
  }

  void AddBranches() {
    AddBranchRows(branches_, branch_columns_, &builder_);
    builder_.profile().summary.branches = std::move(branches_);
  }

  void AddTraceResults() {
    if (input_.traces.empty()) return;
    if (!input_.traces.stacks().empty()) {
      AddTraceRows(input_.traces, locations_, label_sets_, trace_columns_, &builder_);
    }
    AddTraces(input_.traces, locations_, &builder_.profile());
  }

  void CountFrames(Quality* quality) const {
    const StackTable& table = input_.table;
    std::vector<uint64_t> samples_of_stack(table.stacks(), 0);
    for (const Row& row : table.rows()) samples_of_stack[row.stack] += row.samples;
    std::vector<uint64_t> frames_of_place(table.places().size(), 0);
    for (uint32_t stack = 0; stack < samples_of_stack.size(); ++stack) {
      for (const uint32_t place : table.Stack(stack))
        frames_of_place[place] += samples_of_stack[stack];
    }
    std::map<std::pair<const CodeObject*, SymbolMiss>, uint64_t> unsymbolized;
    std::pair<const CodeObject*, SymbolMiss> last;
    uint64_t* frames_of_last = nullptr;
    for (size_t place = 0; place < frames_of_place.size(); ++place) {
      if (frames_of_place[place] == 0) continue;  // only branch records name it
      const SymbolMiss miss = resolver_.places()[place].miss;
      if (miss == SymbolMiss::kNone) {
        quality->frames_symbolized += frames_of_place[place];
        continue;
      }
      const std::pair key(table.places()[place].object, miss);
      if (frames_of_last == nullptr || key != last) frames_of_last = &unsymbolized[key];
      last = key;
      *frames_of_last += frames_of_place[place];
    }
    for (const auto& [key, frames] : unsymbolized) {
      quality->frames_unsymbolized[{key.first->path, std::string(SymbolMissName(key.second))}] +=
          frames;
    }
  }

  void AddMemorySummary() {
    if (input_.memory.empty() || !input_.memory.keeps_details()) return;
    builder_.profile().summary.memory = input_.memory.Finish(locations_);
  }

 private:
  static constexpr size_t kNoType = SIZE_MAX;

  void AddLatencies(uint32_t row, std::span<int64_t> values) const {
    if (input_.memory.latencies() == 0) return;
    const MemoryTable::Sums sums = input_.memory.SumsOf(row);
    for (size_t i = 0; i < kMemLatencies; ++i) {
      if (type_of_latency_[i] != kNoType) values[type_of_latency_[i]] = Saturated(sums[i]);
    }
  }

  void SetDefaultType(std::string_view type) {
    StringId& default_type = builder_.profile().default_sample_type;
    if (default_type == 0) default_type = builder_.String(type);
  }

  std::vector<LabelSetId> AddLabelSets() {
    std::vector<LabelSetId> ids;
    std::vector<Profile::Label> labels;
    const Profile& from = input_.labels;
    for (LabelSetId set = 0; set < from.label_sets.size(); ++set) {
      labels.clear();
      for (Profile::Label label : from.Labels(set)) {
        label.key = builder_.String(from.Text(label.key));
        label.text = builder_.String(from.Text(label.text));
        label.number_unit = builder_.String(from.Text(label.number_unit));
        labels.push_back(label);
      }
      ids.push_back(builder_.LabelSet(labels));
    }
    return ids;
  }

  const AssemblyInput& input_;
  PlaceResolver& resolver_;
  ProfileBuilder& builder_;
  std::vector<MappingId> mappings_;    // by CodeObject::index
  std::vector<LocationId> locations_;  // by place
  std::vector<StackId> stacks_;        // by stack of the table
  std::vector<size_t> type_of_event_;
  std::array<size_t, kMemLatencies> type_of_latency_ = {kNoType, kNoType, kNoType, kNoType};
  BranchSummary branches_;
  BranchColumns branch_columns_;
  TraceColumns trace_columns_;
  std::vector<LabelSetId> label_sets_;  // by the ids of the samples' labels
  bool distinct_ = false;
  bool distinct_rows_ = false;
};

}  // namespace

Profile AssembleProfile(const AssemblyInput& input, PlaceResolver* resolver, Quality* quality) {
  Assembly assembly(input, *resolver);
  assembly.AddMappings();
  assembly.AddLocations();
  assembly.SummariseBranchTable();
  assembly.AddSampleTypes();
  assembly.CountFrames(quality);
  assembly.AddStacks();
  assembly.AddRows();
  assembly.AddMemorySummary();
  assembly.AddBranches();
  assembly.AddTraceResults();
  return resolver->builder().Finish();
}

}  // namespace ptarmigan::internal
