// Intel PT recordings by our own encoder, through the whole pipeline: what only they have, code of the kernel.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "pipeline/import.h"
#include "tests/encoders/pt_perf_data.h"
#include "tests/encoders/pt_truth.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

class OwnTrace : public testing::TestWithParam<uint64_t> {
 protected:
  static PtWalkOptions WalkOptions() {
    return {.seed = GetParam() + 100, .steps = 4000, .signals_apart = 900, .interrupts_apart = 300};
  }
  // Null (with the test skipped) if this program cannot decode Intel PT.
  static Result<Profile> Read(const PtPerfData& recording, bool with_vmlinux) {
    const std::string root = StrFormat("{}/{}", TestTemporaryDirectory(), GetParam());
    for (const auto& [path, bytes] : recording.files) {
      if (!with_vmlinux && path.ends_with("/vmlinux")) continue;
      std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
      std::ofstream(root + path, std::ios::binary) << bytes;
    }
    const std::string file = root + "/perf.data";
    std::ofstream(file, std::ios::binary) << recording.perf_data;
    ImportOptions options;
    options.symbolizer.binary_paths = {root, root + "/pt/bin"};
    options.pipeline.trace.digest = true;
    auto profile = ReadProfile(file, options);
    std::filesystem::remove_all(root);
    return profile;
  }
};

TEST_P(OwnTrace, TheKernelsCodeIsFollowedToo) {
  const PtProgram program({.seed = GetParam(), .kernel = true});
  const PtWalk walk(program, WalkOptions());
  PtPerfDataOptions options;
  options.trace.kernel = true;
  const PtPerfData recording = RecordPt(walk, options);
  const auto profile = Read(recording, /*with_vmlinux=*/true);
  ASSERT_TRUE(profile) << profile.error().message;
  if (profile->summary.flow.empty()) GTEST_SKIP() << "this program was built without libipt";
  const PtTruth truth = TruthOf(walk, recording.visible[0]);
  ASSERT_EQ(profile->summary.flow.threads.size(), 1U);
  const FlowSummary::Thread& thread = profile->summary.flow.threads[0];
  EXPECT_EQ(thread.instructions, truth.instructions);
  EXPECT_EQ(thread.ip_digest, truth.digest);
  EXPECT_EQ(thread.calls, truth.calls);
  EXPECT_EQ(thread.suspect + thread.bad, 0U);
  // By function, those of the kernel among them.
  std::map<std::string, uint64_t> expected;
  bool has_kernel = false;
  for (const auto& [index, function] : truth.functions) {
    const PtFunction& known = program.functions()[index];
    has_kernel |= known.region == PtRegion::kKernel;
    if (known.region == PtRegion::kKernel) expected[known.name] += function.instructions;
  }
  EXPECT_TRUE(has_kernel);
  std::map<std::string, uint64_t> seen;
  for (const FlowSummary::Function& function : profile->summary.flow.functions) {
    const auto lines = profile->Lines(profile->locations[function.location]);
    if (lines.empty() || lines.back().function == kNoId) continue;
    const std::string name(profile->Text(profile->functions[lines.back().function].system_name));
    if (expected.contains(name)) seen[name] += function.instructions;
  }
  EXPECT_EQ(seen, expected);
}

// Without its file the kernel's part is missing code; it is said, and what can be followed is.
TEST_P(OwnTrace, AKernelThatIsNotAtHandIsCountedAsMissingCode) {
  const PtProgram program({.seed = GetParam(), .kernel = true});
  const PtWalk walk(program, WalkOptions());
  PtPerfDataOptions options;
  options.trace.kernel = true;
  const PtPerfData recording = RecordPt(walk, options);
  const auto profile = Read(recording, /*with_vmlinux=*/false);
  ASSERT_TRUE(profile) << profile.error().message;
  if (profile->summary.flow.empty()) GTEST_SKIP() << "this program was built without libipt";
  EXPECT_TRUE(profile->summary.flow.missing_code.contains("[kernel.kallsyms]_text"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, OwnTrace, testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace ptarmigan
