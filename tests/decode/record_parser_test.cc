#include "decode/record_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "decode/attr_reader.h"
#include "decode/record_types.h"
#include "tests/decode/allocation_counter.h"
#include "tests/support/event_log.h"
#include "tests/support/perf_bytes.h"

namespace ptarmigan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kTrailerBits =
    kSampleTid | kSampleTime | kSampleId | kSampleStreamId | kSampleCpu | kSampleIdentifier;

class RecordParserTest : public ::testing::TestWithParam<std::endian> {
 protected:
  void AddEvent(const PerfAttr& attr) {
    description_.byte_order = GetParam();
    EventDescription event;
    event.attr = *ReadEventAttr(AsBytes(AttrBytes(attr, GetParam())), GetParam());
    event.ids = attr.ids;
    description_.events.push_back(event);
    parser_.EventsChanged();
  }
  ByteWriter Writer() const { return ByteWriter(GetParam()); }
  void Parse(uint32_t type, uint16_t misc, const std::string& body) {
    // The record lies in memory of exactly its size, so that a sanitizer sees a read beyond it.
    const std::string record = RecordBytes(type, misc, body, GetParam());
    records_.push_back(std::make_unique<std::string>(record));
    parser_.Parse(AsBytes(*records_.back()), log_);
  }
  // The trailer of kTrailerBits.
  std::string Trailer(uint64_t id = 11) const {
    return Writer().U32(7).U32(8).U64(1000).U64(id).U64(12).U32(3).U32(0).U64(id).bytes();
  }
  uint64_t Lost(LossReason reason, LossUnit unit) const {
    return parser_.losses().Lost(LossStage::kParse, reason, unit);
  }

  RecordingDescription description_;
  RecordParser parser_{description_};
  EventLog log_;
  std::vector<std::unique_ptr<std::string>> records_;
};

INSTANTIATE_TEST_SUITE_P(BothOrders, RecordParserTest,
                         ::testing::Values(std::endian::little, std::endian::big),
                         [](const auto& tested) {
                           return tested.param == std::endian::little ? "Little" : "Big";
                         });

// --- samples ---

