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
};

struct account *account_new(struct arena *perm, i64 begin_ns)
{
    struct account *a = NEW(perm, struct account, 1);
    ASSERT(!pthread_mutex_init(&a->lock, NULL));
    a->now      = TERM_starting;
    a->since_ns = begin_ns;
    return a;
}

enum term account_enter(struct account *a, enum term next, i64 now_ns)
{
    if (!a) return next;
    pthread_mutex_lock(&a->lock);
    enum term before = a->now;
    ASSERT(now_ns >= a->since_ns);
    a->ns[before] += now_ns - a->since_ns;
    a->since_ns = now_ns;
    a->now      = next;
    pthread_mutex_unlock(&a->lock);
    return before;
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
