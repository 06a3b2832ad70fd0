#include "export/speedscope.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "export/internal/frame_names.h"

namespace ptarmigan {
namespace {

using internal::FrameNames;

// Units that speedscope formats; everything else is a plain number there.
std::string_view UnitName(std::string_view unit) {
  constexpr std::array<std::string_view, 5> kKnown = {"nanoseconds", "microseconds", "milliseconds",
                                                      "seconds", "bytes"};
  return std::ranges::find(kKnown, unit) != kKnown.end() ? unit : "none";
}

class SpeedscopeWriter {
 public:
  SpeedscopeWriter(const Profile& profile, ByteSink* sink)
      : profile_(profile), names_(profile), json_(sink) {}

  Status Write(const SpeedscopeOptions& options) {
    json_.BeginObject();
    json_.Field("$schema", "https://www.speedscope.app/file-format-schema.json");
    json_.Field("exporter", "ptarmigan");
    json_.Field("name", options.title);
    json_.Field("activeProfileIndex", static_cast<int64_t>(options.sample_type));
    json_.Key("shared").BeginObject().Key("frames").BeginArray();
    stacks_.resize(profile_.stacks.size());
    for (const auto& sample : profile_.samples) AddStack(sample.stack);
    json_.EndArray().EndObject();
    json_.Key("profiles").BeginArray();
    for (size_t type = 0; type < profile_.sample_types.size(); ++type) WriteType(type);
    json_.EndArray().EndObject();
    return json_.Finish();
  }

 private:
  // Writes the frames of the stack that were not met before and remembers their numbers, root first.
  void AddStack(StackId id) {
    std::vector<uint32_t>& stack = stacks_[id];
    const auto locations = profile_.Stack(id);
    if (!stack.empty() || locations.empty()) return;
    for (size_t i = locations.size(); i-- > 0;) {
      const auto& frames = names_.Frames(locations[i]);
      for (size_t j = frames.size(); j-- > 0;) stack.push_back(FrameNumber(frames[j]));
    }
  }

  uint32_t FrameNumber(const internal::NamedFrame& frame) {
    const auto lines = profile_.Lines(profile_.locations[frame.location]);
    Profile::Function function;
    if (frame.line < lines.size() && lines[frame.line].function != kNoId) {
      function = profile_.functions[lines[frame.line].function];
    }
    const auto [found, is_new] =
        frames_.try_emplace({frame.name, function.file}, static_cast<uint32_t>(frames_.size()));
    if (is_new) {
      json_.BeginObject().Field("name", names_.Text(frame.name));
      if (function.file != 0) json_.Field("file", profile_.Text(function.file));
      if (function.start_line > 0) json_.Field("line", function.start_line);
      json_.EndObject();
    }
    return found->second;
  }

  void WriteType(size_t type) {
    // Labels are not shown: rows with the same stack are one.
    std::vector<int64_t> weights(profile_.stacks.size(), 0);
    for (size_t i = 0; i < profile_.samples.size(); ++i) {
      int64_t& weight = weights[profile_.samples[i].stack];
      weight = static_cast<int64_t>(static_cast<uint64_t>(weight) +
                                    static_cast<uint64_t>(profile_.Values(i)[type]));
    }
    uint64_t total = 0;
    for (const int64_t weight : weights) total += weight > 0 ? static_cast<uint64_t>(weight) : 0;
    const auto& value_type = profile_.sample_types[type];
    json_.BeginObject().Field("type", "sampled").Field("name", profile_.Text(value_type.type));
    json_.Field("unit", UnitName(profile_.Text(value_type.unit)));
    json_.Field("startValue", 0).Key("endValue").Uint(total);
    json_.Key("samples").BeginArray();
    for (StackId id = 0; id < weights.size(); ++id) {
      if (weights[id] <= 0) continue;
      json_.BeginArray();
      for (const uint32_t frame : stacks_[id]) json_.Uint(frame);
      json_.EndArray();
    }
    json_.EndArray().Key("weights").BeginArray();
    for (const int64_t weight : weights) {
      if (weight > 0) json_.Int(weight);
    }
    json_.EndArray().EndObject();
  }

  const Profile& profile_;
  FrameNames names_;
  JsonWriter json_;
  std::map<std::pair<StringId, StringId>, uint32_t> frames_;  // (name, file)
  std::vector<std::vector<uint32_t>> stacks_;
};

}  // namespace

Status WriteSpeedscope(const Profile& profile, const SpeedscopeOptions& options, ByteSink* sink) {
  TRY(profile.CheckValid());
  return SpeedscopeWriter(profile, sink).Write(options);
}

}  // namespace ptarmigan
