/* checkpoint_writer.c - the thread of checkpoint_writer.h. What the two sides share is guarded by the mutex; the job
 * and the memory it points to belong to the thread while `busy`, and to the caller else. */
#include "train/checkpoint_writer.h"
#include "base/thread.h"
#include "run/clock.h"
#include <string.h>

enum { MEMORY_BYTES = 256 << 20 }; /* address space: headers and the manifest of one checkpoint */

struct checkpoint_writer {
    struct checkpoint_writer_config config;
    struct arena                    memory; /* the thread's own */
    struct ckpt_manifest            manifest;
    const struct ckpt_part         *parts;
    i64                             part_count;
    struct stopwatch                since; /* it was begun */

    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            awake, busy, copying, pruning, stop, told; /* told: `saved` was taken */
    atomic_bool     hurried; /* no reading back for pruning any more */
    struct saved    saved;
};

static i64 bytes_of(const struct ckpt_part *parts, i64 count)
{
    i64 bytes = 0;
    for (i64 i = 0; i < count; i++) {
        bytes += parts[i].whole.len;
        for (i64 t = 0; t < parts[i].count && !parts[i].whole.len; t++)
            bytes += parts[i].tensors[t].bytes.len;
    }
    return bytes;
}

/* Where the disk cannot take it, older ones make room, as long as a newer one is whole. */
static enum status write_in_room(struct checkpoint_writer *s, struct ckpt_manifest *m,
                                 struct arena *perm, struct arena scratch, struct saved *out)
{
    struct ckpt_store *store = s->config.store;
    struct str         path  = ckpt_store_path(store, &scratch, m->id);
    struct ckpt_id     went;
    i64                bytes = bytes_of(s->parts, s->part_count);
    for (;;) {
        i64 room = os_disk_free_bytes(path);
        if (room < 0 || room > bytes || ckpt_free_oldest(store, scratch, &went, NULL)) break;
        out->freed++;
    }
    for (;;) { /* a quota is seen by the write alone */
        struct arena turn = *perm;
        enum status  st = ckpt_write(store, m, s->parts, s->part_count, &turn, scratch, &out->err);
        if (!st) *perm = turn;
        if (!st || out->err.cause != CAUSE_FULL) return st;
        if (ckpt_free_oldest(store, scratch, &went, NULL)) return st;
        out->freed++;
    }
}

/* Sets the flag for all to see. */
static void change(struct checkpoint_writer *s, bool *flag, bool to)
{
    pthread_mutex_lock(&s->lock);
    *flag = to;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void save(struct checkpoint_writer *s)
{
    struct arena         perm = s->memory, scratch = arena_part(&perm, MEMORY_BYTES / 2);
    struct ckpt_manifest m   = s->manifest;
    struct saved         out = { 0 };
    enum status          st  = write_in_room(s, &m, &perm, scratch, &out);
    if (!st) out.err = (struct err){ 0 };
    out.err.status = st;
    out.id         = m.id;
    out.persist_s  = stopwatch_s(&s->since);
    if (!st) {
        out.bytes = ckpt_bytes(&m);
        if (s->config.saved) s->config.saved(s->config.context, s->config.store, &m);
        change(s, &s->pruning, true);
        /* What stays is no harm, and may go after the next save. */
        ckpt_prune_unless(s->config.store, s->config.keep, &s->hurried, scratch, NULL);
        change(s, &s->pruning, false);
    }
    out.busy_s = stopwatch_s(&s->since);
    s->saved   = out;
}

/* Until it is set, or we are to stop; returns it. */
static bool wait_for(struct checkpoint_writer *s, const bool *flag)
{
    pthread_mutex_lock(&s->lock);
    while (!*flag && !s->stop) pthread_cond_wait(&s->changed, &s->lock);
    bool is = *flag;
    pthread_mutex_unlock(&s->lock);
    return is;
}

static void *thread_main(void *context)
{
    struct checkpoint_writer *s = context;
    if (!wait_for(s, &s->awake)) return NULL;
    if (s->config.prepare) s->config.prepare(s->config.source);
    change(s, &s->busy, false);
    while (wait_for(s, &s->busy)) { /* one that was begun is finished before we stop */
        if (s->config.copy) s->config.copy(s->config.source);
        change(s, &s->copying, false);
        save(s);
        change(s, &s->busy, false);
    }
    return NULL;
}

enum status checkpoint_writer_open(const struct checkpoint_writer_config *c, struct arena *perm,
                                   struct checkpoint_writer **out, struct err *err)
{
    struct checkpoint_writer *s = NEW(perm, struct checkpoint_writer, 1);
    *s        = (struct checkpoint_writer){ .config = *c, .busy = true, .told = true };
    s->memory = arena_open(MEMORY_BYTES);
    *out      = NULL;
    if (!s->memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    pthread_mutex_init(&s->lock, NULL);
    thread_cond_init(&s->changed);
    enum status st = thread_start(&s->thread, thread_main, s, "the thread that saves", err);
    if (!st) *out = s;
    else arena_close(&s->memory);
    return st;
}

void checkpoint_writer_hurry(struct checkpoint_writer *s) { atomic_store(&s->hurried, true); }

void checkpoint_writer_close(struct checkpoint_writer *s)
{
    checkpoint_writer_hurry(s);
    change(s, &s->stop, true);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    arena_close(&s->memory);
}

void checkpoint_writer_prepare(struct checkpoint_writer *s) { change(s, &s->awake, true); }

bool checkpoint_writer_idle(struct checkpoint_writer *s)
{
    pthread_mutex_lock(&s->lock);
    bool idle = !s->busy;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

bool checkpoint_writer_writes(struct checkpoint_writer *s)
{
    pthread_mutex_lock(&s->lock);
    bool writes = s->busy && !s->pruning && !s->told;
    pthread_mutex_unlock(&s->lock);
    return writes;
}

bool checkpoint_writer_wait(struct checkpoint_writer *s, i64 limit_ns)
{
    struct deadline until = deadline_in(os_real(), limit_ns);
    pthread_mutex_lock(&s->lock);
    while (s->busy && thread_wait_until(&s->changed, &s->lock, until.at_ns)) continue;
    bool idle = !s->busy;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

void checkpoint_writer_begin(struct checkpoint_writer *s, const struct ckpt_manifest *m,
                             const struct ckpt_part *parts, i64 count)
{
    pthread_mutex_lock(&s->lock);
    ASSERT(!s->busy);
    s->manifest   = *m;
    s->parts      = parts;
    s->part_count = count;
    s->since      = stopwatch_start(s->config.os);
    s->told       = false;
    s->copying    = true;
    s->busy       = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool checkpoint_writer_copied(struct checkpoint_writer *s)
{
    pthread_mutex_lock(&s->lock);
    bool copied = !s->copying;
    pthread_mutex_unlock(&s->lock);
    return copied;
}

void checkpoint_writer_wait_copied(struct checkpoint_writer *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->copying) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

bool checkpoint_writer_take(struct checkpoint_writer *s, struct saved *out)
{
    pthread_mutex_lock(&s->lock);
    bool over = !s->busy && !s->told;
    if (over) *out = s->saved;
    s->told = s->told || over;
    pthread_mutex_unlock(&s->lock);
    return over;
}
