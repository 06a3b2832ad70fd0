#include "model/profile_builder.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ptarmigan {
namespace {

using ContentIndex = absl::flat_hash_map<Hash128, uint32_t, Hash128Hasher>;

uint64_t Pack(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

Hash128 HashWords(std::span<const uint64_t> words) { return HashBytes128(std::as_bytes(words)); }

}  // namespace

struct ProfileBuilder::Tables {
  Profile profile;
  ContentIndex mappings;
  ContentIndex functions;
  ContentIndex locations;
  ContentIndex stacks;
  ContentIndex label_sets;
  absl::flat_hash_map<uint64_t, uint32_t> rows;  // (stack, label set) -> sample
  std::vector<uint64_t> words;                   // scratch for content keys
  std::vector<Profile::Label> sorted_labels;

  // The id in `index` for the content in `words`, made by `add` if new.
  template <typename Add>
  uint32_t Intern(ContentIndex* index, Add add) {
    const auto [found, is_new] = index->try_emplace(HashWords(words), 0);
    if (is_new) found->second = add();
    return found->second;
  }
};

ProfileBuilder::ProfileBuilder() : tables_(std::make_unique<Tables>()) {}
ProfileBuilder::~ProfileBuilder() = default;
ProfileBuilder::ProfileBuilder(ProfileBuilder&&) noexcept = default;
ProfileBuilder& ProfileBuilder::operator=(ProfileBuilder&&) noexcept = default;

Profile& ProfileBuilder::profile() { return tables_->profile; }
const Profile& ProfileBuilder::profile() const { return tables_->profile; }

StringId ProfileBuilder::String(std::string_view text) {
  return tables_->profile.strings.Intern(text);
}

size_t ProfileBuilder::SampleType(std::string_view type, std::string_view unit) {
  Profile& profile = tables_->profile;
  const Profile::ValueType wanted{String(type), String(unit)};
  for (size_t t = 0; t < profile.sample_types.size(); ++t) {
    if (profile.sample_types[t] == wanted) return t;
  }
  CHECK(profile.samples.empty());
  profile.sample_types.push_back(wanted);
  return profile.sample_types.size() - 1;
}

MappingId ProfileBuilder::Mapping(const Profile::Mapping& mapping) {
  const uint64_t flags = uint64_t{mapping.has_functions} | uint64_t{mapping.has_filenames} << 1 |
                         uint64_t{mapping.has_line_numbers} << 2 |
                         uint64_t{mapping.has_inline_frames} << 3;
  tables_->words = {mapping.start.value, mapping.limit.value, mapping.offset.value,
                    Pack(mapping.file, mapping.build_id), flags};
  return tables_->Intern(&tables_->mappings, [&] {
    tables_->profile.mappings.push_back(mapping);
    return static_cast<uint32_t>(tables_->profile.mappings.size() - 1);
  });
}

FunctionId ProfileBuilder::Function(const Profile::Function& function) {
  tables_->words = {Pack(function.name, function.system_name), function.file,
                    static_cast<uint64_t>(function.start_line)};
  return tables_->Intern(&tables_->functions, [&] {
    tables_->profile.functions.push_back(function);
    return static_cast<uint32_t>(tables_->profile.functions.size() - 1);
  });
}

LocationId ProfileBuilder::Location(const Profile::Location& location,
                                    std::span<const Profile::Line> lines) {
  tables_->words = {Pack(location.mapping, uint32_t{location.is_folded}), location.address};
  for (const Profile::Line& line : lines) {
    tables_->words.insert(tables_->words.end(),
                          {uint64_t{line.function}, static_cast<uint64_t>(line.line),
                           static_cast<uint64_t>(line.column)});
  }
  return tables_->Intern(&tables_->locations,
                         [&] { return tables_->profile.AddLocation(location, lines); });
}

LocationId ProfileBuilder::AppendLocation(const Profile::Location& location,
                                          std::span<const Profile::Line> lines) {
  return tables_->profile.AddLocation(location, lines);
}

StackId ProfileBuilder::Stack(std::span<const LocationId> frames) {
  // Location ids are content here: equal locations have equal ids.
  const auto [found, is_new] = tables_->stacks.try_emplace(HashBytes128(std::as_bytes(frames)), 0);
  if (is_new) {
    found->second = tables_->profile.AddStack(frames);
    return found->second;
  }
  CHECK(std::ranges::equal(tables_->profile.Stack(found->second), frames));
  return found->second;
}

StackId ProfileBuilder::AppendStack(std::span<const LocationId> frames) {
  return tables_->profile.AddStack(frames);
}

void ProfileBuilder::AppendStacks(LargeVector<LocationId> frames,
                                  std::vector<Profile::Range> ranges) {
  Profile& profile = tables_->profile;
  CHECK(profile.stacks.empty());
  profile.stack_frames = std::move(frames);
  profile.stacks = std::move(ranges);
}

LabelSetId ProfileBuilder::LabelSet(std::span<const Profile::Label> labels) {
  std::vector<Profile::Label>& sorted = tables_->sorted_labels;
  sorted.assign(labels.begin(), labels.end());
  // By text, not by id: the order must not depend on what was interned first.
  const StringTable& strings = tables_->profile.strings;
  std::ranges::sort(sorted, [&strings](const Profile::Label& a, const Profile::Label& b) {
    if (a.key != b.key) return strings.Get(a.key) < strings.Get(b.key);
    if (a.text != b.text) return strings.Get(a.text) < strings.Get(b.text);
    if (a.number != b.number) return a.number < b.number;
    return strings.Get(a.number_unit) < strings.Get(b.number_unit);
  });
  tables_->words.clear();
  for (const Profile::Label& label : sorted) {
    tables_->words.insert(tables_->words.end(),
                          {Pack(label.key, label.text), static_cast<uint64_t>(label.number),
                           uint64_t{label.number_unit}});
  }
  return tables_->Intern(&tables_->label_sets,
                         [&] { return tables_->profile.AddLabelSet(sorted); });
}

void ProfileBuilder::Add(Profile::Sample sample, std::span<const int64_t> values) {
  Profile& profile = tables_->profile;
  CHECK(values.size() == profile.sample_types.size());
  const auto [found, is_new] = tables_->rows.try_emplace(
      Pack(sample.stack, sample.labels), static_cast<uint32_t>(profile.samples.size()));
  if (is_new) {
    profile.AddSample(sample, values);
    return;
  }
  int64_t* row = profile.values.data() + size_t{found->second} * values.size();
  for (size_t t = 0; t < values.size(); ++t) {
    if (__builtin_add_overflow(row[t], values[t], &row[t]))
      row[t] = values[t] > 0 ? INT64_MAX : INT64_MIN;
  }
}

void ProfileBuilder::AppendRow(Profile::Sample sample, std::span<const int64_t> values) {
  CHECK(values.size() == tables_->profile.sample_types.size());
  tables_->profile.AddSample(sample, values);
}

Profile ProfileBuilder::Finish() {
  Profile profile = std::move(tables_->profile);
  tables_ = std::make_unique<Tables>();
  return profile;
}

}  // namespace ptarmigan
