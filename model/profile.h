// Profile: aggregated samples, deduplicated; what pprof files decode to and encode from, what
// reports read and what the store keeps. Holds everything that a pprof profile can say, so
// decode(encode(p)) == p.
//
//   samples[i] = {stack, label_set}, values[i * sample_types.size() + t]
//   stack      = LocationIds, leaf first       location = mapping + address + lines (innermost
//   inline first)
//
// A plain value. Ids are indexes into the vectors; kNoId marks "no mapping" and the like. Strings
// are interned: StringId 0 is "". Not thread-safe while being changed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/large_pages.h"
#include "base/result.h"
#include "model/address.h"
#include "model/loss_ledger.h"
#include "model/quality.h"
#include "model/trace_summary.h"

namespace ptarmigan {

using StringId = uint32_t;
using MappingId = uint32_t;
using FunctionId = uint32_t;
using LocationId = uint32_t;
using StackId = uint32_t;
using LabelSetId = uint32_t;
constexpr uint32_t kNoId = UINT32_MAX;

// Texts once each, by number. What Get returned stays valid as long as the table (or what it was moved to) lives.
class StringTable {
 public:
  StringTable();
  StringTable(const StringTable& other);
  StringTable& operator=(const StringTable& other);
  StringTable(StringTable&&) noexcept = default;
  StringTable& operator=(StringTable&&) noexcept = default;

  StringId Intern(std::string_view text);
  // Nothing is added; kNoId if absent.
  StringId Find(std::string_view text) const;
  std::string_view Get(StringId id) const { return strings_[id]; }
  size_t size() const { return strings_.size(); }

 private:
  struct Slot {
    uint32_t hash = 0;  // the upper half; the lower half says where to look first
    StringId id = kNoId;
  };
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t free_bytes = 0;  // at the end
    size_t size = 0;
  };
  // The slot that holds `text`, or the empty one that waits for it.
  size_t SlotOf(std::string_view text, uint64_t hash) const;
  void Grow();
  std::string_view Keep(std::string_view text);

  std::vector<std::string_view> strings_;  // in blocks_
  std::vector<Block> blocks_;
  std::vector<Slot> slots_;  // a power of two, at most half of them used
};

struct Profile {
  struct ValueType {
    StringId type = 0;
    StringId unit = 0;
    bool operator==(const ValueType&) const = default;
  };
  struct Mapping {
    VirtAddr start;
    VirtAddr limit;
    FileOffset offset;
    StringId file = 0;
    StringId build_id = 0;  // lower-case hex
    bool has_functions = false;
    bool has_filenames = false;
    bool has_line_numbers = false;
    bool has_inline_frames = false;
    bool operator==(const Mapping&) const = default;
  };
  struct Function {
    StringId name = 0;
    StringId system_name = 0;
    StringId file = 0;
    int64_t start_line = 0;
    bool operator==(const Function&) const = default;
  };
  struct Line {
    FunctionId function = kNoId;
    int64_t line = 0;
    int64_t column = 0;
    bool operator==(const Line&) const = default;
  };
  struct Location {
    MappingId mapping = kNoId;
    uint64_t address = 0;  // in the mapping's address space: [start, limit) is where it came from
    uint32_t lines_begin = 0;  // into `lines`
    uint32_t lines_count = 0;
    bool is_folded = false;
  };
  struct Label {
    StringId key = 0;
    StringId text = 0;  // 0: numeric
    int64_t number = 0;
    StringId number_unit = 0;
    bool operator==(const Label&) const = default;
    auto operator<=>(const Label&) const = default;
  };
  struct Range {
    uint32_t begin = 0;
    uint32_t count = 0;
  };
  struct Sample {
    StackId stack = 0;
    LabelSetId labels = 0;
  };

  StringTable strings;
  std::vector<ValueType> sample_types;
  StringId default_sample_type = 0;
  std::vector<Mapping> mappings;
  std::vector<Function> functions;
  std::vector<Line> lines;
  std::vector<Location> locations;
  LargeVector<LocationId> stack_frames;  // all stacks, one after the other
  std::vector<Range> stacks;             // into stack_frames
  std::vector<Label> labels;             // all label sets, one after the other
  std::vector<Range> label_sets;         // into labels
  std::vector<Sample> samples;
  std::vector<int64_t> values;  // row-major

  int64_t time_ns = 0;  // since 1970; 0 not known
  int64_t duration_ns = 0;
  ValueType period_type;
  int64_t period = 0;
  std::vector<StringId> comments;
  StringId drop_frames = 0;
  StringId keep_frames = 0;
  StringId doc_url = 0;

  // What the recording said, beside the samples. In a pprof file these travel as comments
  // (export/).
  LossLedger losses;
  Quality quality;
  std::vector<EventTotal> events;

  // What sums per stack cannot say. Not part of a pprof file.
  TraceSummary summary;

  std::span<const LocationId> Stack(StackId id) const {
    return std::span(stack_frames).subspan(stacks[id].begin, stacks[id].count);
  }
  std::span<const Line> Lines(const Location& location) const {
    return std::span(lines).subspan(location.lines_begin, location.lines_count);
  }
  std::span<const Label> Labels(LabelSetId id) const {
    return std::span(labels).subspan(label_sets[id].begin, label_sets[id].count);
  }
  std::span<const int64_t> Values(size_t sample) const {
    return std::span(values).subspan(sample * sample_types.size(), sample_types.size());
  }
  std::string_view Text(StringId id) const { return strings.Get(id); }

  // Appends without looking for an equal one.
  StackId AddStack(std::span<const LocationId> frames);
  LabelSetId AddLabelSet(std::span<const Label> set);
  LocationId AddLocation(const Location& location, std::span<const Line> lines_of_it);
  void AddSample(Sample sample, std::span<const int64_t> values_of_it);

  // Sum of each sample type over all samples.
  std::vector<int64_t> Totals() const;
  // Index of the sample type with this name ("cpu" or "cpu/nanoseconds"; "cycles" also finds "cycles:u"); empty
  // name: the default type, else the last. kNotFound lists what there is.
  Result<size_t> SampleTypeIndex(std::string_view name) const;

  // Every id in range, no duplicate sample types, value matrix complete. The error names the first
  // fault.
  Status CheckValid() const;
};

// Sums profiles with the same sample types (in any order): stacks, locations, functions and label
// sets that say the same become one. Times: the earliest start; durations add. kInvalidInput if
// types differ.
Result<Profile> MergeProfiles(std::span<const Profile* const> profiles);

// Equal content whatever the numbering: the same multiset of (stack content, labels, values) and
// the same header fields. For tests and for `CheckValid` after a round trip.
bool EquivalentProfiles(const Profile& a, const Profile& b);

// 128-bit content ids, stable across profiles and machines.
Hash128 LocationContentId(const Profile& profile, LocationId id);
Hash128 StackContentId(std::span<const Hash128> location_ids);

}  // namespace ptarmigan
