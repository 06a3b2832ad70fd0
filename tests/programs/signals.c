/* signals [CPU_MS]: main -> Run -> Interrupted -> WorkUnit, where a timer signal interrupts at any instruction:
 * ... -> <signal frame> -> OnSignal -> HandlerWork -> WorkUnit. A quarter of the raised signals is synchronous
 * (raise), so that the frame below is libc's. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "work.h"

static volatile uint64_t sink;
static volatile uint64_t handler_units;

PROGRAM_FUNCTION void HandlerWork(uint64_t seed) {
  sink = WorkUnit(seed + 1);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void OnSignal(int number) {
  for (int i = 0; i < 60; ++i) {
    HandlerWork((uint64_t)number);
    handler_units = handler_units + 1;
  }
  KEEP_FRAME();
}

PROGRAM_FUNCTION void Interrupted(uint64_t seed) {
  sink = WorkUnit(seed);
  KEEP_FRAME();
}

PROGRAM_FUNCTION uint64_t Run(uint64_t cpu_ms) {
  uint64_t units = 0;
  const uint64_t end = ThreadCpuMilliseconds() + cpu_ms;
  while (ThreadCpuMilliseconds() < end) {
    for (int i = 0; i < 200; ++i, ++units) Interrupted(units);
    raise(SIGUSR1);
  }
  return units;
}

int main(int argc, char** argv) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);
  const struct itimerval often = {{0, 1700}, {0, 1700}};
  setitimer(ITIMER_REAL, &often, NULL);
  const uint64_t units = Run(NumberArgument(argc, argv, 1, 1000));
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  struct UnitCount counts[] = {{"HandlerWork", handler_units}, {"Interrupted", units}};
  PrintTruth("signals", counts, 2, handler_units + units);
  return 0;
}