TEST_P(RecordParserTest, ReadsASampleWithEveryField) {
  PerfAttr attr;
  attr.sample_type = kSampleBitsKnown & ~uint64_t{kSampleWeight};
  attr.read_format = kReadTotalTimeEnabled | kReadTotalTimeRunning;
  attr.branch_sample_type = kBranchHwIndex | kBranchCounters;
  attr.regs_user = uint64_t{1} << 0 | uint64_t{1} << 8 | uint64_t{1} << 63;
  attr.regs_intr = uint64_t{1} << 7;
  attr.stack_user_bytes = 16;
  AddEvent(attr);
  const bool big = GetParam() == std::endian::big;
  // mispredicted, abort, 300 cycles, type 4, spec 2, new type 5, privilege 3
  const uint64_t flags =
      big ? uint64_t{1} << 63 | uint64_t{1} << 60 | uint64_t{300} << 44 | uint64_t{4} << 40 |
                uint64_t{2} << 38 | uint64_t{5} << 34 | uint64_t{3} << 31
          : uint64_t{1} | uint64_t{1} << 3 | uint64_t{300} << 4 | uint64_t{4} << 20 |
                uint64_t{2} << 24 | uint64_t{5} << 26 | uint64_t{3} << 30;
  ByteWriter body = Writer();
  body.U64(11)
      .U64(0xffffffff81000010)
      .U32(7)
      .U32(8)
      .U64(1000)
      .U64(0xdead)
      .U64(11)
      .U64(12)
      .U32(3)
      .U32(0)
      .U64(4000);
  body.U64(55).U64(66).U64(77);  // READ
  body.U64(3).U64(kContextKernel).U64(0xffffffff81000010).U64(0xffffffff81000020);
  body.U32(12).Text("tracepoint!!");  // RAW
  body.U64(2).U64(9).U64(0x10).U64(0x20).U64(flags).U64(0x30).U64(0x40).U64(0).U64(0x111).U64(
      0x222);
  body.U64(2).U64(0xa).U64(0xb).U64(0xc);                 // REGS_USER
  body.U64(16).Text("stackstackstack!").U64(10);          // STACK_USER
  body.U64(uint64_t{5} << 32 | 9).U64(0x1234).U64(0x77);  // WEIGHT_STRUCT DATA_SRC TRANSACTION
  body.U64(1).U64(0xd);                                   // REGS_INTR
  body.U64(0x8000).U64(42).U64(4096).U64(
      2097152);                  // PHYS_ADDR CGROUP DATA_PAGE_SIZE CODE_PAGE_SIZE
  body.U64(8).Text("auxauxax");  // AUX
  Parse(kRecordSample, kMiscExactIp | 1, body.bytes());

  ASSERT_EQ(log_.samples.size(), 1U);
  const CapturedSample& sample = log_.samples.front();
  EXPECT_EQ(parser_.losses().Sentence(), "");
  EXPECT_EQ(sample.cpumode, CpuMode::kKernel);
  EXPECT_TRUE(sample.exact_ip);
  EXPECT_EQ(sample.identity.pid, 7);
  EXPECT_EQ(sample.identity.tid, 8);
  EXPECT_EQ(sample.identity.time_ns, 1000U);
  EXPECT_EQ(sample.identity.id, 11U);
  EXPECT_EQ(sample.identity.stream_id, 12U);
  EXPECT_EQ(sample.identity.cpu, 3U);
  EXPECT_EQ(sample.ip.value, 0xffffffff81000010U);
  EXPECT_EQ(sample.addr.value, 0xdeadU);
  EXPECT_EQ(sample.period, 4000U);
  ASSERT_EQ(sample.read_values.size(), 1U);
  EXPECT_EQ(sample.read_values.front().value, 55U);
  EXPECT_EQ(sample.time_enabled_ns, 66U);
  EXPECT_EQ(sample.time_running_ns, 77U);
  EXPECT_THAT(sample.chain, ElementsAre(kContextKernel, 0xffffffff81000010, 0xffffffff81000020));
  EXPECT_EQ(log_.raws.front(), "tracepoint!!");
  EXPECT_EQ(sample.branch_hw_index, 9U);
  ASSERT_EQ(sample.branches.size(), 2U);
  const BranchRecord& branch = sample.branches.front();
  EXPECT_EQ(branch.from, 0x10U);
  EXPECT_EQ(branch.to, 0x20U);
  EXPECT_TRUE(branch.mispredicted);
  EXPECT_FALSE(branch.predicted);
  EXPECT_FALSE(branch.in_transaction);
  EXPECT_TRUE(branch.abort);
  EXPECT_EQ(branch.cycles, 300U);
  EXPECT_EQ(branch.type, 4U);
  EXPECT_EQ(branch.spec, 2U);
  EXPECT_EQ(branch.new_type, 5U);
  EXPECT_EQ(branch.privilege, 3U);
  EXPECT_EQ(sample.branch_counters[0], 0x111U);
  EXPECT_EQ(sample.branch_counters[1], 0x222U);
  EXPECT_EQ(sample.user_regs.abi, RegisterSet::Abi::k64);
  EXPECT_EQ(sample.user_regs.values[0], 0xaU);
  EXPECT_EQ(sample.user_regs.values[8], 0xbU);
  EXPECT_EQ(sample.user_regs.values[63], 0xcU);
  EXPECT_FALSE(sample.user_regs.Has(1));
  EXPECT_EQ(log_.stacks.front(), "stackstack");
  EXPECT_EQ(sample.user_stack_requested_bytes, 16U);
  EXPECT_EQ(sample.weight, uint64_t{5} << 32 | 9);
  EXPECT_EQ(sample.data_src, 0x1234U);
  EXPECT_EQ(sample.transaction, 0x77U);
  EXPECT_EQ(sample.intr_regs.values[7], 0xdU);
  EXPECT_EQ(sample.phys_addr, 0x8000U);
  EXPECT_EQ(sample.cgroup_id, 42U);
  EXPECT_EQ(sample.data_page_bytes, 4096U);
  EXPECT_EQ(sample.code_page_bytes, 2097152U);
  EXPECT_EQ(log_.auxes.front(), "auxauxax");
}

