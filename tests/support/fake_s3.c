#include "support/fake_s3.h"
#include "base/date.h"
#include "base/hash.h"
#include <string.h>
#include <time.h>

static struct str fake_env(struct os *os, const char *name)
{
    (void)os;
    if (!strcmp(name, "AWS_ACCESS_KEY_ID")) return STR("AKIDFAKE");
    if (!strcmp(name, "AWS_SECRET_ACCESS_KEY")) return STR("secret");
    return (struct str){ 0 };
}

struct s3_settings fake_s3_settings(void)
{
    return (struct s3_settings){ .to       = STR("s3://bucket/run"),
                                 .endpoint = STR("http://fake"),
                                 .limit_ns = 300000000 };
}

struct fake_object *fake_s3_find(struct fake_s3 *f, struct str key)
{
    for (i64 i = 0; i < f->count; i++)
        if (str_eq(str_of(f->objects[i].key), key)) return &f->objects[i];
    return NULL;
}

static void answer(struct web_reply *r, i32 status, struct str body)
{
    r->status = status;
    r->body   = body;
}

static void answer_error(struct web_reply *r, i32 status, const char *code, struct arena *perm)
{
    answer(r, status,
           str_fmt(perm, "<Error><Code>%s</Code><Message>so it is</Message></Error>", code));
}

static struct str header_of(const struct web_request *r, struct str name)
{
    struct web_reply as_reply = { .headers      = (struct pair *)(uintptr_t)r->headers,
                                  .header_count = r->header_count };
    return web_header(&as_reply, name);
}

static void put(struct fake_s3 *f, const struct web_request *r, struct str key, struct arena *perm,
                struct web_reply *reply)
{
    struct fake_object *o = fake_s3_find(f, key);
    if (o && header_of(r, STR("If-None-Match")).len && !f->ignores_conditions) {
        answer_error(reply, 412, "PreconditionFailed", perm);
        return;
    }
    if (!o) {
        ASSERT(f->count < FAKE_OBJECTS_MAX && key.len < (i64)sizeof o->key);
        o = &f->objects[f->count++];
    }
    *o = (struct fake_object){ .bytes = str_copy(&f->memory, r->body).data, .len = r->body.len };
    memcpy(o->key, key.data, (size_t)key.len);
    answer(reply, 200, STR(""));
}

static void get(struct fake_s3 *f, const struct web_request *r, struct str key, struct arena *perm,
                struct web_reply *reply)
{
    struct fake_object *o     = fake_s3_find(f, key);
    struct str          range = header_of(r, STR("Range")), first;
    i64                 from = 0, to = o ? o->len - 1 : 0;
    if (!o) {
        answer_error(reply, 404, "NoSuchKey", perm);
        return;
    }
    if (range.len) {
        range = str_sub(range, 6, range.len);
        str_cut(&range, '-', &first);
        ASSERT(str_i64(first, &from) && str_i64(range, &to));
    }
    answer(reply, range.len ? 206 : 200,
           str_copy(perm, str_sub((struct str){ o->bytes, o->len }, from, to + 1)));
    reply->headers[0] =
        (struct pair){ STR("Content-Length"), str_fmt(perm, "%lld", (long long)o->len) };
    reply->headers[1] = (struct pair){ STR("x-amz-storage-class"),
                                       str_of(o->storage_class ? o->storage_class : "") };
    reply->headers[2] =
        (struct pair){ STR("ETag"),
                       str_fmt(perm, "\"%016llx\"",
                               (unsigned long long)xxh64((struct str){ o->bytes, o->len })) };
    reply->header_count = 3;
    struct str wanted   = header_of(r, STR("If-Match"));
    if (wanted.len && !str_eq(wanted, reply->headers[2].value))
        answer_error(reply, 412, "PreconditionFailed", perm);
}

/* The value of a name in the query, with %2F decoded: no other character of our keys is encoded. */
static struct str query_of(struct str query, struct str name, struct arena *perm)
{
    struct str one, key;
    while (str_cut(&query, '&', &one)) {
        if (!str_cut(&one, '=', &key) || !str_eq(key, name)) continue;
        struct textbuf b = textbuf_new(perm);
        for (i64 i = 0; i < one.len; i++) {
            bool slash = str_starts(str_sub(one, i, one.len), STR("%2F"));
            textbuf_add(&b, slash ? STR("/") : str_sub(one, i, i + 1));
            i += slash ? 2 : 0;
        }
        return textbuf_str(&b);
    }
    return STR("");
}

