// Call stacks of branch records against the stacks that were really there (lbr-synth): what is called complete is right,
// and what is wrong says so.
#include "pipeline/internal/lbr_stack.h"

#include <gtest/gtest.h>

#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "decode/perf_data_file.h"
#include "pipeline/import.h"
#include "pipeline/internal/user_unwinder.h"
#include "symbolize/symbolizer.h"
#include "tests/fakes/scripted_event_source.h"
#include "tests/support/byte_writer.h"
#include "tests/support/cfi_bytes.h"
#include "tests/support/elf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan::internal {
namespace {

struct SeenStack {
  std::vector<LbrFrame> frames;
  StackOrigin origin;
  StackEnd end;
};

// Plays a recording's events and keeps each sample's stack.
class LbrSink : public EventSink {
 public:
  LbrSink(const RecordingDescription& description, Symbolizer& symbolizer)
      : unwinder_(description, symbolizer, UnwindMode::kAuto, processes_, hints_),
        lbr_(description, unwinder_) {
    for (const BuildIdEvent& id : description.build_ids) {
      processes_.objects().RememberBuildId(id.path, id.build_id);
    }
  }
  void OnSample(const CapturedSample& sample) override {
    const auto found = lbr_.Find(sample, processes_.Find(sample.identity.pid));
    seen.push_back({{found.frames.begin(), found.frames.end()}, found.origin, found.end});
  }
  void OnMmap(const MmapEvent& event) override { processes_.Apply(event); }
  void OnFork(const TaskEvent& event) override { processes_.ApplyFork(event); }
  void OnComm(const CommEvent& event) override { processes_.Apply(event); }

  const LbrStack& lbr() const { return lbr_; }
  std::vector<SeenStack> seen;

 private:
  ProcessTable processes_;
  ObjectHints hints_;
  UserUnwinder unwinder_;
  LbrStack lbr_;
};

// The true call sites of each sample, innermost first: the table's last column.
std::vector<std::vector<uint64_t>> TrueCallSites(const std::string& text) {
  std::vector<std::vector<uint64_t>> stacks;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.starts_with('#')) continue;
    line.remove_prefix(line.rfind('\t') + 1);
    std::vector<uint64_t>& stack = stacks.emplace_back();
    while (!line.empty()) {
      uint64_t address = 0;
      const char* rest = std::from_chars(line.data(), line.data() + line.size(), address, 16).ptr;
      stack.push_back(address);
      line.remove_prefix(std::min(line.size(), static_cast<size_t>(rest - line.data()) + 1));
    }
  }
  return stacks;
}

// A return address stands behind its call.
bool IsSameCall(uint64_t call, const LbrFrame& frame) {
  return frame.is_return_address ? frame.address > call && frame.address - call <= 9
                                 : frame.address == call;
}

class LbrStacks : public ::testing::TestWithParam<const char*> {};

