/* place_shards.c - samples in tar shards, local or remote.
 *
 * Opening asks for every shard's index, many at once: it lies beside the shard (SHARD.idx), or in the
 * cache folder from an earlier run, or it is made now from the shard and kept. An index beside a shard
 * is believed when it speaks of as many bytes as the shard has and, on a disk, is not older; and each
 * read compares the member's header with it, so that a sample is the one that is meant or an error. */
#include "base/digits.h"
#include "base/hash.h"
#include "base/thread.h"
#include "data/data_int.h"
#include "data/place_int.h"
#include "data/remote_cache.h"
#include "data/shard.h"
#include "data/tar.h"
#include "remote/address.h"
#include <stdio.h>
#include <string.h>

enum { OPENERS_MAX = 16, RUNNERS = 2 };
static const i64 block_max       = 1 << 18;
static const i64 index_bytes_max = (i64)4 << 30;
static const i64 piece_bytes     = 8 << 20; /* of one request */
static const i64 scratch_bytes   = 1 << 20;
static const i64 shown_max       = 200;

struct shard {
    struct str         path; /* or address */
    struct remote_file version;
    struct shard_index index;
    struct str         mapped; /* what its index lies in, or: */
    struct arena       own;
    bool               made; /* the index, now */
};

/* Threads that run ahead of the readers: while a block is read, the shards of the next are fetched. */
struct ahead {
    pthread_t       thread[RUNNERS];
    i64             threads;
    pthread_mutex_t lock; /* of what follows, except for stop */
    pthread_cond_t  moved;
    i64             count, epoch; /* of which order; count 0: none yet */
    u64             seed;
    i64             turn; /* the next shard to fetch */
    i64             end;  /* shards that begin before this index are wanted */
    atomic_bool     stop;
};

struct shards {
    struct os           *os;
    struct str           cache_folder; /* empty: nothing can be kept */
    struct remote_files *remote;
    struct remote_cache *cache; /* NULL: they are local */
    struct shard        *shard;
    i64                  count;
    i64                 *begin; /* [count + 1]: number of the first sample */
    bool                 told;  /* that remote shards were read whole */
    struct ahead         ahead;
};

/* --- indexes --------------------------------------------------------------------------------------- */

static bool is_local(const struct shards *s) { return !s->cache; }

/* SHARD.idx, in front of what an address may ask behind a question mark. */
static struct str beside(struct str path, struct arena *perm)
{
    i64 query = address_path(path).len;
    return str_fmt(perm, "%.*s.idx%.*s", (int)query, path.data, (int)(path.len - query),
                   path.data + query);
}

/* Where the cache keeps the index of this version of that file. */
static struct str kept_name(const struct shards *s, struct str path, const struct remote_file *v,
                            struct arena *perm)
{
    struct str all = str_fmt(perm, "%.*s\n%s\n%lld", STR_ARG(path), v->tag, (long long)v->bytes);
    return str_fmt(perm, "%.*s/indexes/%016llx.idx", STR_ARG(s->cache_folder),
                   (unsigned long long)xxh64(all));
}

/* Takes the bytes for the shard's index if they are one and speak of this shard. */
static bool take_index(struct shard *x, struct str bytes)
{
    return !shard_index_parse(x->path, bytes, &x->index, NULL) &&
           x->index.shard_bytes == x->version.bytes;
}

static bool map_index(struct os *os, struct shard *x, struct str path)
{
    struct str bytes;
    if (os->map(os, path, &bytes, NULL)) return false;
    if (take_index(x, bytes)) {
        x->mapped = bytes;
        return true;
    }
    os->unmap(os, bytes);
    return false;
}

/* The index's bytes, made or fetched, into a file that later runs find; else they stay in memory. */
static void keep_index(const struct shards *s, struct shard *x, struct str bytes, struct str path,
                       struct arena scratch)
{
    struct os *os   = s->os;
    struct str near = beside(x->path, &scratch);
    struct str dir  = str_cat(&scratch, s->cache_folder, STR("/indexes"));
    bool       kept =
        is_local(s) && !os_publish(os, near, bytes, scratch, NULL) && map_index(os, x, near);
    bool was = os_private(true);
    if (!kept && s->cache_folder.len && !os->make_dir(os, dir, NULL))
        kept = !os_publish(os, path, bytes, scratch, NULL) && map_index(os, x, path);
    os_private(was);
    if (kept) arena_close(&x->own);
    else ASSERT(take_index(x, bytes));
}

