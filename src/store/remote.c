/* remote.c - checkpoints in an object store.
 *
 * A single object appears whole or not at all, so the order that makes a local checkpoint safe does
 * it here too, without a sync: shards, then the manifest. Two writers are kept apart by numbers: each
 * start claims the next, every name holds the number, and whoever sees a higher one stops. */
#include "store/remote.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLAIMS_MAX = 100, VERIFY_BYTES = 8 << 20 };
static const i64 orphan_s = 86400;

struct remote {
    struct os  *os;
    struct web *own_web; /* to close; NULL: the caller's */
    struct s3  *s3;
};

/* --- names ----------------------------------------------------------------------------------------- */

static struct str attempt_key(const struct remote *r, struct arena *perm, i64 attempt)
{
    return str_fmt(perm, "%.*sattempts/%06lld", STR_ARG(s3_prefix(r->s3)), (long long)attempt);
}

static struct str object_key(const struct remote *r, struct arena *perm, struct ckpt_id id,
                             struct str name)
{
    return str_fmt(perm, "%.*s%.*s/%.*s", STR_ARG(s3_prefix(r->s3)), STR_ARG(ckpt_name(perm, id)),
                   STR_ARG(name));
}

struct str remote_address(const struct remote *r, struct arena *perm, struct ckpt_id id)
{
    struct str key = object_key(r, perm, id, STR(""));
    return s3_address(r->s3, perm, str_sub(key, 0, key.len - 1));
}

enum status remote_open(struct os *os, struct web *web, const struct s3_settings *where,
                        struct arena *perm, struct remote **out, struct err *err)
{
    struct remote *r  = NEW(perm, struct remote, 1);
    enum status    st = STATUS_OK;
    r->os             = os;
    if (!web) st = web_open(os, perm, &r->own_web, err);
    if (!st) st = s3_open(os, web ? web : r->own_web, where, perm, &r->s3, err);
    if (st) remote_close(r);
    *out = st ? NULL : r;
    return st;
}

void remote_close(struct remote *r)
{
    if (r->own_web) web_close(r->own_web);
    r->own_web = NULL;
}

void           remote_cancel(struct remote *r) { s3_cancel(r->s3); }
struct s3_sums remote_sums(const struct remote *r) { return s3_sums(r->s3); }

/* --- who writes ------------------------------------------------------------------------------------ */

/* The highest number of a start; 0: none yet. */
static enum status last_attempt(struct remote *r, struct arena scratch, i64 *last, struct err *err)
{
    struct str     prefix = str_cat(&scratch, s3_prefix(r->s3), STR("attempts/"));
    struct arena   keys   = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct s3_list list;
    enum status    st = s3_list(r->s3, prefix, STR(""), &keys, scratch, &list, err);
    *last             = 0;
    for (i64 i = 0; !st && i < list.count; i++) {
        i64 number;
        if (str_i64(str_sub(list.objects[i].key, prefix.len, INT64_MAX), &number))
            *last = MAX(*last, number);
    }
    return st;
}

/* The checkpoint a key belongs to, by the folder in it. */
static bool id_of_key(const struct remote *r, struct str key, struct ckpt_id *id)
{
    struct str rest = str_sub(key, s3_prefix(r->s3).len, key.len), name = STR("");
    return str_cut(&rest, '/', &name) && ckpt_name_parse(name, id);
}

/* Shards that a machine uploaded before it died, and whose manifest never came, cost money for ever.
 * They go after a day: a start that was taken over may until then still be about to finish. */
