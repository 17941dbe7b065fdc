/* loop.h - a run while it trains, shared by the files of the loop; inside this room only.
 *
 *     train.c      restores, opens everything else, runs the loop, closes everything
 *     loop.c       step after step: evaluation when due, rollbacks, checkpoints, the end
 *     step.c       one optimiser step: micro-batches, losses, update
 *     feed.c       the batches of a step, and of the next one ahead of time
 *     tell.c       the events that it emits (run/events.h)
 *     tell_verdict.c  of these, what limits it
 *     samples.c    now and then, what a text model writes
 *     profiling.c  the steps that are looked at closely */
#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H
#include "run/bill.h"
#include "train/checkpoint_schedule.h"
#include "train/replay.h"
#include "train/seldom.h"
#include "train/undo.h"

struct loop {
    struct session           s;
    const struct train_with *with;
    struct bill             *bill;  /* the caller's, or our own */
    struct clock            *clock; /* of it */
    struct loader           *loader;
    struct replay            replay;
    struct limits            limits;
    struct lint_facts        facts;
    bool                     told[LINT_COUNT]; /* by rule */
    bool                     told_long, told_profile;
    struct run_state         at, before; /* before: by earlier processes */
    struct event_metric      metric;
    struct train_scaling     scaling;
    struct guard             guard;
    struct restore          *restore;
    struct saving            saving;
    struct meter             meter;
    struct lookout          *lookout;
    struct judged_rates      rates;
    i64                      judge_at_ns; /* when the split has come to that; 0: no verdict yet */
    i64                      evaluations; /* of this process */
    i64                      sent_bytes;  /* to other ranks, by programs of steps */
    struct samples {
        struct seldom when;
        f64           spent_s; /* by this process */
        f64           last_s;  /* by the last; 0: none yet */
        i64           step;    /* after which the last was written */
    } samples;
    struct profile *profile;      /* NULL: no step is looked at */
    f64             step_flops;   /* of a whole one, what is recomputed included */
    f64             all_flops;    /* the same, of all ranks together */
    f64             useful;       /* useful_share; NaN: not known yet */
    f64             peak_flops_s; /* by a catalogue, or peak_measured, likewise */
    bool            peak_measured;
    struct ahead {
        bool          feeds, computes; /* ahead_feeds, ahead_computes */
        struct batch *batch;           /* of the next step, if it was fetched already */
        bool          fed;             /* it is where the programs read it */
        bool          begun;           /* its gradients are being computed */
    } ahead;
    enum status input; /* of the batch that did not come, and why */
    struct err  input_err;
    bool        unread; /* the run ends for want of data: its last whole step is there to save */
    struct undo undo;
    bool        evaluates;
    bool        eval_skipped; /* one did not fit into the cap, and was told */
    bool
        broken; /* of several ranks, one is gone in the middle of a step: nothing here is worth saving */
    bool                 kept; /* train.out was written */
    struct train_result *result;
};

/* loop.c: until the run ends; the last state is saved. */
enum status loop_run(struct loop *l, struct err *err);
void        loop_note_time(struct loop *l); /* in l->at, of all starts */
f64         loop_lr(const struct loop *l, i64 step);

/* step.c: one update; returns the last of its micro-batches, or none (l->input, or it was left), and nothing is
 * done. */
struct batch loop_step(struct loop *l, struct batch *b, f64 lr);
/* One micro-batch: its gradients overwrite those of the last step or are added to those of this. */
void loop_micro_step(struct loop *l, const struct batch *b, i64 step, i64 first_sample, f64 lr);
/* While a program runs inside the call, these are asked whether it shall be left. */
void            loop_listen(struct loop *l, bool (*leaves_off)(void *));
enum program_id loop_program_of(const struct session *s, const struct batch *b, i64 first_sample);

/* feed.c */
struct batch *feed_first(struct loop *l); /* of a step, or no more */
struct batch *feed_next(struct loop *l); /* another of the same step; none where the step is left */
void          feed_ahead(struct loop        *l,
                         const struct batch *b); /* of the next step, if that is wise after `b` */

/* together.c, of several ranks */
/* meter.c: rates of this start's steps, as their percentiles are; of all starts where this one has made none. */
f64 loop_samples_per_s(const struct loop *l); /* NaN: no step */
f64 loop_input_share(const struct loop *l);   /* part of their time that they waited for data */

/* Once a step, before the update: losses and targets are summed, and a rank that failed (l->input) or was asked to
 * stop ends all. Returns l->input. */
enum status together_step(struct loop *l, i64 *targets);
/* Before a program that gathers: not OK where any rank cannot run it. */
enum status together_ready(struct loop *l);
/* l->input, to those that are about to step. */
void together_tell_failure(struct loop *l);
/* This rank failed where the others do not look: they hear it in their next together_step. */
void together_fail(struct loop *l, enum status st, const struct err *err);
f64  together_flops(const struct session *s); /* of a whole step, in all ranks */
/* Of several ranks, which waited least for the others, and how long these waited for it on average. */
struct waited together_waited(struct loop *l);
enum status   together_decide(struct loop *l, enum stop_action *now, struct err *err);
enum status   together_eval(struct loop *l, struct train_eval *e, struct err *err); /* its times */

/* tell.c */
__attribute__((format(printf, 2, 3))) void tell_note(struct loop *l, const char *format, ...);
void                                       tell_start(struct loop *l);
void tell_findings(struct loop *l);     /* that were not told yet */
void tell_step(struct loop *l, f64 lr); /* and what has come up beside it */
void tell_eval(struct loop *l, const struct train_eval *t);
void tell_overfit(struct loop *l, f64 held_out_loss);
void tell_result(struct loop *l); /* fills l->result */

/* The run is closed, its clock has stopped. */
bool tell_taken(const struct train_with   *with,
                const struct train_result *r); /* ended by the machine's provider */
void tell_done(const struct train_with *with, const struct train_result *r, struct clock *clock);

/* tell_verdict.c */
struct evidence tell_evidence(struct loop *l, struct lookout_seen seen);
void            tell_verdict_so_far(struct loop *l); /* where it is due */
/* The run is closed, its clock has stopped. */
void tell_verdict(const struct train_with *with, const struct settings *s,
                  const struct train_result *r, struct arena scratch);

/* samples.c: `last`: no other follows, so that the schedule does not matter. Its time is evaluation's. */
void samples_write(struct loop *l, bool last);

/* profiling.c */
void profiling_open(struct loop *l);
/* A step begins, or the run ends. What begins with the clock's reading that it returns is the step's. */
i64  profiling_step(struct loop *l);
void profiling_tell(struct loop *l); /* once */
/* On a device that works asynchronously this only asks for the work, unless the step is profiled. */
void profiling_run(struct loop *l, enum program_id id, const struct program *p);

#endif
