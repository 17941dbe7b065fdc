/* tuning.h - `frugal tune` without its table: the run is measured as it is, the levers are tried one after the other
 * (train/tune.h says which, and what wins; job/measure.h measures), the work is recorded in the ledger, and the winner
 * becomes a run file of its own. Whoever shows it passes functions that hear of each measurement and each lever. */
#ifndef JOB_TUNING_H
#define JOB_TUNING_H
#include "job/measure.h"
#include "train/config.h"
#include "train/tune.h"

struct tuning {
    const struct job    *job;
    const struct config *config;
    struct measured      first; /* the run as it was */
    struct tune_lever    levers[TUNE_LEVERS_MAX];
    i64                  lever_count;
    struct str           won[TUNE_LEVERS_MAX]; /* words that were chosen so far */
    i64                  won_count;
    f64                  trial_s;
    i64                  measured; /* so far */
    struct str           file;     /* of the winner; empty: nothing won */

    /* NULL: nobody hears. The levers are known; a value was measured; a lever was tried. */
    void (*on_levers)(const struct tuning *t);
    void (*on_measured)(const struct tuning *t, const struct tune_value *v, f64 seconds);
    void (*on_lever)(const struct tuning *t, const struct tune_lever *l);
    void *context; /* of whoever hears */
};

/* `t` has a job, its config and the functions; all within about so many seconds. */
enum status tuning_run(struct tuning *t, f64 seconds, struct err *err);

f64  tuning_speed(const struct tuning *t);  /* times that of the run as it was */
bool tuning_digits(const struct tuning *t); /* did what won change results by rounding? */
/* Samples, or tokens where samples are sequences: so many of them are a sample. */
f64 tuning_units(const struct tuning *t);
/* Of a million of them, where a sample takes so long; NaN: the price is not known. */
f64 tuning_usd_million(const struct tuning *t, f64 seconds);

/* tune_file.c: run.yaml -> run.tuned.yaml: what the user said and what won, with what was before behind the lines that
 * changed. A file of that name that is not ours is left alone: STATUS_USAGE. */
enum status tune_write(struct os *os, const struct config *before, const struct config *after,
                       struct str head, struct arena *perm, struct str *path, struct err *err);

#endif