static void delete_orphans(struct remote *r, i64 attempt, struct arena scratch)
{
    struct arena   keys = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct s3_list l;
    i64            now_s  = r->os->wall_ns(r->os) / 1000000000;
    struct str     prefix = str_cat(&scratch, s3_prefix(r->s3), STR("step-"));
    if (s3_list(r->s3, prefix, STR(""), &keys, scratch, &l, NULL)) return;
    for (i64 from = 0, to; from < l.count; from = to) { /* by key, so a checkpoint's lie together */
        struct ckpt_id id, other;
        bool           ours = id_of_key(r, l.objects[from].key, &id), whole = false, old = true;
        for (to = from; to < l.count; to++) {
            const struct s3_object *o = &l.objects[to];
            if (to > from && !(ours && id_of_key(r, o->key, &other) && !ckpt_order(id, other)))
                break;
            whole |= str_ends(o->key, STR("/" CKPT_MANIFEST));
            old &= o->modified_s && now_s - o->modified_s > orphan_s;
        }
        for (i64 i = from; i < to && ours && !whole && old && id.attempt < attempt; i++)
            s3_delete(r->s3, l.objects[i].key, scratch, NULL);
    }
}

enum status remote_give_up(struct remote *r, struct arena scratch, struct err *err)
{
    i64 count;
    return s3_abort_uploads(r->s3, str_cat(&scratch, s3_prefix(r->s3), STR("step-")), scratch,
                            &count, err);
}

enum status remote_claim(struct remote *r, i64 least, struct arena scratch, i64 *attempt,
                         bool *alone, struct err *err)
{
    i64         last;
    char        host[64] = "?";
    enum status st       = last_attempt(r, scratch, &last, err);
    if (st) return st;
    gethostname(host, sizeof host - 1);
    struct str body = str_fmt(&scratch, "{\"host\": \"%s\", \"pid\": %lld, \"begun_ns\": %lld}\n",
                              host, (long long)getpid(), (long long)r->os->wall_ns(r->os));
    *attempt        = MAX(least, last);
    for (int i = 0; i < CLAIMS_MAX; i++) {
        struct str key = attempt_key(r, &scratch, ++*attempt);
        st             = s3_put_new(r->s3, key, body, scratch, err);
        if (st == STATUS_NO) continue; /* somebody was faster */
        if (st) return st;
        /* Would the store have said no? Asked once, with other bytes than the number holds. */
        st     = s3_put_new(r->s3, key, str_cat(&scratch, body, STR("\n")), scratch, err);
        *alone = st == STATUS_NO;
        if (st && st != STATUS_NO) return st;
        remote_give_up(r, scratch, NULL); /* where that may not be asked, the lifecycle does it */
        delete_orphans(r, *attempt, scratch);
        return STATUS_OK;
    }
    return err_set(err, STATUS_WORLD, "%.*s: %d numbers in a row were taken by others",
                   STR_ARG(s3_address(r->s3, &scratch, attempt_key(r, &scratch, *attempt))),
                   CLAIMS_MAX);
}

enum status remote_taken_over(struct remote *r, i64 attempt, struct arena scratch, i64 *by,
                              struct err *err)
{
    struct s3_object o;
    *by            = 0;
    enum status st = s3_head(r->s3, attempt_key(r, &scratch, attempt + 1), &scratch, &o, err);
    if (st == STATUS_NO) return STATUS_OK;
    if (!st) st = last_attempt(r, scratch, by, err);
    return st;
}

/* --- what is there --------------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
    return ckpt_order(((const struct ckpt *)b)->id, ((const struct ckpt *)a)->id);
}

static enum status manifest_get(struct remote *r, struct ckpt *c, struct arena *perm,
                                struct arena scratch, struct err *err)
{
    struct str  text;
    enum status st =
        s3_get(r->s3, object_key(r, &scratch, c->id, STR(CKPT_MANIFEST)), &scratch, &text, err);
    if (st) return st;
    c->why.status =
        ckpt_manifest_parse(c->folder, str_copy(perm, text), perm, &c->manifest, &c->why);
    return STATUS_OK;
}

enum status remote_list(struct remote *r, struct arena *perm, struct arena scratch,
                        struct ckpt_list *out, struct err *err)
{
    struct str     prefix = str_cat(&scratch, s3_prefix(r->s3), STR("step-"));
    struct arena   keys   = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct s3_list list;
    enum status    st = s3_list(r->s3, prefix, STR("/"), &keys, scratch, &list, err);
    *out              = (struct ckpt_list){ 0 };
    if (st) return st;
    struct ckpt *all   = NEW(perm, struct ckpt, list.count);
    i64          count = 0;
    for (i64 i = 0; i < list.count; i++) {
        struct str name =
            str_sub(list.objects[i].key, s3_prefix(r->s3).len, list.objects[i].key.len - 1);
        if (!ckpt_name_parse(name, &all[count].id)) continue; /* not ours */
        all[count].folder = remote_address(r, perm, all[count].id);
        st                = manifest_get(r, &all[count], perm, scratch, err);
        if (st && st != STATUS_NO) return st;
        if (!st) count++;
        else all[count] = (struct ckpt){ 0 }; /* without a manifest it is not there yet */
    }
    qsort(all, (size_t)count, sizeof *all, newest_first);
    *out = (struct ckpt_list){ all, count };
    return STATUS_OK;
}

