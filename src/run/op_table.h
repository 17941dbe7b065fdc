/* op_table.h - what the instructions of programs took, as a table: rows of `frugal profile` and of
 * bench_profile. FLOPs and bytes are the op table's; the roof is the time these would take at the target's
 * rates, whichever binds. */
#ifndef RUN_OP_TABLE_H
#define RUN_OP_TABLE_H
#include "ir/program.h"

struct op_row {
    struct str op; /* "matmul+add+relu" */
    struct str
        what; /* by shape: operands and results, "f32[32,784] … -> f32[32,128]"; by kernel: its name;
                           each: kernel, node, operands and results */
    i64         calls;
    f64         seconds, roof_s; /* of all calls; roof_s 0: the target's rates are not known */
    struct cost cost;            /* likewise */
    i64         memory_bytes;    /* of one call's results and workspace, the largest */
    f64         key;             /* of the last sort */
};

enum op_grouping { OPS_BY_SHAPE, OPS_BY_KERNEL, OPS_EACH };

struct op_table {
    struct op_row *rows;
    i64            count;
};

/* Room for that many rows: at most one an instruction. */
struct op_table op_table_new(struct arena *perm, i64 rows_max);
/* seconds[i] is what `calls` runs of instruction i took together. Texts go to perm. */
void op_table_add(struct op_table *t, const struct program *p, const struct target *target,
                  const f64 *seconds, i64 calls, enum op_grouping by, struct arena *perm);

enum op_sort {
    OPS_TIME,
    OPS_CALLS,
    OPS_FLOPS,
    OPS_BYTES,
    OPS_MEMORY,
    OPS_ROOF
};                                        /* roof: lowest first */
enum op_sort op_sort_of(struct str name); /* "time", "calls", …; anything else is time */
void         op_table_sort(struct op_table *t, enum op_sort by);
f64          op_roof_share(
             const struct op_row *r); /* roof over time; NaN: not known, or no time of its own */

#endif
