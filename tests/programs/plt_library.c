#include "plt_library.h"

#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION uint64_t LibraryNext(uint64_t value) { return value + 1; }

PROGRAM_FUNCTION void LibraryCallBack(void (*work)(uint64_t), uint64_t seed) {
  work(seed);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void LibraryWork(uint64_t seed) {
  sink = WorkUnit(seed + 4);
  KEEP_FRAME();
}
