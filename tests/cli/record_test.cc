// `record` as a whole, where the machine lets us sample at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/str_format.h"
#include "hw/capabilities.h"
#include "tests/support/test_data.h"

namespace ptarmigan::cli {
namespace {

using ::testing::HasSubstr;

CommandResult Record(const std::string& arguments) {
  const std::string binary =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "ptarmigan").string();
  return RunCommand(StrFormat("{} record {}", binary, arguments), 60);
}

bool Available(std::string_view source) {
  const Capabilities found = ProbeCapabilities();
  const SourceCapability* known = found.Find(source);
  return known != nullptr && known->available;
}

TEST(Record, ASourceThatIsMissingSaysWhyAndEndsWith2) {
  for (const std::string source : {"pt", "spe", "ibs", "coresight", "pebs-mem", "lbr"}) {
    if (Available(source)) continue;
    const CommandResult result = Record(StrFormat("--source {} -- true", source));
    EXPECT_EQ(result.exit_code, 2) << source;
    EXPECT_THAT(result.err, HasSubstr(StrFormat("--source {}: ", source)));
  }
}

TEST(Record, AutoSaysWhatItFellBackTo) {
  if (!Available("cpu-clock")) GTEST_SKIP() << "perf events cannot be opened here";
  if (Available("cycles"))
    GTEST_SKIP() << "this machine has hardware counters: nothing to fall back to";
  const std::string output = TestTemporaryDirectory() + "/x.pb.gz";
  const CommandResult result = Record(
      StrFormat("-o {} -- sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'", output));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--source auto samples cpu-clock: "));
}

TEST(Record, ADiskLimitEndsTheRecordingWithWhatThereIs) {
  if (!Available("cpu-clock")) GTEST_SKIP() << "perf events cannot be opened here";
  const std::string output = TestTemporaryDirectory() + "/x.perf.data";
  const CommandResult result = Record(StrFormat(
      "--source cpu-clock -F 2000 --disk-limit 200k -o {} -- sh -c 'while :; do :; done'", output));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--disk-limit is reached"));
  EXPECT_GT(std::filesystem::file_size(output), 200U << 10);
  // One more round of the rings at most.
  EXPECT_LT(std::filesystem::file_size(output), 20U << 20);
}

TEST(Record, OptionsThatTheSourceHasNoUseForAreRefused) {
  for (const std::string option : {"--terms cyc", "--kernel", "--snapshot", "--aux 1M",
                                   "--window 4096", "--filter 'filter 0x10@/bin/true'"}) {
    for (const std::string events : {"--source cpu-clock", "-e page-faults"}) {
      const CommandResult result = Record(StrFormat("{} {} -- true", events, option));
      EXPECT_EQ(result.exit_code, 2) << option;
      EXPECT_THAT(result.err, HasSubstr(" is for --source ")) << option;
    }
  }
}

TEST(Record, OptionsOfTracesWantATrace) {
  EXPECT_EQ(Record("--source cpu-clock --trigger signal -- true").exit_code, 2);
  EXPECT_EQ(Record("--source cpu-clock --trigger 'sched>soon' -- true").exit_code, 2);
}

}  // namespace
}  // namespace ptarmigan::cli