TEST_P(LbrStacks, AreRightOrSayThatTheyAreNot) {
  const std::string name = GetParam();
  const std::string recording = TestDataPath("lbr-synth/" + name + ".perf.data");
  if (recording.empty()) GTEST_SKIP() << TestDataMissing("lbr-synth");
  SymbolizerOptions options;
  options.binary_paths = {TestDataPath("pt-synth/symfs")};
  options.cache_directory = "-";
  Symbolizer symbolizer(options);
  const auto source = OpenPerfData(recording);
  ASSERT_TRUE(source.has_value());
  LbrSink sink((*source)->description(), symbolizer);
  while (true) {
    const auto outcome = (*source)->Poll(sink);
    ASSERT_TRUE(outcome.has_value());
    if (*outcome == PollOutcome::kEnd) break;
  }
  const auto truth =
      TrueCallSites(ReadTestFile(TestDataPath("lbr-synth/truth/" + name + ".samples.tsv.gz")));
  ASSERT_EQ(truth.size(), sink.seen.size());

  size_t equal = 0;
  size_t equal_and_sure = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const SeenStack& seen = sink.seen[i];
    // frames[0] is where the sample hit.
    ASSERT_FALSE(seen.frames.empty());
    const std::span calls = std::span(seen.frames).subspan(1);
    bool is_prefix = calls.size() <= truth[i].size();
    for (size_t c = 0; is_prefix && c < calls.size(); ++c) {
      is_prefix = IsSameCall(truth[i][c], calls[c]);
    }
    const bool is_equal = is_prefix && calls.size() == truth[i].size();
    const bool is_sure = seen.origin == StackOrigin::kLbr && seen.end == StackEnd::kComplete;
    equal += is_equal ? 1U : 0U;
    wrong += is_prefix ? 0U : 1U;
    equal_and_sure += is_equal && is_sure ? 1U : 0U;
    EXPECT_TRUE(is_equal || !is_sure) << "sample " << i;
  }
  std::printf(
      "%s: %zu samples, %zu equal the truth (%zu of them known to be), %zu are wrong and say so\n",
      name.c_str(), truth.size(), equal, equal_and_sure, wrong);
  for (const auto& [check, samples] : sink.lbr().Checks()) {
    std::printf("  %s: %lu\n", check.c_str(), samples);
  }
  EXPECT_GT(equal * 4, truth.size());
}

INSTANTIATE_TEST_SUITE_P(LbrSynth, LbrStacks,
                         ::testing::Values("shapes.callstack32", "coro.callstack32",
                                           "coro.callstack16", "dispatch.callstack32-nofp"),
                         [](const auto& param) {
                           std::string text = param.param;
                           for (char& c : text) c = c == '.' || c == '-' ? '_' : c;
                           return text;
                         });

// Stacks deeper than the hardware's 16 entries, in pairs: the second of a pair was taken two calls later, so that two
// entries of the first fell out of the buffer, and are known from there.
class LbrStitching : public ::testing::Test {
 protected:
  static constexpr size_t kDepth = 16;
  static constexpr uint64_t kCallBytes = 5;
  static uint64_t CallSite(size_t level) { return 0x10000 + level * 0x100; }

  // `level`: how many calls have not returned; the chain says that the outermost calls stand at `chain_off` from there.
  size_t Frames(size_t level, uint64_t hw_index, uint64_t chain_off, bool has_chain = true) {
    CapturedSample sample;
    sample.cpumode = CpuMode::kUser;
    sample.identity.pid = sample.identity.tid = 7;
    sample.ip = {CallSite(level)};
    sample.has_ip = sample.has_branches = true;
    sample.branch_hw_index = hw_index;
    if (has_chain) sample.chain = {kContextUser, sample.ip.value};
    for (size_t i = 0; i < level; ++i) {
      const uint64_t call = CallSite(level - 1 - i);
      if (i < kDepth) sample.branches.push_back({.from = call, .to = call + 0x80});
      if (has_chain) sample.chain.push_back(call + kCallBytes + (i < kDepth ? 0 : chain_off));
    }
    sample.has_chain = has_chain;
    return lbr_.Find(sample, processes_.Find(7)).frames.size();
  }
  size_t FramesOfSecond(uint64_t chain_off, bool has_chain = true) {
    Frames(kDepth, 0, 0);
    return Frames(kDepth + 2, 2, chain_off, has_chain);
  }
  uint64_t Checked(std::string_view check) const {
    const auto checks = lbr_.Checks();
    const auto found = checks.find(std::string(check));
    return found == checks.end() ? 0 : found->second;
  }

  RecordingDescription description_;
  Symbolizer symbolizer_{[] {
    SymbolizerOptions options;
    options.cache_directory = "-";
    return options;
  }()};
  ProcessTable processes_;
  ObjectHints hints_;
  UserUnwinder unwinder_{description_, symbolizer_, UnwindMode::kAuto, processes_, hints_};
  LbrStack lbr_{description_, unwinder_};
};

