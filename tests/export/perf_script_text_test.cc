#include "export/perf_script_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "base/text_lines.h"
#include "export/folded.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;

Profile Read(std::string_view text) {
  auto profile = ReadPerfScript(AsBytes(text));
  EXPECT_TRUE(profile.has_value()) << profile.error().message;
  return profile ? *std::move(profile) : Profile{};
}

std::string LabelText(const Profile& profile, size_t sample, std::string_view key) {
  for (const auto& label : profile.Labels(profile.samples[sample].labels)) {
    if (profile.Text(label.key) != key) continue;
    return label.text != 0 ? std::string(profile.Text(label.text)) : StrFormat("{}", label.number);
  }
  return "-";
}

std::string Stack(const Profile& profile, size_t sample) {
  std::string text;
  for (const LocationId id : profile.Stack(profile.samples[sample].stack)) {
    const auto& location = profile.locations[id];
    text += StrFormat("{:x}", location.address);
    for (const auto& line : profile.Lines(location)) {
      text += StrFormat(" {}", profile.Text(profile.functions[line.function].name));
    }
    text += location.mapping == kNoId
                ? " -"
                : StrFormat(" <{}>", profile.Text(profile.mappings[location.mapping].file));
    text += ";";
  }
  return text;
}

std::vector<std::string> Types(const Profile& profile) {
  std::vector<std::string> types;
  for (const auto& type : profile.sample_types) {
    types.push_back(StrFormat("{}/{}", profile.Text(type.type), profile.Text(type.unit)));
  }
  return types;
}

TEST(PerfScriptText, ReadsCommThreadPeriodEventAndStack) {
  const Profile profile = Read(
      "# cmdline : perf record -g\n"
      "  Web Content 1 2 2740/2744 [003] 441995.133575:   10101010 cycles:u: \n"
      "\t          59fef5 copy_user+0x1f (/lib/modules/4.3.0/build/vmlinux)\n"
      "\t            f7eb inner(int, (anonymous namespace)::X) (inlined)\n"
      "\t            f7eb outer (/opt/my app/bin (deleted))\n"
      "\t               0 [unknown] ([unknown])\n"
      "\n"
      "dd  29776 441996.133575: 20 cycles:u: \n"
      "\t            f7eb [unknown] (/lib/libc.so)\n"
      "\n");
  EXPECT_EQ(Types(profile), (std::vector<std::string>{"samples/count", "cycles:u/count"}));
  ASSERT_EQ(profile.samples.size(), 2U);
  EXPECT_EQ(profile.Values(0)[1], 10101010);
  EXPECT_EQ(LabelText(profile, 0, "comm"), "Web Content 1 2");
  EXPECT_EQ(LabelText(profile, 0, "pid"), "2740");
  EXPECT_EQ(LabelText(profile, 0, "tid"), "2744");
  EXPECT_EQ(Stack(profile, 0),
            "59fef5 copy_user </lib/modules/4.3.0/build/vmlinux>;"
            "f7eb inner(int, (anonymous namespace)::X) outer </opt/my app/bin (deleted)>;0 -;");
  EXPECT_EQ(LabelText(profile, 1, "comm"), "dd");
  EXPECT_EQ(LabelText(profile, 1, "tid"), "29776");
  EXPECT_EQ(LabelText(profile, 1, "pid"), "-");
  EXPECT_EQ(Stack(profile, 1), "f7eb </lib/libc.so>;");
  EXPECT_EQ(profile.duration_ns, 1000000000);
  EXPECT_EQ(profile.Text(profile.default_sample_type), "cycles:u");
}

TEST(PerfScriptText, ReadsEventsOnOneLineAndWithoutSomeFields) {
  const Profile profile = Read(
      "3871580/3871580 434242.809390244:         50   branch-misses/period=50/u:   0   "
      "7fca9993d2f0 _dl_relocate+0xd40 (/usr/lib64/ld.so)\n"
      "cc 12 [000] 434242.9:  1 cycles: add (/bin/x)\n"
      "cc 12 [000] 434243.0:  7 cycles: 1234 add (/bin/x)\n"
      "java 19983 cycles:\n"
      "ffffffff8103d0ca native_write_msr_safe ([kernel.kallsyms])\n");
  EXPECT_EQ(Types(profile),
            (std::vector<std::string>{"samples/count", "branch-misses/period=50/u/count",
                                      "cycles/count"}));
  ASSERT_EQ(profile.samples.size(), 4U);
  EXPECT_EQ(Stack(profile, 0), "7fca9993d2f0 _dl_relocate </usr/lib64/ld.so>;");
  EXPECT_EQ(LabelText(profile, 0, "comm"), "-");
  EXPECT_EQ(Stack(profile, 2), "1234 add </bin/x>;");
  EXPECT_EQ(Stack(profile, 3), "ffffffff8103d0ca native_write_msr_safe <[kernel.kallsyms]>;");
  EXPECT_EQ(profile.Totals(), (std::vector<int64_t>{4, 50, 9}));
}

