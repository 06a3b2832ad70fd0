#include "pipeline/internal/place_numbers.h"

#include <string>

#include "base/hash.h"
#include "base/str_format.h"

namespace ptarmigan::internal {

FoundPlace PlaceIn(const CodeMapping& mapping, VirtAddr address) {
  const CodeObject& object = *mapping.object;
  const bool has_file_positions =
      object.kind == CodeObject::Kind::kFile || object.kind == CodeObject::Kind::kVdso;
  return {&object, has_file_positions ? mapping.ToFileOffset(address).value : address.value};
}

uint32_t PlaceNumbers::NumberOf(const FoundPlace& found, uint64_t time_ns) {
  Place place{.object = found.object, .position = found.position};
  uint64_t variant = 0;
  if (DependsOnTime(*place.object)) {
    place.time_ns = time_ns;
    variant = Variant(place);
  }
  const size_t known = table_.places().size();
  const uint32_t number = table_.InternPlace(place, variant);
  if (number == known) resolver_.Add(number, place, HintsOf(*place.object));
  return number;
}

LoadHints PlaceNumbers::HintsOf(const CodeObject& object) const {
  return object.index < hints_.size() ? hints_[object.index] : LoadHints{};
}

uint64_t PlaceNumbers::Variant(const Place& place) {
  InlineStack frames;
  const ObjectSymbols* symbols = symbolizer_.Load(*place.object, HintsOf(*place.object));
  if (!symbolizer_.ResolveRuntime(*symbols, {place.position}, place.time_ns, &frames)) return 0;
  std::string names;
  for (const SourceFrame& frame : frames) {
    names += StrFormat("{}\n{}\n{}\n", frame.function, frame.file, frame.line);
  }
  return HashBytes64(AsBytes(names));
}

}  // namespace ptarmigan::internal