TEST_F(LbrStitching, GoesOnWhileTheChainAgrees) {
  for (int i = 0; i < 500; ++i) EXPECT_EQ(FramesOfSecond(0), 1 + kDepth + 2);
  EXPECT_EQ(Checked("stitch agrees with chain"), 500U);
  EXPECT_EQ(Checked("stitched to sample before"), 500U);
  EXPECT_EQ(Checked("stitching turned off"), 0U);
}

TEST_F(LbrStitching, LeavesOutWhatTheChainDisagreesWith) {
  FramesOfSecond(0x2000);
  EXPECT_EQ(Checked("stitch disagrees with chain"), 1U);
  EXPECT_EQ(Checked("stitched to sample before"), 0U);
}

TEST_F(LbrStitching, GoesOnWithOneDisagreementInAHundred) {
  for (int i = 0; i < 1000; ++i) FramesOfSecond(i % 100 == 99 ? 0x2000 : 0);
  EXPECT_EQ(Checked("stitch disagrees with chain"), 10U);
  EXPECT_EQ(Checked("stitching turned off"), 0U);
  EXPECT_EQ(FramesOfSecond(0, /*has_chain=*/false), 1 + kDepth + 2);
}

TEST_F(LbrStitching, IsTurnedOffWhereMoreDisagrees) {
  for (int i = 0; i < 1000; ++i) FramesOfSecond(i % 50 == 49 ? 0x2000 : 0);
  EXPECT_EQ(Checked("stitch disagrees with chain"), 20U);
  EXPECT_GT(Checked("stitching turned off"), 800U);
  EXPECT_EQ(FramesOfSecond(0, /*has_chain=*/false), 1 + kDepth);
}

// A program of functions that call each other in a row: each has a frame of 32 bytes and no frame pointer, as its .eh_frame
// says, and the first has no caller.
class CallRow {
 public:
  static constexpr int32_t kPid = 7;
  static constexpr size_t kFunctions = 100;
  static constexpr size_t kDepth = 16;  // entries of the branch stack
  static constexpr uint64_t kBase = 0x400000;
  static constexpr uint64_t kCallBytes = 5;