TEST(PerfScriptText, GivesClockPeriodsInNanoseconds) {
  EXPECT_EQ(Types(Read("a 1 1.0: 250000 cpu-clock:ppp: \n\t 10 f (/bin/a)\n")),
            (std::vector<std::string>{"samples/count", "cpu/nanoseconds"}));
  EXPECT_EQ(Types(Read("a 1 1.0: cpu-clock: \n\t 10 f (/bin/a)\n")),
            (std::vector<std::string>{"samples/count", "cpu-clock/count"}));
}

TEST(PerfScriptText, TakesSourceLinesBelowFrames) {
  const Profile profile =
      Read("a 1 1.0: 1 cycles: \n\t 10 f+0x2 (/bin/a)\n  src/f.c:12\n\t 20 g (/bin/a)\n");
  ASSERT_EQ(profile.lines.size(), 2U);
  EXPECT_EQ(profile.lines[0].line, 12);
  EXPECT_EQ(profile.Text(profile.functions[profile.lines[0].function].file), "src/f.c");
}

TEST(PerfScriptText, KeepsTracepointsWithTheirText) {
  const Profile profile = Read(
      "bash 12 [001] 5.5: sched:sched_switch: prev_comm=bash prev_pid=12 ==> next_comm=x (y)\n"
      "\tffffffff81 schedule ([kernel.kallsyms])\n\n");
  EXPECT_EQ(Types(profile).back(), "sched:sched_switch/count");
  EXPECT_EQ(Stack(profile, 0), "ffffffff81 schedule <[kernel.kallsyms]>;");
}

TEST(PerfScriptText, SaysThatBranchRecordsAreNoSamples) {
  const std::string branch =
      "1/1 5.5: 1 branches:uH: jmp 40bb19 f+0x2 (foo.so) => 40bab9 g+0x3 (foo.so)\n";
  const auto only = ReadPerfScript(AsBytes(branch));
  ASSERT_FALSE(only.has_value());
  EXPECT_EQ(only.error().code, ErrorCode::kUnsupported);
  const Profile mixed = Read(branch + "a 1 5.6: 1 cycles: 10 f (/bin/a)\n");
  EXPECT_EQ(mixed.samples.size(), 1U);
  EXPECT_EQ(mixed.losses.Lost(LossStage::kParse, LossReason::kUnsupported, LossUnit::kRecords), 1U);
}

TEST(PerfScriptText, BoundsFramesAndEventsAndRefusesOtherText) {
  const std::string sample = "a 1 1.0: 1 cycles: \n\t 10 f (/a)\n\t 20 g (/a)\n\t 30 h (/a)\n\n";
  EXPECT_EQ(ReadPerfScript(AsBytes(sample), {.frames_per_stack_max = 3})->losses.Sentence(), "");
  const auto cut = ReadPerfScript(AsBytes(sample), {.frames_per_stack_max = 2});
  EXPECT_EQ(cut->losses.Lost(LossStage::kParse, LossReason::kLimit, LossUnit::kRecords), 1U);
  const std::string two = "a 1 1.0: 1 x: \n\na 1 1.0: 1 y: \n\n";
  EXPECT_TRUE(ReadPerfScript(AsBytes(two), {.events_max = 2}).has_value());
  EXPECT_EQ(ReadPerfScript(AsBytes(two), {.events_max = 1}).error().code,
            ErrorCode::kResourceLimit);
  EXPECT_FALSE(ReadPerfScript(AsBytes("hello\nworld\n")).has_value());
  EXPECT_FALSE(ReadPerfScript(AsBytes("")).has_value());
}

// --- Texts of others. stackcollapse-perf shortens names (no arguments, no quotes); the same is done to ours.

std::string Tidy(std::string name, bool is_java) {
  // In perf's "[unknown]" frames the name is already "[object]".
  std::string suffix;
  if (name.ends_with("_[k]")) {
    suffix = "_[k]";
    name.resize(name.size() - suffix.size());
  }
  static const std::regex go_method(R"(\.\(.*\)\.)");
  if (!std::regex_search(name, go_method)) {
    for (size_t open = name.find('('); open != std::string::npos; open = name.find('(', open + 1)) {
      if (name.compare(open, 21, "(anonymous namespace)") == 0) continue;
      name.resize(open);
      break;
    }
  }
  std::erase(name, '"');
  std::erase(name, '\'');
  if (is_java && name.starts_with('L') && name.find('/') != std::string::npos) name.erase(0, 1);
  return name + suffix;
}

