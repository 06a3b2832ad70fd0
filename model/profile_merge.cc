#include <algorithm>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "model/branch_summary.h"
#include "model/flow_merge.h"
#include "model/memory_summary.h"
#include "model/profile.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

// Copies parts of `source` into `builder`, remembering where each went.
class Importer {
 public:
  Importer(const Profile& source, ProfileBuilder* builder) : source_(source), builder_(*builder) {
    for (const auto& mapping : source.mappings) {
      Profile::Mapping copy = mapping;
      copy.file = String(mapping.file);
      copy.build_id = String(mapping.build_id);
      mappings_.push_back(builder_.Mapping(copy));
    }
    for (const auto& function : source.functions) {
      Profile::Function copy = function;
      copy.name = String(function.name);
      copy.system_name = String(function.system_name);
      copy.file = String(function.file);
      functions_.push_back(builder_.Function(copy));
    }
    for (const auto& location : source.locations) locations_.push_back(ImportLocation(location));
  }

  StringId String(StringId id) { return builder_.String(source_.Text(id)); }

  // What each of the source's locations is called in the builder.
  std::span<const LocationId> locations() const { return locations_; }

  StackId Stack(StackId id) {
    frames_.clear();
    for (const LocationId frame : source_.Stack(id)) frames_.push_back(locations_[frame]);
    return builder_.Stack(frames_);
  }

  LabelSetId LabelSet(LabelSetId id) {
    labels_.clear();
    for (Profile::Label label : source_.Labels(id)) {
      label.key = String(label.key);
      label.text = String(label.text);
      label.number_unit = String(label.number_unit);
      labels_.push_back(label);
    }
    return builder_.LabelSet(labels_);
  }

 private:
  LocationId ImportLocation(const Profile::Location& location) {
    Profile::Location copy = location;
    if (copy.mapping != kNoId) copy.mapping = mappings_[copy.mapping];
    lines_.clear();
    for (Profile::Line line : source_.Lines(location)) {
      if (line.function != kNoId) line.function = functions_[line.function];
      lines_.push_back(line);
    }
    return builder_.Location(copy, lines_);
  }

  const Profile& source_;
  ProfileBuilder& builder_;
  std::vector<MappingId> mappings_;
  std::vector<FunctionId> functions_;
  std::vector<LocationId> locations_;
  std::vector<LocationId> frames_;
  std::vector<Profile::Label> labels_;
  std::vector<Profile::Line> lines_;
};

std::string TypeName(const Profile& profile, const Profile::ValueType& type) {
  return StrFormat("{}/{}", profile.Text(type.type), profile.Text(type.unit));
}

std::vector<std::string> SortedTypeNames(const Profile& profile) {
  std::vector<std::string> names;
  for (const auto& type : profile.sample_types) names.push_back(TypeName(profile, type));
  std::ranges::sort(names);
  return names;
}

void MergeHeader(const Profile& source, Profile* merged) {
  if (source.time_ns != 0 && (merged->time_ns == 0 || source.time_ns < merged->time_ns)) {
    merged->time_ns = source.time_ns;
  }
  merged->duration_ns += source.duration_ns;
  merged->period = std::max(merged->period, source.period);
  for (const StringId comment : source.comments) {
    const StringId id = merged->strings.Intern(source.Text(comment));
    if (std::ranges::find(merged->comments, id) == merged->comments.end())
      merged->comments.push_back(id);
  }
  merged->losses.Merge(source.losses);
  merged->quality.Merge(source.quality);
  for (const EventTotal& event : source.events) {
    const auto same = std::ranges::find(merged->events, event.name, &EventTotal::name);
    if (same == merged->events.end()) {
      merged->events.push_back(event);
    } else {
      same->samples += event.samples;
      same->period_sum += event.period_sum;
    }
  }
}

void CopyHeaderTexts(const Profile& source, Profile* merged) {
  const auto copy = [&](StringId id) { return merged->strings.Intern(source.Text(id)); };
  merged->default_sample_type = copy(source.default_sample_type);
  merged->period_type = {copy(source.period_type.type), copy(source.period_type.unit)};
  merged->drop_frames = copy(source.drop_frames);
  merged->keep_frames = copy(source.keep_frames);
  merged->doc_url = copy(source.doc_url);
}

void AppendText(std::string_view text, std::string* out) {
  *out += StrFormat("{}:", text.size());
  *out += text;
}

void AppendNumber(uint64_t number, std::string* out) { *out += StrFormat("{},", number); }

std::string LocationContent(const Profile& profile, const Profile::Location& location) {
  std::string content;
  if (location.mapping != kNoId) {
    const auto& mapping = profile.mappings[location.mapping];
    AppendText(profile.Text(mapping.file), &content);
    AppendText(profile.Text(mapping.build_id), &content);
    AppendNumber(mapping.start.value, &content);
    AppendNumber(mapping.limit.value, &content);
    AppendNumber(mapping.offset.value, &content);
  }
  AppendNumber(location.address, &content);
  AppendNumber(location.is_folded ? 1 : 0, &content);
  for (const auto& line : profile.Lines(location)) {
    AppendNumber(static_cast<uint64_t>(line.line), &content);
    AppendNumber(static_cast<uint64_t>(line.column), &content);
    if (line.function == kNoId) continue;
    const auto& function = profile.functions[line.function];
    AppendText(profile.Text(function.name), &content);
    AppendText(profile.Text(function.system_name), &content);
    AppendText(profile.Text(function.file), &content);
    AppendNumber(static_cast<uint64_t>(function.start_line), &content);
  }
  return content;
}

