#include "support/fake_far.h"
#include "base/hash.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

static i64 find(struct fake_far *f, struct str url)
{
    for (i64 i = 0; i < f->count; i++)
        if (str_eq(f->url[i], url)) return i;
    return -1;
}

static enum status look(struct far *far, struct str url, const atomic_bool *stop,
                        struct far_file *out, struct err *err)
{
    struct fake_far *f = far->context;
    i64              i = find(f, url);
    (void)stop;
    if (i < 0) return err_set(err, STATUS_NO, "%.*s is not there", STR_ARG(url));
    *out = (struct far_file){ .bytes = f->bytes[i].len };
    snprintf(out->tag, sizeof out->tag, "\"%llx\"", (unsigned long long)xxh64(f->bytes[i]));
    return STATUS_OK;
}

static enum status read(struct far *far, struct str url, const struct far_file *version, i64 from,
                        i64 count, void *to, const atomic_bool *stop, struct err *err)
{
    struct fake_far *f = far->context;
    struct far_file  now;
    struct timespec  delay  = { .tv_nsec = atomic_load(&f->delay_ns) };
    i64              number = atomic_fetch_add(&f->reads, 1) + 1;
    if (delay.tv_nsec) nanosleep(&delay, NULL);
    if (stop && atomic_load(stop)) return err_set(err, STATUS_INTERRUPTED, "cut off");
    enum status st = look(far, url, stop, &now, err);
    if (st) return st;
    if (strcmp(now.tag, version->tag)) return err_set(err, STATUS_WORLD, "it has changed");
    bool torn = number == atomic_load(&f->fail_at);
    memcpy(to, f->bytes[find(f, url)].data + from, (size_t)(torn ? count / 2 : count));
    if (torn) return err_set(err, STATUS_WORLD, "%.*s: the line was torn", STR_ARG(url));
    atomic_fetch_add(&f->read_bytes, count);
    return STATUS_OK;
}

struct fake_far *fake_far_new(struct arena *perm)
{
    struct fake_far *f = NEW(perm, struct fake_far, 1);
    f->far             = (struct far){ .context = f, .look = look, .read = read };
    return f;
}

void fake_far_put(struct fake_far *f, struct str url, struct str bytes)
{
    i64 i = find(f, url);
    ASSERT(f->count < FAKE_FILES_MAX);
    if (i < 0) i = f->count++;
    f->url[i]   = url;
    f->bytes[i] = bytes;
}
