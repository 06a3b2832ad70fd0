#include "pipeline/sample_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/check.h"
#include "base/str_format.h"
#include "model/stack.h"
#include "pipeline/import.h"
#include "tests/fakes/scripted_event_source.h"
#include "tests/support/jit_dump_writer.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kKernelAddress = 0xffffffff81000000;

class SamplePipelineTest : public ::testing::Test {
 protected:
  SamplePipelineTest() { clock_ = source_.AddEvent("cpu-clock", kPerfTypeSoftware, 0); }

  void Map(int32_t pid, uint64_t start, uint64_t length, uint64_t offset, std::string path) {
    source_.Play([=](EventSink& sink) {
      MmapEvent event;
      event.pid = event.tid = pid;
      event.cpumode = pid == -1 ? CpuMode::kKernel : CpuMode::kUser;
      event.start = {start};
      event.length_bytes = length;
      event.file_offset = {offset};
      event.path = path;
      sink.OnMmap(event);
    });
  }
  void Comm(int32_t pid, int32_t tid, std::string comm, bool is_exec = false) {
    source_.Play([=](EventSink& sink) {
      sink.OnComm({.identity = {}, .pid = pid, .tid = tid, .comm = comm, .is_exec = is_exec});
    });
  }
  // A sample of `event` whose ip is the chain's first address.
  void Sample(int32_t pid, std::vector<uint64_t> chain, uint64_t period = 1, uint32_t event = 0) {
    source_.Play([=](EventSink& sink) {
      CapturedSample sample;
      sample.identity.pid = sample.identity.tid = pid;
      sample.event = event;
      sample.cpumode =
          !chain.empty() && chain[0] == kContextKernel ? CpuMode::kKernel : CpuMode::kUser;
      sample.chain = chain;
      sample.has_chain = true;
      sample.ip = {chain.at(1)};
      sample.has_ip = true;
      sample.period = period;
      sink.OnSample(sample);
    });
  }
  Profile Run(PipelineOptions options = {}) {
    SymbolizerOptions symbolizer_options;
    symbolizer_options.symbols = false;
    Symbolizer symbolizer(symbolizer_options);
    auto profile = ImportRecording(source_, symbolizer, options);
    EXPECT_TRUE(profile.has_value());
    EXPECT_TRUE(profile->CheckValid().has_value());
    EXPECT_TRUE(profile->losses.Balances());
    return *std::move(profile);
  }
  // "file+0xADDRESS" per frame, leaf first.
  static std::vector<std::string> Frames(const Profile& profile, size_t sample) {
    std::vector<std::string> frames;
    for (const LocationId id : profile.Stack(profile.samples[sample].stack)) {
      const auto& location = profile.locations[id];
      const auto& mapping = profile.mappings[location.mapping];
      frames.push_back(StrFormat("{}+0x{:x}", profile.Text(mapping.file),
                                 location.address - mapping.start.value + mapping.offset.value));
    }
    return frames;
  }
  static std::string Label(const Profile& profile, size_t sample, std::string_view key) {
    for (const auto& label : profile.Labels(profile.samples[sample].labels)) {
      if (profile.Text(label.key) != key) continue;
      return label.text != 0 ? std::string(profile.Text(label.text)) : std::to_string(label.number);
    }
    return "";
  }

  ScriptedEventSource source_;
  uint32_t clock_ = 0;
};

TEST_F(SamplePipelineTest, PlacesReturnAddressesAtTheCallBeforeThem) {
  Map(1, 0x10000, 0x1000, 0x2000, "/bin/app");
  Sample(1, {kContextUser, 0x10010, 0x10020});
  const Profile profile = Run();
  EXPECT_THAT(Frames(profile, 0), ElementsAre("/bin/app+0x2010", "/bin/app+0x201f"));
}

