/* upload.c - the uploader's thread.
 *
 *     offer ─► waiting ─► running ─► in the store; older ones are tagged or deleted
 *                ▲           │
 *                └── again ◄─┘ failed, and nothing newer waits */
#include "store/upload.h"
#include "base/digits.h"
#include "base/thread.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TAGGED_MAX = 64 };
static const i64 memory_bytes = (i64)256 << 20; /* address space: lists, manifests, replies */
static const i64 slice_ns     = 20000000;
static const i64 again_ns     = 1000000000; /* each try has been patient itself */
static const i64 silent_ns    = 1000000000; /* a wait at the end that nobody needs to hear of */
static const i64 tidy_ns      = 1000000000; /* at the end of a run, for deleting older ones */
static const f64 retire_s = 10; /* for tagging all; a store that answers takes some 0.02 s a tag */
static const f64 patience_s = 120, patience_factor = 2;

struct job {
    struct ckpt_id id; /* attempt 0: none */
    i64            bytes;
};

struct uploader {
    struct os          *os;
    struct ckpt_remote *remote;
    struct ckpt_store  *store;
    i64                 keep, attempt;
    struct str          to;     /* the address, for messages */
    f64                 wait_s; /* as in the settings */
    struct arena        memory;
    struct ckpt_id      tagged[TAGGED_MAX]; /* by this process, the latest; the thread's own */
    i64                 tagged_count;
    struct ckpt_id      verified; /* the last that was read back from the store; the thread's own */
    pthread_t           thread;
    pthread_mutex_t     lock; /* of what follows */
    pthread_cond_t      wake;
    struct job          running, waiting;
    i64                 out_before;          /* bytes sent when the running one began */
    i64                 sent_bytes, sent_ns; /* of the uploads that are done */
    bool                stop;
    bool                tidying;  /* older ones are deleted or tagged */
    bool                retiring; /* the run is over: all are tagged, and then the thread ends */
    bool                hurried;  /* the run ends: what waits is not to wait for pruning */
    struct upload_state state;
    atomic_bool         urgent;     /* nothing is read back any more; without the lock */
    i64 (*until_ns)(void *context); /* of uploader_listen; the caller's own */
    void *context;
};

/* After a change of what it is made of. Under the lock. */
static void judge_urgent(struct uploader *u)
{
    atomic_store(&u->urgent, u->stop || u->retiring || (u->hurried && u->waiting.id.attempt));
}

/* --- one checkpoint -------------------------------------------------------------------------------- */

static enum status read_manifest(struct uploader *u, struct str folder, struct arena *perm,
                                 struct ckpt_manifest *m, struct err *err)
{
    struct str  text, path = str_fmt(perm, "%.*s/" CKPT_MANIFEST, STR_ARG(folder));
    enum status st = os_read_all(u->os, path, perm, &text, err);
    return st ? st : ckpt_manifest_parse(path, text, perm, m, err);
}

static bool is_tagged(const struct uploader *u, struct ckpt_id id)
{
    for (i64 i = 0; i < MIN(u->tagged_count, TAGGED_MAX); i++)
        if (!ckpt_order(u->tagged[i], id)) return true;
    return false;
}

/* The newest `keep` and the best stay; of these, all but the newest and the best are tagged. With
 * `all`, the run is over and every one is tagged. What stays because something was urgent goes after
 * the next upload. */
static enum status settle_others(struct uploader *u, bool all, struct arena scratch,
                                 struct err *err)
{
    struct arena     lists = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct ckpt_list list;
    enum status      st = ckpt_remote_list(u->remote, &lists, scratch, &list, err);
    if (!st && u->keep)
        st = ckpt_remote_prune_unless(u->remote, &list, u->keep, &u->verified, &u->urgent, scratch,
                                      err);
    if (st == STATUS_INTERRUPTED && atomic_load(&u->urgent)) {
        if (err) *err = (struct err){ 0 };
        if (!all) return STATUS_OK;
        st = STATUS_OK;
    }
    i64 best = st ? -1 : ckpt_best(&list), seen = 0;
    for (i64 i = 0; i < list.count && !st; i++) {
        const struct ckpt *c = &list.items[i];
        if (c->why.status) continue;
        bool stays = (seen == 0 || i == best) && !all;
        seen++;
        if (stays || is_tagged(u, c->id)) continue;
        st = ckpt_remote_retire(u->remote, &c->manifest, scratch, err);
        if (!st) u->tagged[u->tagged_count++ % TAGGED_MAX] = c->id;
    }
    return st;
}