/* --- there and back -------------------------------------------------------------------------------- */

static bool is_there(struct remote *r, struct str key, i64 bytes, struct arena scratch)
{
    struct s3_object o;
    return !s3_head(r->s3, key, &scratch, &o, NULL) && o.bytes == bytes;
}

static enum status put_manifest(struct remote *r, struct str folder, struct ckpt_id id,
                                struct arena scratch, struct err *err)
{
    struct str  key = object_key(r, &scratch, id, STR(CKPT_MANIFEST)), ours, theirs;
    enum status st  = os_read_all(r->os, str_fmt(&scratch, "%.*s/" CKPT_MANIFEST, STR_ARG(folder)),
                                  &scratch, &ours, err);
    if (!st) st = s3_put_new(r->s3, key, ours, scratch, err);
    if (st != STATUS_NO) return st;
    st = s3_get(r->s3, key, &scratch, &theirs, err); /* an earlier try may have been the last one */
    if (!st && !str_eq(ours, theirs))
        return err_set(err, STATUS_WORLD, "%.*s was written by another process",
                       STR_ARG(s3_address(r->s3, &scratch, key)));
    return st ? STATUS_WORLD : STATUS_OK;
}

enum status remote_put(struct remote *r, struct str folder, const struct ckpt_manifest *m,
                       enum s3_upload_how how, struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; i < m->shard_count && !st; i++) {
        struct arena turn = scratch;
        struct str   key  = object_key(r, &turn, m->id, m->shards[i].name);
        struct str path = str_fmt(&turn, "%.*s/%.*s", STR_ARG(folder), STR_ARG(m->shards[i].name));
        if (how == S3_RESUME && is_there(r, key, m->shards[i].bytes, turn)) continue;
        st = s3_upload(r->s3, path, key, how, err);
    }
    return st ? st : put_manifest(r, folder, m->id, scratch, err);
}

/* Standard retrieval from AWS's archives: S3 user guide, "Archive retrieval options"; dollars as in
 * src/plan/storage.csv, which tests/unit/test_remote.c holds this to. */
static const struct archive {
    struct str class;
    f64 hours, usd_gb;
} archives[] = { { STR_INIT("GLACIER"), 5, 0.01 }, { STR_INIT("DEEP_ARCHIVE"), 12, 0.02 } };

bool remote_archive(struct str class, f64 *hours, f64 *usd_gb)
{
    for (i64 i = 0; i < COUNT_OF(archives); i++)
        if (str_eq(class, archives[i].class)) {
            *hours  = archives[i].hours;
            *usd_gb = archives[i].usd_gb;
            return true;
        }
    return false;
}

enum status remote_class(struct remote *r, const struct ckpt_manifest *m, struct arena *perm,
                         struct str *out, struct err *err)
{
    struct s3_object o = { 0 };
    if (!m->shard_count) return STATUS_OK;
    enum status st = s3_head(r->s3, object_key(r, perm, m->id, m->shards[0].name), perm, &o, err);
    *out           = o.storage_class;
    return st;
}

