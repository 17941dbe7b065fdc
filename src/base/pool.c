/* pool.c - persistent threads, each with a share of the blocks, and help from whoever is done with his own.
 *
 * Worker w's share are the blocks from w / threads of all on. Jobs of a step cut the same rows into blocks in
 * the same order, so a thread finds in its caches what it wrote a moment ago; with one counter for all,
 * half of it lay in another core's, which may be on another die.
 *
 * A thread owns a block when it takes the counter of a share from n + 1 to n. Only then does it read
 * the job, and the caller replaces the job only when `unfinished` is 0, that is, when every owner
 * has reported. So a late thread can never mix two jobs, whatever it saw before.
 * Whoever finds nothing to do spins a little, then sleeps; the flag "I sleep" and the counter it
 * sleeps on are written and read in opposite order on the two sides, all sequentially
 * consistent, so a wake-up cannot be lost. Both are written by an exchange: with plain stores
 * test_pool hung for aarch64 under qemu 7.2 (likely by its order of stlr and ldar; not established), with these not. */
#include "base/pool.h"
#include "base/os_int.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { POOL_THREADS_MAX = 1024 };

static const i64 spin_ns = 30000; /* about one small kernel of a training step */

struct share {
    _Alignas(64) atomic_llong left; /* blocks of it that nobody has taken yet */
};

struct pool {
    _Alignas(64) atomic_llong posted;     /* jobs so far; -1: time to go home */
    _Alignas(64) atomic_llong unfinished; /* blocks not yet reported done */
    _Alignas(64) pool_fn *fn;             /* the job: constant while unfinished > 0 */
    void         *context;
    i64           blocks;
    struct share *shares; /* one a thread that was asked for */
    i32           asked;
    atomic_bool   running;
    atomic_int    workers_asleep;
    atomic_bool   caller_asleep;
    i64           spin_ns; /* 0 when we are more threads than cores: then spinning is in the way */
    i32           threads;
    pthread_mutex_t lock; /* held only around falling asleep and waking others */
    pthread_cond_t  work_came, work_done;
    pthread_t      *ids;
};

struct worker {
    struct pool *pool;
    i32          index;
};

static void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Whether *counter became (is = true) or ceased to be (false) `value` before our patience ended. */
static bool spin_until(atomic_llong *counter, bool is, i64 value, i64 patience_ns)
{
    if ((atomic_load_explicit(counter, memory_order_acquire) == value) == is) return true;
    if (patience_ns == 0) return false;
    i64 begin = os_clock_ns(CLOCK_MONOTONIC);
    do {
        for (int i = 0; i < 16; i++) {
            if ((atomic_load_explicit(counter, memory_order_acquire) == value) == is) return true;
            cpu_pause();
        }
    } while (os_clock_ns(CLOCK_MONOTONIC) - begin < patience_ns);
    return false;
}

/* The first block of a share. */
static i64 share_begin(const struct pool *p, i32 share) { return p->blocks * share / p->threads; }

/* Takes and runs blocks of a share until none is left; how many. */
static i64 work_share(struct pool *p, i32 share, i32 worker)
{
    i64           done    = 0;
    atomic_llong *counter = &p->shares[share].left;
    long long     left    = atomic_load_explicit(counter, memory_order_relaxed);
    while (left > 0) {
        if (!atomic_compare_exchange_weak_explicit(counter, &left, left - 1, memory_order_acquire,
                                                   memory_order_relaxed))
            continue;
        p->fn(p->context, share_begin(p, share) + left - 1, worker);
        done++;
        left = atomic_load_explicit(counter, memory_order_relaxed);
    }
    return done;
}

/* One's own share, then what is left of the others'; reports them all at once. */
static void work(struct pool *p, i32 worker)
{
    i64 done = 0;
    for (i32 i = 0; i < p->asked; i++) done += work_share(p, (worker + i) % p->asked, worker);
    if (done == 0 || atomic_fetch_sub(&p->unfinished, done) != done) return;
    if (atomic_load(&p->caller_asleep)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->work_done);
        pthread_mutex_unlock(&p->lock);
    }
}

