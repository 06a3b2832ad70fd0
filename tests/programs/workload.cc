// workload [SECONDS [THREADS]]: what tools/quickstart records. A small search service made of equal units of work:
//
//   Serve -> ParseQuery                                    50 %
//         -> RankResults -> MergeSort (recursive, 6 deep)  30 %
//         -> RenderPage                                    20 %
//
// Each thread works for SECONDS of wall time; at the end the shares that really ran are printed.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "work.h"

namespace workload {
namespace {

std::atomic<uint64_t> sink;

}  // namespace

PROGRAM_FUNCTION void ParseQuery(uint64_t seed) {
  sink.store(WorkUnit(seed + 1), std::memory_order_relaxed);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void MergeSort(uint64_t seed, int depth) {
  if (depth > 1) {
    MergeSort(seed, depth - 1);
  } else {
    sink.store(WorkUnit(seed + 2), std::memory_order_relaxed);
  }
  KEEP_FRAME();
}

PROGRAM_FUNCTION void RankResults(uint64_t seed) {
  constexpr int kDepth = 6;
  MergeSort(seed, kDepth);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void RenderPage(uint64_t seed) {
  sink.store(WorkUnit(seed + 3), std::memory_order_relaxed);
  KEEP_FRAME();
}

struct Units {
  uint64_t parse = 0;
  uint64_t rank = 0;
  uint64_t render = 0;
};

PROGRAM_FUNCTION Units Serve(std::chrono::steady_clock::time_point end, uint64_t seed) {
  Units units;
  uint64_t random = seed;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 50; ++i) {
      const unsigned percent = NextPercent(&random);
      if (percent < 50) {
        ParseQuery(random);
        ++units.parse;
      } else if (percent < 80) {
        RankResults(random);
        ++units.rank;
      } else {
        RenderPage(random);
        ++units.render;
      }
    }
  }
  return units;
}

}  // namespace workload

int main(int argc, char** argv) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(NumberArgument(argc, argv, 1, 5));
  const uint64_t count = NumberArgument(argc, argv, 2, 4);
  std::vector<workload::Units> units(count);
  std::vector<std::thread> running;
  for (uint64_t i = 0; i < count; ++i) {
    running.emplace_back(
        [end, i, &units] { units[i] = workload::Serve(end, 88172645463325252U + i); });
  }
  for (std::thread& thread : running) thread.join();
  workload::Units sum;
  for (const workload::Units& of_thread : units) {
    sum.parse += of_thread.parse;
    sum.rank += of_thread.rank;
    sum.render += of_thread.render;
  }
  const auto total = static_cast<double>(sum.parse + sum.rank + sum.render);
  const auto percent = [total](uint64_t part) { return 100.0 * static_cast<double>(part) / total; };
  std::printf(
      "workload: what really ran: ParseQuery %.1f %%, RankResults %.1f %%, RenderPage %.1f %%\n",
      percent(sum.parse), percent(sum.rank), percent(sum.render));
  return 0;
}
