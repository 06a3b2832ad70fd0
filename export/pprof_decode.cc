#include <algorithm>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "export/internal/compression.h"
#include "export/internal/fact_comments.h"
#include "export/internal/foreign.h"
#include "export/internal/id_tables.h"
#include "export/internal/protobuf_wire.h"
#include "export/pprof.h"
#include "proto/profile.pb.h"

namespace ptarmigan {
namespace {

namespace wire = perftools::profiles;
using internal::ForEachNumber;
using internal::IdTable;
using internal::RowTable;
using internal::WireField;
using internal::WireReader;
using internal::WireType;

Error Malformed(std::string message) { return Error{ErrorCode::kInvalidInput, std::move(message)}; }

int64_t AsSigned(uint64_t value) { return static_cast<int64_t>(value); }

class Decoder {
 public:
  Decoder(Bytes message, const DecodeLimits& limits) : message_(message), limits_(limits) {}

  Result<Profile> Decode() {
    TRY(ReadHeader());
    TRY(ReadTables());
    TRY(ReadLocations());
    TRY(ReadSamples());
    TRY(ResolveHeader());
    TRY(profile_.CheckValid());
    return std::move(profile_);
  }

 private:
  // Calls `take(field)` for each field of a message; its error ends the walk. `what` is for messages.
  template <typename Take>
  Status ForEachField(Bytes message, std::string_view what, const Take& take) {
    WireReader reader(message);
    WireField field;
    while (reader.Next(&field)) TRY(take(field));
    if (reader.ok()) return OkStatus();
    return Error{ErrorCode::kTruncated,
                 StrFormat("the pprof profile is damaged or cut off inside a {} (byte {} of {})",
                           what, reader.position(), message.size())};
  }

  Status CheckCount(size_t count, std::string_view what) const {
    if (count < limits_.entries_max) return OkStatus();
    return Error{ErrorCode::kResourceLimit,
                 StrFormat("the pprof profile has more than {} {}", limits_.entries_max, what)};
  }

  // The profile's id of a text, interned when it is first used.
  Result<StringId> Text(uint64_t index) {
    if (index == 0) return StringId{0};
    if (index >= texts_.size()) {
      return Malformed(StrFormat("the pprof profile names string {} but has only {}",
                                 AsSigned(index), texts_.size()));
    }
    StringId& id = text_ids_[index];
    if (id == kNoId) {
      TRY(CheckCount(profile_.strings.size(), "strings"));
      id = profile_.strings.Intern(texts_[index]);
    }
    return id;
  }

  Status TextInto(uint64_t index, StringId* id) {
    TRY_ASSIGN(*id, Text(index));
    return OkStatus();
  }

  void CountBadRecord() {
    profile_.losses.Lose(LossStage::kParse, LossReason::kBadValue, 1, LossUnit::kRecords);
  }

  Status ReadHeader() {
    TRY(ForEachField(message_, "profile", [this](const WireField& field) -> Status {
      if (field.type == WireType::kBytes) {
        if (field.number == wire::Profile::kStringTableFieldNumber) {
          TRY(CheckCount(texts_.size(), "strings"));
          texts_.push_back(AsText(field.bytes));
        }
        if (field.number == wire::Profile::kSampleTypeFieldNumber)
          return ReadSampleType(field.bytes);
        if (field.number == wire::Profile::kPeriodTypeFieldNumber)
          return ReadValueType(field.bytes, &period_type_);
      }
      if (field.number == wire::Profile::kCommentFieldNumber) {
        // One more than is allowed is enough to see that there are too many.
        ForEachNumber(field, [this](uint64_t index) {
          if (comments_.size() <= limits_.entries_max) comments_.push_back(index);
        });
      }
      if (field.type == WireType::kVarint) ReadScalar(field);
      return OkStatus();
    }));
    if (sample_types_.empty()) return Malformed("not a pprof profile: it has no sample types");
    if (texts_.empty() || !texts_[0].empty())
      return Malformed("not a pprof profile: its string 0 is not empty");
    if (times_ > 1)
      return Malformed(
          "several pprof profiles stand one behind the other in this file: take them apart");
    text_ids_.assign(texts_.size(), kNoId);
    return OkStatus();
  }

