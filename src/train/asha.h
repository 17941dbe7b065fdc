/* asha.h - successive halving over a fixed number of trials: who runs on next, and who is out.
 *
 * A trial pauses at rungs on its way: after 1/eta^K of its run, 1/eta^(K-1), ... 1/eta; the last rung
 * is its end. Of the trials of a rung the best 1/eta go on. Nobody waits for a whole rung: a trial
 * goes on as soon as it is sure to be among the best, and is out as soon as it is sure not to be; and
 * where a worker would stand idle, the best so far may go on before that is sure (Li et al. 2020,
 * "A system for massively parallel hyperparameter tuning": ASHA). One worker alone never guesses.
 *
 * Pure: it runs nothing and knows no clock. Values are such that less is better. */
#ifndef TRAIN_ASHA_H
#define TRAIN_ASHA_H
#include "base/arena.h"

enum { ASHA_RUNGS_MAX = 12 };

enum asha_state { ASHA_NEW, ASHA_RUNNING, ASHA_PAUSED, ASHA_OUT, ASHA_DONE };

struct asha_trial {
    enum asha_state state;
    i64             rung; /* runs to it, or has reached it */
    f64             value[ASHA_RUNGS_MAX];
};

struct asha {
    i64                trial_count, eta;
    i64                rung_count;               /* the last one is the end of the run */
    f64                part[ASHA_RUNGS_MAX];     /* of the run, at which a rung ends */
    i64                expected[ASHA_RUNGS_MAX]; /* trials that run to it, without guesses */
    struct asha_trial *trials;
};

/* trial_count >= 1, eta >= 2; no rung ends before `first` of the run, 0 < first <= 1. */
struct asha *asha_new(struct arena *perm, i64 trial_count, i64 eta, f64 first);
/* The trial that runs on, now, to its `rung`; -1: none before another reports, or no more at all. */
i64 asha_next(struct asha *a);
/* The trial has come to its rung (INFINITY: it failed); the last rung is the end. */
void asha_report(struct asha *a, i64 trial, f64 value);
void asha_ended(struct asha *a, i64 trial, f64 value); /* by itself, before its rung */
/* A paused trial that will never run on, now out; -1: none. */
i64 asha_drop(struct asha *a);
/* Trials from the best to the worst: who came farther is better. NEW ones come last. */
void asha_ranking(const struct asha *a, i64 *order);

#endif
