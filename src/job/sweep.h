/* sweep.h - `frugal sweep` without its table: many short runs, few long ones.
 *
 *   sweep_plan.c    sweep.over -> trials, each with its settings and the words for the command line
 *   sweep_trial.c   a trial's process: trains, tells of its evaluations, waits at its rung
 *   sweep_file.c    results in a file, for a sweep that was interrupted
 *   sweep.c         the loop: train/asha.h decides, processes run; the ledger, the weights that are kept
 *
 * Whoever shows it passes functions that hear of the start and of what trials tell. */
#ifndef JOB_SWEEP_H
#define JOB_SWEEP_H
#include "job/sweep_trial.h"
#include "train/asha.h"
#include "train/config.h"

enum { SWEEP_AXES_MAX = 16, SWEEP_TRIALS_MAX = 1000 };

struct sweep_totals {
    i64 done;               /* trials that came to their ends */
    f64 seconds, usd;       /* of the whole sweep, by the clock; NaN: no price */
    f64 saved_s, saved_usd; /* had all gone to their ends */
};

struct sweep {
    const struct job    *job;
    const struct config *config;
    struct trial        *trials;
    i64                  count;
    struct asha         *asha;
    struct arena         scratch;
    struct str           others; /* lines of sweep.results that belong to other runs */
    i64                  told;   /* trials that ran to a rung or their end */
    struct sweep_totals  totals; /* at the end */

    /* NULL: nobody hears. Before the first trial; an evaluation on the way; a trial came to a rung or its end. */
    void (*on_start)(struct sweep *s);
    void (*on_eval)(struct sweep *s, const struct trial *t);
    void (*on_trial)(struct sweep *s, const struct trial *t);
    void *context; /* of whoever hears */
};

/* `s` has a job, its config and the functions. Where `told` is above 0 there are results to show, whatever came. */
enum status sweep_run(struct sweep *s, struct err *err);

/* What a trial that shares the machine with others pays for so many seconds; NaN: no price. */
f64 sweep_trial_usd(const struct sweep *s, f64 seconds);
/* Were there rungs, and did no trial ever wait at one? */
bool sweep_never_compared(const struct sweep *s);
bool note_failed(const struct note *n); /* is it the end of a trial that failed? */

/* The trials, from sweep.over, .count and .seed. */
enum status sweep_plan(struct sweep *s, struct arena *perm, struct err *err);
/* A word as a shell takes it for one. */
void add_shell_word(struct textbuf *b, struct str word);

/* sweep.results: fills `known` from the file, where there is one; writes all that is known anew. */
enum status results_read(struct sweep *s, struct arena *perm, struct err *err);
enum status results_write(struct sweep *s, struct err *err);

#endif
