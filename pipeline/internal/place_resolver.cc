#include "pipeline/internal/place_resolver.h"

#include <elf.h>

#include <algorithm>
#include <utility>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {
namespace {

bool HasRuntimePositions(const CodeObject& object) { return !HasFilePositions(object); }

bool IsKernelSide(const CodeObject& object) {
  return object.kind == CodeObject::Kind::kKernel ||
         object.kind == CodeObject::Kind::kKernelModule || object.kind == CodeObject::Kind::kBpf;
}

}  // namespace

PlaceResolver::PlaceResolver(Symbolizer& symbolizer, bool in_background)
    : symbolizer_(symbolizer),
      in_background_(in_background),
      worker_(kBatchesMax, [this](Batch& batch) { Resolve(batch); }) {}

void PlaceResolver::Add(uint32_t index, const Place& place, const LoadHints& hints) {
  Batch& batch = place.object->kind == CodeObject::Kind::kAnonymous ? anonymous_ : filling_;
  batch.push_back({index, place, hints});
  if (!in_background_ || filling_.size() < kBatchPlaces) return;
  worker_.Give(&filling_);
  filling_.clear();
  filling_.reserve(kBatchPlaces);
}

void PlaceResolver::Finish() {
  worker_.Finish();
  Resolve(filling_);
  Resolve(anonymous_);
  filling_ = Batch();
  anonymous_ = Batch();
  for (const uint32_t index : object_order_) DescribeMapping(&objects_[index]);
}

void PlaceResolver::Resolve(const Batch& batch) {
  LoadNewObjects(batch);
  // In order of address, so that what is near each other in tables is asked one after another. The order only serves
  // speed: bits of an address that do not fit are left out.
  constexpr unsigned kPositionBits = 44;
  order_.clear();
  size_t places = named_.size();
  for (const Request& request : batch) {
    const uint64_t position = request.place.position & ((uint64_t{1} << kPositionBits) - 1);
    order_.emplace_back(uint64_t{request.place.object->index} << kPositionBits | position,
                        &request);
    places = std::max(places, size_t{request.index} + 1);
  }
  std::ranges::sort(order_, {}, [](const auto& one) { return one.first; });
  named_.resize(places);
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i % kTrimPlaces == 0) symbolizer_.TrimMemory(kSymbolBytesMax);
    const Request& request = *order_[i].second;
    ResolvePlace(request.place, &named_[request.index]);
  }
}

void PlaceResolver::LoadNewObjects(const Batch& batch) {
  std::vector<Symbolizer::Request> requests;
  for (const Request& request : batch) {
    const CodeObject& object = *request.place.object;
    if (object.index >= objects_.size()) objects_.resize(object.index + 1);
    NamedObject& named = objects_[object.index];
    if (named.object != nullptr) continue;
    named.object = &object;
    named.hints = request.hints;
    object_order_.push_back(object.index);
    requests.push_back({&object, request.hints});
  }
  symbolizer_.Prefetch(requests);
  for (const Symbolizer::Request& request : requests) {
    NamedObject& named = objects_[request.object->index];
    named.symbols = symbolizer_.Load(*request.object, request.hints);
    if (HasRuntimePositions(*request.object) || named.symbols->file().empty()) continue;
    const auto elf = symbolizer_.OpenObject(*request.object, request.hints);
    if (elf == nullptr) continue;
    for (const ElfSegment& segment : elf->segments()) {
      if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
      Profile::Mapping& mapping = named.mapping;
      if (!named.has_segments) {
        named.has_segments = true;
        named.address_delta = segment.vaddr.value - segment.offset.value;
        mapping.start = {segment.vaddr.value};
        mapping.offset = segment.offset;
      }
      mapping.limit = std::max(mapping.limit, VirtAddr{segment.vaddr.value + segment.memory_bytes});
    }
  }
}