/* A shard for which the cache has no room, into memory. */
static enum status read_whole(const struct shards *s, const struct shard *x, struct arena *own,
                              struct str *bytes, struct err *err)
{
    i64         all = x->version.bytes;
    enum status st  = STATUS_OK;
    *own            = arena_open(all + 4096);
    if (!own->begin)
        return err_set(err, STATUS_WORLD, "no memory for a shard of %lld bytes", (long long)all);
    char *to = NEW(own, char, all);
    for (i64 at = 0; at < all && !st; at += piece_bytes)
        st = remote_file_read(s->remote, x->path, &x->version, at, MIN(piece_bytes, all - at),
                              to + at, NULL, err);
    if (st) arena_close(own);
    *bytes = (struct str){ to, all };
    return st;
}

/* From the shard itself. */
static enum status make_index(const struct shards *s, struct shard *x, struct str kept,
                              struct arena scratch, struct err *err)
{
    struct os   *os = s->os;
    struct str   bytes, index;
    struct file  pin   = { -1 };
    struct arena whole = { 0 };
    enum status  st    = is_local(s)
                             ? os->map(os, x->path, &bytes, err)
                             : remote_cache_map(s->cache, x->path, &x->version, &bytes, &pin, err);
    if (st == STATUS_NO) st = read_whole(s, x, &whole, &bytes, err);
    if (st) return st;
    x->own = arena_open(bytes.len + (1 << 20));
    if (!x->own.begin) st = err_set(err, STATUS_WORLD, "no memory for an index");
    struct str shown = address_shown(&scratch, x->path);
    if (!st) st = shard_index_make(shown, bytes, str_of(x->version.tag), &x->own, &index, err);
    if (whole.begin) arena_close(&whole);
    else if (bytes.len) os->unmap(os, bytes);
    if (pin.fd >= 0) os->close(os, &pin, NULL);
    if (!st) keep_index(s, x, index, kept, scratch);
    x->made = !st;
    return st;
}

static enum status open_local(const struct shards *s, struct shard *x, struct arena scratch,
                              struct err *err)
{
    struct os     *os = s->os;
    struct os_stat shard, index;
    struct str     path = beside(x->path, &scratch);
    enum status    st   = os->stat(os, x->path, &shard, err);
    if (st) return st;
    x->version.bytes = shard.bytes;
    struct arena tag = { (u8 *)x->version.tag, (u8 *)x->version.tag + sizeof x->version.tag, NULL };
    str_fmt(&tag, "mtime:%lld", (long long)shard.mtime_ns);
    struct str kept = kept_name(s, x->path, &x->version, &scratch);
    if (!os->stat(os, path, &index, NULL) && index.mtime_ns >= shard.mtime_ns &&
        map_index(os, x, path))
        return STATUS_OK;
    if (s->cache_folder.len && map_index(os, x, kept)) return STATUS_OK;
    return make_index(s, x, kept, scratch, err);
}

/* The index that lies beside it; NO: there is none that fits. */
static enum status fetch_index(const struct shards *s, struct shard *x, struct arena scratch,
                               struct err *err)
{
    struct str         url = beside(x->path, &scratch);
    struct remote_file v;
    if (remote_file_stat(s->remote, url, NULL, &v, NULL) || v.bytes > index_bytes_max)
        return STATUS_NO;
    struct str kept = kept_name(s, url, &v, &scratch);
    if (s->cache_folder.len && map_index(s->os, x, kept)) return STATUS_OK;
    x->own = arena_open(v.bytes + 4096);
    if (!x->own.begin) return err_set(err, STATUS_WORLD, "no memory for an index");
    char       *to = arena_take(&x->own, v.bytes, 1, 8);
    enum status st =
        v.bytes ? remote_file_read(s->remote, url, &v, 0, v.bytes, to, NULL, err) : STATUS_OK;
    if (!st && take_index(x, (struct str){ to, v.bytes })) {
        keep_index(s, x, (struct str){ to, v.bytes }, kept, scratch);
        return STATUS_OK;
    }
    arena_close(&x->own);
    return st ? st : STATUS_NO;
}

