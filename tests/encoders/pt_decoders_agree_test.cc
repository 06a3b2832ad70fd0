// libipt's instruction decoder, driven directly, and our decoder read the same bytes as the same flow: as a whole, and by how
// often each block ran. Ours stands on libipt's block decoder, or on a walker of its own. Whether that flow is the true one
// is for other tests to say; they are compared also where a bit is wrong and nobody notices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "tests/encoders/pt_decoding.h"
#include "tests/encoders/pt_oracle.h"
#include "tests/encoders/pt_variety.h"

namespace ptarmigan {
namespace {

constexpr PtWalkerKind kWalkers[] = {PtWalkerKind::kLibipt, PtWalkerKind::kFast};

using Histogram = std::map<uint64_t, uint64_t>;  // how often each instruction ran

Histogram HistogramOf(const PtOracleResult& decoded) {
  Histogram histogram;
  for (const uint64_t address : decoded.addresses) ++histogram[address];
  return histogram;
}

Histogram HistogramOf(const PtDecoding& decoding) {
  Histogram histogram;
  for (const PtDecoding::Block& block : decoding.blocks) {
    if (block.runs == 0) continue;
    for (const uint64_t address : block.addresses) histogram[address] += block.runs;
  }
  return histogram;
}

// libipt measures also what is no instruction, where wrong flow leads: there is nothing to compare with.
bool HasUndefinedCode(const PtDecoding& decoding) {
  return std::any_of(decoding.blocks.begin(), decoding.blocks.end(), [](const auto& block) {
    return std::adjacent_find(block.addresses.begin(), block.addresses.end()) !=
           block.addresses.end();
  });
}

// Empty if they agree.
std::string Disagreement(const PtOracleResult& by_instructions, const PtDecoding& by_blocks) {
  if (by_instructions.addresses.size() != by_blocks.statistics.instructions) {
    return StrFormat("{} instructions by pt_insn, {} by ours", by_instructions.addresses.size(),
                     by_blocks.statistics.instructions);
  }
  const std::string difference =
      PtFirstDifference(by_instructions.addresses, by_blocks.Addresses());
  if (!difference.empty()) return difference;
  return HistogramOf(by_instructions) == HistogramOf(by_blocks) ? "" : "counts of blocks differ";
}

struct Mode {
  std::string name;
  PtTraceSettings settings;
  size_t interrupts_apart = 0;

  friend std::ostream& operator<<(std::ostream& out, const Mode& mode) { return out << mode.name; }
};

std::vector<Mode> Modes() {
  std::vector<Mode> modes = {
      {"plain", {.mtc = false}},
      {"no_times", {.tsc = false, .mtc = false}},
      {"mtc", {.mtc_period = 3}},
      {"cyc", {.cyc = true}},
      {"frequency_changes", {.cyc = true, .frequency_changes = true}},
      {"overflows", {.cyc = true, .overflows_apart = 400, .lost_max = 300}},
      {"interrupts", {}, 200},
      {"interrupts_and_overflows", {.overflows_apart = 300}, 200},
      {"restarts", {.restarts_apart = 900}},
      {"long_tnt_and_padding", {.long_tnt = true, .padding = true}},
      {"few_psbs", {.psb_bytes = 0}},
  };
  const size_t count = modes.size();
  for (size_t i = 0; i < count; ++i) {
    Mode& other = modes.emplace_back(modes[i]);
    other.name += "_without_compression";
    other.settings.return_compression = false;
  }
  return modes;
}

class PtDecodersAgree : public testing::TestWithParam<Mode> {};

TEST_P(PtDecodersAgree, OnIntactTraces) {
  const Mode& mode = GetParam();
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const PtProgram program({.seed = seed, .functions = 20});
    const PtWalk walk(program, {.seed = seed,
                                .steps = 6000,
                                .signals_apart = 700,
                                .interrupts_apart = mode.interrupts_apart});
    if (!mode.settings.tsc && !walk.code_changes().empty()) continue;
    PtTraceSettings settings = mode.settings;
    settings.seed = seed;
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), settings);
    const PtOracleResult by_instructions = DecodeByLibipt(trace.bytes, walk, trace.visible);
    ASSERT_EQ(by_instructions.ErrorText(), "") << seed;
    EXPECT_GT(by_instructions.addresses.size(), 1000U) << seed;
    const PtWalkImage image(walk, settings);
    for (const PtWalkerKind walker : kWalkers) {
      const Result<PtDecoding> by_blocks = image.Decode(trace.bytes, 1, walker);
      if (!by_blocks) GTEST_SKIP() << by_blocks.error().message;
      ASSERT_EQ(by_blocks->statistics.bad, 0U) << seed;
      EXPECT_EQ(by_instructions.overflows, by_blocks->statistics.overflows) << seed;
      ASSERT_EQ(Disagreement(by_instructions, *by_blocks), "") << seed;
    }
  }
}

// One bit is wrong. Where neither notices, both went the same wrong way; and the comparison would have seen it if not.
TEST_P(PtDecodersAgree, OnWrongBitsThatNeitherNotices) {
  const Mode& mode = GetParam();
  const PtProgram program({.seed = 3, .functions = 20, .jit_slots = 0});
  const PtWalk walk(program, {.seed = 4, .steps = 3000, .interrupts_apart = mode.interrupts_apart});
  const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), mode.settings);
  const PtWalkImage image(walk, mode.settings);
  const PtOracleResult intact = DecodeByLibipt(trace.bytes, walk, trace.visible);
  std::mt19937_64 random(5);
  uint64_t wrong = 0;
  for (int i = 0; i < 200; ++i) {
    std::string damaged = trace.bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    const PtOracleResult by_instructions = DecodeByLibipt(damaged, walk, trace.visible);
    const Result<PtDecoding> by_blocks = image.Decode(damaged, 1, kWalkers[i % 2]);
    if (!by_blocks) GTEST_SKIP() << by_blocks.error().message;
    if (!by_instructions.errors.empty() || by_blocks->statistics.bad > 0) continue;
    if (HasUndefinedCode(*by_blocks)) continue;
    ASSERT_EQ(Disagreement(by_instructions, *by_blocks), "") << i;
    if (by_instructions.addresses == intact.addresses) continue;
    ++wrong;
    ASSERT_NE(Disagreement(intact, *by_blocks), "") << i;
  }
  EXPECT_GT(wrong, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, PtDecodersAgree, testing::ValuesIn(Modes()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(PtDecodersAgreeOnRandomPrograms, OnIntactTraces) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const PtProgramOptions options = PtProgramOfSeed(seed);
    const PtProgram program(options);
    const PtWalk walk(program, PtWalkOfSeed(options));
    const PtTraceSettings settings = PtSettingsOfSeed(seed, options);
    if (!settings.tsc && !walk.code_changes().empty()) continue;
    for (unsigned thread = 0; thread < walk.threads(); ++thread) {
      const PtTrace trace = EncodePt(walk, walk.StepsOfThread(thread), settings);
      const PtWalkImage image(walk, settings);
      for (const PtWalkerKind walker : kWalkers) {
        const Result<PtDecoding> by_blocks = image.Decode(trace.bytes, 1, walker);
        if (!by_blocks) GTEST_SKIP() << by_blocks.error().message;
        ASSERT_EQ(Disagreement(DecodeByLibipt(trace.bytes, walk, trace.visible), *by_blocks), "")
            << "seed " << seed << ", thread " << thread;
      }
    }
  }
}

}  // namespace
}  // namespace ptarmigan
