#include "export/html.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/json_writer.h"
#include "base/str_format.h"
#include "export/internal/call_tree.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

using internal::CallTree;

constexpr std::string_view kPlaceholder = "/*PTARMIGAN_PROFILE*/";
constexpr int64_t kShapeVersion = 1;
constexpr double kSmallestShare = 1.0 / 20'000;

// Strings in the order of first use.
class TextIndex {
 public:
  int64_t Add(std::string_view text) {
    const auto [found, is_new] =
        index_.try_emplace(std::string(text), static_cast<int64_t>(texts_.size()));
    if (is_new) texts_.emplace_back(text);
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, int64_t, std::less<>> index_;
  std::vector<std::string> texts_;
};

// Both profiles over one set of stacks: the types of `other` stand behind those of `profile`.
Result<Profile> Combine(const Profile& profile, const Profile& other) {
  ProfileBuilder builder;
  std::vector<size_t> own;
  std::vector<size_t> others(other.sample_types.size());
  for (const auto& type : profile.sample_types) {
    own.push_back(builder.SampleType(profile.Text(type.type), profile.Text(type.unit)));
  }
  for (const auto& type : profile.sample_types) {
    const std::string name = StrFormat("{}/{}", profile.Text(type.type), profile.Text(type.unit));
    const auto index = other.SampleTypeIndex(name);
    if (!index) {
      return Error{ErrorCode::kInvalidInput,
                   StrFormat("the profile compared against has no sample type {}", name)};
    }
    others[*index] = builder.SampleType("\x1fother " + std::string(profile.Text(type.type)),
                                        profile.Text(type.unit));
  }
  if (other.sample_types.size() != profile.sample_types.size()) {
    return Error{ErrorCode::kInvalidInput, "the profile compared against has more sample types"};
  }
  AddProfile(profile, own, &builder);
  AddProfile(other, others, &builder);
  return builder.Finish();
}

class HtmlWriter {
 public:
  HtmlWriter(const Profile& profile, const Profile& drawn, const HtmlOptions& options,
             ByteSink* sink)
      : profile_(profile),
        drawn_(drawn),
        options_(options),
        types_(profile.sample_types.size()),
        columns_(drawn.sample_types.size()),
        tree_(drawn, {}),
        totals_(tree_.Totals()),
        json_(sink) {}

  Status Write() {
    ChooseNodes();
    json_.BeginObject();
    json_.Field("version", kShapeVersion).Field("title", options_.title);
    json_.Key("sample_types").BeginArray();
    for (const auto& type : profile_.sample_types) {
      json_.BeginObject()
          .Field("type", profile_.Text(type.type))
          .Field("unit", profile_.Text(type.unit))
          .EndObject();
    }
    json_.EndArray();
    json_.Field("default_type", static_cast<int64_t>(options_.sample_type));
    WriteNodes();
    if (options_.other != nullptr) WriteOther();
    WritePruned();
    WriteQuality();
    json_.EndObject();
    return json_.Finish();
  }

 private:
  int64_t Total(uint32_t node, size_t column) const {
    return totals_[size_t{node} * columns_ + column];
  }

  bool IsBelow(uint32_t node, double share) const {
    for (size_t column = 0; column < columns_; ++column) {
      const double whole = std::abs(static_cast<double>(Total(0, column)));
      if (std::abs(static_cast<double>(Total(node, column))) >= share * whole &&
          Total(node, column) != 0)
        return false;
    }
    return true;
  }

  // Sets order_: nodes that stay, in preorder. A node goes with everything below it.
  void ChooseNodes() {
    const size_t shown = options_.sample_type;
    const auto order = tree_.Preorder([&](uint32_t a, uint32_t b) {
      if (Total(a, shown) != Total(b, shown)) return Total(a, shown) > Total(b, shown);
      if (tree_.Name(a) != tree_.Name(b)) return tree_.Name(a) < tree_.Name(b);
      return Object(a) != Object(b) ? Object(a) < Object(b) : tree_.frame(a) < tree_.frame(b);
    });
    order_ = order;
    constexpr uint32_t kStays = UINT32_MAX;
    for (double share = kSmallestShare; order_.size() > options_.nodes_max && share < 1;
         share *= 2) {
      order_.clear();
      pruned_total_.assign(types_, 0);
      uint32_t gone_level = kStays;
      for (const uint32_t node : order) {
        const uint32_t level = tree_.node(node).level;
        if (level > gone_level) continue;
        gone_level = kStays;
        if (node != 0 && IsBelow(node, share)) {
          gone_level = level;
          for (size_t t = 0; t < types_; ++t) pruned_total_[t] += Total(node, t);
          continue;
        }
        order_.push_back(node);
      }
    }
    pruned_nodes_ = order.size() - order_.size();
  }

  std::string_view Object(uint32_t node) const {
    const CallTree::Frame& frame = tree_.frame(node);
    if (frame.object == 0 && frame.is_kernel) return "[kernel]";
    return drawn_.Text(frame.object);
  }

  template <typename Value>
  void Column(std::string_view key, const Value& value) {
    json_.Key(key).BeginArray();
    for (const uint32_t node : order_) json_.Int(value(node));
    json_.EndArray();
  }
  // One array of nodes per sample type.
  template <typename Value>
  void Columns(std::string_view key, size_t first, const Value& value) {
    json_.Key(key).BeginArray();
    for (size_t t = 0; t < types_; ++t) {
      json_.BeginArray();
      for (const uint32_t node : order_) json_.Int(value(node, first + t));
      json_.EndArray();
    }
    json_.EndArray();
  }

