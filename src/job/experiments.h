/* experiments.h - the verdict of `frugal profile`: some seconds of the run as it is tell what is wrong with it, and
 * each problem is then tried out, in turns with the run as it is (run/verdict.h), every time in a process of its own.
 * Nothing of it is kept. */
#ifndef JOB_EXPERIMENTS_H
#define JOB_EXPERIMENTS_H
#include "job/measure.h"
#include "train/config.h"

struct experiments {
    struct measured whole; /* the run as it is, with its evidence */
    struct verdict  verdict;
    f64             usd_run; /* at this pace; NaN: it has no end, or no price */
    void (*on_try)(void *context, const char *problem); /* before it is tried; NULL: nobody asks */
    void *context;
};

/* Looks for so many seconds, and experiments. The verdict's texts are in `perm`. */
enum status experiments_run(struct experiments *e, struct os *os, const struct config *config,
                            f64 seconds, struct arena *perm, struct err *err);

/* For the steps that are looked at before that: some are profiled, and nothing of the run is kept. */
void profile_steps_only(struct settings *s);
/* Does that work in a process of its own, as every look: what a driver begins in one, no copy of it can go on with. */
enum status run_apart(struct os *os, enum status (*work)(void *context, struct err *err),
                      void *context, struct err *err);

#endif