void PlaceResolver::ResolvePlace(const Place& place, NamedPlace* named) {
  const CodeObject& object = *place.object;
  NamedObject& named_object = objects_[object.index];
  named_object.position_min = std::min(named_object.position_min, place.position);
  named_object.position_max = std::max(named_object.position_max, place.position);
  const ObjectSymbols& symbols = *named_object.symbols;
  bool found = false;
  if (HasRuntimePositions(object)) {
    named->address = place.position;
    found =
        symbols.by_runtime_address()
            ? symbolizer_.ResolveRuntime(symbols, {place.position}, place.time_ns, &stack_)
            : symbolizer_.Resolve(symbols, {place.position - object.first_start.value}, &stack_);
  } else if (const auto vaddr = symbolizer_.ToVaddr(symbols, {place.position})) {
    named->address = vaddr->value;
    found = symbolizer_.Resolve(symbols, *vaddr, &stack_);
  } else {
    // Without the file: as the first mapping had it. For an executable at fixed addresses these are its own.
    if (!named_object.has_segments) {
      named_object.address_delta = object.first_start.value - object.first_offset.value;
    }
    named->address = place.position + named_object.address_delta;
  }
  if (!found) {
    named->miss = object.kind == CodeObject::Kind::kUnknown ? SymbolMiss::kNoMapping
                                                            : Symbolizer::MissOf(symbols);
    return;
  }
  AddLines(named);
  Profile::Mapping& mapping = named_object.mapping;
  mapping.has_functions = mapping.has_filenames = true;
  mapping.has_line_numbers = mapping.has_inline_frames = true;
}

FunctionId PlaceResolver::FunctionOf(const SourceFrame& frame) {
  const std::string& system_name = frame.system_name.empty() ? frame.function : frame.system_name;
  return builder_.Function({.name = builder_.String(frame.function),
                            .system_name = builder_.String(system_name),
                            .file = builder_.String(frame.file),
                            .start_line = frame.start_line});
}

FunctionId PlaceResolver::FunctionOf(const FrameNumbers& numbers) {
  const uint64_t key = uint64_t{numbers.function} << 32 | numbers.file;
  if (stack_.names != last_names_) {
    std::unique_ptr<KnownFunctions>& functions = known_functions_[stack_.names];
    if (functions == nullptr) functions = std::make_unique<KnownFunctions>();
    last_names_ = stack_.names;
    last_functions_ = functions.get();
  } else if (key == last_key_) {
    return last_function_;
  }
  const auto [known, is_new] = last_functions_->try_emplace(key, FunctionId{0});
  if (is_new) {
    symbolizer_.Describe(*stack_.names, numbers, &texts_);
    known->second = FunctionOf(texts_);
  }
  last_key_ = key;
  last_function_ = known->second;
  return last_function_;
}

void PlaceResolver::AddLines(NamedPlace* named) {
  named->lines_begin = static_cast<uint32_t>(lines_.size());
  for (const FrameNumbers& frame : stack_.frames) {
    lines_.push_back({.function = FunctionOf(frame), .line = frame.line, .column = frame.column});
  }
  for (const SourceFrame& frame : stack_.texts) {
    lines_.push_back({.function = FunctionOf(frame), .line = frame.line, .column = frame.column});
  }
  named->lines_count = static_cast<uint32_t>(lines_.size()) - named->lines_begin;
}

void PlaceResolver::DescribeMapping(NamedObject* named) {
  const CodeObject& object = *named->object;
  Profile::Mapping& mapping = named->mapping;
  if (named->has_segments) return;
  if (!HasRuntimePositions(object)) {
    mapping.start = object.first_start;
    mapping.offset = object.first_offset;
    mapping.limit = {std::max(named->position_max + 1 + named->address_delta, mapping.start.value)};
    return;
  }
  mapping.start = {named->position_min};
  mapping.limit = {SaturatingAdd(named->position_max, 1)};
  if (object.kind == CodeObject::Kind::kUnknown) return;
  mapping.start = std::min(mapping.start, object.first_start);
  mapping.offset = IsKernelSide(object) ? FileOffset{mapping.start.value} : object.first_offset;
}

}  // namespace ptarmigan::internal
