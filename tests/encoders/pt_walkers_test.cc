// Our own walker says what libipt's says, of every segment and in every field: of recordings, of random programs in all modes,
// and of damaged traces, of which it leaves more to libipt.
#include "tests/decode/pt_walkers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "tests/decode/pt_synth.h"
#include "tests/encoders/pt_decoding.h"
#include "tests/encoders/pt_packets.h"
#include "tests/encoders/pt_variety.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

PtStream StreamOf(const std::string& trace, const PtWalkImage& image) {
  PtStream stream;
  stream.bytes = AsBytes(trace);
  stream.occupants = {{.image = &image.image()}};
  return stream;
}

class PtWalkersOnRecordings : public testing::TestWithParam<std::string> {};

TEST_P(PtWalkersOnRecordings, SayTheSame) {
  const std::string path = TestDataPath("pt-synth/" + GetParam() + ".perf.data");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  const PtSynth synth(path, TestDataPath("pt-synth/symfs"));
  std::vector<PtStream> streams;
  for (const auto& [tid, trace] : synth.traces()) streams.push_back(synth.Stream(tid, trace));
  for (const PtSynthWindow& window : synth.windows()) {
    streams.push_back(synth.Stream(0, window.bytes));
  }
  const PtWalkerComparison comparison =
      ComparePtWalkersInAllWays(synth.recording().config, streams);
  if (comparison.segments == 0) GTEST_SKIP() << PtUnsupportedSentence();
  EXPECT_EQ(comparison.difference, "");
  EXPECT_EQ(comparison.other_errors, 0U);
  // But one, in each of four ways: what stands at the end of a recording is cut off.
  EXPECT_LE(comparison.by_libipt, 4U) << comparison.Text();
}

INSTANTIATE_TEST_SUITE_P(
    Whole, PtWalkersOnRecordings,
    testing::Values("shapes.ret-mtc-psb2k", "shapes.noret-mtc-psb4k", "shapes.ret-cyc",
                    "shapes.tsconly", "shapes.ovf", "shapes.irq", "shapes.chunked", "shapes.ring",
                    "shapes.samples", "dispatch.noret-cyc-psb4k", "dispatch.ret-mtc-buildidmmap",
                    "dispatch.ovf-irq", "dispatch.notime", "dispatch.samples-overlap",
                    "coro.ret-mtc", "coro.pad-tnt64", "coro.ring", "coro.samples", "jit.ret-mtc",
                    "jit.noret-cyc", "threads.perthread-ret-cyc", "threads.perthread-mtc-irq",
                    "threads.percpu-cyc"),
    [](const auto& tested) {
      std::string name = tested.param;
      for (char& c : name) c = isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

TEST(PtWalkersOnRandomPrograms, SayTheSame) {
  PtWalkerComparison all;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const PtProgramOptions options = PtProgramOfSeed(seed);
    const PtProgram program(options);
    const PtWalk walk(program, PtWalkOfSeed(options));
    for (unsigned thread = 0; thread < walk.threads(); ++thread) {
      const PtTraceSettings settings = PtSettingsOfSeed(seed + thread, options);
      const PtTrace trace = EncodePt(walk, walk.StepsOfThread(thread), settings);
      const PtWalkImage image(walk, settings);
      const PtWalkerComparison comparison =
          ComparePtWalkersInAllWays(image.config(), {StreamOf(trace.bytes, image)});
      ASSERT_EQ(comparison.difference, "") << "seed " << seed << ", thread " << thread;
      all.Add(comparison);
    }
  }
  std::printf("%s\n", all.Text().c_str());
  // The programs and settings that mean to use what our walker does not follow are many.
  EXPECT_LE(all.by_libipt * 2, all.segments);
}

TEST(PtWalkersOnRandomPrograms, OrdinaryTracesAreNotLeftToLibipt) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const PtProgram program(
        {.seed = seed, .mix = PtMix::kOrdinary, .functions = 40, .is_64_bit = seed % 4 != 0});
    const PtWalk walk(program, {.seed = seed,
                                .steps = 8000,
                                .signals_apart = seed % 3 == 0 ? 900U : 0U,
                                .interrupts_apart = seed % 2 == 0 ? 300U : 0U});
    PtTraceSettings settings;
    settings.seed = seed;
    settings.return_compression = seed % 3 != 1;
    settings.cyc = seed % 2 == 1;
    settings.frequency_changes = seed % 5 == 1;
    settings.long_tnt = seed % 7 == 1;
    settings.padding = seed % 7 == 2;
    settings.modes = seed % 7 == 3;
    settings.overflows_apart = seed % 5 == 2 ? 500 : 0;
    settings.restarts_apart = seed % 5 == 3 ? 900 : 0;
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), settings);
    const PtWalkImage image(walk, settings);
    const PtWalkerComparison comparison =
        ComparePtWalkersInAllWays(image.config(), {StreamOf(trace.bytes, image)});
    ASSERT_EQ(comparison.difference, "") << seed;
    EXPECT_EQ(comparison.by_libipt, 0U) << seed << ": " << comparison.Text();
  }
}

