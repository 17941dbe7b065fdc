/* logs.h - the subscriber behind log.csv, log.tensorboard and log.prometheus: which steps become rows. */
#ifndef JOB_LOGS_H
#define JOB_LOGS_H
#include "job/job.h"
#include "run/figures.h"

struct logs {
    const struct job   *job;
    struct figures_log *log;    /* NULL: nothing is asked for, or not yet */
    struct str          metric; /* that the target is measured in */
    struct event_step   last;   /* the newest; its evaluation may follow */
    struct figures      row;    /* of it; step -1: none yet */
    bool                due;    /* it shall be written */
    i64                 step;   /* the newest that was heard of, or gone back to */
    f64                 next_s; /* no step is due before the run is so old */
};

struct logs       logs_init(const struct job *j);
struct subscriber logs_subscriber(struct logs *l, const struct subscriber *next);
void              logs_close(struct logs *l);

#endif
