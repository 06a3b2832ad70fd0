#include "hw/event_spec.h"

#include <gtest/gtest.h>

#include "tests/hw/fake_root.h"

namespace ptarmigan {
namespace {

class EventSpecTest : public testing::Test {
 protected:
  EventSpecTest() {
    const auto device = [](std::string_view rest) {
      return "bus/event_source/devices/" + std::string(rest);
    };
    root_.File(device("cpu/type"), "4\n")
        .File(device("cpu/format/event"), "config:0-7\n")
        .File(device("cpu/format/umask"), "config:8-15\n")
        .File(device("cpu/format/split"), "config:16-17,32-33\n")
        .File(device("cpu/format/edge"), "config:18\n")
        .File(device("cpu/format/ldlat"), "config1:0-15\n")
        .File(device("cpu/format/wide"), "config2:0-63\n")
        .File(device("cpu/format/odd"), "elsewhere:0-3\n")
        .File(device("cpu/events/mem-loads"), "event=0xcd,umask=0x1,ldlat=3\n")
        .File(device("cpu/events/slots"), "event=0x00,umask=0x4\n")
        .File(device("cpu/events/needs"), "event=?,umask=1\n")
        .File(device("power/type"), "21\n")
        .File(device("power/format/event"), "config:0-7\n")
        .File(device("power/events/energy-pkg"), "event=0x02\n")
        .File(device("power/events/energy-pkg.unit"), "Joules\n")
        .File(device("power/events/energy-pkg.scale"), "2.3283064365386962890625e-10\n")
        .File(device("cpu_core/type"), "10\n")
        .File(device("cpu_core/cpus"), "0-1,4\n")
        .File(device("cpu_core/format/event"), "config:0-7\n")
        .File("kernel/tracing/events/sched/sched_switch/id", "316\n")
        .File("kernel/tracing/events/sched/sched_wakeup/id", "317\n")
        .File("kernel/tracing/events/irq/u/id", "11\n");
    roots_.sysfs = root_.path();
  }

  EventSpec Parse(std::string_view text) {
    auto spec = ParseEvent(text, roots_);
    EXPECT_TRUE(spec.has_value()) << text << ": " << (spec ? "" : spec.error().message);
    return spec ? *std::move(spec) : EventSpec();
  }
  Error Fail(std::string_view text) {
    auto spec = ParseEvent(text, roots_);
    EXPECT_FALSE(spec.has_value()) << text;
    return spec ? Error{} : std::move(spec).error();
  }

