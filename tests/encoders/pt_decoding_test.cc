// Our decoder makes of the encoder's traces exactly what was executed.
#include "tests/encoders/pt_decoding.h"

#include <gtest/gtest.h>

#include "base/str_format.h"
#include "tests/encoders/pt_truth.h"
#include "tests/encoders/pt_variety.h"

namespace ptarmigan {
namespace {

void ExpectTruth(uint64_t seed, bool ptwrite) {
  const PtProgramOptions options = PtProgramOfSeed(seed);
  const PtProgram program(options);
  const PtWalk walk(program, PtWalkOfSeed(options));
  PtTraceSettings settings = PtSettingsOfSeed(seed, options);
  settings.ptwrite = ptwrite;
  // Without times nobody knows when code was replaced.
  if (!settings.tsc && !walk.code_changes().empty()) return;
  for (unsigned thread = 0; thread < walk.threads(); ++thread) {
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(thread), settings);
    SCOPED_TRACE(StrFormat("seed {}, thread {}", seed, thread));
    const Result<PtDecoding> decoding = PtWalkImage(walk, settings).Decode(trace.bytes);
    if (!decoding) GTEST_SKIP() << decoding.error().message;
    EXPECT_EQ(PtFirstDifference(PtAddresses(walk, trace.visible), decoding->Addresses()), "");
    EXPECT_EQ(decoding->statistics.bytes.Sum(), trace.bytes.size());
    EXPECT_EQ(decoding->statistics.overflows, trace.overflows);
    EXPECT_EQ(decoding->statistics.bad, 0U);
    EXPECT_EQ(decoding->statistics.suspect, 0U);
  }
}

TEST(PtDecoderOnRandomPrograms, DecodesExactlyWhatWasExecuted) {
  for (uint64_t seed = 1; seed <= 150 && !IsSkipped(); ++seed) ExpectTruth(seed, false);
}

TEST(PtDecoderOnRandomPrograms, DecodesExactlyWhatWasExecutedAroundPtWrites) {
  for (uint64_t seed = 1; seed <= 150 && !IsSkipped(); ++seed) ExpectTruth(seed, true);
}

TEST(PtDecoderOnRandomPrograms, SeveralThreadsSeeTheSame) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const PtProgramOptions options = PtProgramOfSeed(seed);
    const PtProgram program(options);
    const PtWalk walk(program, PtWalkOfSeed(options));
    const PtTraceSettings settings = PtSettingsOfSeed(seed, options);
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), settings);
    const Result<PtDecoding> alone = PtWalkImage(walk, settings).Decode(trace.bytes);
    if (!alone) GTEST_SKIP() << alone.error().message;
    for (const size_t threads : {2U, 4U, 8U}) {
      const Result<PtDecoding> together = PtWalkImage(walk, settings).Decode(trace.bytes, threads);
      ASSERT_TRUE(together.has_value());
      ASSERT_EQ(together->segments, alone->segments) << seed << " with " << threads;
    }
  }
}

// A trace cut anywhere: nothing but its end is lost, and every byte is in one count.
TEST(PtDecoderOnRandomPrograms, ATraceMayEndAnywhere) {
  const PtProgram program({.seed = 5, .jit_slots = 0});
  const PtWalk walk(program, {.seed = 6, .steps = 1500, .interrupts_apart = 200});
  const PtTraceSettings settings{.cyc = true, .psb_bytes = 256};
  const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), settings);
  const std::vector<uint64_t> truth = PtAddresses(walk, trace.visible);
  const PtWalkImage decoder(walk, settings);
  for (size_t end = 0; end <= trace.bytes.size(); ++end) {
    const Result<PtDecoding> decoding =
        decoder.Decode(std::string_view(trace.bytes).substr(0, end));
    if (!decoding) GTEST_SKIP() << decoding.error().message;
    ASSERT_EQ(decoding->statistics.bytes.Sum(), end);
    const std::vector<uint64_t> decoded = decoding->Addresses();
    ASSERT_LE(decoded.size(), truth.size()) << end;
    ASSERT_TRUE(std::equal(decoded.begin(), decoded.end(), truth.begin())) << end;
  }
}

}  // namespace
}  // namespace ptarmigan