TEST_P(RecordParserTest, ForgetsTheSampleBefore) {
  PerfAttr with;
  with.sample_type = kSampleIdentifier | kSampleIp | kSampleCallchain;
  with.ids = {1};
  AddEvent(with);
  PerfAttr without;
  without.sample_type = kSampleIdentifier | kSampleIp;
  without.period = 77;
  without.ids = {2};
  AddEvent(without);
  Parse(kRecordSample, 2, Writer().U64(1).U64(0x10).U64(1).U64(0x10).bytes());
  Parse(kRecordSample, 2, Writer().U64(2).U64(0x20).bytes());
  ASSERT_EQ(log_.samples.size(), 2U);
  EXPECT_TRUE(log_.samples[0].has_chain);
  EXPECT_FALSE(log_.samples[1].has_chain);
  EXPECT_THAT(log_.samples[1].chain, IsEmpty());
  EXPECT_EQ(log_.samples[1].event, 1U);
  EXPECT_EQ(log_.samples[1].period, 77U);
  EXPECT_FALSE(log_.samples[1].has_period);
}

TEST_P(RecordParserTest, FindsEventsByIdWhereTheRecordHasNoIdentifier) {
  PerfAttr first;
  first.sample_type = kSampleIp | kSampleTime | kSampleAddr | kSampleId | kSampleStreamId;
  first.ids = {21, 22};
  AddEvent(first);
  PerfAttr second = first;
  second.ids = {31, 32};
  AddEvent(second);
  const auto sample = [&](uint64_t id) {
    return Writer().U64(1).U64(2).U64(3).U64(id).U64(99).bytes();
  };
  Parse(kRecordSample, 2, sample(32));
  Parse(kRecordSample, 2, sample(21));
  Parse(kRecordSample, 2, sample(0));   // perf's own: the first event
  Parse(kRecordSample, 2, sample(33));  // nobody's
  ASSERT_EQ(log_.samples.size(), 3U);
  EXPECT_EQ(log_.samples[0].event, 1U);
  EXPECT_EQ(log_.samples[1].event, 0U);
  EXPECT_EQ(log_.samples[2].event, 0U);
  EXPECT_EQ(Lost(LossReason::kUnknownEvent, LossUnit::kSamples), 1U);
  EXPECT_TRUE(parser_.losses().Balances());
}

TEST_P(RecordParserTest, DeliversAGroupsSampleForEachCounterThatMoved) {
  PerfAttr leader;
  leader.sample_type = kSampleIdentifier | kSampleIp | kSampleRead;
  leader.read_format = kReadId | kReadGroup | kReadLost;
  leader.ids = {1};
  AddEvent(leader);
  PerfAttr member = leader;
  member.ids = {2};
  AddEvent(member);
  const auto sample = [&](uint64_t one, uint64_t two) {
    return Writer().U64(1).U64(0x10).U64(2).U64(one).U64(1).U64(0).U64(two).U64(2).U64(0).bytes();
  };
  Parse(kRecordSample, 2, sample(100, 7));
  Parse(kRecordSample, 2, sample(250, 7));
  Parse(kRecordSample, 2, sample(250, 7));
  EXPECT_THAT(log_.lines, ElementsAre("sample 0 10 100", "sample 1 10 7", "sample 0 10 150"));
  EXPECT_EQ(parser_.losses().kept(), 3U);
  EXPECT_EQ(Lost(LossReason::kIgnored, LossUnit::kSamples), 1U);
  EXPECT_TRUE(parser_.losses().Balances());
}