TEST(PtWalkersOnDamagedTraces, SayTheSame) {
  PtWalkerComparison all;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const PtProgramOptions options = PtProgramOfSeed(seed);
    const PtProgram program(options);
    const PtWalk walk(program, PtWalkOfSeed(options));
    const PtTraceSettings settings = PtSettingsOfSeed(seed, options);
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), settings);
    const PtWalkImage image(walk, settings);
    std::mt19937_64 random(seed);
    for (int damage = 0; damage < 40; ++damage) {
      std::string bytes = trace.bytes;
      for (int i = 0; i <= damage % 4; ++i) {
        bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      }
      PtOptions ways;
      ways.want_path = damage % 3 == 0;
      ways.want_time = damage % 5 != 0;
      const PtWalkerComparison comparison =
          ComparePtWalkers(image.config(), {StreamOf(bytes, image)}, ways);
      ASSERT_EQ(comparison.difference, "") << "seed " << seed << ", damage " << damage;
      all.Add(comparison);
    }
  }
  std::printf("%s\n", all.Text().c_str());
  EXPECT_LE(all.other_errors * 100, all.segments);
}

// A call of itself, between two bits and behind the last one.
TEST(PtWalkersOnDamagedTraces, CodeThatNeverNeedsAPacketComesToAnEnd) {
  std::string code("\x0f\x84\x10\x00\x00\x00", 6);  // jz +16
  code.resize(22, '\x90');
  code += std::string("\xe8\xfb\xff\xff\xff", 5);
  ArrayCodeImage image;
  image.AddRegion({.start = {0x1000}, .bytes = AsBytes(code), .content = 1});
  for (const unsigned bits : {1U, 2U}) {
    PtPacketWriter writer({});
    writer.Psb();
    writer.ModeExec(true);
    writer.Address(PtPacketKind::kFup, 0x1000);
    writer.PsbEnd();
    writer.TntShort((1U << bits) - 1, bits);
    writer.Address(PtPacketKind::kTip, 0x1000);
    PtStream stream;
    stream.bytes = AsBytes(writer.bytes());
    stream.occupants = {{.image = &image}};
    const PtWalkerComparison comparison = ComparePtWalkersInAllWays({}, {stream});
    EXPECT_EQ(comparison.difference, "") << bits;
    EXPECT_EQ(comparison.by_libipt, comparison.segments);
  }
}

// One walker behind the other finds nothing to tell, whoever counts.
TEST(PtWalkersOnRandomPrograms, BothAtOnceFindNoDifference) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const PtProgramOptions program_options = PtProgramOfSeed(seed);
    const PtProgram program(program_options);
    const PtWalk walk(program, PtWalkOfSeed(program_options));
    const PtTraceSettings settings = PtSettingsOfSeed(seed, program_options);
    const PtTrace trace = EncodePt(walk, walk.StepsOfThread(0), settings);
    const PtWalkImage image(walk, settings);
    PtOptions options;
    options.walker = PtWalkerKind::kBoth;
    options.threads = 1 + seed % 3;
    const auto decoder = PtDecoder::Create(image.config(), options);
    if (!decoder) GTEST_SKIP() << decoder.error().message;
    struct NoSink : FlowSink {
      void OnFlowSegment(const FlowGraph&, const FlowSegment&) override {}
    } sink;
    ASSERT_TRUE((*decoder)->Decode(StreamOf(trace.bytes, image), sink).has_value());
    EXPECT_EQ((*decoder)->statistics().first_difference, "") << seed;
    EXPECT_GT((*decoder)->statistics().instructions, 0U);
  }
}

}  // namespace
}  // namespace ptarmigan
