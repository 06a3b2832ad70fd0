// row_per_pid [--no-symbols] [--sorted] IN.perf.data OUT.pb
//
// Writes a recording as tools do that do not make places portable: one row per process and stack, each process with
// mappings (the kernel's included) and so locations of its own; rows, locations and strings in the order in which they
// came up. What our pprof is compared with in size, after gzip. Stacks are the recorded call chains; values, names and
// inlined frames are the same as ours. With --sorted our encoder writes it, which orders everything for gzip: what
// remains between that file and ours is what portable places save.
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "export/pprof.h"
#include "model/address_space.h"
#include "model/event_source.h"
#include "model/profile_builder.h"
#include "proto/profile.pb.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan {
namespace {

SymbolizerOptions OptionsFor(bool symbols) {
  SymbolizerOptions options;
  options.symbols = symbols;
  return options;
}

class RowPerPid : public EventSink {
 public:
  explicit RowPerPid(bool symbols) : symbolizer_(OptionsFor(symbols)) {
    builder_.SampleType("samples", "count");
    builder_.SampleType("cpu", "nanoseconds");
    pid_key_ = builder_.String("pid");
  }

  void OnMmap(const MmapEvent& event) override { processes_.Apply(event); }
  void OnComm(const CommEvent& event) override { processes_.Apply(event); }
  void OnFork(const TaskEvent& event) override { processes_.ApplyFork(event); }
  void OnExit(const TaskEvent& event) override { processes_.ApplyExit(event); }
  void OnKsymbol(const KsymbolEvent& event) override { processes_.Apply(event); }

  void OnSample(const CapturedSample& sample) override {
    const int32_t pid = sample.identity.pid;
    frames_.clear();
    CpuMode mode = sample.cpumode;
    AddFrame(pid, sample.ip, mode, 0);
    bool first = true;
    for (const uint64_t entry : sample.chain) {
      if (IsContextMarker(entry)) {
        if (entry == kContextUser) mode = CpuMode::kUser;
        if (entry == kContextKernel) mode = CpuMode::kKernel;
        continue;
      }
      // The first address repeats the instruction pointer.
      if (!std::exchange(first, false)) AddFrame(pid, {entry}, mode, 1);
    }
    const Profile::Label label = {.key = pid_key_, .number = pid};
    const int64_t values[] = {1, static_cast<int64_t>(sample.period)};
    builder_.Add({.stack = builder_.Stack(frames_), .labels = builder_.LabelSet({&label, 1})},
                 values);
  }

  Profile Finish() { return builder_.Finish(); }

 private:
  void AddFrame(int32_t pid, VirtAddr address, CpuMode mode, uint64_t into_call) {
    const CodeMapping* mapping = processes_.Lookup(processes_.Find(pid), address, mode);
    const VirtAddr place = address - into_call;
    const auto key =
        std::make_tuple(pid, mapping != nullptr ? mapping->object : nullptr, place.value);
    auto [slot, is_new] = locations_.try_emplace(key, kNoId);
    if (is_new) slot->second = MakeLocation(pid, mapping, place);
    frames_.push_back(slot->second);
  }

  LocationId MakeLocation(int32_t pid, const CodeMapping* mapping, VirtAddr place) {
    if (mapping == nullptr) return builder_.Location({.address = place.value}, {});
    std::vector<Profile::Line> lines;
    InlineStack inlined;
    if (Resolve(*mapping, place, &inlined)) {
      for (const SourceFrame& frame : inlined) {
        const FunctionId function =
            builder_.Function({.name = builder_.String(frame.function),
                               .system_name = builder_.String(frame.system_name),
                               .file = builder_.String(frame.file),
                               .start_line = frame.start_line});
        lines.push_back({.function = function, .line = frame.line});
      }
    }
    return builder_.Location({.mapping = MappingOf(pid, *mapping), .address = place.value}, lines);
  }

  bool Resolve(const CodeMapping& mapping, VirtAddr place, InlineStack* inlined) {
    const ObjectSymbols* symbols = symbolizer_.Load(*mapping.object);
    if (symbols->by_runtime_address())
      return symbolizer_.ResolveRuntime(*symbols, place, UINT64_MAX, inlined);
    const auto vaddr = symbolizer_.ToVaddr(*symbols, mapping.ToFileOffset(place));
    return vaddr && symbolizer_.Resolve(*symbols, *vaddr, inlined);
  }

  // Mapping ids are per process: the table of the builder would make equal ones one.
  MappingId MappingOf(int32_t pid, const CodeMapping& mapping) {
    auto [slot, is_new] = mappings_.try_emplace({pid, mapping.start.value, mapping.object}, kNoId);
    if (is_new) {
      Profile& profile = builder_.profile();
      slot->second = static_cast<MappingId>(profile.mappings.size());
      profile.mappings.push_back({.start = mapping.start,
                                  .limit = mapping.end,
                                  .offset = mapping.file_offset,
                                  .file = builder_.String(mapping.object->path),
                                  .build_id = builder_.String(mapping.object->build_id.ToHex()),
                                  .has_functions = true});
    }
    return slot->second;
  }

