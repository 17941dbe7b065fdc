/* level.h - a test at one level of vector instructions.
 *
 * CHECK_LEVEL=avx2 in the environment has the harness run a whole program at that level, or skip it
 * where this processor, or the caller's FRUGAL_VECTORS, has less. Inside a test, level_set caps what
 * follows and level_restore gives the caller's cap back. */
#ifndef LEVEL_H
#define LEVEL_H
#include "backend/cpu/kernel.h"

const char *level_begin(void); /* why the program cannot run; NULL: it can */
void        level_set(enum isa cap);
void        level_restore(void);

#endif
