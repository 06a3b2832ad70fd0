#include "decode/internal/window_join.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/perf_bytes.h"

namespace ptarmigan::internal {
namespace {

constexpr std::string_view kSync = "SYNC";

size_t Overlap(std::string_view before, std::string_view window) {
  return OverlapBytes(AsBytes(before), AsBytes(window));
}

TEST(OverlapBytes, IsTheLongestEndThatBeginsTheWindow) {
  EXPECT_EQ(Overlap("abcdef", "defghi"), 3U);
  EXPECT_EQ(Overlap("abcabc", "abcabd"), 3U);
  EXPECT_EQ(Overlap("aaaa", "aaab"), 3U);
  EXPECT_EQ(Overlap("abc", "xyz"), 0U);
  EXPECT_EQ(Overlap("abc", "abc"), 3U);
  EXPECT_EQ(Overlap("xxabcd", "cd"), 2U);
  EXPECT_EQ(Overlap("", "cd"), 0U);
  EXPECT_EQ(Overlap("cd", ""), 0U);
}

TEST(OverlapBytes, AgreesWithTryingEveryLength) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string before(random() % 12, ' ');
    std::string window(random() % 12, ' ');
    for (char& c : before) c = static_cast<char>('a' + random() % 2);
    for (char& c : window) c = static_cast<char>('a' + random() % 2);
    size_t expected = 0;
    for (size_t length = 1; length <= std::min(before.size(), window.size()); ++length) {
      if (before.ends_with(window.substr(0, length))) expected = length;
    }
    EXPECT_EQ(Overlap(before, window), expected) << before << " " << window;
  }
}

class JoinedWindows : public testing::Test {
 protected:
  void SetUp() override { join_.SetSync(AsBytes(kSync)); }
  WindowJoin::Joined Add(int32_t tid, std::string_view window) {
    RecordIdentity identity;
    identity.tid = tid;
    identity.cpu = 0;
    return join_.Add(identity, AsBytes(window));
  }
  WindowJoin join_;
};

TEST_F(JoinedWindows, AreOneRunWhereASynchronisationPointIsInBoth) {
  EXPECT_EQ(Add(1, "abSYNCde").new_bytes, 8U);
  const auto second = Add(1, "SYNCdefgSYNChi");
  EXPECT_TRUE(second.continues);
  EXPECT_EQ(second.new_bytes, 8U);
  const auto third = Add(1, "gSYNChij");
  EXPECT_EQ(third.new_bytes, 1U);
  const auto runs = join_.Take();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(AsText(runs[0].bytes), "abSYNCdefgSYNChij");
}

TEST_F(JoinedWindows, StayApartWhereOnlyALoopsBytesAreEqual) {
  Add(1, "SYNClooploop");
  EXPECT_FALSE(Add(1, "looploopSYNCend").continues);
  EXPECT_EQ(join_.Take().size(), 2U);
}

TEST_F(JoinedWindows, OfOtherThreadsAreNotLookedAt) {
  Add(1, "SYNCaaaa");
  EXPECT_FALSE(Add(2, "SYNCaaaa").continues);
  EXPECT_TRUE(Add(1, "SYNCaaaab").continues);
  EXPECT_EQ(join_.Take().size(), 2U);
}

}  // namespace
}  // namespace ptarmigan::internal
