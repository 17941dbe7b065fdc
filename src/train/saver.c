/* saver.c - the thread behind saver.h. What the two sides share is guarded by the mutex; the job and
 * the memory it points to belong to the thread while `busy`, and to the caller else. */
#include "train/saver.h"
#include "base/thread.h"
#include <string.h>
#include <time.h>

enum { MEMORY_BYTES = 256 << 20 }; /* address space: headers and the manifest of one checkpoint */
enum { PAGE_BYTES = 4096 };

struct saver {
    struct saver_config     config;
    struct arena            memory; /* the thread's own */
    struct ckpt_manifest    manifest;
    const struct ckpt_part *parts;
    i64                     part_count, begin_ns;

    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            busy, stop, told; /* told: `saved` was taken */
    struct saved    saved;
};

static i64 now_ns(const struct saver *s) { return s->config.os->now_ns(s->config.os); }

static void save(struct saver *s)
{
    struct arena         perm = s->memory, scratch = arena_part(&perm, MEMORY_BYTES / 2);
    struct ckpt_manifest m   = s->manifest;
    struct saved         out = { 0 };
    enum status          st =
        ckpt_write(s->config.store, &m, s->parts, s->part_count, &perm, scratch, &out.err);
    out.err.status = st;
    out.id         = m.id;
    out.persist_s  = (f64)(now_ns(s) - s->begin_ns) * 1e-9;
    if (!st) {
        out.bytes = ckpt_bytes(&m);
        if (s->config.saved) s->config.saved(s->config.context, s->config.store, &m);
        ckpt_prune(s->config.store, s->config.keep, scratch, NULL); /* what stays is no harm */
    }
    s->saved = out;
}

static void touch(struct saver *s)
{
    volatile u8 *at = s->config.fresh;
    for (i64 i = 0; i < s->config.fresh_bytes; i += PAGE_BYTES) at[i] = 0;
}

static void *thread_main(void *context)
{
    struct saver *s    = context;
    bool          work = true;
    touch(s);
    while (work) {
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        pthread_cond_broadcast(&s->changed);
        while (!s->busy && !s->stop) pthread_cond_wait(&s->changed, &s->lock);
        work = s->busy; /* one that was begun is finished before we stop */
        pthread_mutex_unlock(&s->lock);
        if (work) save(s);
    }
    return NULL;
}

enum status saver_open(const struct saver_config *c, struct arena *perm, struct saver **out,
                       struct err *err)
{
    struct saver      *s = NEW(perm, struct saver, 1);
    pthread_condattr_t clock;
    *s        = (struct saver){ .config = *c, .busy = true, .told = true };
    s->memory = arena_open(MEMORY_BYTES);
    *out      = NULL;
    if (!s->memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &clock);
    pthread_condattr_destroy(&clock);
    enum status st = thread_start(&s->thread, thread_main, s, "the thread that saves", err);
    if (!st) *out = s;
    else arena_close(&s->memory);
    return st;
}

void saver_close(struct saver *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    arena_close(&s->memory);
}

bool saver_idle(struct saver *s)
{
    pthread_mutex_lock(&s->lock);
    bool idle = !s->busy;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

bool saver_wait(struct saver *s, i64 limit_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += limit_ns / 1000000000;
    until.tv_nsec += limit_ns % 1000000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&s->lock);
    while (s->busy && !pthread_cond_timedwait(&s->changed, &s->lock, &until)) continue;
    bool idle = !s->busy;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

void saver_begin(struct saver *s, const struct ckpt_manifest *m, const struct ckpt_part *parts,
                 i64 count)
{
    pthread_mutex_lock(&s->lock);
    ASSERT(!s->busy);
    s->manifest   = *m;
    s->parts      = parts;
    s->part_count = count;
    s->begin_ns   = now_ns(s);
    s->told       = false;
    s->busy       = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool saver_take(struct saver *s, struct saved *out)
{
    pthread_mutex_lock(&s->lock);
    bool over = !s->busy && !s->told;
    if (over) *out = s->saved;
    s->told = s->told || over;
    pthread_mutex_unlock(&s->lock);
    return over;
}
