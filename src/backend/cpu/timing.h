/* timing.h - how long kernels take on this processor, tried out on memory of their own before
 * there is an arena: so that compile weighs what is real, and `frugal doctor` shows it. */
#ifndef BACKEND_CPU_TIMING_H
#define BACKEND_CPU_TIMING_H
#include "backend/cpu/kernel.h"
#include "ir/target.h"

enum { TIMINGS_MAX = 256 };

struct timings { /* zeroed at first; calls with the same op, attributes and types share one */
    u64 key[TIMINGS_MAX];
    f64 seconds[TIMINGS_MAX];
    i32 count;
};

/* The least of a few runs; operands without data are given some. 0: not known, because the system
 * refuses memory, or because the op is the user's own and may not like what we would feed it. */
f64 timing_of(struct timings *t, const struct call *c, const struct kernel *k);

/* Fills flops_s (of a square matrix product) and bandwidth_bytes_s (of a sum of two vectors that no
 * cache holds) of every type that has kernels of its own. */
void timing_rates(struct target *t, struct pool *pool);

#endif
