// BatchWorker: a thread that works on batches in the order in which they are given, while the giver fills the next one.
//
//   giver:  fill, Give ──▶ queue of bounded length ──▶ worker: work(batch)
//            ▲                                               |
//            '────── the memory of a batch that is done ─────'
//
// Give, Drain, DrainTo and Finish are called by one thread. The thread starts with the first batch; where none is to be had, Give works
// itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ptarmigan::internal {

template <typename Batch>
class BatchWorker {
 public:
  // `work` runs in the worker's thread. At most `waiting_max` batches wait.
  BatchWorker(size_t waiting_max, std::function<void(Batch&)> work)
      : waiting_max_(waiting_max), work_(std::move(work)) {}
  // Batches that still wait are dropped.
  ~BatchWorker() {
    {
      const std::lock_guard lock(mutex_);
      waiting_.clear();
    }
    Finish();
  }
  BatchWorker(const BatchWorker&) = delete;
  BatchWorker& operator=(const BatchWorker&) = delete;

  // Takes what `batch` holds; the giver gets an older batch for it, whose content does not matter. Blocks while too many
  // wait.
  void Give(Batch* batch) {
    if (!HasThread()) {
      work_(*batch);
      return;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.size() < waiting_max_; });
    waiting_.push_back(std::move(*batch));
    *batch = Batch();
    if (!done_.empty()) {
      *batch = std::move(done_.back());
      done_.pop_back();
    }
    lock.unlock();
    changed_.notify_one();
  }

  // Returns when every batch has been worked on; what the worker wrote may be read until the next Give.
  void Drain() { DrainTo(0); }
  // Returns when all but the last `batches` given have been worked on.
  void DrainTo(size_t batches) {
    if (!thread_.joinable()) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return waiting_.size() + (working_ ? size_t{1} : size_t{0}) <= batches; });
  }

  // Returns when every batch has been worked on and the thread has ended.
  void Finish() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  bool HasThread() {
    if (thread_.joinable()) return true;
    if (std::exchange(tried_, true)) return false;
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void Run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      Batch batch = std::move(waiting_.front());
      waiting_.pop_front();
      working_ = true;
      lock.unlock();
      changed_.notify_one();
      work_(batch);
      lock.lock();
      working_ = false;
      done_.push_back(std::move(batch));
      changed_.notify_one();
    }
  }

  const size_t waiting_max_;
  const std::function<void(Batch&)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> waiting_;
  std::vector<Batch> done_;  // never more than were given at once
  bool working_ = false;
  bool ending_ = false;
  bool tried_ = false;
  std::thread thread_;
};

}  // namespace ptarmigan::internal
