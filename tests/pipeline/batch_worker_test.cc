#include "pipeline/internal/batch_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace ptarmigan::internal {
namespace {

using Batch = std::vector<int>;

TEST(BatchWorker, WorksOnEveryBatchInOrderBeyondItsQueuesBound) {
  std::vector<int> seen;
  BatchWorker<Batch> worker(
      2, [&seen](Batch& batch) { seen.insert(seen.end(), batch.begin(), batch.end()); });
  Batch batch;
  for (int i = 0; i < 1000; ++i) {
    batch.assign({2 * i, 2 * i + 1});
    worker.Give(&batch);
  }
  worker.Finish();
  std::vector<int> expected(2000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST(BatchWorker, DrainsToTheLastBatchesGiven) {
  std::atomic<int> done = 0;
  std::promise<void> go_on;
  BatchWorker<int> worker(4, [&](int& batch) {
    if (batch == 2) go_on.get_future().wait();
    ++done;
  });
  for (int batch : {1, 2, 3}) worker.Give(&batch);
  worker.DrainTo(2);
  EXPECT_EQ(done, 1);
  go_on.set_value();
  worker.DrainTo(0);
  EXPECT_EQ(done, 3);
}

TEST(BatchWorker, WorksInAnotherThread) {
  std::thread::id id;
  BatchWorker<Batch> worker(2, [&id](Batch&) { id = std::this_thread::get_id(); });
  Batch batch = {1};
  worker.Give(&batch);
  worker.Finish();
  EXPECT_NE(id, std::thread::id());
  EXPECT_NE(id, std::this_thread::get_id());
}

TEST(BatchWorker, FinishesWithoutABatch) {
  BatchWorker<Batch> worker(1, [](Batch&) { FAIL(); });
  worker.Finish();
  worker.Finish();
}

TEST(BatchWorker, GivesBackTheMemoryOfBatchesThatAreDone) {
  BatchWorker<Batch> worker(1, [](Batch&) {});
  Batch batch(1000, 1);
  const int* memory = batch.data();
  worker.Give(&batch);
  // Some later call gets it: batches go round.
  for (int i = 0; i < 100000 && batch.data() != memory; ++i) {
    batch.assign(1000, 1);
    worker.Give(&batch);
  }
  EXPECT_EQ(batch.data(), memory);
}

TEST(BatchWorker, EndsWhileBatchesWait) {
  std::promise<void> begun;
  std::promise<void> go;
  int worked_on = 0;
  auto worker = std::make_unique<BatchWorker<Batch>>(2, [&](Batch&) {
    if (++worked_on > 1) return;
    begun.set_value();
    go.get_future().wait();
  });
  Batch batch = {1};
  worker->Give(&batch);
  begun.get_future().wait();
  worker->Give(&batch);
  worker->Give(&batch);
  std::thread ending([&worker] { worker.reset(); });
  go.set_value();
  ending.join();
  EXPECT_GE(worked_on, 1);
}

}  // namespace
}  // namespace ptarmigan::internal
