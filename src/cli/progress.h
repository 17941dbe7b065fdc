/* progress.h - the subscriber that shows a run: a live line, sparse plain lines, or JSON events. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H
#include "cli/say.h"
#include "cli/verdict_show.h"
#include "train/train.h"

struct progress {
    struct say          *say;
    struct arena         scratch;
    f64                  next_s;   /* no step is shown before the run is so old */
    f64                  usd_hour; /* NaN: not known */
    i64                  every;    /* steps between two shown; 0: by the clock */
    i64                  failed;   /* saves so far */
    bool                 interval; /* when checkpoints are saved was said */
    struct verdict_shown shown;    /* what binds the run */
    struct subscriber    verdict;  /* hears of that, after this one */
    bool                 chat;     /* the model learns to answer: data.kind=chat */
};

/* Of a say and its scratch that are set; `p` must stay where it is. */
struct subscriber progress_subscriber(struct progress *p);

/* A warning on stderr, or the event "finding". */
void say_finding(struct say *s, const struct finding *f, struct arena scratch);

/* The line of a step: "step 120/1875  loss 0.4312  …"; with `columns`, as many whole items as fit, behind a bar.
 * For tests too. */
struct str progress_line(struct arena *perm, const struct event_step *t, i64 columns);

/* summary.c: the last lines of a run. */
void summary_show(struct progress *p, const struct event_done *r);

struct str text_rate(struct arena *perm, f64 rate); /* 31,200 and 0.413 */

#endif
