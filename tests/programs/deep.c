/* deep [SECONDS [DEPTH]]: many different deep stacks, for recordings of realistic size. A tree of ten functions that call
 * each other in a random order down to DEPTH (default 100), working at every level. Runs for SECONDS of wall time. */
#include "work.h"

static volatile uint64_t sink;
static uint64_t random_state = UINT64_C(88172645463325252);

static void Descend(uint64_t depth);

#define LEVEL(name, salt)                      \
  PROGRAM_FUNCTION void name(uint64_t depth) { \
    sink = sink * (2 * (salt) + 1);            \
    Descend(depth);                            \
    KEEP_FRAME();                              \
  }
LEVEL(LevelA, 1)
LEVEL(LevelB, 2)
LEVEL(LevelC, 3)
LEVEL(LevelD, 4)
LEVEL(LevelE, 5)
LEVEL(LevelF, 6)
LEVEL(LevelG, 7)
LEVEL(LevelH, 8)
LEVEL(LevelI, 9)
LEVEL(LevelJ, 10)

PROGRAM_FUNCTION static void Descend(uint64_t depth) {
  static void (*const kLevels[])(uint64_t) = {LevelA, LevelB, LevelC, LevelD, LevelE,
                                              LevelF, LevelG, LevelH, LevelI, LevelJ};
  if (depth == 0) {
    for (int i = 0; i < 20; ++i) sink = WorkUnit(sink);
  } else {
    kLevels[NextPercent(&random_state) / 10](depth - 1);
  }
  KEEP_FRAME();
}

int main(int argc, char** argv) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const time_t end = now.tv_sec + (time_t)NumberArgument(argc, argv, 1, 10);
  /* Two frames a level. */
  const uint64_t levels = NumberArgument(argc, argv, 2, 100) / 2;
  uint64_t descents = 0;
  for (; now.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &now), ++descents) Descend(levels);
  struct UnitCount counts[] = {{"Descend", descents}};
  PrintTruth("deep", counts, 1, descents);
  return 0;
}
