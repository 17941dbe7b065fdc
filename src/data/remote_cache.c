/* remote_cache.c - fetching once, making room, and reading what is there. */
#include "data/remote_cache.h"
#include "base/hash.h"
#include "base/thread.h"
#include "remote/address.h"
#include <stdlib.h>
#include <string.h>

enum { FLIGHTS_MAX = 64, TURNS_MAX = 4 };
static const i64 piece_bytes   = 8 << 20;              /* of one request */
static const i64 wait_ns       = 20000000;             /* between two looks at what others do */
static const i64 pause_ns      = (i64)10 * 1000000000; /* after the disk refused */
static const i64 listing_bytes = (i64)256 << 20; /* address space for the names of the folder */

struct remote_cache {
    struct os           *os;
    struct remote_files *remote;
    struct str           folder;
    i64                  bytes_max;
    pthread_mutex_t      lock;
    pthread_cond_t       landed;
    u64                  flight[FLIGHTS_MAX]; /* hashes of what threads of this process fetch */
    i64                  flight_count;
    struct err           why;  /* of the first file that cannot be kept, for good or for a while */
    bool                 told; /* that */
    atomic_llong         fetched_bytes, direct_bytes, evicted;
    atomic_llong         off_until_ns; /* nothing is kept before */
};

struct remote_cache *remote_cache_new(struct os *os, struct remote_files *remote, struct str folder,
                                      i64 bytes_max, struct arena *perm)
{
    ASSERT(folder.len <= REMOTE_CACHE_FOLDER_MAX);
    struct remote_cache *c = NEW(perm, struct remote_cache, 1);
    c->os                  = os;
    c->remote              = remote;
    c->folder              = str_copy(perm, folder);
    c->bytes_max           = bytes_max;
    pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->landed);
    return c;
}

void remote_cache_release(struct remote_cache *c)
{
    pthread_cond_destroy(&c->landed);
    pthread_mutex_destroy(&c->lock);
}

struct remote_cache_sums remote_cache_sums(const struct remote_cache *c)
{
    return (struct remote_cache_sums){ atomic_load(&c->fetched_bytes),
                                       atomic_load(&c->direct_bytes), atomic_load(&c->evicted) };
}

/* --- names ----------------------------------------------------------------------------------------- */

/* A file under way to the cache, or in it. */
struct item {
    struct str                url;
    const struct remote_file *version;
    u64                       hash;
    struct str                path, lock;
    char                      text[3072]; /* of the two */
};

static void item_init(struct item *x, const struct remote_cache *c, struct str url,
                      const struct remote_file *version)
{
    static const i64 name_max = 80;
    struct arena     lent     = { (u8 *)x->text, (u8 *)x->text + sizeof x->text, NULL };
    struct xxh64     sum;
    xxh64_init(&sum);
    xxh64_add(&sum, url);
    xxh64_add(&sum, STR("\n"));
    xxh64_add(&sum, str_of(version->tag));
    x->url           = url;
    x->version       = version;
    x->hash          = xxh64_end(&sum);
    struct str shown = address_shown(&lent, str_sub(url, 0, 400));
    i64        slash = shown.len;
    while (slash > 0 && shown.data[slash - 1] != '/' && shown.len - slash < name_max) slash--;
    lent = (struct arena){ (u8 *)x->text + 512, (u8 *)x->text + sizeof x->text, NULL };
    x->path =
        str_fmt(&lent, "%.*s/%016llx-%lld-%.*s", STR_ARG(c->folder), (unsigned long long)x->hash,
                (long long)version->bytes, STR_ARG(str_sub(shown, slash, shown.len)));
    x->lock = str_cat(&lent, x->path, STR(".lock"));
}

enum kind { KIND_OTHER, KIND_WHOLE, KIND_PART };

/* What a name of the folder is, and how large its file is or will be. `base`: without .PID.part. */
static enum kind kind_of(struct str name, i64 *bytes, struct str *base)
{
    struct str rest = name, hash, size;
    if (str_ends(name, STR(".lock"))) return KIND_OTHER;
    if (!str_cut(&rest, '-', &hash) || hash.len != 16) return KIND_OTHER;
    if (!str_cut(&rest, '-', &size) || !str_i64(size, bytes) || *bytes < 0) return KIND_OTHER;
    *base = name;
    if (!str_ends(name, STR(".part"))) return KIND_WHOLE;
    base->len -= 5;
    while (base->len > 0 && base->data[base->len - 1] != '.') base->len--;
    if (base->len > 0) base->len--;
    return KIND_PART;
}

