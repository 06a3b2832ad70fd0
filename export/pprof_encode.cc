#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/radix_sort.h"
#include "export/internal/compression.h"
#include "export/internal/fact_comments.h"
#include "export/internal/location_lists.h"
#include "export/internal/protobuf_wire.h"
#include "export/pprof.h"
#include "proto/profile.pb.h"

namespace ptarmigan {
namespace {

namespace wire = perftools::profiles;
// Varints below 128.
constexpr size_t kOneByteIds = 127;
// Entries between asking for memory and reading it.
constexpr size_t kAhead = 8;
constexpr size_t kFramesPerLine = 64 / sizeof(LocationId);
// Frames at the leaf, which differ most from stack to stack.
constexpr size_t kLeafFrames = 8;
using internal::PutBytes;
using internal::PutVarint;
using internal::VarintSize;
using internal::WireType;
using internal::WireWriter;

struct KeyedId {
  uint64_t key = 0;
  uint32_t id = 0;
};

// By key. Ids of equal keys come, and stay, in ascending order.
void SortByKey(std::span<KeyedId> items, std::vector<KeyedId>* scratch) {
  RadixSort(
      items, [](const KeyedId& item) { return item.key; }, scratch);
}

// The ids of all stacks, ordered from the root on, so that stacks which share callers stand side by side: their bytes
// repeat within the 32 KiB that gzip looks back over. A stack comes before those that it begins.
class StackOrder {
 public:
  explicit StackOrder(const Profile& profile)
      : profile_(profile),
        frame_bits_(static_cast<unsigned>(std::bit_width(profile.locations.size()))),
        frames_per_key_(64 / std::max(frame_bits_, 1U)),
        items_(profile.stacks.size()) {
    for (StackId id = 0; id < items_.size(); ++id) items_[id].id = id;
    // Sorts by the first frames, then those that are still alike by the next ones.
    std::vector<Alike> open = {{0, items_.size(), 0}};
    while (!open.empty()) {
      const Alike alike = open.back();
      open.pop_back();
      Sort(alike, &open);
    }
  }

  const std::vector<KeyedId>& items() const { return items_; }

 private:
  // Stacks [begin, end) of items_, whose `depth` frames at the root are the same.
  struct Alike {
    size_t begin = 0;
    size_t end = 0;
    size_t depth = 0;
  };

  void Sort(const Alike& alike, std::vector<Alike>* open) {
    for (size_t i = alike.begin; i < alike.end; ++i) {
      FetchFrames(i, alike);
      items_[i].key = Key(items_[i].id, alike.depth);
    }
    SortByKey(std::span(items_).subspan(alike.begin, alike.end - alike.begin), &scratch_);
    const uint64_t last_frame = (uint64_t{1} << frame_bits_) - 1;
    for (size_t i = alike.begin; i < alike.end;) {
      size_t end = i + 1;
      while (end < alike.end && items_[end].key == items_[i].key) ++end;
      // Without a last frame these have ended.
      if (end - i > 1 && (items_[i].key & last_frame) != 0)
        open->push_back({i, end, alike.depth + frames_per_key_});
      i = end;
    }
  }

  // Stacks lie apart in memory: asks for the frames of one behind items_[i].
  [[gnu::always_inline]] void FetchFrames(size_t i, const Alike& alike) const {
    if (i + 2 * kAhead >= alike.end) return;
    __builtin_prefetch(&profile_.stacks[items_[i + 2 * kAhead].id]);
    const auto frames = profile_.Stack(items_[i + kAhead].id);
    if (frames.size() > alike.depth) __builtin_prefetch(&frames[frames.size() - 1 - alike.depth]);
  }

  // The frames from `depth` on, the first in the highest bits; 0 behind the last.
  uint64_t Key(StackId id, size_t depth) const {
    const auto frames = profile_.Stack(id);
    uint64_t key = 0;
    for (size_t i = depth; i < depth + frames_per_key_; ++i) {
      key <<= frame_bits_;
      if (i < frames.size()) key |= uint64_t{frames[frames.size() - 1 - i]} + 1;
    }
    return key;
  }

