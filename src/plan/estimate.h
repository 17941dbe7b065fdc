/* estimate.h - what a step takes on a machine: time by op and by cause, memory, the part of the peak
 * that is used, and what several GPUs lose by talking. */
#ifndef PLAN_ESTIMATE_H
#define PLAN_ESTIMATE_H
#include "plan/device.h"
#include "plan/work.h"

struct step_shape {    /* how a step is cut up */
    i64 micro;         /* samples at once on a GPU */
    i64 accumulate;    /* micro-batches of a GPU */
    i64 gpus;          /* that hold copies and add their gradients */
    f64 gradient_part; /* of the gradients' bytes that are sent: 1, or 0.5 as bf16 */
    f64 load_sample_s; /* that a core needs to load a sample */
    f64 model_flops;   /* of a sample, forward and backward, nothing twice: what MFU counts */
};

struct estimate { /* seconds of a step */
    f64 rates_s; /* the next three together by the rates alone, before what was learned from runs */
    f64 forward_s, backward_s, update_s;
    f64 begin_s, flops_s, bytes_s; /* the same sum by cause */
    struct rate_time update;       /* of update_s, which sharding divides */
    f64              comm_s;       /* all of it */
    f64              exposed_s;    /* what it adds to the step: what no computing hides */
    f64              load_s;       /* waiting for data */
    f64              step_s;
    f64  peak_flops_s; /* of a GPU by its data sheet, in the precision at hand; NaN: not known */
    f64  mfu;          /* of it; NaN: that is not known */
    f64  efficiency;   /* against as many GPUs that need not communicate */
    bool guessed;      /* a part worth telling is of ops never measured on such a machine */
};

struct estimate estimate_step(const struct device *d, const struct step_work *w,
                              enum dtype precision, const struct step_shape *shape);

/* Of communication beside so much computing, what it adds to a step: what is not hidden, `last_s` of it at least,
 * and what the kernels beside it lose to it. On processors MPI makes progress only while it is waited for: nothing is
 * hidden. */
f64 estimate_exposed_s(const struct device *d, f64 comm_s, f64 compute_s, f64 last_s);

/* Loading, the whole step and what follows from it, where a part has changed. */
void estimate_sum(const struct device *d, const struct step_shape *shape, struct estimate *e);

/* The ops of a step by their seconds, longest first; update_part: of the update, that one rank computes. */
struct op_time {
    i32 op;
    f64 seconds;
};
i64 estimate_ops(const struct device *d, const struct step_work *w, const struct step_shape *shape,
                 f64 update_part, struct op_time out[OP_COUNT]);

const char *estimate_bound(const struct estimate *e); /* what most of the step is spent on */

#endif
