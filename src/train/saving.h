/* saving.h - a run's checkpoints from its loop's point of view: when one is due, taking it, what it
 * cost, and the last one before the end; inside this room only. */
#ifndef TRAIN_SAVING_H
#define TRAIN_SAVING_H
#include "train/cadence.h"
#include "train/resume.h"
#include "train/saver.h"

struct saving {
    struct resume        resume;
    struct snapshot      snapshot;
    struct saver        *saver; /* NULL: no checkpoints */
    struct session      *s;
    struct run_state    *at;
    struct guard        *guard;
    struct str           text; /* of resume.c, for every manifest */
    struct cadence       cadence;
    struct cadence_facts facts;
    f64                  told_s;               /* interval that the user was told last */
    i64                  due_ns, due_step;     /* whichever comes first */
    i64                  age_begin_ns;         /* the machine's start, on our clock */
    i64                  taken_ns, taken_step; /* of the newest snapshot, or of the start */
    bool                 late;                 /* the one due now has been counted as late */
    /* what the newest one takes */
    f64                 blocked_s, held_s;       /* after the step; before the next update */
    bool                beside;                  /* it was being written when the last step ended */
    i64                 window_ns, window_steps; /* steps beside it */
    i64                 free_ns, free_steps;     /* steps beside none, all of them */
    struct train_saving figures;
};

/* In the order of a run. `settings` of ->resume are the run's from then on. */
enum status saving_open(struct saving *v, struct os *os, const struct settings *settings,
                        const struct train_listener *listener, struct arena *perm, struct err *err);
enum status saving_plan(struct saving *v, struct session *s, struct guard *g, struct run_state *at,
                        struct err *err); /* compiled, nothing allocated; *at says where to start */
enum status saving_start(struct saving *v,
                         struct err    *err); /* weights are set: puts the state back */
/* Is a copy being made of what an update changes? It must wait. */
bool saving_copies(struct saving *v);
void saving_wait_copied(struct saving *v);
/* After each step, evaluation included. INTERRUPTED: a later start of the run has taken over. */
enum status saving_step(struct saving *v, i64 step_ns, struct err *err);
/* The run ends (so_far OK) or is interrupted; the last state is on the disk, and elsewhere, when it
 * returns. */
enum status saving_end(struct saving *v, enum status so_far, struct err *err);
void        saving_close(struct saving *v);

#endif
