#include "decode/internal/feature_sections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/record_types.h"
#include "tests/support/perf_bytes.h"

namespace ptarmigan::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class FeatureSections : public ::testing::TestWithParam<std::endian> {
 protected:
  void SetUp() override { description_.byte_order = GetParam(); }
  ByteWriter Writer() const { return ByteWriter(GetParam()); }
  std::string String(std::string_view text) const { return HeaderString(text, GetParam()); }
  void Read(unsigned feature, const ByteWriter& bytes) {
    reader_.ReadFeature(feature, AsBytes(bytes.bytes()));
  }
  void AddEvents(size_t count, uint32_t type = 0, uint64_t config = 0) {
    for (size_t i = 0; i < count; ++i) {
      EventDescription event;
      event.attr.type = type;
      event.attr.config = config + i;
      event.group_leader = static_cast<uint32_t>(description_.events.size());
      description_.events.push_back(event);
    }
  }
  uint64_t Damaged() const {
    return losses_.Lost(LossStage::kParse, LossReason::kTruncated, LossUnit::kRecords);
  }

  RecordingDescription description_;
  LossLedger losses_;
  FeatureReader reader_{&description_, &losses_};
};

INSTANTIATE_TEST_SUITE_P(BothOrders, FeatureSections,
                         ::testing::Values(std::endian::little, std::endian::big));

TEST_P(FeatureSections, ReadsWhatDescribesTheMachine) {
  Read(kFeatureHostname, Writer().Text(String("box")));
  Read(kFeatureOsRelease, Writer().Text(String("6.18.0")));
  Read(kFeatureVersion, Writer().Text(String("6.18")));
  Read(kFeatureArch, Writer().Text(String("aarch64")));
  Read(kFeatureNrCpus, Writer().U32(8).U32(6));
  Read(kFeatureCpuDesc, Writer().Text(String("Neoverse-N2")));
  Read(kFeatureCpuid, Writer().Text(String("0x00000000410fd490")));
  Read(kFeatureTotalMem, Writer().U64(16777216));
  Read(kFeatureCmdline,
       Writer().U32(3).Text(String("perf")).Text(String("record")).Text(String("-a")));
  Read(kFeaturePmuMappings,
       Writer().U32(2).U32(6).Text(String("intel_pt")).U32(4).Text(String("cpu")));
  Read(kFeatureSampleTime, Writer().U64(100).U64(200));
  Read(kFeatureClockData, Writer().U32(1).U32(4).U64(1700000000000000000).U64(123));
  EXPECT_EQ(description_.hostname, "box");
  EXPECT_EQ(description_.os_release, "6.18.0");
  EXPECT_EQ(description_.perf_version, "6.18");
  EXPECT_EQ(description_.cpus_available, 8U);
  EXPECT_EQ(description_.cpus_online, 6U);
  EXPECT_EQ(description_.cpu_description, "Neoverse-N2");
  EXPECT_EQ(description_.cpuid, "0x00000000410fd490");
  EXPECT_EQ(description_.memory_total_kib, 16777216U);
  EXPECT_THAT(description_.command_line, ElementsAre("perf", "record", "-a"));
  EXPECT_THAT(description_.pmu_names, ElementsAre(Pair(4, "cpu"), Pair(6, "intel_pt")));
  EXPECT_EQ(description_.first_sample_ns, 100U);
  EXPECT_EQ(description_.last_sample_ns, 200U);
  EXPECT_EQ(description_.clockid, 4);
  EXPECT_EQ(description_.clock_wall_ns, 1700000000000000000U);
  EXPECT_EQ(description_.clock_reference_ns, 123U);
  reader_.DeduceArch();
  EXPECT_EQ(description_.arch, Arch::kArm64);
  EXPECT_TRUE(description_.is_64_bit);
  EXPECT_EQ(Damaged(), 0U);
}

TEST_P(FeatureSections, TakesTheArchitectureFromTheElfMachineWhereItIsAllThereIs) {
  Read(kFeatureEMachine, Writer().U32(183).U32(0));
  reader_.DeduceArch();
  EXPECT_EQ(description_.arch, Arch::kArm64);
  Read(kFeatureArch, Writer().Text(String("i686")));
  reader_.DeduceArch();
  EXPECT_EQ(description_.arch, Arch::kX86);
  EXPECT_FALSE(description_.is_64_bit);
}

