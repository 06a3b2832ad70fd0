// Records programs of known call structure (tests/programs) and compares the profile with what they say really ran:
//   - at least 99 % of the samples whose stack fits into the copied part reach main or the start of their thread;
//   - each function's share of samples equals its share of work units within kSigmas standard deviations of a
//     binomial distribution (units cost the same; samples of anything but units do not enter).
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

// About 150 shares are compared in one run of tools/check: at 4.5 one of a thousand runs fails by chance.
constexpr double kSigmas = 4.5;
constexpr double kRootedShareMin = 0.99;
// At 997 Hz, 2000 ms of CPU time give about 2000 samples.
constexpr int kRecordTimeoutSeconds = 120;

// Why perf events cannot be opened here; empty if they can.
std::string PerfUnavailable() {
  perf_event_attr attr = {};
  attr.type = PERF_TYPE_SOFTWARE;
  attr.size = sizeof(attr);
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.sample_period = 1'000'000;
  attr.exclude_kernel = 1;
  const Fd fd(static_cast<int>(::syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0)));
  if (fd.valid()) return "";
  return StrFormat("perf_event_open: {} (see kernel.perf_event_paranoid)", std::strerror(errno));
}

struct FoldedStack {
  std::vector<std::string> frames;  // root first, names without arguments
  uint64_t count = 0;
};

bool IsKernelFrame(std::string_view frame) { return frame.ends_with("_[k]"); }

// "busy::Alpha(unsigned long)" -> "Alpha", "main.alpha" -> "alpha".
std::string_view LastPartOf(std::string_view frame) {
  frame = frame.substr(0, frame.find('('));
  // Rust's legacy mangling ends in a hash: "busy::alpha::h0123456789abcdef".
  if (const size_t hash = frame.rfind("::h");
      hash != std::string_view::npos && frame.size() - hash == 19) {
    frame = frame.substr(0, hash);
  }
  // What compilers add to the names of variants.
  for (const std::string_view variant : {".abi0", ".isra.", ".part.", ".constprop.", ".cold"}) {
    frame = frame.substr(0, frame.find(variant));
  }
  if (const size_t colons = frame.rfind("::"); colons != std::string_view::npos)
    frame = frame.substr(colons + 2);
  if (const size_t dot = frame.rfind('.'); dot != std::string_view::npos)
    frame = frame.substr(dot + 1);
  return frame;
}

