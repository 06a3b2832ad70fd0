#include "pipeline/internal/profile_assembly.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ptarmigan::internal {
namespace {

// What pprof calls the column of an event.
std::pair<std::string, std::string> SampleTypeOf(const EventColumn& column, bool cpu_taken) {
  if (column.is_clock && !cpu_taken) return {"cpu", "nanoseconds"};
  return {column.total.name, column.is_clock ? "nanoseconds" : "count"};
}

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
    for (size_t i = 0; i < places.size(); ++i) {
      Profile::Location location;
      location.mapping = mappings_[input_.table.places()[i].object->index];
      location.address = places[i].address;
      locations_.push_back(
          builder_.Location(location, lines.subspan(places[i].lines_begin, places[i].lines_count)));
    }
    // Different places that became one location can make different stacks equal; else stacks stay distinct.
    distinct_ = builder_.profile().locations.size() == places.size();
  }

  void AddSampleTypes() {
    builder_.SampleType("samples", "count");
    type_of_event_.assign(input_.columns.size(), 0);
    bool cpu_taken = false;
    size_t used_events = 0;
    for (size_t event = 0; event < input_.columns.size(); ++event) {
      const EventColumn& column = input_.columns[event];
      // Only events with samples get a column; the first of them is the default.
      if (column.is_dummy || column.total.samples == 0) continue;
      ++used_events;
      const auto [type, unit] = SampleTypeOf(column, cpu_taken);
      cpu_taken |= column.is_clock;
      type_of_event_[event] = builder_.SampleType(type, unit);
      SetDefaultType(type);
    }
    SetDefaultType("samples");
    // Rows differ in (stack, labels) unless several events share them.
    distinct_rows_ = used_events <= 1;
  }

  void AddRows() {
    const std::vector<LabelSetId> label_sets = AddLabelSets();
    std::vector<StackId> stacks(input_.table.stacks(), kNoId);
    std::vector<LocationId> frames;
    std::vector<int64_t> values(builder_.profile().sample_types.size());
    for (const Row& row : input_.table.rows()) {
      StackId& stack = stacks[row.stack];
      if (stack == kNoId) {
        frames.clear();
        for (const uint32_t place : input_.table.Stack(row.stack))
          frames.push_back(locations_[place]);
        stack = distinct_ ? builder_.AppendStack(frames) : builder_.Stack(frames);
      }
      std::ranges::fill(values, 0);
      values[0] = Saturated(row.samples);
      values[type_of_event_[row.event]] = Saturated(row.weight);
      const Profile::Sample sample{stack, label_sets[row.labels]};
      if (distinct_ && distinct_rows_) {
        builder_.AppendRow(sample, values);
      } else {
        builder_.Add(sample, values);
      }
    }
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
    for (size_t place = 0; place < frames_of_place.size(); ++place) {
      const SymbolMiss miss = resolver_.places()[place].miss;
      if (miss == SymbolMiss::kNone) {
        quality->frames_symbolized += frames_of_place[place];
      } else {
        quality->frames_unsymbolized[{table.places()[place].object->path,
                                      std::string(SymbolMissName(miss))}] += frames_of_place[place];
      }
    }
  }

 private:
  void SetDefaultType(const std::string& type) {
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
  std::vector<size_t> type_of_event_;
  bool distinct_ = false;
  bool distinct_rows_ = false;
};

}  // namespace

Profile AssembleProfile(const AssemblyInput& input, PlaceResolver* resolver, Quality* quality) {
  Assembly assembly(input, *resolver);
  assembly.AddMappings();
  assembly.AddLocations();
  assembly.AddSampleTypes();
  assembly.AddRows();
  assembly.CountFrames(quality);
  return resolver->builder().Finish();
}

}  // namespace ptarmigan::internal
