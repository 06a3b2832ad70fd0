// AUX buffers of Intel PT and Arm SPE: what is read is what was played, byte for byte, in every mode.
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "hw/internal/attr_bits.h"
#include "tests/softpmu/guest/guest_pmu.h"
#include "tests/softpmu/guest/noise.h"
#include "tests/softpmu/script.h"
#include "tests/softpmu/softpmu_abi.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kRate = 4'000'000;  // bytes a second
constexpr size_t kAuxBytes = size_t{128} << 10;
constexpr size_t kWatermark = size_t{16} << 10;

EventAttr PtAttr() {
  EventAttr attr = UserAttr(PmuType("intel_pt"));
  attr.config = 1U << 10 | 1U << 13;  // tsc, branch
  attr.aux_watermark_bytes = kWatermark;
  return attr;
}

std::unique_ptr<GuestEvent> OpenPt(const PerfOpenTarget& target = {}, bool snapshot = false) {
  auto event = GuestEvent::Open(PtAttr(), target);
  if (event == nullptr) return event;
  EXPECT_EQ(event->MapRing(size_t{64} << 10), 0);
  EXPECT_EQ(event->MapAux(kAuxBytes, snapshot), 0);
  return event;
}

TEST(AuxFull, IsByteExactAroundTheBufferManyTimes) {
  const std::string trace = Noise(50'021, 1);
  ASSERT_EQ(LoadScript("intel_pt",
                       EndlessScript(trace, {.rate = kRate, .flags = SOFTPMU_PATIENT}).bytes()),
            0);
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->Enable(), 0);
  std::string bytes;
  std::vector<AuxRecord> records;
  const auto take = [&] {
    for (const AuxRecord& record : event->TakeAux(&bytes)) records.push_back(record);
  };
  EXPECT_TRUE(Work([&] { return take(), bytes.size() > 5 * kAuxBytes; }));
  ASSERT_EQ(event->Disable(), 0);
  take();
  EXPECT_TRUE(Repeats(bytes, trace));
  uint64_t next = 0;
  for (const AuxRecord& record : records) {
    EXPECT_EQ(record.flags, 0U);
    EXPECT_EQ(record.offset, next);
    next = record.offset + record.bytes;
  }
  EXPECT_EQ(next, bytes.size());
}

TEST(AuxFull, WakesItsReaderAtTheWatermark) {
  ASSERT_EQ(LoadScript("intel_pt", EndlessScript(Noise(50'021, 1), {.rate = kRate}).bytes()), 0);
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->Enable(), 0);
  pollfd waited = {event->fd(), POLLIN, 0};
  EXPECT_TRUE(Work([&] { return ::poll(&waited, 1, 0) == 1; }));
  std::string bytes;
  event->TakeAux(&bytes);
  EXPECT_GE(bytes.size(), kWatermark);
}

// Works without giving any byte back.
bool StopsTruncated(GuestEvent& event) {
  return Work([&] {
    const std::vector<AuxRecord> records = event.TakeAux(nullptr);
    return !records.empty() && records.back().flags == PERF_AUX_FLAG_TRUNCATED;
  });
}

TEST(AuxFull, StopsTruncatedWithOneByteUnusedWhenNobodyReads) {
  const std::string trace = Noise(50'021, 2);
  ASSERT_EQ(
      LoadScript("intel_pt", EndlessScript(trace, {.rate = kRate, .flags = SOFTPMU_FILL}).bytes()),
      0);
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->Enable(), 0);
  EXPECT_TRUE(StopsTruncated(*event));
  std::string bytes;
  event->TakeAux(&bytes);
  EXPECT_EQ(bytes.size(), kAuxBytes - 1);
  EXPECT_TRUE(Repeats(bytes, trace));
}

TEST(AuxFull, EndsBeforeThePieceThatDoesNotFit) {
  const std::string trace = Noise(50'021, 2);
  const SoftPmuScript script = EndlessScript(trace, {.rate = kRate});
  ASSERT_EQ(LoadScript("intel_pt", script.bytes()), 0);
  size_t whole_pieces = 0;
  const auto pieces = PiecesOf(script.bytes());
  for (size_t i = 0; whole_pieces + pieces[i % pieces.size()].size() < kAuxBytes; ++i) {
    whole_pieces += pieces[i % pieces.size()].size();
  }
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->Enable(), 0);
  EXPECT_TRUE(StopsTruncated(*event));
  std::string bytes;
  event->TakeAux(&bytes);
  EXPECT_EQ(bytes.size(), whole_pieces);
}

// On CPU 0, Linux 6.1 takes the truncated event for enabled although its driver stopped, so that ENABLE alone does nothing.
class AuxTruncation : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OnCpu, AuxTruncation, testing::Values(0, 1));

TEST_P(AuxTruncation, EndsByDisableAndEnable) {
  const OnCpu on_cpu(GetParam());
  SoftPmuScript script;
  script.Rate(kRate);
  for (const char* piece : {"first", "second", "third"}) script.Sync().Data(piece).Gap();
  ASSERT_EQ(LoadScript("intel_pt", script.bytes()), 0);
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->Enable(), 0);
  std::string bytes;
  // A context switch restarts it as well, so that two truncations may be seen at once.
  size_t truncations = 0;
  EXPECT_TRUE(Work([&] {
    const std::vector<AuxRecord> records = event->TakeAux(&bytes);
    for (const AuxRecord& record : records) {
      if (record.flags == PERF_AUX_FLAG_TRUNCATED) ++truncations;
    }
    if (!records.empty()) {
      EXPECT_EQ(event->Disable(), 0);
      EXPECT_EQ(event->Enable(), 0);
    }
    return truncations == 3;
  }));
  EXPECT_EQ(bytes, "firstsecondthird");
}

TEST(AuxFull, CarriesTheFlagsOfTheHardware) {
  SoftPmuScript script;
  script.Rate(kRate);
  const std::string piece = Noise(kWatermark, 3);
  script.Data(piece).Flags(PERF_AUX_FLAG_PARTIAL).Data(piece);
  script.Flags(PERF_AUX_FLAG_COLLISION).Data(piece);
  ASSERT_EQ(LoadScript("intel_pt", script.bytes()), 0);
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->Enable(), 0);
  std::string bytes;
  uint64_t flags = 0;
  EXPECT_TRUE(Work([&] {
    for (const AuxRecord& record : event->TakeAux(&bytes)) flags |= record.flags;
    return bytes.size() == 3 * kWatermark;
  }));
  EXPECT_EQ(flags, uint64_t{PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION});
}