  void ReadScalar(const WireField& field) {
    switch (static_cast<int>(field.number)) {
      case wire::Profile::kDropFramesFieldNumber:
        drop_frames_ = field.value;
        break;
      case wire::Profile::kKeepFramesFieldNumber:
        keep_frames_ = field.value;
        break;
      case wire::Profile::kTimeNanosFieldNumber:
        profile_.time_ns = AsSigned(field.value);
        ++times_;
        break;
      case wire::Profile::kDurationNanosFieldNumber:
        profile_.duration_ns = AsSigned(field.value);
        break;
      case wire::Profile::kPeriodFieldNumber:
        profile_.period = AsSigned(field.value);
        break;
      case wire::Profile::kDefaultSampleTypeFieldNumber:
        default_sample_type_ = field.value;
        break;
      case wire::Profile::kDocUrlFieldNumber:
        doc_url_ = field.value;
        break;
      default:
        break;
    }
  }

  struct TypeTexts {
    uint64_t type = 0;
    uint64_t unit = 0;
  };

  Status ReadValueType(Bytes message, TypeTexts* type) {
    return ForEachField(message, "value type", [type](const WireField& field) {
      if (field.type != WireType::kVarint) return OkStatus();
      if (field.number == wire::ValueType::kTypeFieldNumber) type->type = field.value;
      if (field.number == wire::ValueType::kUnitFieldNumber) type->unit = field.value;
      return OkStatus();
    });
  }

  Status ReadSampleType(Bytes message) {
    if (sample_types_.size() >= kSampleTypesMax) {
      return Error{ErrorCode::kResourceLimit,
                   StrFormat("the pprof profile has more than {} sample types", kSampleTypesMax)};
    }
    return ReadValueType(message, &sample_types_.emplace_back());
  }

  Status ResolveType(const TypeTexts& texts, Profile::ValueType* type) {
    TRY_ASSIGN(type->type, Text(texts.type));
    TRY_ASSIGN(type->unit, Text(texts.unit));
    return OkStatus();
  }

  Status ResolveHeader() {
    for (const TypeTexts& texts : sample_types_)
      TRY(ResolveType(texts, &profile_.sample_types.emplace_back()));
    TRY(ResolveType(period_type_, &profile_.period_type));
    TRY_ASSIGN(profile_.drop_frames, Text(drop_frames_));
    TRY_ASSIGN(profile_.keep_frames, Text(keep_frames_));
    TRY_ASSIGN(profile_.default_sample_type, Text(default_sample_type_));
    TRY_ASSIGN(profile_.doc_url, Text(doc_url_));
    TRY(CheckCount(comments_.size(), "comments"));
    for (const uint64_t comment : comments_) {
      if (comment < texts_.size() && internal::ParseFactComment(texts_[comment], &profile_))
        continue;
      TRY_ASSIGN(profile_.comments.emplace_back(), Text(comment));
    }
    return OkStatus();
  }

  // Mappings and functions: what locations refer to.
  Status ReadTables() {
    TRY(ForEachField(message_, "profile", [this](const WireField& field) -> Status {
      if (field.type != WireType::kBytes) return OkStatus();
      if (field.number == wire::Profile::kMappingFieldNumber) return ReadMapping(field.bytes);
      if (field.number == wire::Profile::kFunctionFieldNumber) return ReadFunction(field.bytes);
      return OkStatus();
    }));
    NumberFunctions();
    return OkStatus();
  }

  // Profilers for .NET leave out the ids of all functions; the lines then mean their positions. If
  // only some have none, nothing can refer to those.
  void NumberFunctions() {
    if (!profile_.functions.empty()) {
      for (size_t i = 0; i < unnumbered_functions_.size(); ++i) CountBadRecord();
      return;
    }
    profile_.functions = std::move(unnumbered_functions_);
    for (uint32_t i = 0; i < profile_.functions.size(); ++i) function_ids_.Add(uint64_t{i} + 1, i);
  }

