#include "model/code_image.h"

#include <algorithm>

namespace ptarmigan {

Bytes CodeImage::CodeAt(VirtAddr address, size_t epoch) const {
  const std::span<const CodeRegion> regions = Regions(epoch);
  auto after =
      std::upper_bound(regions.begin(), regions.end(), address,
                       [](VirtAddr at, const CodeRegion& region) { return at < region.start; });
  if (after == regions.begin()) return {};
  const CodeRegion& region = *--after;
  if (!region.Contains(address)) return {};
  return region.bytes.subspan(static_cast<size_t>(address - region.start));
}

size_t CodeImage::EpochAt(uint64_t time_ns) const {
  size_t low = 0;
  size_t high = Epochs();
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    (EpochStartNs(middle) <= time_ns ? low : high) = middle;
  }
  return low;
}

void ArrayCodeImage::StartEpoch(uint64_t start_ns) {
  epochs_.push_back({start_ns, epochs_.back().regions});
}

void ArrayCodeImage::AddRegion(const CodeRegion& region) {
  if (region.bytes.empty()) return;
  std::vector<CodeRegion>& regions = epochs_.back().regions;
  std::vector<CodeRegion> kept;
  const auto keep = [&](const CodeRegion& old, VirtAddr start, VirtAddr end) {
    if (start >= end) return;
    CodeRegion part = old;
    part.start = start;
    part.bytes =
        old.bytes.subspan(static_cast<size_t>(start - old.start), static_cast<size_t>(end - start));
    part.file_offset += start - old.start;
    kept.push_back(part);
  };
  for (const CodeRegion& old : regions) {
    if (old.end() <= region.start || old.start >= region.end()) {
      kept.push_back(old);
      continue;
    }
    keep(old, old.start, region.start);
    keep(old, region.end(), old.end());
  }
  kept.push_back(region);
  std::sort(kept.begin(), kept.end(),
            [](const CodeRegion& a, const CodeRegion& b) { return a.start < b.start; });
  regions = std::move(kept);
}

void ArrayCodeImage::AddFunction(CodeFunction function) {
  const auto at =
      std::upper_bound(functions_.begin(), functions_.end(), function.start,
                       [](VirtAddr start, const CodeFunction& old) { return start < old.start; });
  functions_.insert(at, function);
}

void ArrayCodeImage::AddMissingObject(CodeFunction range, std::string name) {
  missing_.emplace_back(range, std::move(name));
}

CodeFunction ArrayCodeImage::FunctionContaining(VirtAddr address, size_t) const {
  auto after = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](VirtAddr at, const CodeFunction& function) { return at < function.start; });
  if (after == functions_.begin()) return {};
  const CodeFunction& function = *--after;
  return address < function.end ? function : CodeFunction();
}

std::string_view ArrayCodeImage::ObjectAt(VirtAddr address, size_t) const {
  for (const auto& [range, name] : missing_) {
    if (address >= range.start && address < range.end) return name;
  }
  return {};
}

}  // namespace ptarmigan
