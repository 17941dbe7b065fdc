/* files.c - ranges over HTTP, and from buckets through s3.h.
 *
 * Whether a file has changed is told by its ETag (or, where there is none, its Last-Modified): a range
 * of another version than the one that was looked at is an error, so a shard is never put together
 * from two. */
#include "remote/files.h"
#include "base/hash.h"
#include "base/rng.h"
#include "remote/address.h"
#include "remote/retry.h"
#include <pthread.h>
#include <string.h>

enum { BUCKETS_MAX = 16, HOPS_MAX = 5, URL_MAX = 4096 };
static const i64 memory_bytes   = 8 << 20; /* of all clients of buckets */
static const i64 around_bytes   = 1 << 20; /* what a reply takes besides its body */
static const i64 usual_limit_ns = (i64)60 * 1000000000;

struct bucket {
    struct str to; /* s3://bucket */
    struct s3 *s3;
};

struct remote_files {
    struct os         *os;
    struct web        *web;
    bool               own_web;
    struct s3_settings how;
    pthread_mutex_t    lock; /* of what follows */
    struct arena       memory;
    struct bucket      bucket[BUCKETS_MAX];
    i64                bucket_count;
    u64                seed;
    atomic_bool        answered; /* a server has, once */
    atomic_llong       waits, requests, bytes;
};

static enum status web_of(struct remote_files *r, struct web **out, struct err *err)
{
    enum status st = STATUS_OK;
    pthread_mutex_lock(&r->lock);
    if (!r->web) {
        st         = web_open(r->os, &r->memory, &r->web, err);
        r->own_web = !st;
    }
    *out = r->web;
    pthread_mutex_unlock(&r->lock);
    return st;
}

static bool stopped(const atomic_bool *stop) { return stop && atomic_load(stop); }

/* What the server calls this version, short enough to keep. */
static void set_tag(struct remote_file *f, struct str tag)
{
    memset(f->tag, 0, sizeof f->tag);
    struct arena lent = { (u8 *)f->tag, (u8 *)f->tag + sizeof f->tag, NULL };
    if (tag.len > REMOTE_TAG_MAX) str_fmt(&lent, "xxh64:%016llx", (unsigned long long)xxh64(tag));
    else str_copy(&lent, tag);
}

/* --- HTTP ------------------------------------------------------------------------------------------ */

struct asking {
    struct str         url;
    struct str         shown;
    i64                from, count;
    const atomic_bool *stop;
    struct arena       room; /* for one try; given back before the next */
};

/* Where a redirection leads; empty: nowhere that we can go. */
static struct str next_url(struct str url, const struct web_reply *reply, struct arena *perm)
{
    struct str to = web_header(reply, STR("Location"));
    if (reply->status < 301 || reply->status > 308 || !to.len || to.len > URL_MAX) return STR("");
    if (str_starts(to, STR("https://"))) return str_copy(perm, to);
    if (str_starts(to, STR("http://")) && str_starts(url, STR("http://")))
        return str_copy(perm, to); /* but never from TLS down to plain text */
    if (to.data[0] != '/' || str_starts(to, STR("//"))) return STR("");
    i64 host  = str_starts(url, STR("https://")) ? 8 : 7;
    i64 slash = str_find(str_sub(url, host, url.len), '/');
    return str_cat(perm, str_sub(url, 0, slash < 0 ? url.len : host + slash), to);
}

static enum status ask_once(struct remote_files *r, struct web *web, const struct asking *a,
                            struct arena *perm, struct web_reply *reply, struct err *err)
{
    struct str url = a->url;
    struct str range =
        str_fmt(perm, "bytes=%lld-%lld", (long long)a->from, (long long)(a->from + a->count - 1));
    struct pair header[] = { { STR("Range"), range }, { STR("User-Agent"), STR("frugal") } };
    enum status st       = STATUS_OK;
    for (int hop = 0; hop <= HOPS_MAX && !st; hop++) {
        struct web_request q = { .method          = STR("GET"),
                                 .url             = url,
                                 .headers         = header,
                                 .header_count    = COUNT_OF(header),
                                 .reply_bytes_max = MAX(a->count, 65536),
                                 .cancel          = a->stop };
        st                   = web->send(web, &q, perm, reply, err);
        atomic_fetch_add(&r->requests, 1);
        atomic_fetch_add(&r->bytes, reply->body.len);
        struct str next = st ? STR("") : next_url(url, reply, perm);
        if (!next.len) break;
        url = next;
    }
    return st; /* one that leads on and on ends as an answer of 301 */
}