  Status ReadMapping(Bytes message) {
    TRY(CheckCount(profile_.mappings.size(), "mappings"));
    Profile::Mapping mapping;
    uint64_t id = 0;
    TRY(ForEachField(message, "mapping", [&](const WireField& field) -> Status {
      if (field.type != WireType::kVarint) return OkStatus();
      switch (static_cast<int>(field.number)) {
        case wire::Mapping::kIdFieldNumber:
          id = field.value;
          break;
        case wire::Mapping::kMemoryStartFieldNumber:
          mapping.start.value = field.value;
          break;
        case wire::Mapping::kMemoryLimitFieldNumber:
          mapping.limit.value = field.value;
          break;
        case wire::Mapping::kFileOffsetFieldNumber:
          mapping.offset.value = field.value;
          break;
        case wire::Mapping::kFilenameFieldNumber:
          return TextInto(field.value, &mapping.file);
        case wire::Mapping::kBuildIdFieldNumber:
          return TextInto(field.value, &mapping.build_id);
        case wire::Mapping::kHasFunctionsFieldNumber:
          mapping.has_functions = field.value != 0;
          break;
        case wire::Mapping::kHasFilenamesFieldNumber:
          mapping.has_filenames = field.value != 0;
          break;
        case wire::Mapping::kHasLineNumbersFieldNumber:
          mapping.has_line_numbers = field.value != 0;
          break;
        case wire::Mapping::kHasInlineFramesFieldNumber:
          mapping.has_inline_frames = field.value != 0;
          break;
        default:
          break;
      }
      return OkStatus();
    }));
    if (mapping.limit < mapping.start) {
      mapping.limit = mapping.start;
      CountBadRecord();
    }
    const auto index = static_cast<uint32_t>(profile_.mappings.size());
    if (id == 0) {
      CountBadRecord();  // nothing can refer to it
      return OkStatus();
    }
    if (!mapping_ids_.Add(id, index)) {
      if (profile_.mappings[mapping_ids_.Find(id)] == mapping) return OkStatus();
      return Malformed(
          StrFormat("the pprof profile has two different mappings with the id {}", id));
    }
    profile_.mappings.push_back(mapping);
    return OkStatus();
  }

  Status ReadFunction(Bytes message) {
    TRY(CheckCount(profile_.functions.size() + unnumbered_functions_.size(), "functions"));
    Profile::Function function;
    uint64_t id = 0;
    TRY(ForEachField(message, "function", [&](const WireField& field) -> Status {
      if (field.type != WireType::kVarint) return OkStatus();
      switch (static_cast<int>(field.number)) {
        case wire::Function::kIdFieldNumber:
          id = field.value;
          break;
        case wire::Function::kNameFieldNumber:
          return TextInto(field.value, &function.name);
        case wire::Function::kSystemNameFieldNumber:
          return TextInto(field.value, &function.system_name);
        case wire::Function::kFilenameFieldNumber:
          return TextInto(field.value, &function.file);
        case wire::Function::kStartLineFieldNumber:
          function.start_line = AsSigned(field.value);
          break;
        default:
          break;
      }
      return OkStatus();
    }));
    if (id == 0) {
      unnumbered_functions_.push_back(function);
      return OkStatus();
    }
    if (!function_ids_.Add(id, static_cast<uint32_t>(profile_.functions.size()))) {
      if (profile_.functions[function_ids_.Find(id)] == function) return OkStatus();
      return Malformed(
          StrFormat("the pprof profile has two different functions with the id {}", id));
    }
    profile_.functions.push_back(function);
    return OkStatus();
  }

  Status ReadLocations() {
    return ForEachField(message_, "profile", [this](const WireField& field) -> Status {
      if (field.type != WireType::kBytes || field.number != wire::Profile::kLocationFieldNumber)
        return OkStatus();
      return ReadLocation(field.bytes);
    });
  }

  // A reference to something that the file does not have becomes "none" and is counted.
  uint32_t Refer(const IdTable& table, uint64_t id) {
    if (id == 0) return kNoId;
    const uint32_t index = table.Find(id);
    if (index == kNoId) CountBadRecord();
    return index;
  }

  Status ReadLocation(Bytes message) {
    TRY(CheckCount(profile_.locations.size(), "locations"));
    Profile::Location location;
    uint64_t id = 0;
    lines_.clear();
    TRY(ForEachField(message, "location", [&](const WireField& field) -> Status {
      if (field.number == wire::Location::kLineFieldNumber && field.type == WireType::kBytes) {
        return ReadLine(field.bytes);
      }
      if (field.type != WireType::kVarint) return OkStatus();
      switch (static_cast<int>(field.number)) {
        case wire::Location::kIdFieldNumber:
          id = field.value;
          break;
        case wire::Location::kMappingIdFieldNumber:
          location.mapping = Refer(mapping_ids_, field.value);
          break;
        case wire::Location::kAddressFieldNumber:
          location.address = field.value;
          break;
        case wire::Location::kIsFoldedFieldNumber:
          location.is_folded = field.value != 0;
          break;
        default:
          break;
      }
      return OkStatus();
    }));
    if (id == 0) {
      CountBadRecord();
      return OkStatus();
    }
    if (!location_ids_.Add(id, static_cast<uint32_t>(profile_.locations.size()))) {
      if (SameLocation(profile_.locations[location_ids_.Find(id)], location)) return OkStatus();
      return Malformed(
          StrFormat("the pprof profile has two different locations with the id {}", id));
    }
    profile_.AddLocation(location, lines_);
    return OkStatus();
  }

