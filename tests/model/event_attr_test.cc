#include "model/event_attr.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cstring>

namespace ptarmigan {
namespace {

TEST(EventAttr, NamesGenericEventsAsPerfDoes) {
  EventAttr attr;
  attr.type = kPerfTypeHardware;
  attr.config = 0;
  EXPECT_EQ(NameFromAttr(attr), "cycles");
  attr.type = kPerfTypeSoftware;
  EXPECT_EQ(NameFromAttr(attr), "cpu-clock");
  EXPECT_TRUE(IsClockEvent(attr));
  attr.type = kPerfTypeHwCache;
  attr.config = 0x10000;
  EXPECT_EQ(NameFromAttr(attr), "L1-dcache-load-misses");
  attr.type = kPerfTypeRaw;
  attr.config = 0x1cd;
  EXPECT_EQ(NameFromAttr(attr), "raw 0x1cd");
}

TEST(EventAttr, IsEncodedAsTheKernelLaysItOut) {
  EventAttr attr;
  attr.type = kPerfTypeRaw;
  attr.config = 1;
  attr.config1 = 2;
  attr.config2 = 3;
  attr.sample_period = 4;
  attr.sample_type = kSampleIp | kSampleTime;
  attr.read_format = kReadLost;
  attr.branch_sample_type = 5;
  attr.sample_regs_user = 6;
  attr.sample_regs_intr = 7;
  attr.sample_stack_user_bytes = 8;
  attr.breakpoint_type = 9;
  attr.clockid = 10;
  attr.aux_watermark_bytes = 11;
  attr.aux_sample_bytes = 12;
  attr.sample_max_stack = 13;
  attr.flags = 1;
  std::vector<std::byte> bytes = EncodeAttr(attr);
  perf_event_attr kernel = {};
  ASSERT_EQ(bytes.size(), sizeof(kernel));
  std::memcpy(&kernel, bytes.data(), sizeof(kernel));
  EXPECT_EQ(kernel.type, static_cast<uint32_t>(PERF_TYPE_RAW));
  EXPECT_EQ(kernel.size, sizeof(kernel));
  EXPECT_EQ(kernel.config, 1U);
  EXPECT_EQ(kernel.config1, 2U);
  EXPECT_EQ(kernel.config2, 3U);
  EXPECT_EQ(kernel.sample_period, 4U);
  EXPECT_EQ(kernel.sample_type, uint64_t{PERF_SAMPLE_IP} | PERF_SAMPLE_TIME);
  EXPECT_EQ(kernel.read_format, uint64_t{PERF_FORMAT_LOST});
  EXPECT_EQ(kernel.branch_sample_type, 5U);
  EXPECT_EQ(kernel.sample_regs_user, 6U);
  EXPECT_EQ(kernel.sample_regs_intr, 7U);
  EXPECT_EQ(kernel.sample_stack_user, 8U);
  EXPECT_EQ(kernel.bp_type, 9U);
  EXPECT_EQ(kernel.clockid, 10);
  EXPECT_EQ(kernel.aux_watermark, 11U);
  EXPECT_EQ(kernel.aux_sample_size, 12U);
  EXPECT_EQ(kernel.sample_max_stack, 13U);
  EXPECT_EQ(kernel.disabled, 1U);

  attr.flags = uint64_t{1} << 10;
  attr.sample_freq_hz = 997;
  attr.config3 = 14;
  bytes = EncodeAttr(attr);
  ASSERT_EQ(bytes.size(), 136U);
  std::memcpy(&kernel, bytes.data(), sizeof(kernel));
  EXPECT_EQ(kernel.freq, 1U);
  EXPECT_EQ(kernel.sample_freq, 997U);
  EXPECT_EQ(bytes[128], std::byte{14});
}

TEST(EventAttr, AddsModifiers) {
  EventAttr attr;
  attr.flags =
      uint64_t{1} << 5 | uint64_t{1} << 6 | uint64_t{2} << 15;  // exclude kernel and hv, precise 2
  EXPECT_EQ(NameFromAttr(attr), "cycles:upp");
}

TEST(EventAttr, StripsModifiersButNotTracepointNames) {
  EXPECT_EQ(NameWithoutModifiers("cycles:ukhpp"), "cycles");
  EXPECT_EQ(NameWithoutModifiers("sched:sched_switch"), "sched:sched_switch");
  EXPECT_EQ(NameWithoutModifiers("cpu/event=0x3c/u"), "cpu/event=0x3c/");
  EXPECT_EQ(NameWithoutModifiers("cycles"), "cycles");
}

}  // namespace
}  // namespace ptarmigan