TEST_F(SamplePipelineTest, KeepsTheInterruptedUserAddressBehindKernelFramesExact) {
  Map(-1, kKernelAddress, 0x1000000, kKernelAddress, "[kernel.kallsyms]_text");
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextKernel, kKernelAddress + 0x10, kKernelAddress + 0x20, kContextUser, 0x10100,
             0x10200});
  const Profile profile = Run();
  EXPECT_THAT(Frames(profile, 0),
              ElementsAre(StrFormat("[kernel.kallsyms]_text+0x{:x}", kKernelAddress + 0x10),
                          StrFormat("[kernel.kallsyms]_text+0x{:x}", kKernelAddress + 0x1f),
                          "/bin/app+0x100", "/bin/app+0x1ff"));
}

TEST_F(SamplePipelineTest, LeavesOutTheKernelsPartOfAPreciseUserSample) {
  Map(-1, kKernelAddress, 0x1000000, kKernelAddress, "[kernel.kallsyms]_text");
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  source_.Play([](EventSink& sink) {
    CapturedSample sample;
    sample.identity.pid = sample.identity.tid = 1;
    sample.cpumode = CpuMode::kUser;
    sample.ip = {0x10100};
    sample.has_ip = true;
    sample.chain = {kContextKernel, kKernelAddress + 0x10, kContextUser, 0x10104, 0x10200};
    sample.has_chain = true;
    sink.OnSample(sample);
  });
  EXPECT_THAT(Frames(Run(), 0), ElementsAre("/bin/app+0x100", "/bin/app+0x1ff"));
}

TEST_F(SamplePipelineTest, SharesLocationsBetweenProcesses) {
  Map(1, 0x10000, 0x1000, 0, "/lib/a.so");
  Map(2, 0x70000, 0x1000, 0, "/lib/a.so");
  Sample(1, {kContextUser, 0x10010});
  Sample(2, {kContextUser, 0x70010});
  const Profile profile = Run({.label_process = false});
  EXPECT_EQ(profile.mappings.size(), 1U);
  EXPECT_EQ(profile.locations.size(), 1U);
  ASSERT_EQ(profile.samples.size(), 1U);
  EXPECT_EQ(profile.values, (std::vector<int64_t>{2, 2}));
}

TEST_F(SamplePipelineTest, SumsPeriodsPerEventAndCountsSamplesOnce) {
  const uint32_t cycles = source_.AddEvent("cycles:u", kPerfTypeHardware, 0);
  source_.AddEvent("never", kPerfTypeRaw, 5);
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x10010}, 1000, clock_);
  Sample(1, {kContextUser, 0x10010}, 7, cycles);
  const Profile profile = Run();
  ASSERT_EQ(profile.sample_types.size(), 3U) << "events without samples have no column";
  EXPECT_EQ(profile.Text(profile.sample_types[0].type), "samples");
  EXPECT_EQ(profile.Text(profile.sample_types[1].type), "cpu");
  EXPECT_EQ(profile.Text(profile.sample_types[1].unit), "nanoseconds");
  EXPECT_EQ(profile.Text(profile.sample_types[2].type), "cycles:u");
  EXPECT_EQ(profile.Text(profile.sample_types[2].unit), "count");
  EXPECT_EQ(profile.Text(profile.default_sample_type), "cpu");
  EXPECT_EQ(profile.Totals(), (std::vector<int64_t>{2, 1000, 7}));
  ASSERT_EQ(profile.events.size(), 3U);
  EXPECT_EQ(profile.events[2], (EventTotal{"never", 0, 0}));
}

TEST_F(SamplePipelineTest, DropsSamplesOfDummyEventsAndCountsThem) {
  const uint32_t dummy = source_.AddEvent("dummy:u", kPerfTypeSoftware, 9);
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x10010});
  Sample(1, {kContextUser, 0x10010}, 1, dummy);
  const Profile profile = Run();
  EXPECT_EQ(profile.losses.Lost(LossStage::kFilter, LossReason::kDummyEvent), 1U);
  EXPECT_EQ(profile.losses.kept(), 1U);
  EXPECT_EQ(profile.Text(profile.default_sample_type), "cpu");
}

