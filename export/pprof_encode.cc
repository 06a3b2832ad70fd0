#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "export/internal/compression.h"
#include "export/internal/fact_comments.h"
#include "export/internal/protobuf_wire.h"
#include "export/pprof.h"
#include "proto/profile.pb.h"

namespace ptarmigan {
namespace {

namespace wire = perftools::profiles;
// Varints below 128.
constexpr size_t kOneByteIds = 127;
using internal::WireType;
using internal::WireWriter;

// Orders stacks from the root on, so that stacks which share callers stand side by side: their bytes repeat
// within the 32 KiB that gzip looks back over.
std::vector<uint32_t> SampleOrder(const Profile& profile) {
  std::vector<StackId> stacks(profile.stacks.size());
  std::iota(stacks.begin(), stacks.end(), 0);
  std::sort(stacks.begin(), stacks.end(), [&profile](StackId a, StackId b) {
    const auto left = profile.Stack(a);
    const auto right = profile.Stack(b);
    const auto [l, r] = std::mismatch(left.rbegin(), left.rend(), right.rbegin(), right.rend());
    if (l == left.rend() || r == right.rend())
      return left.size() != right.size() ? left.size() < right.size() : a < b;
    return *l < *r;
  });
  std::vector<uint32_t> rank(stacks.size());
  for (uint32_t i = 0; i < stacks.size(); ++i) rank[stacks[i]] = i;
  std::vector<uint32_t> order(profile.samples.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto& left = profile.samples[a];
    const auto& right = profile.samples[b];
    if (left.stack != right.stack) return rank[left.stack] < rank[right.stack];
    return left.labels != right.labels ? left.labels < right.labels : a < b;
  });
  return order;
}

// Gives out the numbers 1, 2, ... to old ids in the order of first use.
class Renumbering {
 public:
  explicit Renumbering(size_t size) : new_ids_(size, 0) {}
  uint32_t Get(uint32_t old_id) {
    uint32_t& id = new_ids_[old_id];
    if (id == 0) {
      order_.push_back(old_id);
      id = static_cast<uint32_t>(order_.size());
    }
    return id;
  }
  // Old ids; the one with the new id n stands at n - 1.
  const std::vector<uint32_t>& order() const { return order_; }

 private:
  std::vector<uint32_t> new_ids_;
  std::vector<uint32_t> order_;
};

class Encoder {
 public:
  // Pieces of the message go to `gzip` as they are made; null: Encode returns all of it.
  Encoder(const Profile& profile, internal::GzipStream* gzip)
      : profile_(profile),
        gzip_(gzip),
        strings_(profile.strings.size()),
        functions_(profile.functions.size()),
        locations_(profile.locations.size()),
        label_sets_(profile.label_sets.size()) {}

  // The message, or what of it has not gone to `gzip`.
  std::string Encode() {
    for (const auto& type : profile_.sample_types) {
      Message(wire::Profile::kSampleTypeFieldNumber, [&] { ValueType(type); });
    }
    NumberLocations();
    Samples();
    for (size_t i = 0; i < profile_.mappings.size(); ++i) {
      Message(wire::Profile::kMappingFieldNumber, [&] { Mapping(i); });
    }
    for (const LocationId id : locations_.order()) {
      Message(wire::Profile::kLocationFieldNumber, [&] { Location(id); });
    }
    for (const FunctionId id : functions_.order()) {
      Message(wire::Profile::kFunctionFieldNumber, [&] { Function(id); });
    }
    Header();
    return std::move(out_);
  }

 private:
  // Writes a nested message whose fields `fields` puts into body_.
  template <typename Fields>
  void Message(int field, const Fields& fields) {
    body_text_.clear();
    fields();
    top_.Text(field, body_text_);
    PassOn();
  }

  void PassOn() {
    constexpr size_t kPieceBytes = size_t{256} << 10;
    if (gzip_ == nullptr || out_.size() < kPieceBytes) return;
    gzip_->Write(std::move(out_));
    out_.clear();
    out_.reserve(kPieceBytes + (kPieceBytes >> 3));
  }

  int64_t Text(StringId id) { return id == 0 ? 0 : strings_.Get(id); }

  void ValueType(const Profile::ValueType& type) {
    body_.Signed(wire::ValueType::kTypeFieldNumber, Text(type.type));
    body_.Signed(wire::ValueType::kUnitFieldNumber, Text(type.unit));
  }

