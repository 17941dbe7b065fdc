/* s3_parts.c - files to and from the store in parts, several at once.
 *
 * Each worker has memory for one part and no more. A part's CRC-32C goes with it and again into the
 * request that completes the upload, so the store checks every byte twice. */
#include "base/hash.h"
#include "base/pool.h"
#include "remote/s3_int.h"
#include "remote/xml.h"
#include <string.h>

enum { CRC_CHARS = 8, THREADS = 4, PARTS_MAX = 10000, UPLOADS_MAX = 1000 };
static const i64 usual_part_bytes = 8 << 20;
static const i64 request_bytes    = 1 << 20; /* memory of a request, beside its part */
static const i64 xml_bytes_max    = 4 << 20;
static const i64 transfer_bytes   = 32 << 20; /* memory of lists of parts and their XML */

struct part {
    struct str etag; /* empty: not there yet */
    char       etag_text[80];
    u32        crc;
    char there[CRC_CHARS]; /* the checksum of what an earlier try has sent, as the store has it */
};

/* A file under way, in either direction, with the threads and the memory it takes. */
struct transfer {
    struct s3      *s;
    struct str      path, key, upload_id;
    struct file     file;
    i64             bytes, part_bytes, parts;
    struct part    *part;  /* of an upload */
    i64             first; /* of a download: the part that block 0 is */
    struct str      got[THREADS];
    struct arena    memory;          /* of all that follows */
    struct arena    worker[THREADS]; /* a part and its request */
    struct pool    *pool;
    pthread_mutex_t lock;
    bool            refused; /* a part: trying again will not help */
    enum status     st;      /* the first failure */
    struct err      err;
};

static i64 part_bytes_for(const struct s3 *s, i64 bytes)
{
    i64 part = s->part_bytes ? s->part_bytes : usual_part_bytes;
    i64 need = (bytes + PARTS_MAX - 1) / PARTS_MAX, mib = 1 << 20;
    return need <= part ? part : (need + mib - 1) / mib * mib;
}

static enum status transfer_open(struct transfer *t, struct s3 *s, struct str path, struct str key,
                                 i64 bytes, struct err *err)
{
    i64 part_bytes = part_bytes_for(s, bytes), each = part_bytes + request_bytes;
    *t = (struct transfer){ .s          = s,
                            .path       = path,
                            .key        = key,
                            .file       = { -1 },
                            .bytes      = bytes,
                            .part_bytes = part_bytes,
                            .parts      = (bytes + part_bytes - 1) / part_bytes,
                            .memory     = arena_open(THREADS * (each + 4096) + transfer_bytes) };
    if (!t->memory.begin)
        return err_set(err, STATUS_WORLD, "no memory for %d parts of %lld bytes", THREADS,
                       (long long)part_bytes);
    pthread_mutex_init(&t->lock, NULL);
    for (int i = 0; i < THREADS; i++) t->worker[i] = arena_part(&t->memory, each);
    t->part = NEW(&t->memory, struct part, t->parts);
    t->pool = pool_open(&t->memory, (i32)MAX(1, MIN(THREADS, t->parts)));
    return STATUS_OK;
}

static void transfer_close(struct transfer *t)
{
    if (t->file.fd >= 0) t->s->os->close(t->s->os, &t->file, NULL);
    pool_close(t->pool);
    pthread_mutex_destroy(&t->lock);
    arena_close(&t->memory);
}

static enum status run_all(struct transfer *t, i64 blocks, pool_fn *fn, struct err *err)
{
    pool_run(t->pool, blocks, fn, t);
    return t->st ? err_set(err, t->st, "%s", t->err.text) : STATUS_OK;
}

static void fail(struct transfer *t, enum status st, const struct err *err)
{
    pthread_mutex_lock(&t->lock);
    if (!t->st) {
        t->st  = st;
        t->err = *err;
    }
    pthread_mutex_unlock(&t->lock);
}

static void give_up(struct transfer *t)
{
    pthread_mutex_lock(&t->lock);
    t->refused = true;
    pthread_mutex_unlock(&t->lock);
}

static bool failed(struct transfer *t)
{
    pthread_mutex_lock(&t->lock);
    bool yes = t->st != STATUS_OK;
    pthread_mutex_unlock(&t->lock);
    return yes;
}

static i64 bytes_of(const struct transfer *t, i64 part)
{
    return MIN(t->part_bytes, t->bytes - part * t->part_bytes);
}