static void sleep_until_work(struct pool *p, i64 seen)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->workers_asleep, 1);
    while (atomic_load(&p->posted) == seen) pthread_cond_wait(&p->work_came, &p->lock);
    atomic_fetch_sub(&p->workers_asleep, 1);
    pthread_mutex_unlock(&p->lock);
}

static void sleep_until_done(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_exchange(&p->caller_asleep, true);
    while (atomic_load(&p->unfinished) != 0) pthread_cond_wait(&p->work_done, &p->lock);
    atomic_store(&p->caller_asleep, false);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    struct pool   *p = w->pool;
    for (i64 seen; (seen = atomic_load(&p->posted)) >= 0;) {
        work(p, w->index);
        if (!spin_until(&p->posted, false, seen, p->spin_ns)) sleep_until_work(p, seen);
    }
    return NULL;
}

/* Publishes a new value of `posted` and wakes as many sleepers as can be useful. */
static void announce(struct pool *p, i64 posted, i64 wanted)
{
    atomic_exchange(&p->posted, posted);
    if (atomic_load(&p->workers_asleep) == 0) return;
    pthread_mutex_lock(&p->lock);
    i64 wake = MIN(wanted, atomic_load(&p->workers_asleep));
    for (i64 i = 0; i < wake; i++) pthread_cond_signal(&p->work_came);
    pthread_mutex_unlock(&p->lock);
}

struct pool *pool_open(struct arena *perm, i32 threads)
{
    ASSERT(threads >= 1);
    threads        = MIN(threads, POOL_THREADS_MAX);
    struct pool *p = NEW(perm, struct pool, 1);
    p->ids         = NEW(perm, pthread_t, threads);
    p->shares      = NEW(perm, struct share, threads);
    p->asked       = threads;
    p->spin_ns     = threads > pool_machine_threads() ? 0 : spin_ns;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work_came, NULL);
    pthread_cond_init(&p->work_done, NULL);

    struct worker *workers = NEW(perm, struct worker, threads);
    sigset_t       all, before; /* signals are for the thread that opened us */
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* a thread's own fault (os_map.c) */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (p->threads = 1; p->threads < threads; p->threads++) {
        struct worker *w = &workers[p->threads];
        *w               = (struct worker){ p, p->threads };
        if (pthread_create(&p->ids[p->threads], NULL, worker_main, w)) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return p;
}

void pool_close(struct pool *p)
{
    ASSERT(!atomic_load(&p->running));
    announce(p, -1, p->threads);
    for (i32 i = 1; i < p->threads; i++) pthread_join(p->ids[i], NULL);
    pthread_cond_destroy(&p->work_done);
    pthread_cond_destroy(&p->work_came);
    pthread_mutex_destroy(&p->lock);
}

i32 pool_threads(const struct pool *p) { return p->threads; }

void pool_run(struct pool *p, i64 blocks, pool_fn *fn, void *context)
{
    ASSERT(blocks >= 0);
    ASSERT(!atomic_exchange(&p->running, true)); /* nested or from two threads: our fault */
    if (p->threads == 1 || blocks <= 1) {
        for (i64 block = 0; block < blocks; block++) fn(context, block, 0);
    } else {
        p->fn      = fn;
        p->context = context;
        p->blocks  = blocks;
        atomic_store(&p->unfinished, blocks);
        for (i32 i = 0; i < p->threads; i++)
            atomic_store_explicit(&p->shares[i].left, share_begin(p, i + 1) - share_begin(p, i),
                                  memory_order_release);
        announce(p, atomic_load(&p->posted) + 1, blocks - 1);
        work(p, 0);
        if (!spin_until(&p->unfinished, true, 0, p->spin_ns)) sleep_until_done(p);
    }
    atomic_store(&p->running, false);
}
