/* s3_calls.c - the operations on objects and on the bucket. */
#include "base/date.h"
#include "remote/s3_int.h"
#include "remote/xml.h"
#include <string.h>

enum { LIST_PAGES_MAX = 1000 };
static const i64 page_bytes_max = 4
                                  << 20; /* 1,000 keys of at most 1,024 bytes, and what is around */

static void ask(struct s3_call *c, const char *name, struct str value)
{
    ASSERT(c->query_count < S3_QUERY_MAX);
    c->query[c->query_count++] = (struct pair){ str_of(name), value };
}

enum status s3_put(struct s3 *s, struct str key, struct str bytes, struct arena scratch,
                   struct err *err)
{
    struct s3_answer a;
    struct s3_call   c = { .method = "PUT", .key = key, .body = bytes, .checksum = true };
    return s3_send_well(s, &c, &scratch, &a, err);
}

enum status s3_put_new(struct s3 *s, struct str key, struct str bytes, struct arena scratch,
                       struct err *err)
{
    struct s3_answer a;
    struct str       there;
    struct s3_call   c = {
          .method = "PUT", .key = key, .body = bytes, .checksum = true, .if_absent = true
    };
    enum status st = s3_send(s, &c, &scratch, &a, err);
    if (st || s3_good(&a)) return st;
    if (a.status != 412) return s3_refused(s, &c, &a, err);
    if (a.unanswered) { /* it may be our own, from a try whose answer was lost */
        st = s3_get(s, key, &scratch, &there, err);
        if (st && st != STATUS_NO) return st;
        if (!st && str_eq(there, bytes)) return STATUS_OK;
    }
    s3_refused(s, &c, &a, err);
    return STATUS_NO;
}

static enum status get(struct s3 *s, struct s3_call *c, struct arena *perm, struct str *bytes,
                       struct err *err)
{
    struct s3_answer a;
    enum status      st = s3_send(s, c, perm, &a, err);
    if (st) return st;
    if (a.status == 412)
        return err_set(err, STATUS_WORLD, "%.*s has changed since it was opened",
                       STR_ARG(s3_address(s, perm, c->key)));
    if (!s3_good(&a)) {
        s3_refused(s, c, &a, err);
        return a.status == 404 ? STATUS_NO : STATUS_WORLD;
    }
    *bytes = a.reply.body;
    return STATUS_OK;
}

enum status s3_get(struct s3 *s, struct str key, struct arena *perm, struct str *bytes,
                   struct err *err)
{
    struct s3_call c = { .method = "GET", .key = key, .reply_bytes_max = S3_GET_BYTES_MAX };
    return get(s, &c, perm, bytes, err);
}

enum status s3_get_version(struct s3 *s, struct str key, struct str etag, i64 from, i64 count,
                           const atomic_bool *stop, struct arena *perm, struct str *bytes,
                           struct err *err)
{
    ASSERT(count > 0);
    struct str range =
        str_fmt(perm, "bytes=%lld-%lld", (long long)from, (long long)(from + count - 1));
    struct s3_call c  = { .method          = "GET",
                          .key             = key,
                          .range           = range,
                          .if_etag         = etag,
                          .stop            = stop,
                          .reply_bytes_max = count };
    enum status    st = get(s, &c, perm, bytes, err);
    if (!st && bytes->len != count)
        return err_set(err, STATUS_WORLD, "%.*s ends after %lld bytes; %lld were expected",
                       STR_ARG(s3_address(s, perm, key)), (long long)(from + bytes->len),
                       (long long)(from + count));
    return st;
}

enum status s3_get_range(struct s3 *s, struct str key, i64 from, i64 count, struct arena *perm,
                         struct str *bytes, struct err *err)
{
    return s3_get_version(s, key, STR(""), from, count, NULL, perm, bytes, err);
}

/* The classes that keep objects offline; GLACIER_IR, despite its name, does not. */
static bool is_archive(struct str class)
{
    return str_eq(class, STR("GLACIER")) || str_eq(class, STR("DEEP_ARCHIVE"));
}

enum status s3_head(struct s3 *s, struct str key, struct arena *perm, struct s3_object *out,
                    struct err *err)
{
    struct s3_answer a;
    struct s3_call   c  = { .method = "HEAD", .key = key };
    enum status      st = s3_send(s, &c, perm, &a, err);
    if (st) return st;
    if (!s3_good(&a)) {
        s3_refused(s, &c, &a, err);
        return a.status == 404 ? STATUS_NO : STATUS_WORLD;
    }
    struct str restore = web_header(&a.reply, STR("x-amz-restore"));
    *out               = (struct s3_object){ .key           = key,
                                             .storage_class = web_header(&a.reply, STR("x-amz-storage-class")) };
    out->etag          = web_header(&a.reply, STR("ETag"));
    if (!str_i64(web_header(&a.reply, STR("Content-Length")), &out->bytes)) out->bytes = -1;
    out->restoring =
        restore.len && memmem(restore.data, (size_t)restore.len, "\"true\"", 6) != NULL;
    out->archived = is_archive(out->storage_class) && (!restore.len || out->restoring);
    return STATUS_OK;
}

/* --- lists ----------------------------------------------------------------------------------------- */

static void list_add(struct s3_list *l, i64 *room, struct s3_object o, struct arena *perm)
{
    if (l->count == *room) {
        *room                   = MAX(64, 2 * *room);
        struct s3_object *wider = NEW(perm, struct s3_object, *room);
        if (l->count) memcpy(wider, l->objects, (size_t)l->count * sizeof *wider);
        l->objects = wider;
    }
    l->objects[l->count++] = o;
}

