#include "pipeline/internal/profile_assembly.h"

#include <elf.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ptarmigan::internal {
namespace {

bool HasRuntimePositions(const CodeObject& object) {
  return object.kind != CodeObject::Kind::kFile && object.kind != CodeObject::Kind::kVdso;
}

bool IsKernelSide(const CodeObject& object) {
  return object.kind == CodeObject::Kind::kKernel ||
         object.kind == CodeObject::Kind::kKernelModule || object.kind == CodeObject::Kind::kBpf;
}

// What pprof calls the column of an event.
std::pair<std::string, std::string> SampleTypeOf(const EventColumn& column, bool cpu_taken) {
  if (column.is_clock && !cpu_taken) return {"cpu", "nanoseconds"};
  return {column.total.name, column.is_clock ? "nanoseconds" : "count"};
}

}  // namespace

void ProfileAssembly::CollectObjects() {
  for (const Place& place : table_.places()) {
    const size_t index = place.object->index;
    if (index >= states_.size()) states_.resize(index + 1);
    ObjectState& state = states_[index];
    if (!state.used) objects_.push_back(place.object);
    state.used = true;
    // Run-time positions span the mapping; file offsets grow it below.
    state.mapping.limit = std::max(state.mapping.limit, VirtAddr{place.position + 1});
    if (state.mapping.start.value == 0 || place.position < state.mapping.start.value) {
      state.mapping.start = {place.position};
    }
  }
}

void ProfileAssembly::DescribeMapping(const CodeObject& object, ObjectState* state) {
  Profile::Mapping& mapping = state->mapping;
  if (HasRuntimePositions(object)) {
    if (object.kind != CodeObject::Kind::kUnknown) {
      mapping.start = std::min(mapping.start, object.first_start);
      mapping.offset = IsKernelSide(object) ? FileOffset{mapping.start.value} : object.first_offset;
    }
    return;
  }
  if (state->symbols != nullptr && !state->symbols->file().empty()) {
    if (const auto elf = symbolizer_.OpenObject(object, HintsFor(object))) {
      bool first = true;
      for (const ElfSegment& segment : elf->segments()) {
        if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
        if (first) {
          mapping.start = {segment.vaddr.value};
          mapping.offset = segment.offset;
          mapping.limit = mapping.start;
          state->address_delta = segment.vaddr.value - segment.offset.value;
        }
        mapping.limit =
            std::max(mapping.limit, VirtAddr{segment.vaddr.value + segment.memory_bytes});
        first = false;
      }
      if (!first) return;
    }
  }
  // Without the file: as the first mapping had it. For an executable at fixed addresses these are its own.
  const uint64_t delta = object.first_start.value - object.first_offset.value;
  const uint64_t last_offset = mapping.limit.value;
  mapping.start = object.first_start;
  mapping.offset = object.first_offset;
  mapping.limit = {std::max(last_offset + delta, mapping.start.value)};
  state->address_delta = delta;
}

void ProfileAssembly::Symbolize(const Place& place, ProfileBuilder* builder, Named* named) {
  const CodeObject& object = *place.object;
  ObjectState& state = states_[object.index];
  const ObjectSymbols& symbols = *state.symbols;
  bool found = false;
  if (HasRuntimePositions(object)) {
    named->address = place.position;
    found =
        symbols.by_runtime_address()
            ? symbolizer_.ResolveRuntime(symbols, {place.position}, UINT64_MAX, &frames_)
            : symbolizer_.Resolve(symbols, {place.position - object.first_start.value}, &frames_);
  } else {
    named->address = place.position + state.address_delta;
    if (const auto vaddr = symbolizer_.ToVaddr(symbols, {place.position})) {
      named->address = vaddr->value;
      found = symbolizer_.Resolve(symbols, *vaddr, &frames_);
    }
  }
  if (found) {
    AddLines(frames_, builder, named);
    Profile::Mapping& mapping = state.mapping;
    mapping.has_functions = mapping.has_filenames = true;
    mapping.has_line_numbers = mapping.has_inline_frames = true;
  } else {
    named->miss = object.kind == CodeObject::Kind::kUnknown ? SymbolMiss::kNoMapping
                                                            : Symbolizer::MissOf(symbols);
  }
}

void ProfileAssembly::AddLines(const InlineStack& frames, ProfileBuilder* builder, Named* named) {
  named->lines_begin = static_cast<uint32_t>(lines_.size());
  named->lines_count = static_cast<uint32_t>(frames.size());
  for (const SourceFrame& frame : frames) {
    const std::string& system_name = frame.system_name.empty() ? frame.function : frame.system_name;
    const FunctionId function = builder->Function({.name = builder->String(frame.function),
                                                   .system_name = builder->String(system_name),
                                                   .file = builder->String(frame.file),
                                                   .start_line = frame.start_line});
    lines_.push_back({.function = function, .line = frame.line, .column = frame.column});
  }
}