TEST_P(FeatureSections, ReadsBuildIdsOfEveryAge) {
  const std::string id(20, '\x11');
  const auto entry = [&](uint16_t misc, const std::string& field, const std::string& path) {
    return RecordBytes(0, misc, Writer().U32(77).Text(field).Text(PaddedName(path)).bytes(),
                       GetParam());
  };
  ByteWriter section = Writer();
  section.Text(entry(1, id + std::string(4, '\0'), "[kernel.kallsyms]"));
  // MD5, whose size the recorder says, and one whose size shows by its padding.
  section.Text(entry(kMiscBuildIdSize | 2,
                     std::string(16, '\x22') + std::string(4, '\0') + "\x10" + std::string(3, '\0'),
                     "/bin/md5"));
  section.Text(entry(2, std::string(16, '\x33') + std::string(8, '\0'), "/bin/old"));
  Read(kFeatureBuildId, section);
  ASSERT_EQ(description_.build_ids.size(), 3U);
  EXPECT_EQ(description_.build_ids[0].cpumode, CpuMode::kKernel);
  EXPECT_EQ(description_.build_ids[0].pid, 77);
  EXPECT_EQ(description_.build_ids[0].path, "[kernel.kallsyms]");
  EXPECT_EQ(description_.build_ids[0].build_id.bytes().size(), 20U);
  EXPECT_EQ(description_.build_ids[1].build_id.bytes().size(), 16U);
  EXPECT_EQ(description_.build_ids[1].path, "/bin/md5");
  EXPECT_EQ(description_.build_ids[2].build_id.bytes().size(), 16U);
  EXPECT_EQ(Damaged(), 0U);
}

TEST_P(FeatureSections, ReadsBuildIdsOfTheFirstPerfWithoutPids) {
  ByteWriter body = Writer();
  body.Text(std::string(20, '\x11')).U32(0).Text(PaddedName("[kernel.kallsyms]"));
  ByteWriter second = Writer();
  second.Text(std::string(20, '\x22')).U32(0).Text(PaddedName("/lib/libc-2.11.so"));
  Read(kFeatureBuildId, Writer()
                            .Text(RecordBytes(0, 1, body.bytes(), GetParam()))
                            .Text(RecordBytes(0, 2, second.bytes(), GetParam())));
  ASSERT_EQ(description_.build_ids.size(), 2U);
  EXPECT_EQ(description_.build_ids[0].path, "[kernel.kallsyms]");
  EXPECT_EQ(description_.build_ids[1].path, "/lib/libc-2.11.so");
  EXPECT_EQ(description_.build_ids[1].pid, -1);
  EXPECT_EQ(description_.build_ids[1].build_id,
            BuildId::FromHex("2222222222222222222222222222222222222222"));
}

TEST_P(FeatureSections, StopsAtABuildIdWhoseSizeLies) {
  ByteWriter section = Writer();
  section.Text(RecordBytes(
      0, 2, Writer().U32(1).Text(std::string(24, 'i')).Text(PaddedName("/a")).bytes(), GetParam()));
  section.U32(0).U16(2).U16(60000).Text(std::string(40, 'x'));
  Read(kFeatureBuildId, section);
  EXPECT_EQ(description_.build_ids.size(), 1U);
  EXPECT_EQ(Damaged(), 1U);
  Read(kFeatureBuildId, Writer().U32(0).U16(2).U16(0).Text(std::string(40, 'x')));
  EXPECT_EQ(Damaged(), 2U);
}

TEST_P(FeatureSections, NamesEventsByTheirDescriptions) {
  AddEvents(2);
  ByteWriter section = Writer();
  section.U32(2).U32(72);
  for (const std::string_view name : {"cycles:u", "sched:sched_switch"}) {
    PerfAttr attr;
    attr.size_bytes = 72;
    section.Text(AttrBytes(attr, GetParam())).U32(2).Text(String(name)).U64(5).U64(6);
  }
  Read(kFeatureEventDesc, section);
  reader_.NameEvents();
  EXPECT_EQ(description_.events[0].name, "cycles:u");
  EXPECT_EQ(description_.events[1].name, "sched:sched_switch");
  EXPECT_THAT(description_.events[0].ids, ElementsAre(5, 6));
  EXPECT_FALSE(reader_.AdoptDescribedEvents());
}

TEST_P(FeatureSections, KeepsDescriptionsThatComeBeforeTheirAttrs) {
  PerfAttr attr;
  Read(kFeatureEventDesc, Writer()
                              .U32(1)
                              .U32(136)
                              .Text(AttrBytes(attr, GetParam()))
                              .U32(1)
                              .Text(String("my_event"))
                              .U64(9));
  EXPECT_THAT(description_.events, IsEmpty());
  EXPECT_TRUE(reader_.ReadHeaderAttr(AsBytes(AttrBytes(attr, GetParam()))));
  ASSERT_EQ(description_.events.size(), 1U);
  EXPECT_EQ(description_.events[0].name, "my_event");
  EXPECT_THAT(description_.events[0].ids, ElementsAre(9));
}