TEST_F(SamplePipelineTest, KeepsInterruptedAddressesThatNoMappingCovers) {
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x666000, 0x10020});
  const Profile profile = Run();
  const auto stack = profile.Stack(profile.samples[0].stack);
  ASSERT_EQ(stack.size(), 2U);
  EXPECT_EQ(profile.locations[stack[0]].address, 0x666000U);
  EXPECT_EQ(profile.Text(profile.mappings[profile.locations[stack[0]].mapping].file), "[unknown]");
}

TEST_F(SamplePipelineTest, MarksUnknownCallersAlikeWhateverTheFramePointerLedTo) {
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x10010, 0x666000, 0x10020});
  Sample(1, {kContextUser, 0x10010, 0x777000, 0x10020});
  const Profile profile = Run();
  ASSERT_EQ(profile.samples.size(), 1U);
  EXPECT_EQ(Frames(profile, 0).size(), 3U) << "an unknown caller is a marker, not a gap";
  const auto stack = profile.Stack(profile.samples[0].stack);
  EXPECT_EQ(profile.locations[stack[1]].address, 0U);
  EXPECT_EQ(profile.Text(profile.mappings[profile.locations[stack[1]].mapping].file), "[unknown]");
}

TEST_F(SamplePipelineTest, KeepsCallersOfAProcessWhoseMappingsAreNotRecorded) {
  Sample(1, {kContextUser, 0x10010, 0x666000});
  const Profile profile = Run();
  const auto stack = profile.Stack(profile.samples[0].stack);
  EXPECT_EQ(profile.locations[stack[1]].address, 0x665fffU + 1);
}

TEST_F(SamplePipelineTest, SaysWhenAChainEndsOutsideAllCode) {
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x10010, 0x3});
  const Profile profile = Run();
  EXPECT_EQ(Label(profile, 0, "stack_end"), "no_mapping");
  EXPECT_EQ(Label(profile, 0, "stack_origin"), "kernel_chain");
  EXPECT_EQ(profile.quality.stacks_cut.at("no_mapping"), 1U);
}

TEST_F(SamplePipelineTest, SeesTheMappingsOfTheSamplesMoment) {
  Map(1, 0x10000, 0x1000, 0, "/lib/before.so");
  Sample(1, {kContextUser, 0x10010});
  Map(1, 0x10000, 0x1000, 0, "/lib/after.so");
  Sample(1, {kContextUser, 0x10010});
  const Profile profile = Run();
  ASSERT_EQ(profile.samples.size(), 2U);
  EXPECT_THAT(Frames(profile, 0), ElementsAre("/lib/before.so+0x10"));
  EXPECT_THAT(Frames(profile, 1), ElementsAre("/lib/after.so+0x10"));
}

TEST_F(SamplePipelineTest, LabelsFollowTheThreadsName) {
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Comm(1, 1, "before");
  Sample(1, {kContextUser, 0x10010});
  Comm(1, 1, "after");
  Sample(1, {kContextUser, 0x10010});
  const Profile profile = Run();
  ASSERT_EQ(profile.samples.size(), 2U);
  EXPECT_EQ(Label(profile, 0, "comm"), "before");
  EXPECT_EQ(Label(profile, 1, "comm"), "after");
  EXPECT_EQ(Label(profile, 1, "pid"), "1");
}

TEST_F(SamplePipelineTest, CutsChainsAtItsBound) {
  Map(1, 0x10000, 0x100000, 0, "/bin/app");
  std::vector<uint64_t> chain = {kContextUser};
  for (uint64_t i = 0; i <= kStackFramesMax; ++i) chain.push_back(0x10010 + i * 16);
  Sample(1, chain);
  const Profile profile = Run();
  EXPECT_EQ(Frames(profile, 0).size(), kStackFramesMax);
  EXPECT_EQ(Label(profile, 0, "stack_end"), "frame_limit");
}

// What Frames says of a chain of user addresses in "/bin/app", mapped at 0x10000.
std::vector<std::string> ExpectedFrames(const std::vector<uint64_t>& chain) {
  std::vector<std::string> frames;
  for (size_t i = 1; i < chain.size(); ++i) {
    frames.push_back(StrFormat("/bin/app+0x{:x}", chain[i] - 0x10000 - (i > 1 ? 1 : 0)));
  }
  return frames;
}

