#include "decode/coresight_setup.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "decode/perf_data_file.h"
#include "decode/record_types.h"
#include "model/event_source.h"
#include "tests/support/byte_writer.h"
#include "tests/support/perf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kCoreSight = 3;
constexpr uint64_t kEtm3 = 0x3030303030303030;
constexpr uint64_t kEtm4 = 0x4040404040404040;
constexpr uint64_t kEte = 0x5050505050505050;

std::optional<CoreSightSetup> Read(const ByteWriter& body) {
  const std::string bytes = RecordBytes(kRecordAuxtraceInfo, 0, body.bytes());
  return ReadCoreSightSetup(AsBytes(bytes), std::endian::little);
}

ByteWriter Head(uint64_t version, uint32_t cpus) {
  ByteWriter writer;
  writer.U32(kCoreSight).U32(0).U64(version).U64(uint64_t{8} << 32 | cpus).U64(0);
  return writer;
}

TEST(CoreSightSetup, ReadsTheRegistersOfEveryUnit) {
  ByteWriter writer = Head(1, 3);
  writer.U64(kEtm4).U64(0).U64(7).U64(0x40).U64(0x10).U64(1).U64(2).U64(3).U64(4).U64(0x8c);
  writer.U64(kEte)
      .U64(1)
      .U64(9)
      .U64(0x41)
      .U64(0x12)
      .U64(5)
      .U64(6)
      .U64(7)
      .U64(8)
      .U64(0)
      .U64(0x47705a13)
      .U64(1);
  writer.U64(kEtm3).U64(2).U64(4).U64(0x42).U64(0x14).U64(9).U64(0x41000300);
  const auto setup = Read(writer);
  ASSERT_TRUE(setup);
  EXPECT_EQ(setup->pmu_type, 8U);
  EXPECT_FALSE(setup->has_hardware_ids);
  EXPECT_FALSE(setup->is_cut);
  ASSERT_EQ(setup->units.size(), 3U);
  EXPECT_EQ(setup->units[0], (EtmUnit{.cpu = 0,
                                      .protocol = EtmProtocol::kEtm4,
                                      .config = 0x40,
                                      .trace_id = 0x10,
                                      .idr0 = 1,
                                      .idr1 = 2,
                                      .idr2 = 3,
                                      .idr8 = 4}));
  EXPECT_EQ(setup->units[1], (EtmUnit{.cpu = 1,
                                      .protocol = EtmProtocol::kEte,
                                      .config = 0x41,
                                      .trace_id = 0x12,
                                      .idr0 = 5,
                                      .idr1 = 6,
                                      .idr2 = 7,
                                      .idr8 = 8,
                                      .devarch = 0x47705a13}));
  EXPECT_EQ(setup->units[2], (EtmUnit{.cpu = 2,
                                      .protocol = EtmProtocol::kPtm,
                                      .config = 0x42,
                                      .trace_id = 0x14,
                                      .idr0 = 0x41000300,
                                      .ccer = 9}));
}

TEST(CoreSightSetup, OfTheFirstVersionHasNoParameterCounts) {
  ByteWriter writer = Head(0, 2);
  writer.U64(kEtm4).U64(4).U64(0x40).U64(0x10).U64(1).U64(2).U64(3).U64(4).U64(0x8c);
  writer.U64(kEtm4).U64(5).U64(0x40).U64(0x12).U64(1).U64(2).U64(3).U64(4).U64(0x8c);
  const auto setup = Read(writer);
  ASSERT_TRUE(setup);
  ASSERT_EQ(setup->units.size(), 2U);
  EXPECT_EQ(setup->units[1].cpu, 5U);
  EXPECT_EQ(setup->units[1].trace_id, 0x12U);
}

TEST(CoreSightSetup, StepsOverUnitsItDoesNotKnow) {
  ByteWriter writer = Head(1, 2);
  writer.U64(0x6060606060606060).U64(0).U64(2).U64(1).U64(2);
  writer.U64(kEtm4).U64(1).U64(2).U64(0x40).U64(0x10);
  const auto setup = Read(writer);
  ASSERT_TRUE(setup);
  EXPECT_EQ(setup->unknown_units, 1U);
  ASSERT_EQ(setup->units.size(), 1U);
  EXPECT_EQ(setup->units[0].idr0, 0U);  // not given
}

TEST(CoreSightSetup, ThatIsCutKeepsItsWholeUnits) {
  ByteWriter writer = Head(1, 9);
  writer.U64(kEtm4).U64(0).U64(7).U64(0x40).U64(0x10).U64(1).U64(2).U64(3).U64(4).U64(0x8c);
  writer.U64(kEtm4).U64(1).U64(7).U64(0x40);
  const auto setup = Read(writer);
  ASSERT_TRUE(setup);
  EXPECT_TRUE(setup->is_cut);
  EXPECT_EQ(setup->units.size(), 1U);
}

TEST(CoreSightSetup, IsNothingForOtherTraces) {
  EXPECT_FALSE(Read(ByteWriter().U32(4).U32(0).U64(1).U64(0).U64(0)));
  EXPECT_FALSE(Read(ByteWriter().U32(kCoreSight).U32(0).U64(1)));
  EXPECT_FALSE(Read(Head(3, 0)));
}

TEST(CoreSightHardwareId, NamesTraceIdAndSink) {
  const auto old = ReadCoreSightHardwareId(0x10);
  ASSERT_TRUE(old);
  EXPECT_EQ(old->trace_id, 0x10);
  EXPECT_FALSE(old->sink);
  const auto with_sink =
      ReadCoreSightHardwareId(uint64_t{1} << 56 | uint64_t{0x12345678} << 8 | 0x6f);
  ASSERT_TRUE(with_sink);
  EXPECT_EQ(with_sink->trace_id, 0x6f);
  EXPECT_EQ(with_sink->sink, 0x12345678U);
}

TEST(CoreSightHardwareId, OfAnUnknownKindIsNone) {
  EXPECT_FALSE(ReadCoreSightHardwareId(0));
  EXPECT_FALSE(ReadCoreSightHardwareId(0x70));
  EXPECT_FALSE(ReadCoreSightHardwareId(uint64_t{1} << 60 | 0x10));
}

}  // namespace
}  // namespace ptarmigan
