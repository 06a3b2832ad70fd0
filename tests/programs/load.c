/* load [CPU_MS [PLUGIN]]: main -> Run -> PluginEntry -> PluginWork -> WorkUnit, in an object that is opened, used,
 * closed and opened again (perhaps elsewhere); and Run -> Before -> WorkUnit while it is closed. Half each.
 * PLUGIN: default plugin.so beside the program. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "work.h"

static volatile uint64_t sink;

PROGRAM_FUNCTION void Before(uint64_t seed) {
  sink = WorkUnit(seed + 1);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Run(uint64_t cpu_ms, const char* plugin, struct UnitCount* counts) {
  const uint64_t end = ThreadCpuMilliseconds() + cpu_ms;
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 1000; ++i) Before((uint64_t)i);
    counts[1].units += 1000;
    void* object = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      exit(1);
    }
    void (*entry)(uint64_t) = NULL;
    *(void**)&entry = dlsym(object, "PluginEntry");
    if (entry == NULL) exit(1);
    for (int i = 0; i < 1000; ++i) entry((uint64_t)i);
    counts[0].units += 1000;
    dlclose(object);
  }
  KEEP_FRAME();
}

int main(int argc, char** argv) {
  char plugin[4096] = "";
  if (argc > 2) {
    snprintf(plugin, sizeof(plugin), "%s", argv[2]);
  } else {
    const ssize_t size = readlink("/proc/self/exe", plugin, sizeof(plugin) - 16);
    char* slash = size > 0 ? strrchr(plugin, '/') : NULL;
    if (slash == NULL) return 1;
    memcpy(slash, "/plugin.so", sizeof("/plugin.so"));
  }
  struct UnitCount counts[] = {{"PluginWork", 0}, {"Before", 0}};
  Run(NumberArgument(argc, argv, 1, 1000), plugin, counts);
  PrintTruth("load", counts, 2, counts[0].units + counts[1].units);
  return 0;
}