TEST_P(RecordParserTest, KeepsGuestSamplesAndSaysSo) {
  AddEvent(PerfAttr());
  const std::string body = Writer().U64(1).U32(1).U32(1).U64(5).U32(0).U32(0).U64(1).bytes();
  Parse(kRecordSample, 4, body);
  Parse(kRecordSample, 5, body);
  Parse(kRecordSample, 3, body);
  ASSERT_EQ(log_.samples.size(), 3U);
  EXPECT_EQ(log_.samples[0].cpumode, CpuMode::kGuestKernel);
  EXPECT_EQ(log_.samples[1].cpumode, CpuMode::kGuestUser);
  EXPECT_EQ(log_.samples[2].cpumode, CpuMode::kHypervisor);
}

TEST_P(RecordParserTest, KeepsWhatLiesBeforeASizeThatLies) {
  struct Case {
    uint64_t field;
    std::string body;
  };
  const std::vector<Case> cases = {
      {kSampleCallchain, Writer().U64(uint64_t{1} << 61).U64(1).bytes()},
      {kSampleCallchain, Writer().U64(2).U64(1).bytes()},
      {kSampleRaw, Writer().U32(0xffffffff).U32(0).bytes()},
      {kSampleBranchStack, Writer().U64(0x0aaaaaaaaaaaaaab).U64(1).U64(1).U64(1).bytes()},
      {kSampleStackUser, Writer().U64(1000).U64(1).bytes()},
      {kSampleStackUser, Writer().U64(8).U64(1).bytes()},  // no room for the copied size
      {kSampleRegsUser, Writer().U64(2).bytes()},
      {kSampleRegsUser, Writer().U64(3).U64(1).bytes()},  // no such ABI
      {kSampleAux, Writer().U64(UINT64_MAX).bytes()},
      {kSampleRead, Writer().U64(uint64_t{1} << 60).bytes()}};
  for (const Case& bad : cases) {
    description_.events.clear();
    PerfAttr attr;
    attr.sample_type = kSampleIp | kSamplePeriod | bad.field;
    attr.read_format = kReadGroup | kReadId;
    attr.regs_user = 3;
    AddEvent(attr);
    log_ = EventLog();
    Parse(kRecordSample, 2, Writer().U64(0x10).U64(9).Text(bad.body).bytes());
    ASSERT_EQ(log_.samples.size(), 1U) << bad.field;
    EXPECT_EQ(log_.samples[0].ip.value, 0x10U);
    EXPECT_EQ(log_.samples[0].period, 9U);
    EXPECT_THAT(log_.samples[0].chain, IsEmpty());
    EXPECT_THAT(log_.samples[0].branches, IsEmpty());
    EXPECT_EQ(log_.samples[0].user_regs.mask, 0U);
  }
  EXPECT_EQ(Lost(LossReason::kBadSize, LossUnit::kRecords), cases.size());
}

TEST_P(RecordParserTest, UsesAtMostTheDumpedPartOfTheStack) {
  PerfAttr attr;
  attr.sample_type = kSampleIp | kSampleStackUser;
  AddEvent(attr);
  Parse(kRecordSample, 2, Writer().U64(1).U64(8).Text("12345678").U64(9000).bytes());
  Parse(kRecordSample, 2, Writer().U64(1).U64(0).bytes());
  EXPECT_THAT(log_.stacks, ElementsAre("12345678", ""));
}

TEST_P(RecordParserTest, CountsSamplesThatAreTooShort) {
  AddEvent(PerfAttr());
  Parse(kRecordSample, 2, Writer().U64(1).U32(1).U32(1).U64(5).U32(0).bytes());
  EXPECT_THAT(log_.samples, IsEmpty());
  EXPECT_EQ(Lost(LossReason::kTruncated, LossUnit::kSamples), 1U);
  EXPECT_TRUE(parser_.losses().Balances());
}