  // The most used locations have ids of one byte. The others stand in the order of their addresses, so
  // that what their messages repeat (mapping, high address bytes, function) stands side by side.
  void NumberLocations() {
    std::vector<uint32_t> uses(profile_.locations.size(), 0);
    for (const auto& sample : profile_.samples) {
      for (const LocationId id : profile_.Stack(sample.stack)) ++uses[id];
    }
    std::vector<LocationId> used;
    for (LocationId id = 0; id < uses.size(); ++id) {
      if (uses[id] != 0) used.push_back(id);
    }
    std::stable_sort(used.begin(), used.end(),
                     [&](LocationId a, LocationId b) { return uses[a] > uses[b]; });
    const size_t frequent = std::min(used.size(), kOneByteIds);
    std::sort(used.begin() + static_cast<ptrdiff_t>(frequent), used.end(),
              [this](LocationId a, LocationId b) {
                const auto& left = profile_.locations[a];
                const auto& right = profile_.locations[b];
                return std::tuple(left.mapping, left.address, a) <
                       std::tuple(right.mapping, right.address, b);
              });
    for (const LocationId id : used) locations_.Get(id);
  }

  void Samples() {
    std::string packed_text;
    WireWriter packed(&packed_text);
    for (const uint32_t index : SampleOrder(profile_)) {
      const Profile::Sample& sample = profile_.samples[index];
      body_text_.clear();
      const auto frames = profile_.Stack(sample.stack);
      if (!frames.empty()) {
        packed_text.clear();
        for (const LocationId id : frames) packed.Varint(locations_.Get(id));
        body_.Text(wire::Sample::kLocationIdFieldNumber, packed_text);
      }
      packed_text.clear();
      for (const int64_t value : profile_.Values(index))
        packed.Varint(static_cast<uint64_t>(value));
      body_.Text(wire::Sample::kValueFieldNumber, packed_text);
      body_text_.append(LabelBytes(sample.labels));
      top_.Text(wire::Profile::kSampleFieldNumber, body_text_);
      PassOn();
    }
  }

  // The label fields of a sample; the same for every sample with this set.
  const std::string& LabelBytes(LabelSetId id) {
    std::string& bytes = label_sets_[id];
    if (!bytes.empty() || profile_.Labels(id).empty()) return bytes;
    WireWriter writer(&bytes);
    std::string label_text;
    WireWriter fields(&label_text);
    for (const auto& label : profile_.Labels(id)) {
      label_text.clear();
      fields.Signed(wire::Label::kKeyFieldNumber, Text(label.key));
      fields.Signed(wire::Label::kStrFieldNumber, Text(label.text));
      fields.Signed(wire::Label::kNumFieldNumber, label.number);
      fields.Signed(wire::Label::kNumUnitFieldNumber, Text(label.number_unit));
      writer.Text(wire::Sample::kLabelFieldNumber, label_text);
    }
    return bytes;
  }

  void Mapping(size_t index) {
    const auto& mapping = profile_.mappings[index];
    body_.Unsigned(wire::Mapping::kIdFieldNumber, index + 1);
    body_.Unsigned(wire::Mapping::kMemoryStartFieldNumber, mapping.start.value);
    body_.Unsigned(wire::Mapping::kMemoryLimitFieldNumber, mapping.limit.value);
    body_.Unsigned(wire::Mapping::kFileOffsetFieldNumber, mapping.offset.value);
    body_.Signed(wire::Mapping::kFilenameFieldNumber, Text(mapping.file));
    body_.Signed(wire::Mapping::kBuildIdFieldNumber, Text(mapping.build_id));
    body_.Bool(wire::Mapping::kHasFunctionsFieldNumber, mapping.has_functions);
    body_.Bool(wire::Mapping::kHasFilenamesFieldNumber, mapping.has_filenames);
    body_.Bool(wire::Mapping::kHasLineNumbersFieldNumber, mapping.has_line_numbers);
    body_.Bool(wire::Mapping::kHasInlineFramesFieldNumber, mapping.has_inline_frames);
  }