/* --- room ------------------------------------------------------------------------------------------ */

struct kept {
    struct str name, base;
    i64        bytes, mtime_ns;
};

static int by_age(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    return (x->mtime_ns > y->mtime_ns) - (x->mtime_ns < y->mtime_ns);
}

/* Removes it unless somebody fetches or maps it. */
static bool evict(struct remote_cache *c, const struct kept *k, struct arena scratch)
{
    struct os  *os   = c->os;
    struct file held = { -1 };
    struct str  path = str_fmt(&scratch, "%.*s/%.*s", STR_ARG(c->folder), STR_ARG(k->name));
    struct str  lock = str_fmt(&scratch, "%.*s/%.*s.lock", STR_ARG(c->folder), STR_ARG(k->base));
    if (os->lock(os, lock, &held, NULL)) return false;
    bool gone = !os->remove(os, path, NULL);
    os->remove(os, lock, NULL);
    os->close(os, &held, NULL);
    if (gone) atomic_fetch_add(&c->evicted, 1);
    return gone;
}

/* Until `bytes` more fit; false: they do not. */
static bool make_room(struct remote_cache *c, i64 bytes, struct arena scratch)
{
    struct os   *os = c->os;
    struct str  *names;
    struct kept *kept;
    i64          count = 0, kept_count = 0, sum = 0;
    if (os->list(os, c->folder, &scratch, &names, &count, NULL)) return false;
    kept = NEW(&scratch, struct kept, count);
    for (i64 i = 0; i < count; i++) {
        struct kept   *k    = &kept[kept_count];
        enum kind      kind = kind_of(names[i], &k->bytes, &k->base);
        struct os_stat stat = { 0 };
        struct arena   turn = scratch;
        if (kind == KIND_OTHER) continue;
        struct str path = str_fmt(&turn, "%.*s/%.*s", STR_ARG(c->folder), STR_ARG(names[i]));
        if (os->stat(os, path, &stat, NULL)) continue;
        k->name = names[i];
        k->mtime_ns =
            kind == KIND_PART ? 0 : stat.mtime_ns; /* one whose writer is gone goes first */
        sum += k->bytes;
        kept_count++;
    }
    qsort(kept, (size_t)kept_count, sizeof *kept, by_age);
    for (i64 i = 0; i < kept_count && sum + bytes > c->bytes_max; i++)
        if (evict(c, &kept[i], scratch)) sum -= kept[i].bytes;
    return sum + bytes <= c->bytes_max;
}

static bool stopped(const atomic_bool *stop) { return stop && atomic_load(stop); }

/* Makes room and takes it by making the part file, under the folder's lock. NO: there is none. */
static enum status reserve(struct remote_cache *c, const struct item *x, struct str part,
                           const atomic_bool *stop, struct file *f, struct err *err)
{
    struct os   *os      = c->os;
    struct arena scratch = arena_open(listing_bytes);
    struct file  lock    = { -1 };
    enum status  st      = STATUS_OK;
    if (!scratch.begin)
        return err_set(err, STATUS_NO, "no memory to list %.*s", STR_ARG(c->folder));
    struct arena own  = scratch;
    struct str   path = str_cat(&scratch, c->folder, STR("/lock"));
    while ((st = os->lock(os, path, &lock, err)) == STATUS_NO && !stopped(stop))
        os->sleep_ns(os, wait_ns);
    if (!st && !make_room(c, x->version->bytes, scratch))
        st = err_set(err, STATUS_NO, "%.*s: %lld bytes do not fit in %.*s, which may hold %lld",
                     STR_ARG(address_shown(&scratch, x->url)), (long long)x->version->bytes,
                     STR_ARG(c->folder), (long long)c->bytes_max);
    if (!st && os->create(os, part, f, err)) st = STATUS_NO;
    if (lock.fd >= 0) os->close(os, &lock, NULL);
    arena_close(&own);
    return st == STATUS_WORLD ? STATUS_NO : st;
}

/* --- fetching -------------------------------------------------------------------------------------- */

/* The folder cannot be written: nothing is tried there for a while. */
static enum status hold_off(struct remote_cache *c)
{
    atomic_store(&c->off_until_ns, c->os->now_ns(c->os) + pause_ns);
    return STATUS_NO;
}

