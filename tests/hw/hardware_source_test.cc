#include "hw/hardware_source.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/hw/fake_root.h"
#include "tests/hw/pmu_trees.h"

namespace ptarmigan {
namespace {

// Bits as the SDM and the Arm drivers give them; the code under test may not know any of these.
constexpr uint64_t kPtOn = 1U << 0;
constexpr uint64_t kPtMtc = 1U << 9;
constexpr uint64_t kPtTsc = 1U << 10;
constexpr uint64_t kPtBranch = 1U << 13;
constexpr unsigned kPtMtcPeriodShift = 14;
constexpr unsigned kPtPsbPeriodShift = 24;

class HardwareSource : public testing::Test {
 protected:
  Result<SourceSetup> SetUp(const SourceRequest& request) const {
    return SetUpSource(request, EventRoots{sys_.path(), ""});
  }
  SourceSetup Must(const SourceRequest& request) const {
    auto setup = SetUp(request);
    EXPECT_TRUE(setup.has_value()) << setup.error().message;
    return setup ? *std::move(setup) : SourceSetup();
  }
  FakeRoot sys_;
};

TEST_F(HardwareSource, PtAsksForTimeAndTheMostPlacesToBeginThatTheCpuHas) {
  IceLake(&sys_);
  const SourceSetup setup = Must({.name = "pt"});
  ASSERT_EQ(setup.events.size(), 1U);
  const EventSpec& pt = setup.events[0];
  EXPECT_EQ(pt.attr.type, 8U);
  EXPECT_EQ(pt.attr.config, kPtOn | kPtMtc | kPtTsc | kPtBranch | uint64_t{3} << kPtMtcPeriodShift);
  EXPECT_EQ(pt.attr.sample_period, 1U);
  EXPECT_TRUE(pt.attr.exclude_kernel());
  EXPECT_TRUE(pt.fills_aux);
  EXPECT_EQ(setup.aux_mode, AuxMode::kFull);
  EXPECT_TRUE(setup.needs_perf_clock);
}

TEST_F(HardwareSource, PtLeavesOutWhatTheCpuLacks) {
  BroadwellPt(&sys_);
  EXPECT_EQ(Must({.name = "pt"}).events.at(0).attr.config, kPtOn | kPtTsc | kPtBranch);
}

TEST_F(HardwareSource, PtTakesTheNearestPeriodsThatAreAllowed) {
  IceLake(&sys_);
  sys_.File("bus/event_source/devices/intel_pt/caps/mtc_periods", "40\n")   // 6 alone
      .File("bus/event_source/devices/intel_pt/caps/psb_periods", "38\n");  // 3 to 5
  EXPECT_EQ(Must({.name = "pt"}).events.at(0).attr.config, kPtOn | kPtMtc | kPtTsc | kPtBranch |
                                                               uint64_t{6} << kPtMtcPeriodShift |
                                                               uint64_t{3} << kPtPsbPeriodShift);
}

TEST_F(HardwareSource, TermsAreStrongerThanOurs) {
  IceLake(&sys_);
  const SourceSetup setup = Must({.name = "pt", .terms = "cyc,noretcomp,mtc=0,psb_period=2"});
  const uint64_t config = setup.events.at(0).attr.config;
  EXPECT_NE(config & 1U << 1, 0U);
  EXPECT_NE(config & 1U << 11, 0U);
  EXPECT_EQ(config & kPtMtc, 0U);
  EXPECT_EQ(config >> kPtPsbPeriodShift & 15, 2U);
  EXPECT_FALSE(SetUp({.name = "pt", .terms = "psb_period=99"}).has_value());
  EXPECT_FALSE(SetUp({.name = "pt", .terms = "nonsense=1"}).has_value());
}

TEST_F(HardwareSource, FormatsMayStandAnywhere) {
  IceLake(&sys_);
  sys_.File("bus/event_source/devices/intel_pt/format/tsc", "config:40\n")
      .File("bus/event_source/devices/intel_pt/format/mtc", "config1:3\n");
  const EventAttr attr = Must({.name = "pt"}).events.at(0).attr;
  EXPECT_NE(attr.config & uint64_t{1} << 40, 0U);
  EXPECT_EQ(attr.config & kPtTsc, 0U);
  EXPECT_EQ(attr.config1, 8U);
}

TEST_F(HardwareSource, WindowsAreTakenBesideASamplingEvent) {
  IceLake(&sys_);
  const SourceSetup setup =
      Must({.name = "pt", .aux_mode = AuxMode::kSamples, .window_bytes = 8192});
  ASSERT_EQ(setup.events.size(), 2U);
  EXPECT_TRUE(setup.events[1].in_group);
  EXPECT_EQ(setup.events[1].attr.aux_sample_bytes, 8192U);
  EXPECT_TRUE(setup.events[1].attr.Samples(kSampleAux));
  EXPECT_TRUE(setup.notes.empty());
  for (const uint32_t bytes : {0U, 4095U, kWindowBytesMax + 8}) {
    EXPECT_FALSE(
        SetUp({.name = "pt", .aux_mode = AuxMode::kSamples, .window_bytes = bytes}).has_value())
        << bytes;
  }
}

TEST_F(HardwareSource, WindowsWithoutAPlaceToBeginAreToldOf) {
  BroadwellPt(&sys_);  // one PSB per 16 KiB
  const SourceSetup setup =
      Must({.name = "pt", .aux_mode = AuxMode::kSamples, .window_bytes = 4096});
  ASSERT_EQ(setup.notes.size(), 1U);
  EXPECT_NE(setup.notes[0].find("16384"), std::string::npos) << setup.notes[0];
}

TEST_F(HardwareSource, SpeCountsInStepsThatTheUnitCan) {
  NeoverseN1(&sys_);
  const SourceSetup setup = Must({.name = "spe", .period = 10'000});
  ASSERT_EQ(setup.events.size(), 1U);
  const EventSpec& spe = setup.events[0];
  EXPECT_EQ(spe.attr.type, 9U);
  EXPECT_EQ(spe.attr.config, 1U | 1U << 16);  // time stamps and jitter
  EXPECT_EQ(spe.attr.sample_period % 256, 0U);
  EXPECT_EQ(spe.attr.sample_period, 9984U);
  EXPECT_FALSE(spe.attr.freq());
  EXPECT_EQ(spe.cpus.size(), 80U);
  ASSERT_EQ(setup.notes.size(), 1U);
  EXPECT_EQ(Must({.name = "spe", .period = 256}).events.at(0).attr.sample_period, 1024U);
}

TEST_F(HardwareSource, EverySpeUnitGetsAnEventOnItsOwnCpus) {
  TwoSpeUnits(&sys_);
  const SourceSetup setup = Must({.name = "spe"});
  ASSERT_EQ(setup.events.size(), 2U);
  EXPECT_EQ(setup.events[0].cpus, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(setup.events[1].cpus, (std::vector<int32_t>{4, 5, 6, 7}));
  EXPECT_TRUE(setup.events[1].fills_aux);
}

TEST_F(HardwareSource, CoreSightTracesTheCpusThatHaveAUnit) {
  JunoBoard(&sys_);
  const SourceSetup setup = Must({.name = "coresight"});
  ASSERT_EQ(setup.events.size(), 1U);
  EXPECT_EQ(setup.events[0].attr.config, uint64_t{1} << 14 | uint64_t{1} << 28);
  EXPECT_EQ(setup.events[0].cpus, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(setup.events[0].fills_aux);
}

TEST_F(HardwareSource, IbsCarriesItsRegisters) {
  Zen3(&sys_);
  const SourceSetup old = Must({.name = "ibs"});
  EXPECT_EQ(old.events.at(0).attr.config, 1U << 19);
  EXPECT_TRUE(old.events.at(0).attr.Samples(kSampleRaw));
  EXPECT_FALSE(old.events.at(0).attr.exclude_kernel());
  EXPECT_EQ(old.notes.size(), 1U);
  FakeRoot zen4;
  Zen4(&zen4);
  const auto filtered = SetUpSource({.name = "ibs"}, EventRoots{zen4.path(), ""});
  ASSERT_TRUE(filtered.has_value());
  EXPECT_EQ(filtered->events.at(0).attr.config2, 1U);
  EXPECT_TRUE(filtered->events.at(0).attr.exclude_kernel());
  EXPECT_TRUE(filtered->notes.empty());
  EXPECT_EQ(Must({.name = "ibs-fetch"}).events.at(0).attr.config, uint64_t{1} << 57);
}

TEST_F(HardwareSource, MemoryEventsAreThoseThatSysfsLists) {
  IceLake(&sys_);
  const SourceSetup setup = Must({.name = "pebs-mem"});
  ASSERT_EQ(setup.events.size(), 2U);
  EXPECT_EQ(setup.events[0].attr.config, 0x1cdU);
  EXPECT_EQ(setup.events[0].attr.config1, 3U);
  EXPECT_EQ(setup.events[1].attr.config, 0x82d0U);
  for (const EventSpec& event : setup.events) {
    EXPECT_TRUE(event.precise_max);
    EXPECT_TRUE(event.attr.Samples(kSampleDataSrc) && event.attr.Samples(kSampleAddr));
  }
}

TEST_F(HardwareSource, LoadsOfNewerCoresAreLedByAnAuxiliaryEvent) {
  SapphireRapids(&sys_);
  const SourceSetup setup = Must({.name = "pebs-mem"});
  ASSERT_EQ(setup.events.size(), 3U);
  EXPECT_EQ(setup.events[0].attr.config, 0x8203U);
  EXPECT_EQ(setup.events[0].attr.sample_period, 0U);
  EXPECT_TRUE(setup.events[1].in_group);
  EXPECT_FALSE(setup.events[2].in_group);
}

TEST_F(HardwareSource, EachKindOfCoreGetsItsOwnMemoryEvents) {
  AlderLake(&sys_);
  const SourceSetup setup = Must({.name = "pebs-mem"});
  size_t on_atom = 0;
  for (const EventSpec& event : setup.events) {
    ASSERT_FALSE(event.cpus.empty()) << event.name;
    if (event.attr.type == 10) {
      ++on_atom;
      EXPECT_EQ(event.cpus.front(), 16);
    }
  }
  EXPECT_EQ(setup.events.size(), 5U);
  EXPECT_EQ(on_atom, 2U);
}

TEST_F(HardwareSource, BranchRecordsOfUserCodeUnlessTheKernelIsAskedFor) {
  IceLake(&sys_);
  for (const bool kernel : {false, true}) {
    const SourceSetup setup = Must({.name = "lbr", .kernel = kernel});
    EXPECT_EQ(setup.events.at(0).attr.branch_sample_type, kBranchAny);
    EXPECT_EQ(setup.events.at(0).attr.exclude_kernel(), !kernel);
  }
}

TEST_F(HardwareSource, WhatIsMissingSaysWhatToDo) {
  CloudMachine(&sys_);
  for (const std::string name : {"pt", "spe", "coresight", "ibs", "ibs-fetch", "pebs-mem"}) {
    ASSERT_TRUE(IsHardwareSource(name));
    const auto setup = SetUp({.name = name});
    ASSERT_FALSE(setup.has_value()) << name;
    EXPECT_EQ(setup.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(setup.error().message.find("; "), std::string::npos) << setup.error().message;
  }
  EXPECT_FALSE(IsHardwareSource("cycles"));
}

}  // namespace
}  // namespace ptarmigan
