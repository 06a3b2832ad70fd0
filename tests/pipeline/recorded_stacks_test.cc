// Stacks of recordings made by others against the stacks that another unwinder gave for them.
#include <gtest/gtest.h>

#include <charconv>
#include <map>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "pipeline/import.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using StackCounts = std::map<std::vector<uint64_t>, uint64_t>;

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The unwound addresses of perfparser's expected text: blocks of "\tcycles: N", an empty line, then two lines per
// frame. The first line of a frame starts with "<pc> <pc>"; frames inlined into it have another second number.
// Unknown code (the kernel, other objects) has "<pc> 0" and a second line of zeros.
StackCounts ExpectedStacks(std::string_view text) {
  StackCounts stacks;
  std::vector<uint64_t> stack;
  bool in_sample = false;
  const std::vector<std::string_view> lines = SplitLines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("\tcycles: ")) {
      in_sample = true;
      ++i;  // the empty line
      continue;
    }
    if (!in_sample) continue;
    if (lines[i].empty()) {
      ++stacks[stack];
      stack.clear();
      in_sample = false;
      continue;
    }
    uint64_t pc = 0;
    uint64_t second = 0;
    const std::string_view line = lines[i].substr(1);
    const auto first_end = std::from_chars(line.data(), line.data() + line.size(), pc, 16).ptr;
    std::from_chars(first_end + 1, line.data() + line.size(), second, 16);
    const bool unknown_code = i + 1 < lines.size() && lines[i + 1].starts_with("\t0 0\t");
    if (pc == second || unknown_code) stack.push_back(pc);
    ++i;
  }
  if (in_sample) ++stacks[stack];
  return stacks;
}

// Our stacks as run-time addresses (the recorded program is linked at fixed addresses). Kernel callers are put back
// onto their return addresses, as the expected texts have them.
StackCounts OurStacks(const Profile& profile) {
  StackCounts stacks;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    std::vector<uint64_t> stack;
    for (const LocationId id : profile.Stack(profile.samples[i].stack)) {
      const auto& location = profile.locations[id];
      const bool kernel_caller = location.address >> 63 != 0 && !stack.empty();
      stack.push_back(location.address + (kernel_caller ? 1 : 0));
    }
    stacks[stack] += static_cast<uint64_t>(profile.Values(i)[0]);
  }
  return stacks;
}

std::string ToText(const std::vector<uint64_t>& stack) {
  std::string text;
  for (const uint64_t pc : stack) text += StrFormat(" {:x}", pc);
  return text;
}

bool IsKernelAddress(uint64_t address) { return address >> 63 != 0; }

// `ours` may say more than perfparser, which drops the user part of a sample in the kernel when the interrupted user
// address lies outside the mappings that it knows (the moment of exec): the same stack, then one user frame.
bool SaysMore(const std::vector<uint64_t>& expected, const std::vector<uint64_t>& ours) {
  return !expected.empty() && IsKernelAddress(expected.back()) &&
         ours.size() == expected.size() + 1 && !IsKernelAddress(ours.back()) &&
         std::equal(expected.begin(), expected.end(), ours.begin());
}

// How many of `expected` are in `ours`, with those that are not.
struct Agreement {
  uint64_t samples = 0;
  uint64_t equal = 0;
  std::string differences;
};

Agreement Compare(const StackCounts& expected, const StackCounts& ours) {
  Agreement agreement;
  for (const auto& [stack, count] : expected) {
    agreement.samples += count;
    uint64_t equal = 0;
    for (const auto& [our_stack, our_count] : ours) {
      if (our_stack == stack || SaysMore(stack, our_stack)) equal += our_count;
    }
    equal = std::min(equal, count);
    agreement.equal += equal;
    if (equal < count)
      agreement.differences += StrFormat("expected {} x{}\n", count - equal, ToText(stack));
  }
  for (const auto& [stack, count] : ours) {
    if (!expected.contains(stack))
      agreement.differences += StrFormat("ours     {} x{}\n", count, ToText(stack));
  }
  return agreement;
}

// perfparser puts the target of the newest call in front of the callers: the interrupted function twice. (For samples
// in the kernel it has that target instead of the interrupted user address, and the sample's precise address behind
// the kernel's.) What both agree on is the user code where the sample hit and the calls that led there.
StackCounts CallsOnly(const StackCounts& stacks, bool with_target) {
  StackCounts calls;
  for (const auto& [stack, count] : stacks) {
    std::vector<uint64_t> user;
    for (const uint64_t pc : stack) {
      if (!IsKernelAddress(pc)) user.push_back(pc);
    }
    if (user.empty()) continue;
    const bool hit_user = !IsKernelAddress(stack.front());
    if (!hit_user) user.erase(user.begin());
    if (hit_user && with_target && user.size() > 1) user.erase(user.begin() + 1);
    calls[user] += count;
  }
  return calls;
}

Result<Profile> Import(const std::string& recording) {
  ImportOptions options;
  options.symbolizer.binary_paths = {TestDataPath("kdab-perfparser")};
  options.symbolizer.cache_directory = TestTemporaryDirectory();
  return ReadProfile(recording, options);
}

class RecordedStacks : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedStacks, EqualThoseOfPerfparser) {
  const std::string recording = TestDataPath(StrFormat("kdab-perfparser/{}", GetParam()));
  if (recording.empty()) GTEST_SKIP() << TestDataMissing("kdab-perfparser");
  const auto profile = Import(recording);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  const Agreement agreement =
      Compare(ExpectedStacks(ReadTestFile(recording + ".expected.txt")), OurStacks(*profile));
  EXPECT_GT(agreement.samples, 20U);
  EXPECT_EQ(agreement.equal, agreement.samples) << agreement.differences;
}

TEST(RecordedLbrStacks, EqualThoseOfPerfparser) {
  const std::string recording = TestDataPath("kdab-perfparser/vector_static_gcc.perf.lbr.data");
  if (recording.empty()) GTEST_SKIP() << TestDataMissing("kdab-perfparser");
  const auto profile = Import(recording);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  const Agreement agreement =
      Compare(CallsOnly(ExpectedStacks(ReadTestFile(recording + ".expected.txt")), true),
              CallsOnly(OurStacks(*profile), false));
  EXPECT_GT(agreement.samples, 20U);
  // One precise sample of user code was delivered from the kernel: perfparser shows it as a kernel sample.
  EXPECT_GE(agreement.equal + 1, agreement.samples) << agreement.differences;
}

INSTANTIATE_TEST_SUITE_P(Kdab, RecordedStacks,
                         ::testing::Values("vector_static_gcc.perf.data",
                                           "vector_static_gcc.perf.data.zstd"),
                         [](const auto& case_info) {
                           std::string name = case_info.param;
                           for (char& letter : name) letter = letter == '.' ? '_' : letter;
                           return name;
                         });

}  // namespace
}  // namespace ptarmigan
