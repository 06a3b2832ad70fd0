// A live session written as perf.data: perf and our own reader find in the file what the session counted.
#include <gtest/gtest.h>

#include <memory>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "decode/perf_data_writer.h"
#include "hw/child_process.h"
#include "hw/perf_session.h"
#include "tests/hw/live_session.h"
#include "tests/support/event_log.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

struct Recorded {
  std::string path;
  PerfSessionStatistics statistics;
};

// Records a short shell loop with stacks; an error if the kernel does not let us.
Result<Recorded> RecordShellLoop(uint32_t stack_user_bytes) {
  TRY_ASSIGN(
      ChildProcess child,
      ChildProcess::Fork({.argv = {"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"},
                          .own_process_group = false}));
  PerfSessionOptions options = OnPid(child.pid());
  options.target.kind = PerfTarget::Kind::kCommand;
  options.stack_user_bytes = stack_user_bytes;
  TRY_ASSIGN(const std::unique_ptr<PerfSession> session, PerfSession::Open(options));
  Recorded recorded;
  recorded.path = TestTemporaryDirectory() + "/live.perf.data";
  TRY_ASSIGN(const std::unique_ptr<PerfDataWriter> writer,
             PerfDataWriter::Create(recorded.path, session->description()));
  TRY(child.Start());
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  for (PollOutcome outcome = PollOutcome::kMore; outcome != PollOutcome::kEnd;) {
    if (Clock::now() > deadline) return Error{ErrorCode::kUnavailable, "the session did not end"};
    TRY_ASSIGN(outcome, session->Poll(*writer, 100));
  }
  TRY(writer->Finish(session->description()));
  recorded.statistics = session->statistics();
  return recorded;
}

class LiveRecording : public testing::TestWithParam<uint32_t> {};

INSTANTIATE_TEST_SUITE_P(WithAndWithoutStacks, LiveRecording,
                         testing::Values(0U, kStackBytesDefault));

TEST_P(LiveRecording, IsReadBackWithEverySampleThatWasCounted) {
  auto recorded = RecordShellLoop(GetParam());
  if (!recorded && recorded.error().code == ErrorCode::kPermission)
    GTEST_SKIP() << recorded.error().message;
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  ASSERT_GT(recorded->statistics.samples, 10U);
  auto source = OpenPerfData(recorded->path);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EventLog log;
  for (int i = 0; i < 100'000; ++i) {
    auto outcome = (*source)->Poll(log);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    if (*outcome == PollOutcome::kEnd) break;
  }
  EXPECT_EQ(log.samples.size(), recorded->statistics.samples);
  EXPECT_EQ((*source)->losses().Lost(), recorded->statistics.lost_records);
  for (size_t i = 1; i < log.samples.size(); ++i) {
    EXPECT_GE(log.samples[i].identity.time_ns, log.samples[i - 1].identity.time_ns);
  }
  if (GetParam() != 0) {
    size_t with_stack = 0;
    for (const std::string& stack : log.stacks) with_stack += stack.empty() ? 0U : 1U;
    EXPECT_GT(with_stack, log.samples.size() / 2);
  }
}

TEST_P(LiveRecording, PerfCountsTheSameSamples) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf (package linux-perf) is not installed";
  auto recorded = RecordShellLoop(GetParam());
  if (!recorded && recorded.error().code == ErrorCode::kPermission)
    GTEST_SKIP() << recorded.error().message;
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  const CommandResult script = RunCommand(
      StrFormat("perf script -i {} -F comm,event,ip -G | grep -c cpu-clock", recorded->path));
  EXPECT_EQ(script.out, StrFormat("{}\n", recorded->statistics.samples)) << script.err;
  const CommandResult kernel = RunCommand(
      StrFormat("perf script -i {} -F ip,sym --show-mmap-events | grep -c 'kernel.kallsyms._text'",
                recorded->path));
  EXPECT_EQ(kernel.out, "1\n");
}

}  // namespace
}  // namespace ptarmigan
