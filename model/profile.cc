#include "model/profile.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/str_format.h"
#include "model/event_attr.h"

namespace ptarmigan {

StringTable::StringTable() { Intern(""); }

StringTable::StringTable(const StringTable& other) {
  for (const std::string_view text : other.strings_) Intern(text);
}

StringTable& StringTable::operator=(const StringTable& other) {
  if (this != &other) *this = StringTable(other);
  return *this;
}

StringId StringTable::Intern(std::string_view text) {
  if (2 * (strings_.size() + 1) > slots_.size()) Grow();
  const uint64_t hash = HashBytes64(AsBytes(text));
  Slot& slot = slots_[SlotOf(text, hash)];
  if (slot.id != kNoId) return slot.id;
  slot = {static_cast<uint32_t>(hash >> 32U), static_cast<StringId>(strings_.size())};
  strings_.push_back(Keep(text));
  return slot.id;
}

StringId StringTable::Find(std::string_view text) const {
  if (slots_.empty()) return kNoId;
  return slots_[SlotOf(text, HashBytes64(AsBytes(text)))].id;
}

size_t StringTable::SlotOf(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id == kNoId) return at;
    if (slot.hash == hash >> 32U && strings_[slot.id] == text) return at;
  }
}

void StringTable::Grow() {
  constexpr size_t kFirstSlots = 64;
  slots_.assign(std::max(kFirstSlots, 2 * slots_.size()), {});
  const size_t mask = slots_.size() - 1;
  for (StringId id = 0; id < strings_.size(); ++id) {
    const uint64_t hash = HashBytes64(AsBytes(strings_[id]));
    size_t at = hash & mask;
    while (slots_[at].id != kNoId) at = (at + 1) & mask;  // all are different
    slots_[at] = {static_cast<uint32_t>(hash >> 32U), id};
  }
}

std::string_view StringTable::Keep(std::string_view text) {
  // Blocks double, so that small tables stay small.
  constexpr size_t kFirstBlockBytes = size_t{1} << 10U;
  constexpr size_t kBlockBytesMax = size_t{64} << 10U;
  if (text.empty()) return "";
  if (blocks_.empty() || blocks_.back().free_bytes < text.size()) {
    const size_t last = blocks_.empty() ? 0 : blocks_.back().size;
    const size_t bytes =
        std::max(text.size(), std::clamp(2 * last, kFirstBlockBytes, kBlockBytesMax));
    blocks_.push_back({std::unique_ptr<char[]>(new char[bytes]), bytes, bytes});
  }
  Block& block = blocks_.back();
  char* const begin = block.bytes.get() + (block.size - block.free_bytes);
  std::memcpy(begin, text.data(), text.size());
  block.free_bytes -= text.size();
  return {begin, text.size()};
}

StackId Profile::AddStack(std::span<const LocationId> frames) {
  stacks.push_back(
      {static_cast<uint32_t>(stack_frames.size()), static_cast<uint32_t>(frames.size())});
  stack_frames.insert(stack_frames.end(), frames.begin(), frames.end());
  return static_cast<StackId>(stacks.size() - 1);
}

LabelSetId Profile::AddLabelSet(std::span<const Label> set) {
  label_sets.push_back({static_cast<uint32_t>(labels.size()), static_cast<uint32_t>(set.size())});
  labels.insert(labels.end(), set.begin(), set.end());
  return static_cast<LabelSetId>(label_sets.size() - 1);
}

LocationId Profile::AddLocation(const Location& location, std::span<const Line> lines_of_it) {
  Location added = location;
  added.lines_begin = static_cast<uint32_t>(lines.size());
  added.lines_count = static_cast<uint32_t>(lines_of_it.size());
  lines.insert(lines.end(), lines_of_it.begin(), lines_of_it.end());
  locations.push_back(added);
  return static_cast<LocationId>(locations.size() - 1);
}

void Profile::AddSample(Sample sample, std::span<const int64_t> values_of_it) {
  samples.push_back(sample);
  values.insert(values.end(), values_of_it.begin(), values_of_it.end());
}

std::vector<int64_t> Profile::Totals() const {
  std::vector<int64_t> totals(sample_types.size(), 0);
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t t = 0; t < sample_types.size(); ++t)
      totals[t] += values[i * sample_types.size() + t];
  }
  return totals;
}

Result<size_t> Profile::SampleTypeIndex(std::string_view name) const {
  if (name.empty()) {
    for (size_t t = 0; t < sample_types.size(); ++t) {
      if (default_sample_type != 0 && sample_types[t].type == default_sample_type) return t;
    }
    if (!sample_types.empty()) return sample_types.size() - 1;
    return Error{ErrorCode::kNotFound, "the profile has no sample types"};
  }
  std::string known;
  size_t without_modifiers = sample_types.size();
  for (size_t t = 0; t < sample_types.size(); ++t) {
    const std::string_view type = Text(sample_types[t].type);
    const std::string full = StrFormat("{}/{}", type, Text(sample_types[t].unit));
    if (name == full || name == type) return t;
    if (name == NameWithoutModifiers(type) && without_modifiers == sample_types.size())
      without_modifiers = t;
    known += (known.empty() ? "" : ", ") + full;
  }
  if (without_modifiers < sample_types.size()) return without_modifiers;
  return Error{ErrorCode::kNotFound,
               StrFormat("no sample type '{}'; the profile has: {}", name, known)};
}

