#include "export/firefox.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/json_writer.h"
#include "base/str_format.h"
#include "export/internal/frame_names.h"

namespace ptarmigan {
namespace {

using internal::FrameNames;
using internal::NamedFrame;

constexpr int64_t kFormatVersion = 48;
constexpr int64_t kCategoryUser = 0;
constexpr int64_t kCategoryKernel = 1;

struct ThreadKey {
  int64_t pid = 0;
  int64_t tid = 0;
  std::string comm;
  auto operator<=>(const ThreadKey&) const = default;
};

ThreadKey KeyOf(const Profile& profile, LabelSetId labels) {
  ThreadKey key;
  for (const auto& label : profile.Labels(labels)) {
    const std::string_view name = profile.Text(label.key);
    if (name == "pid") key.pid = label.number;
    if (name == "tid") key.tid = label.number;
    if (name == "comm") key.comm = profile.Text(label.text);
  }
  return key;
}

// A unit that is a time, in nanoseconds; 0 if it is none.
int64_t UnitNanoseconds(std::string_view unit) {
  if (unit == "nanoseconds") return 1;
  if (unit == "microseconds") return 1'000;
  if (unit == "milliseconds") return 1'000'000;
  if (unit == "seconds") return 1'000'000'000;
  return 0;
}

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

// The tables of one thread: strings, functions, frames, stacks and resources in the order of first use.
class ThreadTables {
 public:
  struct Func {
    uint32_t name = 0;
    int32_t resource = -1;
    int32_t file = -1;
    int64_t line = 0;
  };
  struct Frame {
    uint32_t func = 0;
    int64_t line = 0;
    int64_t column = 0;
    uint32_t inline_depth = 0;
    bool is_kernel = false;
  };
  struct Stack {
    int64_t prefix = -1;
    uint32_t frame = 0;
  };

  ThreadTables(const Profile& profile, FrameNames* names) : profile_(profile), names_(*names) {}

  uint32_t String(std::string_view text) {
    const auto [found, is_new] =
        string_index_.try_emplace(std::string(text), static_cast<uint32_t>(strings.size()));
    if (is_new) strings.emplace_back(text);
    return found->second;
  }

  // The stack's number; -1 for a sample without frames.
  int64_t AddStack(StackId id) {
    int64_t prefix = -1;
    const auto locations = profile_.Stack(id);
    for (size_t i = locations.size(); i-- > 0;) {
      const auto& named = names_.Frames(locations[i]);
      for (size_t j = named.size(); j-- > 0;) {
        const uint32_t frame = FrameNumber(named[j], static_cast<uint32_t>(named.size() - 1 - j));
        const auto [found, is_new] =
            stack_index_.try_emplace({prefix, frame}, static_cast<int64_t>(stacks.size()));
        if (is_new) stacks.push_back({prefix, frame});
        prefix = found->second;
      }
    }
    return prefix;
  }

  std::vector<std::string> strings;
  std::vector<Func> funcs;
  std::vector<Frame> frames;
  std::vector<Stack> stacks;
  std::vector<uint32_t> resource_names;  // one resource per object

 private:
  uint32_t FrameNumber(const NamedFrame& frame, uint32_t inline_depth) {
    const auto [found, is_new] = frame_index_.try_emplace({frame.location, frame.line},
                                                          static_cast<uint32_t>(frames.size()));
    if (!is_new) return found->second;
    const Profile::Location& location = profile_.locations[frame.location];
    const auto lines = profile_.Lines(location);
    const Profile::Line line = frame.line < lines.size() ? lines[frame.line] : Profile::Line{};
    frames.push_back({.func = FuncNumber(frame, location, line),
                      .line = line.line,
                      .column = line.column,
                      .inline_depth = inline_depth,
                      .is_kernel = frame.is_kernel});
    return found->second;
  }