  bool SameLocation(const Profile::Location& known, const Profile::Location& repeated) const {
    const auto lines = profile_.Lines(known);
    return known.mapping == repeated.mapping && known.address == repeated.address &&
           known.is_folded == repeated.is_folded &&
           std::equal(lines.begin(), lines.end(), lines_.begin(), lines_.end());
  }

  Status ReadLine(Bytes message) {
    Profile::Line line;
    TRY(ForEachField(message, "line", [&](const WireField& field) -> Status {
      if (field.type != WireType::kVarint) return OkStatus();
      switch (static_cast<int>(field.number)) {
        case wire::Line::kFunctionIdFieldNumber:
          line.function = Refer(function_ids_, field.value);
          break;
        case wire::Line::kLineFieldNumber:
          line.line = AsSigned(field.value);
          break;
        case wire::Line::kColumnFieldNumber:
          line.column = AsSigned(field.value);
          break;
        default:
          break;
      }
      return OkStatus();
    }));
    TRY(CheckCount(profile_.lines.size() + lines_.size(), "lines"));
    lines_.push_back(line);
    return OkStatus();
  }

  Status ReadSamples() {
    TRY(ForEachField(message_, "profile", [this](const WireField& field) -> Status {
      if (field.type != WireType::kBytes || field.number != wire::Profile::kSampleFieldNumber)
        return OkStatus();
      return ReadSample(field.bytes);
    }));
    if (profile_.samples.empty() && rejected_samples_ > 0) {
      return Malformed(
          StrFormat("no sample of the pprof profile has a value for each of its {} sample types",
                    sample_types_.size()));
    }
    // In one ledger with what the recorder counted, if it did: what it kept is what was captured here.
    if (rejected_samples_ > 0) {
      profile_.losses.Capture(rejected_samples_);
      profile_.losses.Lose(LossStage::kParse, LossReason::kBadValue, rejected_samples_);
    }
    return OkStatus();
  }

  Status ReadSample(Bytes message) {
    frames_.clear();
    values_.clear();
    labels_.clear();
    label_words_.clear();
    TRY(ForEachField(message, "sample", [this](const WireField& field) -> Status {
      bool whole = true;
      switch (static_cast<int>(field.number)) {
        case wire::Sample::kLocationIdFieldNumber:
          whole = ForEachNumber(field, [this](uint64_t id) {
            if (frames_.size() <= limits_.frames_max) frames_.push_back(Frame(id));
          });
          break;
        case wire::Sample::kValueFieldNumber:
          whole = ForEachNumber(field, [this](uint64_t value) {
            if (values_.size() <= sample_types_.size()) values_.push_back(AsSigned(value));
          });
          break;
        case wire::Sample::kLabelFieldNumber:
          return field.type == WireType::kBytes ? ReadLabel(field.bytes) : OkStatus();
        default:
          break;
      }
      if (whole) return OkStatus();
      return Error{ErrorCode::kTruncated,
                   "the pprof profile is damaged inside the numbers of a sample"};
    }));
    if (values_.size() != sample_types_.size()) {
      ++rejected_samples_;
      return OkStatus();
    }
    TRY(CheckCount(profile_.samples.size(), "samples"));
    if (frames_.size() > limits_.frames_max - profile_.stack_frames.size()) {
      return Error{ErrorCode::kResourceLimit,
                   StrFormat("the pprof profile has more than {} frames", limits_.frames_max)};
    }
    const StackId stack = stacks_.Intern(
        std::span<const LocationId>(frames_),
        [this](StackId id) { return std::ranges::equal(profile_.Stack(id), frames_); },
        [this] { return profile_.AddStack(frames_); });
    const LabelSetId label_set = label_sets_.Intern(
        std::span<const uint64_t>(label_words_),
        [this](LabelSetId id) { return std::ranges::equal(profile_.Labels(id), labels_); },
        [this] { return profile_.AddLabelSet(labels_); });
    profile_.AddSample({stack, label_set}, values_);
    return OkStatus();
  }

