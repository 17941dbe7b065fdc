/* then.h - the maps of a chain, for kernels that have them applied to a part of their result as soon
 * as it is complete and still in the cache. Such a kernel writes to then_target and hands each part
 * over once.
 *
 * Parts are blocks of tens of kilobytes, whole rows where possible. Single tiles of a product were
 * tried and lose: their short pieces of an operand come too late, and asking for them early costs
 * the product more than the pass that is saved (bench/results/fuse.md). */
#ifndef BACKEND_CPU_FAST_THEN_H
#define BACKEND_CPU_FAST_THEN_H
#include "backend/cpu/fast/simd.h"
#include "backend/cpu/kernel.h"

/* A part of a result: `rows` rows of `width` numbers, `stride` apart, from number `begin` on. */
struct then_part {
    i64 begin, width, rows, stride;
};

/* map_impl.h; nothing happens where the call has no chain. To a part in this thread, to all by the
 * pool. */
void ISA_FN(then_apply)(const struct call *c, struct then_part p);
void ISA_FN(then_all)(const struct call *c);

#endif
