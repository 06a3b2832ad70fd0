#include "decode/pt_config.h"

#include <gtest/gtest.h>

#include <string>

#include "decode/record_types.h"
#include "tests/support/byte_writer.h"

namespace ptarmigan {
namespace {

// As perf 6.1 writes it for a processor whose TSC runs 125 times as fast as its crystal.
std::string AuxtraceBytes(uint64_t type, size_t fields) {
  const uint64_t all[] = {10, 31,  715827883, 5000000000, 1, 1024, 2048, 1, 0,
                          1,  512, 0x3c000,   250,        2, 2,    30,   0};
  ByteWriter writer;
  writer.U32(kRecordAuxtraceInfo).U16(0).U16(0).U32(static_cast<uint32_t>(type)).U32(0);
  for (size_t i = 0; i < fields; ++i) writer.U64(all[i]);
  return writer.bytes();
}

TEST(PtConfig, IsReadFromAuxtraceInfoAndTheEvent) {
  const std::string bytes = AuxtraceBytes(1, 17);
  auto recording = ReadPtRecording(AsBytes(bytes), std::endian::little);
  ASSERT_TRUE(recording.has_value());
  EXPECT_EQ(recording->pmu_type, 10U);
  EXPECT_TRUE(recording->per_cpu_mmaps);
  EXPECT_TRUE(recording->have_sched_switch);
  recording->SetEventConfig(1 | 512 | 1024 | (3 << 14));
  EXPECT_TRUE(recording->config.return_compression);
  EXPECT_TRUE(recording->config.mtc);
  EXPECT_FALSE(recording->config.cyc);
  EXPECT_EQ(recording->config.mtc_frequency, 3);
  EXPECT_EQ(recording->config.MtcPeriodTicks(), 1000U);
  EXPECT_EQ(recording->config.nominal_ratio, 30);
}

TEST(PtConfig, OlderRecordsSayLess) {
  const std::string bytes = AuxtraceBytes(1, 10);
  const auto recording = ReadPtRecording(AsBytes(bytes), std::endian::little);
  ASSERT_TRUE(recording.has_value());
  EXPECT_EQ(recording->config.tsc_ratio, 0U);
  EXPECT_EQ(recording->config.MtcPeriodTicks(), 0U);
  EXPECT_TRUE(recording->config.has_clock());
}

TEST(PtConfig, OtherTracesAndShortRecordsAreNone) {
  EXPECT_FALSE(ReadPtRecording(AsBytes(AuxtraceBytes(4, 17)), std::endian::little).has_value());
  EXPECT_FALSE(ReadPtRecording(AsBytes(AuxtraceBytes(1, 9)), std::endian::little).has_value());
  EXPECT_FALSE(ReadPtRecording({}, std::endian::little).has_value());
}

TEST(PtConfig, ReadsTheCpuFromTheHeadersText) {
  PtRecording recording;
  EXPECT_TRUE(recording.SetCpu("GenuineIntel,6,79,1"));
  EXPECT_TRUE(recording.config.cpu_is_intel);
  EXPECT_EQ(recording.config.cpu_family, 6);
  EXPECT_EQ(recording.config.cpu_model, 79);
  EXPECT_EQ(recording.config.cpu_stepping, 1);
  EXPECT_FALSE(recording.SetCpu("AuthenticAMD,25,1,1"));
  EXPECT_FALSE(recording.SetCpu("GenuineIntel,6,7900,1"));
  EXPECT_FALSE(recording.SetCpu(""));
}

TEST(PtConfig, TicksAndNanosecondsConvertBothWays) {
  PtConfig config;
  EXPECT_FALSE(config.has_clock());
  EXPECT_EQ(config.ToTicks(1), 0U);
  config.time_shift = 31;
  config.time_mult = 715827883;
  config.time_zero = 5000000000;
  for (const uint64_t ticks : {uint64_t{1}, uint64_t{1250999896491}, uint64_t{1} << 60}) {
    const uint64_t ns = config.ToNs(ticks);
    EXPECT_LE(config.ToTicks(ns), ticks);
    EXPECT_EQ(config.ToNs(config.ToTicks(ns)), ns);
  }
  EXPECT_EQ(config.ToTicks(5), 0U);
  EXPECT_EQ(config.ToTicks(UINT64_MAX), UINT64_MAX);
}

// The counter is 1.7 s older than the kernel's clock, as on every machine whose firmware took its time.
TEST(PtConfig, ConvertsWhereTheKernelsClockBeganLater) {
  PtConfig config;
  config.time_shift = 31;
  config.time_mult = 933688542;
  config.time_zero = 18446744072041748462U;
  constexpr uint64_t kTicks = 0x65d91e130;
  constexpr uint64_t kNs = 10218999113;
  EXPECT_EQ(config.ToNs(kTicks), kNs);
  EXPECT_LE(config.ToTicks(kNs), kTicks);
  EXPECT_EQ(config.ToNs(config.ToTicks(kNs)), kNs);
  EXPECT_GT(config.ToTicks(0), 0U);
  EXPECT_EQ(config.ToTicks(UINT64_MAX), UINT64_MAX);
}

}  // namespace
}  // namespace ptarmigan