static void list(struct fake_s3 *f, struct str query, struct arena *perm, struct web_reply *reply)
{
    struct str     prefix = query_of(query, STR("prefix"), perm), before = STR("");
    bool           folders = query_of(query, STR("delimiter"), perm).len > 0;
    struct textbuf b       = textbuf_new(perm);
    textbuf_add(&b, STR("<ListBucketResult>"));
    for (i64 i = 0; i < f->count; i++) {
        struct str key = str_of(f->objects[i].key), rest = str_sub(key, prefix.len, key.len);
        if (!str_starts(key, prefix)) continue;
        i64 slash = folders ? str_find(rest, '/') : -1;
        if (slash < 0) {
            i64 modified_s = f->objects[i].modified_s;
            textbuf_fmt(&b, "<Contents><Key>%.*s</Key><Size>%lld</Size>", STR_ARG(key),
                        (long long)f->objects[i].len);
            if (modified_s)
                textbuf_fmt(&b, "<LastModified>%.*s</LastModified>",
                            STR_ARG(date_text(&f->memory, modified_s)));
            textbuf_add(&b, STR("</Contents>"));
            continue;
        }
        struct str folder = str_sub(key, 0, prefix.len + slash + 1);
        if (!str_eq(folder, before)) /* objects of a checkpoint are put one after the other */
            textbuf_fmt(&b, "<CommonPrefixes><Prefix>%.*s</Prefix></CommonPrefixes>",
                        STR_ARG(folder));
        before = folder;
    }
    textbuf_add(&b, STR("<IsTruncated>false</IsTruncated></ListBucketResult>"));
    answer(reply, 200, textbuf_str(&b));
}

static void serve(struct fake_s3 *f, const struct web_request *r, struct arena *perm,
                  struct web_reply *reply)
{
    struct str path  = str_sub(r->url, (i64)strlen("http://fake/bucket"), r->url.len),
               query = STR("");
    i64 mark         = str_find(path, '?');
    if (mark >= 0) {
        query = str_sub(path, mark + 1, path.len);
        path  = str_sub(path, 0, mark);
    }
    struct str          key = str_starts(path, STR("/")) ? str_sub(path, 1, path.len) : path;
    struct fake_object *o   = fake_s3_find(f, key);
    if (!key.len && str_starts(query, STR("prefix")) && str_ends(query, STR("uploads=")))
        answer(reply, 200, STR("<ListMultipartUploadsResult></ListMultipartUploadsResult>"));
    else if (!key.len) list(f, query, perm, reply);
    else if (str_starts(query, STR("tagging"))) {
        ASSERT(o);
        o->retired = true;
        answer(reply, 200, STR(""));
    } else if (str_eq(r->method, STR("PUT"))) put(f, r, key, perm, reply);
    else if (str_eq(r->method, STR("DELETE"))) {
        if (o) *o = f->objects[--f->count];
        answer(reply, 204, STR(""));
    } else {
        bool faulty = f->fault_count > 0 &&
                      memmem(key.data, (size_t)key.len, f->fault_key, strlen(f->fault_key));
        f->fault_count -= faulty;
        get(f, r, key, perm, reply);
        if (faulty && f->fault_status != 200) answer_error(reply, f->fault_status, "Odd", perm);
        else if (faulty && reply->body.len)
            ((char *)(uintptr_t)reply->body.data)[reply->body.len / 2] ^= 1;
    }
}

static enum status fake_send(struct web *web, const struct web_request *r, struct arena *perm,
                             struct web_reply *reply, struct err *err)
{
    struct fake_s3 *f     = web->context;
    bool            shard = memmem(r->url.data, (size_t)r->url.len, ".safetensors", 12) != NULL;
    atomic_fetch_add(&f->waiting, 1);
    while (shard && str_eq(r->method, STR("PUT")) && atomic_load(&f->held))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    atomic_fetch_sub(&f->waiting, 1);
    pthread_mutex_lock(&f->lock);
    i64 number = ++f->requests;
    *reply     = (struct web_reply){ .headers = NEW(perm, struct pair, 4) };
    bool down  = f->down_at && number >= f->down_at;
    if (!down) serve(f, r, perm, reply);
    if (str_eq(r->method, STR("HEAD"))) reply->body.len = 0;
    bool lost = down || number == f->torn_at;
    pthread_mutex_unlock(&f->lock);
    return lost ? err_set(err, STATUS_WORLD, "nobody answers") : STATUS_OK;
}

/* Waits between tries are long for a real store's sake. */
static void sleep_less(struct os *os, i64 ns) { os_real()->sleep_ns(os, ns / 8); }

struct fake_s3 *fake_s3_new(struct arena *perm, struct os *os)
{
    struct fake_s3 *f = NEW(perm, struct fake_s3, 1);
    f->web            = (struct web){ .context = f, .send = fake_send };
    f->memory         = arena_part(perm, 64 << 20);
    pthread_mutex_init(&f->lock, NULL);
    *os          = *os_real();
    os->env      = fake_env;
    os->sleep_ns = sleep_less;
    return f;
}

void fake_s3_down_after(struct fake_s3 *f, i64 answered)
{
    pthread_mutex_lock(&f->lock);
    f->down_at = f->requests + answered + 1;
    pthread_mutex_unlock(&f->lock);
}

void fake_s3_up(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->lock);
    f->down_at = 0;
    pthread_mutex_unlock(&f->lock);
}

void fake_s3_fault(struct fake_s3 *f, const char *key, i32 status, i64 count)
{
    pthread_mutex_lock(&f->lock);
    f->fault_key    = key;
    f->fault_status = status;
    f->fault_count  = count;
    pthread_mutex_unlock(&f->lock);
}
