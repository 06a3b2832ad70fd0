// Intel PT recordings by our own encoder, through the whole pipeline: what only they have, code of the kernel.
#include <elf.h>
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
#include "tests/support/elf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

class OwnTrace : public testing::TestWithParam<uint64_t> {
 protected:
  static PtWalkOptions WalkOptions() {
    return {.seed = GetParam() + 100, .steps = 4000, .signals_apart = 900, .interrupts_apart = 300};
  }
  // `left_out`: the end of a file's name that is not at hand.
  static Result<Profile> Read(const PtPerfData& recording, std::string_view left_out = "(none)") {
    const std::string root = StrFormat("{}/{}", TestTemporaryDirectory(), GetParam());
    for (const auto& [path, bytes] : recording.files) {
      if (path.ends_with(left_out)) continue;
      std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
      std::ofstream(root + path, std::ios::binary) << bytes;
    }
    const std::string file = root + "/perf.data";
    const bool is_directory = std::filesystem::is_directory(file);
    std::ofstream(is_directory ? file + "/data" : file, std::ios::binary) << recording.perf_data;
    ImportOptions options;
    options.symbolizer.binary_paths = {root, root + "/pt/bin"};
    options.pipeline.trace.digest = true;
    auto profile = ReadProfile(file, options);
    std::filesystem::remove_all(root);
    return profile;
  }
  static void ExpectKernelToo(const PtWalk& walk, const PtPerfData& recording,
                              const Profile& profile) {
    const PtTruth truth = TruthOf(walk, recording.visible[0]);
    ASSERT_EQ(profile.summary.flow.threads.size(), 1U);
    const FlowSummary::Thread& thread = profile.summary.flow.threads[0];
    EXPECT_EQ(thread.instructions, truth.instructions);
    EXPECT_EQ(thread.ip_digest, truth.digest);
    EXPECT_EQ(thread.calls, truth.calls);
    EXPECT_EQ(thread.suspect + thread.bad, 0U);
    // By function, those of the kernel among them.
    std::map<std::string, uint64_t> expected;
    bool has_kernel = false;
    for (const auto& [index, function] : truth.functions) {
      const PtFunction& known = walk.program().functions()[index];
      has_kernel |= known.region == PtRegion::kKernel;
      if (known.region == PtRegion::kKernel) expected[known.name] += function.instructions;
    }
    EXPECT_TRUE(has_kernel);
    std::map<std::string, uint64_t> seen;
    for (const FlowSummary::Function& function : profile.summary.flow.functions) {
      const auto lines = profile.Lines(profile.locations[function.location]);
      if (lines.empty() || lines.back().function == kNoId) continue;
      const std::string name(profile.Text(profile.functions[lines.back().function].system_name));
      if (expected.contains(name)) seen[name] += function.instructions;
    }
    EXPECT_EQ(seen, expected);
  }
  // The visible steps outside of a region.
  static std::vector<uint32_t> Without(PtRegion region, const PtWalk& walk,
                                       const PtPerfData& recording) {
    std::vector<uint32_t> steps;
    for (const uint32_t step : recording.visible[0]) {
      const uint32_t function = walk.paths()[walk.steps()[step].path].function;
      if (walk.program().functions()[function].region != region) steps.push_back(step);
    }
    return steps;
  }
  static void ExpectAllBut(PtRegion region, const PtWalk& walk, const PtPerfData& recording,
                           const Profile& profile) {
    PtDigest digest;
    const std::vector<uint32_t> steps = Without(region, walk, recording);
    EXPECT_LT(steps.size(), recording.visible[0].size());
    for (const uint64_t address : PtAddresses(walk, steps)) digest.Add(address);
    ASSERT_EQ(profile.summary.flow.threads.size(), 1U);
    const FlowSummary::Thread& thread = profile.summary.flow.threads[0];
    EXPECT_EQ(thread.instructions, steps.size());
    EXPECT_EQ(thread.ip_digest, digest.value());
    // (A segment that ran in missing code alone is bad, but no error.)
    EXPECT_EQ(thread.suspect, 0U);
    EXPECT_TRUE(thread.errors.empty());
    // (perf fills buffers up to a multiple of 8 bytes.)
    EXPECT_LT(thread.bytes.Sum() - recording.trace_bytes, 8U);
  }
};

