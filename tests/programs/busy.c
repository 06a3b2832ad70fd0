/* busy [CPU_MS]: main -> Run -> Alpha, Beta or Gamma (60 : 30 : 10) -> WorkUnit. */
#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION void Alpha(uint64_t seed) {
  sink = WorkUnit(seed + 1);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Beta(uint64_t seed) {
  sink = WorkUnit(seed + 2);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Gamma(uint64_t seed) {
  sink = WorkUnit(seed + 3);
  KEEP_FRAME();
}

PROGRAM_FUNCTION uint64_t Run(uint64_t cpu_ms, struct UnitCount* counts) {
  uint64_t random = UINT64_C(88172645463325252);
  uint64_t total = 0;
  const uint64_t end = ThreadCpuMilliseconds() + cpu_ms;
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 50; ++i, ++total) {
      const unsigned percent = NextPercent(&random);
      if (percent < 60) {
        Alpha(total);
        ++counts[0].units;
      } else if (percent < 90) {
        Beta(total);
        ++counts[1].units;
      } else {
        Gamma(total);
        ++counts[2].units;
      }
    }
  }
  return total;
}

int main(int argc, char** argv) {
  struct UnitCount counts[] = {{"Alpha", 0}, {"Beta", 0}, {"Gamma", 0}};
  const uint64_t total = Run(NumberArgument(argc, argv, 1, 1000), counts);
  PrintTruth("busy", counts, 3, total);
  return 0;
}
