/* checkpoint_schedule.h - a run's checkpoints from its loop's point of view: when one is due, taking it, what it
 * cost, and the last one before the end; inside this room only. */
#ifndef TRAIN_CHECKPOINT_SCHEDULE_H
#define TRAIN_CHECKPOINT_SCHEDULE_H
#include "train/cadence.h"
#include "train/checkpoint_writer.h"
#include "train/restore.h"

struct saving {
    struct restore           *from; /* its store and run */
    struct snapshot           snapshot;
    struct checkpoint_writer *writer; /* NULL: no checkpoints */
    struct session           *s;
    struct run_state         *at;
    struct guard             *guard;
    struct str                text;          /* of identity.c, for every manifest */
    i64                       text_prepared; /* programs that were, when it was written */
    struct cadence            cadence;
    struct cadence_facts      facts;
    f64                       told_s;               /* interval that the user was told last */
    i64                       due_ns, due_step;     /* whichever comes first */
    i64                       age_begin_ns;         /* the machine's start, on our clock */
    i64                       taken_ns, taken_step; /* of the newest snapshot, or of the start */
    bool                      late;                 /* the one due now has been counted as late */
    struct ckpt_shard        *others;    /* that other ranks write; NULL: not named yet */
    bool                      asked;     /* they were told to write, and have not all reported */
    struct err                lost;      /* why nothing can be saved any more; OK: it can */
    bool                      told_full; /* that the disk is, and fewer are kept */
    i64  deadline_ns, heard_ns; /* of the process, and when we first heard of it; 0: none */
    i64  told_ns;               /* when the other ranks last heard that we are at work */
    bool interrupted;           /* before it came to its end */
    /* what the newest one takes */
    f64                 blocked_s, held_s;       /* after the step; before the next update */
    bool                beside;                  /* it was being written when the last step ended */
    i64                 window_ns, window_steps; /* steps beside it */
    i64                 free_ns, free_steps;     /* steps beside none, all of them */
    f64                 busy_s;                  /* the saver, pruning included; 0: none yet */
    struct train_saving figures;
};

/* In the order of a run. */
enum status saving_init(struct saving *v, const struct settings *settings, struct err *err);
i64         saving_file_bytes(
            const struct saving *v); /* of a checkpoint, the copy that guard.c holds included */
enum status saving_plan(struct saving *v, struct restore *from, struct session *s, struct guard *g,
                        struct run_state *at, struct err *err); /* compiled, nothing allocated */
enum status saving_start(struct saving *v, struct err *err);    /* tensors are restored */
/* Is a copy being made of what an update changes? It must wait. */
bool saving_copies(struct saving *v);
void saving_wait_copied(struct saving *v);
/* After each step, evaluation included. INTERRUPTED: a later start of the run has taken over. */
enum status saving_step(struct saving *v, i64 step_ns, struct err *err);
/* Until when, of a process that is killed at a deadline (0: never), the last checkpoint must be safe; and how
 * much of a notice is left for it. */
i64 saving_until_ns(struct saving *v, i64 deadline_ns);
i64 saving_usable_ns(const struct saving *v, i64 notice_ns);
/* Will the last save be safe by then if it begins in so many seconds, and after the one that is being written? */
bool saving_fits(struct saving *v, f64 before_s, i64 until_ns);
/* Seconds that the last save will take, by the one before or, of the first, by its bytes; 0: nothing is saved. */
f64 saving_needs_s(struct saving *v);
f64 saving_end_s(struct saving *v); /* with pruning, and the one that is being written */
/* And dollars, for its requests to the object store; 0: none, or nobody knows. */
f64 saving_needs_usd(struct saving *v, struct bill *bill);
/* The run ends (so_far OK) or is interrupted; the last state is on the disk, and in the object store, when it
 * returns. INTERRUPTED: its uploads were, by a signal or a notice. */
enum status saving_end(struct saving *v, enum status so_far, struct err *err);
/* The state is worth nothing: only what other ranks write with us is finished, and no other save is begun. */
void saving_finish(struct saving *v);
void saving_close(struct saving *v);

/* Shared by checkpoint_schedule.c and final_checkpoint.c only. */
void saving_tell(struct saving *v, const struct event_checkpoint *e);
void saving_take(struct saving *v);   /* a snapshot of now, and the writer begins */
void saving_settle(struct saving *v); /* what became of the last one */
f64  saving_safe_s(
     struct saving
         *v); /* from a snapshot until it outlives the machine, by the last; NaN: not known */

#endif