enum status remote_readable(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                            struct err *err)
{
    for (i64 i = 0; i < m->shard_count; i++) {
        struct arena     turn = scratch;
        struct s3_object o;
        f64              hours, usd_gb;
        struct str       key = object_key(r, &turn, m->id, m->shards[i].name);
        enum status      st  = s3_head(r->s3, key, &turn, &o, err);
        if (st) return STATUS_WORLD;
        if (!o.archived || !remote_archive(o.storage_class, &hours, &usd_gb)) continue;
        f64 gb = (f64)ckpt_bytes(m) / 1e9;
        if (o.restoring)
            return err_set(err, STATUS_NO, "%.*s is being brought back from %.*s, within %g hours",
                           STR_ARG(remote_address(r, &turn, m->id)), STR_ARG(o.storage_class),
                           hours);
        return err_set(
            err, STATUS_NO,
            "%.*s lies in %.*s: bringing its %.3g GB back takes up to %g hours and about $%.2f "
            "(frugal checkpoints restore)",
            STR_ARG(remote_address(r, &turn, m->id)), STR_ARG(o.storage_class), gb, hours,
            gb * usd_gb);
    }
    return STATUS_OK;
}

enum status remote_fetch(struct remote *r, const struct ckpt_manifest *m, struct ckpt_store *to,
                         struct arena scratch, struct err *err)
{
    struct str  folder;
    enum status st = remote_readable(r, m, scratch, err);
    if (st) return st;
    st = ckpt_import_begin(to, m, &scratch, &folder, err);
    if (st == STATUS_NO) return STATUS_OK; /* a whole one is here already */
    for (i64 i = 0; i < m->shard_count && !st; i++) {
        struct arena turn = scratch;
        struct str path = str_fmt(&turn, "%.*s/%.*s", STR_ARG(folder), STR_ARG(m->shards[i].name));
        st = s3_download(r->s3, object_key(r, &turn, m->id, m->shards[i].name), m->shards[i].bytes,
                         path, err);
    }
    if (st) return STATUS_WORLD; /* a shard that is missing (NO) is no archive */
    st = ckpt_import_commit(to, m, scratch, err);
    return st == STATUS_NO ? STATUS_WORLD : st;
}

static enum status verify_shard(struct remote *r, const struct ckpt_manifest *m, i64 i,
                                struct arena scratch, struct err *err)
{
    const struct ckpt_shard *s   = &m->shards[i];
    struct str               key = object_key(r, &scratch, m->id, s->name);
    struct xxh64             hash;
    struct s3_object         there;
    enum status              st = s3_head(r->s3, key, &scratch, &there, err);
    if (!st && there.bytes != s->bytes)
        return err_set(err, STATUS_NO, "%.*s has %lld bytes, and its manifest says %lld",
                       STR_ARG(s3_address(r->s3, &scratch, key)), (long long)there.bytes,
                       (long long)s->bytes);
    xxh64_init(&hash);
    for (i64 at = 0; at < s->bytes && !st; at += VERIFY_BYTES) {
        struct arena turn = scratch;
        struct str   bytes;
        st = s3_get_range(r->s3, key, at, MIN(VERIFY_BYTES, s->bytes - at), &turn, &bytes, err);
        if (!st) xxh64_add(&hash, bytes);
    }
    if (st || xxh64_end(&hash) == s->hash) return st;
    return err_set(err, STATUS_NO, "%.*s is damaged: its hash is %016llx, and its manifest says %016llx",
                   STR_ARG(s3_address(r->s3, &scratch, key)), (unsigned long long)xxh64_end(&hash),
                   (unsigned long long)s->hash);
}

enum status remote_verify(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                          struct err *err)
{
    enum status st = remote_readable(r, m, scratch, err);
    for (i64 i = 0; i < m->shard_count && !st; i++) st = verify_shard(r, m, i, scratch, err);
    return st;
}

