// The encoder of Intel PT against libipt, which decodes what it wrote to exactly the instructions that were executed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "tests/encoders/pt_oracle.h"
#include "tests/encoders/pt_perf_data.h"
#include "tests/encoders/pt_truth.h"
#include "tests/encoders/pt_variety.h"

namespace ptarmigan {
namespace {

TEST(PtEncoder, LibiptDecodesExactlyWhatWasExecuted) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const PtProgramOptions options = PtProgramOfSeed(seed);
    const PtProgram program(options);
    const PtWalk walk(program, PtWalkOfSeed(options));
    for (unsigned thread = 0; thread < walk.threads(); ++thread) {
      const PtTrace trace =
          EncodePt(walk, walk.StepsOfThread(thread), PtSettingsOfSeed(seed + thread, options));
      const PtOracleResult decoded = DecodeByLibipt(trace.bytes, walk, trace.visible);
      SCOPED_TRACE(StrFormat("seed {}, thread {}", seed, thread));
      ASSERT_EQ(decoded.ErrorText(), "");
      ASSERT_EQ(PtFirstDifference(PtAddresses(walk, trace.visible), decoded.addresses), "");
      ASSERT_EQ(decoded.overflows, trace.overflows);
    }
  }
}

// The seeds of the test above reach what they are meant to reach.
TEST(PtEncoder, SeedsReachEveryPacketAndEveryTurnOfAProgram) {
  std::map<PtPacketKind, uint64_t> packets;
  std::map<PtStep::Flags, uint64_t> flags;
  size_t depth_max = 0;
  size_t code_changes = 0;
  size_t signals = 0;
  size_t recompiled_runs = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const PtProgramOptions options = PtProgramOfSeed(seed);
    const PtProgram program(options);
    const PtWalk walk(program, PtWalkOfSeed(options));
    for (const PtStep& step : walk.steps()) {
      for (const auto flag : {PtStep::kTaken, PtStep::kBreakAfter, PtStep::kKernel,
                              PtStep::kInterrupt, PtStep::kUnwinds, PtStep::kStackSwitch}) {
        flags[flag] += step.Is(flag) ? 1U : 0U;
      }
      const std::string& name = walk.program().functions()[walk.paths()[step.path].function].name;
      if (name.starts_with("jit") && !name.ends_with("v0")) ++recompiled_runs;
    }
    for (uint32_t path = 0; path < walk.paths().size(); ++path) {
      size_t depth = 0;
      for (uint32_t at = path; at != PtWalk::kRootPath; at = walk.paths()[at].parent) ++depth;
      depth_max = std::max(depth_max, depth);
    }
    code_changes += walk.code_changes().size();
    for (const PtCall& call : walk.calls()) signals += call.kind == PtCall::Kind::kSignal ? 1U : 0U;
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), PtSettingsOfSeed(seed, options));
    for (const PtPacketPlace& packet : trace.packets) ++packets[packet.kind];
  }
  for (int kind = 0; kind <= static_cast<int>(PtPacketKind::kStop); ++kind) {
    const auto packet = static_cast<PtPacketKind>(kind);
    // Of a processor that waits in user code, and of newer timing in virtual machines.
    if (packet == PtPacketKind::kMwait || packet == PtPacketKind::kMnt) continue;
    EXPECT_GT(packets[packet], 0U) << PtPacketName(packet);
  }
  for (const auto& [flag, count] : flags) EXPECT_GT(count, 0U) << int{flag};
  EXPECT_GT(depth_max, 100U);
  EXPECT_GT(code_changes, 20U);
  EXPECT_GT(recompiled_runs, 100U);
  EXPECT_GT(signals, 20U);
}

TEST(PtEncoder, EqualOptionsGiveEqualBytes) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto record = [seed](PtPerfDataOptions::Mode mode) {
      const PtProgramOptions options = PtProgramOfSeed(seed);
      const PtProgram program(options);
      PtPerfDataOptions recording;
      recording.mode = mode;
      recording.trace = PtSettingsOfSeed(seed, options);
      return RecordPt(PtWalk(program, PtWalkOfSeed(options)), recording);
    };
    using Mode = PtPerfDataOptions::Mode;
    for (const Mode mode : {Mode::kPerThread, Mode::kPerCpu, Mode::kSnapshot, Mode::kSamples}) {
      const PtPerfData first = record(mode);
      const PtPerfData second = record(mode);
      EXPECT_EQ(first.perf_data, second.perf_data);
      EXPECT_EQ(first.files, second.files);
      EXPECT_EQ(first.visible, second.visible);
    }
  }
}

// What libipt does with returns that were not compressed is one of two readings.
TEST(PtEncoder, LibiptKeepsItsStackAtReturnsThatWereNotCompressed) {
  uint64_t wrong_by_the_other_reading = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const PtProgram program({.seed = seed, .system_calls = false, .jit_slots = 0});
    const PtWalk walk(program, {.seed = seed, .steps = 4000});
    PtTraceSettings settings;
    settings.reading = PtReturnReading::kCompressedPops;
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), settings);
    const PtOracleResult decoded = DecodeByLibipt(trace.bytes, walk, trace.visible);
    ASSERT_EQ(decoded.ErrorText(), "") << seed;
    ASSERT_EQ(PtFirstDifference(PtAddresses(walk, trace.visible), decoded.addresses), "") << seed;
    settings.reading = PtReturnReading::kEveryReturnPops;
    const PtTrace other = EncodePt(walk, walk.StepsOfThread(0), settings);
    const PtOracleResult misread = DecodeByLibipt(other.bytes, walk, other.visible);
    if (misread.addresses != PtAddresses(walk, other.visible)) ++wrong_by_the_other_reading;
  }
  EXPECT_GT(wrong_by_the_other_reading, 0U);
}

// What is between a window's first PSB and the interrupt that it ends at is visible, and nothing else.
TEST(PtEncoder, WindowsShowWhatLibiptDecodesOfThem) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const PtProgram program({.seed = seed});
    const PtWalk walk(program, {.seed = seed, .steps = 6000, .interrupts_apart = 200});
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), {.seed = seed, .psb_bytes = 256});
    PtPerfDataOptions options;
    options.mode = PtPerfDataOptions::Mode::kSamples;
    options.trace = {.seed = seed, .psb_bytes = 256};
    options.sample_bytes_max = 600;
    const PtPerfData recording = RecordPt(walk, options);
    ASSERT_FALSE(recording.windows.empty());
    size_t window = 0;
    for (const PtTrace::Pause& pause : trace.pauses) {
      if (!pause.interrupt) continue;
      const size_t begin = pause.offset - std::min<size_t>(pause.offset, 600);
      const std::vector<uint32_t>& visible = recording.windows[window++].visible;
      const PtOracleResult decoded = DecodeByLibipt(
          std::string_view(trace.bytes).substr(begin, pause.offset - begin), walk, visible);
      ASSERT_EQ(decoded.ErrorText(), "") << seed;
      ASSERT_EQ(PtFirstDifference(PtAddresses(walk, visible), decoded.addresses), "") << seed;
    }
    ASSERT_EQ(window, recording.windows.size());
  }
}

}  // namespace
}  // namespace ptarmigan
