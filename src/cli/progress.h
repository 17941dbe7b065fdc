/* progress.h - the subscriber that shows a run: a live line, sparse plain lines, or JSON events. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H
#include "cli/say.h"
#include "train/train.h"

struct progress {
    struct say  *say;
    struct arena scratch;
    f64          next_s; /* no step is shown before the run is so old */
    f64          usd_hour; /* NaN: not known */
    i64          every; /* steps between two shown; 0: by the clock */
    f64          runs_per_month; /* NaN: not known */
};

struct subscriber progress_subscriber(struct progress *p);

/* A warning on stderr, or the event "finding". */
void say_finding(struct say *s, const struct finding *f, struct arena scratch);

/* The line of a step: "step 120/1875  loss 0.4312  …". For tests too. */
struct str progress_line(struct arena *perm, const struct event_step *t);

#endif
