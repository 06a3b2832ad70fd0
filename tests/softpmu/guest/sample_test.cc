// Samples of the core PMU and of IBS: branch stacks, memory accesses, raw registers, periods and throttling, all delivered
// by NMI as a real PMU does it.
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "hw/internal/attr_bits.h"
#include "tests/softpmu/guest/guest_pmu.h"
#include "tests/softpmu/script.h"
#include "tests/softpmu/softpmu_abi.h"

namespace ptarmigan {
namespace {

constexpr size_t kRingBytes = size_t{256} << 10;

EventAttr CyclesAttr(uint64_t period, uint64_t sample_type) {
  EventAttr attr = UserAttr(PERF_TYPE_HARDWARE);
  attr.config = PERF_COUNT_HW_CPU_CYCLES;
  attr.sample_period = period;
  attr.sample_type = sample_type;
  return attr;
}

template <typename T>
std::string_view View(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// The samples of this thread's own work, at least `count`.
std::vector<KernelRecord> Sample(const EventAttr& attr, size_t count) {
  std::vector<KernelRecord> samples;
  const auto event = GuestEvent::Open(attr);
  if (event == nullptr) return samples;
  EXPECT_EQ(event->MapRing(kRingBytes), 0);
  EXPECT_EQ(event->Enable(), 0);
  EXPECT_TRUE(Work([&] {
    for (KernelRecord& record : event->Records()) {
      if (record.type == PERF_RECORD_SAMPLE) samples.push_back(std::move(record));
    }
    return samples.size() >= count;
  }));
  return samples;
}

TEST(Nmi, DeliversEverySample) {
  const uint64_t before = PmuCount("samples");
  const uint64_t before_in_nmi = PmuCount("samples_in_nmi");
  EXPECT_GE(Sample(CyclesAttr(2'000'000, PERF_SAMPLE_IP), 20).size(), 20U);
  EXPECT_GE(PmuCount("samples") - before, 20U);
  EXPECT_EQ(PmuCount("samples_in_nmi") - before_in_nmi, PmuCount("samples") - before);
}

TEST(Lbr, CallStackIsTheChainOfFramePointers) {
  EventAttr attr =
      CyclesAttr(2'000'000, PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_BRANCH_STACK);
  attr.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK;
  internal::SetBit(&attr, internal::kBitExcludeCallchainKernel);
  size_t deep = 0;
  for (const KernelRecord& sample : Sample(attr, 40)) {
    // u64 ip, u64 nr, u64 ips[nr], u64 nr, entries of three words
    const uint64_t callers = sample.Word(8);
    const size_t branches_at = 16 + 8 * callers;
    const uint64_t branches = sample.Word(branches_at);
    // The context marker and the place itself stand before the return addresses.
    ASSERT_LE(branches + 2, callers);
    for (uint64_t i = 0; i < branches; ++i) {
      const uint64_t from = sample.Word(branches_at + 8 + 24 * i);
      EXPECT_EQ(from + 5, sample.Word(16 + 8 * (i + 2)));
    }
    if (branches >= 3) ++deep;
  }
  EXPECT_GT(deep, 20U);
}

TEST(Lbr, FlowIsTheScripts) {
  const softpmu_branch branches[3] = {{0x1000, 0x2000, 2}, {0x1800, 0x900, 1}, {0x10, 0x1700, 2}};
  SoftPmuScript script;
  const uint32_t begin = script.here();
  script.Data(View(branches)).Data(View(branches[1])).LoopTo({.target = begin});
  ASSERT_EQ(LoadScript("lbr", script.bytes()), 0);
  EventAttr attr = CyclesAttr(2'000'000, PERF_SAMPLE_IP | PERF_SAMPLE_BRANCH_STACK);
  attr.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY;
  const std::vector<KernelRecord> samples = Sample(attr, 10);
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string_view expected = i % 2 == 0 ? View(branches) : View(branches[1]);
    EXPECT_EQ(samples[i].Word(8), expected.size() / 24);
    EXPECT_EQ(samples[i].body.substr(16, expected.size()), expected);
  }
  ASSERT_EQ(LoadScript("lbr", SoftPmuScript().bytes()), 0);
}

void SetLbrDepth(int depth) { std::ofstream("/sys/module/softpmu/parameters/lbr_depth") << depth; }

TEST(Lbr, IsEmptyWhereTheMachineHidesIt) {
  EventAttr attr = CyclesAttr(2'000'000, PERF_SAMPLE_IP | PERF_SAMPLE_BRANCH_STACK);
  attr.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK;
  SetLbrDepth(0);
  for (const KernelRecord& sample : Sample(attr, 5)) EXPECT_EQ(sample.Word(8), 0U);
  SetLbrDepth(32);
}

TEST(Memory, SampleHasWhatTheScriptSays) {
  const softpmu_memory accesses[2] = {{0x7000'1234'5678, 77, 0x0000'0000'6868'1022},
                                      {0, uint64_t{3} << 48 | uint64_t{2} << 32 | 5, 0x21}};
  SoftPmuScript script;
  const uint32_t begin = script.here();
  script.Data(View(accesses[0])).Data(View(accesses[1])).LoopTo({.target = begin});
  ASSERT_EQ(LoadScript("memory", script.bytes()), 0);
  EventAttr attr =
      CyclesAttr(2'000'000, PERF_SAMPLE_IP | PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT_STRUCT |
                                PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR);
  attr.type = PERF_TYPE_RAW;
  attr.config = 0x1cd;
  attr.config1 = 3;
  internal::SetPreciseIp(&attr, 2);
  const std::vector<KernelRecord> samples = Sample(attr, 10);
  for (size_t i = 0; i < samples.size(); ++i) {
    // u64 ip, addr, weight, data_src, phys_addr
    EXPECT_NE(samples[i].misc & PERF_RECORD_MISC_EXACT_IP, 0);
    EXPECT_EQ(samples[i].Word(16), accesses[i % 2].weight);
    EXPECT_EQ(samples[i].Word(24), accesses[i % 2].data_source);
    if (i % 2 == 0) {
      EXPECT_EQ(samples[i].Word(8), accesses[0].address);
    } else {
      // The stack is in memory.
      EXPECT_NE(samples[i].Word(32), 0U);
      EXPECT_EQ(samples[i].Word(8) % 4096, samples[i].Word(32) % 4096);
    }
  }
}

TEST(Ibs, RawRecordIsByteExact) {
  std::string registers(4 + 8 * 8, '\0');
  for (size_t i = 0; i < registers.size(); ++i) registers[i] = static_cast<char>(i * 7 + 1);
  SoftPmuScript script;
  const uint32_t begin = script.here();
  script.Data(registers).LoopTo({.target = begin});
  ASSERT_EQ(LoadScript("ibs_op", script.bytes()), 0);
  EventAttr attr = UserAttr(PmuType("ibs_op"));
  attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_RAW;
  attr.sample_period = 2'000'000;
  const std::vector<KernelRecord> samples = Sample(attr, 10);
  for (const KernelRecord& sample : samples) {
    // u64 ip, u32 size, bytes
    EXPECT_EQ(sample.Word(8) & UINT32_MAX, registers.size());
    EXPECT_EQ(sample.body.substr(12, registers.size()), registers);
  }
  attr.sample_period = 100'001;  // the counter's low four bits are always zero
  int refusal = 0;
  EXPECT_EQ(GuestEvent::Open(attr, {}, &refusal), nullptr);
  EXPECT_EQ(refusal, EINVAL);
}

TEST(Period, ChangesWhileTheEventRuns) {
  const EventAttr attr = CyclesAttr(1'000'000, PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD);
  const auto event = GuestEvent::Open(attr);
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->MapRing(kRingBytes), 0);
  ASSERT_EQ(event->Enable(), 0);
  for (const uint64_t period : {1'000'000U, 7'000'000U}) {
    ASSERT_EQ(event->SetPeriod(period), 0);
    event->Records();
    size_t samples = 0;
    EXPECT_TRUE(Work([&] {
      for (const KernelRecord& record : event->Records()) {
        if (record.type != PERF_RECORD_SAMPLE) continue;
        EXPECT_EQ(record.Word(8), period);
        ++samples;
      }
      return samples >= 5;
    }));
  }
}

TEST(Frequency, LeadsToThePeriodThatItAsksFor) {
  EventAttr attr = CyclesAttr(0, PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD);
  internal::SetBit(&attr, internal::kBitFreq);
  attr.sample_freq_hz = 1000;
  const auto event = GuestEvent::Open(attr);
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->MapRing(kRingBytes), 0);
  ASSERT_EQ(event->Enable(), 0);
  // The counter counts nanoseconds.
  for (const uint64_t frequency : {1000U, 200U}) {
    ASSERT_EQ(event->SetPeriod(frequency), 0);
    const uint64_t wanted = 1'000'000'000 / frequency;
    bool reached = false;
    EXPECT_TRUE(Work([&] {
      for (const KernelRecord& record : event->Records()) {
        const uint64_t period = record.Word(8);
        if (record.type == PERF_RECORD_SAMPLE && period > wanted * 3 / 4 && period < wanted * 5 / 4)
          reached = true;
      }
      return reached;
    })) << frequency
        << " Hz";
  }
}

TEST(Throttling, IsToldWhereTheLimitIsPassed) {
  std::ofstream("/proc/sys/kernel/perf_event_max_sample_rate") << 2000;
  const auto event = GuestEvent::Open(CyclesAttr(20'000, PERF_SAMPLE_IP));
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->MapRing(kRingBytes), 0);
  ASSERT_EQ(event->Enable(), 0);
  size_t throttles = 0;
  size_t unthrottles = 0;
  EXPECT_TRUE(Work([&] {
    for (const KernelRecord& record : event->Records()) {
      if (record.type == PERF_RECORD_THROTTLE) ++throttles;
      if (record.type == PERF_RECORD_UNTHROTTLE) ++unthrottles;
    }
    return throttles >= 3 && unthrottles >= 2;
  })) << throttles
      << " and " << unthrottles;
  std::ofstream("/proc/sys/kernel/perf_event_max_sample_rate") << 100000;
}

}  // namespace
}  // namespace ptarmigan