/* As many tries as it takes; the reply lies in a->room. */
static enum status ask(struct remote_files *r, struct asking *a, struct web_reply *reply,
                       struct err *err)
{
    struct os  *os       = r->os;
    i64         begin_ns = os->now_ns(os);
    i64         until_ns = begin_ns + (r->how.limit_ns ? r->how.limit_ns : usual_limit_ns);
    struct web *web;
    struct err  last;
    if (web_of(r, &web, err)) return STATUS_WORLD;
    for (i64 tries = 1;; tries++) {
        struct arena turn = a->room;
        *reply            = (struct web_reply){ 0 };
        enum status st    = ask_once(r, web, a, &turn, reply, &last);
        /* A body longer than asked for: the server gives the whole file for any range. */
        bool whole = st && reply->status == 200;
        if (!st) atomic_store(&r->answered, true);
        if (whole || (!st && !retry_status(reply->status))) return STATUS_OK;
        if (st == STATUS_NO) return err_set(err, STATUS_WORLD, "%s", last.text);
        if (!st)
            err_set(&last, STATUS_WORLD, "%.*s was answered with %d", STR_ARG(a->shown),
                    reply->status);
        bool later = retry_unanswered(reply->unresolved, atomic_load(&r->answered), tries,
                                      os->now_ns(os) - begin_ns);
        if (!stopped(a->stop) && later)
            retry_wait(os, r->seed, (u64)atomic_fetch_add(&r->waits, 1), tries, until_ns, a->stop,
                       NULL);
        if (stopped(a->stop))
            return err_set(err, STATUS_INTERRUPTED, "%.*s was cut off", STR_ARG(a->shown));
        i64 now_ns = os->now_ns(os);
        if (later && now_ns < until_ns && tries < RETRY_TRIES_MAX) continue;
        return err_set(err, STATUS_WORLD, "after %lld tries in %.1f s: %s", (long long)tries,
                       (f64)(now_ns - begin_ns) / 1e9, last.text);
    }
}

static struct str tag_of(const struct web_reply *reply)
{
    struct str tag = web_header(reply, STR("ETag"));
    return tag.len ? tag : web_header(reply, STR("Last-Modified"));
}

/* "bytes 0-9/100": the 100, or "bytes *" "/0" of an empty file. */
static bool total_of(const struct web_reply *reply, i64 *bytes)
{
    struct str range = web_header(reply, STR("Content-Range"));
    i64        slash = str_find(range, '/');
    return slash >= 0 && str_i64(str_sub(range, slash + 1, range.len), bytes) && *bytes >= 0;
}

static enum status refused(const struct asking *a, const struct web_reply *reply, struct err *err)
{
    if (reply->status == 404 || reply->status == 410)
        return err_set(err, STATUS_NO, "%.*s: there is no such file (%d)", STR_ARG(a->shown),
                       reply->status);
    if (reply->status == 200)
        return err_set(err, STATUS_WORLD, "%.*s: the server does not support range requests",
                       STR_ARG(a->shown));
    return err_set(err, STATUS_WORLD, "%.*s was answered with %d", STR_ARG(a->shown),
                   reply->status);
}

static enum status http_stat(struct remote_files *r, struct asking *a, struct remote_file *out,
                             struct err *err)
{
    struct web_reply reply;
    a->count       = 1; /* not HEAD: addresses that are signed are often so for GET alone */
    enum status st = ask(r, a, &reply, err);
    if (st) return st;
    bool answered = reply.status == 206 || reply.status == 416;
    if (!answered || !total_of(&reply, &out->bytes)) return refused(a, &reply, err);
    set_tag(out, tag_of(&reply));
    return STATUS_OK;
}

static enum status http_read(struct remote_files *r, struct asking *a,
                             const struct remote_file *version, void *to, struct err *err)
{
    struct web_reply   reply;
    struct remote_file now = { 0 };
    enum status        st  = ask(r, a, &reply, err);
    if (st) return st;
    if (reply.status != 206) return refused(a, &reply, err);
    set_tag(&now, tag_of(&reply));
    if (!total_of(&reply, &now.bytes) || now.bytes != version->bytes ||
        strcmp(now.tag, version->tag))
        return err_set(err, STATUS_WORLD, "%.*s has changed since it was opened",
                       STR_ARG(a->shown));
    if (reply.body.len != a->count)
        return err_set(err, STATUS_WORLD, "%.*s: received %lld bytes instead of %lld",
                       STR_ARG(a->shown), (long long)reply.body.len, (long long)a->count);
    memcpy(to, reply.body.data, (size_t)a->count);
    return STATUS_OK;
}

/* --- buckets --------------------------------------------------------------------------------------- */

static enum status bucket_of(struct remote_files *r, struct str url, struct s3 **out,
                             struct str *key, struct err *err)
{
    struct web *web;
    i64         slash = str_find(str_sub(url, 5, url.len), '/');
    struct str  to    = str_sub(url, 0, slash < 0 ? url.len : 5 + slash);
    enum status st    = web_of(r, &web, err);
    if (st) return st;
    *key = str_sub(url, to.len + 1, url.len);
    if (!key->len) return err_set(err, STATUS_USAGE, "%.*s names no object", STR_ARG(to));
    pthread_mutex_lock(&r->lock);
    struct bucket *b = NULL;
    for (i64 i = 0; i < r->bucket_count; i++)
        if (str_eq(r->bucket[i].to, to)) b = &r->bucket[i];
    if (!b && r->bucket_count == BUCKETS_MAX)
        st = err_set(err, STATUS_USAGE, "the data is in more than %d buckets", BUCKETS_MAX);
    if (!b && !st) {
        struct s3_settings c = r->how;
        b                    = &r->bucket[r->bucket_count];
        b->to = c.to = str_copy(&r->memory, to);
        st           = s3_open(r->os, web, &c, &r->memory, &b->s3, err);
        if (!st) r->bucket_count++;
    }
    if (!st) *out = b->s3;
    pthread_mutex_unlock(&r->lock);
    return st;
}

