#include "base/thread_pool.h"

#include <sched.h>

#include <utility>

#include "base/check.h"

namespace ptarmigan {

ThreadPool::ThreadPool(size_t threads, size_t queue_max) : queue_max_(queue_max) {
  CHECK(threads >= 1 && queue_max >= 1);
  workers_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Submit(std::function<void()> task) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.size() < queue_max_; });
  queue_.push_back(std::move(task));
  lock.unlock();
  changed_.notify_all();
}

void ThreadPool::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && running_ == 0; });
}

void ThreadPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    changed_.notify_all();
    task();
    lock.lock();
    --running_;
    changed_.notify_all();
  }
}

size_t UsableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? static_cast<size_t>(count) : 1;
}

}  // namespace ptarmigan
