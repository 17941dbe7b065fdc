/* profile.h - some steps of a run looked at closely: the time of each instruction, of each part of the loop,
 * and the memory the plan gives to whom.
 *
 *     steps   | wait … | active … |        as torch.profiler.schedule, once
 *                                  ^ what is kept
 *
 * The loop (train/step.c) runs the programs of these steps with backend->time instead of run, and reports.
 * Nothing is allocated after _new: instructions are summed up, and their intervals go to a ring of bounded
 * size, from which run/chrome.h writes a trace. One owner, no locks. A NULL profile looks at nothing. */
#ifndef RUN_PROFILE_H
#define RUN_PROFILE_H
#include "base/trace.h"
#include "run/clock.h"
#include "run/op_table.h"

struct profile_config {
    i64        wait, active; /* steps; active 0: none are looked at */
    struct str sort;         /* op_sort_of */
    struct str trace;        /* Chrome trace to write; empty: none */
};

/* What an event of the trace is: name, and a number whose meaning follows from the kind. */
enum profile_event { PROFILE_STEP, PROFILE_PART, PROFILE_INSTR };
struct profile_span {
    enum profile_event kind;
    i64                begin_ns, end_ns;
    i64                step;    /* STEP: counted from 1 */
    enum part          part;    /* PART */
    enum program_id    program; /* INSTR */
    i32                instr;
};

struct profile;

/* first_step: steps that were done before this process. accumulate: micro-batches a step. */
struct profile *profile_new(struct arena *perm, const struct profile_config *c,
                            const struct program_set *set, i64 first_step, i64 accumulate);
bool profile_on(const struct profile *p, i64 step); /* is the step of this number (from 0) timed? */
bool profile_over(const struct profile *p,
                  i64 step); /* are all that are to be looked at done before it? */

/* From now on the parts of the clock are kept as intervals. */
void profile_watch(struct profile *p, struct clock *clock);
/* Reported by the loop. A step begins, which ends the one before. */
void profile_step(struct profile *p, i64 step, i64 now_ns);
/* Room for what backend->time gives, asked for before the call; then what it gave. Moves the call's time, which the
 * clock has under `from`, to forward, backward or update, and the rest to launch. */
f64 *profile_seconds(struct profile *p);
void profile_ran(struct profile *p, enum program_id id, i64 begin_ns, i64 end_ns, enum part from);

/* What was found; steps 0: nothing. */
i64 profile_steps(const struct profile *p); /* active ones that ended */
struct step_split
profile_split(const struct profile *p); /* of them together; sums to their wall clock */
struct op_table profile_table(const struct profile *p, const struct target *t, struct arena *perm);
i64             profile_span_count(const struct profile *p);
i64 profile_spans_dropped(const struct profile *p); /* the oldest, where the ring was full */
struct profile_span       profile_span(const struct profile *p, i64 index);
const struct program_set *profile_set(const struct profile *p);

#endif