std::map<std::string, int64_t> Lines(std::string_view text, bool tidy) {
  std::map<std::string, int64_t> lines;
  LineReader reader(text);
  std::string_view line;
  while (reader.Next(&line)) {
    const size_t blank = line.rfind(' ');
    if (blank == std::string_view::npos) continue;
    std::string_view stack = line.substr(0, blank);
    const bool is_java = stack.starts_with("java;");
    std::string key;
    for (bool more = true, is_root = true; more; is_root = false) {
      const size_t semicolon = stack.find(';');
      more = semicolon != std::string_view::npos;
      std::string name(stack.substr(0, semicolon));
      if (more) stack.remove_prefix(semicolon + 1);
      if (name.ends_with("_[j]")) name.resize(name.size() - 4);
      // The script marks the vdso as kernel code, though it runs in user mode.
      if (name == "__vdso_gettimeofday_[k]" || name == "[vdso]_[k]") name.resize(name.size() - 4);
      key += (is_root ? "" : ";") + (tidy && !is_root ? Tidy(name, is_java) : name);
    }
    lines[key] += *ParseNumber<int64_t>(line.substr(blank + 1));
  }
  return lines;
}

TEST(PerfScriptText, GivesTheFoldedStacksOfStackcollapse) {
  if (TestDataPath("flamegraph").empty()) GTEST_SKIP() << TestDataMissing("flamegraph");
  size_t compared = 0;
  for (const char* name :
       {"perf-cycles-instructions-01", "perf-dd-stacks-01", "perf-iperf-stacks-pidtid-01",
        "perf-java-faults-01", "perf-java-stacks-01", "perf-java-stacks-02",
        "perf-rust-Yamakaky-dcpu"}) {
    std::string text = ReadTestFile(TestDataPath(StrFormat("flamegraph/{}.txt", name)));
    // The script forgets a last sample without an empty line behind it; we keep it.
    if (!text.ends_with("\n\n")) text.resize(text.rfind("\n\n") + 2);
    const Profile profile = Read(text);
    EXPECT_EQ(profile.losses.Lost(LossUnit::kRecords), 0U)
        << name << ": " << profile.losses.Sentence();
    for (const bool with_pid : {false, true}) {
      std::string folded;
      StringSink sink(&folded);
      // The script takes the first event only, and so do these.
      ASSERT_TRUE(WriteFolded(profile,
                              {.sample_type = 1, .comm_root = true, .pid_in_root = with_pid}, &sink)
                      .has_value());
      auto expected = Lines(ReadTestFile(TestDataPath(StrFormat("flamegraph/{}-collapsed-{}.txt",
                                                                name, with_pid ? "pid" : "all"))),
                            false);
      auto ours = Lines(folded, true);
      if (with_pid) {  // the script leaves kernel marks out there
        std::map<std::string, int64_t> plain;
        for (const auto& [key, value] : ours)
          plain[std::regex_replace(key, std::regex(R"(_\[k\])"), "")] += value;
        ours = plain;
      }
      for (const auto& [key, value] : expected) {
        EXPECT_EQ(ours[key], value)
            << name << " with pid " << with_pid << ": " << key.substr(0, 300);
      }
      EXPECT_EQ(ours.size(), expected.size()) << name << " with pid " << with_pid;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 14U);
}

TEST(PerfScriptText, ReadsFlamescopeAndSampledMagicTraceTexts) {
  if (TestDataPath("flamescope").empty())
    GTEST_SKIP() << TestDataMissing("flamescope, magic-trace");
  const std::string text = ReadTestFile(TestDataPath("flamescope/perf.test01"));
  int64_t headers = 0;
  for (size_t at = 0; (at = text.find(" cpu-clock: ", at)) != std::string::npos; ++at) ++headers;
  EXPECT_EQ(headers, 9);
  EXPECT_EQ(Read(text).Totals()[0], headers);
  for (const char* name :
       {"demo_sampling_with_branch_misses_and_cache_misses.perf.gz",
        "demo_with_branch_misses_and_cache_misses.perf.gz", "ocaml_demo_sampling.perf"}) {
    const Profile profile = Read(ReadTestFile(TestDataPath(StrFormat("magic-trace/{}", name))));
    EXPECT_EQ(profile.losses.Lost(LossStage::kParse, LossReason::kMissingText, LossUnit::kRecords),
              0U)
        << name;
    EXPECT_GT(profile.Totals()[0], 10) << name;
  }
  for (const char* name : {"simple_gogo.perf", "hello_world_userspace.perf.gz"}) {
    EXPECT_FALSE(
        ReadPerfScript(AsBytes(ReadTestFile(TestDataPath(StrFormat("magic-trace/{}", name)))))
            .has_value());
  }
}

}  // namespace
}  // namespace ptarmigan