// One text per row, sorted: profiles that say the same give the same list.
std::vector<std::string> Rows(const Profile& profile) {
  std::vector<Hash128> location_ids;
  location_ids.reserve(profile.locations.size());
  for (LocationId id = 0; id < profile.locations.size(); ++id) {
    location_ids.push_back(LocationContentId(profile, id));
  }
  std::vector<std::string> rows;
  rows.reserve(profile.samples.size());
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    std::string row;
    for (const LocationId frame : profile.Stack(profile.samples[i].stack))
      row += ToHex(location_ids[frame]);
    std::vector<std::string> labels;
    for (const auto& label : profile.Labels(profile.samples[i].labels)) {
      std::string& text = labels.emplace_back();
      AppendText(profile.Text(label.key), &text);
      AppendText(profile.Text(label.text), &text);
      AppendNumber(static_cast<uint64_t>(label.number), &text);
      AppendText(profile.Text(label.number_unit), &text);
    }
    std::ranges::sort(labels);
    for (const std::string& label : labels) AppendText(label, &row);
    for (const int64_t value : profile.Values(i)) AppendNumber(static_cast<uint64_t>(value), &row);
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows);
  return rows;
}

std::vector<std::string> HeaderTexts(const Profile& profile) {
  std::vector<std::string> texts;
  for (const auto& type : profile.sample_types) texts.push_back(TypeName(profile, type));
  for (const StringId id : {profile.default_sample_type, profile.drop_frames, profile.keep_frames,
                            profile.doc_url, profile.period_type.type, profile.period_type.unit}) {
    texts.emplace_back(profile.Text(id));
  }
  for (const StringId id : profile.comments) texts.emplace_back(profile.Text(id));
  return texts;
}

// All but the branches, which MergeProfiles adds up over all sources.
void AddContent(const Profile& source, std::span<const size_t> types, Importer* importer,
                ProfileBuilder* builder) {
  std::vector<int64_t> values(builder->profile().sample_types.size());
  for (size_t i = 0; i < source.samples.size(); ++i) {
    std::ranges::fill(values, 0);
    const auto old_values = source.Values(i);
    for (size_t t = 0; t < types.size(); ++t) values[types[t]] += old_values[t];
    builder->Add(
        {importer->Stack(source.samples[i].stack), importer->LabelSet(source.samples[i].labels)},
        values);
  }
  AddMemorySummary(source.summary.memory, importer->locations(),
                   &builder->profile().summary.memory);
  AddFlowSummary(source.summary.flow, importer->locations(), &builder->profile().summary.flow);
}

}  // namespace

void AddProfile(const Profile& source, std::span<const size_t> types, ProfileBuilder* builder) {
  Importer importer(source, builder);
  AddContent(source, types, &importer, builder);
}

Result<Profile> MergeProfiles(std::span<const Profile* const> profiles) {
  if (profiles.empty()) return Error{ErrorCode::kInvalidInput, "no profiles to merge"};
  ProfileBuilder builder;
  const Profile& first = *profiles.front();
  for (const auto& type : first.sample_types) {
    builder.SampleType(first.Text(type.type), first.Text(type.unit));
  }
  CopyHeaderTexts(first, &builder.profile());
  BranchSummaryBuilder branches;
  for (const Profile* profile : profiles) {
    if (SortedTypeNames(*profile) != SortedTypeNames(first)) {
      return Error{ErrorCode::kInvalidInput,
                   "profiles with different sample types cannot be merged"};
    }
    std::vector<size_t> types;
    for (const auto& type : profile->sample_types) {
      types.push_back(builder.SampleType(profile->Text(type.type), profile->Text(type.unit)));
    }
    Importer importer(*profile, &builder);
    AddContent(*profile, types, &importer, &builder);
    branches.Add(profile->summary.branches, importer.locations());
    MergeHeader(*profile, &builder.profile());
  }
  builder.profile().summary.branches = branches.Finish();
  return builder.Finish();
}

bool EquivalentProfiles(const Profile& a, const Profile& b) {
  return HeaderTexts(a) == HeaderTexts(b) && a.time_ns == b.time_ns &&
         a.duration_ns == b.duration_ns && a.period == b.period &&
         a.mappings.size() == b.mappings.size() && Rows(a) == Rows(b);
}

Hash128 LocationContentId(const Profile& profile, LocationId id) {
  return HashBytes128(AsBytes(LocationContent(profile, profile.locations[id])));
}

Hash128 StackContentId(std::span<const Hash128> location_ids) {
  return HashBytes128(std::as_bytes(location_ids));
}

}  // namespace ptarmigan
