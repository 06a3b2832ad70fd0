#include "tests/export/profile_samples.h"

#include <random>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "model/profile_builder.h"

namespace ptarmigan {

Profile RichProfile() {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  builder.SampleType("cpu", "nanoseconds");
  const auto text = [&](std::string_view value) { return builder.String(value); };

  const MappingId app = builder.Mapping({.start = {0x400000},
                                         .limit = {0x480000},
                                         .offset = {0x1000},
                                         .file = text("/opt/app \"quoted\""),
                                         .build_id = text("0123456789abcdef"),
                                         .has_functions = true,
                                         .has_filenames = true,
                                         .has_line_numbers = true,
                                         .has_inline_frames = true});
  const MappingId kernel = builder.Mapping({.start = {0xffffffff81000000},
                                            .limit = {0xffffffffffffffff},
                                            .offset = {0},
                                            .file = text("[kernel.kallsyms]_text"),
                                            .build_id = 0});
  const auto function = [&](std::string_view name, std::string_view mangled, int64_t line) {
    return builder.Function({.name = text(name),
                             .system_name = text(mangled),
                             .file = text("/src/app.cc"),
                             .start_line = line});
  };
  const FunctionId main = function("main", "main", 10);
  const FunctionId work = function("ns::Work<int>(std::string const&)", "_ZN2ns4WorkIiEEvRKSs", 40);
  const FunctionId hot =
      function("ns::(anonymous namespace)::Hot()", "_ZN2ns12_GLOBAL__N_13HotEv", 70);
  const FunctionId semicolon = function("odd;name", "", 0);
  const FunctionId in_kernel =
      builder.Function({.name = text("do_syscall_64"), .system_name = text("do_syscall_64")});

  const std::vector<Profile::Line> work_lines = {{hot, 72, 5}, {work, 44, 9}};
  const std::vector<Profile::Line> main_line = {{main, 12, 3}};
  const std::vector<Profile::Line> kernel_line = {{in_kernel, 0, 0}};
  const std::vector<Profile::Line> odd_line = {{semicolon, 1, 0}};
  const LocationId at_work = builder.Location({.mapping = app, .address = 0x401234}, work_lines);
  const LocationId at_main = builder.Location({.mapping = app, .address = 0x401100}, main_line);
  const LocationId at_kernel =
      builder.Location({.mapping = kernel, .address = 0xffffffff81001234}, kernel_line);
  const LocationId at_odd =
      builder.Location({.mapping = app, .address = 0x401300, .is_folded = true}, odd_line);
  const LocationId unsymbolized = builder.Location({.mapping = app, .address = 0x402000}, {});
  const LocationId unmapped = builder.Location({.address = 0x7fff00001000}, {});

  const auto labels = [&](std::string_view comm, int64_t pid) {
    return builder.LabelSet(std::vector<Profile::Label>{
        {.key = text("comm"), .text = text(comm)},
        {.key = text("pid"), .number = pid},
        {.key = text("thread_start"), .number = 123456789, .number_unit = text("nanoseconds")}});
  };
  const auto add = [&](std::vector<LocationId> frames, LabelSetId set,
                       std::vector<int64_t> values) {
    builder.Add({builder.Stack(frames), set}, values);
  };
  const LabelSetId first = labels("app", 100);
  const LabelSetId second = labels("worker: 1/2", 101);
  const LabelSetId none = builder.LabelSet({});
  add({at_work, at_main}, first, {7, 70000000});
  add({at_kernel, at_work, at_main}, first, {2, 20000000});
  add({at_kernel, at_work, at_main}, second, {1, 10000000});
  add({at_odd, unsymbolized, at_main}, second, {4, 40000000});
  add({unmapped, at_main}, none, {1, 10000000});
  add({}, none, {3, 30000000});
  add({at_odd}, none, {-2, -20000000});

  Profile& profile = builder.profile();
  profile.default_sample_type = text("cpu");
  profile.time_ns = 1700000000123456789;
  profile.duration_ns = 30000000000;
  profile.period_type = {text("cpu"), text("nanoseconds")};
  profile.period = 10000000;
  profile.comments = {text("ptarmigan.host: test-7"),
                      text("ptarmigan.lost: in words of the future")};
  profile.drop_frames = text("__restore.*");
  profile.keep_frames = text("main");
  profile.doc_url = text("https://example.org/profiles");
  profile.losses.Capture(21);
  profile.losses.Keep(18);
  profile.losses.Lose(LossStage::kKernel, LossReason::kRingFull, 2);
  profile.losses.Lose(LossStage::kParse, LossReason::kTruncated, 1);
  profile.losses.Lose(LossStage::kParse, LossReason::kUnknownRecord, 5, LossUnit::kRecords);
  profile.quality.stacks_complete = 15;
  profile.quality.stacks_cut["beyond the \"dump\" \\n"] = 3;
  profile.quality.frames_symbolized = 40;
  profile.quality.frames_unsymbolized[{"/opt/app", "no\nsymbols"}] = 4;
  profile.quality.trace_bytes = {{"decoded", 4096}, {"padding", 64}};
  profile.events = {{"cpu-clock:u", 16, 160000000}, {"dummy", 0, 0}};
  return builder.Finish();
}

Profile RandomProfile(const RandomProfileShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  builder.SampleType("cpu", "nanoseconds");
  constexpr uint32_t kObjects = 24;
  for (uint64_t i = 0; i < kObjects; ++i) {
    builder.Mapping(
        {.start = {0x400000 + (i << 32)},
         .limit = {0x800000 + (i << 32)},
         .offset = {0},
         .file = builder.String(StrFormat("/usr/lib/x86_64-linux-gnu/liboct{}.so.{}", i * 7, i)),
         .build_id = builder.String(StrFormat("{:016x}{:016x}", random(), random())),
         .has_functions = true,
         .has_filenames = true,
         .has_line_numbers = true,
         .has_inline_frames = true});
  }
  std::vector<LocationId> locations;
  std::vector<FunctionId> functions;
  for (uint32_t i = 0; i < shape.locations; ++i) {
    if (i % 3 == 0) {  // three addresses in each function
      const std::string name =
          StrFormat("company::module{}::Class{}::Method{}(std::string const&, int)", below(40),
                    below(400), i);
      functions.push_back(builder.Function(
          {.name = builder.String(name),
           .system_name = builder.String(StrFormat("_ZN7company{:x}E", i * 77)),
           .file = builder.String(StrFormat("/build/src/module{}/class{}.cc", i % 40, i % 400)),
           .start_line = below(2000)}));
    }
    const Profile::Line line = {functions.back(), below(3000), 0};
    locations.push_back(
        builder.Location({.mapping = i % kObjects,
                          .address = (uint64_t{i % kObjects} << 32) + 0x400000 + below(0x400000)},
                         std::span(&line, 1)));
  }
  struct Node {
    uint32_t parent;
    LocationId location;
    uint32_t depth;
  };
  std::vector<Node> nodes = {{0, locations[0], 1}};
  std::vector<LocationId> frames;
  for (uint32_t i = 0; i < shape.samples; ++i) {
    // A call tree: start somewhere in it, go down to the wanted depth.
    uint32_t node = below(nodes.size());
    const uint32_t depth = 1 + below(2 * shape.frames - 1);
    while (nodes[node].depth > depth) node = nodes[node].parent;
    while (nodes[node].depth < depth) {
      nodes.push_back(
          {node, locations[below(below(4) == 0 ? locations.size() : 1 + locations.size() / 20)],
           nodes[node].depth + 1});
      node = static_cast<uint32_t>(nodes.size() - 1);
    }
    frames.clear();
    for (uint32_t at = node;; at = nodes[at].parent) {
      frames.push_back(nodes[at].location);
      if (at == 0) break;
    }
    const uint32_t process = below(shape.processes);
    const std::vector<Profile::Label> labels = {
        {.key = builder.String("pid"), .number = 1000 + process},
        {.key = builder.String("tid"), .number = 1000 + process + below(4)},
        {.key = builder.String("comm"), .text = builder.String(StrFormat("process-{}", process))}};
    const int64_t count = 1 + below(3);
    builder.Add({builder.Stack(frames), builder.LabelSet(labels)},
                std::vector<int64_t>{count, count * 1001001});
  }
  builder.profile().default_sample_type = builder.String("cpu");
  builder.profile().period_type = {builder.String("cpu"), builder.String("nanoseconds")};
  builder.profile().period = 1001001;
  builder.profile().time_ns = 1700000000000000000;
  builder.profile().duration_ns = 10000000000;
  return builder.Finish();
}

}  // namespace ptarmigan
