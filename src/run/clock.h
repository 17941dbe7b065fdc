/* clock.h - where a run's time goes: every nanosecond from the start of the process (and of its machine, where
 * that is known) lies in exactly one part.
 *
 *     boot | start …  | input copy compute update … evaluation checkpoint … | end
 *            process    steps: forward, backward and update told apart where they are profiled
 *
 * Whoever does the work says what begins, with one call and one reading of the monotonic clock; everybody else
 * asks for a view: time by part (split), by term of the ledger, waiting, pace of the steps. The bill (bill.h) rests
 * on the same figures. No other file of the rooms train, job, run, supervise and cli reads the monotonic clock: what
 * is no part of a run's time (a time limit, the age of a file) is asked for below.
 *
 * Exact: the sum, always; each part as the host sees it. On a device that works asynchronously `launch` is the
 * host asking for work and `compute` the host waiting for results: forward, backward and update together, and
 * input and copy only as far as the device did not work meanwhile. Where it works inside the call (a CPU) `launch`
 * is 0, `compute` is forward and backward, and `update` stands alone. In profiled steps forward, backward and
 * update are told apart on both, from the time of each instruction; `compute` is then 0, and the rest of the call
 * is `launch`.
 *
 * One thread enters, any may read: the lock is held for a few loads and stores. */
#ifndef RUN_CLOCK_H
#define RUN_CLOCK_H
#include "base/arena.h"
#include "base/os.h"
#include "run/quantiles.h"

/* name, group of the sum billed = useful + redone + stalled + reloading + booting + idle, help */
#define TERMS(X)                                                                                   \
    X(compute, "useful", "steps that count")                                                       \
    X(evaluation, "useful", "evaluation")                                                          \
    X(redone, "redone", "steps repeated after an interruption or a rollback")                      \
    X(loading, "stalled", "waiting for data")                                                      \
    X(checkpoint, "stalled", "waiting until weights or a checkpoint are saved")                    \
    X(starting, "reloading", "process start, compiling, tuning, loading a checkpoint")             \
    X(booting, "booting", "the machine's start until the process began")                           \
    X(idle, "idle", "the machine rented, and no run on it")

enum term {
#define TERM(name, group, help) TERM_##name,
    TERMS(TERM)
#undef TERM
        TERM_COUNT,
    TERM_none = TERM_COUNT /* not on the bill */
};

/* name, term, help: what a loop does, in the order of a step. `compute` stands for `redone` where the run has done
 * the step before. */
#define LOOP_PARTS(X)                                                                              \
    X(fill, loading, "waiting for the first batch")                                                \
    X(input, loading, "waiting for the next batch")                                                \
    X(copy, compute, "batch and scalars to the device")                                            \
    X(forward, compute, "profiled steps: the model's outputs")                                     \
    X(backward, compute, "profiled steps: gradients")                                              \
    X(compute, compute, "forward and backward, where they are not separated")                      \
    X(update, compute, "clipping and the optimiser")                                               \
    X(exchange, compute, "several ranks: what they send to one another, and nothing hides")        \
    X(slowest, compute, "several ranks: waiting for the slowest")                                  \
    X(launch, compute, "asking the device for work")                                               \
    X(evaluation, evaluation, "on held-out samples")                                               \
    X(checkpoint, checkpoint, "steps wait for a save")                                             \
    X(logging, compute, "writing to the screen, files and the ledger")                             \
    X(other, compute, "the rest of the loop")

/* The same, around the loop. */
#define AROUND_PARTS(X)                                                                            \
    X(boot, booting, "the machine's start until the process began")                                \
    X(idle, idle, "the machine rented, and no run on it")                                          \
    X(start, starting, "process start, reading the settings, loading a checkpoint")                \
    X(start_data, starting, "opening the data")                                                    \
    X(start_device, starting, "opening the device")                                                \
    X(start_compile, starting, "compiling")                                                        \
    X(start_kernels, starting, "choosing kernels")                                                 \
    X(start_weights, starting, "setting the weights")                                              \
    X(end, checkpoint, "closing files and devices")                                                \
    X(paused, none, "held by a sweep until it decides: not the run's own time")