  explicit CallRow(const std::string& path) : path_(path) {
    constexpr uint64_t kTableVaddr = 0x480000;
    ElfBytes elf({.type = ET_EXEC});
    const uint32_t text = elf.Add({.name = ".text",
                                   .flags = SHF_ALLOC | SHF_EXECINSTR,
                                   .vaddr = kBase,
                                   .content = std::string(kFunctions * kFunctionBytes, '\x90'),
                                   .alignment = 4096});
    elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, text}, 4096);
    CfiBytes table({.vaddr = kTableVaddr});
    const size_t cie = table.AddCie(
        {.instructions = ByteWriter().U8(0x0c).Uleb(7).Uleb(kFrameBytes).U8(0x90).Uleb(1).bytes()});
    for (size_t i = 0; i < kFunctions; ++i) {
      table.AddFde({.cie = cie,
                    .start = Start(i),
                    .size_bytes = kFunctionBytes,
                    .instructions = i == 0 ? ByteWriter().U8(0x07).Uleb(16).bytes() : ""});
    }
    table.AddTerminator();
    const uint32_t frames = elf.Add({.name = ".eh_frame",
                                     .flags = SHF_ALLOC,
                                     .vaddr = kTableVaddr,
                                     .content = table.bytes(),
                                     .alignment = 4096});
    elf.AddSegment(PT_LOAD, PF_R, {frames, frames}, 4096);
    std::ofstream(path, std::ios::binary) << elf.Build();
  }

  static uint64_t Start(size_t function) { return kBase + function * kFunctionBytes; }
  static uint64_t Call(size_t function) { return Start(function) + 0x20; }

  static EventDescription Event() {
    EventDescription event;
    event.attr.sample_type = kSampleIp | kSampleTid | kSampleBranchStack | kSampleRegsUser;
    event.attr.branch_sample_type = kBranchCallStack;
    return event;
  }
  void Map(EventSink& sink) const {
    MmapEvent event;
    event.cpumode = CpuMode::kUser;
    event.pid = event.tid = kPid;
    event.start = {kBase};
    event.length_bytes = kFunctions * kFunctionBytes;
    event.file_offset = {4096};
    event.path = path_;
    sink.OnMmap(event);
  }
  // Interrupted in function `level`; of its callers the innermost `copied` are on the copied part of the stack.
  CapturedSample Sample(size_t level, size_t copied) {
    ByteWriter stack;
    for (size_t i = 0; i < std::min(level, copied); ++i) {
      stack.Text(std::string(kFrameBytes - 8, '\0')).U64(Call(level - 1 - i) + kCallBytes);
    }
    if (copied > level) stack.Text(std::string(kFrameBytes, '\0'));
    stack_ = stack.bytes();
    CapturedSample sample;
    sample.cpumode = CpuMode::kUser;
    sample.identity.pid = sample.identity.tid = kPid;
    sample.ip = {Start(level) + 0x40};
    sample.has_ip = sample.has_branches = true;
    for (size_t i = 0; i < std::min(level, kDepth); ++i) {
      sample.branches.push_back({.from = Call(level - 1 - i), .to = Start(level - i)});
    }
    constexpr unsigned kSp = 7;
    constexpr unsigned kIp = 8;
    sample.user_regs.abi = RegisterSet::Abi::k64;
    sample.user_regs.mask = 1U << kSp | 1U << kIp;
    sample.user_regs.values[kSp] = 0x7ffc00001000;
    sample.user_regs.values[kIp] = sample.ip.value;
    sample.user_stack = AsBytes(stack_);
    sample.user_stack_requested_bytes = stack_.size();
    return sample;
  }

 private:
  static constexpr uint64_t kFunctionBytes = 0x100;
  static constexpr uint64_t kFrameBytes = 32;

  std::string path_;
  std::string stack_;
};

class LbrBesideWalk : public ::testing::Test {
 protected:
  static constexpr size_t kAllCopied = 1000;

  LbrBesideWalk() {
    description_.arch = Arch::kX86_64;
    description_.events.push_back(CallRow::Event());
    source_.mutable_description() = description_;
  }
  // The frames of `sample`, as call sites and whether they are the true ones.
  SeenStack StackOf(const CapturedSample& sample) {
    LbrSink sink(description_, symbolizer_);
    row_.Map(sink);
    sink.OnSample(sample);
    checks_ = sink.lbr().Checks();
    return sink.seen.at(0);
  }
  static bool IsTrue(const SeenStack& stack, size_t level) {
    bool is_true = stack.frames.size() == level + 1;
    for (size_t i = 1; is_true && i < stack.frames.size(); ++i) {
      is_true = IsSameCall(CallRow::Call(level - i), stack.frames[i]);
    }
    return is_true;
  }

  CallRow row_{::testing::TempDir() + "lbr_call_row.elf"};
  RecordingDescription description_;
  ScriptedEventSource source_;
  Symbolizer symbolizer_{[] {
    SymbolizerOptions options;
    options.cache_directory = "-";
    return options;
  }()};
  std::map<std::string, uint64_t> checks_;
};

TEST_F(LbrBesideWalk, GoesOnBelowTheHardwaresDepthWithTheWalksCallers) {
  const SeenStack stack = StackOf(row_.Sample(60, kAllCopied));
  EXPECT_TRUE(IsTrue(stack, 60));
  EXPECT_EQ(stack.origin, StackOrigin::kLbr);
  EXPECT_EQ(stack.end, StackEnd::kComplete);
  EXPECT_EQ(checks_, (std::map<std::string, uint64_t>{
                         {"linked", 1}, {"walk is prefix", 1}, {"joined with walk", 1}}));
}

