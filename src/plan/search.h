/* search.h - every way to pay for a run, ranked.
 *
 * Machines x how many of them x GPUs of a run x precision x recomputing x micro-batch x market. For
 * each way the fastest cut of a step that fits in memory; then the expected bill (plan/risk.h) of the
 * ways that can still be among the best by what undisturbed work would cost. The batch of a step and
 * the number of steps are the run file's: a plan never changes what is learned. */
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H
#include "plan/estimate.h"
#include "plan/risk.h"
#include "plan/sharding.h"

enum { PLAN_ROWS_MAX = 64, PLAN_GPUS_MAX = 8192 };
#define PLAN_TOKENS_MAX 1e18 /* steps and nanoseconds of so many still have numbers */
#define PLAN_BATCH_MAX 1e12  /* samples or tokens of a step, whose divisors are found soon enough */

/* What is not left to the search. */
struct plan_given {
    u32                 markets; /* bit p: PRICE_p may be paid; 0: any */
    i64                 gpus;    /* of a run; 0: any */
    i64                 micro;   /* samples at once; 0: any */
    bool                has_precision, has_recompute, has_shard, has_copies;
    enum dtype          precision;
    enum recompute_kind recompute;
    struct sharding     sharding;
    f64                 save_every_s; /* of work, between saves; 0: as the hazard asks for */
    f64                 spot_mean_h;  /* that a spot machine lives; 0: as learned or assumed */
};

struct plan_limits {
    f64               deadline_s, budget_usd; /* NaN: none */
    i64               runs;                   /* the same job so many times, at least 1 */
    struct hazard     spot;                   /* of a spot machine; scale_s 0: the prior */
    struct plan_given given;
};

struct plan_bill { /* dollars, of all runs; `total` is the sum of the others, in this order */
    f64 useful;    /* steps and evaluation */
    f64 lost;      /* stalls of saves, work done again */
    f64 starting;  /* boot, load, compile, of every machine */
    f64 storage;   /* of checkpoints */
    f64 requests; /* that bring them to the object store; reading them back in its region is nearly free */
    f64 total;
};

struct plan_row {
    const struct device       *device;
    enum price                 price;
    i64                        machines, gpus; /* rented at a time; of one run */
    i64                        side_by_side;   /* runs */
    const struct plan_variant *variant;
    enum dtype                 precision;
    struct sharding            sharding; /* of weights, gradients and state over the run's GPUs */
    i64                        micro, accumulate;
    f64                        memory_bytes; /* of a GPU; as compile lays it out where `exact` */
    bool                       exact;
    struct estimate            step;
    f64                        work_s;   /* of a run, undisturbed */
    struct risk_outcome        outcome;  /* of a run */
    f64                        hours;    /* expected, of all runs */
    f64                        billed_h; /* of each machine, of all runs */
    f64                        in_time;  /* chance of meeting the deadline; NaN: there is none */
    struct plan_bill           bill;
};

enum plan_short {
    SHORT_NONE,
    SHORT_MEMORY,
    SHORT_TIME,
    SHORT_MONEY
}; /* each nearer than the last */

struct plan_result {
    struct plan_row rows[PLAN_ROWS_MAX];
    i64             count;      /* cheapest first */
    i64             considered; /* ways to cut a step that were priced */
    /* Why nothing or little is left: ways that were dropped because … */
    i64 too_large, too_late, too_dear, no_price;
    i64 unable;  /* machines that lack the precision or recomputation that was given */
    i64 never;   /* spot machines are taken away before they get anywhere */
    i64 too_few; /* ways with more GPUs than a step has samples */
    /* Where nothing is left: the way that comes nearest, and what it is short of. */
    struct plan_row   nearest;
    enum plan_short   nearest_short;
    struct plan_exact exact; /* compilations for the rows priced, each once */
};

/* `out` begins with zeros; a later search of the same variants in it compiles nothing twice. */

void plan_search(const struct plan_workload *job, const struct plan_variants *v,
                 const struct device *devices, i64 device_count, const struct catalogue *c,
                 const struct plan_limits *limits, struct plan_result *out, struct arena scratch);

/* Fills in memory and time of the row's own cut (device, variant, gpus, micro, accumulate are given);
 * gradient_part: of the gradients' bytes that are sent. False: too large for the memory. */
bool plan_cut(const struct plan_workload *job, const struct plan_variants *v, f64 gradient_part,
              struct plan_row *row);

/* One row again with something changed (device, price, gpus, gradient_part …): for remedies. False:
 * it does not fit. */
bool plan_price(const struct plan_workload *job, const struct plan_variants *v,
                const struct catalogue *c, const struct plan_limits *limits, f64 gradient_part,
                struct plan_row *row, struct arena scratch);

/* The row's machines by Uniform Progress: spot and, when behind, on-demand. */
struct risk_mixed plan_mixed(const struct plan_row *row, const struct plan_limits *limits,
                             struct arena scratch);

#endif