TEST_P(RecordParserTest, ParsesSamplesWithoutAllocating) {
  PerfAttr attr;
  attr.sample_type = kSampleIp | kSampleTid | kSampleTime | kSampleCallchain | kSampleBranchStack |
                     kSampleRegsUser | kSampleStackUser;
  attr.regs_user = 0xff;
  AddEvent(attr);
  ByteWriter body = Writer();
  body.U64(1).U32(1).U32(1).U64(5);
  body.U64(100);
  for (int i = 0; i < 100; ++i) body.U64(0x1000);
  body.U64(2);
  for (int i = 0; i < 6; ++i) body.U64(0x2000);
  body.U64(2);
  for (int i = 0; i < 8; ++i) body.U64(0x3000);
  body.U64(8).U64(0).U64(8);
  const std::string record = RecordBytes(kRecordSample, 2, body.bytes(), GetParam());
  EventSink ignores;
  parser_.Parse(AsBytes(record), ignores);
  const size_t before = AllocationsSoFar();
  for (int i = 0; i < 1000; ++i) parser_.Parse(AsBytes(record), ignores);
  EXPECT_EQ(AllocationsSoFar() - before, 0U);
}

// --- deferred call chains ---

class DeferredChain : public RecordParserTest {
 protected:
  void SetUp() override {
    PerfAttr attr;
    attr.sample_type = kSampleIp | kSampleTid | kSampleTime | kSampleCallchain;
    AddEvent(attr);
  }
  void Sample(uint64_t ip, uint32_t tid, uint64_t cookie) {
    Parse(kRecordSample, 1,
          Writer()
              .U64(ip)
              .U32(7)
              .U32(tid)
              .U64(100)
              .U64(4)
              .U64(kContextKernel)
              .U64(ip)
              .U64(kContextUserDeferred)
              .U64(cookie)
              .bytes());
  }
  void Deferred(uint32_t tid, uint64_t cookie) {
    Parse(kRecordCallchainDeferred, 2,
          Writer()
              .U64(cookie)
              .U64(3)
              .U64(kContextUser)
              .U64(0x500)
              .U64(0x600)
              .U32(7)
              .U32(tid)
              .U64(200)
              .bytes());
  }
};
INSTANTIATE_TEST_SUITE_P(BothOrders, DeferredChain,
                         ::testing::Values(std::endian::little, std::endian::big));

TEST_P(DeferredChain, CompletesTheSamplesThatWaitForIt) {
  Sample(0xf0, 8, 1001);
  Sample(0xf1, 9, 1001);  // another thread's cookie
  Sample(0xf2, 8, 1001);
  EXPECT_THAT(log_.samples, IsEmpty());
  Deferred(8, 1001);
  ASSERT_EQ(log_.samples.size(), 2U);
  EXPECT_THAT(log_.samples[0].chain, ElementsAre(kContextKernel, 0xf0, kContextUser, 0x500, 0x600));
  EXPECT_THAT(log_.samples[1].chain, ElementsAre(kContextKernel, 0xf2, kContextUser, 0x500, 0x600));
  parser_.Finish(log_);
  ASSERT_EQ(log_.samples.size(), 3U);
  EXPECT_THAT(log_.samples[2].chain, ElementsAre(kContextKernel, 0xf1, kContextUserDeferred, 1001));
  EXPECT_EQ(parser_.losses().kept(), 3U);
  EXPECT_TRUE(parser_.losses().Balances());
}

TEST_P(DeferredChain, WaitsForNoMoreThanItsBound) {
  for (size_t i = 0; i < RecordParser::kDeferredSamplesMax; ++i) Sample(0xf0, 8, i);
  EXPECT_THAT(log_.samples, IsEmpty());
  Sample(0xf1, 8, 5000);
  EXPECT_EQ(log_.samples.size(), 1U);
}

// --- other records ---

class OtherRecords : public RecordParserTest {
 protected:
  void SetUp() override {
    PerfAttr attr;
    attr.sample_type = kSampleIp | kTrailerBits;
    attr.ids = {11};
    AddEvent(attr);
  }
};
INSTANTIATE_TEST_SUITE_P(BothOrders, OtherRecords,
                         ::testing::Values(std::endian::little, std::endian::big));

