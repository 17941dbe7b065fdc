#include "support/fake_files.h"
#include "base/hash.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

static i64 find(struct fake_files *f, struct str url)
{
    for (i64 i = 0; i < f->count; i++)
        if (str_eq(f->url[i], url)) return i;
    return -1;
}

static void range_of(const struct web_request *r, long long *from, long long *to)
{
    for (i64 i = 0; i < r->header_count; i++)
        if (str_eq(r->headers[i].name, STR("Range")))
            ASSERT(sscanf(r->headers[i].value.data, "bytes=%lld-%lld", from, to) == 2);
}

/* False: it comes and is cut short. */
static bool count_read(struct fake_files *f, i64 bytes)
{
    struct timespec delay = { .tv_nsec = atomic_load(&f->delay_ns) };
    if (delay.tv_nsec) nanosleep(&delay, NULL);
    if (atomic_fetch_add(&f->reads, 1) + 1 == atomic_load(&f->fail_at)) return false;
    atomic_fetch_add(&f->read_bytes, bytes);
    return true;
}

static enum status fake_send(struct web *web, const struct web_request *r, struct arena *perm,
                             struct web_reply *reply, struct err *err)
{
    struct fake_files *f    = web->context;
    i64                i    = find(f, r->url);
    long long          from = 0, to = 0;
    range_of(r, &from, &to);
    *reply = (struct web_reply){ .status = 404 };
    if (i < 0) return STATUS_OK;
    struct str all = f->bytes[i];
    to             = MIN(to, all.len - 1);
    if (to > 0 && !count_read(f, to + 1 - from))
        return err_set(err, STATUS_WORLD, "%.*s: the line was torn", STR_ARG(r->url));
    reply->status  = 206;
    reply->body    = str_copy(perm, str_sub(all, from, to + 1));
    reply->headers = NEW(perm, struct pair, 2);
    reply->headers[0] =
        (struct pair){ STR("ETag"), str_fmt(perm, "\"%llx\"", (unsigned long long)xxh64(all)) };
    reply->headers[1] =
        (struct pair){ STR("Content-Range"),
                       str_fmt(perm, "bytes %lld-%lld/%lld", from, to, (long long)all.len) };
    reply->header_count = 2;
    return STATUS_OK;
}

struct fake_files *fake_files_new(struct arena *perm)
{
    struct fake_files *f = NEW(perm, struct fake_files, 1);
    f->web               = (struct web){ .context = f, .send = fake_send };
    f->remote = remote_files_open(os_real(), &f->web, &(struct s3_settings){ .limit_ns = 1 }, perm);
    return f;
}

void fake_files_put(struct fake_files *f, struct str url, struct str bytes)
{
    i64 i = find(f, url);
    ASSERT(f->count < FAKE_FILES_MAX);
    if (i < 0) i = f->count++;
    f->url[i]   = url;
    f->bytes[i] = bytes;
}