  uint32_t FuncNumber(const NamedFrame& frame, const Profile::Location& location,
                      const Profile::Line& line) {
    Func func;
    func.name = String(names_.Text(frame.name));
    if (location.mapping != kNoId) {
      const StringId object = profile_.mappings[location.mapping].file;
      const auto [found, is_new] =
          resource_index_.try_emplace(object, static_cast<int32_t>(resource_names.size()));
      if (is_new) resource_names.push_back(String(internal::BaseName(profile_.Text(object))));
      func.resource = found->second;
    }
    if (line.function != kNoId) {
      const auto& function = profile_.functions[line.function];
      if (function.file != 0)
        func.file = static_cast<int32_t>(String(profile_.Text(function.file)));
      func.line = function.start_line;
    }
    const auto key = std::tuple(func.name, func.resource, func.file);
    const auto [found, is_new] = func_index_.try_emplace(key, static_cast<uint32_t>(funcs.size()));
    if (is_new) funcs.push_back(func);
    return found->second;
  }

  const Profile& profile_;
  FrameNames& names_;
  std::unordered_map<std::string, uint32_t> string_index_;
  std::map<std::pair<LocationId, uint32_t>, uint32_t> frame_index_;
  std::map<std::tuple<uint32_t, int32_t, int32_t>, uint32_t> func_index_;
  std::map<std::pair<int64_t, uint32_t>, int64_t> stack_index_;
  std::map<StringId, int32_t> resource_index_;
};

class FirefoxWriter {
 public:
  FirefoxWriter(const Profile& profile, const FirefoxOptions& options, ByteSink* sink)
      : profile_(profile),
        options_(options),
        names_(profile),
        unit_ns_(UnitNanoseconds(profile.Text(profile.sample_types[options.sample_type].unit))),
        json_(sink) {}

  Status Write() {
    json_.BeginObject();
    WriteMeta();
    json_.Key("libs").BeginArray().EndArray();
    json_.Key("pages").BeginArray().EndArray();
    json_.Key("counters").BeginArray().EndArray();
    json_.Key("profilerOverhead").BeginArray().EndArray();
    json_.Key("threads").BeginArray();
    std::map<ThreadKey, std::vector<uint32_t>> threads;
    for (uint32_t i = 0; i < profile_.samples.size(); ++i) {
      threads[KeyOf(profile_, profile_.samples[i].labels)].push_back(i);
    }
    if (threads.empty()) threads[{}] = {};
    for (const auto& [key, samples] : threads) WriteThread(key, samples);
    json_.EndArray().EndObject();
    return json_.Finish();
  }

 private:
  // A column of a table: one value per item.
  template <typename Items, typename Value>
  void Column(std::string_view key, const Items& items, const Value& value) {
    json_.Key(key).BeginArray();
    for (const auto& item : items) value(item);
    json_.EndArray();
  }
  void NumberOrNull(int64_t number, bool is_known) {
    if (is_known) {
      json_.Int(number);
    } else {
      json_.Null();
    }
  }

  void WriteMeta() {
    json_.Key("meta").BeginObject();
    json_.Field("version", 24)
        .Field("preprocessedProfileVersion", kFormatVersion)
        .Field("processType", 0);
    json_.Field("product", options_.title.empty() ? "ptarmigan" : options_.title);
    json_.Field("importedFrom", "ptarmigan").Field("stackwalk", 1);
    json_.Key("debug").Bool(false).Key("symbolicated").Bool(true);
    json_.Key("startTime").Milliseconds(profile_.time_ns);
    const bool has_period =
        UnitNanoseconds(profile_.Text(profile_.period_type.unit)) > 0 && profile_.period > 0;
    const int64_t interval_ns =
        has_period ? SaturatingMultiply(profile_.period,
                                        UnitNanoseconds(profile_.Text(profile_.period_type.unit)))
                   : 1'000'000;
    json_.Key("interval").Milliseconds(interval_ns);
    json_.Key("categories").BeginArray();
    for (const auto& [name, color] : {std::pair("User", "yellow"), std::pair("Kernel", "orange")}) {
      json_.BeginObject().Field("name", name).Field("color", color);
      json_.Key("subcategories").BeginArray().String("Other").EndArray().EndObject();
    }
    json_.EndArray();
    json_.Key("markerSchema").BeginArray().EndArray();
    json_.Key("usesOnlyOneStackType").Bool(true).Key("doesNotUseFrameImplementation").Bool(true);
    json_.Key("sourceCodeIsNotOnSearchfox").Bool(true);
    json_.EndObject();
  }

