// Walks over this very process against what glibc's unwinder says.
#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "tests/support/live_process.h"

namespace ptarmigan {
namespace {

constexpr size_t kDumpBytes = 65528;

struct Capture {
  ThreadSnapshot snapshot;
  std::array<void*, 256> theirs = {};
  int their_count = 0;
};
Capture capture;  // NOLINT: signal handlers and callbacks of libc reach nothing else
volatile int sink = 0;

[[gnu::noinline]] void TakeCapture() {
  ucontext_t context;
  getcontext(&context);
  capture.snapshot = TakeSnapshot(context, kDumpBytes);
  capture.their_count = backtrace(capture.theirs.data(), static_cast<int>(capture.theirs.size()));
}

// Return addresses of our walk and of glibc's, without the capturing function itself.
void ExpectSameCallers(size_t frames_min) {
  LiveProcess process;
  StackWalker walker(NativeArch());
  std::vector<WalkedFrame> frames;
  const WalkResult result = walker.Walk(
      {.registers = capture.snapshot.registers, .stack = AsBytes(capture.snapshot.stack)}, process,
      &frames);
  EXPECT_EQ(StackEndName(result.end), "complete");
  std::vector<uint64_t> ours;
  for (size_t i = 1; i < frames.size(); ++i) ours.push_back(frames[i].pc.value);
  std::vector<uint64_t> theirs;
  for (int i = 1; i < capture.their_count; ++i)
    theirs.push_back(reinterpret_cast<uint64_t>(capture.theirs[static_cast<size_t>(i)]));
  EXPECT_GE(ours.size(), frames_min);
  EXPECT_EQ(ours, theirs);
}

[[gnu::noinline]] int Recurse(int depth) {
  if (depth == 0) {
    TakeCapture();
    return 0;
  }
  std::array<volatile int, 16> locals = {};
  locals[static_cast<size_t>(depth % 16)] = depth;
  return Recurse(depth - 1) + locals[static_cast<size_t>(depth % 16)];
}

// The stack changes its size while it runs.
[[gnu::noinline]] int RecurseWithArray(int depth, size_t bytes) {
  auto* array = static_cast<volatile char*>(__builtin_alloca(bytes));
  array[bytes - 1] = 1;
  const int below = depth == 0 ? Recurse(3) : RecurseWithArray(depth - 1, bytes + 24);
  return below + array[bytes - 1];
}

int CompareAndCapture(const void* left, const void* right) {
  TakeCapture();
  return *static_cast<const int*>(left) - *static_cast<const int*>(right);
}

class WalkLive : public testing::Test {
 protected:
  void SetUp() override {
    if (!StackWalker::Supports(NativeArch())) GTEST_SKIP() << "this architecture cannot be walked";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers intercept what this test calls";
#endif
  }
};

TEST_F(WalkLive, FollowsRecursion) {
  sink = Recurse(40);
  ExpectSameCallers(45);
}

TEST_F(WalkLive, FollowsFramesOfChangingSize) {
  sink = RecurseWithArray(10, 100);
  ExpectSameCallers(15);
}

TEST_F(WalkLive, FollowsCallbacksThroughLibc) {
  std::array<int, 16> numbers = {3, 1, 2, 9, 8, 7, 4, 4, 5, 6, 1, 2, 3, 9, 9, 9};
  std::qsort(numbers.data(), numbers.size(), sizeof(int), CompareAndCapture);
  ExpectSameCallers(5);
}

TEST_F(WalkLive, ReachesTheStartOfAThread) {
  std::thread thread([] { sink = Recurse(5); });
  thread.join();
  ExpectSameCallers(8);
}

void OnSignal(int, siginfo_t*, void*) { TakeCapture(); }
void OnSignalInContext(int, siginfo_t*, void* context) {
  capture.snapshot = TakeSnapshot(*static_cast<ucontext_t*>(context), kDumpBytes);
}

[[gnu::noinline]] void RaiseIn(int depth) {
  if (depth > 0) {
    RaiseIn(depth - 1);
    sink = sink + 1;
    return;
  }
  pthread_kill(pthread_self(), SIGUSR2);
  sink = sink + 1;
}

struct sigaction InstallHandler(void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  struct sigaction old = {};
  sigaction(SIGUSR2, &action, &old);
  return old;
}

TEST_F(WalkLive, PassesSignalHandlers) {
  const struct sigaction old = InstallHandler(OnSignal, 0);
  RaiseIn(5);
  sigaction(SIGUSR2, &old, nullptr);
  ExpectSameCallers(10);
}

TEST_F(WalkLive, WalksFromAnInterruptedContext) {
  // What a sample is: registers at an arbitrary instruction; here the system call that sent the signal.
  const struct sigaction old = InstallHandler(OnSignalInContext, 0);
  RaiseIn(5);
  sigaction(SIGUSR2, &old, nullptr);
  LiveProcess process;
  StackWalker walker(NativeArch());
  std::vector<WalkedFrame> frames;
  const WalkResult result = walker.Walk(
      {.registers = capture.snapshot.registers, .stack = AsBytes(capture.snapshot.stack)}, process,
      &frames);
  EXPECT_EQ(StackEndName(result.end), "complete");
  size_t raising = 0;
  bool main_seen = false;
  for (const WalkedFrame& frame : frames) {
    const std::string name = process.FunctionAt(frame.lookup());
    raising += name.find("RaiseIn") != std::string::npos ? 1U : 0U;
    main_seen |= name == "main";
  }
  EXPECT_EQ(raising, 6U);
  EXPECT_TRUE(main_seen);
}

TEST_F(WalkLive, AgreesByFramePointers) {
  // This program is built with frame pointers, libc is not: from here to main both ways see the same.
  sink = Recurse(20);
  LiveProcess process;
  const WalkInput input = {.registers = capture.snapshot.registers,
                           .stack = AsBytes(capture.snapshot.stack)};
  std::vector<WalkedFrame> by_cfi;
  StackWalker(NativeArch()).Walk(input, process, &by_cfi);
  std::vector<WalkedFrame> by_frame_pointer;
  StackWalker walker(NativeArch(), {.method = WalkOptions::Method::kFramePointer});
  walker.Walk(input, process, &by_frame_pointer);
  ASSERT_GE(by_frame_pointer.size(), 22U);
  for (size_t i = 0; i < 22; ++i) EXPECT_EQ(by_frame_pointer[i], by_cfi[i]) << i;
}

}  // namespace
}  // namespace ptarmigan
