// The bars of pt_flip_test on traces of real programs (pt-synth).
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/decode/pt_synth.h"
#include "tests/encoders/pt_flips.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

struct Kind {
  const char* name;
  bool compressed;
};
constexpr Kind kRecordings[] = {{"shapes.ret-mtc-psb2k", true}, {"shapes.noret-mtc-psb4k", false},
                                {"shapes.ret-cyc", true},       {"dispatch.noret-cyc-psb4k", false},
                                {"dispatch.notime", true},      {"shapes.irq", true},
                                {"coro.ret-mtc", true}};

TEST(PtSynthFlips, MostWrongBitsAreNoticedInTracesOfRealPrograms) {
  const std::string symfs = TestDataPath("pt-synth/symfs");
  if (symfs.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  PtFlips compressed;
  PtFlips uncompressed;
  uint64_t seed = 0;
  for (const Kind& kind : kRecordings) {
    const PtSynth synth(TestDataPath(std::string("pt-synth/") + kind.name + ".perf.data"), symfs);
    for (const auto& [tid, trace] : synth.traces()) {
      const PtStream stream = synth.Stream(tid, trace);
      const Result<PtFlips> flips = FlipPtBits({.bytes = std::string(AsText(trace)),
                                                .config = synth.recording().config,
                                                .occupants = stream.occupants,
                                                .image = &synth.image()},
                                               ++seed, kind.compressed ? 100 : 250);
      if (!flips) GTEST_SKIP() << flips.error().message;
      (kind.compressed ? compressed : uncompressed) += *flips;
    }
  }
  std::printf("returns compressed: %sreturns not compressed: %s", compressed.Text().c_str(),
              uncompressed.Text().c_str());
  PtFlips all = compressed;
  all += uncompressed;
  EXPECT_GE(all.flips, 1000U);
  EXPECT_LE(all.verified_but_wrong * 100, all.flips * 5);
  EXPECT_GE(all.silent_caught * 100, all.silent * 60);
  EXPECT_GE(all.undamaged_verified_bytes * 100, all.undamaged_bytes * 95);
}

TEST(PtSynthFlips, IntactTracesRaiseNoAlarm) {
  const std::string directory = TestDataPath("pt-synth");
  if (directory.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  const auto names = ListDirectory(directory);
  ASSERT_TRUE(names.has_value());
  size_t recordings = 0;
  for (const std::string& name : *names) {
    if (!name.ends_with(".perf.data")) continue;
    const PtSynth synth(directory + "/" + name, directory + "/symfs");
    std::vector<PtStream> streams;
    for (const auto& [tid, trace] : synth.traces()) streams.push_back(synth.Stream(tid, trace));
    for (const PtSynthWindow& window : synth.windows()) {
      streams.push_back(synth.Stream(-1, window.bytes));
    }
    for (const PtStream& stream : streams) {
      const Result<PtDecoding> decoding = DecodePt(synth.recording().config, stream, synth.image());
      if (!decoding) GTEST_SKIP() << decoding.error().message;
      for (const PtDecoding::Segment& segment : decoding->segments) {
        EXPECT_EQ(segment.trust, FlowTrust::kVerified)
            << name << ", offset " << segment.begin_offset << ", reasons " << segment.reasons;
      }
    }
    ++recordings;
  }
  EXPECT_GT(recordings, 20U);
}

}  // namespace
}  // namespace ptarmigan
