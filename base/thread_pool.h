// ThreadPool: a fixed number of workers and a bounded queue. Submit blocks while the queue is full.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ptarmigan {

class ThreadPool {
 public:
  // `threads` >= 1. At most `queue_max` tasks wait.
  explicit ThreadPool(size_t threads, size_t queue_max = 1024);
  // Runs what was submitted, then joins.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Any thread. Tasks must not throw.
  void Submit(std::function<void()> task);
  // Returns when every task submitted before the call has ended. Not from a task.
  void Wait();
  size_t threads() const { return workers_.size(); }

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  size_t queue_max_;
  size_t running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

// The number of processors this process may run on (sched_getaffinity), at least 1.
size_t UsableProcessors();

}  // namespace ptarmigan