/* Or is it only that what others read just now leaves no room? */
static bool is_lasting(const struct remote_cache *c, const struct item *x)
{
    return x->version->bytes > c->bytes_max || c->os->now_ns(c->os) < atomic_load(&c->off_until_ns);
}

/* From there into the part file. *full: the disk's fault, not the net's. */
static enum status carry(struct remote_cache *c, const struct item *x, struct file f, bool *full,
                         const atomic_bool *stop, struct err *err)
{
    i64          total = x->version->bytes, most = MIN(piece_bytes, total);
    struct arena own = arena_open(most + 4096);
    enum status  st  = STATUS_OK;
    if (!own.begin) return err_set(err, STATUS_WORLD, "no memory to fetch a file");
    char *piece = arena_take(&own, most, 1, 4096);
    for (i64 at = 0; at < total && !st; at += piece_bytes) {
        i64 count = MIN(piece_bytes, total - at);
        st        = remote_file_read(c->remote, x->url, x->version, at, count, piece, stop, err);
        if (st) break;
        atomic_fetch_add(&c->fetched_bytes, count);
        st    = c->os->write(c->os, f, (struct str){ piece, count }, err);
        *full = st != STATUS_OK;
    }
    arena_close(&own);
    return st;
}

/* With its lock held: into a part file, which then takes its name. */
static enum status bring(struct remote_cache *c, const struct item *x, const atomic_bool *stop,
                         struct err *err)
{
    struct os   *os = c->os;
    char         text[1536];
    struct arena lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
    struct str   part = os_part_name(&lent, x->path);
    struct file  f    = { -1 };
    bool         full = false;
    enum status  st   = reserve(c, x, part, stop, &f, err);
    if (!st) st = carry(c, x, f, &full, stop, err);
    if (!st) full = (st = os->sync(os, f, err)) != STATUS_OK;
    if (f.fd >= 0 && os->close(os, &f, st ? NULL : err) && !st) st = STATUS_WORLD, full = true;
    if (!st) full = (st = os->rename(os, part, x->path, err)) != STATUS_OK;
    if (!st) return STATUS_OK;
    os->remove(os, part, NULL);
    if (!full) return st;
    return hold_off(c);
}

static bool is_there(struct remote_cache *c, const struct item *x)
{
    struct os_stat stat;
    return !c->os->stat(c->os, x->path, &stat, NULL) && stat.bytes == x->version->bytes;
}

/* One thread of this process is here for one file; another process may be too. `pin`, if not NULL, gets the lock:
 * between the fetch and the caller's next look nobody can evict the file. It stays empty where another process has the
 * lock, which keeps the file as well. */
static enum status fetch_once(struct remote_cache *c, const struct item *x, const atomic_bool *stop,
                              struct file *pin, struct err *err)
{
    struct os  *os   = c->os;
    struct file held = { -1 };
    enum status st;
    if (x->version->bytes > c->bytes_max)
        return err_set(err, STATUS_NO,
                       "%.*s: %lld bytes are more than the cache may hold, %lld (data.cache_bytes)",
                       (int)MIN(x->url.len, 200), x->url.data, (long long)x->version->bytes,
                       (long long)c->bytes_max);
    if (os->now_ns(os) < atomic_load(&c->off_until_ns))
        return err_set(err, STATUS_NO, "%.*s could not be written", STR_ARG(c->folder));
    if (os->make_dir(os, c->folder, err)) return hold_off(c);
    while ((st = os->lock(os, x->lock, &held, err)) == STATUS_NO) {
        if (is_there(c, x)) return STATUS_OK;
        if (stopped(stop)) return err_set(err, STATUS_INTERRUPTED, "the wait was interrupted");
        os->sleep_ns(os, wait_ns);
    }
    if (st) return hold_off(c);
    if (!is_there(c, x)) st = bring(c, x, stop, err);
    if (pin && !st) *pin = held;
    else os->close(os, &held, NULL);
    return st;
}

static i64 flight_of(const struct remote_cache *c, u64 hash)
{
    for (i64 i = 0; i < c->flight_count; i++)
        if (c->flight[i] == hash) return i;
    return -1;
}

