// What a single wrong bit does to traces of random programs. libipt alone takes every tenth for another, plausible flow;
// the checks of our decoder leave the rest of the trace alone and do not see ghosts. What they see of it is printed.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <memory>

#include "tests/encoders/pt_flips.h"
#include "tests/encoders/pt_truth.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kTraces = 20;
constexpr size_t kFlipsPerTrace = 50;

struct FlipCase {
  std::unique_ptr<PtProgram> program;
  std::unique_ptr<PtWalk> walk;
  PtTraceSettings settings;
  PtTrace trace;
};

// Half of them with compressed returns; all kinds of timing.
FlipCase CaseOf(uint64_t number) {
  FlipCase flip;
  flip.program = std::make_unique<PtProgram>(PtProgramOptions{
      .seed = 1000 + number, .mix = PtMix::kOrdinary, .functions = 30 + number, .jit_slots = 0});
  flip.walk = std::make_unique<PtWalk>(
      *flip.program, PtWalkOptions{.seed = number,
                                   .steps = 20000,
                                   .signals_apart = number % 3 == 0 ? 800U : 0U,
                                   .interrupts_apart = number % 4 == 0 ? 500U : 0U});
  flip.settings.seed = number;
  flip.settings.return_compression = number % 2 == 0;
  flip.settings.cyc = number % 4 >= 2;
  flip.settings.tsc = number % 5 != 4;
  flip.settings.psb_bytes = 1024;
  flip.trace = EncodePt(*flip.walk, flip.walk->StepsOfThread(0), flip.settings);
  return flip;
}

TEST(PtFlips, TheRestOfADamagedTraceStaysTrusted) {
  PtFlips compressed;
  PtFlips uncompressed;
  for (uint64_t number = 0; number < kTraces; ++number) {
    const FlipCase flip = CaseOf(number);
    const PtWalkImage image(*flip.walk, flip.settings);
    const Result<PtFlips> flips = FlipPtBits({.bytes = flip.trace.bytes,
                                              .config = image.config(),
                                              .occupants = {{.image = &image.image()}},
                                              .image = &image.image()},
                                             number, kFlipsPerTrace);
    if (!flips) GTEST_SKIP() << flips.error().message;
    (flip.settings.return_compression ? compressed : uncompressed) += *flips;
  }
  std::printf("returns compressed: %sreturns not compressed: %s", compressed.Text().c_str(),
              uncompressed.Text().c_str());
  PtFlips all = compressed;
  all += uncompressed;
  EXPECT_EQ(all.flips, kTraces * kFlipsPerTrace);
  EXPECT_GT(all.silent, 0U);
  // No bar here on what stays verified (pt_synth_flip_test has it): random programs have more branches that meet again
  // behind them than compiled ones, and nothing tells which way such a branch went.
  EXPECT_GE(all.silent_caught * 100, all.silent * 60);
  EXPECT_GE(all.undamaged_verified_bytes * 100, all.undamaged_bytes * 95);
}

TEST(PtFlips, IntactTracesRaiseNoAlarm) {
  for (uint64_t number = 0; number < kTraces; ++number) {
    const FlipCase flip = CaseOf(number);
    const Result<PtDecoding> decoding =
        PtWalkImage(*flip.walk, flip.settings).Decode(flip.trace.bytes);
    if (!decoding) GTEST_SKIP() << decoding.error().message;
    for (const PtDecoding::Segment& segment : decoding->segments) {
      EXPECT_EQ(segment.trust, FlowTrust::kVerified)
          << "trace " << number << ", offset " << segment.begin_offset << ", reasons "
          << segment.reasons;
    }
    EXPECT_EQ(decoding->Addresses(), PtAddresses(*flip.walk, flip.trace.visible)) << number;
  }
}

}  // namespace
}  // namespace ptarmigan