void ProfileAssembly::AddMappings(ProfileBuilder* builder) {
  for (const CodeObject* object : objects_) {
    ObjectState& state = states_[object->index];
    state.mapping.file = builder->String(object->path);
    const BuildId& build_id =
        object->build_id.empty() ? state.symbols->build_id() : object->build_id;
    state.mapping.build_id = builder->String(build_id.ToHex());
    state.id = builder->Mapping(state.mapping);
  }
}

void ProfileAssembly::AddLocations(ProfileBuilder* builder) {
  locations_.reserve(named_.size());
  for (size_t i = 0; i < named_.size(); ++i) {
    Profile::Location location;
    location.mapping = states_[table_.places()[i].object->index].id;
    location.address = named_[i].address;
    const auto lines = std::span(lines_).subspan(named_[i].lines_begin, named_[i].lines_count);
    locations_.push_back(builder->Location(location, lines));
  }
}

void ProfileAssembly::AddRows(std::span<const EventColumn> columns, ProfileBuilder* builder) {
  builder->SampleType("samples", "count");
  // Only events with samples get a column; the first of them is the default.
  std::vector<size_t> type_of_event(columns.size(), 0);
  bool cpu_taken = false;
  for (size_t event = 0; event < columns.size(); ++event) {
    const EventColumn& column = columns[event];
    if (column.is_dummy || column.total.samples == 0) continue;
    const auto [type, unit] = SampleTypeOf(column, cpu_taken);
    cpu_taken |= column.is_clock;
    type_of_event[event] = builder->SampleType(type, unit);
    if (builder->profile().default_sample_type == 0) {
      builder->profile().default_sample_type = builder->String(type);
    }
  }
  if (builder->profile().default_sample_type == 0) {
    builder->profile().default_sample_type = builder->String("samples");
  }

  std::vector<StackId> stacks(table_.stacks(), kNoId);
  std::vector<LocationId> frames;
  std::vector<int64_t> values(builder->profile().sample_types.size());
  const auto saturated = [](uint64_t value) {
    return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
  };
  for (const Row& row : table_.rows()) {
    if (stacks[row.stack] == kNoId) {
      frames.clear();
      for (const uint32_t place : table_.Stack(row.stack)) frames.push_back(locations_[place]);
      stacks[row.stack] = builder->Stack(frames);
    }
    std::ranges::fill(values, 0);
    values[0] = saturated(row.samples);
    values[type_of_event[row.event]] = saturated(row.weight);
    builder->Add({stacks[row.stack], row.labels}, values);
  }
}

void ProfileAssembly::CountFrames(Quality* quality) const {
  std::vector<uint64_t> samples_of_stack(table_.stacks(), 0);
  for (const Row& row : table_.rows()) samples_of_stack[row.stack] += row.samples;
  std::vector<uint64_t> frames_of_place(table_.places().size(), 0);
  for (uint32_t stack = 0; stack < samples_of_stack.size(); ++stack) {
    for (const uint32_t place : table_.Stack(stack))
      frames_of_place[place] += samples_of_stack[stack];
  }
  for (size_t place = 0; place < frames_of_place.size(); ++place) {
    if (named_[place].miss == SymbolMiss::kNone) {
      quality->frames_symbolized += frames_of_place[place];
    } else {
      quality->frames_unsymbolized[{table_.places()[place].object->path,
                                    std::string(SymbolMissName(named_[place].miss))}] +=
          frames_of_place[place];
    }
  }
}

LoadHints ProfileAssembly::HintsFor(const CodeObject& object) const {
  return object.index < hints_.size() ? hints_[object.index] : LoadHints{};
}

void ProfileAssembly::LoadObjects() {
  std::vector<Symbolizer::Request> requests;
  requests.reserve(objects_.size());
  for (const CodeObject* object : objects_) requests.push_back({object, HintsFor(*object)});
  symbolizer_.Prefetch(requests);
  for (const Symbolizer::Request& request : requests) {
    ObjectState& state = states_[request.object->index];
    state.symbols = symbolizer_.Load(*request.object, request.hints);
    DescribeMapping(*request.object, &state);
  }
}

void ProfileAssembly::Fill(std::span<const EventColumn> columns, ProfileBuilder* builder,
                           Quality* quality) {
  CollectObjects();
  LoadObjects();
  named_.resize(table_.places().size());
  for (size_t i = 0; i < named_.size(); ++i) Symbolize(table_.places()[i], builder, &named_[i]);
  AddMappings(builder);
  AddLocations(builder);
  AddRows(columns, builder);
  CountFrames(quality);
}

}  // namespace ptarmigan::internal