static void tell_taken_over(struct uploader *u, i64 by)
{
    pthread_mutex_lock(&u->lock);
    u->state.taken_over_by = by;
    pthread_mutex_unlock(&u->lock);
}

static enum status carry(struct uploader *u, struct ckpt_id id, enum s3_upload_how how,
                         i64 *wall_ns, struct err *err)
{
    struct arena         scratch = u->memory;
    struct ckpt_manifest m;
    i64                  by     = 0;
    struct str           folder = ckpt_store_path(u->store, &scratch, id);
    enum status          st     = read_manifest(u, folder, &scratch, &m, err);
    if (!st) st = ckpt_remote_put(u->remote, folder, &m, how, scratch, err);
    if (st) return st;
    *wall_ns = m.wall_ns;
    /* Only then: a later start may go on from what we have just brought. */
    if (!ckpt_remote_taken_over(u->remote, u->attempt, scratch, &by, NULL) && by)
        tell_taken_over(u, by);
    return STATUS_OK;
}

/* --- the thread ------------------------------------------------------------------------------------ */

/* Until there is something to do; false: stop. Under the lock. */
static bool next_job(struct uploader *u)
{
    while (!u->stop && !u->retiring && !u->waiting.id.attempt)
        pthread_cond_wait(&u->wake, &u->lock);
    if (u->stop || u->retiring) return false;
    u->running = u->waiting;
    u->waiting = (struct job){ 0 };
    judge_urgent(u);
    u->out_before = ckpt_remote_sums(u->remote).bytes_out;
    return true;
}

/* Under the lock. */
static void job_done(struct uploader *u, i64 wall_ns, i64 took_ns)
{
    u->sent_bytes += u->running.bytes;
    u->sent_ns += took_ns;
    u->state.newest         = u->running.id;
    u->state.newest_wall_ns = wall_ns;
    u->state.failed         = (struct err){ 0 };
}

/* Before the next try, unless something newer comes. Under the lock, which it lends away. */
static bool wait_again(struct uploader *u)
{
    i64 end = u->os->now_ns(u->os) + again_ns;
    while (!u->stop && !u->waiting.id.attempt && thread_wait_until(&u->wake, &u->lock, end))
        continue;
    return !u->stop && !u->waiting.id.attempt;
}

/* Under the lock, which is lent away while bytes flow. */
static void run_job(struct uploader *u)
{
    enum s3_upload_how how = S3_FRESH;
    struct ckpt_id     id  = u->running.id;
    for (;;) {
        struct err err     = { 0 };
        i64        wall_ns = 0, begin = u->os->now_ns(u->os);
        pthread_mutex_unlock(&u->lock);
        enum status st = carry(u, id, how, &wall_ns, &err);
        pthread_mutex_lock(&u->lock);
        if (!st) {
            job_done(u, wall_ns, u->os->now_ns(u->os) - begin);
            return;
        }
        u->state.failed = err;
        how             = S3_RESUME;
        if (!wait_again(u)) return;
    }
}

