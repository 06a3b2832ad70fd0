/* The object that load.c opens while it runs. */
#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION void PluginWork(uint64_t seed) {
  sink = WorkUnit(seed + 5);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void PluginEntry(uint64_t seed) {
  PluginWork(seed);
  KEEP_FRAME();
}