static enum status open_remote(const struct shards *s, struct shard *x, struct arena scratch,
                               struct err *err)
{
    enum status st = remote_file_stat(s->remote, x->path, NULL, &x->version, err);
    if (st) return st == STATUS_NO ? STATUS_USAGE : st;
    struct str kept = kept_name(s, x->path, &x->version, &scratch);
    if (s->cache_folder.len && map_index(s->os, x, kept)) return STATUS_OK;
    st = fetch_index(s, x, scratch, err);
    return st == STATUS_NO ? make_index(s, x, kept, scratch, err) : st;
}

/* --- opening all of them --------------------------------------------------------------------------- */

struct opening { /* shared by the threads that open */
    struct shards  *shards;
    atomic_llong    next;
    pthread_mutex_t lock; /* of what follows: the fault of the first shard that has one */
    i64             bad;
    struct err      err;
};

static void *open_some(void *context)
{
    struct opening *o       = context;
    struct shards  *s       = o->shards;
    struct arena    scratch = arena_open(scratch_bytes);
    struct err      err     = { .status = STATUS_WORLD, .text = "no memory to open a shard" };
    for (i64 i; (i = atomic_fetch_add(&o->next, 1)) < s->count;) {
        enum status st = STATUS_WORLD;
        if (scratch.begin)
            st = is_local(s) ? open_local(s, &s->shard[i], scratch, &err)
                             : open_remote(s, &s->shard[i], scratch, &err);
        if (!st) continue;
        pthread_mutex_lock(&o->lock);
        if (i < o->bad) o->bad = i, o->err = err;
        pthread_mutex_unlock(&o->lock);
        atomic_store(&o->next, s->count); /* what is not yet begun need not be */
    }
    if (scratch.begin) arena_close(&scratch);
    return NULL;
}

static enum status open_all(struct shards *s, struct err *err)
{
    struct opening o = { .shards = s, .bad = INT64_MAX };
    pthread_t      thread[OPENERS_MAX];
    i64            threads = 0;
    pthread_mutex_init(&o.lock, NULL);
    while (threads < MIN(s->count, OPENERS_MAX) - 1 &&
           !thread_start(&thread[threads], open_some, &o, "a thread that opens shards", NULL))
        threads++;
    open_some(&o);
    for (i64 i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&o.lock);
    if (o.bad == INT64_MAX) return STATUS_OK;
    return err_set(err, o.err.status, "%s", o.err.text);
}

/* So many that the cache holds what this block and the next need, and the shards they share. */
static i64 block_of(const struct shards *s, const struct data_config *config)
{
    i64 bytes = 0, largest = 0, samples = MAX(s->begin[s->count], 1);
    if (config->shuffle_block) return config->shuffle_block;
    for (i64 i = 0; i < s->count; i++) {
        bytes += s->shard[i].version.bytes;
        largest = MAX(largest, s->shard[i].version.bytes);
    }
    if (largest > config->cache_bytes) return block_max; /* nothing is kept, so nothing is gained */
    f64 held = (f64)(config->cache_bytes - 2 * largest) / 2 / ((f64)bytes / (f64)samples);
    return (i64)MIN(MAX(held, 1), (f64)block_max);
}

/* --- running ahead --------------------------------------------------------------------------------- */

