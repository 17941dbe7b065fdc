/* fast.h - what the families of fast kernels share: which calls they take, and how a long range is
 * cut into blocks. Blocks follow from the shape; one block runs in the caller's thread. */
#ifndef BACKEND_CPU_FAST_FAST_H
#define BACKEND_CPU_FAST_FAST_H
#include "backend/cpu/kernel.h"

bool fast_all_f32(const struct call *c); /* every operand is f32 (i32 and u8: never) */
/* Operand `index` (inputs) is i32, all the others are f32. */
bool fast_ids_at(const struct call *c, i32 index);
/* The storage (f32, bf16 or f16) that all operands share which may be low: those that the op's row
 * in fast.c says, all of them where there is no row. DT_COUNT if they do not, or another operand is
 * not what it must be. */
enum dtype fast_storage(const struct call *c);

static inline i64 fast_div_up(i64 a, i64 b) { return (a + b - 1) / b; }

/* How many of `items` make a block when an item costs `each` and a block should cost about
 * `wanted`; at least 1. */
static inline i64 fast_items(i64 items, i64 each, i64 wanted)
{
    i64 n = wanted / (each > 0 ? each : 1);
    return n < 1 ? 1 : n > items ? (items > 0 ? items : 1) : n;
}

/* Blocks of work that is too small as a whole to wake other threads for: all in this one. */
static inline void fast_alone(i64 blocks, pool_fn *fn, void *context)
{
    for (i64 i = 0; i < blocks; i++) fn(context, i, 0);
}

#endif
