/* rates.h - how much of a machine's peak each op reaches.
 *
 * A kernel's time is a line: what it takes to begin, its FLOPs at a part of the machine's rate, its
 * bytes at a part of its bandwidth. (The larger of the last two would be the roofline; measured kernels lie
 * closer to the sum, because they seldom overlap all of both.) The parts are measured on one machine
 * and carried to others of its kind, which differ in their peaks. */
#ifndef PLAN_RATES_H
#define PLAN_RATES_H
#include "base/text.h"
#include "ir/target.h"

struct rate {
    f64 begin_s;      /* of an instruction */
    f64 flops, bytes; /* parts of the peak; 0: takes no time */
};

enum rate_width { RATE_F32, RATE_LOW, RATE_WIDTHS }; /* of the first operand: 4 bytes or 2 */

struct rates {
    struct rate of[OP_COUNT][RATE_WIDTHS];
    bool        known[OP_COUNT][RATE_WIDTHS];
    struct rate
        peak[RATE_WIDTHS]; /* FLOPs and bytes a second that they are parts of; 0: the target's */
};

/* One instruction as it was measured. */
struct rate_sample {
    i32         op;
    enum dtype  dtype;
    struct cost cost;
    f64         seconds;
};

/* Least squares of relative errors, none of the three negative; ops without a sample stay unknown. */
void rates_fit(struct rates *r, const struct target *t, const struct rate_sample *samples,
               i64 count);

struct rate_time { /* of an instruction: what it takes to begin, to compute, to move bytes */
    f64 begin_s, flops_s, bytes_s;
};

/* `known` (or NULL) is set to false where nobody has measured such an op and a careful guess stands for it. */
struct rate_time rates_time(const struct rates *r, const struct target *t, i32 op, enum dtype dtype,
                            struct cost cost, bool *known);

/* Measured on one H200 and on two Zen 4 cores: rates.def. */
const struct rates *rates_of_gpus(void);
const struct rates *rates_of_cpus(void);

/* As a text that can be kept, a line an op and width, and back. */
struct str  rates_print(const struct rates *r, struct arena *perm);
enum status rates_parse(struct rates *r, struct str path, struct str text, struct err *err);

#endif