TEST_P(FeatureSections, AdoptsDescribedEventsWhereThereIsNoAttrAtAll) {
  PerfAttr attr;
  attr.config = 1;
  Read(kFeatureEventDesc, Writer()
                              .U32(1)
                              .U32(136)
                              .Text(AttrBytes(attr, GetParam()))
                              .U32(1)
                              .Text(String("instructions"))
                              .U64(9));
  EXPECT_TRUE(reader_.AdoptDescribedEvents());
  ASSERT_EQ(description_.events.size(), 1U);
  EXPECT_EQ(description_.events[0].attr.config, 1U);
}

TEST_P(FeatureSections, GuessesNamesOnlyUntilABetterOneComes) {
  PerfAttr attr;
  attr.type = 77;
  attr.config = 0x1cd;
  EXPECT_TRUE(
      reader_.ReadHeaderAttr(AsBytes(AttrBytes(attr, GetParam()) + Writer().U64(31).bytes())));
  reader_.NameEvents();
  EXPECT_NE(description_.events[0].name, "");
  Read(kFeaturePmuMappings, Writer().U32(1).U32(77).Text(String("cpu_core")));
  reader_.NameEvents();
  EXPECT_EQ(description_.events[0].name, "cpu_core/config=0x1cd/");
  EXPECT_TRUE(reader_.ReadEventUpdate(
      AsBytes(Writer().U64(2).U64(31).Text(PaddedName("mem-loads")).bytes())));
  reader_.NameEvents();
  EXPECT_EQ(description_.events[0].name, "mem-loads");
  EXPECT_TRUE(
      reader_.ReadEventUpdate(AsBytes(Writer().U64(0).U64(31).Text(PaddedName("Joules")).bytes())));
  EXPECT_TRUE(reader_.ReadEventUpdate(
      AsBytes(Writer().U64(1).U64(31).U64(std::bit_cast<uint64_t>(0.25)).bytes())));
  EXPECT_EQ(description_.events[0].unit, "Joules");
  EXPECT_EQ(description_.events[0].scale, 0.25);
  EXPECT_FALSE(reader_.ReadEventUpdate(
      AsBytes(Writer().U64(2).U64(32).Text(PaddedName("nobody's")).bytes())));
}

TEST_P(FeatureSections, NamesByConfigOnlyWhereTheTypeLeavesItOpen) {
  AddEvents(1, kPerfTypeSoftware, 0);
  AddEvents(1, kPerfTypeTracepoint, 317);
  reader_.NameByConfig(0, "cycles");
  reader_.NameByConfig(317, "sched:sched_switch");
  reader_.NameEvents();
  EXPECT_EQ(description_.events[0].name, "cpu-clock");
  EXPECT_EQ(description_.events[1].name, "sched:sched_switch");
}

TEST_P(FeatureSections, ReadsGroups) {
  AddEvents(5);
  Read(kFeatureGroupDesc,
       Writer().U32(2).Text(String("{a,b}")).U32(0).U32(2).Text(String("")).U32(3).U32(200));
  EXPECT_EQ(description_.events[1].group_leader, 0U);
  EXPECT_EQ(description_.events[2].group_leader, 2U);
  EXPECT_EQ(description_.events[4].group_leader, 3U);
}

TEST_P(FeatureSections, ReadsSimpleperfsMetaInfoAndNamesTracepointsByIt) {
  AddEvents(1, kPerfTypeTracepoint, 91);
  using std::string_literals::operator""s;
  Read(
      kFeatureSimpleperfMetaInfo,
      Writer().Text(
          "simpleperf_version\0001.0\0event_type_info\0cpu-cycles,0,0\nsched:sched_switch,2,91\0"s));
  reader_.NameEvents();
  EXPECT_EQ(description_.meta["simpleperf_version"], "1.0");
  EXPECT_EQ(description_.events[0].name, "sched:sched_switch");
  Read(kFeatureSimpleperfMetaInfo, Writer().Text("key without value"));
  EXPECT_EQ(Damaged(), 1U);
}

