/* learn.h - what a plan takes from the user's ledger instead of what it would assume: how long spot machines lived,
 * how quick steps were, what starting, saving and loading took. Each is told in a sentence. `frugal plan` needs it. */
#ifndef PLAN_LEARN_H
#define PLAN_LEARN_H
#include "plan/search.h"

/* What of a plan was assumed, learned or left out: a sentence each; what there is no room for is dropped. */
struct plan_notes {
    struct str text[24];
    i64        count;
};

void plan_note(struct plan_notes *n, struct str text);

/* What is planned, and is given what was learned. */
struct plan_learner {
    struct str              ledger; /* where it is; empty: nobody says, none */
    const struct catalogue *catalogue;
    struct device          *devices;
    i64                     device_count;
    struct plan_limits     *limits;   /* `spot` */
    struct plan_workload   *workload; /* `load_sample_s` */
    bool                    loads; /* a run of ours, whose data is read: these are its settings, */
    struct str              settings; /* as the ledger has them */
};

void plan_learn(struct os *os, const struct plan_learner *p, struct plan_notes *notes,
                struct arena *perm);

#endif
