/* The library of plt.c: everything in it is reached through the procedure linkage table. */
#ifndef PTARMIGAN_TESTS_PROGRAMS_PLT_LIBRARY_H_
#define PTARMIGAN_TESTS_PROGRAMS_PLT_LIBRARY_H_

#include <stdint.h>

/* Two instructions: most of a loop over it is spent in the linkage table itself. */
uint64_t LibraryNext(uint64_t value);
/* Calls back `work` from the library. */
void LibraryCallBack(void (*work)(uint64_t), uint64_t seed);
/* Works in the library. */
void LibraryWork(uint64_t seed);

#endif /* PTARMIGAN_TESTS_PROGRAMS_PLT_LIBRARY_H_ */
