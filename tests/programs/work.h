/* What every test program is made of: equal units of work, a fixed random order, and the truth as a JSON line.
 *
 * A unit is a chain of dependent multiplications: its cost depends neither on memory nor on the alignment of the
 * loop, so the share of units that ran below a function is the share of its CPU time. Programs count units and
 * print the counts; a profile of them must show the same shares.
 */
#ifndef PTARMIGAN_TESTS_PROGRAMS_WORK_H_
#define PTARMIGAN_TESTS_PROGRAMS_WORK_H_

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A function that stands in the binary under its own name and is really called. */
#if defined(__clang__)
#define PROGRAM_FUNCTION __attribute__((noinline))
#else
#define PROGRAM_FUNCTION __attribute__((noinline, noclone))
#endif
/* After the last call of a function: keeps that call from becoming a jump, which would drop the caller's frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

/* Each unit takes about 10 us on current machines. */
#define WORK_UNIT_STEPS 10000

static PROGRAM_FUNCTION __attribute__((unused)) uint64_t WorkUnit(uint64_t state) {
#ifdef PROGRAM_LEAF_FRAMES
  /* Compilers leave the frame out of a function that calls nothing, whatever the options say. */
  __asm__ volatile("" : : "r"(__builtin_frame_address(0)));
#endif
  for (int i = 0; i < WORK_UNIT_STEPS; ++i) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    __asm__ volatile("" : "+r"(state)); /* every step is executed */
  }
  return state;
}

static inline uint64_t ThreadCpuMilliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The same numbers in every run; no pattern that could beat against a sampling clock. */
static inline unsigned NextPercent(uint64_t* random) {
  *random ^= *random << 13;
  *random ^= *random >> 7;
  *random ^= *random << 17;
  return (unsigned)((*random >> 33) % 100);
}

static inline uint64_t NumberArgument(int argc, char** argv, int index, uint64_t otherwise) {
  return argc > index ? strtoull(argv[index], NULL, 10) : otherwise;
}

struct UnitCount {
  const char* function;
  uint64_t units;
};

/* {"program":"busy","units":{"Alpha":600,"Beta":300},"total":900} */
static inline void PrintTruth(const char* program, const struct UnitCount* counts, int functions,
                              uint64_t total) {
  printf("{\"program\":\"%s\",\"units\":{", program);
  for (int i = 0; i < functions; ++i) {
    printf("%s\"%s\":%" PRIu64, i > 0 ? "," : "", counts[i].function, counts[i].units);
  }
  printf("},\"total\":%" PRIu64 "}\n", total);
  fflush(stdout);
}

#endif /* PTARMIGAN_TESTS_PROGRAMS_WORK_H_ */
