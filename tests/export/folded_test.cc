#include "export/folded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/text_lines.h"
#include "tests/export/profile_samples.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;

std::string Folded(const Profile& profile, const FoldedOptions& options) {
  std::string text;
  StringSink sink(&text);
  const Status status = WriteFolded(profile, options, &sink);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return text;
}

Profile Read(std::string_view text) {
  auto profile = ReadFolded(AsBytes(text));
  EXPECT_TRUE(profile.has_value()) << profile.error().message;
  return profile ? *std::move(profile) : Profile{};
}

TEST(Folded, WritesRootFirstWithKernelMarksInlinesAndEscapes) {
  EXPECT_EQ(Folded(RichProfile(), {.sample_type = 0}),
            "[no frames] 3\n"
            "main;[app \"quoted\"];odd:name 4\n"
            "main;[unknown] 1\n"
            "main;ns::Work<int>(std::string const&);ns::(anonymous namespace)::Hot() 7\n"
            "main;ns::Work<int>(std::string const&);ns::(anonymous "
            "namespace)::Hot();do_syscall_64_[k] 3\n"
            "odd:name -2\n");
}

TEST(Folded, PutsCommAndPidFirstWhenAsked) {
  const std::string text =
      Folded(RichProfile(), {.sample_type = 1, .comm_root = true, .pid_in_root = true});
  EXPECT_THAT(text, HasSubstr("app-100;main;"));
  EXPECT_THAT(text, HasSubstr("worker:_1/2-101;main;[app \"quoted\"];odd:name 40000000\n"));
  EXPECT_THAT(Folded(RichProfile(), {.sample_type = 1, .comm_root = true}), HasSubstr("app;main;"));
}

TEST(Folded, ReadsWhatItWrites) {
  const std::string text = Folded(RichProfile(), {});
  EXPECT_EQ(Folded(Read(text), {}), text);
  EXPECT_TRUE(EquivalentProfiles(Read(text), Read(Folded(Read(text), {}))));
}

TEST(Folded, ReadsSuffixesCountsAndCommentLines) {
  const Profile profile = Read(
      "# made by hand\n"
      "\n"
      "main;do work;write_[k] 3\r\n"
      "main;Interpreter_[j] 2.6\n"
      "main;outer;inner_[i] 4\n"
      "main;do work;write_[k] 1\n");
  EXPECT_EQ(profile.samples.size(), 3U);
  EXPECT_EQ(profile.Totals(), std::vector<int64_t>{11});
  EXPECT_EQ(Folded(profile, {}),
            "main;Interpreter 3\nmain;do work;write_[k] 4\nmain;outer;inner 4\n");
  // `inner` is a line of the location of `outer`.
  bool found = false;
  for (const auto& location : profile.locations) found |= location.lines_count == 2;
  EXPECT_TRUE(found);
}

TEST(Folded, CountsLinesThatItCannotRead) {
  const Profile profile = Read("main;work 3\nno number here\n;\nwork 1e400\n");
  EXPECT_EQ(profile.Totals(), std::vector<int64_t>{3});
  EXPECT_EQ(profile.losses.Lost(LossStage::kParse, LossReason::kMissingText, LossUnit::kRecords),
            3U);
  const auto nothing = ReadFolded(AsBytes("just\nwords\n"));
  ASSERT_FALSE(nothing.has_value());
  EXPECT_THAT(nothing.error().message, HasSubstr("folded stack"));
}

TEST(Folded, BoundsFramesAndLines) {
  const FoldedLimits limits = {.frames_per_stack_max = 3, .lines_max = 2};
  EXPECT_EQ(ReadFolded(AsBytes("a;b;c 1\n"), limits)->Totals(), std::vector<int64_t>{1});
  EXPECT_FALSE(ReadFolded(AsBytes("a;b;c;d 1\n"), limits).has_value());
  EXPECT_TRUE(ReadFolded(AsBytes("a 1\nb 1\n"), limits).has_value());
  EXPECT_EQ(ReadFolded(AsBytes("a 1\nb 1\nc 1\n"), limits).error().code, ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace ptarmigan
