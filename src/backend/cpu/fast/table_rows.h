/* table_rows.h - an optimiser's way through the rows that a step reads, for tables of f32 (table_rows.c) and of bf16
 * (low_rows_impl.h). */
#ifndef FAST_TABLE_ROWS_H
#define FAST_TABLE_ROWS_H
#include "backend/cpu/fast/fast.h"
#include "base/rng.h"

struct sweep {
    void      *table;
    f32       *state[2];
    const f32 *rows;
    const i32 *index;
    i64        count, width, table_rows, rows_in_block;
    f32        lr, beta1, beta2, factor, eps; /* lr: of this step, corrected */
    /* The numbers p of row `at` of the table, by row `from` of the gradient. */
    void (*row)(const struct sweep *s, i64 from, i64 at, f32 *p);
    /* The same for the table itself, which is of bf16; NULL: it is of f32. */
    void (*low_row)(const struct sweep *s, i64 from, i64 at);
    struct rng_key key; /* of a table of bf16 */
    u64            philox_key;
};

void table_sweep(const struct call *c, void (*low_row)(const struct sweep *, i64, i64));

#endif