  void WriteThread(const ThreadKey& key, const std::vector<uint32_t>& samples) {
    ThreadTables tables(profile_, &names_);
    std::vector<int64_t> stacks;
    stacks.reserve(samples.size());
    for (const uint32_t sample : samples)
      stacks.push_back(tables.AddStack(profile_.samples[sample].stack));
    json_.BeginObject();
    const std::string name = key.comm.empty() ? StrFormat("thread {}", key.tid) : key.comm;
    json_.Field("name", name).Field("processName", name).Field("processType", "default");
    json_.Key("isMainThread").Bool(key.pid == key.tid);
    json_.Field("pid", StrFormat("{}", key.pid)).Field("tid", key.tid);
    json_.Field("processStartupTime", 0).Key("processShutdownTime").Null();
    json_.Field("registerTime", 0).Key("unregisterTime").Null();
    json_.Key("pausedRanges").BeginArray().EndArray();
    WriteSamples(samples, stacks);
    WriteTables(tables);
    WriteEmptyTables();
    Column("stringArray", tables.strings, [this](const std::string& text) { json_.String(text); });
    json_.EndObject();
  }

  void WriteSamples(const std::vector<uint32_t>& samples, const std::vector<int64_t>& stacks) {
    const std::string_view unit = profile_.Text(profile_.sample_types[options_.sample_type].unit);
    json_.Key("samples").BeginObject();
    json_.Field("length", static_cast<int64_t>(samples.size()));
    Column("stack", stacks, [this](int64_t stack) { NumberOrNull(stack, stack >= 0); });
    const auto value = [this](uint32_t sample) {
      return profile_.Values(sample)[options_.sample_type];
    };
    json_.Key("time").BeginArray();
    int64_t time_ns = 0;
    constexpr int64_t kPlainStepNs = 1'000'000;
    for (const uint32_t sample : samples) {
      json_.Milliseconds(time_ns);
      const int64_t step_ns =
          unit_ns_ > 0 ? SaturatingMultiply(std::max<int64_t>(value(sample), 0), unit_ns_)
                       : kPlainStepNs;
      if (__builtin_add_overflow(time_ns, step_ns, &time_ns)) time_ns = INT64_MAX;
    }
    json_.EndArray();
    json_.Field("weightType", unit_ns_ > 0 ? "tracing-ms" : unit == "bytes" ? "bytes" : "samples");
    json_.Key("weight").BeginArray();
    for (const uint32_t sample : samples) {
      if (unit_ns_ > 0) {
        json_.Milliseconds(SaturatingMultiply(value(sample), unit_ns_));
      } else {
        json_.Int(value(sample));
      }
    }
    json_.EndArray().EndObject();
  }