enum part {
#define PART(name, term, help) PART_##name,
    LOOP_PARTS(PART) PART_LOOP_COUNT,
    PART_LOOP_LAST = PART_LOOP_COUNT - 1,
    AROUND_PARTS(PART)
#undef PART
        PART_COUNT
};

/* A copy of the clock: the difference of two is what lies between. */
struct step_split {
    i64 ns[PART_COUNT];
};
i64               split_sum(const struct step_split *s); /* of the loop's parts */
struct step_split split_since(const struct step_split *now, const struct step_split *before);

struct clock; /* a NULL one keeps no time, and its views are 0 */

struct clock *clock_new(struct arena *perm, struct os *os);        /* in `start` since now */
struct clock *clock_of_process(struct arena *perm, struct os *os); /* since the process began */
/* What was going on ends, `next` begins; returns when that is, on the clock of os->now_ns. */
i64 clock_enter(struct clock *c, enum part next);
/* The run is over: from here on no view changes. */
void clock_stop(struct clock *c);
/* The step of that number (from 0) begins, in `other`; it is redone where the run had done it before. */
i64 clock_step_begin(struct clock *c, i64 step);
/* It is done, and `logging` begins; returns what it took. One that is left unfinished has no end and does not
 * count. */
i64  clock_step_end(struct clock *c);
void clock_steps_done(struct clock *c, i64 steps); /* by earlier processes of the run */
void clock_redo(struct clock *c,
                bool redoes); /* for who sees no step numbers: what follows was done before */
void clock_add(struct clock *c, enum part part, i64 ns); /* from before the clock began */
/* Of what `from` got, the nanoseconds that turned out to be another's; never more than it has. */
void clock_move(struct clock *c, enum part from, enum part to, i64 ns);
/* Called at the end of each part, on the thread that enters. One watcher; NULL: none. */
typedef void part_watcher(void *context, enum part part, i64 begin_ns, i64 end_ns);
void         clock_watch(struct clock *c, part_watcher *watcher, void *context);

/* Views, for any thread. */
i64               clock_now(const struct clock *c);    /* for deadlines */
i64               clock_age_ns(const struct clock *c); /* since it began */
struct step_split clock_split(struct clock *c);        /* until the part that is going on began */
i64               clock_part_ns(struct clock *c, enum part part); /* likewise */
i64               clock_terms(struct clock *c,
                              i64           ns[TERM_COUNT]); /* until now; returns their sum: the time billed */
i64               clock_before_ns(struct clock *c); /* of it, from before the clock began */
/* Views of the steps that ended, for the thread that enters. */
const struct quantiles *clock_step_times(const struct clock *c);
i64                     clock_waited_ns(struct clock *c); /* for data, the first batch included */

/* What is on no bill, and may lie beside the run's own time: points of time, time limits and durations, all on the
 * clock of os->now_ns, as what clock_enter returns. A lock waits by that of os_real(). */
i64 moment_now(struct os *os);

struct deadline {
    struct os *os;
    i64        at_ns;
};
struct deadline deadline_in(struct os *os, i64 ns);
i64             deadline_left_ns(const struct deadline *d); /* 0: it has passed */

struct stopwatch {
    struct os *os;
    i64        begin_ns;
};
struct stopwatch stopwatch_start(struct os *os);
f64              stopwatch_s(const struct stopwatch *w); /* since then */

i64 clock_boot_age_ns(void); /* since the machine started, time asleep included */

const char *clock_part_name(enum part p);
const char *clock_part_help(enum part p);
enum term   clock_part_term(enum part p);
const char *term_name(enum term t);
const char *term_group(enum term t); /* "useful", "redone", … */

#endif