TEST_F(SamplePipelineTest, ReadsEveryChainOfAThreadAloneWhateverItShares) {
  Map(1, 0x10000, 0x100000, 0, "/bin/app");
  std::mt19937 random(1);
  std::vector<uint64_t> stack;  // outermost first
  std::vector<std::vector<uint64_t>> chains;
  for (int i = 0; i < 2000; ++i) {
    // Calls and returns; sometimes nothing is left, sometimes nothing changes but the leaf.
    stack.resize(stack.size() - std::min<size_t>(stack.size(), random() % 8));
    for (size_t calls = random() % 8; calls > 0; --calls) {
      stack.push_back(0x10010 + random() % 16 * 16);
    }
    std::vector<uint64_t> chain = {kContextUser, 0x20000 + static_cast<uint64_t>(i)};
    chain.insert(chain.end(), stack.rbegin(), stack.rend());
    chains.push_back(chain);
    Sample(1, chain);
  }
  const Profile profile = Run();
  ASSERT_EQ(profile.samples.size(), chains.size());
  for (size_t i = 0; i < chains.size(); ++i) {
    ASSERT_EQ(Frames(profile, i), ExpectedFrames(chains[i])) << i;
  }
}

TEST_F(SamplePipelineTest, PlacesSharedCallersAnewAfterTheMappingsChanged) {
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x10010, 0x10020, 0x10030});
  Map(1, 0x10000, 0x1000, 0x4000, "/bin/app");
  Sample(1, {kContextUser, 0x10011, 0x10020, 0x10030});
  const Profile profile = Run();
  EXPECT_THAT(Frames(profile, 0), ElementsAre("/bin/app+0x10", "/bin/app+0x1f", "/bin/app+0x2f"));
  EXPECT_THAT(Frames(profile, 1),
              ElementsAre("/bin/app+0x4011", "/bin/app+0x401f", "/bin/app+0x402f"));
}

TEST_F(SamplePipelineTest, PlacesKnownAddressesAnewAfterTheMappingsChanged) {
  Map(1, 0x10000, 0x1000, 0, "/bin/one");
  Map(2, 0x10000, 0x1000, 0, "/bin/two");
  // (Different leaves, so that no chain repeats.)
  Sample(1, {kContextUser, 0x10010, 0x10020});
  Sample(2, {kContextUser, 0x10011, 0x10020});
  Sample(1, {kContextUser, 0x10012, 0x10020});
  Map(1, 0x10000, 0x1000, 0, "/bin/three");
  Sample(1, {kContextUser, 0x10013, 0x10020});
  const Profile profile = Run();
  EXPECT_THAT(Frames(profile, 0), ElementsAre("/bin/one+0x10", "/bin/one+0x1f"));
  EXPECT_THAT(Frames(profile, 1), ElementsAre("/bin/two+0x11", "/bin/two+0x1f"));
  EXPECT_THAT(Frames(profile, 2), ElementsAre("/bin/one+0x12", "/bin/one+0x1f"));
  EXPECT_THAT(Frames(profile, 3), ElementsAre("/bin/three+0x13", "/bin/three+0x1f"));
}