TEST_P(FeatureSections, NamesTracepointsByTheTracingData) {
  const bool big = GetParam() == std::endian::big;
  const std::string format = "name: sched_switch\nID: 317\nformat:\n";
  ByteWriter data = Writer();
  data.Text("\x17\x08\x44tracing").CString("0.6").U8(big ? 1 : 0).U8(8).U32(4096);
  data.CString("header_page").U64(3).Text("abc").CString("header_event").U64(2).Text("de");
  data.U32(1).U64(4).Text("ftrc");
  data.U32(1).CString("sched").U32(1).U64(format.size()).Text(format);
  EXPECT_THAT(TracepointNames(data.bytes()), ElementsAre(Pair(317, "sched:sched_switch")));
  for (size_t size = 0; size < data.bytes().size(); ++size) {
    EXPECT_THAT(TracepointNames(data.bytes().substr(0, size)), IsEmpty()) << size;
  }
  AddEvents(1, kPerfTypeTracepoint, 317);
  reader_.ReadTracingData(AsBytes(data.bytes()));
  reader_.NameEvents();
  EXPECT_EQ(description_.events[0].name, "sched:sched_switch");
}

TEST_P(FeatureSections, ReadsWhatPmusCanDo) {
  Read(kFeatureCpuPmuCaps, Writer()
                               .U32(2)
                               .Text(String("branches"))
                               .Text(String("32"))
                               .Text(String("max_precise"))
                               .Text(String("3")));
  Read(kFeaturePmuCaps, Writer()
                            .U32(2)
                            .U32(1)
                            .Text(String("zen4_ibs_extensions"))
                            .Text(String("1"))
                            .Text(String("ibs_op"))
                            .U32(1)
                            .Text(String("branches"))
                            .Text(String("16"))
                            .Text(String("cpu_atom")));
  EXPECT_EQ(Damaged(), 0U);
  EXPECT_EQ(description_.pmu_caps.size(), 3U);
  EXPECT_THAT(description_.pmu_caps["cpu"],
              ElementsAre(Pair("branches", "32"), Pair("max_precise", "3")));
  EXPECT_THAT(description_.pmu_caps["ibs_op"], ElementsAre(Pair("zen4_ibs_extensions", "1")));
  EXPECT_THAT(description_.pmu_caps["cpu_atom"], ElementsAre(Pair("branches", "16")));
  Read(kFeaturePmuCaps, Writer().U32(1).U32(UINT32_MAX).Text(String("name")));
  Read(kFeatureCpuPmuCaps, Writer().U32(UINT32_MAX));
  EXPECT_EQ(Damaged(), 2U);
}

TEST_P(FeatureSections, CountsWhatIsCutOff) {
  const std::vector<unsigned> features = {
      kFeatureHostname,  kFeatureNrCpus,     kFeatureTotalMem,
      kFeatureCmdline,   kFeatureEventDesc,  kFeaturePmuMappings,
      kFeatureGroupDesc, kFeatureSampleTime, kFeatureClockData};
  for (const unsigned feature : features) Read(feature, Writer().U16(0x7f7f).U8(0x7f));
  EXPECT_EQ(Damaged(), features.size() - 4);  // an empty list is one without entries
  for (const unsigned feature : {kFeatureCmdline, kFeaturePmuMappings, kFeatureGroupDesc}) {
    Read(feature, Writer().U32(0xffffffff).U32(0xffffffff));
  }
  Read(kFeatureEventDesc, Writer().U32(0xffffffff).U32(0xffffffff));
  EXPECT_EQ(Damaged(), features.size());
}

TEST(FeatureReader, BoundsTheSampleIds) {
  RecordingDescription description;
  LossLedger losses;
  FeatureReader reader(&description, &losses);
  EventDescription event;
  // The span claims more than it holds, so only the bound or the end can stop it.
  const std::string many((kSampleIdsMax + 10) * 8, '\x01');
  ByteCursor cursor(AsBytes(many));
  EXPECT_FALSE(reader.AddIds(&event, &cursor, kSampleIdsMax + 10));
  EXPECT_EQ(event.ids.size(), kSampleIdsMax);
}

TEST(FeatureReader, BoundsTheTracingData) {
  RecordingDescription description;
  LossLedger losses;
  FeatureReader reader(&description, &losses);
  reader.ReadTracingData(AsBytes(std::string(kTracingBytesMax, 'x')));
  EXPECT_EQ(description.tracing_data.size(), kTracingBytesMax);
  description.tracing_data.clear();
  reader.ReadTracingData(AsBytes(std::string(kTracingBytesMax + 1, 'x')));
  EXPECT_EQ(description.tracing_data, "");
  EXPECT_EQ(losses.Lost(LossStage::kParse, LossReason::kLimit, LossUnit::kBytes),
            kTracingBytesMax + 1);
}

}  // namespace
}  // namespace ptarmigan::internal
