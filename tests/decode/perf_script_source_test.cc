#include "decode/perf_script_source.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

std::string TextOf(const BranchRecord& branch) {
  std::string text = StrFormat("{:x}>{:x}", branch.from, branch.to);
  if (branch.mispredicted) text += " M";
  if (branch.predicted) text += " P";
  if (branch.in_transaction) text += " X";
  if (branch.abort) text += " A";
  if (branch.cycles != 0) text += StrFormat(" {}", branch.cycles);
  if (branch.type != 0) text += StrFormat(" type={}", branch.type);
  if (branch.spec != 0) text += StrFormat(" spec={}", branch.spec);
  return text;
}

// What a text delivers, one line for each event.
class Transcript : public EventSink {
 public:
  void OnMmap(const MmapEvent& event) override {
    lines.push_back(StrFormat("map pid={} {:x}+{:x}@{:x} {} {} {}", event.pid, event.start.value,
                              event.length_bytes, event.file_offset.value, event.path,
                              event.executable ? "x" : "-", event.build_id.ToHex()));
  }
  void OnSample(const CapturedSample& sample) override {
    std::string line = StrFormat("sample pid={}", sample.identity.pid);
    if (sample.identity.tid != sample.identity.pid) line += StrFormat("/{}", sample.identity.tid);
    if (sample.identity.has_time) line += StrFormat(" t={}", sample.identity.time_ns);
    if (sample.identity.cpu != RecordIdentity::kNoCpu)
      line += StrFormat(" cpu={}", sample.identity.cpu);
    if (sample.has_period) line += StrFormat(" period={}", sample.period);
    line += StrFormat(" ip={:x}", sample.has_ip ? sample.ip.value : 0);
    for (const uint64_t address : sample.chain) {
      line += IsContextMarker(address) ? " |" : StrFormat(" {:x}", address);
    }
    for (const BranchRecord& branch : sample.branches) line += StrFormat(" [{}]", TextOf(branch));
    lines.push_back(line);
  }

  std::vector<std::string> lines;
};

struct ReadText {
  std::vector<std::string> lines;
  LossLedger losses;
  RecordingDescription description;
};

ReadText Read(std::string_view text, const PerfScriptOptions& options = {}) {
  ReadText read;
  auto source = OpenPerfScriptBytes(AsBytes(text), "test", options);
  if (!source.has_value()) {
    read.lines.push_back(source.error().message);
    return read;
  }
  Transcript transcript;
  for (;;) {
    const auto outcome = (*source)->Poll(transcript);
    EXPECT_TRUE(outcome.has_value());
    if (!outcome.has_value() || *outcome == PollOutcome::kEnd) break;
  }
  read.lines = std::move(transcript.lines);
  read.losses = (*source)->losses();
  read.description = (*source)->description();
  EXPECT_TRUE(read.losses.Balances());
  return read;
}

using Lines = std::vector<std::string>;

TEST(PerfScriptSource, ReadsAddressAndBranchesOfOneLine) {
  const ReadText read = Read(
      "           400691 0x400691/0x400669/P/-/-/4  0x400677/0x400650/M/X/A/70000  "
      "0x1/0x2/-/-/-/0\n"
      "           400700 0x10/0x20\n");
  EXPECT_EQ(read.lines,
            (Lines{"sample pid=1 ip=400691 [400691>400669 P 4] [400677>400650 M X A 65535] [1>2]",
                   "sample pid=1 ip=400700 [10>20]"}));
  EXPECT_EQ(read.losses.captured(), 2U);
  EXPECT_EQ(read.losses.Lost(LossUnit::kRecords), 0U);
  ASSERT_EQ(read.description.events.size(), 1U);
  EXPECT_TRUE(read.description.events[0].attr.Samples(kSampleBranchStack));
  EXPECT_EQ(read.description.events[0].attr.branch_sample_type, 9U);  // user, any
}

TEST(PerfScriptSource, ReadsTypesAndSpeculation) {
  EXPECT_EQ(Read(" 1 0x1/0x2/P/-/-/3/COND/SPEC_CORRECT_PATH 0x3/0x4/P/-/-/0/RET/- "
                 "0x5/0x6/-/-/-/0//SPEC_WRONG_PATH\n")
                .lines,
            (Lines{"sample pid=1 ip=1 [1>2 P 3 type=1 spec=3] [3>4 P type=6] [5>6 spec=1]"}));
}

