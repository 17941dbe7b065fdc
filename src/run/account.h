/* account.h - where a run's time goes. Every nanosecond of a segment (one process's part of a run)
 * lies in exactly one term, so that the terms sum to the whole:
 *
 *     billed = useful + redone + stalled + reloading + booting + idle
 *
 * The trainer says what begins; the ledger's thread reads along while it runs. */
#ifndef RUN_ACCOUNT_H
#define RUN_ACCOUNT_H
#include "base/arena.h"
#include "base/types.h"

/* name, what of the sum above it belongs to, what it is */
#define TERMS(X)                                                                                   \
    X(compute, "useful", "steps that count")                                                       \
    X(evaluation, "useful", "evaluation")                                                          \
    X(redone, "redone", "steps done once more, after an interruption or a roll-back")              \
    X(loading, "stalled", "waiting for data")                                                      \
    X(checkpoint, "stalled", "waiting until weights or a checkpoint are saved")                    \
    X(starting, "reloading", "process start, compiling, tuning, loading a checkpoint")             \
    X(booting, "booting", "the machine's start until the process began")                           \
    X(idle, "idle", "the machine rented, and no run on it")

enum term {
#define TERM(name, group, help) TERM_##name,
    TERMS(TERM)
#undef TERM
        TERM_COUNT
};

struct account; /* a NULL one takes everything and knows nothing: nobody asks */

struct account *account_new(struct arena *perm, i64 begin_ns); /* in `starting` since then */
/* What was going on ends, `next` begins. now_ns never runs back. */
void account_enter(struct account *a, enum term next, i64 now_ns);
/* The step of that number (from 0) begins, or goes on: compute or, where the run had done it
 * before, redone. */
void account_step(struct account *a, i64 step, i64 now_ns);
void account_steps_done(struct account *a, i64 steps);       /* by earlier segments */
void account_add(struct account *a, enum term term, i64 ns); /* from before begin_ns */
/* All terms until now, by any thread; returns their sum. */
i64 account_read(struct account *a, i64 now_ns, i64 ns[TERM_COUNT]);

const char *term_name(enum term t);
const char *term_group(enum term t); /* "useful", "redone", … */

#endif
