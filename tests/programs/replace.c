/* replace CPU_MS PROGRAM [ARGUMENT...]: works in BeforeExec for CPU_MS, prints its truth, then becomes PROGRAM. */
#include <unistd.h>

#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION void BeforeExec(uint64_t seed) {
  sink = WorkUnit(seed + 1);
  KEEP_FRAME();
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: replace CPU_MS PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  uint64_t units = 0;
  const uint64_t end = ThreadCpuMilliseconds() + NumberArgument(argc, argv, 1, 1000);
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 50; ++i, ++units) BeforeExec(units);
  }
  struct UnitCount counts[] = {{"BeforeExec", units}};
  PrintTruth("replace", counts, 1, units);
  execv(argv[2], argv + 2);
  perror(argv[2]);
  return 1;
}