  void WriteTables(const ThreadTables& tables) {
    using Frame = ThreadTables::Frame;
    using Func = ThreadTables::Func;
    using Stack = ThreadTables::Stack;
    const auto category_of = [&tables](const Stack& stack) {
      return tables.frames[stack.frame].is_kernel ? kCategoryKernel : kCategoryUser;
    };
    json_.Key("stackTable")
        .BeginObject()
        .Field("length", static_cast<int64_t>(tables.stacks.size()));
    Column("prefix", tables.stacks,
           [this](const Stack& stack) { NumberOrNull(stack.prefix, stack.prefix >= 0); });
    Column("frame", tables.stacks, [this](const Stack& stack) { json_.Uint(stack.frame); });
    Column("category", tables.stacks, [&](const Stack& stack) { json_.Int(category_of(stack)); });
    Column("subcategory", tables.stacks, [this](const Stack&) { json_.Int(0); });
    json_.EndObject();

    json_.Key("frameTable")
        .BeginObject()
        .Field("length", static_cast<int64_t>(tables.frames.size()));
    Column("address", tables.frames, [this](const Frame&) { json_.Int(-1); });
    Column("inlineDepth", tables.frames,
           [this](const Frame& frame) { json_.Uint(frame.inline_depth); });
    Column("category", tables.frames, [this](const Frame& frame) {
      json_.Int(frame.is_kernel ? kCategoryKernel : kCategoryUser);
    });
    Column("subcategory", tables.frames, [this](const Frame&) { json_.Int(0); });
    Column("func", tables.frames, [this](const Frame& frame) { json_.Uint(frame.func); });
    Column("nativeSymbol", tables.frames, [this](const Frame&) { json_.Null(); });
    Column("innerWindowID", tables.frames, [this](const Frame&) { json_.Null(); });
    Column("implementation", tables.frames, [this](const Frame&) { json_.Null(); });
    Column("line", tables.frames,
           [this](const Frame& frame) { NumberOrNull(frame.line, frame.line > 0); });
    Column("column", tables.frames,
           [this](const Frame& frame) { NumberOrNull(frame.column, frame.column > 0); });
    json_.EndObject();

    json_.Key("funcTable").BeginObject().Field("length", static_cast<int64_t>(tables.funcs.size()));
    Column("name", tables.funcs, [this](const Func& func) { json_.Uint(func.name); });
    Column("isJS", tables.funcs, [this](const Func&) { json_.Bool(false); });
    Column("relevantForJS", tables.funcs, [this](const Func&) { json_.Bool(false); });
    Column("resource", tables.funcs, [this](const Func& func) { json_.Int(func.resource); });
    Column("fileName", tables.funcs,
           [this](const Func& func) { NumberOrNull(func.file, func.file >= 0); });
    Column("lineNumber", tables.funcs,
           [this](const Func& func) { NumberOrNull(func.line, func.line > 0); });
    Column("columnNumber", tables.funcs, [this](const Func&) { json_.Null(); });
    json_.EndObject();

    constexpr int64_t kResourceIsLibrary = 1;
    json_.Key("resourceTable")
        .BeginObject()
        .Field("length", static_cast<int64_t>(tables.resource_names.size()));
    Column("lib", tables.resource_names, [this](uint32_t) { json_.Null(); });
    Column("name", tables.resource_names, [this](uint32_t name) { json_.Uint(name); });
    Column("host", tables.resource_names, [this](uint32_t) { json_.Null(); });
    Column("type", tables.resource_names, [this](uint32_t) { json_.Int(kResourceIsLibrary); });
    json_.EndObject();
  }

  void WriteEmptyTables() {
    const std::vector<int> none;
    json_.Key("markers").BeginObject().Field("length", 0);
    for (const char* column : {"category", "data", "endTime", "name", "phase", "startTime"}) {
      Column(column, none, [](int) {});
    }
    json_.EndObject();
    json_.Key("nativeSymbols").BeginObject().Field("length", 0);
    for (const char* column : {"address", "functionSize", "libIndex", "name"})
      Column(column, none, [](int) {});
    json_.EndObject();
  }

  const Profile& profile_;
  const FirefoxOptions& options_;
  FrameNames names_;
  int64_t unit_ns_;
  JsonWriter json_;
};

}  // namespace

Status WriteFirefox(const Profile& profile, const FirefoxOptions& options, ByteSink* sink) {
  TRY(profile.CheckValid());
  return FirefoxWriter(profile, options, sink).Write();
}

}  // namespace ptarmigan
