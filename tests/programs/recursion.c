/* recursion [CPU_MS [DEPTH]]: main -> Run -> Descend x DEPTH -> Bottom -> WorkUnit, and Run -> Shallow -> WorkUnit;
 * half of the units each. */
#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION void Bottom(uint64_t seed) {
  sink = WorkUnit(seed);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Shallow(uint64_t seed) {
  sink = WorkUnit(seed + 1);
  KEEP_FRAME();
}

PROGRAM_FUNCTION uint64_t Descend(uint64_t depth, uint64_t seed) {
  if (depth <= 1) {
    Bottom(seed);
    KEEP_FRAME();
    return 1;
  }
  const uint64_t below = Descend(depth - 1, seed);
  KEEP_FRAME();
  return below + 1;
}

PROGRAM_FUNCTION uint64_t Run(uint64_t cpu_ms, uint64_t depth, struct UnitCount* counts) {
  uint64_t random = UINT64_C(88172645463325252);
  uint64_t total = 0;
  const uint64_t end = ThreadCpuMilliseconds() + cpu_ms;
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 50; ++i, ++total) {
      if (NextPercent(&random) < 50) {
        if (Descend(depth, total) != depth) abort();
        ++counts[0].units;
      } else {
        Shallow(total);
        ++counts[1].units;
      }
    }
  }
  return total;
}

int main(int argc, char** argv) {
  const uint64_t depth = NumberArgument(argc, argv, 2, 60);
  struct UnitCount counts[] = {{"Bottom", 0}, {"Shallow", 0}};
  const uint64_t total = Run(NumberArgument(argc, argv, 1, 1000), depth > 0 ? depth : 1, counts);
  PrintTruth("recursion", counts, 2, total);
  return 0;
}