TEST_F(LbrBesideWalk, SaysWhereTheWalkItselfEnded) {
  const SeenStack stack = StackOf(row_.Sample(60, 30));
  EXPECT_EQ(stack.frames.size(), 31U);
  EXPECT_EQ(stack.end, StackEnd::kUserStackCut);
}

TEST_F(LbrBesideWalk, ReachesFurtherThanTheBytesThatWereCopied) {
  const SeenStack stack = StackOf(row_.Sample(10, 4));
  EXPECT_TRUE(IsTrue(stack, 10));
  EXPECT_EQ(stack.origin, StackOrigin::kLbr);
  EXPECT_EQ(stack.end, StackEnd::kComplete);
  EXPECT_EQ(checks_["walk is prefix"], 1U);
}

TEST_F(LbrBesideWalk, AgreesWithTheWalkToTheLastCaller) {
  EXPECT_TRUE(IsTrue(StackOf(row_.Sample(10, kAllCopied)), 10));
  EXPECT_EQ(checks_["walk agrees"], 1U);
}

// As after a longjmp: calls that will never return are still in the buffer.
TEST_F(LbrBesideWalk, IsNotBelievedWhereTheWalkDisagrees) {
  CapturedSample sample = row_.Sample(10, kAllCopied);
  sample.branches.insert(sample.branches.begin(),
                         {.from = CallRow::Call(30), .to = CallRow::Start(31)});
  const SeenStack stack = StackOf(sample);
  EXPECT_TRUE(IsTrue(stack, 10));
  EXPECT_EQ(stack.origin, StackOrigin::kCfi);
  EXPECT_EQ(stack.end, StackEnd::kComplete);
  EXPECT_EQ(checks_["walk disagrees"], 1U);
}

// Function 10 was called and went on as function 50: the walk shows that no call is missing.
TEST_F(LbrBesideWalk, IsBelievedOfFunctionsThatGoOnAsOthers) {
  CapturedSample sample = row_.Sample(10, kAllCopied);
  sample.ip = {CallRow::Start(50) + 0x40};
  sample.user_regs.values[8] = sample.ip.value;
  const SeenStack stack = StackOf(sample);
  EXPECT_TRUE(IsTrue(stack, 10));
  EXPECT_EQ(stack.origin, StackOrigin::kLbr);
  EXPECT_EQ(checks_["broken"], 1U);
}

TEST_F(LbrBesideWalk, IsFullWhereTheRecordingSaysHowMuchTheHardwareHolds) {
  CapturedSample sample = row_.Sample(60, kAllCopied);
  sample.user_regs = {};
  sample.branches.resize(8);
  EXPECT_EQ(StackOf(sample).end, StackEnd::kFrameLimit);  // as far as one can guess
  description_.pmu_caps["cpu"]["branches"] = "32";
  EXPECT_EQ(StackOf(sample).end, StackEnd::kNoUnwindTable);
  description_.pmu_caps["cpu"]["branches"] = "8";
  EXPECT_EQ(StackOf(sample).end, StackEnd::kFrameLimit);
}

TEST_F(LbrBesideWalk, IsReportedWithTheProfile) {
  source_.Play([this](EventSink& sink) {
    row_.Map(sink);
    for (int i = 0; i < 3; ++i) sink.OnSample(row_.Sample(60, kAllCopied));
    sink.OnSample(row_.Sample(10, kAllCopied));
  });
  const auto profile = ImportRecording(source_, symbolizer_, {});
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->quality.lbr_checks.at("joined with walk"), 3U);
  EXPECT_EQ(profile->quality.lbr_checks.at("walk is prefix"), 3U);
  EXPECT_EQ(profile->quality.lbr_checks.at("walk agrees"), 1U);
  EXPECT_EQ(profile->quality.stacks_complete, 4U);
  ASSERT_EQ(profile->samples.size(), 2U);
  EXPECT_EQ(profile->Stack(profile->samples[0].stack).size(), 61U);
}

}  // namespace
}  // namespace ptarmigan::internal
