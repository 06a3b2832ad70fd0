// Call stacks of branch records against the stacks that were really there (lbr-synth): what is called complete is right,
// and what is wrong says so.
#include "pipeline/internal/lbr_stack.h"

#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "decode/perf_data_file.h"
#include "pipeline/internal/user_unwinder.h"
#include "symbolize/symbolizer.h"
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
      : unwinder_(description, symbolizer, UnwindMode::kAuto, processes_, hints_), lbr_(unwinder_) {
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
  LbrStack lbr_{unwinder_};
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

}  // namespace
}  // namespace ptarmigan::internal