namespace {

Error Fault(std::string_view what, size_t index) {
  return Error{ErrorCode::kInvalidInput, StrFormat("invalid profile: {} {}", what, index)};
}

bool InRange(const Profile::Range& range, size_t size) {
  return range.begin <= size && range.count <= size - range.begin;
}

Status CheckHeader(const Profile& profile) {
  const size_t strings = profile.strings.size();
  if (profile.sample_types.empty())
    return Error{ErrorCode::kInvalidInput, "invalid profile: no sample types"};
  for (size_t i = 0; i < profile.sample_types.size(); ++i) {
    const auto& type = profile.sample_types[i];
    if (type.type >= strings || type.unit >= strings) return Fault("text of sample type", i);
    for (size_t j = 0; j < i; ++j) {
      if (profile.sample_types[j] == type) return Fault("duplicate sample type", i);
    }
  }
  for (const StringId text :
       {profile.default_sample_type, profile.period_type.type, profile.period_type.unit,
        profile.drop_frames, profile.keep_frames, profile.doc_url}) {
    if (text >= strings) return Fault("header text", text);
  }
  for (size_t i = 0; i < profile.comments.size(); ++i) {
    if (profile.comments[i] >= strings) return Fault("comment", i);
  }
  return OkStatus();
}

Status CheckSymbols(const Profile& profile) {
  const size_t strings = profile.strings.size();
  for (size_t i = 0; i < profile.mappings.size(); ++i) {
    const auto& mapping = profile.mappings[i];
    if (mapping.file >= strings || mapping.build_id >= strings) return Fault("text of mapping", i);
    if (mapping.limit < mapping.start) return Fault("range of mapping", i);
  }
  for (size_t i = 0; i < profile.functions.size(); ++i) {
    const auto& function = profile.functions[i];
    if (function.name >= strings || function.system_name >= strings || function.file >= strings) {
      return Fault("text of function", i);
    }
  }
  for (size_t i = 0; i < profile.lines.size(); ++i) {
    const FunctionId function = profile.lines[i].function;
    if (function != kNoId && function >= profile.functions.size())
      return Fault("function of line", i);
  }
  for (size_t i = 0; i < profile.locations.size(); ++i) {
    const auto& location = profile.locations[i];
    if (location.mapping != kNoId && location.mapping >= profile.mappings.size())
      return Fault("mapping of location", i);
    if (!InRange({location.lines_begin, location.lines_count}, profile.lines.size()))
      return Fault("lines of location", i);
  }
  return OkStatus();
}

// 0 of none.
LocationId Highest(std::span<const LocationId> locations) {
  constexpr size_t kLanes = 16;
  std::array<LocationId, kLanes> highest = {};
  size_t i = 0;
  for (; i + kLanes <= locations.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      highest[lane] = std::max(highest[lane], locations[i + lane]);
  }
  for (; i < locations.size(); ++i) highest[0] = std::max(highest[0], locations[i]);
  return *std::ranges::max_element(highest);
}

}  // namespace

Status Profile::CheckValid() const {
  TRY(CheckHeader(*this));
  TRY(CheckSymbols(*this));
  // Millions of them: the highest of each block is found with vector instructions.
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < stack_frames.size(); begin += kBlock) {
    const std::span<const LocationId> block =
        std::span(stack_frames).subspan(begin, std::min(kBlock, stack_frames.size() - begin));
    if (Highest(block) < locations.size()) continue;
    const auto first = std::ranges::find_if(
        block, [this](LocationId location) { return location >= locations.size(); });
    return Fault("location of stack frame", begin + static_cast<size_t>(first - block.begin()));
  }
  for (size_t i = 0; i < stacks.size(); ++i) {
    if (!InRange(stacks[i], stack_frames.size())) return Fault("frames of stack", i);
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    const Label& label = labels[i];
    if (label.key >= strings.size() || label.text >= strings.size() ||
        label.number_unit >= strings.size()) {
      return Fault("text of label", i);
    }
  }
  for (size_t i = 0; i < label_sets.size(); ++i) {
    if (!InRange(label_sets[i], labels.size())) return Fault("labels of set", i);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].stack >= stacks.size()) return Fault("stack of sample", i);
    if (samples[i].labels >= label_sets.size()) return Fault("label set of sample", i);
  }
  if (values.size() != samples.size() * sample_types.size())
    return Fault("number of values", values.size());
  return OkStatus();
}

}  // namespace ptarmigan
