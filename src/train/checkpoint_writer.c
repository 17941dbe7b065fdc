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
    bool            awake, busy, copying, pruning, stop, taken; /* taken: `saved` was */
    atomic_bool     hurried; /* no reading back for pruning any more */
    struct saved    saved;

    /* with others, between their thread and this one's */
    bool                     asks, answered; /* with the store */
    const struct ckpt_shard *others;
    i64                      other_count;
    struct err               failed;
    bool                     told, over; /* without: to write the checkpoint `id`; nothing more */
    struct ckpt_id           id;
    struct part_report       report;
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

/* Sets the flag for all to see, and wakes nobody for what is so already. */
static void change(struct checkpoint_writer *s, bool *flag, bool to)
{
    pthread_mutex_lock(&s->lock);
    if (*flag != to) pthread_cond_broadcast(&s->changed);
    *flag = to;
    pthread_mutex_unlock(&s->lock);
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

/* Until the others have written theirs too, also where our own failed: they write to that folder. */
static enum status wait_for_others(struct checkpoint_writer *s, struct ckpt_manifest *m,
                                   struct arena *perm, struct err *err)
{
    if (!wait_for(s, &s->answered))
        return err_set(err, STATUS_WORLD, "the run ended before all ranks had written their part");
    change(s, &s->answered, false);
    if (s->failed.status) {
        *err = s->failed;
        return err->status;
    }
    struct ckpt_shard *all = NEW(perm, struct ckpt_shard, m->shard_count + s->other_count);
    memcpy(all, m->shards, (size_t)m->shard_count * sizeof *all);
    memcpy(all + m->shard_count, s->others, (size_t)s->other_count * sizeof *all);
    m->shards = all;
    m->shard_count += s->other_count;
    return STATUS_OK;
}

/* As ckpt_write, with the parts of others. */
static enum status write_shared(struct checkpoint_writer *s, struct ckpt_manifest *m,
                                struct arena *perm, struct arena scratch, struct err *err)
{
    struct ckpt_store *store = s->config.store;
    struct err         why   = { 0 };
    enum status        st    = ckpt_begin(store, m, scratch, err);
    if (st) return st;
    s->id = m->id;
    change(s, &s->asks, true);
    st                 = ckpt_write_own(store, m, s->parts, s->part_count, perm, scratch, err);
    enum status others = wait_for_others(s, m, perm, &why);
    if (!st && others) {
        *err = why;
        st   = others;
    }
    if (!st) st = ckpt_commit(store, m, scratch, err);
    if (st) ckpt_drop(store, m, scratch);
    return st;
}

static enum status write_once(struct checkpoint_writer *s, struct ckpt_manifest *m,
                              struct arena *perm, struct arena scratch, struct err *err)
{
    if (s->config.shared) return write_shared(s, m, perm, scratch, err);
    return ckpt_write(s->config.store, m, s->parts, s->part_count, perm, scratch, err);
}

/* Where the disk cannot take it, older ones make room, as long as a newer one is whole. */
static enum status write_in_room(struct checkpoint_writer *s, struct ckpt_manifest *m,
                                 struct arena *perm, struct arena scratch, struct saved *out)
{
    struct ckpt_store *store = s->config.store;
    struct str         path  = ckpt_store_path(store, &scratch, m->id);
    struct ckpt_id     went;
    i64 bytes = s->config.bytes ? s->config.bytes : bytes_of(s->parts, s->part_count);
    for (;;) {
        i64 room = os_disk_free_bytes(path);
        if (room < 0 || room > bytes || ckpt_free_oldest(store, scratch, &went, NULL)) break;
        out->freed++;
    }
    for (;;) { /* a quota is seen by the write alone */
        struct arena turn = *perm;
        enum status  st   = write_once(s, m, &turn, scratch, &out->err);
        if (!st) *perm = turn;
        if (!st || out->err.cause != CAUSE_FULL) return st;
        if (ckpt_free_oldest(store, scratch, &went, NULL)) return st;
        out->freed++;
    }
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

/* Without a store: writes when it is told to, until it is over. */
static void save_beside(struct checkpoint_writer *s)
{
    struct ckpt_shard shards[COUNT_OF(s->report.bytes)];
    ASSERT(s->part_count <= COUNT_OF(shards));
    for (;;) {
        struct arena       perm = s->memory, scratch = arena_part(&perm, MEMORY_BYTES / 2);
        struct part_report r   = { .done = true };
        struct err         why = { 0 };
        pthread_mutex_lock(&s->lock);
        while (!s->told && !s->over && !s->stop) pthread_cond_wait(&s->changed, &s->lock);
        bool told = s->told;
        s->told   = false;
        pthread_mutex_unlock(&s->lock);
        if (!told) return;
        if (s->part_count)
            r.status = (i32)ckpt_write_beside(s->config.os, s->config.folder, s->id, s->parts,
                                              s->part_count, shards, &perm, scratch, &why);
        for (i64 i = 0; i < s->part_count && !r.status; i++) {
            r.bytes[i] = shards[i].bytes;
            r.hash[i]  = shards[i].hash;
        }
        pthread_mutex_lock(&s->lock);
        s->report = r;
        s->failed = why;
        pthread_mutex_unlock(&s->lock);
    }
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
        if (s->config.store) save(s);
        else save_beside(s);
        change(s, &s->busy, false);
    }
    return NULL;
}

enum status checkpoint_writer_open(const struct checkpoint_writer_config *c, struct arena *perm,
                                   struct checkpoint_writer **out, struct err *err)
{
    struct checkpoint_writer *s = NEW(perm, struct checkpoint_writer, 1);
    *s        = (struct checkpoint_writer){ .config = *c, .busy = true, .taken = true };
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
    bool writes = s->busy && !s->pruning && !s->taken;
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
    s->taken = s->told = s->over = s->asks = s->answered = false;
    s->report                                            = (struct part_report){ 0 };
    s->copying                                           = true;
    s->busy                                              = true;
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
    bool over = !s->busy && !s->taken;
    if (over) *out = s->saved;
    s->taken = s->taken || over;
    pthread_mutex_unlock(&s->lock);
    return over;
}

bool checkpoint_writer_asks(struct checkpoint_writer *s, struct ckpt_id *id)
{
    pthread_mutex_lock(&s->lock);
    bool asks = s->asks;
    s->asks   = false;
    if (asks) *id = s->id;
    pthread_mutex_unlock(&s->lock);
    return asks;
}

void checkpoint_writer_answer(struct checkpoint_writer *s, const struct ckpt_shard *shards,
                              i64 count, const struct err *failed)
{
    pthread_mutex_lock(&s->lock);
    s->others      = shards;
    s->other_count = count;
    s->failed      = *failed;
    s->answered    = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void checkpoint_writer_write(struct checkpoint_writer *s, struct ckpt_id id)
{
    pthread_mutex_lock(&s->lock);
    s->id     = id;
    s->report = (struct part_report){ 0 };
    s->told   = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

struct part_report checkpoint_writer_report(struct checkpoint_writer *s, struct err *err)
{
    pthread_mutex_lock(&s->lock);
    struct part_report r = s->report;
    if (r.status) *err = s->failed;
    pthread_mutex_unlock(&s->lock);
    return r;
}

void checkpoint_writer_over(struct checkpoint_writer *s)
{
    change(s, &s->over, true);
    while (!checkpoint_writer_wait(s, 1000000000)) continue;
}