  void Texts(std::string_view key, const TextIndex& index) {
    json_.Key(key).BeginArray();
    for (const std::string& text : index.texts()) json_.String(text);
    json_.EndArray();
  }

  void WriteNodes() {
    TextIndex names;
    TextIndex files;
    TextIndex objects;
    std::vector<int64_t> name_of(tree_.size());
    std::vector<int64_t> file_of(tree_.size(), -1);
    std::vector<int64_t> object_of(tree_.size(), -1);
    for (const uint32_t node : order_) {
      name_of[node] = names.Add(node == 0 ? "all" : tree_.Name(node));
      const FunctionId function = tree_.node(node).function;
      if (function != kNoId && drawn_.functions[function].file != 0) {
        file_of[node] = files.Add(drawn_.Text(drawn_.functions[function].file));
      }
      if (!Object(node).empty()) object_of[node] = objects.Add(Object(node));
    }
    Texts("names", names);
    Texts("files", files);
    Texts("objects", objects);
    json_.Key("nodes").BeginObject();
    Column("level", [this](uint32_t node) { return int64_t{tree_.node(node).level}; });
    Column("name", [&](uint32_t node) { return name_of[node]; });
    Column("file", [&](uint32_t node) { return file_of[node]; });
    Column("line", [this](uint32_t node) {
      const FunctionId function = tree_.node(node).function;
      return function == kNoId ? 0 : std::max<int64_t>(drawn_.functions[function].start_line, 0);
    });
    Column("object", [&](uint32_t node) { return object_of[node]; });
    Column("inlined", [this](uint32_t node) { return int64_t{tree_.frame(node).is_inlined}; });
    WriteValues(0);
    json_.EndObject();
  }

  void WriteValues(size_t first) {
    Columns("total", first, [this](uint32_t node, size_t column) { return Total(node, column); });
    Columns("self", first,
            [this](uint32_t node, size_t column) { return tree_.Self(node)[column]; });
  }

  void WriteOther() {
    json_.Key("other").BeginObject();
    if (!options_.other_title.empty()) json_.Field("title", options_.other_title);
    WriteValues(types_);
    json_.EndObject();
  }

  void WritePruned() {
    if (pruned_nodes_ == 0) return;
    json_.Key("pruned").BeginObject().Field("nodes", static_cast<int64_t>(pruned_nodes_));
    json_.Key("total").BeginArray();
    for (const int64_t total : pruned_total_) json_.Int(total);
    json_.EndArray().EndObject();
  }

  void WriteQuality() {
    const LossLedger& losses = profile_.losses;
    const Quality& quality = profile_.quality;
    if (losses.captured() == 0 && losses.Entries().empty() && quality.empty()) return;
    json_.Key("quality").BeginObject();
    json_.Key("captured").Uint(losses.captured()).Key("kept").Uint(losses.kept());
    json_.Key("lost").BeginArray();
    for (const LossEntry& entry : losses.Entries()) {
      if (entry.unit != LossUnit::kSamples) continue;
      json_.BeginObject()
          .Field("stage", LossStageName(entry.stage))
          .Field("reason", LossReasonName(entry.reason));
      json_.Key("count").Uint(entry.count).EndObject();
    }
    json_.EndArray();
    json_.Key("stacks")
        .BeginObject()
        .Key("complete")
        .Uint(quality.stacks_complete)
        .Key("cut")
        .BeginArray();
    for (const auto& [reason, count] : quality.stacks_cut) {
      json_.BeginObject().Field("reason", reason).Key("count").Uint(count).EndObject();
    }
    json_.EndArray().EndObject();
    json_.Key("frames").BeginObject().Key("symbolized").Uint(quality.frames_symbolized);
    json_.Key("unsymbolized").BeginArray();
    for (const auto& [where, count] : quality.frames_unsymbolized) {
      json_.BeginObject().Field("object", where.first).Field("reason", where.second);
      json_.Key("count").Uint(count).EndObject();
    }
    json_.EndArray().EndObject().EndObject();
  }

  const Profile& profile_;
  const Profile& drawn_;  // profile_, or both
  const HtmlOptions& options_;
  size_t types_;
  size_t columns_;
  CallTree tree_;
  std::vector<int64_t> totals_;
  std::vector<uint32_t> order_;
  size_t pruned_nodes_ = 0;
  std::vector<int64_t> pruned_total_;
  JsonWriter json_;
};

}  // namespace

Status WriteHtmlJson(const Profile& profile, const HtmlOptions& options, ByteSink* sink) {
  TRY(profile.CheckValid());
  if (options.other == nullptr) return HtmlWriter(profile, profile, options, sink).Write();
  TRY(options.other->CheckValid());
  TRY_ASSIGN(const Profile both, Combine(profile, *options.other));
  return HtmlWriter(profile, both, options, sink).Write();
}

Status WriteHtml(const Profile& profile, const HtmlOptions& options, ByteSink* sink) {
  const size_t at = options.page.find(kPlaceholder);
  if (at == std::string_view::npos) {
    return Error{ErrorCode::kInvalidInput,
                 "the page for html exports has no place for a profile: it was not built"};
  }
  TRY(sink->Write(options.page.substr(0, at)));
  TRY(WriteHtmlJson(profile, options, sink));
  return sink->Write(options.page.substr(at + kPlaceholder.size()));
}

}  // namespace ptarmigan