static enum status bucket_stat(struct remote_files *r, struct asking *a, struct remote_file *out,
                               struct err *err)
{
    struct s3       *s;
    struct s3_object o;
    struct str       key;
    enum status      st = bucket_of(r, a->url, &s, &key, err);
    if (!st) st = s3_head(s, key, &a->room, &o, err);
    atomic_fetch_add(&r->requests, 1);
    if (st) return st;
    if (o.archived)
        return err_set(err, STATUS_WORLD, "%.*s is archived and must be restored first",
                       STR_ARG(a->shown));
    if (o.bytes < 0)
        return err_set(err, STATUS_WORLD, "%.*s: the server did not send its size",
                       STR_ARG(a->shown));
    out->bytes = o.bytes;
    set_tag(out, o.etag);
    return STATUS_OK;
}

static enum status bucket_read(struct remote_files *r, struct asking *a,
                               const struct remote_file *version, void *to, struct err *err)
{
    struct s3 *s;
    struct str key, bytes, etag = str_of(version->tag);
    if (!str_starts(etag, STR("\""))) etag = STR(""); /* a hash of it is no condition */
    enum status st = bucket_of(r, a->url, &s, &key, err);
    if (!st) st = s3_get_version(s, key, etag, a->from, a->count, a->stop, &a->room, &bytes, err);
    atomic_fetch_add(&r->requests, 1);
    if (st) return st;
    atomic_fetch_add(&r->bytes, a->count);
    memcpy(to, bytes.data, (size_t)a->count);
    return STATUS_OK;
}

/* --- both ------------------------------------------------------------------------------------------ */

static bool in_bucket(struct str url) { return !str_starts(url, STR("http")); }

static enum status asking_init(struct asking *a, struct str url, i64 from, i64 count,
                               const atomic_bool *stop, struct err *err)
{
    *a = (struct asking){ .url = url, .from = from, .count = count, .stop = stop };
    if (url.len > URL_MAX)
        return err_set(err, STATUS_USAGE, "an address of %lld bytes is too long",
                       (long long)url.len);
    a->room = arena_open(2 * count + around_bytes);
    if (!a->room.begin) return err_set(err, STATUS_WORLD, "no memory for a request");
    a->shown = address_shown(&a->room, url);
    return STATUS_OK;
}

enum status remote_file_stat(struct remote_files *r, struct str url, const atomic_bool *stop,
                             struct remote_file *out, struct err *err)
{
    struct asking a;
    enum status   st = asking_init(&a, url, 0, 0, stop, err);
    if (st) return st;
    struct arena own = a.room;
    st               = in_bucket(url) ? bucket_stat(r, &a, out, err) : http_stat(r, &a, out, err);
    arena_close(&own);
    return st;
}

enum status remote_file_read(struct remote_files *r, struct str url,
                             const struct remote_file *version, i64 from, i64 count, void *to,
                             const atomic_bool *stop, struct err *err)
{
    struct asking a;
    ASSERT(from >= 0 && count > 0 && count <= version->bytes - from);
    enum status st = asking_init(&a, url, from, count, stop, err);
    if (st) return st;
    struct arena own = a.room;
    st = in_bucket(url) ? bucket_read(r, &a, version, to, err) : http_read(r, &a, version, to, err);
    arena_close(&own);
    return st;
}

struct remote_files *remote_files_open(struct os *os, struct web *web,
                                       const struct s3_settings *how, struct arena *perm)
{
    struct remote_files *r = NEW(perm, struct remote_files, 1);
    r->os                  = os;
    r->web                 = web;
    r->how                 = *how;
    r->memory              = arena_part(perm, memory_bytes);
    r->seed                = rng_mix((u64)os->now_ns(os) ^ (u64)os->wall_ns(os));
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void remote_files_close(struct remote_files *r)
{
    if (!r) return;
    if (r->own_web) web_close(r->web);
    pthread_mutex_destroy(&r->lock);
}

struct s3_sums remote_files_stores(struct remote_files *r)
{
    struct s3_sums all = { 0 };
    pthread_mutex_lock(&r->lock);
    for (i64 i = 0; i < r->bucket_count; i++) {
        struct s3_sums s = s3_sums(r->bucket[i].s3);
        all.puts += s.puts;
        all.gets += s.gets;
        all.bytes_out += s.bytes_out;
        all.bytes_in += s.bytes_in;
    }
    pthread_mutex_unlock(&r->lock);
    return all;
}

struct remote_files_sums remote_files_sums(const struct remote_files *r)
{
    return (struct remote_files_sums){ atomic_load(&r->requests), atomic_load(&r->bytes) };
}