TEST(PerfScriptSource, ReadsCallChainBeforeBranches) {
  const ReadText read = Read(
      "\n\t          4005dc\n\t          400634 main+0x4 (/bin/a)\n\t    7f68c5788793\n"
      " 0x4005c8/0x4005dc/P/-/-/0  0x40062f/0x4005b0/P/-/-/0\n\n"
      "\t 4005b0\n 0x40062f/0x4005b0/P/-/-/0\n");
  EXPECT_EQ(read.lines, (Lines{"sample pid=1 ip=4005dc | 4005dc 400634 7f68c5788793 [4005c8>4005dc "
                               "P] [40062f>4005b0 P]",
                               "sample pid=1 ip=4005b0 | 4005b0 [40062f>4005b0 P]"}));
}

TEST(PerfScriptSource, ReadsWhatTheDefaultFieldsPrint) {
  EXPECT_EQ(Read("a b c 27409/28744 [003] 441995.133575:  1010 cycles:u:  40062f 0x1/0x2/P/-/-/0\n"
                 "   perf  12/12 [000] 1.5: 7 cycles: \n\t   40 f (a)\n\t 50\n 0x3/0x4/M/-/-/1\n")
                .lines,
            (Lines{"sample pid=27409/28744 t=441995133575000 cpu=3 period=1010 ip=40062f [1>2 P]",
                   "sample pid=12 t=1500000000 cpu=0 period=7 ip=40 | 40 50 [3>4 M 1]"}));
}

TEST(PerfScriptSource, TakesAllMappingsAsThoseOfOneProcessWhereSamplesNameNone) {
  EXPECT_EQ(
      Read("PERF_RECORD_MMAP2 2854748/2854749: [0x400000(0x1000) @ 0 00:1d 12 5]: r-xp /a b\n"
           "x 7/8 1.2: PERF_RECORD_MMAP2 7/8: [0x10(0x20) @ 0x1000 <0123ab>]: r--p /lib/x.so\n"
           "PERF_RECORD_MMAP -1/0: [0xffffffff81e00000(0x100) @ 0xffffffff81e00000]: x "
           "[kernel.kallsyms]_text\n"
           " 1 0x1/0x2\n")
          .lines,
      (Lines{"map pid=1 400000+1000@0 /a b x ", "map pid=1 10+20@1000 /lib/x.so - 0123ab",
             "map pid=-1 ffffffff81e00000+100@ffffffff81e00000 [kernel.kallsyms]_text x ",
             "sample pid=1 ip=1 [1>2]"}));
}

TEST(PerfScriptSource, KeepsProcessesApartWhereSamplesNameThem) {
  EXPECT_EQ(
      Read("PERF_RECORD_MMAP2 5/5: [0x400000(0x1000) @ 0 00:1d 12 5]: r-xp /a\n"
           "prog 5/6 1.000000001: 1 cycles: 0 0x1/0x2\n")
          .lines,
      (Lines{"map pid=5 400000+1000@0 /a x ", "sample pid=5/6 t=1000000001 period=1 ip=0 [1>2]"}));
}

TEST(PerfScriptSource, RepeatsAggregatedSamplesUpToItsBound) {
  const ReadText read = Read("2\n\t 4005dc\n 0x1/0x2 0x3/0x4\n1\n 40 0x5/0x6/P/-/-/9\n");
  EXPECT_EQ(read.lines,
            (Lines{"sample pid=1 ip=4005dc | 4005dc [1>2] [3>4]",
                   "sample pid=1 ip=4005dc | 4005dc [1>2] [3>4]", "sample pid=1 ip=40 [5>6 P 9]"}));
  // The bound at its limit, without keeping a transcript.
  class Counter : public EventSink {
   public:
    void OnSample(const CapturedSample&) override { ++samples; }
    uint64_t samples = 0;
  } counter;
  const std::string text = StrFormat("{}\n 1 0x1/0x2\n3\n 1 0x1/0x2\n", kScriptRepeatsMax - 1);
  auto source = OpenPerfScriptBytes(AsBytes(text), "test");
  ASSERT_TRUE(source.has_value());
  while (*(*source)->Poll(counter) != PollOutcome::kEnd) {
  }
  EXPECT_EQ(counter.samples, kScriptRepeatsMax);
  EXPECT_EQ((*source)->losses().Lost(LossStage::kParse, LossReason::kLimit), 2U);
  EXPECT_TRUE((*source)->losses().Balances());
}