static enum status read_part(struct transfer *t, i64 part, struct arena *perm, struct str *bytes,
                             struct err *err)
{
    struct os *os    = t->s->os;
    i64        count = bytes_of(t, part), at = part * t->part_bytes, got = 0;
    char      *to = NEW(perm, char, MAX(count, 1));
    for (i64 done = 0; done < count; done += got) {
        enum status st = os->read(os, t->file, to + done, count - done, at + done, &got, err);
        if (st) return st;
        if (!got)
            return err_set(err, STATUS_WORLD, "%.*s became shorter while it was uploaded",
                           STR_ARG(t->path));
    }
    *bytes = (struct str){ to, count };
    return STATUS_OK;
}

/* --- sending --------------------------------------------------------------------------------------- */

static void etag_set(struct part *p, struct str etag)
{
    i64 len = MIN(etag.len, (i64)sizeof p->etag_text);
    if (len) memcpy(p->etag_text, etag.data, (size_t)len);
    p->etag = (struct str){ p->etag_text, len };
}

static void send_part(void *context, i64 block, i32 worker)
{
    struct transfer *t       = context;
    struct part     *p       = &t->part[block];
    struct arena     scratch = t->worker[worker];
    struct str       bytes;
    struct err       err;
    struct s3_answer a = { 0 };
    if (failed(t)) return;
    enum status st = read_part(t, block, &scratch, &bytes, &err);
    if (st) {
        fail(t, st, &err);
        return;
    }
    p->crc = crc32c_add(0, bytes);
    if (p->etag.len && !memcmp(p->there, s3_crc_text(&scratch, p->crc).data, CRC_CHARS)) return;
    struct s3_call c = { .method      = "PUT",
                         .key         = t->key,
                         .body        = bytes,
                         .checksum    = true,
                         .query       = { { STR("partNumber"),
                                            str_fmt(&scratch, "%lld", (long long)block + 1) },
                                          { STR("uploadId"), t->upload_id } },
                         .query_count = 2 };
    st               = s3_send_well(t->s, &c, &scratch, &a, &err);
    if (!st) etag_set(p, web_header(&a.reply, STR("ETag")));
    if (!st && !p->etag.len)
        st = err_set(&err, STATUS_WORLD, "part %lld of %.*s was accepted without an ETag",
                     (long long)block + 1, STR_ARG(t->key));
    if (st) fail(t, st, &err);
    if (st && a.status / 100 == 4) give_up(t);
}

static enum status begin(struct transfer *t, struct arena *perm, struct err *err)
{
    struct s3_answer a;
    struct xml       root = { 0 };
    struct s3_call   c    = { .method           = "POST",
                              .key              = t->key,
                              .query            = { { STR("uploads"), STR("") } },
                              .query_count      = 1,
                              .checksum_of_each = true,
                              .with_class       = true };
    enum status      st   = s3_send_well(t->s, &c, perm, &a, err);
    if (st) return st;
    xml_next(&a.reply.body, &root);
    t->upload_id = xml_text(perm, xml_child(root.inner, STR("UploadId")));
    if (t->upload_id.len) return STATUS_OK;
    return err_set(err, STATUS_WORLD, "the store started an upload of %.*s without an UploadId",
                   STR_ARG(t->key));
}

static enum status abort_upload(struct s3 *s, struct str key, struct str upload_id,
                                struct arena scratch, struct err *err)
{
    struct s3_answer a;
    struct s3_call   c  = { .method      = "DELETE",
                            .key         = key,
                            .query       = { { STR("uploadId"), upload_id } },
                            .query_count = 1 };
    enum status      st = s3_send(s, &c, &scratch, &a, err);
    if (!st && !s3_good(&a) && a.status != 404) st = s3_refused(s, &c, &a, err);
    return st;
}

/* Is what lies there our file? Each part is read again. */
static void compare_part(void *context, i64 block, i32 worker)
{
    struct transfer *t       = context;
    struct arena     scratch = t->worker[worker];
    struct str       bytes;
    struct err       err;
    if (failed(t)) return;
    enum status st = s3_get_range(t->s, t->key, block * t->part_bytes, bytes_of(t, block), &scratch,
                                  &bytes, &err);
    if (!st && crc32c_add(0, bytes) != t->part[block].crc)
        st = err_set(&err, STATUS_WORLD, "%.*s holds other bytes than were sent", STR_ARG(t->key));
    if (st) fail(t, st, &err);
}