TEST_F(SamplePipelineTest, PlacesEveryAddressAsIfItWereTheOnlyOne) {
  // More addresses than are remembered, in two processes, seen again and again in any order.
  Map(1, 0x10000, 0x100000, 0, "/bin/one");
  Map(2, 0x10000, 0x100000, 0, "/bin/two");
  std::mt19937 random(1);
  std::vector<std::vector<std::string>> expected;
  for (int i = 0; i < 3000; ++i) {
    const int32_t pid = 1 + i % 2;
    std::vector<uint64_t> chain = {kContextUser};
    expected.emplace_back();
    const size_t frames = 6 + random() % 30;  // (so many that no stack repeats)
    while (chain.size() <= frames) {
      const uint64_t offset = 1 + random() % (i % 3 == 0 ? 0xfffff : 100);
      chain.push_back(0x10000 + offset);
      expected.back().push_back(StrFormat("/bin/{}+0x{:x}", pid == 1 ? "one" : "two",
                                          chain.size() == 2 ? offset : offset - 1));
    }
    Sample(pid, chain);
  }
  const Profile profile = Run();
  ASSERT_EQ(profile.samples.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(Frames(profile, i), expected[i]) << i;
}

TEST_F(SamplePipelineTest, SharesNoCallersAcrossTheKernelsPart) {
  Map(-1, kKernelAddress, 0x1000000, kKernelAddress, "[kernel.kallsyms]_text");
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x10010, 0x10020, 0x10030});
  Sample(1, {kContextKernel, kKernelAddress + 0x10, kContextUser, 0x10020, 0x10030});
  Sample(1, {kContextUser, 0x10020, 0x10030});
  const Profile profile = Run();
  EXPECT_THAT(Frames(profile, 1),
              ElementsAre(StrFormat("[kernel.kallsyms]_text+0x{:x}", kKernelAddress + 0x10),
                          "/bin/app+0x20", "/bin/app+0x2f"));
  EXPECT_THAT(Frames(profile, 2), ElementsAre("/bin/app+0x20", "/bin/app+0x2f"));
}

TEST_F(SamplePipelineTest, KeepsTheLimitOfFramesWithSharedCallers) {
  Map(1, 0x10000, 0x100000, 0, "/bin/app");
  std::vector<uint64_t> chain = {kContextUser, 0x10010};
  while (chain.size() < kStackFramesMax + 1) chain.push_back(0x10020);
  Sample(1, chain);
  chain.insert(chain.begin() + 2, 0x10030);  // one too many
  Sample(1, chain);
  const Profile profile = Run();
  ASSERT_EQ(profile.samples.size(), 2U);
  EXPECT_EQ(Frames(profile, 0).size(), kStackFramesMax);
  EXPECT_EQ(Label(profile, 0, "stack_end"), "");
  EXPECT_EQ(Frames(profile, 1).size(), kStackFramesMax);
  EXPECT_EQ(Label(profile, 1, "stack_end"), "frame_limit");
}

TEST_F(SamplePipelineTest, MakesOneLocationOfOneAddressThoughItsFileWasReplaced) {
  // Without build ids the two files are told apart by their inodes, but nothing of that is in a profile.
  for (const int32_t pid : {1, 2}) {
    source_.Play([=](EventSink& sink) {
      MmapEvent event;
      event.pid = event.tid = pid;
      event.cpumode = CpuMode::kUser;
      event.start = {0x10000};
      event.length_bytes = 0x1000;
      event.path = "/bin/app";
      event.inode = static_cast<uint64_t>(pid);
      sink.OnMmap(event);
    });
    Sample(pid, {kContextUser, 0x10010, 0x10020});
  }
  const Profile profile = Run({.label_process = false});
  EXPECT_EQ(profile.locations.size(), 2U);
  EXPECT_EQ(profile.stacks.size(), 1U);
  ASSERT_EQ(profile.samples.size(), 1U);
  EXPECT_EQ(profile.Values(0)[0], 2);
}