TEST_P(OtherRecords, ReadsMappingsOfBothKinds) {
  Parse(kRecordMmap, kMiscMmapData | 2,
        Writer()
            .U32(1)
            .U32(2)
            .U64(0x1000)
            .U64(0x2000)
            .U64(0x3000)
            .Text(PaddedName("/bin/a b"))
            .Text(Trailer())
            .bytes());
  Parse(kRecordMmap2, 2,
        Writer()
            .U32(1)
            .U32(2)
            .U64(0x1000)
            .U64(0x2000)
            .U64(0x3000)
            .U32(8)
            .U32(9)
            .U64(10)
            .U64(11)
            .U32(5)
            .U32(2)
            .Text(PaddedName("/lib/c"))
            .Text(Trailer())
            .bytes());
  Parse(kRecordMmap2, kMiscMmapBuildId | 2,
        Writer()
            .U32(1)
            .U32(2)
            .U64(0x1000)
            .U64(0x2000)
            .U64(0x3000)
            .U8(4)
            .U8(0)
            .U16(0)
            .Text("\xab\xcd\xef\x01ignored ignored ")
            .U32(1)
            .U32(2)
            .Text(PaddedName("/lib/d"))
            .Text(Trailer())
            .bytes());
  Parse(kRecordMmap, 1,
        Writer()
            .U32(UINT32_MAX)
            .U32(0)
            .U64(1)
            .U64(2)
            .U64(3)
            .Text(PaddedName("[kernel.kallsyms]_text"))
            .Text(Trailer())
            .bytes());
  ASSERT_EQ(log_.mmaps.size(), 4U);
  EXPECT_EQ(log_.mmaps[0].path, "/bin/a b");
  EXPECT_FALSE(log_.mmaps[0].executable);
  EXPECT_EQ(log_.mmaps[0].pid, 1);
  EXPECT_EQ(log_.mmaps[0].tid, 2);
  EXPECT_EQ(log_.mmaps[0].start.value, 0x1000U);
  EXPECT_EQ(log_.mmaps[0].length_bytes, 0x2000U);
  EXPECT_EQ(log_.mmaps[0].file_offset.value, 0x3000U);
  EXPECT_EQ(log_.mmaps[0].identity.time_ns, 1000U);
  EXPECT_EQ(log_.mmaps[0].identity.stream_id, 12U);
  EXPECT_EQ(log_.mmaps[0].identity.cpu, 3U);
  EXPECT_TRUE(log_.mmaps[1].executable);
  EXPECT_EQ(log_.mmaps[1].device_major, 8U);
  EXPECT_EQ(log_.mmaps[1].device_minor, 9U);
  EXPECT_EQ(log_.mmaps[1].inode, 10U);
  EXPECT_EQ(log_.mmaps[1].inode_generation, 11U);
  EXPECT_EQ(log_.mmaps[1].map_flags, 2U);
  EXPECT_EQ(log_.mmaps[2].build_id.ToHex(), "abcdef01");
  EXPECT_FALSE(log_.mmaps[2].executable);
  EXPECT_EQ(log_.mmaps[2].inode, 0U);
  EXPECT_EQ(log_.mmaps[3].pid, -1);
  EXPECT_EQ(log_.mmaps[3].cpumode, CpuMode::kKernel);
}