  Symbolizer symbolizer_;
  ProcessTable processes_;
  ProfileBuilder builder_;
  StringId pid_key_ = 0;
  std::map<std::tuple<int32_t, const CodeObject*, uint64_t>, LocationId> locations_;
  std::map<std::tuple<int32_t, uint64_t, const CodeObject*>, MappingId> mappings_;
  std::vector<LocationId> frames_;
};

// Field by field, as it stands in memory.
std::string EncodePlainly(const Profile& profile) {
  perftools::profiles::Profile message;
  for (StringId id = 0; id < profile.strings.size(); ++id) {
    message.add_string_table(std::string(profile.Text(id)));
  }
  for (const Profile::ValueType& type : profile.sample_types) {
    auto* added = message.add_sample_type();
    added->set_type(type.type);
    added->set_unit(type.unit);
  }
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    auto* sample = message.add_sample();
    for (const LocationId id : profile.Stack(profile.samples[i].stack)) {
      sample->add_location_id(uint64_t{id} + 1);
    }
    for (const int64_t value : profile.Values(i)) sample->add_value(value);
    for (const Profile::Label& label : profile.Labels(profile.samples[i].labels)) {
      auto* added = sample->add_label();
      added->set_key(label.key);
      added->set_num(label.number);
    }
  }
  for (size_t i = 0; i < profile.mappings.size(); ++i) {
    const Profile::Mapping& mapping = profile.mappings[i];
    auto* added = message.add_mapping();
    added->set_id(i + 1);
    added->set_memory_start(mapping.start.value);
    added->set_memory_limit(mapping.limit.value);
    added->set_file_offset(mapping.offset.value);
    added->set_filename(mapping.file);
    added->set_build_id(mapping.build_id);
    added->set_has_functions(mapping.has_functions);
  }
  for (size_t i = 0; i < profile.locations.size(); ++i) {
    const Profile::Location& location = profile.locations[i];
    auto* added = message.add_location();
    added->set_id(i + 1);
    added->set_address(location.address);
    if (location.mapping != kNoId) added->set_mapping_id(uint64_t{location.mapping} + 1);
    for (const Profile::Line& line : profile.Lines(location)) {
      auto* added_line = added->add_line();
      added_line->set_function_id(uint64_t{line.function} + 1);
      added_line->set_line(line.line);
    }
  }
  for (size_t i = 0; i < profile.functions.size(); ++i) {
    const Profile::Function& function = profile.functions[i];
    auto* added = message.add_function();
    added->set_id(i + 1);
    added->set_name(function.name);
    added->set_system_name(function.system_name);
    added->set_filename(function.file);
    added->set_start_line(function.start_line);
  }
  return message.SerializeAsString();
}

struct Options {
  bool symbols = true;
  bool sorted = false;
  std::vector<std::string> files;
};

Status Run(const Options& options) {
  TRY_ASSIGN(const std::unique_ptr<EventSource> source, OpenPerfData(options.files[0]));
  RowPerPid sink(options.symbols);
  for (;;) {
    TRY_ASSIGN(const PollOutcome outcome, source->Poll(sink));
    if (outcome == PollOutcome::kEnd) break;
  }
  const Profile profile = sink.Finish();
  std::string bytes;
  if (options.sorted) {
    TRY_ASSIGN(bytes, EncodePprof(profile, {.gzip = false}));
  } else {
    bytes = EncodePlainly(profile);
  }
  TRY_ASSIGN(OutputFile file, OutputFile::Create(options.files[1]));
  TRY(file.Write(bytes));
  TRY(file.Commit());
  std::printf("%zu rows, %zu locations, %zu mappings, %zu bytes\n", profile.samples.size(),
              profile.locations.size(), profile.mappings.size(), bytes.size());
  return OkStatus();
}

}  // namespace
}  // namespace ptarmigan

int main(int argc, char** argv) {
  int child_exit = 0;
  if (ptarmigan::RunSymbolizerChildIfAsked(argc, argv, &child_exit)) return child_exit;
  ptarmigan::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--no-symbols") {
      options.symbols = false;
    } else if (argument == "--sorted") {
      options.sorted = true;
    } else {
      options.files.push_back(argument);
    }
  }
  if (options.files.size() != 2) {
    std::fprintf(stderr, "usage: row_per_pid [--no-symbols] [--sorted] IN.perf.data OUT.pb\n");
    return 2;
  }
  const ptarmigan::Status status = ptarmigan::Run(options);
  if (!status) std::fprintf(stderr, "row_per_pid: %s\n", status.error().message.c_str());
  return status ? 0 : 1;
}