TEST_F(SamplePipelineTest, LosesSamplesWithAReasonAtItsMemoryBound) {
  Map(1, 0x10000, 0x100000, 0, "/bin/app");
  for (uint64_t i = 0; i < 10'000; ++i) Sample(1, {kContextUser, 0x10010 + i * 16});
  const Profile profile = Run({.memory_bytes_max = 200'000});
  EXPECT_GT(profile.losses.Lost(LossStage::kBuild, LossReason::kLimit), 0U);
  EXPECT_GT(profile.losses.kept(), 0U);
}

TEST_F(SamplePipelineTest, AddsUpTheCyclesOfARunThatSeveralBranchesLeadInto) {
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  const uint32_t lbr = source_.AddEvent("branches", kPerfTypeHardware, 4);
  EventAttr& attr = source_.mutable_description().events[lbr].attr;
  attr.sample_type |= kSampleBranchStack;
  attr.branch_sample_type = kBranchAny;
  // More of one kind than a counter of 16 bits holds, and cycles beyond those that most runs take, in no order.
  constexpr uint64_t kSamples = 70'000;
  const auto cycles_of = [](uint64_t i) -> uint64_t {
    return i % 1000 == 999 ? 900 - i / 1000 : i % 1000 == 998 ? 64 + i / 1000 : 5;
  };
  std::map<uint32_t, uint64_t> truth;
  for (uint64_t i = 0; i < kSamples; ++i) truth[static_cast<uint32_t>(cycles_of(i))] += 2;
  source_.Play([=](EventSink& sink) {
    CapturedSample sample;
    sample.identity.pid = sample.identity.tid = 1;
    sample.event = lbr;
    sample.cpumode = CpuMode::kUser;
    sample.ip = {0x10020};
    sample.has_ip = true;
    sample.has_branches = true;
    for (uint64_t i = 0; i < 2 * kSamples; ++i) {
      const uint64_t from = i % 2 == 0 ? 0x10100 : 0x10200;
      sample.branches = {{.from = 0x10020, .to = 0x10080, .cycles = cycles_of(i / 2) & 0xffff},
                         {.from = from, .to = 0x10010}};
      sink.OnSample(sample);
    }
  });
  const BranchSummary branches = Run().summary.branches;
  ASSERT_EQ(branches.blocks.size(), 1U);
  EXPECT_EQ(branches.blocks[0].count, 2 * kSamples);
  std::map<uint32_t, uint64_t> found;
  uint32_t last = 0;
  for (const auto& [cycles, executions] : branches.Cycles(branches.blocks[0])) {
    EXPECT_GT(cycles, last);
    last = cycles;
    found[cycles] = executions;
  }
  EXPECT_EQ(found, truth);
}

TEST_F(SamplePipelineTest, UsesBranchStacksAsStacksOnlyInCallStackMode) {
  const uint32_t lbr = source_.AddEvent("cycles", kPerfTypeHardware, 0);
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  for (const bool call_stack : {false, true}) {
    source_.Play([=, this](EventSink& sink) {
      source_.mutable_description().events[lbr].attr.branch_sample_type =
          call_stack ? uint64_t{kBranchCallStack} : uint64_t{0};
      CapturedSample sample;
      sample.identity.pid = sample.identity.tid = 1;
      sample.event = lbr;
      sample.cpumode = CpuMode::kUser;
      sample.ip = {0x10050};
      sample.has_ip = true;
      sample.period = 1;
      sample.branches = {{.from = 0x10010, .to = 0x10040}, {.from = 0x10020, .to = 0x10000}};
      sample.has_branches = true;
      sink.OnSample(sample);
    });
  }
  const Profile profile = Run();
  ASSERT_EQ(profile.samples.size(), 2U);
  EXPECT_THAT(Frames(profile, 0), ElementsAre("/bin/app+0x50"));
  EXPECT_THAT(Frames(profile, 1), ElementsAre("/bin/app+0x50", "/bin/app+0x10", "/bin/app+0x20"));
  EXPECT_EQ(Label(profile, 1, "stack_origin"), "lbr");
}

// The function at 0x20000 of process 5 is "before" until 200 ns, then "after"; sampled once and twice.
class JitPipelineTest : public SamplePipelineTest {
 protected:
  Profile RunJit(std::string_view name, const CapturedSample& sample) {
    const std::string path = TestTemporaryDirectory() + StrFormat("/{}/jit-5.dump", name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    JitDumpWriter writer(std::endian::native, 5);
    writer.Load(100, 0x20000, 0x100, "before");
    writer.Load(200, 0x20000, 0x100, "after");
    std::ofstream(path, std::ios::binary) << writer.bytes();
    Map(5, 0x90000, 0x1000, 0, path);
    Map(5, 0x20000, 0x1000, 0, "//anon");
    for (const uint64_t time_ns : {uint64_t{150}, uint64_t{250}, uint64_t{260}}) {
      source_.Play([time_ns, sample](EventSink& sink) {
        CapturedSample timed = sample;
        timed.identity.pid = timed.identity.tid = 5;
        timed.identity.time_ns = time_ns;
        timed.identity.has_time = true;
        timed.cpumode = CpuMode::kUser;
        timed.ip = {0x20010};
        timed.has_ip = true;
        sink.OnSample(timed);
      });
    }
    SymbolizerOptions options;
    options.cache_directory = "-";
    Symbolizer symbolizer(options);
    auto profile = ImportRecording(source_, symbolizer, {});
    CHECK(profile.has_value());
    return std::move(*profile);
  }
  static std::string FunctionAt(const Profile& profile, LocationId location) {
    const auto lines = profile.Lines(profile.locations[location]);
    return lines.size() == 1 ? std::string(profile.Text(profile.functions[lines[0].function].name))
                             : "";
  }
};

TEST_F(JitPipelineTest, NamesCodeAsItWasAtTheSamplesTime) {
  CapturedSample sample;
  sample.chain = {kContextUser, 0x20010};
  sample.has_chain = true;
  const Profile profile = RunJit("chain", sample);
  std::map<std::string, int64_t> samples;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    samples[FunctionAt(profile, profile.Stack(profile.samples[i].stack)[0])] +=
        profile.Values(i)[0];
  }
  EXPECT_EQ(samples, (std::map<std::string, int64_t>{{"before", 1}, {"after", 2}}));
}

TEST_F(JitPipelineTest, NamesBranchesAsTheyWereAtTheSamplesTime) {
  const uint32_t lbr = source_.AddEvent("cycles", kPerfTypeHardware, 0);
  EventAttr& attr = source_.mutable_description().events[lbr].attr;
  attr.sample_type |= kSampleBranchStack;
  attr.branch_sample_type = kBranchAny;
  CapturedSample sample;
  sample.event = lbr;
  sample.branches = {{.from = 0x20010, .to = 0x20004, .predicted = 1, .cycles = 3},
                     {.from = 0x20010, .to = 0x20004, .predicted = 1, .cycles = 3}};
  sample.has_branches = true;
  const Profile profile = RunJit("branches", sample);
  std::map<std::string, uint64_t> edges;
  for (const BranchSummary::Edge& edge : profile.summary.branches.edges) {
    EXPECT_EQ(FunctionAt(profile, edge.from), FunctionAt(profile, edge.to));
    edges[FunctionAt(profile, edge.from)] += edge.count;
  }
  EXPECT_EQ(edges, (std::map<std::string, uint64_t>{{"before", 2}, {"after", 4}}));
  std::map<std::string, uint64_t> blocks;
  for (const BranchSummary::Block& block : profile.summary.branches.blocks) {
    blocks[FunctionAt(profile, block.start)] += block.count;
  }
  EXPECT_EQ(blocks, (std::map<std::string, uint64_t>{{"before", 1}, {"after", 2}}));
}

TEST_F(SamplePipelineTest, KeepsWhatCameBeforeTheSourceFailed) {
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x10010});
  source_.FailAtEnd({ErrorCode::kTruncated, "cut"});
  EXPECT_EQ(Run().samples.size(), 1U);
}

TEST_F(SamplePipelineTest, FailsIfTheSourceGaveNothing) {
  source_.FailAtEnd({ErrorCode::kTruncated, "cut"});
  SymbolizerOptions options;
  options.symbols = false;
  Symbolizer symbolizer(options);
  const auto profile = ImportRecording(source_, symbolizer, {});
  ASSERT_FALSE(profile.has_value());
  EXPECT_EQ(profile.error().code, ErrorCode::kTruncated);
}

TEST_F(SamplePipelineTest, CountsWhatTheSourceLost) {
  Map(1, 0x10000, 0x1000, 0, "/bin/app");
  Sample(1, {kContextUser, 0x10010});
  source_.mutable_losses().Lose(LossStage::kKernel, LossReason::kRingFull, uint64_t{1} << 40);
  const Profile profile = Run();
  EXPECT_EQ(profile.losses.captured(), (uint64_t{1} << 40) + 1);
}

}  // namespace
}  // namespace ptarmigan
