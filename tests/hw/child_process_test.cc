#include "hw/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <thread>

#include "base/file.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

ChildProcess Fork(std::vector<std::string> argv, bool own_group = false) {
  auto child = ChildProcess::Fork({.argv = std::move(argv), .own_process_group = own_group});
  CHECK(child.has_value());
  return *std::move(child);
}

bool IsGone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

TEST(ChildProcess, RunsNothingBeforeStart) {
  const std::string mark = JoinPath(TestTemporaryDirectory(), "mark");
  ChildProcess child = Fork({"touch", mark});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(PathExists(mark));
  EXPECT_FALSE(child.TryWait().has_value());
  ASSERT_TRUE(child.Start().has_value());
  EXPECT_EQ(child.Wait(10'000), 0);
  EXPECT_TRUE(PathExists(mark));
}

TEST(ChildProcess, ForwardsTheExitStatus) {
  ChildProcess exits = Fork({"sh", "-c", "exit 42"});
  ASSERT_TRUE(exits.Start().has_value());
  EXPECT_EQ(exits.Wait(10'000), 42);
  EXPECT_EQ(exits.Wait(0), 42);
  ChildProcess killed = Fork({"sh", "-c", "kill -TERM $$"});
  ASSERT_TRUE(killed.Start().has_value());
  EXPECT_EQ(killed.Wait(10'000), 128 + SIGTERM);
}

TEST(ChildProcess, SaysWhyExecFailed) {
  ChildProcess missing = Fork({"/no/such/program"});
  const Status status = missing.Start();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  EXPECT_NE(status.error().message.find("/no/such/program"), std::string::npos);
  EXPECT_TRUE(IsGone(missing.pid()));
  ChildProcess directory = Fork({"/"});
  EXPECT_EQ(directory.Start().error().code, ErrorCode::kPermission);
  EXPECT_FALSE(ChildProcess::Fork({}).has_value());
  EXPECT_FALSE(ChildProcess::Fork({.argv = {""}, .own_process_group = false}).has_value());
}

TEST(ChildProcess, LeavesNoZombieWhenItIsGivenUp) {
  pid_t never_started = 0;
  pid_t running = 0;
  {
    ChildProcess first = Fork({"sleep", "60"});
    never_started = first.pid();
    ChildProcess second = Fork({"sleep", "60"});
    ASSERT_TRUE(second.Start().has_value());
    running = second.pid();
    // Moving does not end it.
    const ChildProcess moved = std::move(second);
    EXPECT_FALSE(IsGone(running));
  }
  EXPECT_TRUE(IsGone(never_started));
  EXPECT_TRUE(IsGone(running));
}

TEST(ChildProcess, WaitsNoLongerThanTold) {
  ChildProcess child = Fork({"sleep", "60"});
  ASSERT_TRUE(child.Start().has_value());
  EXPECT_FALSE(child.Wait(30).has_value());
  child.Signal(SIGINT);
  EXPECT_EQ(child.Wait(10'000), 128 + SIGINT);
}

TEST(ChildProcess, StartsInTheAskedProcessGroup) {
  ChildProcess ours = Fork({"sleep", "60"});
  ASSERT_TRUE(ours.Start().has_value());
  EXPECT_EQ(::getpgid(ours.pid()), ::getpgid(0));
  ChildProcess own = Fork({"sleep", "60"}, true);
  ASSERT_TRUE(own.Start().has_value());
  EXPECT_EQ(::getpgid(own.pid()), own.pid());
}

TEST(ChildProcess, SurvivesThatTheChildDiedBeforeStart) {
  ChildProcess child = Fork({"true"});
  child.Signal(SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(child.Start().has_value());
  EXPECT_EQ(child.Wait(1000), 128 + SIGKILL);
  EXPECT_FALSE(child.Start().has_value());
}

}  // namespace
}  // namespace ptarmigan