/* Whoever comes first fetches; the others wait for it. `pin` as in fetch_once. */
static enum status fetch(struct remote_cache *c, const struct item *x, const atomic_bool *stop,
                         struct file *pin, struct err *err)
{
    bool waited = false;
    pthread_mutex_lock(&c->lock);
    while (flight_of(c, x->hash) >= 0 || c->flight_count == FLIGHTS_MAX) {
        waited = true;
        if (stopped(stop)) break;
        thread_wait_until(&c->landed, &c->lock, os_real()->now_ns(os_real()) + wait_ns);
    }
    if (stopped(stop) || (waited && !pin && is_there(c, x))) {
        pthread_mutex_unlock(&c->lock);
        return stopped(stop) ? err_set(err, STATUS_INTERRUPTED, "the wait was interrupted")
                             : STATUS_OK;
    }
    c->flight[c->flight_count++] = x->hash;
    pthread_mutex_unlock(&c->lock);

    struct err  why = { 0 };
    bool        was = os_private(true);
    enum status st  = fetch_once(c, x, stop, pin, &why);
    os_private(was);
    if (st && err) *err = why;

    pthread_mutex_lock(&c->lock);
    if (st == STATUS_NO && is_lasting(c, x) && !c->why.status) c->why = why;
    c->flight[flight_of(c, x->hash)] = c->flight[c->flight_count - 1];
    c->flight_count--;
    pthread_cond_broadcast(&c->landed);
    pthread_mutex_unlock(&c->lock);
    return st;
}

bool remote_cache_says(struct remote_cache *c, struct err *why)
{
    pthread_mutex_lock(&c->lock);
    bool news = c->why.status && !c->told;
    c->told |= news;
    if (news) *why = c->why;
    pthread_mutex_unlock(&c->lock);
    return news;
}

enum status remote_cache_fetch(struct remote_cache *c, struct str url,
                               const struct remote_file *version, const atomic_bool *stop,
                               struct err *err)
{
    struct item x;
    item_init(&x, c, url, version);
    if (!is_there(c, &x)) return fetch(c, &x, stop, NULL, err);
    c->os->set_mtime(c->os, x.path, c->os->wall_ns(c->os));
    return STATUS_OK;
}

/* --- reading --------------------------------------------------------------------------------------- */

/* NO: it is not there, or not whole. */
static enum status read_kept(struct remote_cache *c, const struct item *x, i64 from, i64 count,
                             char *to)
{
    struct os  *os = c->os;
    struct file f  = { -1 };
    i64         at = 0, got = 1;
    if (os->open_read(os, x->path, &f, NULL)) return STATUS_NO;
    os->set_mtime(os, x->path, os->wall_ns(os)); /* the age that others go by */
    while (at < count && got)
        if (os->read(os, f, to + at, count - at, from + at, &got, NULL)) break;
        else at += got;
    os->close(os, &f, NULL);
    return at == count ? STATUS_OK : STATUS_NO;
}

enum status remote_cache_read(struct remote_cache *c, struct str url,
                              const struct remote_file *version, i64 from, i64 count, void *to,
                              const atomic_bool *stop, struct err *err)
{
    struct item x;
    enum status st = STATUS_OK;
    item_init(&x, c, url, version);
    ASSERT(from >= 0 && count >= 0 && count <= version->bytes - from);
    for (int turn = 0; turn < TURNS_MAX && !st;
         turn++) { /* others may remove it before we open it */
        if (!read_kept(c, &x, from, count, to)) return STATUS_OK;
        st = fetch(c, &x, stop, NULL, err);
    }
    if (st && st != STATUS_NO) return st;
    st = count ? remote_file_read(c->remote, url, version, from, count, to, stop, err) : STATUS_OK;
    if (!st) atomic_fetch_add(&c->direct_bytes, count);
    return st;
}

enum status remote_cache_map(struct remote_cache *c, struct str url,
                             const struct remote_file *version, struct str *bytes, struct file *pin,
                             struct err *err)
{
    struct os  *os = c->os;
    struct item x;
    enum status st = STATUS_OK;
    item_init(&x, c, url, version);
    *pin = (struct file){ -1 };
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (is_there(c, &x)) os->lock(os, x.lock, pin, NULL); /* NO: as in fetch_once */
        else if ((st = fetch(c, &x, NULL, pin, err))) return st;
        st = os->map(os, x.path, bytes, err);
        if (!st && bytes->len == version->bytes) return STATUS_OK;
        if (!st) os->unmap(os, *bytes);
        if (pin->fd >= 0) os->close(os, pin, NULL);
    }
    return st ? st : err_set(err, STATUS_WORLD, "%.*s is truncated", STR_ARG(x.path));
}