static void read_page(struct str inner, struct s3_list *l, i64 *room, struct arena *perm)
{
    struct xml x;
    while (xml_next(&inner, &x)) {
        struct s3_object o = { 0 };
        if (str_eq(x.name, STR("Contents"))) {
            o.key           = xml_text(perm, xml_child(x.inner, STR("Key")));
            o.storage_class = xml_text(perm, xml_child(x.inner, STR("StorageClass")));
            o.archived      = is_archive(o.storage_class);
            if (!str_i64(xml_child(x.inner, STR("Size")), &o.bytes)) o.bytes = -1;
            date_iso(xml_child(x.inner, STR("LastModified")), &o.modified_s);
        } else if (str_eq(x.name, STR("CommonPrefixes"))) {
            o.key = xml_text(perm, xml_child(x.inner, STR("Prefix")));
        }
        if (o.key.len) list_add(l, room, o, perm);
    }
}

enum status s3_list(struct s3 *s, struct str prefix, struct str delimiter, struct arena *perm,
                    struct arena scratch, struct s3_list *out, struct err *err)
{
    struct str next = STR("");
    i64        room = 0;
    *out            = (struct s3_list){ 0 };
    for (int page = 0; page < LIST_PAGES_MAX; page++) {
        struct arena     turn = scratch;
        struct s3_answer a;
        struct xml       root = { 0 };
        struct s3_call   c    = { .method = "GET", .reply_bytes_max = page_bytes_max };
        ask(&c, "list-type", STR("2"));
        ask(&c, "prefix", prefix);
        if (delimiter.len) ask(&c, "delimiter", delimiter);
        if (next.len) ask(&c, "continuation-token", next);
        enum status st = s3_send_well(s, &c, &turn, &a, err);
        if (st) return st;
        if (!xml_next(&a.reply.body, &root) || !str_eq(root.name, STR("ListBucketResult")))
            return err_set(err, STATUS_WORLD, "%.*s sent an answer that is not a list",
                           STR_ARG(s3_address(s, perm, prefix)));
        read_page(root.inner, out, &room, perm);
        next = xml_text(perm, xml_child(root.inner, STR("NextContinuationToken")));
        if (!str_eq(xml_child(root.inner, STR("IsTruncated")), STR("true"))) return STATUS_OK;
        if (!next.len) break;
    }
    return err_set(err, STATUS_WORLD, "%.*s: the list does not end",
                   STR_ARG(s3_address(s, perm, prefix)));
}

/* --- the rest -------------------------------------------------------------------------------------- */

enum status s3_delete(struct s3 *s, struct str key, struct arena scratch, struct err *err)
{
    struct s3_answer a;
    struct s3_call   c  = { .method = "DELETE", .key = key };
    enum status      st = s3_send(s, &c, &scratch, &a, err);
    if (!st && !s3_good(&a) && a.status != 404) st = s3_refused(s, &c, &a, err);
    return st;
}

enum status s3_tag(struct s3 *s, struct str key, struct str name, struct str value,
                   struct arena scratch, struct err *err)
{
    struct s3_answer a;
    struct str       body =
        str_fmt(&scratch,
                "<Tagging><TagSet><Tag><Key>%.*s</Key><Value>%.*s</Value></Tag></TagSet></Tagging>",
                STR_ARG(name), STR_ARG(value));
    struct s3_call c = { .method = "PUT", .key = key, .body = body, .checksum = true };
    ask(&c, "tagging", STR(""));
    return s3_send_well(s, &c, &scratch, &a, err);
}

enum status s3_lifecycle_get(struct s3 *s, struct arena *perm, struct str *xml, struct err *err)
{
    struct s3_answer a;
    struct s3_call   c = { .method = "GET", .reply_bytes_max = page_bytes_max };
    ask(&c, "lifecycle", STR(""));
    enum status st = s3_send(s, &c, perm, &a, err);
    *xml           = STR("");
    if (st || str_eq(a.code, STR("NoSuchLifecycleConfiguration"))) return st;
    if (!s3_good(&a)) return s3_refused(s, &c, &a, err);
    *xml = a.reply.body;
    return STATUS_OK;
}

enum status s3_lifecycle_put(struct s3 *s, struct str xml, struct arena scratch, struct err *err)
{
    struct s3_answer a;
    struct s3_call   c = { .method = "PUT", .body = xml, .checksum = true };
    ask(&c, "lifecycle", STR(""));
    return s3_send_well(s, &c, &scratch, &a, err);
}

enum status s3_restore(struct s3 *s, struct str key, i64 days, struct arena scratch,
                       struct err *err)
{
    struct s3_answer a;
    struct str       body = str_fmt(&scratch,
                                    "<RestoreRequest><Days>%lld</Days><GlacierJobParameters><Tier>"
                                          "Standard</Tier></GlacierJobParameters></RestoreRequest>",
                                    (long long)days);
    struct s3_call   c    = { .method = "POST", .key = key, .body = body, .checksum = true };
    ask(&c, "restore", STR(""));
    enum status st      = s3_send(s, &c, &scratch, &a, err);
    bool        already = str_eq(a.code, STR("RestoreAlreadyInProgress"));
    if (!st && !s3_good(&a) && !already) st = s3_refused(s, &c, &a, err);
    return st;
}
