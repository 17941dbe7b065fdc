/* tuner.h - how many threads a stage gets, and how far ahead batches are made: a policy without a clock.
 *
 * It is told what was measured since it was last asked, and answers what to do from now on. From the
 * seconds of work and of waiting that a sample takes in each stage follows how many threads hold up the
 * rate that the caller could take, within the cores and the memory allowed. That is tried, and judged by
 * the rate that comes of it: what does not help is not repeated, what harms is taken back. Then it holds
 * still until the work changes. */
#ifndef DATA_TUNER_H
#define DATA_TUNER_H
#include "data/data.h"

struct tuner_choice {
    i64 workers[STAGE_COUNT];
    i64 queue[STAGE_COUNT]; /* before the stage; the first has none */
    i64 prefetch;           /* batches */
};

struct tuner_limits {
    i64        stages; /* of `stage`, in their order */
    enum stage stage[STAGE_COUNT];
    i64        workers[STAGE_COUNT]; /* fixed; 0: to be found */
    i64        queue, prefetch;      /* likewise */
    i64        workers_max, prefetch_max;
    f64        cpu;        /* cores */
    bool       cpu_strict; /* the machine has more, which are not for us */
    i64        memory_bytes;
    i64        batch, batch_bytes; /* samples; of one batch */
};

struct tuner_stage {
    i64 samples; /* done */
    f64 busy_s;  /* at work, or waiting for a disk or a network; not for a core */
    f64 cpu_s;   /* at work */
};

/* What was measured. */
struct tuner_seen {
    f64                seconds;      /* by the clock */
    f64                wait_s;       /* the caller waited for a batch */
    f64                away_s;       /* the caller was busy between two batches, of the `taken` */
    i64                taken;        /* samples */
    i64                sample_bytes; /* memory of one on its way */
    struct tuner_stage stage[STAGE_COUNT];
};

enum tuner_state { TUNER_LOOKS, TUNER_SETTLES, TUNER_JUDGES, TUNER_HOLDS };

struct tuner {
    struct tuner_limits limits;
    struct tuner_choice now, before;
    enum tuner_state    state;
    f64                 cpu_s[STAGE_COUNT], io_s[STAGE_COUNT]; /* of a sample */
    f64                 rate_before, wait_before;              /* samples/s; share of the time */
    f64                 held_s, hold_s;                      /* it holds still; how long at least */
    f64                 held_wait, held_busy_s[STAGE_COUNT]; /* as it was when that began */
    i64                 changed; /* times in a row that it was another */
};

/* The fixed numbers; one thread a stage and one batch ahead where they are to be found. */
void tuner_start(struct tuner *t, const struct tuner_limits *limits);
/* Is that enough to go by? */
bool tuner_enough(const struct tuner *t, const struct tuner_seen *seen);
/* Changes t->now; true: `line` says what came of the last change. */
bool tuner_step(struct tuner *t, const struct tuner_seen *seen, char line[LOADER_LINE_MAX]);

#endif