std::vector<FoldedStack> ParseFolded(std::string_view text) {
  std::vector<FoldedStack> stacks;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t space = line.rfind(' ');
    if (space == std::string_view::npos) continue;
    FoldedStack stack;
    stack.count = std::stoull(std::string(line.substr(space + 1)));
    std::string_view frames = line.substr(0, space);
    while (!frames.empty()) {
      const std::string_view frame = frames.substr(0, frames.find(';'));
      frames.remove_prefix(std::min(frame.size() + 1, frames.size()));
      stack.frames.emplace_back(frame);
    }
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

// Where a stack may end: main, and the first frame of threads and of processes in their various libraries.
bool ReachesItsRoot(const FoldedStack& stack) {
  static const std::set<std::string_view> kRoots = {
      "main",     "_start",     "_dl_start_user",   "_dl_start",       "start_thread", "clone3",
      "__clone3", "clone",      "__clone",          "thread_start",    "goexit",       "mstart",
      "rt0_go",   "_rt0_amd64", "_rt0_amd64_linux", "_rt0_arm64_linux"};
  for (const std::string& frame : stack.frames) {
    if (kRoots.count(LastPartOf(frame)) != 0) return true;
  }
  return false;
}

// As it is called in C and C++, Rust and Go.
bool IsWorkUnit(std::string_view function) {
  return function == "WorkUnit" || function == "work_unit" || function == "workUnit";
}

bool IsKernelOnly(const FoldedStack& stack) {
  for (const std::string& frame : stack.frames) {
    if (!IsKernelFrame(frame)) return false;
  }
  return true;
}

bool Has(const FoldedStack& stack, std::string_view function) {
  for (const std::string& frame : stack.frames) {
    if (LastPartOf(frame) == function) return true;
  }
  return false;
}

struct LiveCase {
  std::string name;     // of the test
  std::string command;  // below bin/programs, "{}" standing for that folder
  std::string options;  // of `record`
};

std::ostream& operator<<(std::ostream& out, const LiveCase& live) { return out << live.name; }

struct Recording {
  std::vector<FoldedStack> stacks;
  std::map<std::string, uint64_t> units;  // by function, of all programs that printed their truth
  nlohmann::json quality;

  uint64_t Count(const std::string& function) const {
    uint64_t count = 0;
    for (const FoldedStack& stack : stacks) count += Has(stack, function) ? stack.count : 0;
    return count;
  }
  // The function of the truth that ran: the innermost one, since a signal handler's stack goes on below it.
  std::map<std::string, uint64_t> SamplesOfUnits() const {
    std::map<std::string, uint64_t> samples;
    for (const FoldedStack& stack : stacks) {
      // Work alone: interrupts and signal delivery cost more in one function than in another.
      if (IsKernelFrame(stack.frames.back())) continue;
      bool works = false;
      for (size_t i = stack.frames.size(); i-- > 0;) {
        const std::string function(LastPartOf(stack.frames[i]));
        works = works || IsWorkUnit(function);
        if (units.count(function) == 0) continue;
        if (works) samples[function] += stack.count;
        break;
      }
    }
    return samples;
  }
  uint64_t CutBy(std::string_view reason) const {
    uint64_t count = 0;
    for (const auto& cut : quality["stacks"]["cut"]) {
      if (reason.empty() || cut["reason"] == reason) count += cut["count"].get<uint64_t>();
    }
    return count;
  }
};

// Fills units from the lines {"program":...,"units":{...}} of a program's output.
void ReadTruth(std::string_view output, std::map<std::string, uint64_t>* units) {
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    if (!line.starts_with("{\"program\"")) continue;
    const nlohmann::json truth = nlohmann::json::parse(line);
    for (const auto& [function, count] : truth["units"].items()) {
      (*units)[function] += count.get<uint64_t>();
    }
  }
}

// Records `command` and reads the profile back as folded stacks. Fails the test on any error.
void Record(const LiveCase& live, Recording* recording) {
  const std::string directory = TestTemporaryDirectory();
  const std::string profile = directory + "/live.pb.gz";
  std::string command = live.command;
  for (size_t at; (at = command.find("{}")) != std::string::npos;)
    command.replace(at, 2, PTARMIGAN_PROGRAMS);
  const CommandResult record =
      RunCommand(StrFormat("cd {} && XDG_CACHE_HOME={} {} record {} -o {} -- {}", directory,
                           directory, PTARMIGAN_BINARY, live.options, profile, command),
                 kRecordTimeoutSeconds);
  ASSERT_EQ(record.exit_code, 0) << record.err << record.out;
  ReadTruth(record.out, &recording->units);

  const std::string folded = directory + "/live.folded";
  const CommandResult convert = RunCommand(
      StrFormat("{} convert --sample-type samples {} -o {}", PTARMIGAN_BINARY, profile, folded),
      60);
  ASSERT_EQ(convert.exit_code, 0) << convert.err;
  recording->stacks = ParseFolded(ReadTestFile(folded));

  const CommandResult quality =
      RunCommand(StrFormat("{} report --json --view quality {}", PTARMIGAN_BINARY, profile), 60);
  ASSERT_EQ(quality.exit_code, 0) << quality.err;
  recording->quality = nlohmann::json::parse(quality.out);

  uint64_t folded_sum = 0;
  for (const FoldedStack& stack : recording->stacks) folded_sum += stack.count;
  EXPECT_EQ(folded_sum, recording->quality["kept"].get<uint64_t>());
}

// Samples of kernel-only stacks (exec, exit) have no user stack that could reach anything.
void ExpectStacksReachTheirRoots(const Recording& recording, uint64_t may_be_cut) {
  uint64_t with_user = 0;
  uint64_t kernel_only = 0;
  uint64_t rooted = 0;
  std::string examples;
  for (const FoldedStack& stack : recording.stacks) {
    if (IsKernelOnly(stack)) {
      kernel_only += stack.count;
      continue;
    }
    with_user += stack.count;
    if (ReachesItsRoot(stack)) {
      rooted += stack.count;
    } else if (examples.size() < 2000) {
      examples += StrFormat("  {} x", stack.count);
      for (const std::string& frame : stack.frames) examples += " " + frame;
      examples += "\n";
    }
  }
  ASSERT_GT(with_user, may_be_cut);
  EXPECT_GE(static_cast<double>(rooted),
            kRootedShareMin * static_cast<double>(with_user - may_be_cut))
      << "of " << with_user << " samples, " << may_be_cut << " of which may be cut; not rooted:\n"
      << examples << "quality: " << recording.quality["stacks"].dump();
  EXPECT_LE(kernel_only, with_user / 50) << "samples without user part";
}