  void Location(LocationId id) {
    const auto& location = profile_.locations[id];
    body_.Unsigned(wire::Location::kIdFieldNumber, locations_.Get(id));
    body_.Unsigned(wire::Location::kMappingIdFieldNumber,
                   location.mapping == kNoId ? 0 : uint64_t{location.mapping} + 1);
    body_.Unsigned(wire::Location::kAddressFieldNumber, location.address);
    for (const auto& line : profile_.Lines(location)) {
      line_text_.clear();
      WireWriter writer(&line_text_);
      writer.Unsigned(wire::Line::kFunctionIdFieldNumber,
                      line.function == kNoId ? 0 : functions_.Get(line.function));
      writer.Signed(wire::Line::kLineFieldNumber, line.line);
      writer.Signed(wire::Line::kColumnFieldNumber, line.column);
      body_.Text(wire::Location::kLineFieldNumber, line_text_);
    }
    body_.Bool(wire::Location::kIsFoldedFieldNumber, location.is_folded);
  }

  void Function(FunctionId id) {
    const auto& function = profile_.functions[id];
    body_.Unsigned(wire::Function::kIdFieldNumber, functions_.Get(id));
    body_.Signed(wire::Function::kNameFieldNumber, Text(function.name));
    body_.Signed(wire::Function::kSystemNameFieldNumber, Text(function.system_name));
    body_.Signed(wire::Function::kFilenameFieldNumber, Text(function.file));
    body_.Signed(wire::Function::kStartLineFieldNumber, function.start_line);
  }

  // The string table and every field after it. Facts beside the samples are the only texts that the profile does not hold.
  void Header() {
    std::vector<int64_t> comments;
    for (const StringId comment : profile_.comments) comments.push_back(Text(comment));
    const int64_t drop_frames = Text(profile_.drop_frames);
    const int64_t keep_frames = Text(profile_.keep_frames);
    const int64_t default_type = Text(profile_.default_sample_type);
    const int64_t doc_url = Text(profile_.doc_url);
    const Profile::ValueType& period = profile_.period_type;
    const bool has_period_type = period != Profile::ValueType{};
    Text(period.type);
    Text(period.unit);

    top_.Text(wire::Profile::kStringTableFieldNumber, "");
    for (const StringId id : strings_.order())
      top_.Text(wire::Profile::kStringTableFieldNumber, profile_.Text(id));
    size_t strings = strings_.order().size() + 1;
    for (const std::string& comment : internal::FactComments(profile_)) {
      top_.Text(wire::Profile::kStringTableFieldNumber, comment);
      comments.push_back(static_cast<int64_t>(strings++));
    }
    top_.Signed(wire::Profile::kDropFramesFieldNumber, drop_frames);
    top_.Signed(wire::Profile::kKeepFramesFieldNumber, keep_frames);
    top_.Signed(wire::Profile::kTimeNanosFieldNumber, profile_.time_ns);
    top_.Signed(wire::Profile::kDurationNanosFieldNumber, profile_.duration_ns);
    if (has_period_type) Message(wire::Profile::kPeriodTypeFieldNumber, [&] { ValueType(period); });
    top_.Signed(wire::Profile::kPeriodFieldNumber, profile_.period);
    if (!comments.empty()) {
      Message(wire::Profile::kCommentFieldNumber, [&] {
        for (const int64_t comment : comments) body_.Varint(static_cast<uint64_t>(comment));
      });
    }
    top_.Signed(wire::Profile::kDefaultSampleTypeFieldNumber, default_type);
    top_.Signed(wire::Profile::kDocUrlFieldNumber, doc_url);
  }

  const Profile& profile_;
  internal::GzipStream* gzip_;
  Renumbering strings_;  // never asked for 0, which is "" in both
  Renumbering functions_;
  Renumbering locations_;
  std::vector<std::string> label_sets_;  // encoded; empty until used
  std::string out_;
  std::string body_text_;
  std::string line_text_;
  WireWriter top_{&out_};
  WireWriter body_{&body_text_};
};

}  // namespace

Result<std::string> EncodePprof(const Profile& profile, const PprofOptions& options) {
  TRY(profile.CheckValid());
  if (!options.gzip) return Encoder(profile, nullptr).Encode();
  internal::GzipStream gzip(options.gzip_level);
  gzip.Write(Encoder(profile, &gzip).Encode());
  return gzip.Finish();
}

Status WritePprof(const Profile& profile, ByteSink* sink, const PprofOptions& options) {
  TRY_ASSIGN(const std::string encoded, EncodePprof(profile, options));
  return sink->Write(encoded);
}

}  // namespace ptarmigan
