/* children [CPU_MS [CHILDREN]]: main -> ChildMain -> ChildWork -> WorkUnit in each forked child, for CPU_MS each, while
 * main -> ParentWork -> WorkUnit runs for CPU_MS in the parent. */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION void ChildWork(uint64_t seed) {
  sink = WorkUnit(seed + 1);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void ParentWork(uint64_t seed) {
  sink = WorkUnit(seed + 2);
  KEEP_FRAME();
}

PROGRAM_FUNCTION uint64_t Repeat(uint64_t cpu_ms, void (*work)(uint64_t)) {
  uint64_t units = 0;
  const uint64_t end = ThreadCpuMilliseconds() + cpu_ms;
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 50; ++i, ++units) work(units);
  }
  KEEP_FRAME();
  return units;
}

PROGRAM_FUNCTION void ChildMain(uint64_t cpu_ms, int report) {
  const uint64_t units = Repeat(cpu_ms, ChildWork);
  if (write(report, &units, sizeof(units)) != (ssize_t)sizeof(units)) _exit(1);
  KEEP_FRAME();
}

int main(int argc, char** argv) {
  const uint64_t cpu_ms = NumberArgument(argc, argv, 1, 500);
  const uint64_t children = NumberArgument(argc, argv, 2, 3);
  int ends[2];
  if (pipe(ends) != 0) return 1;
  for (uint64_t i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      ChildMain(cpu_ms, ends[1]);
      _exit(0);
    }
  }
  struct UnitCount counts[] = {{"ChildWork", 0}, {"ParentWork", Repeat(cpu_ms, ParentWork)}};
  for (uint64_t i = 0; i < children; ++i) {
    uint64_t units = 0;
    if (read(ends[0], &units, sizeof(units)) != (ssize_t)sizeof(units)) return 1;
    counts[0].units += units;
  }
  while (wait(NULL) > 0) {
  }
  PrintTruth("children", counts, 2, counts[0].units + counts[1].units);
  return 0;
}
