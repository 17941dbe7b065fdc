/* account.c - time by term. One thread enters, any may read: the lock is held for a few loads and
 * stores, a handful of times a step. */
#include "run/account.h"
#include <pthread.h>
#include <string.h>

struct account {
    pthread_mutex_t lock;
    enum term       now;
    i64             since_ns;
    i64             ns[TERM_COUNT]; /* until since_ns */
    i64             step;           /* going on; -1: none yet */
    i64             steps_done;     /* the most that were, before it */
};

static const char *const names[][2] = {
#define TERM(name, group, help) { #name, group },
    TERMS(TERM)
#undef TERM
};

const char *term_name(enum term t) { return names[t][0]; }

const char *term_group(enum term t) { return names[t][1]; }

struct account *account_new(struct arena *perm, i64 begin_ns)
{
    struct account *a = NEW(perm, struct account, 1);
    ASSERT(!pthread_mutex_init(&a->lock, NULL));
    a->now      = TERM_starting;
    a->since_ns = begin_ns;
    a->step     = -1;
    return a;
}

void account_enter(struct account *a, enum term next, i64 now_ns)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    ASSERT(now_ns >= a->since_ns);
    a->ns[a->now] += now_ns - a->since_ns;
    a->since_ns = now_ns;
    a->now      = next;
    pthread_mutex_unlock(&a->lock);
}

void account_step(struct account *a, i64 step, i64 now_ns)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    if (step != a->step) a->steps_done = MAX(a->steps_done, a->step + 1);
    a->step     = step;
    bool before = step < a->steps_done;
    pthread_mutex_unlock(&a->lock);
    account_enter(a, before ? TERM_redone : TERM_compute, now_ns);
}

void account_steps_done(struct account *a, i64 steps)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->steps_done = MAX(a->steps_done, steps);
    pthread_mutex_unlock(&a->lock);
}

void account_add(struct account *a, enum term term, i64 ns)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->ns[term] += ns;
    pthread_mutex_unlock(&a->lock);
}

i64 account_read(struct account *a, i64 now_ns, i64 ns[TERM_COUNT])
{
    i64 sum = 0;
    memset(ns, 0, TERM_COUNT * sizeof *ns);
    if (!a) return 0;
    pthread_mutex_lock(&a->lock);
    memcpy(ns, a->ns, sizeof a->ns);
    ns[a->now] += MAX(now_ns - a->since_ns, 0); /* it may have gone on since `now` was read */
    pthread_mutex_unlock(&a->lock);
    for (i64 i = 0; i < TERM_COUNT; i++) sum += ns[i];
    return sum;
}
