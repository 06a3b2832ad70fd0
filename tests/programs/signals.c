/* signals [CPU_MS]: main -> Run -> Interrupted -> WorkUnit, where a timer signal interrupts at any instruction:
 * ... -> <signal frame> -> OnSignal -> HandlerWork -> WorkUnit. A quarter of the raised signals is synchronous
 * (raise), so that the frame below is libc's. */
#include <signal.h>
#include <string.h>

#include "work.h"

static volatile uint64_t sink;
static volatile uint64_t handler_units;
static timer_t timer;
static uint64_t interval_random = UINT64_C(362436069);

/* The next signal in 1 to 3 ms: no rhythm that could beat against a sampling clock. */
static void ArmTimer(void) {
  const struct itimerspec once = {{0, 0},
                                  {0, 1000000 + 20000 * (long)NextPercent(&interval_random)}};
  timer_settime(timer, 0, &once, NULL);
}

PROGRAM_FUNCTION void HandlerWork(uint64_t seed) {
  sink = WorkUnit(seed + 1);
  KEEP_FRAME();
}

PROGRAM_FUNCTION void OnSignal(int number) {
  for (int i = 0; i < 60; ++i) {
    HandlerWork((uint64_t)number);
    handler_units = handler_units + 1;
  }
  if (number == SIGALRM) ArmTimer();
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
  sigaddset(&action.sa_mask, SIGALRM);
  sigaddset(&action.sa_mask, SIGUSR1);
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);
  /* By default: SIGALRM. */
  if (timer_create(CLOCK_MONOTONIC, NULL, &timer) != 0) return 1;
  ArmTimer();
  const uint64_t units = Run(NumberArgument(argc, argv, 1, 1000));
  timer_delete(timer);
  struct UnitCount counts[] = {{"HandlerWork", handler_units}, {"Interrupted", units}};
  PrintTruth("signals", counts, 2, handler_units + units);
  return 0;
}
