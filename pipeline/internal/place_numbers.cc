#include "pipeline/internal/place_numbers.h"

#include <string>

#include "base/hash.h"
#include "base/str_format.h"

namespace ptarmigan::internal {

void PlaceNumbers::Append(std::span<const FoundPlace> found, uint64_t time_ns,
                          std::vector<uint32_t>* numbers) {
  for (const FoundPlace& at : found) {
    Place place{.object = at.object, .position = at.position};
    uint64_t variant = 0;
    if (place.object->kind == CodeObject::Kind::kAnonymous &&
        AreToldApartByTime(place.object->pid)) {
      place.time_ns = time_ns;
      variant = Variant(place);
    }
    const size_t known = table_.places().size();
    const uint32_t number = table_.InternPlace(place, variant);
    numbers->push_back(number);
    if (number == known) resolver_.Add(number, place, HintsOf(*place.object));
  }
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