TEST(PerfScriptSource, CountsLinesThatItCannotRead) {
  const ReadText read = Read(
      "// a comment\n; another\n# one more\nnonsense\n\t zz\nPERF_RECORD_MMAP2 garbage\n"
      "x 7/8 1.2: PERF_RECORD_COMM: x:7/8\n 1 0x1/0x2 0x3/zz 0x5/0x6\n 2 0x7/0x8\n");
  EXPECT_EQ(read.lines, (Lines{"sample pid=1 ip=1 [1>2]", "sample pid=1 ip=2 [7>8]"}));
  EXPECT_EQ(read.losses.Lost(LossStage::kParse, LossReason::kMissingText, LossUnit::kRecords), 3U);
  EXPECT_EQ(read.losses.Lost(LossStage::kParse, LossReason::kIgnored, LossUnit::kRecords), 1U);
  EXPECT_EQ(read.losses.Lost(LossStage::kParse, LossReason::kBadValue, LossUnit::kRecords), 1U);
}

TEST(PerfScriptSource, CutsWhatIsLongerThanItsBounds) {
  std::string text;
  for (size_t i = 0; i < kScriptChainMax + 2; ++i) text += "\t 40\n";
  for (size_t i = 0; i < kScriptBranchesMax + 1; ++i) text += " 0x1/0x2";
  class Last : public EventSink {
   public:
    void OnSample(const CapturedSample& sample) override {
      branches = sample.branches.size();
      chain = sample.chain.size();
    }
    size_t branches = 0;
    size_t chain = 0;
  } last;
  auto source = OpenPerfScriptBytes(AsBytes(text), "test");
  ASSERT_TRUE(source.has_value());
  while (*(*source)->Poll(last) != PollOutcome::kEnd) {
  }
  EXPECT_EQ(last.branches, kScriptBranchesMax);
  EXPECT_EQ(last.chain, kScriptChainMax);
  EXPECT_EQ((*source)->losses().Lost(LossStage::kParse, LossReason::kLimit, LossUnit::kRecords),
            4U);
}

TEST(PerfScriptSource, AssumesMappingsOnlyOfObjectsThatNoRecordMaps) {
  PerfScriptOptions options;
  MmapEvent assumed;
  assumed.start = {0x400000};
  assumed.length_bytes = 0x1000;
  assumed.path = "/bin/a";
  options.assumed_mappings = {assumed};
  EXPECT_EQ(Read(" 1 0x1/0x2\n", options).lines,
            (Lines{"map pid=1 400000+1000@0 /bin/a x ", "sample pid=1 ip=1 [1>2]"}));
  EXPECT_EQ(Read("PERF_RECORD_MMAP2 5/5: [0x10(0x20) @ 0 00:1d 12 5]: r-xp /home/a\n 1 0x1/0x2\n",
                 options)
                .lines,
            (Lines{"map pid=1 10+20@0 /home/a x ", "sample pid=1 ip=1 [1>2]"}));
}

TEST(PerfScriptSource, IsToldFromOtherTextByItsBranches) {
  const auto has = [](std::string_view text) { return HasBranchStackText(AsBytes(text)); };
  EXPECT_TRUE(
      has("PERF_RECORD_MMAP2 1/1: [0x10(0x20) @ 0 00:1d 1 5]: r-xp /a\n 1 0x1/0x2/P/-/-/3\n"));
  EXPECT_FALSE(has("main;work;inner 12\n"));
  EXPECT_FALSE(has("perf 12 1.5: 7 cycles: \n\t 4005dc main+0x4 (/bin/0x4/0x5)\n"));
  EXPECT_FALSE(has(""));
  EXPECT_EQ(Read("nothing\n").lines, (Lines{"test: has no branch stacks"}));
}

TEST(PerfScriptSource, ReadsWhatPerfPrintsOfARecording) {
  const std::string path = TestDataPath("autofdo/propeller_sample_1.perfdata1.gz");
  if (path.empty() || !HaveProgram("perf")) {
    GTEST_SKIP() << TestDataMissing("autofdo/propeller_sample_1.perfdata1.gz, and perf");
  }
  const std::string directory = TestTemporaryDirectory();
  const CommandResult printed = RunCommand("gunzip -c " + path + " > " + directory +
                                           "/p.data && perf script --show-mmap-events -F "
                                           "ip,brstack -i " +
                                           directory + "/p.data 2>/dev/null");
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  const ReadText read = Read(printed.out);
  EXPECT_GT(read.losses.kept(), 1000U);
  EXPECT_EQ(read.losses.Lost(LossStage::kParse, LossReason::kMissingText, LossUnit::kRecords), 0U);
  EXPECT_EQ(read.losses.Lost(LossStage::kParse, LossReason::kBadValue, LossUnit::kRecords), 0U);
}

}  // namespace
}  // namespace ptarmigan