  const Profile& profile_;
  const unsigned frame_bits_;
  const size_t frames_per_key_;
  std::vector<KeyedId> items_;
  std::vector<KeyedId> scratch_;
};

// The samples of each stack, those with one label set side by side.
class SamplesByStack {
 public:
  struct Entry {
    LabelSetId labels = 0;
    uint32_t sample = 0;
    auto operator<=>(const Entry&) const = default;
  };

  explicit SamplesByStack(const Profile& profile)
      : begin_(profile.stacks.size() + 1, 0), entries_(profile.samples.size()) {
    for (const auto& sample : profile.samples) ++begin_[sample.stack];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    for (size_t i = entries_.size(); i-- > 0;) {
      const auto& sample = profile.samples[i];
      entries_[--begin_[sample.stack]] = {sample.labels, static_cast<uint32_t>(i)};
    }
    for (StackId stack = 0; stack + 1 < begin_.size(); ++stack) {
      if (Count(stack) > 1)
        std::sort(entries_.begin() + begin_[stack], entries_.begin() + begin_[stack + 1]);
    }
  }

  uint32_t Count(StackId stack) const { return begin_[stack + 1] - begin_[stack]; }
  // Ask the memory for what Get will read.
  [[gnu::always_inline]] void FetchRange(StackId stack) const {
    __builtin_prefetch(&begin_[stack]);
  }
  [[gnu::always_inline]] void FetchEntries(StackId stack) const {
    __builtin_prefetch(entries_.data() + begin_[stack]);
  }
  std::span<const Entry> Get(StackId stack) const {
    return std::span(entries_).subspan(begin_[stack], Count(stack));
  }

 private:
  std::vector<uint32_t> begin_;  // by stack, and the end
  std::vector<Entry> entries_;
};

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
  static constexpr size_t kPieceBytes = internal::GzipStream::kPartBytes;

 public:
  // Pieces of the message go to `gzip` as they are made; null: Encode returns all of it.
  Encoder(const Profile& profile, bool all_locations, internal::GzipStream* gzip)
      : profile_(profile),
        all_locations_(all_locations),
        gzip_(gzip),
        samples_(profile),
        strings_(profile.strings.size()),
        functions_(profile.functions.size()),
        label_sets_(profile.label_sets.size()) {
    if (gzip_ != nullptr) out_.Room(kPieceBytes + (kPieceBytes >> 3U));
  }

  // The message, or what of it has not gone to `gzip`.
  std::string Encode() {
    for (const auto& type : profile_.sample_types) {
      out_.Message(wire::Profile::kSampleTypeFieldNumber, [&] { ValueType(type); });
    }
    NumberLocations();
    Samples();
    for (size_t i = 0; i < profile_.mappings.size(); ++i) {
      out_.Message(wire::Profile::kMappingFieldNumber, [&] { Mapping(i); });
    }
    Locations();
    for (const FunctionId id : functions_.order()) {
      out_.Message(wire::Profile::kFunctionFieldNumber, [&] { Function(id); });
      PassOn();
    }
    Header();
    return out_.Take();
  }

 private:
  void PassOn() {
    while (out_.size() >= kPieceBytes && gzip_ != nullptr)
      gzip_->Write(out_.Take(kPieceBytes, gzip_->Buffer()));
  }

  int64_t Text(StringId id) { return id == 0 ? 0 : strings_.Get(id); }

  void ValueType(const Profile::ValueType& type) {
    out_.Signed(wire::ValueType::kTypeFieldNumber, Text(type.type));
    out_.Signed(wire::ValueType::kUnitFieldNumber, Text(type.unit));
  }

