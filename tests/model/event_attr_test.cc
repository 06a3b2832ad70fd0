#include "model/event_attr.h"

#include <gtest/gtest.h>

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
