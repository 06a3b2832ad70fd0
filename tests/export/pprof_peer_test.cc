// What we write, read by Go's own tool. Skips where it is not installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "export/formats.h"
#include "tests/export/profile_samples.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;

std::string WriteFile(const Profile& profile, const std::string& directory, std::string_view name) {
  const std::string path = JoinPath(directory, name);
  auto out = OutputFile::Create(path);
  EXPECT_TRUE(out.has_value());
  FileSink sink(&*out);
  EXPECT_TRUE(WriteProfile(profile, Format::kPprof, {}, &sink).has_value());
  EXPECT_TRUE(out->Commit().has_value());
  return path;
}

// Runs `go tool pprof` with a home of its own, so that it leaves nothing behind.
CommandResult GoPprof(const std::string& arguments, const std::string& directory) {
  return RunCommand(StrFormat("HOME={0} PPROF_TMPDIR={0} go tool pprof {1}", directory, arguments));
}

// What Go's tool counts: it leaves out samples without frames.
std::vector<int64_t> TotalsWithFrames(const Profile& profile) {
  std::vector<int64_t> totals(profile.sample_types.size(), 0);
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    if (profile.Stack(profile.samples[i].stack).empty()) continue;
    for (size_t t = 0; t < totals.size(); ++t) totals[t] += profile.Values(i)[t];
  }
  return totals;
}

// Sums of the value columns of `-raw`.
std::vector<int64_t> RawTotals(const std::string& raw, size_t types) {
  std::vector<int64_t> totals(types, 0);
  std::istringstream lines(
      raw.substr(raw.find("Samples:\n"), raw.find("Locations\n") - raw.find("Samples:\n")));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    std::istringstream values(line.substr(0, colon));
    std::vector<int64_t> row;
    for (int64_t value; values >> value;) row.push_back(value);
    if (colon == std::string::npos || row.size() != types) continue;
    for (size_t t = 0; t < types; ++t) totals[t] += row[t];
  }
  return totals;
}

class GoTool : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HaveProgram("go")) GTEST_SKIP() << "go is not installed (Debian: golang-go)";
    directory_ = TestTemporaryDirectory();
  }
  std::string directory_;
};

TEST_F(GoTool, ReadsOurProfilesWithoutAWarning) {
  Profile losses_only = RandomProfile({.samples = 2000}, 4);
  losses_only.losses.Capture(10);
  losses_only.losses.Lose(LossStage::kKernel, LossReason::kRingFull, 10);
  for (const Profile& profile : {RichProfile(), losses_only}) {
    const std::string path = WriteFile(profile, directory_, "ours.pb.gz");
    for (const char* view : {"-top", "-raw", "-tags", "-traces"}) {
      const CommandResult result = GoPprof(StrFormat("{} {}", view, path), directory_);
      EXPECT_EQ(result.exit_code, 0) << view << ": " << result.err;
      EXPECT_EQ(result.err, "") << view;
      EXPECT_EQ(result.out.find("arning"), std::string::npos) << view;
      EXPECT_EQ(result.out.find("ailed"), std::string::npos) << view;
      if (std::string_view(view) == "-raw") {
        EXPECT_EQ(RawTotals(result.out, profile.sample_types.size()), TotalsWithFrames(profile));
        EXPECT_THAT(result.out, HasSubstr("cpu/nanoseconds[dflt]"));
        EXPECT_THAT(result.out,
                    HasSubstr("Comment: ptarmigan.lost: stage=kernel reason=ring_full"));
      }
    }
  }
}

TEST_F(GoTool, ShowsTheSameTopAsWeCount) {
  const Profile profile = RichProfile();
  const CommandResult result =
      GoPprof("-top -unit=ms " + WriteFile(profile, directory_, "rich.pb.gz"), directory_);
  EXPECT_THAT(result.out, HasSubstr("Type: cpu"));
  EXPECT_THAT(result.out, HasSubstr("ns::(anonymous namespace)::Hot() (inline)"));
}

TEST_F(GoTool, FindsNoDifferenceBetweenAProfileAndItsSecondWriting) {
  const std::string first = WriteFile(RichProfile(), directory_, "first.pb.gz");
  const auto content = ReadFile(first);
  const auto decoded = DecodePprof(AsBytes(*content));
  ASSERT_TRUE(decoded.has_value());
  const std::string second = WriteFile(*decoded, directory_, "second.pb.gz");
  const CommandResult result =
      GoPprof(StrFormat("-top -diff_base {} {}", first, second), directory_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Showing nodes accounting for 0, 0%"));
}

TEST_F(GoTool, AgreesOnTheTotalsOfTheProfilesOfOthers) {
  const std::string folder = TestDataPath("pprof-parca");
  if (folder.empty()) GTEST_SKIP() << TestDataMissing("pprof-parca");
  for (const char* name : {"alloc_objects.pb.gz", "labels.pb.gz", "fib.pb.gz"}) {
    const std::string path = JoinPath(folder, name);
    const auto bytes = ReadFile(path);
    const auto decoded = DecodeAny(AsBytes(*bytes), name);
    ASSERT_TRUE(decoded.has_value());
    const CommandResult theirs = GoPprof("-symbolize=none -raw " + path, directory_);
    const CommandResult ours =
        GoPprof("-symbolize=none -raw " + WriteFile(*decoded, directory_, name), directory_);
    EXPECT_EQ(RawTotals(theirs.out, decoded->sample_types.size()), decoded->Totals()) << name;
    EXPECT_EQ(RawTotals(ours.out, decoded->sample_types.size()), decoded->Totals()) << name;
  }
}

}  // namespace
}  // namespace ptarmigan