static enum status compare_all(struct transfer *t, struct arena scratch, struct err *err)
{
    struct s3_object o;
    enum status      st = s3_head(t->s, t->key, &scratch, &o, err);
    if (!st && o.bytes != t->bytes)
        return err_set(err, STATUS_WORLD, "%.*s has %lld bytes in the store, not %lld",
                       STR_ARG(t->key), (long long)o.bytes, (long long)t->bytes);
    return st ? STATUS_WORLD : run_all(t, t->parts, compare_part, err);
}

static enum status complete(struct transfer *t, struct arena scratch, struct err *err)
{
    struct s3_answer a;
    struct textbuf   b = textbuf_new(&scratch);
    textbuf_add(&b, STR("<CompleteMultipartUpload>"));
    for (i64 i = 0; i < t->parts; i++) {
        struct arena turn = t->worker[0]; /* free by now */
        textbuf_fmt(&b, "<Part><PartNumber>%lld</PartNumber><ETag>", (long long)i + 1);
        xml_escape(&b, t->part[i].etag);
        textbuf_add(&b, STR("</ETag>"));
        if (!s3_is_google(t->s))
            textbuf_fmt(&b, "<ChecksumCRC32C>%.*s</ChecksumCRC32C>",
                        STR_ARG(s3_crc_text(&turn, t->part[i].crc)));
        textbuf_add(&b, STR("</Part>"));
    }
    textbuf_add(&b, STR("</CompleteMultipartUpload>"));
    struct s3_call c  = { .method       = "POST",
                          .key          = t->key,
                          .body         = textbuf_str(&b),
                          .query        = { { STR("uploadId"), t->upload_id } },
                          .query_count  = 1,
                          .error_in_200 = true };
    enum status    st = s3_send(t->s, &c, &scratch, &a, err);
    if (st || s3_good(&a)) return st;
    bool gone = a.status == 412 || str_eq(a.code, STR("NoSuchUpload"));
    if (gone && a.unanswered) return compare_all(t, scratch, err); /* a lost answer said yes */
    return s3_refused(t->s, &c, &a, err);
}

/* --- what an earlier try left ---------------------------------------------------------------------- */

struct unfinished {
    struct str key, upload_id;
};

/* Unfinished uploads below the prefix, at most UPLOADS_MAX: one page. */
static enum status unfinished_list(struct s3 *s, struct str prefix, struct arena *perm,
                                   struct unfinished *list, i64 *count, struct err *err)
{
    struct s3_answer a;
    struct xml       root = { 0 }, x;
    struct s3_call   c    = { .method = "GET",
                              .query  = { { STR("uploads"), STR("") }, { STR("prefix"), prefix } },
                              .query_count     = 2,
                              .reply_bytes_max = xml_bytes_max };
    enum status      st   = s3_send_well(s, &c, perm, &a, err);
    *count                = 0;
    if (st) return st;
    xml_next(&a.reply.body, &root);
    struct str inner = root.inner;
    while (*count < UPLOADS_MAX && xml_next(&inner, &x)) {
        if (!str_eq(x.name, STR("Upload"))) continue;
        list[*count].key       = xml_text(perm, xml_child(x.inner, STR("Key")));
        list[*count].upload_id = xml_text(perm, xml_child(x.inner, STR("UploadId")));
        *count += 1;
    }
    return STATUS_OK;
}

static void take_parts(struct transfer *t, struct str inner, struct arena scratch)
{
    struct xml x;
    while (xml_next(&inner, &x)) {
        i64        number, bytes;
        struct str crc = xml_child(x.inner, STR("ChecksumCRC32C"));
        if (!str_eq(x.name, STR("Part")) ||
            !str_i64(xml_child(x.inner, STR("PartNumber")), &number) || number < 1 ||
            number > t->parts || !str_i64(xml_child(x.inner, STR("Size")), &bytes) ||
            bytes != bytes_of(t, number - 1) || crc.len != CRC_CHARS)
            continue;
        struct part *p = &t->part[number - 1];
        memcpy(p->there, crc.data, CRC_CHARS);
        etag_set(p, xml_text(&scratch, xml_child(x.inner, STR("ETag"))));
    }
}

/* Finds an unfinished upload of this key, and which of our parts it has: those with our size and a
 * checksum to hold them to. Whatever goes wrong here, the upload begins anew. */