void ExpectSharesOfUnits(const Recording& recording) {
  ASSERT_FALSE(recording.units.empty()) << "the program printed no truth";
  std::map<std::string, uint64_t> measured = recording.SamplesOfUnits();
  uint64_t units = 0;
  uint64_t samples = 0;
  for (const auto& [function, count] : recording.units) {
    units += count;
    samples += measured[function];
  }
  ASSERT_GT(samples, 500U) << "too few samples to compare shares";
  for (const auto& [function, count] : recording.units) {
    const double expected = static_cast<double>(count) / static_cast<double>(units);
    const double share = static_cast<double>(measured[function]) / static_cast<double>(samples);
    const double sigma = std::sqrt(expected * (1 - expected) / static_cast<double>(samples));
    EXPECT_NEAR(share, expected, kSigmas * sigma + 1 / static_cast<double>(samples))
        << function << ": " << measured[function] << " of " << samples << " samples";
  }
}

class LiveStacks : public ::testing::TestWithParam<LiveCase> {
 protected:
  void SetUp() override {
    const std::string reason = PerfUnavailable();
    if (!reason.empty()) GTEST_SKIP() << reason;
    const std::string program = GetParam().command.substr(0, GetParam().command.find(' '));
    const std::string path = PTARMIGAN_PROGRAMS + program.substr(2);
    if (!PathExists(path)) GTEST_SKIP() << path << " is not built here (its compiler is missing)";
  }
};

TEST_P(LiveStacks, ReachTheirRootAndHoldTheSharesOfTheTruth) {
  Recording recording;
  ASSERT_NO_FATAL_FAILURE(Record(GetParam(), &recording));
  ExpectStacksReachTheirRoots(recording, 0);
  ExpectSharesOfUnits(recording);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, LiveStacks,
    ::testing::Values(LiveCase{"WithoutFramePointers", "{}/busy 2000", ""},
                      LiveCase{"WithFramePointers", "{}/busy_fp 2000", ""},
                      LiveCase{"WithFramePointersByTheKernelsWalk", "{}/busy_fp 2000",
                               "--unwind fp"},
                      LiveCase{"WithFramePointersButInLeaves", "{}/busy_leaf 2000", ""},
                      LiveCase{"Unoptimised", "{}/busy_O0 2000", ""},
                      LiveCase{"ByClang", "{}/busy_clang 2000", ""},
                      LiveCase{"StaticAtFixedAddresses", "{}/busy_static 2000", ""},
                      LiveCase{"Rust", "{}/busy_rust 2000", ""},
                      LiveCase{"Go", "{}/busy_go 2000", ""},
                      LiveCase{"SignalHandlers", "{}/signals 2000", ""},
                      LiveCase{"SignalHandlersWithFramePointers", "{}/signals_fp 2000", ""},
                      LiveCase{"LinkageTable", "{}/plt 2000", ""},
                      LiveCase{"LinkageTableWithFramePointers", "{}/plt_fp 2000", ""},
                      LiveCase{"LinkageTableInTwoParts", "{}/plt_ibt 2000", ""},
                      LiveCase{"FramePointersOnlyInTheProgram", "{}/plt_mixed 2000", ""},
                      LiveCase{"UnusualFrames", "{}/frames 2000", ""},
                      LiveCase{"UnusualFramesWithFramePointers", "{}/frames_fp 2000", ""},
                      LiveCase{"Recursion", "{}/recursion 2000 60", ""},
                      LiveCase{"RecursionWithFramePointers", "{}/recursion_fp 2000 60", ""},
                      LiveCase{"Threads", "{}/threads 600 4", ""},
                      LiveCase{"ThreadsWithFramePointers", "{}/threads_fp 600 4", ""},
                      LiveCase{"LoadedAtRunTime", "{}/load 2000", ""},
                      LiveCase{"Exec", "{}/replace 900 {}/busy 1500", ""},
                      LiveCase{"Children", "{}/children 700 3", ""}),
    [](const ::testing::TestParamInfo<LiveCase>& live) { return live.param.name; });

