/* frames [CPU_MS]: frames that are not the plain kind, a third of the units each:
 *   Variable  a frame whose size is known at run time only (the CFA hangs on the frame pointer even without -fno-omit)
 *   Large     a frame of 3 KiB, bigger than a guard page step would need
 *   Aligned   a frame realigned to 64 bytes (the CFA is an expression) */
#include <alloca.h>
#include <string.h>

#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION void Variable(uint64_t seed, size_t size_bytes) {
  volatile char* memory = alloca(size_bytes);
  memory[0] = (char)seed;
  sink = WorkUnit(seed + 1);
  memory[size_bytes - 1] = (char)sink;
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Large(uint64_t seed) {
  volatile char memory[3072];
  memory[0] = (char)seed;
  sink = WorkUnit(seed + 2);
  memory[sizeof(memory) - 1] = (char)sink;
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Aligned(uint64_t seed, size_t size_bytes) {
  /* Both at once make the compiler address the caller's frame through an expression. */
  volatile char line[64] __attribute__((aligned(64)));
  volatile char* memory = alloca(size_bytes);
  line[0] = (char)seed;
  memory[0] = line[0];
  sink = WorkUnit(seed + 3);
  line[1] = (char)sink;
  KEEP_FRAME();
}

PROGRAM_FUNCTION uint64_t Run(uint64_t cpu_ms, struct UnitCount* counts) {
  uint64_t random = UINT64_C(88172645463325252);
  uint64_t total = 0;
  const uint64_t end = ThreadCpuMilliseconds() + cpu_ms;
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 50; ++i, ++total) {
      const unsigned percent = NextPercent(&random);
      if (percent < 33) {
        Variable(total, 16 + percent * 8);
        ++counts[0].units;
      } else if (percent < 66) {
        Large(total);
        ++counts[1].units;
      } else {
        Aligned(total, 16 + percent * 8);
        ++counts[2].units;
      }
    }
  }
  return total;
}

int main(int argc, char** argv) {
  struct UnitCount counts[] = {{"Variable", 0}, {"Large", 0}, {"Aligned", 0}};
  const uint64_t total = Run(NumberArgument(argc, argv, 1, 1000), counts);
  PrintTruth("frames", counts, 3, total);
  return 0;
}