  // The most used locations have ids of one byte. The others stand in the order of their addresses, so
  // that what their messages repeat (mapping, high address bytes, function) stands side by side.
  void NumberLocations() {
    std::vector<uint32_t> uses(profile_.locations.size(), all_locations_ ? 1 : 0);
    for (StackId stack = 0; stack < profile_.stacks.size(); ++stack) {
      const uint32_t count = samples_.Count(stack);
      for (const LocationId id : profile_.Stack(stack)) uses[id] += count;
    }
    std::vector<uint64_t> used;  // complement of the uses, location
    used.reserve(uses.size());
    for (LocationId id = 0; id < uses.size(); ++id) {
      if (uses[id] != 0) used.push_back(uint64_t{~uses[id]} << 32U | id);
    }
    const auto frequent = used.begin() + static_cast<ptrdiff_t>(std::min(used.size(), kOneByteIds));
    std::nth_element(used.begin(), frequent, used.end());
    std::sort(used.begin(), frequent);
    for (auto entry = used.begin(); entry != frequent; ++entry) {
      locations_.push_back(static_cast<LocationId>(*entry));
      uses[static_cast<LocationId>(*entry)] = 0;
    }
    for (const KeyedId& item : ByPlace(uses)) locations_.push_back(item.id);
  }

  // The locations with uses, by mapping (those without come last) and address.
  std::vector<KeyedId> ByPlace(const std::vector<uint32_t>& uses) const {
    const auto slot_of = [this](LocationId id) {
      return std::min<size_t>(profile_.locations[id].mapping, profile_.mappings.size());
    };
    std::vector<size_t> begin(profile_.mappings.size() + 2, 0);
    for (LocationId id = 0; id < uses.size(); ++id) {
      if (uses[id] != 0) ++begin[slot_of(id) + 1];
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<KeyedId> items(begin.back());
    auto next = begin;
    for (LocationId id = 0; id < uses.size(); ++id) {
      if (uses[id] != 0) items[next[slot_of(id)]++] = {profile_.locations[id].address, id};
    }
    std::vector<KeyedId> scratch;
    for (size_t slot = 0; slot + 1 < begin.size(); ++slot) {
      SortByKey(std::span(items).subspan(begin[slot], begin[slot + 1] - begin[slot]), &scratch);
    }
    return items;
  }

  void Samples() {
    const StackOrder order(profile_);
    const std::vector<KeyedId>& stacks = order.items();
    internal::LocationLists lists(locations_, profile_.locations.size());
    for (size_t i = 0; i < stacks.size(); ++i) {
      FetchSamplesAhead(stacks, i, lists);
      const auto samples = samples_.Get(stacks[i].id);
      if (samples.empty()) continue;
      const std::string_view field = lists.Field(profile_.Stack(stacks[i].id));
      for (const auto& sample : samples) {
        Sample(field, profile_.Values(sample.sample), LabelBytes(sample.labels));
        PassOn();
      }
    }
  }

  // In the order of the message the tables are read here and there, and every read would wait for memory. So what the
  // stacks behind stacks[i] need is asked for now: first where it is, a while later what is there.
  // (Inlined by force: GCC 12 drops calls of functions that only prefetch.)
  [[gnu::always_inline]] void FetchSamplesAhead(std::span<const KeyedId> stacks, size_t i,
                                                const internal::LocationLists& lists) const {
    if (i + 3 * kAhead >= stacks.size()) return;
    const StackId far = stacks[i + 3 * kAhead].id;
    __builtin_prefetch(&profile_.stacks[far]);
    samples_.FetchRange(far);
    const StackId middle = stacks[i + 2 * kAhead].id;
    const auto frames = profile_.Stack(middle);
    for (size_t frame = 0; frame < frames.size(); frame += kFramesPerLine)
      __builtin_prefetch(&frames[frame]);
    samples_.FetchEntries(middle);
    const StackId near = stacks[i + kAhead].id;
    const auto near_frames = profile_.Stack(near);
    for (const LocationId id : near_frames.first(std::min(near_frames.size(), kLeafFrames)))
      lists.Fetch(id);
    for (const auto& sample : samples_.Get(near)) {
      __builtin_prefetch(profile_.Values(sample.sample).data());
      __builtin_prefetch(&label_sets_[sample.labels]);
    }
  }

  void Locations() {
    for (size_t i = 0; i < locations_.size(); ++i) {
      if (i + 2 * kAhead < locations_.size()) {
        __builtin_prefetch(&profile_.locations[locations_[i + 2 * kAhead]]);
        __builtin_prefetch(profile_.Lines(profile_.locations[locations_[i + kAhead]]).data());
      }
      out_.Message(wire::Profile::kLocationFieldNumber,
                   [&] { Location(locations_[i], static_cast<uint32_t>(i + 1)); });
      PassOn();
    }
  }

  void Sample(std::string_view stack, std::span<const int64_t> values, std::string_view labels) {
    constexpr uint64_t kSampleTag =
        WireWriter::TagOf(wire::Profile::kSampleFieldNumber, WireType::kBytes);
    constexpr uint64_t kValuesTag =
        WireWriter::TagOf(wire::Sample::kValueFieldNumber, WireType::kBytes);
    size_t value_bytes = 0;
    for (const int64_t value : values) value_bytes += VarintSize(static_cast<uint64_t>(value));
    const size_t bytes = stack.size() + VarintSize(kValuesTag) + VarintSize(value_bytes) +
                         value_bytes + labels.size();
    char* at = out_.Room(bytes + 3 * internal::kVarintBytesMax);
    at = PutVarint(PutVarint(at, kSampleTag), bytes);
    at = PutBytes(at, stack);
    at = PutVarint(PutVarint(at, kValuesTag), value_bytes);
    for (const int64_t value : values) at = PutVarint(at, static_cast<uint64_t>(value));
    out_.Advance(PutBytes(at, labels));
  }

  // The label fields of a sample; the same for every sample with this set.
  std::string_view LabelBytes(LabelSetId id) {
    Profile::Range& range = label_sets_[id];
    if (range.count == 0 && !profile_.Labels(id).empty()) {
      range.begin = static_cast<uint32_t>(label_bytes_.size());
      for (const auto& label : profile_.Labels(id)) {
        label_bytes_.Message(wire::Sample::kLabelFieldNumber, [&] {
          label_bytes_.Signed(wire::Label::kKeyFieldNumber, Text(label.key));
          label_bytes_.Signed(wire::Label::kStrFieldNumber, Text(label.text));
          label_bytes_.Signed(wire::Label::kNumFieldNumber, label.number);
          label_bytes_.Signed(wire::Label::kNumUnitFieldNumber, Text(label.number_unit));
        });
      }
      range.count = static_cast<uint32_t>(label_bytes_.size()) - range.begin;
    }
    return label_bytes_.bytes().substr(range.begin, range.count);
  }

  void Mapping(size_t index) {
    const auto& mapping = profile_.mappings[index];
    out_.Unsigned(wire::Mapping::kIdFieldNumber, index + 1);
    out_.Unsigned(wire::Mapping::kMemoryStartFieldNumber, mapping.start.value);
    out_.Unsigned(wire::Mapping::kMemoryLimitFieldNumber, mapping.limit.value);
    out_.Unsigned(wire::Mapping::kFileOffsetFieldNumber, mapping.offset.value);
    out_.Signed(wire::Mapping::kFilenameFieldNumber, Text(mapping.file));
    out_.Signed(wire::Mapping::kBuildIdFieldNumber, Text(mapping.build_id));
    out_.Bool(wire::Mapping::kHasFunctionsFieldNumber, mapping.has_functions);
    out_.Bool(wire::Mapping::kHasFilenamesFieldNumber, mapping.has_filenames);
    out_.Bool(wire::Mapping::kHasLineNumbersFieldNumber, mapping.has_line_numbers);
    out_.Bool(wire::Mapping::kHasInlineFramesFieldNumber, mapping.has_inline_frames);
  }

  void Location(LocationId id, uint32_t number) {
    const auto& location = profile_.locations[id];
    out_.Unsigned(wire::Location::kIdFieldNumber, number);
    out_.Unsigned(wire::Location::kMappingIdFieldNumber,
                  location.mapping == kNoId ? 0 : uint64_t{location.mapping} + 1);
    out_.Unsigned(wire::Location::kAddressFieldNumber, location.address);
    for (const auto& line : profile_.Lines(location)) {
      out_.Message(wire::Location::kLineFieldNumber, [&] {
        out_.Unsigned(wire::Line::kFunctionIdFieldNumber,
                      line.function == kNoId ? 0 : functions_.Get(line.function));
        out_.Signed(wire::Line::kLineFieldNumber, line.line);
        out_.Signed(wire::Line::kColumnFieldNumber, line.column);
      });
    }
    out_.Bool(wire::Location::kIsFoldedFieldNumber, location.is_folded);
  }

  void Function(FunctionId id) {
    const auto& function = profile_.functions[id];
    out_.Unsigned(wire::Function::kIdFieldNumber, functions_.Get(id));
    out_.Signed(wire::Function::kNameFieldNumber, Text(function.name));
    out_.Signed(wire::Function::kSystemNameFieldNumber, Text(function.system_name));
    out_.Signed(wire::Function::kFilenameFieldNumber, Text(function.file));
    out_.Signed(wire::Function::kStartLineFieldNumber, function.start_line);
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

    out_.Text(wire::Profile::kStringTableFieldNumber, "");
    for (const StringId id : strings_.order())
      out_.Text(wire::Profile::kStringTableFieldNumber, profile_.Text(id));
    PassOn();
    size_t strings = strings_.order().size() + 1;
    for (const std::string& comment : internal::FactComments(profile_)) {
      out_.Text(wire::Profile::kStringTableFieldNumber, comment);
      comments.push_back(static_cast<int64_t>(strings++));
    }
    out_.Signed(wire::Profile::kDropFramesFieldNumber, drop_frames);
    out_.Signed(wire::Profile::kKeepFramesFieldNumber, keep_frames);
    out_.Signed(wire::Profile::kTimeNanosFieldNumber, profile_.time_ns);
    out_.Signed(wire::Profile::kDurationNanosFieldNumber, profile_.duration_ns);
    if (has_period_type)
      out_.Message(wire::Profile::kPeriodTypeFieldNumber, [&] { ValueType(period); });
    out_.Signed(wire::Profile::kPeriodFieldNumber, profile_.period);
    if (!comments.empty()) {
      out_.Message(wire::Profile::kCommentFieldNumber, [&] {
        for (const int64_t comment : comments) out_.Varint(static_cast<uint64_t>(comment));
      });
    }
    out_.Signed(wire::Profile::kDefaultSampleTypeFieldNumber, default_type);
    out_.Signed(wire::Profile::kDocUrlFieldNumber, doc_url);
  }

  const Profile& profile_;
  const bool all_locations_;
  internal::GzipStream* gzip_;
  SamplesByStack samples_;
  Renumbering strings_;  // never asked for 0, which is "" in both
  Renumbering functions_;
  std::vector<LocationId> locations_;       // those with the ids 1, 2, ...
  std::vector<Profile::Range> label_sets_;  // in label_bytes_; empty until used
  WireWriter label_bytes_;
  WireWriter out_;
};

// Long stacks repeat each other at length, which level 4 finds nearly as well as 5; what rows of short ones have in common
// are labels and numbers.
int GzipLevelFor(const Profile& profile) {
  constexpr size_t kLongStackFrames = 32;
  return profile.stack_frames.size() > kLongStackFrames * profile.stacks.size() ? 4 : 5;
}

}  // namespace

Result<std::string> EncodePprof(const Profile& profile, const PprofOptions& options) {
  TRY(profile.CheckValid());
  if (!options.gzip) return Encoder(profile, options.all_locations, nullptr).Encode();
  internal::GzipStream gzip(options.gzip_level > 0 ? options.gzip_level : GzipLevelFor(profile));
  gzip.Write(Encoder(profile, options.all_locations, &gzip).Encode());
  return gzip.Finish();
}

Status WritePprof(const Profile& profile, ByteSink* sink, const PprofOptions& options) {
  TRY_ASSIGN(const std::string encoded, EncodePprof(profile, options));
  return sink->Write(encoded);
}

}  // namespace ptarmigan