TEST(AuxSnapshot, HoldsTheLastBytesAndItsHeadIsAPlace) {
  // More than the buffer holds, then nothing more.
  const std::string trace = Noise(kAuxBytes + 70'000, 4);
  SoftPmuScript script;
  script.Rate(kRate);
  for (size_t at = 0; at < trace.size(); at += 100) script.Sync().Data(trace.substr(at, 100));
  ASSERT_EQ(LoadScript("intel_pt", script.bytes()), 0);
  const auto event = OpenPt({}, true);
  ASSERT_NE(event, nullptr);
  const uint64_t played_before = PmuCount("aux_bytes");
  ASSERT_EQ(event->Enable(), 0);
  EXPECT_TRUE(Work([&] { return PmuCount("aux_bytes") - played_before == trace.size(); }));
  ASSERT_EQ(event->Disable(), 0);
  const std::vector<AuxRecord> records = event->TakeAux(nullptr);
  ASSERT_FALSE(records.empty());
  for (const AuxRecord& record : records) {
    EXPECT_EQ(record.bytes, kAuxBytes);
    EXPECT_EQ(record.flags, uint64_t{PERF_AUX_FLAG_OVERWRITE});
  }
  EXPECT_EQ(records.back().offset, trace.size() % kAuxBytes);
  EXPECT_TRUE(event->Snapshot() == trace.substr(70'000));
}

TEST(AuxSample, IsByteExact) {
  constexpr uint32_t kSampleBytes = 2048;
  const std::string trace = Noise(50'021, 5);
  const std::string twice = trace + trace;
  ASSERT_EQ(LoadScript("intel_pt", EndlessScript(trace, {.rate = kRate}).bytes()), 0);
  const auto event = OpenPt({}, true);
  ASSERT_NE(event, nullptr);
  EventAttr attr = UserAttr(PERF_TYPE_HARDWARE);
  attr.config = PERF_COUNT_HW_CPU_CYCLES;
  internal::SetBit(&attr, internal::kBitDisabled, false);
  attr.sample_period = 5'000'000;
  attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_AUX;
  attr.aux_sample_bytes = kSampleBytes;
  const auto sampler = GuestEvent::Open(attr, {.group_fd = event->fd()});
  ASSERT_NE(sampler, nullptr);
  ASSERT_EQ(sampler->MapRing(size_t{256} << 10), 0);
  ASSERT_EQ(event->Enable(), 0);
  size_t samples = 0;
  EXPECT_TRUE(Work([&] {
    for (const KernelRecord& record : sampler->Records()) {
      if (record.type != PERF_RECORD_SAMPLE) continue;
      EXPECT_EQ(record.Word(8), kSampleBytes);
      const std::string bytes = record.body.substr(16, kSampleBytes);
      EXPECT_NE(twice.find(bytes), std::string::npos) << "sample " << samples;
      ++samples;
    }
    return samples >= 10;
  }));
}

TEST(AuxOwnership, IsExclusive) {
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  int refusal = 0;
  EXPECT_EQ(GuestEvent::Open(PtAttr(), {}, &refusal), nullptr);
  EXPECT_EQ(refusal, EBUSY);
  EXPECT_EQ(GuestEvent::Open(PtAttr(), {.pid = -1, .cpu = 0}, &refusal), nullptr);
  EXPECT_EQ(refusal, EBUSY);
}

TEST(AuxOwnership, KeepsTheScriptWhileAnEventPlaysIt) {
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(LoadScript("intel_pt", SoftPmuScript().Data("x").bytes()), EBUSY);
}

TEST(AuxRefusal, OfWhatTheHardwareDoesNotHave) {
  int refusal = 0;
  EventAttr attr = PtAttr();
  attr.config |= uint64_t{1} << 62;
  EXPECT_EQ(GuestEvent::Open(attr, {}, &refusal), nullptr);
  EXPECT_EQ(refusal, EINVAL);
  attr = UserAttr(PmuType("arm_spe_0"));
  internal::SetBit(&attr, internal::kBitFreq);
  attr.sample_freq_hz = 1000;
  EXPECT_EQ(GuestEvent::Open(attr, {}, &refusal), nullptr);
  EXPECT_EQ(refusal, EINVAL);
  const auto event = GuestEvent::Open(PtAttr());
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->MapRing(size_t{64} << 10), 0);
  EXPECT_EQ(event->MapAux(size_t{3} * 4096, false), EINVAL);
}

// Where this program's code is mapped.
struct Mapping {
  unsigned long long start = 0;
  unsigned long long offset = 0;
  std::string path;
};
Mapping CodeMapping() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping;
    char modes[8] = {};
    int path = 0;
    if (std::sscanf(line.c_str(), "%llx-%*x %7s %llx %*s %*s %n", &mapping.start, modes,
                    &mapping.offset, &path) == 3 &&
        std::string_view(modes) == "r-xp") {
      mapping.path = line.substr(static_cast<size_t>(path));
      return mapping;
    }
  }
  return {};
}

TEST(AuxFilter, IsResolvedToTheRangeOfTheMappedFile) {
  const auto event = OpenPt();
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->SetFilter("nonsense"), EINVAL);
  EXPECT_EQ(event->SetFilter("start 0x1000@/bin/busybox"), EOPNOTSUPP);
  EXPECT_EQ(event->SetFilter("filter 0x1000/0x10@/bin/busybox,filter 0x2000/0x10@/bin/busybox,"
                             "filter 0x3000/0x10@/bin/busybox"),
            EOPNOTSUPP);
  const Mapping code = CodeMapping();
  char filter[128];
  std::snprintf(filter, sizeof(filter), "filter 0x%llx/0x80@%s", code.offset + 0x40,
                code.path.c_str());
  EXPECT_EQ(event->SetFilter(filter), 0);
  ASSERT_EQ(event->Enable(), 0);
  WorkFor(1'000'000);
  char range[64];
  std::snprintf(range, sizeof(range), "%llx-%llx", code.start + 0x40, code.start + 0xc0);
  EXPECT_EQ(PmuStatusLine("filters"), range);
}