enum status remote_rate(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                        f64 *bytes_s, struct err *err)
{
    const struct ckpt_shard *largest  = &m->shards[0];
    i64                      begin_ns = r->os->now_ns(r->os);
    struct str               bytes    = STR("");
    for (i64 i = 1; i < m->shard_count; i++)
        if (m->shards[i].bytes > largest->bytes) largest = &m->shards[i];
    struct str  key = object_key(r, &scratch, m->id, largest->name);
    enum status st  = s3_get_range(r->s3, key, 0, MIN(VERIFY_BYTES, largest->bytes), &scratch, &bytes, err);
    *bytes_s        = (f64)bytes.len * 1e9 / (f64)MAX(1, r->os->now_ns(r->os) - begin_ns);
    return st;
}

enum status remote_fetch_newer(struct remote *r, struct ckpt_id have, struct ckpt_store *to,
                               struct arena *perm, struct arena scratch, struct str *said,
                               struct ckpt_id *got, struct err *err)
{
    struct arena     lists = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct textbuf   b     = textbuf_new(perm);
    struct ckpt_list list;
    enum status      st = remote_list(r, &lists, scratch, &list, err);
    *said               = STR("");
    if (st) return st;
    for (i64 i = 0; i < list.count && ckpt_order(have, list.items[i].id) < 0; i++) {
        const struct ckpt *c   = &list.items[i];
        struct err         why = c->why;
        if (!why.status) why.status = remote_fetch(r, &c->manifest, to, scratch, &why);
        *got = c->id;
        if (why.status == STATUS_OK) return STATUS_OK;
        if (why.status == STATUS_INTERRUPTED) return err_set(err, why.status, "%s", why.text);
        textbuf_fmt(&b, "%s%s", b.len ? "; " : "", why.text);
        *said = textbuf_str(&b);
    }
    return err_set(err, STATUS_NO, "%.*s has nothing newer that can be read",
                   STR_ARG(s3_address(r->s3, &scratch, s3_prefix(r->s3))));
}

/* --- afterwards ------------------------------------------------------------------------------------ */

/* The name of object i of a checkpoint: its shards, then the manifest. */
static struct str object_name(const struct ckpt_manifest *m, i64 i)
{
    return i < m->shard_count ? m->shards[i].name : STR(CKPT_MANIFEST);
}

enum status remote_restore(struct remote *r, const struct ckpt_manifest *m, i64 days,
                           struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; i < m->shard_count && !st; i++) {
        struct arena     turn = scratch;
        struct s3_object o;
        struct str       key = object_key(r, &turn, m->id, object_name(m, i));
        st                   = s3_head(r->s3, key, &turn, &o, err);
        if (!st && o.archived && !o.restoring) st = s3_restore(r->s3, key, days, turn, err);
    }
    return st;
}

enum status remote_retire(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                          struct err *err)
{
    enum status st = STATUS_OK;
    /* Not the manifest: it is small, and must be read at once to know what an archive holds. */
    for (i64 i = 0; i < m->shard_count && !st && !s3_is_google(r->s3); i++) {
        struct arena turn = scratch;
        st = s3_tag(r->s3, object_key(r, &turn, m->id, object_name(m, i)), STR("frugal"),
                    STR("retired"), turn, err);
    }
    return st;
}

enum status remote_delete(struct remote *r, const struct ckpt_manifest *m, struct arena scratch,
                          struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = m->shard_count; i >= 0 && !st; i--) {
        struct arena turn = scratch;
        st = s3_delete(r->s3, object_key(r, &turn, m->id, object_name(m, i)), turn, err);
    }
    return st;
}

enum status remote_lifecycle(struct remote *r, struct lifecycle *c, struct arena scratch,
                             i64 *others, struct err *err)
{
    struct str there, merged;
    if (s3_is_google(r->s3))
        return err_set(err, STATUS_USAGE,
                       "objects in gs:// have no tags for a rule to go by; set one by age "
                       "in Google's console");
    enum status st = s3_lifecycle_get(r->s3, &scratch, &there, err);
    c->prefix      = s3_prefix(r->s3);
    if (!st) st = lifecycle_merge(&scratch, there, c, &merged, others, err);
    return st ? st : s3_lifecycle_put(r->s3, merged, scratch, err);
}