TEST_P(OtherRecords, ReadsEveryOtherKernelRecord) {
  const std::string end = Trailer();
  Parse(kRecordComm, kMiscCommExec,
        Writer().U32(1).U32(2).Text(PaddedName("Web Content")).Text(end).bytes());
  Parse(kRecordFork, 0, Writer().U32(1).U32(2).U32(3).U32(4).U64(99).Text(end).bytes());
  Parse(kRecordExit, 0, Writer().U32(1).U32(2).U32(3).U32(4).U64(99).Text(end).bytes());
  Parse(kRecordThrottle, 0, Writer().U64(1).U64(2).U64(3).Text(end).bytes());
  Parse(kRecordUnthrottle, 0, Writer().U64(1).U64(2).U64(3).Text(end).bytes());
  Parse(kRecordSwitch, kMiscSwitchOut | kMiscSwitchPreempt, end);
  Parse(kRecordSwitchCpuWide, 0, Writer().U32(5).U32(6).Text(end).bytes());
  Parse(kRecordKsymbol, 0,
        Writer().U64(0x10).U32(0x20).U16(1).U16(1).Text(PaddedName("bpf_prog")).Text(end).bytes());
  Parse(kRecordTextPoke, 0,
        Writer().U64(0x10).U16(3).U16(2).Text("oldnw").PadTo(8).Text(end).bytes());
  Parse(kRecordCgroup, 0, Writer().U64(42).Text(PaddedName("/user.slice")).Text(end).bytes());
  Parse(kRecordAux, 0, Writer().U64(4096).U64(512).U64(1).Text(end).bytes());
  Parse(kRecordItraceStart, 0, Writer().U32(1).U32(2).Text(end).bytes());
  Parse(kRecordNamespaces, 0, Writer().U32(1).U32(2).U64(0).Text(end).bytes());
  Parse(kRecordBpfEvent, 0, Writer().U16(1).U16(0).U32(7).U64(0).Text(end).bytes());
  Parse(kRecordAuxOutputHwId, 0, Writer().U64(3).Text(end).bytes());
  Parse(kRecordRead, 0, Writer().U32(1).U32(2).U64(9).Text(end).bytes());
  EXPECT_THAT(log_.lines, ElementsAre("@1000 comm 1/2 Web Content exec", "@1000 fork 1/3 of 2/4",
                                      "@1000 exit 1/3", "@1000 throttle", "@1000 unthrottle",
                                      "@1000 switch out preempted -1/-1", "@1000 switch in 5/6",
                                      "@1000 ksymbol 10+20 type 1 gone bpf_prog",
                                      "@1000 poke 10 old>nw", "@1000 cgroup 42 /user.slice",
                                      "@1000 aux 4096+512 flags 1", "@1000 other 12 64 bytes",
                                      "@1000 other 16 72 bytes", "@1000 other 18 72 bytes",
                                      "@1000 other 21 64 bytes", "@1000 other 8 72 bytes"));
  EXPECT_EQ(parser_.losses().Sentence(), "");
}

TEST_P(OtherRecords, CountsRecordsThatAreTooShort) {
  for (const uint32_t type :
       {kRecordMmap, kRecordMmap2, kRecordComm, kRecordFork, kRecordExit, kRecordLost,
        kRecordLostSamples, kRecordSwitchCpuWide, kRecordKsymbol, kRecordTextPoke, kRecordCgroup,
        kRecordAux, kRecordCallchainDeferred}) {
    for (size_t size = 0; size <= Trailer().size(); size += 4)
      Parse(type, 0, std::string(size, 'x'));
  }
  EXPECT_EQ(Lost(LossReason::kTruncated, LossUnit::kRecords), records_.size());
  EXPECT_THAT(log_.lines, IsEmpty());
}

TEST_P(OtherRecords, CountsTypesThatNobodyKnows) {
  Parse(0, 0, Trailer());
  Parse(kRecordKernelLast + 1, 0, Trailer());
  Parse(63, 0, Trailer());
  EXPECT_EQ(Lost(LossReason::kUnknownRecord, LossUnit::kRecords), 3U);
  parser_.Parse(AsBytes("short"), log_);
  EXPECT_EQ(Lost(LossReason::kTruncated, LossUnit::kRecords), 1U);
  EXPECT_THAT(log_.lines, IsEmpty());
}

TEST_P(OtherRecords, PeeksTheTimeOfEveryKind) {
  const auto peek = [&](uint32_t type, const std::string& body) {
    return parser_.PeekTime(AsBytes(RecordBytes(type, 0, body, GetParam())));
  };
  EXPECT_EQ(peek(kRecordSample, Writer().U64(11).U64(1).U32(7).U32(8).U64(555).bytes()), 555U);
  EXPECT_EQ(peek(kRecordComm, Writer().U32(1).U32(2).Text(PaddedName("x")).Text(Trailer()).bytes()),
            1000U);
  EXPECT_EQ(peek(kRecordSample, Writer().U64(11).U64(1).U32(7).U32(8).bytes()), std::nullopt);
  EXPECT_EQ(peek(kRecordComm, Writer().U64(1).bytes()), std::nullopt);
  EXPECT_EQ(peek(kRecordTimeConv, std::string(64, 'x')), std::nullopt);
}