class DeepLiveStacks : public ::testing::TestWithParam<LiveCase> {
 protected:
  void SetUp() override {
    const std::string reason = PerfUnavailable();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_P(DeepLiveStacks, HaveEveryFrameOfTheRecursion) {
  constexpr int kDepth = 60;  // as in the commands below
  Recording recording;
  ASSERT_NO_FATAL_FAILURE(Record(GetParam(), &recording));
  uint64_t below = 0;
  uint64_t exact = 0;
  for (const FoldedStack& stack : recording.stacks) {
    if (!Has(stack, "Bottom") || !Has(stack, "WorkUnit")) continue;
    int frames = 0;
    for (const std::string& frame : stack.frames) frames += LastPartOf(frame) == "Descend" ? 1 : 0;
    below += stack.count;
    if (frames == kDepth) exact += stack.count;
  }
  ASSERT_GT(below, 200U);
  EXPECT_GE(static_cast<double>(exact), kRootedShareMin * static_cast<double>(below));
}

INSTANTIATE_TEST_SUITE_P(
    Programs, DeepLiveStacks,
    ::testing::Values(LiveCase{"WithoutFramePointers", "{}/recursion 1000 60", ""},
                      LiveCase{"WithFramePointers", "{}/recursion_fp 1000 60", ""}),
    [](const ::testing::TestParamInfo<LiveCase>& live) { return live.param.name; });

// 900 frames of at least 16 bytes do not fit into 4 KiB: those stacks, and only those, are cut, and say so.
TEST(LiveStackBounds, SaysThatTheCopiedStackEndedAndKeepsTheRest) {
  const std::string reason = PerfUnavailable();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Recording recording;
  ASSERT_NO_FATAL_FAILURE(Record({"", "{}/recursion 1500 900", "--stack-bytes 4k"}, &recording));
  const uint64_t deep = recording.Count("Bottom");
  ASSERT_GT(deep, 200U);
  const uint64_t cut = recording.CutBy("user_stack_cut");
  EXPECT_GE(cut + deep / 100, deep);
  ExpectStacksReachTheirRoots(recording, cut);
  ExpectSharesOfUnits(recording);
}

// kStackFramesMax bounds a stack, whatever was copied.
TEST(LiveStackBounds, SaysThatTheLimitOfFramesWasReached) {
  const std::string reason = PerfUnavailable();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Recording recording;
  ASSERT_NO_FATAL_FAILURE(
      Record({"", "{}/recursion 1500 1500", "--stack-bytes 65528"}, &recording));
  const uint64_t deep = recording.Count("Bottom");
  ASSERT_GT(deep, 200U);
  EXPECT_GE(recording.CutBy("frame_limit") + deep / 100, deep);
  ExpectSharesOfUnits(recording);
}

TEST(LiveStackBounds, ReachesMainWhenMoreStackIsCopied) {
  const std::string reason = PerfUnavailable();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Recording recording;
  ASSERT_NO_FATAL_FAILURE(Record({"", "{}/recursion 1500 900", "--stack-bytes 65528"}, &recording));
  ASSERT_GT(recording.Count("Bottom"), 200U);
  ExpectStacksReachTheirRoots(recording, 0);
}

TEST(LiveRecording, KeepsSamplesOfBothSidesOfExecUnderTheirOwnPrograms) {
  const std::string reason = PerfUnavailable();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Recording recording;
  ASSERT_NO_FATAL_FAILURE(Record({"", "{}/replace 800 {}/busy 800", ""}, &recording));
  for (const FoldedStack& stack : recording.stacks) {
    EXPECT_FALSE(Has(stack, "BeforeExec") && Has(stack, "Alpha"))
        << "one stack mixes functions of the two programs";
  }
  EXPECT_GT(recording.Count("BeforeExec"), 300U);
  EXPECT_GT(recording.Count("Alpha"), 200U);
}

}  // namespace
}  // namespace ptarmigan