static void resume(struct transfer *t, struct arena *perm)
{
    struct unfinished *list   = NEW(perm, struct unfinished, UPLOADS_MAX);
    struct str         marker = STR("0");
    i64                count;
    if (unfinished_list(t->s, t->key, perm, list, &count, NULL)) return;
    for (i64 i = 0; i < count; i++)
        if (str_eq(list[i].key, t->key)) t->upload_id = list[i].upload_id; /* the newest is last */
    for (i64 page = 0; t->upload_id.len && page <= t->parts / 1000; page++) {
        struct arena     turn = *perm;
        struct s3_answer a;
        struct xml       root = { 0 };
        struct s3_call   c    = { .method          = "GET",
                                  .key             = t->key,
                                  .query           = { { STR("uploadId"), t->upload_id },
                                                       { STR("part-number-marker"), marker } },
                                  .query_count     = 2,
                                  .reply_bytes_max = xml_bytes_max };
        if (s3_send_well(t->s, &c, &turn, &a, NULL)) {
            t->upload_id = STR("");
            return;
        }
        xml_next(&a.reply.body, &root);
        take_parts(t, root.inner, turn);
        if (!str_eq(xml_child(root.inner, STR("IsTruncated")), STR("true"))) return;
        marker = str_copy(perm, xml_child(root.inner, STR("NextPartNumberMarker")));
    }
}

enum status s3_abort_uploads(struct s3 *s, struct str prefix, struct arena scratch, i64 *count,
                             struct err *err)
{
    struct unfinished *list = NEW(&scratch, struct unfinished, UPLOADS_MAX);
    enum status        st   = unfinished_list(s, prefix, &scratch, list, count, err);
    for (i64 i = 0; !st && i < *count; i++)
        st = abort_upload(s, list[i].key, list[i].upload_id, scratch, err);
    return st;
}

/* --- files ----------------------------------------------------------------------------------------- */

static enum status upload_parts(struct transfer *t, enum s3_upload_how how, struct err *err)
{
    enum status st = STATUS_OK;
    if (how == S3_RESUME) resume(t, &t->memory);
    if (!t->upload_id.len) st = begin(t, &t->memory, err);
    if (st) return st;
    st = run_all(t, t->parts, send_part, err);
    if (!st) st = complete(t, t->memory, err);
    /* Parts cost money until they are given up; after an outage, a later try resumes. */
    if (t->refused && how == S3_FRESH) abort_upload(t->s, t->key, t->upload_id, t->memory, NULL);
    return st;
}

static enum status upload_whole(struct transfer *t, struct arena scratch, struct err *err)
{
    struct str       bytes;
    struct s3_answer a;
    enum status      st = read_part(t, 0, &scratch, &bytes, err);
    if (st) return st;
    struct s3_call c = {
        .method = "PUT", .key = t->key, .body = bytes, .checksum = true, .with_class = true
    };
    st = s3_send_well(t->s, &c, &scratch, &a, err);
    return st;
}

enum status s3_upload(struct s3 *s, struct str path, struct str key, enum s3_upload_how how,
                      struct err *err)
{
    struct os      *os = s->os;
    struct transfer t;
    struct os_stat  stat;
    enum status     st = os->stat(os, path, &stat, err);
    if (!st) st = transfer_open(&t, s, path, key, stat.bytes, err);
    if (st) return st;
    st = os->open_read(os, path, &t.file, err);
    if (!st) st = t.parts > 1 ? upload_parts(&t, how, err) : upload_whole(&t, t.worker[0], err);
    transfer_close(&t);
    return st;
}

static void receive_part(void *context, i64 block, i32 worker)
{
    struct transfer *t    = context;
    struct arena     turn = t->worker[block]; /* not the worker's: the bytes outlive the block */
    i64              part = t->first + block;
    struct err       err;
    (void)worker;
    if (failed(t)) return;
    enum status st = s3_get_range(t->s, t->key, part * t->part_bytes, bytes_of(t, part), &turn,
                                  &t->got[block], &err);
    if (st) fail(t, st, &err);
}

enum status s3_download(struct s3 *s, struct str key, i64 bytes, struct str path, struct err *err)
{
    struct os      *os = s->os;
    struct transfer t;
    enum status     st = transfer_open(&t, s, path, key, bytes, err);
    if (st) return st;
    st = os->create(os, path, &t.file, err);
    for (; !st && t.first < t.parts; t.first += THREADS) { /* some at once, then written in order */
        i64 now = MIN(THREADS, t.parts - t.first);
        st      = run_all(&t, now, receive_part, err);
        for (i64 i = 0; !st && i < now; i++) st = os->write(os, t.file, t.got[i], err);
    }
    if (!st) st = os->close(os, &t.file, err);
    transfer_close(&t);
    return st;
}