// --- lost samples ---

TEST_P(OtherRecords, CountsLostRecordsAsSamples) {
  Parse(kRecordLost, 0, Writer().U64(11).U64(uint64_t{1} << 40).Text(Trailer()).bytes());
  Parse(kRecordLostSamples, 0, Writer().U64(5).Text(Trailer()).bytes());
  parser_.Finish(log_);
  EXPECT_THAT(log_.lines, ElementsAre("@1000 lost 1099511627776", "@1000 lost 5 samples"));
  EXPECT_EQ(parser_.losses().Lost(LossStage::kKernel, LossReason::kRingFull),
            (uint64_t{1} << 40) + 5);
  EXPECT_TRUE(parser_.losses().Balances());
}

TEST_P(OtherRecords, BoundsWhatOneLostRecordCanClaim) {
  const auto lost = [&](uint64_t count) {
    return Writer().U64(11).U64(count).Text(Trailer()).bytes();
  };
  Parse(kRecordLost, 0, lost(RecordParser::kLostPerRecordMax));
  EXPECT_EQ(Lost(LossReason::kBadValue, LossUnit::kRecords), 0U);
  Parse(kRecordLost, 0, lost(RecordParser::kLostPerRecordMax + 1));
  Parse(kRecordLost, 0, lost(UINT64_MAX));
  EXPECT_EQ(Lost(LossReason::kBadValue, LossUnit::kRecords), 2U);
  EXPECT_EQ(parser_.losses().captured(), 3 * RecordParser::kLostPerRecordMax);
  EXPECT_TRUE(parser_.losses().Balances());
}

TEST_P(OtherRecords, PrefersTheExactCountWhereTheRecorderKeptOne) {
  description_.events.front().attr.read_format = kReadLost;
  parser_.EventsChanged();
  Parse(kRecordLost, 0, Writer().U64(11).U64(100).Text(Trailer()).bytes());
  Parse(kRecordLostSamples, 0, Writer().U64(90).Text(Trailer()).bytes());
  Parse(kRecordLostSamples, kMiscLostByBpf, Writer().U64(3).Text(Trailer()).bytes());
  parser_.Finish(log_);
  const LossLedger& losses = parser_.losses();
  EXPECT_EQ(losses.Lost(LossStage::kKernel, LossReason::kRingFull), 90U);
  EXPECT_EQ(losses.Lost(LossStage::kKernel, LossReason::kRingFull, LossUnit::kRecords), 100U);
  EXPECT_EQ(losses.Lost(LossStage::kKernel, LossReason::kIgnored), 3U);
  EXPECT_TRUE(losses.Balances());
}

TEST_P(OtherRecords, FallsBackToLostRecordsWhereTheRecorderWasKilledBeforeItsExactCount) {
  description_.events.front().attr.read_format = kReadLost;
  parser_.EventsChanged();
  Parse(kRecordLost, 0, Writer().U64(11).U64(100).Text(Trailer()).bytes());
  EXPECT_EQ(parser_.losses().captured(), 0U);
  parser_.Finish(log_);
  EXPECT_EQ(parser_.losses().Lost(LossStage::kKernel, LossReason::kRingFull), 100U);
  EXPECT_TRUE(parser_.losses().Balances());
}

// --- recordings of old kernels ---

TEST_P(RecordParserTest, ReadsRecordsWithoutTrailers) {
  PerfAttr attr;
  attr.flags = 0;  // no sample_id_all
  AddEvent(attr);
  EXPECT_FALSE(parser_.CanOrderByTime());
  Parse(kRecordComm, 0, Writer().U32(1).U32(2).Text(PaddedName("old")).bytes());
  Parse(kRecordFork, 0, Writer().U32(1).U32(2).U32(3).U32(4).bytes());  // before its time field
  EXPECT_THAT(log_.lines, ElementsAre("comm 1/2 old", "fork 1/3 of 2/4"));
}

}  // namespace
}  // namespace ptarmigan