TEST_P(OwnTrace, TheKernelsCodeIsFollowedToo) {
  const PtProgram program({.seed = GetParam(), .kernel = true});
  const PtWalk walk(program, WalkOptions());
  PtPerfDataOptions options;
  options.trace.kernel = true;
  const PtPerfData recording = RecordPt(walk, options);
  const auto profile = Read(recording);
  ASSERT_TRUE(profile) << profile.error().message;
  if (profile->summary.flow.empty()) GTEST_SKIP() << "this program was built without libipt";
  ExpectKernelToo(walk, recording, *profile);
}

// As `perf record --kcore` leaves it: a directory with the recording, a copy of the kernel's memory and its symbols.
TEST_P(OwnTrace, ACopyOfTheKernelWillDo) {
  const PtProgram program({.seed = GetParam(), .kernel = true});
  const PtWalk walk(program, WalkOptions());
  PtPerfDataOptions options;
  options.trace.kernel = true;
  PtPerfData recording = RecordPt(walk, options);
  const PtCode& code = program.CodeOf(PtRegion::kKernel);
  ElfBytes kcore({.type = ET_CORE});
  const uint32_t text = kcore.Add({.name = ".text",
                                   .flags = SHF_ALLOC | SHF_EXECINSTR,
                                   .vaddr = code.address,
                                   .content = code.bytes,
                                   .alignment = 4096});
  kcore.AddSegment(PT_LOAD, PF_R | PF_W | PF_X, {text, text}, 4096);
  std::string kallsyms = StrFormat("{:016x} T _text\n", code.address);
  for (const PtFunction& function : program.functions()) {
    if (function.region != PtRegion::kKernel) continue;
    kallsyms += StrFormat("{:016x} T {}\n", function.start, function.name);
  }
  recording.files["/perf.data/kcore_dir/kcore"] = kcore.Build();
  recording.files["/perf.data/kcore_dir/kallsyms"] = kallsyms;
  const auto profile = Read(recording, "/vmlinux");
  ASSERT_TRUE(profile) << profile.error().message;
  if (profile->summary.flow.empty()) GTEST_SKIP() << "this program was built without libipt";
  ExpectKernelToo(walk, recording, *profile);
}

// Without its file the kernel's part is missing code; it is said, and user code goes on behind it.
TEST_P(OwnTrace, AKernelThatIsNotAtHandIsPassedOver) {
  const PtProgram program({.seed = GetParam(), .kernel = true});
  const PtWalk walk(program, WalkOptions());
  PtPerfDataOptions options;
  options.trace.kernel = true;
  options.trace.return_compression = false;
  const PtPerfData recording = RecordPt(walk, options);
  const auto profile = Read(recording, "/vmlinux");
  ASSERT_TRUE(profile) << profile.error().message;
  if (profile->summary.flow.empty()) GTEST_SKIP() << "this program was built without libipt";
  EXPECT_TRUE(profile->summary.flow.missing_code.contains("[kernel.kallsyms]_text"));
  ExpectAllBut(PtRegion::kKernel, walk, recording, *profile);
}

// The same for a library.
TEST_P(OwnTrace, ALibraryThatIsNotAtHandIsPassedOver) {
  const PtProgram program({.seed = GetParam()});
  const PtWalk walk(program, WalkOptions());
  PtPerfDataOptions options;
  options.trace.return_compression = false;
  const PtPerfData recording = RecordPt(walk, options);
  const auto profile = Read(recording, "/libpt.so");
  ASSERT_TRUE(profile) << profile.error().message;
  if (profile->summary.flow.empty()) GTEST_SKIP() << "this program was built without libipt";
  ExpectAllBut(PtRegion::kLibrary, walk, recording, *profile);
}

// Compressed returns whose calls are not known cannot be followed; the next address can.
TEST_P(OwnTrace, CompressedReturnsCostNoMoreThanTheWayToTheNextAddress) {
  const PtProgram program({.seed = GetParam(), .kernel = true});
  const PtWalk walk(program, WalkOptions());
  PtPerfDataOptions options;
  options.trace.kernel = true;
  const PtPerfData recording = RecordPt(walk, options);
  const auto profile = Read(recording, "/vmlinux");
  ASSERT_TRUE(profile) << profile.error().message;
  if (profile->summary.flow.empty()) GTEST_SKIP() << "this program was built without libipt";
  ASSERT_EQ(profile->summary.flow.threads.size(), 1U);
  const FlowSummary::Thread& thread = profile->summary.flow.threads[0];
  EXPECT_TRUE(thread.errors.empty());
  const uint64_t all = Without(PtRegion::kKernel, walk, recording).size();
  EXPECT_LE(thread.instructions, all);
  EXPECT_GT(thread.instructions, all / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, OwnTrace, testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace ptarmigan
