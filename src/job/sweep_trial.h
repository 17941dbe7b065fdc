/* sweep_trial.h - a trial of a sweep: a run in a process of its own, which reports its evaluations and waits at its
 * rung until it is told how far to continue. */
#ifndef JOB_SWEEP_TRIAL_H
#define JOB_SWEEP_TRIAL_H
#include "job/job.h"
#include "train/asha.h"

/* What a trial's process tells; one message. */
enum note_kind { NOTE_EVAL, NOTE_RUNG, NOTE_END };
struct note {
    enum note_kind   kind;   /* an evaluation on the way; at a rung, and waits; the end */
    enum status      status; /* of the end */
    i64              step, steps;
    f64              seconds;     /* without those it waited */
    f64              begin_s;     /* of them, until the first step was done */
    f64              loss, value; /* of the last evaluation; value: of the metric */
    char             metric[16];  /* its name */
    bool             target_reached;
    enum stop_reason stopped;
    char             text[512]; /* the end: why */
};

struct trial {
    i64             number; /* from 1 */
    struct str      words;  /* "train.lr=0.01 train.batch=32" */
    struct settings settings;
    struct os_child child;
    struct note     last;
    struct note known[ASHA_RUNGS_MAX]; /* by rung, now or in sweep.results; steps 0: not known */
};

/* Starts a trial's process, to run until `part` of its run. */
enum status trial_start(struct trial *t, f64 part, struct err *err);
enum status trial_go_on(struct trial *t, f64 part, struct err *err);
/* Its next message; false: its process is gone. */
bool trial_read(struct trial *t, struct note *n);
/* Its value at a rung or the end such that less is better; INFINITY: it failed. */
f64 note_value(const struct note *n);

#endif