  FakeRoot root_;
  EventRoots roots_;
};

TEST_F(EventSpecTest, KnowsGenericNamesAndAliases) {
  struct Case {
    std::string_view text;
    uint32_t type;
    uint64_t config;
    std::string_view name;
  };
  const Case cases[] = {
      {"cycles", 0, 0, "cycles"},
      {"cpu-cycles", 0, 0, "cycles"},
      {"branch-instructions", 0, 4, "branches"},
      {"branch-misses", 0, 5, "branch-misses"},
      {"idle-cycles-backend", 0, 8, "stalled-cycles-backend"},
      {"cpu-clock", 1, 0, "cpu-clock"},
      {"task-clock", 1, 1, "task-clock"},
      {"faults", 1, 2, "page-faults"},
      {"cs", 1, 3, "context-switches"},
      {"migrations", 1, 4, "cpu-migrations"},
      {"L1-dcache-load-misses", 3, 0x10000, "L1-dcache-load-misses"},
      {"L1-dcache-loads", 3, 0, "L1-dcache-loads"},
      {"LLC-store-misses", 3, 0x10102, "LLC-store-misses"},
      {"llc-misses", 3, 0x10002, "LLC-load-misses"},
      {"dTLB-prefetch-misses", 3, 0x10203, "dTLB-prefetch-misses"},
      {"branch-loads", 3, 5, "branch-loads"},
      {"r1cd", 4, 0x1cd, "r1cd"},
  };
  for (const Case& expected : cases) {
    const EventSpec spec = Parse(expected.text);
    EXPECT_EQ(spec.attr.type, expected.type) << expected.text;
    EXPECT_EQ(spec.attr.config, expected.config) << expected.text;
    EXPECT_EQ(spec.name, expected.name);
  }
  // What ParseEvent accepts under a generic name is what a recording would be called.
  for (const std::string& name : GenericEventNames()) {
    const EventSpec spec = Parse(name);
    EXPECT_EQ(NameFromAttr(spec.attr), spec.name);
  }
}

TEST_F(EventSpecTest, AppliesModifiers) {
  EventSpec spec = Parse("cycles:u");
  EXPECT_EQ(spec.name, "cycles:u");
  EXPECT_TRUE(spec.attr.exclude_kernel());
  EXPECT_TRUE(spec.attr.exclude_hv());
  EXPECT_FALSE(spec.attr.exclude_user());
  EXPECT_TRUE(spec.modes_given);
  spec = Parse("cycles:kpp");
  EXPECT_TRUE(spec.attr.exclude_user());
  EXPECT_FALSE(spec.attr.exclude_kernel());
  EXPECT_EQ(spec.attr.precise_ip(), 2U);
  spec = Parse("cycles:G");
  EXPECT_TRUE(spec.attr.exclude_host());
  EXPECT_FALSE(spec.attr.exclude_guest());
  EXPECT_FALSE(spec.modes_given);
  spec = Parse("cycles:P");
  EXPECT_TRUE(spec.precise_max);
  EXPECT_EQ(Fail("cycles:upppp").code, ErrorCode::kInvalidInput);
  EXPECT_NE(Fail("cycles:z").message.find("'z'"), std::string::npos);
  EXPECT_EQ(Fail("cycles:").code, ErrorCode::kInvalidInput);
}

TEST_F(EventSpecTest, PlacesPmuTermsInTheirBits) {
  EventSpec spec = Parse("cpu/event=0x3c,umask=1/");
  EXPECT_EQ(spec.attr.type, 4U);
  EXPECT_EQ(spec.attr.config, 0x13cU);
  EXPECT_EQ(spec.name, "cpu/event=0x3c,umask=1/");
  spec = Parse("cpu/event=60,edge,split=0xd/upp");
  EXPECT_EQ(spec.attr.config, 60U | 1U << 18 | 1U << 16 | uint64_t{3} << 32);
  EXPECT_EQ(spec.attr.precise_ip(), 2U);
  EXPECT_TRUE(spec.attr.exclude_kernel());
  EXPECT_EQ(spec.name, "cpu/event=60,edge,split=0xd/upp");
  spec = Parse("cpu/mem-loads,ldlat=30/");
  EXPECT_EQ(spec.attr.config, 0x1cdU);
  EXPECT_EQ(spec.attr.config1, 30U);
  spec = Parse("cpu/wide=0xffffffffffffffff,config3=7/");
  EXPECT_EQ(spec.attr.config2, UINT64_MAX);
  EXPECT_EQ(spec.attr.config3, 7U);
  spec = Parse("cpu/config=0x5,name=mine,period=1000/");
  EXPECT_EQ(spec.attr.config, 5U);
  EXPECT_EQ(spec.name, "mine");
  EXPECT_TRUE(spec.period_given);
  EXPECT_EQ(spec.attr.sample_period, 1000U);
  spec = Parse("cpu/event=1,freq=99/");
  EXPECT_TRUE(spec.attr.freq());
  EXPECT_EQ(spec.attr.sample_freq_hz, 99U);
}

TEST_F(EventSpecTest, KnowsUnitsScalesAndTheCpusOfAPmu) {
  const EventSpec energy = Parse("power/energy-pkg/");
  EXPECT_EQ(energy.attr.type, 21U);
  EXPECT_EQ(energy.attr.config, 2U);
  EXPECT_EQ(energy.unit, "Joules");
  EXPECT_NEAR(energy.scale, 2.328e-10, 1e-13);
  EXPECT_EQ(Parse("cpu_core/event=1/").cpus, (std::vector<int32_t>{0, 1, 4}));
}

TEST_F(EventSpecTest, FindsAnEventOfTheCpuWithoutItsPmu) {
  const EventSpec spec = Parse("mem-loads:pp");
  EXPECT_EQ(spec.attr.type, 4U);
  EXPECT_EQ(spec.attr.config, 0x1cdU);
  EXPECT_EQ(spec.attr.config1, 3U);
  EXPECT_EQ(spec.name, "mem-loads:pp");
}

TEST_F(EventSpecTest, FindsTracepoints) {
  EventSpec spec = Parse("sched:sched_switch");
  EXPECT_EQ(spec.attr.type, 2U);
  EXPECT_EQ(spec.attr.config, 316U);
  EXPECT_EQ(spec.name, "sched:sched_switch");
  spec = Parse("sched:sched_switch:k");
  EXPECT_TRUE(spec.attr.exclude_user());
  EXPECT_EQ(spec.name, "sched:sched_switch:k");
  // A tracepoint whose name looks like a modifier.
  EXPECT_EQ(Parse("irq:u").attr.config, 11U);
}

TEST_F(EventSpecTest, SaysWhatIsMissingAndWhatIsNear) {
  const auto has = [](const Error& error, std::string_view part) {
    return error.message.find(part) != std::string::npos ? "" : error.message;
  };
  EXPECT_EQ(has(Fail("cycels"), "cycles"), "");
  EXPECT_EQ(has(Fail("mem-load"), "mem-loads"), "");
  EXPECT_EQ(has(Fail("cycels:u"), "cycles"), "");
  EXPECT_EQ(Fail("cycels").code, ErrorCode::kNotFound);
  EXPECT_EQ(has(Fail("sched:sched_swich"), "sched_switch"), "");
  EXPECT_EQ(has(Fail("shed:sched_switch"), "sched?"), "");
  EXPECT_EQ(has(Fail("cpux/event=1/"), "did you mean cpu"), "");
  EXPECT_EQ(has(Fail("cpu/evnt=1/"), "event"), "");
  EXPECT_EQ(has(Fail("cpu/slot/"), "slots"), "");
  EXPECT_EQ(has(Fail("cpu/event=256/"), "8 bits"), "");
  EXPECT_EQ(has(Fail("cpu/event=x/"), "not a number"), "");
  EXPECT_EQ(has(Fail("cpu/needs/"), "wants a value"), "");
  EXPECT_EQ(has(Fail("cpu/odd=1/"), "not understood"), "");
  EXPECT_EQ(has(Fail("cpu/event=1,period=0/"), "at least 1"), "");
  EXPECT_EQ(Fail("cpu/event=1").code, ErrorCode::kInvalidInput);
  EXPECT_EQ(Fail("/event=1/").code, ErrorCode::kInvalidInput);
  EXPECT_EQ(Fail("").code, ErrorCode::kInvalidInput);
  // No way out of the device's folder.
  EXPECT_EQ(Fail("cpu/../../x/").code, ErrorCode::kInvalidInput);
  EXPECT_EQ(Fail("..:x").code, ErrorCode::kInvalidInput);
  FakeRoot empty;
  const auto no_tracefs = ParseEvent("sched:sched_switch", EventRoots{empty.path(), ""});
  ASSERT_FALSE(no_tracefs.has_value());
  EXPECT_EQ(has(no_tracefs.error(), "tracefs is not mounted"), "");
}

TEST_F(EventSpecTest, SplitsListsAtCommasOutsideSlashes) {
  auto list = ParseEventList("cycles:u,cpu/event=1,umask=2/,cpu-clock", roots_);
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->size(), 3U);
  EXPECT_EQ((*list)[1].attr.config, 0x201U);
  EXPECT_EQ((*list)[2].name, "cpu-clock");
  EXPECT_FALSE(ParseEventList("cycles,,cs", roots_).has_value());
  EXPECT_FALSE(ParseEventList("", roots_).has_value());
}

TEST_F(EventSpecTest, BoundsTheNumberOfEvents) {
  std::string text = "cycles";
  for (size_t i = 1; i < kEventsMax; ++i) text += ",cycles";
  EXPECT_TRUE(ParseEventList(text, roots_).has_value());
  EXPECT_EQ(ParseEventList(text + ",cycles", roots_).error().code, ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace ptarmigan
