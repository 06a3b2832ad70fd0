/* plt [CPU_MS]: main -> Run -> LibraryWork -> WorkUnit (half of the units), -> LibraryCallBack -> CalledBack ->
 * WorkUnit (the other half), and Run -> Stubs -> LibraryNext, where about half of the time passes in the linkage
 * table: not counted in units, so every share is of the units alone. */
#include "plt_library.h"
#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION void CalledBack(uint64_t seed) {
  sink = WorkUnit(seed + 1);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Stubs(uint64_t seed) {
  for (int i = 0; i < 4000; ++i) seed = LibraryNext(seed);
  sink = seed;
  KEEP_FRAME();
}

PROGRAM_FUNCTION uint64_t Run(uint64_t cpu_ms, struct UnitCount* counts) {
  uint64_t random = UINT64_C(88172645463325252);
  uint64_t total = 0;
  const uint64_t end = ThreadCpuMilliseconds() + cpu_ms;
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 50; ++i, ++total) {
      if (NextPercent(&random) < 50) {
        LibraryWork(total);
        ++counts[0].units;
      } else {
        LibraryCallBack(CalledBack, total);
        ++counts[1].units;
      }
      Stubs(total);
    }
  }
  return total;
}

int main(int argc, char** argv) {
  struct UnitCount counts[] = {{"LibraryWork", 0}, {"CalledBack", 0}};
  const uint64_t total = Run(NumberArgument(argc, argv, 1, 1000), counts);
  PrintTruth("plt", counts, 2, total);
  return 0;
}