static void *run_ahead(void *context)
{
    struct place  *p = context;
    struct shards *s = p->state;
    struct ahead  *a = &s->ahead;
    pthread_mutex_lock(&a->lock);
    while (!atomic_load(&a->stop)) {
        i64 begin = 0, shard = -1;
        if (a->count) shard = order_shard(p->order, a->count, a->seed, a->epoch, a->turn, &begin);
        if (shard < 0 || begin >= a->end) {
            pthread_cond_wait(&a->moved, &a->lock);
            continue;
        }
        a->turn++;
        pthread_mutex_unlock(&a->lock);
        struct shard *x = &s->shard[shard];
        remote_cache_fetch(s->cache, x->path, &x->version, &a->stop, NULL); /* a reader will tell */
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void ahead_start(struct place *p)
{
    struct shards *s = p->state;
    struct ahead  *a = &s->ahead;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->moved, NULL);
    while (a->threads < RUNNERS && !thread_start(&a->thread[a->threads], run_ahead, p,
                                                 "a thread that fetches shards", NULL))
        a->threads++;
}

static void ahead_end(struct ahead *a)
{
    pthread_mutex_lock(&a->lock);
    atomic_store(&a->stop, true);
    pthread_cond_broadcast(&a->moved);
    pthread_mutex_unlock(&a->lock);
    for (i64 i = 0; i < a->threads; i++) pthread_join(a->thread[i], NULL);
    pthread_cond_destroy(&a->moved);
    pthread_mutex_destroy(&a->lock);
}

/* The readers have come to that index: to the end of the next block all shall be there. */
static void ahead_shards(const struct place *p, i64 count, u64 seed, i64 epoch, i64 index)
{
    struct shards *s     = p->state;
    struct ahead  *a     = &s->ahead;
    i64            block = index / p->block, end = (block + 2) * p->block;
    if (!a->threads) return;
    pthread_mutex_lock(&a->lock);
    if (a->count != count || a->seed != seed || a->epoch < epoch) {
        a->count = count;
        a->seed  = seed;
        a->epoch = epoch;
        a->end   = 0;
    }
    if (a->epoch == epoch && end > a->end) { /* one that asks late moves nothing back */
        /* From this block's first shard: those that are there count as just read, or room for the next block would be
         * made of them, since they were fetched before the last block's shards were read for the last time. */
        a->turn = order_turn(p->order, count, seed, epoch, block * p->block);
        a->end  = end;
        pthread_cond_broadcast(&a->moved);
    }
    pthread_mutex_unlock(&a->lock);
}

static enum status open_shards(struct place *p, const struct data_config *config, struct str path,
                               struct err *err)
{
    struct shards *s = p->state = NEW(&p->own, struct shards, 1);
    struct str    *paths;
    s->os           = p->os;
    s->remote       = config->remote;
    s->cache_folder = cache_dir(p->os, config->cache, &p->own);
    if (s->cache_folder.len > REMOTE_CACHE_FOLDER_MAX - 16)
        return err_set(err, STATUS_USAGE, "data.cache is a name of %lld bytes, which is too long",
                       (long long)s->cache_folder.len);
    enum status st = pattern_expand(path, &p->own, &paths, &s->count, err);
    if (st) return st;
    if (address_is_remote(path) && !s->remote)
        return err_set(err, STATUS_USAGE, "%.*s: remote files cannot be reached from here",
                       (int)MIN(path.len, 200), path.data);
    if (address_is_remote(path))
        s->cache =
            remote_cache_new(p->os, s->remote, str_cat(&p->own, s->cache_folder, STR("/files")),
                             s->cache_folder.len ? config->cache_bytes : 0, &p->own);
    s->shard = NEW(&p->own, struct shard, s->count);
    for (i64 i = 0; i < s->count; i++) s->shard[i].path = paths[i];
    st = open_all(s, err);
    if (st) return st;
    s->begin = NEW(&p->own, i64, s->count + 1);
    for (i64 i = 0; i < s->count; i++) {
        const struct shard_index *x = &s->shard[i].index;
        s->begin[i + 1]             = s->begin[i] + x->count;
        for (i64 k = 0; k < x->count; k++) p->classes = MAX(p->classes, x->sample[k].class + 1);
    }
    p->count = s->begin[s->count];
    p->block = block_of(s, config);
    p->order = order_new(&p->own, s->begin, s->count, p->block);
    if (s->cache) ahead_start(p);
    return STATUS_OK;
}

static void close_shards(struct place *p)
{
    struct shards *s = p->state;
    if (s && s->ahead.threads) ahead_end(&s->ahead);
    for (i64 i = 0; s && s->shard && i < s->count; i++) {
        if (s->shard[i].mapped.len) s->os->unmap(s->os, s->shard[i].mapped);
        if (s->shard[i].own.begin) arena_close(&s->shard[i].own);
    }
    if (s && s->cache) remote_cache_release(s->cache);
}

/* --- asking ---------------------------------------------------------------------------------------- */

static const struct shard *shard_of(const struct place *p, i64 n, i64 *sample)
{
    const struct shards *s = p->state;
    i64                  i = last_at_most(s->begin, s->count, n);
    *sample                = n - s->begin[i];
    return &s->shard[i];
}

static i64 class_shards(const struct place *p, i64 n)
{
    i64                 sample;
    const struct shard *x = shard_of(p, n, &sample);
    return x->index.sample[sample].class;
}

/* Of very long names the ends are shown. */
static struct str name_shards(const struct place *p, i64 n, struct arena *perm)
{
    i64                 sample;
    const struct shard *x      = shard_of(p, n, &sample);
    i64                 member = shard_payload(&x->index, sample);
    if (member < 0) member = x->index.sample[sample].first;
    struct str shown = address_shown(perm, x->path), name = shard_member_name(&x->index, member);
    return str_fmt(perm, "%.*s: %.*s", STR_ARG(str_sub(shown, shown.len - shown_max, shown.len)),
                   STR_ARG(str_sub(name, name.len - shown_max, name.len)));
}

static enum status unfit(const struct place *p, i64 n, const char *what, struct err *err)
{
    char         text[8192];
    struct arena lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
    return err_set(err, STATUS_USAGE, "%.*s %s", STR_ARG(name_shards(p, n, &lent)), what);
}

static enum status read_shards(const struct place *p, i64 n, struct buffer *to,
                               const atomic_bool *stop, struct err *err)
{
    const struct shards *s = p->state;
    i64                  sample;
    const struct shard  *x      = shard_of(p, n, &sample);
    i64                  member = shard_payload(&x->index, sample);
    if (member < 0) return unfit(p, n, "and the other shards have no .jpg, .jpeg or .png", err);
    const struct shard_member *m    = &x->index.member[member];
    i64                        from = m->at - TAR_BLOCK, bytes = m->bytes + TAR_BLOCK;
    enum status                st = buffer_resize(to, bytes, err);
    if (!st && is_local(s)) st = read_range(s->os, x->path, from, bytes, to->data, err);
    if (!st && !is_local(s))
        st = remote_cache_read(s->cache, x->path, &x->version, from, bytes, to->data, stop, err);
    if (st) return st;
    if (!tar_is_header_of((const char *)to->data, shard_member_name(&x->index, member), m->bytes))
        return unfit(p, n,
                     "is not where the shard's index says; remove the index (.idx), it is outdated",
                     err);
    memmove(to->data, to->data + TAR_BLOCK, (size_t)m->bytes);
    return buffer_resize(to, m->bytes, err);
}

/* On a disk a look through the shards is soon done; over a network it is all of the data, once. */
static bool says_shards(struct place *p, char line[LOADER_LINE_MAX])
{
    struct shards *s     = p->state;
    struct err     why   = { 0 };
    i64            count = 0, bytes = 0;
    for (i64 i = 0; s->cache && !s->told && i < s->count; i++) {
        count += s->shard[i].made;
        bytes += s->shard[i].made ? s->shard[i].version.bytes : 0;
    }
    s->told = true;
    if (count)
        snprintf(line, LOADER_LINE_MAX,
                 "%lld of %lld shards have no index: they were read completely to make one, "
                 "%s MB; `frugal pack` writes SHARD.idx",
                 (long long)count, (long long)s->count, DIGITS((f64)bytes * 1e-6));
    else if (s->cache && remote_cache_says(s->cache, &why))
        snprintf(line, LOADER_LINE_MAX, "samples are fetched each time they are read: %.180s",
                 why.text);
    else return false;
    return true;
}

static void fingerprint_shards(const struct place *p, struct print *to)
{
    const struct shards *s = p->state;
    for (i64 i = 0; i < s->count; i++) {
        const struct shard *x = &s->shard[i];
        if (is_local(s)) print_name(to, x->path, x->version.bytes);
        else print_remote(to, x->path, &x->version);
    }
    for (i64 i = 0; is_local(s) && i < print_samples(s->count); i++) {
        const struct shard *x = &s->shard[print_sample(s->count, i)];
        print_content(to, s->os, x->path, x->version.bytes, s->count, p->own);
    }
}

const struct place_kind place_shards = {
    open_shards,        close_shards, class_shards, name_shards, read_shards,
    fingerprint_shards, ahead_shards, says_shards,  NULL,
};
