#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ptarmigan {
namespace {

// Holds tasks back until Open.
class Gate {
 public:
  void Open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  // Waits until `count` tasks stand before the gate.
  void AwaitArrivals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, count] { return arrived_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int arrived_ = 0;
};

TEST(ThreadPool, RunsEveryTaskExactlyOnce) {
  constexpr int kTasks = 5000;
  std::vector<std::atomic<int>> runs(kTasks);
  ThreadPool pool(4, 16);
  for (int i = 0; i < kTasks; ++i) pool.Submit([&runs, i] { ++runs[static_cast<size_t>(i)]; });
  pool.Wait();
  for (const std::atomic<int>& count : runs) EXPECT_EQ(count.load(), 1);
}

TEST(ThreadPool, RunsAsManyTasksAtOnceAsItHasThreads) {
  ThreadPool pool(3);
  Gate gate;
  for (int i = 0; i < 3; ++i) pool.Submit([&gate] { gate.Pass(); });
  gate.AwaitArrivals(3);
  gate.Open();
  pool.Wait();
  EXPECT_EQ(pool.threads(), 3U);
}

TEST(ThreadPool, BlocksTheSubmitterAtTheBoundOfItsQueue) {
  constexpr size_t kQueueMax = 4;
  ThreadPool pool(1, kQueueMax);
  Gate gate;
  pool.Submit([&gate] { gate.Pass(); });
  gate.AwaitArrivals(1);  // the worker is busy, the queue empty

  std::atomic<size_t> submitted = 0;
  std::thread submitter([&] {
    for (size_t i = 0; i < kQueueMax + 1; ++i) {
      pool.Submit([] {});
      ++submitted;
    }
  });
  while (submitted < kQueueMax) std::this_thread::yield();
  // The bound is reached: the next Submit must still be waiting after a while.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(submitted.load(), kQueueMax);

  gate.Open();
  submitter.join();
  EXPECT_EQ(submitted.load(), kQueueMax + 1);
  pool.Wait();
}

TEST(ThreadPool, WaitReturnsOnlyAfterRunningTasksEnd) {
  ThreadPool pool(2);
  std::atomic<bool> done = false;
  pool.Submit([&done] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    done = true;
  });
  pool.Wait();
  EXPECT_TRUE(done.load());
}

TEST(ThreadPool, WaitOnAnIdlePoolReturnsAtOnce) {
  ThreadPool pool(1);
  pool.Wait();
  pool.Wait();
}

TEST(ThreadPool, DestructorRunsWhatWasSubmitted) {
  std::atomic<int> runs = 0;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Submit([&runs] { ++runs; });
  }
  EXPECT_EQ(runs.load(), 100);
}

TEST(ThreadPool, TakesTasksFromSeveralThreads) {
  std::atomic<int> runs = 0;
  ThreadPool pool(2, 3);
  std::vector<std::thread> submitters;
  for (int i = 0; i < 4; ++i) {
    submitters.emplace_back([&] {
      for (int task = 0; task < 250; ++task) pool.Submit([&runs] { ++runs; });
    });
  }
  for (std::thread& submitter : submitters) submitter.join();
  pool.Wait();
  EXPECT_EQ(runs.load(), 1000);
}

TEST(ThreadPoolDeathTest, NeedsAThreadAndRoomForATask) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(ThreadPool(0), "threads >= 1");
  EXPECT_DEATH(ThreadPool(1, 0), "queue_max >= 1");
}

TEST(UsableProcessors, CountsTheProcessorsOfThisProcess) {
  EXPECT_GE(UsableProcessors(), 1U);
  EXPECT_LE(UsableProcessors(), static_cast<size_t>(::sysconf(_SC_NPROCESSORS_CONF)));
}

}  // namespace
}  // namespace ptarmigan