TEST(Spe, WritesARecordEachPeriodAndTakesANewPeriodWhileItRuns) {
  constexpr size_t kRecordBytes = 64;
  constexpr uint64_t kPeriod = 102'400;  // nanoseconds here
  const std::string trace = Noise(kRecordBytes * 997, 6);
  SoftPmuScript script(SOFTPMU_PATIENT);
  const uint32_t begin = script.here();
  ASSERT_TRUE(AppendRecords(trace, kRecordBytes, &script).has_value());
  script.LoopTo({.target = begin});
  ASSERT_EQ(LoadScript("arm_spe_0", script.bytes()), 0);
  EventAttr attr = UserAttr(PmuType("arm_spe_0"));
  attr.sample_period = kPeriod;
  attr.aux_watermark_bytes = 4096;
  const auto event = GuestEvent::Open(attr);
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->MapRing(size_t{64} << 10), 0);
  ASSERT_EQ(event->MapAux(kAuxBytes, false), 0);
  std::string bytes;
  ASSERT_EQ(event->Enable(), 0);
  EXPECT_TRUE(Work([&] { return event->TakeAux(&bytes), bytes.size() >= 500 * kRecordBytes; }));
  ASSERT_EQ(event->Disable(), 0);
  event->TakeAux(&bytes);
  // Four times as long, so a quarter of the records in the same time.
  ASSERT_EQ(event->SetPeriod(4 * kPeriod), 0);
  const size_t before = bytes.size();
  ASSERT_EQ(event->Enable(), 0);
  const uint64_t begin_ns = ThreadTimeNs();
  EXPECT_TRUE(
      Work([&] { return event->TakeAux(&bytes), bytes.size() - before >= 100 * kRecordBytes; }));
  EXPECT_GE(ThreadTimeNs() - begin_ns, uint64_t{3} * 100 * kPeriod);
  EXPECT_EQ(bytes.size() % kRecordBytes, 0U);
  EXPECT_TRUE(Repeats(bytes, trace));
}

}  // namespace
}  // namespace ptarmigan
