// threads [CPU_MS [THREADS]]: each of the threads runs threads::Serve -> threads::Parse, threads::Rank or
// threads::Render (50 : 30 : 20) -> WorkUnit for CPU_MS of its own CPU time; main only waits.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "work.h"

namespace threads {
namespace {

std::atomic<uint64_t> sink;

}  // namespace

PROGRAM_FUNCTION void Parse(uint64_t seed) {
  sink.store(WorkUnit(seed + 1), std::memory_order_relaxed);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Rank(uint64_t seed) {
  sink.store(WorkUnit(seed + 2), std::memory_order_relaxed);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Render(uint64_t seed) {
  sink.store(WorkUnit(seed + 3), std::memory_order_relaxed);
  KEEP_FRAME();
}

struct Units {
  uint64_t parse = 0;
  uint64_t rank = 0;
  uint64_t render = 0;
};

PROGRAM_FUNCTION void Serve(uint64_t cpu_ms, uint64_t seed, Units* units) {
  uint64_t random = seed;
  const uint64_t end = ThreadCpuMilliseconds() + cpu_ms;
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 50; ++i) {
      const unsigned percent = NextPercent(&random);
      if (percent < 50) {
        Parse(random);
        ++units->parse;
      } else if (percent < 80) {
        Rank(random);
        ++units->rank;
      } else {
        Render(random);
        ++units->render;
      }
    }
  }
  KEEP_FRAME();
}

}  // namespace threads

int main(int argc, char** argv) {
  const uint64_t cpu_ms = NumberArgument(argc, argv, 1, 1000);
  const uint64_t count = NumberArgument(argc, argv, 2, 4);
  std::vector<threads::Units> units(count);
  std::vector<std::thread> running;
  for (uint64_t i = 0; i < count; ++i) {
    running.emplace_back([cpu_ms, i, &units] {
      threads::Serve(cpu_ms, 88172645463325252U + i, &units[i]);
      KEEP_FRAME();
    });
  }
  for (std::thread& thread : running) thread.join();
  UnitCount counts[] = {{"Parse", 0}, {"Rank", 0}, {"Render", 0}};
  for (const threads::Units& of_thread : units) {
    counts[0].units += of_thread.parse;
    counts[1].units += of_thread.rank;
    counts[2].units += of_thread.render;
  }
  PrintTruth("threads", counts, 3, counts[0].units + counts[1].units + counts[2].units);
  return 0;
}