static void *work(void *context)
{
    struct uploader *u    = context;
    bool             left = false; /* an upload failed and may have left parts */
    pthread_mutex_lock(&u->lock);
    while (next_job(u)) {
        run_job(u);
        ckpt_unpin(u->store, u->running.id);
        u->running      = (struct job){ 0 };
        bool       done = !u->state.failed.status;
        struct err err  = { 0 };
        u->tidying      = true;
        pthread_mutex_unlock(&u->lock);
        if (done && left) ckpt_remote_give_up(u->remote, u->memory, &err);
        if (done && !err.status) settle_others(u, false, u->memory, &err);
        left = !done;
        pthread_mutex_lock(&u->lock);
        if (err.status) u->state.note = err;
        u->tidying = false;
        pthread_cond_broadcast(&u->wake);
    }
    bool retire = u->retiring && !u->stop;
    pthread_mutex_unlock(&u->lock);
    if (retire) settle_others(u, true, u->memory, NULL);
    pthread_mutex_lock(&u->lock);
    u->retiring = false;
    pthread_cond_broadcast(&u->wake);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* --- the outside ----------------------------------------------------------------------------------- */

enum status uploader_start(struct os *os, const struct upload_settings *c, struct ckpt_store *store,
                           struct arena *perm, struct uploader **out, struct err *err)
{
    struct uploader *u = NEW(perm, struct uploader, 1);
    u->os              = os;
    u->store           = store;
    u->keep            = c->keep;
    u->to              = str_copy(perm, c->where.to);
    u->wait_s          = c->wait_s;
    u->memory          = arena_open(memory_bytes);
    *out               = NULL;
    if (!u->memory.begin) return err_set(err, STATUS_WORLD, "no memory for the uploader");
    enum status st = ckpt_remote_open(os, c->web, &c->where, perm, &u->remote, err);
    if (!st)
        st = ckpt_remote_claim(u->remote, ckpt_attempt_last(store), u->memory, &u->attempt,
                               &u->state.alone, err);
    pthread_mutex_init(&u->lock, NULL);
    thread_cond_init(&u->wake);
    if (!st) st = thread_start(&u->thread, work, u, "the uploader's thread", err);
    if (!st) *out = u;
    else {
        if (u->remote) ckpt_remote_close(u->remote);
        arena_close(&u->memory);
    }
    return st;
}

i64 uploader_attempt(const struct uploader *u) { return u->attempt; }

/* An earlier start may have ended before its last checkpoint was in the store. */
static void offer_missing(struct uploader *u, struct ckpt_id have)
{
    struct arena         scratch = u->memory; /* the thread has nothing to do yet */
    struct ckpt_manifest m;
    struct str           folder = ckpt_store_path(u->store, &scratch, have);
    if (!have.attempt || ckpt_remote_holds(u->remote, have, scratch)) return;
    if (!read_manifest(u, folder, &scratch, &m, NULL)) uploader_offer(u, &m);
}

enum status uploader_restore(struct uploader *u, struct ckpt_id have, struct arena *perm,
                             struct str *said, struct ckpt_id *got, struct err *err)
{
    enum status st =
        ckpt_remote_fetch_newer(u->remote, have, u->store, perm, u->memory, said, got, err);
    if (st == STATUS_NO) offer_missing(u, have);
    return st;
}

enum status uploader_clear(struct uploader *u, struct err *err)
{
    struct arena     scratch = u->memory, lists = arena_part(&scratch, memory_bytes / 4);
    struct ckpt_list list;
    enum status      st = ckpt_remote_list(u->remote, &lists, scratch, &list, err);
    for (i64 i = list.count - 1; i >= 0 && !st; i--) {
        const struct ckpt *c = &list.items[i];
        if (!c->why.status) st = ckpt_remote_delete(u->remote, &c->manifest, scratch, err);
        if (c->why.status == STATUS_NO)
            st = ckpt_remote_delete_listed(u->remote, c->id, scratch, err);
    }
    return st;
}

void uploader_offer(struct uploader *u, const struct ckpt_manifest *m)
{
    pthread_mutex_lock(&u->lock);
    if (u->waiting.id.attempt) ckpt_unpin(u->store, u->waiting.id);
    u->waiting = (struct job){ m->id, ckpt_bytes(m) };
    ckpt_pin(u->store, m->id);
    judge_urgent(u);
    pthread_cond_signal(&u->wake);
    pthread_mutex_unlock(&u->lock);
}

void uploader_hurry(struct uploader *u)
{
    pthread_mutex_lock(&u->lock);
    u->hurried = true;
    judge_urgent(u);
    pthread_mutex_unlock(&u->lock);
}

void uploader_listen(struct uploader *u, i64 (*until_ns)(void *context), void *context)
{
    u->until_ns = until_ns;
    u->context  = context;
}

struct upload_state uploader_state(struct uploader *u)
{
    pthread_mutex_lock(&u->lock);
    struct upload_state s = u->state;
    s.busy                = u->running.id.attempt || u->waiting.id.attempt;
    s.sums                = ckpt_remote_sums(u->remote);
    s.bytes_s             = u->sent_ns > 0 ? (f64)u->sent_bytes / ((f64)u->sent_ns * 1e-9) : 0;
    s.bytes_left          = u->waiting.bytes;
    if (u->running.id.attempt)
        s.bytes_left += MAX(0, u->running.bytes - (s.sums.bytes_out - u->out_before));
    pthread_mutex_unlock(&u->lock);
    return s;
}

/* That, or what the caller has set meanwhile. */
static i64 sooner_ns(struct uploader *u, i64 until_ns)
{
    i64 now = u->until_ns ? u->until_ns(u->context) : 0;
    return now && (!until_ns || now < until_ns) ? now : until_ns;
}

enum status uploader_wait_until(struct uploader *u, i64 until_ns, struct err *err)
{
    for (;;) {
        until_ns              = sooner_ns(u, until_ns);
        struct upload_state s = uploader_state(u);
        if (s.taken_over_by)
            return err_set(
                err, STATUS_INTERRUPTED,
                "start %lld of this run has taken over from this one, which was number %lld",
                (long long)s.taken_over_by, (long long)u->attempt);
        if (!s.busy) return STATUS_OK;
        if (until_ns && u->os->now_ns(u->os) >= until_ns)
            return err_set(err, STATUS_NO,
                           "the last checkpoint is not in the object store: %s MB were left%s%s",
                           DIGITS((f64)s.bytes_left / 1e6), s.failed.status ? "; " : "",
                           s.failed.text);
        u->os->sleep_ns(u->os, slice_ns);
    }
}

/* Drops the waiting one: what runs is the last that can be in time. Returns its bytes; 0: none waited. */
static i64 drop_waiting(struct uploader *u)
{
    pthread_mutex_lock(&u->lock);
    i64 bytes = u->waiting.bytes;
    if (u->waiting.id.attempt) ckpt_unpin(u->store, u->waiting.id);
    u->waiting = (struct job){ 0 };
    judge_urgent(u);
    pthread_mutex_unlock(&u->lock);
    return bytes;
}

static f64 expected_s(const struct upload_state *s)
{
    return s->bytes_s > 0 ? (f64)s->bytes_left / s->bytes_s : 0;
}

enum status uploader_wait_end(struct uploader *u, i64                                 deadline_ns,
                              void (*say)(void *context, const char *sentence), void *context,
                              struct err *err)
{
    struct upload_state s      = uploader_state(u);
    i64                 now_ns = u->os->now_ns(u->os);
    f64  wait_s = isnan(u->wait_s) ? MAX(patience_s, patience_factor * expected_s(&s)) : u->wait_s;
    i64  until  = deadline_ns ? deadline_ns : now_ns + (i64)(wait_s * 1e9);
    char text[700];
    struct err why     = { 0 };
    i64        dropped = 0;
    uploader_hurry(u);
    if (expected_s(&s) * 1e9 > (f64)(until - now_ns)) dropped = drop_waiting(u);
    enum status st = uploader_wait_until(u, MIN(until, now_ns + silent_ns), &why);
    until          = sooner_ns(u, until);
    if (st == STATUS_NO && now_ns + silent_ns < until) {
        s = uploader_state(u);
        snprintf(text, sizeof text,
                 "waiting for the upload to %.*s, at most %.0f s (%s): %s MB are left%s%s",
                 STR_ARG(u->to), (f64)(until - now_ns) * 1e-9,
                 deadline_ns ? "then the machine is taken away" : "checkpoint.upload_wait_s",
                 DIGITS((f64)s.bytes_left / 1e6), s.failed.status ? "; " : "", s.failed.text);
        if (say) say(context, text);
        st = uploader_wait_until(u, until, &why);
    }
    if (!st && dropped)
        st = err_set(
            &why, STATUS_NO,
            "the last checkpoint is not in the object store: there was no time for its %s MB",
            DIGITS((f64)dropped / 1e6));
    if (st != STATUS_NO) return st ? err_set(err, st, "%s", why.text) : st;
    struct str folder = ckpt_store_folder(u->store);
    return err_set(
        err, st,
        "%.300s. It is complete in %.*s; upload it later with: frugal checkpoints copy %.*s %.*s",
        why.text, STR_ARG(folder), STR_ARG(folder), STR_ARG(u->to));
}

struct s3_sums uploader_close(struct uploader *u, bool ended)
{
    i64 end = u->os->now_ns(u->os) + tidy_ns;
    drop_waiting(u);
    pthread_mutex_lock(&u->lock);
    while (ended && u->tidying && thread_wait_until(&u->wake, &u->lock, end)) continue;
    u->retiring = ended && !u->running.id.attempt;
    judge_urgent(u);
    pthread_cond_broadcast(&u->wake);
    end = u->os->now_ns(u->os) + (i64)(fmin(retire_s, u->wait_s) * 1e9); /* of a NaN the other */
    while (u->retiring && thread_wait_until(&u->wake, &u->lock, end)) continue;
    bool cut = !ended || u->retiring || u->running.id.attempt;
    u->stop  = true;
    judge_urgent(u);
    pthread_cond_broadcast(&u->wake);
    pthread_mutex_unlock(&u->lock);
    if (cut) ckpt_remote_cancel(u->remote);
    pthread_join(u->thread, NULL);
    struct s3_sums sums = ckpt_remote_sums(u->remote);
    ckpt_remote_close(u->remote);
    pthread_mutex_destroy(&u->lock);
    pthread_cond_destroy(&u->wake);
    arena_close(&u->memory);
    return sums;
}
