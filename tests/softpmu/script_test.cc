// Scripts of the software PMU hold every byte of a trace, in pieces that end where packets do.
#include "tests/softpmu/script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/encoders/pt_trace.h"
#include "tests/softpmu/softpmu_abi.h"

namespace ptarmigan {
namespace {

PtTrace Encode(uint64_t seed) {
  const PtProgram program({.seed = seed});
  const PtWalk walk(program, {.seed = seed, .steps = 5000});
  PtTraceSettings settings;
  settings.seed = seed;
  settings.cyc = true;
  settings.long_tnt = true;
  settings.padding = true;
  settings.ptwrite = true;
  settings.overflows_apart = 700;
  settings.psb_bytes = 512;
  return EncodePt(walk, walk.StepsOfThread(0), settings);
}

TEST(SoftPmuScript, CutsEveryKindOfTraceAtPacketsAlone) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const PtTrace trace = Encode(seed);
    std::set<size_t> packet_ends;
    for (const PtPacketPlace& packet : trace.packets) {
      packet_ends.insert(packet.offset + packet.size_bytes);
    }
    SoftPmuScript script;
    ASSERT_EQ(AppendPt(trace.bytes, {.piece_bytes = 1 + seed, .live_time = seed % 2 == 0}, &script),
              0U);
    EXPECT_EQ(BytesOf(script.bytes()), trace.bytes);
    size_t end = 0;
    for (const std::string_view piece : PiecesOf(script.bytes())) {
      end += piece.size();
      EXPECT_TRUE(packet_ends.contains(end)) << "cut at " << end;
    }
  }
}

TEST(SoftPmuScript, GivesEachTscItsOwnPieceToPatch) {
  const PtTrace trace = Encode(3);
  const auto tscs =
      std::count_if(trace.packets.begin(), trace.packets.end(),
                    [](const PtPacketPlace& packet) { return packet.kind == PtPacketKind::kTsc; });
  ASSERT_GT(tscs, 0);
  SoftPmuScript script;
  SoftPmuScript without;
  AppendPt(trace.bytes, {.piece_bytes = 100000, .live_time = true}, &script);
  AppendPt(trace.bytes, {.piece_bytes = 100000, .live_time = false}, &without);
  EXPECT_EQ(BytesOf(script.bytes()), BytesOf(without.bytes()));
  const size_t time_bytes = sizeof(softpmu_op) + sizeof(softpmu_time);
  EXPECT_GE(script.bytes().size(), without.bytes().size() + static_cast<size_t>(tscs) * time_bytes);
}

TEST(SoftPmuScript, LeavesOutWhatIsNoPacket) {
  const std::string psb = Encode(1).bytes.substr(0, 16);
  const std::string junk = "\x02\xff\x02\xff";
  SoftPmuScript script;
  EXPECT_EQ(AppendPt(psb + junk + psb + junk, {}, &script), 2 * junk.size());
  EXPECT_EQ(BytesOf(script.bytes()), psb + psb);
}

TEST(SoftPmuScript, RefusesPartsOfRecords) {
  SoftPmuScript script;
  EXPECT_FALSE(AppendRecords(std::string(100, 'x'), 64, &script).has_value());
  EXPECT_TRUE(AppendRecords(std::string(128, 'x'), 64, &script).has_value());
  EXPECT_EQ(PiecesOf(script.bytes()).size(), 2U);
}

}  // namespace
}  // namespace ptarmigan