  // A location that the file does not have is a marker frame, not a gap: its callers did not call its callees.
  LocationId Frame(uint64_t id) {
    const uint32_t index = location_ids_.Find(id);
    if (index != kNoId) [[likely]]
      return index;
    CountBadRecord();
    if (missing_location_ == kNoId) {
      Profile::Function function;
      function.name = function.system_name = profile_.strings.Intern("[missing location]");
      profile_.functions.push_back(function);
      const Profile::Line line = {static_cast<FunctionId>(profile_.functions.size() - 1), 0, 0};
      missing_location_ = profile_.AddLocation({}, std::span(&line, 1));
    }
    return missing_location_;
  }

  Status ReadLabel(Bytes message) {
    TRY(CheckCount(profile_.labels.size() + labels_.size(), "labels"));
    Profile::Label label;
    TRY(ForEachField(message, "label", [&](const WireField& field) -> Status {
      if (field.type != WireType::kVarint) return OkStatus();
      switch (static_cast<int>(field.number)) {
        case wire::Label::kKeyFieldNumber:
          return TextInto(field.value, &label.key);
        case wire::Label::kStrFieldNumber:
          return TextInto(field.value, &label.text);
        case wire::Label::kNumFieldNumber:
          label.number = AsSigned(field.value);
          break;
        case wire::Label::kNumUnitFieldNumber:
          return TextInto(field.value, &label.number_unit);
        default:
          break;
      }
      return OkStatus();
    }));
    labels_.push_back(label);
    label_words_.insert(label_words_.end(),
                        {uint64_t{label.key} << 32 | label.text,
                         static_cast<uint64_t>(label.number), uint64_t{label.number_unit}});
    return OkStatus();
  }

  static constexpr size_t kSampleTypesMax = 256;

  Bytes message_;
  const DecodeLimits& limits_;
  Profile profile_;
  std::vector<std::string_view> texts_;
  std::vector<StringId> text_ids_;
  std::vector<TypeTexts> sample_types_;
  TypeTexts period_type_;
  std::vector<uint64_t> comments_;
  uint64_t drop_frames_ = 0;
  uint64_t keep_frames_ = 0;
  uint64_t default_sample_type_ = 0;
  uint64_t doc_url_ = 0;
  int times_ = 0;
  std::vector<Profile::Function> unnumbered_functions_;
  IdTable mapping_ids_;
  IdTable function_ids_;
  IdTable location_ids_;
  RowTable stacks_;
  RowTable label_sets_;
  LocationId missing_location_ = kNoId;
  uint64_t rejected_samples_ = 0;
  // Of the message that is being read.
  std::vector<LocationId> frames_;
  std::vector<int64_t> values_;
  std::vector<Profile::Label> labels_;
  std::vector<uint64_t> label_words_;  // the same, to be hashed
  std::vector<Profile::Line> lines_;
};

}  // namespace

Result<Profile> DecodePprof(Bytes bytes, const DecodeLimits& limits) {
  std::string inflated;
  uint64_t trailing_bytes = 0;
  // A store may have put zstd around a gzip'ed file; more layers than two have no good reason.
  constexpr int kLayersMax = 2;
  for (int layer = 0; layer < kLayersMax; ++layer) {
    if (internal::IsGzip(bytes)) {
      TRY_ASSIGN(internal::Inflated result, internal::Gunzip(bytes, limits.plain_bytes_max));
      inflated = std::move(result.plain);
      trailing_bytes = result.trailing_bytes;
    } else if (internal::IsZstd(bytes)) {
      TRY_ASSIGN(inflated, internal::ZstdDecompress(bytes, limits.plain_bytes_max));
    } else {
      break;
    }
    bytes = AsBytes(inflated);
  }
  if (const std::string_view foreign = internal::DescribeForeign(bytes); !foreign.empty()) {
    return Malformed(StrFormat("not a pprof profile: it is {}", foreign));
  }
  TRY_ASSIGN(Profile profile, Decoder(bytes, limits).Decode());
  if (trailing_bytes > 0) {
    profile.losses.Lose(LossStage::kParse, LossReason::kBadCompression, trailing_bytes,
                        LossUnit::kBytes);
  }
  return profile;
}

}  // namespace ptarmigan
