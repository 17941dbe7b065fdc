/* ckpt_remote.c - checkpoints in an object store.
 *
 * A single object appears whole or not at all, so the order that makes a local checkpoint safe does
 * it here too, without a sync: shards, then the manifest. Two writers are kept apart by numbers: each
 * start claims the next, every name holds the number, and whoever sees a higher one stops. */
#include "store/ckpt_remote.h"
#include "base/hash.h"
#include "store/ckpt_int.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLAIMS_MAX = 100, VERIFY_BYTES = 8 << 20, READ_TRIES = 3, WRONG_MAX = 2 };
static const i64 orphan_s      = 86400;
static const i64 read_wait_ns  = 300000000; /* before the second try; doubled before the next */
static const i64 read_limit_ns = (i64)10 * 1000000000; /* after so long none is begun */

struct ckpt_remote {
    struct os  *os;
    struct web *own_web; /* to close; NULL: the caller's */
    struct s3  *s3;
};

/* --- names ----------------------------------------------------------------------------------------- */

static struct str attempt_key(const struct ckpt_remote *r, struct arena *perm, i64 attempt)
{
    return str_fmt(perm, "%.*sattempts/%06lld", STR_ARG(s3_prefix(r->s3)), (long long)attempt);
}

static struct str object_key(const struct ckpt_remote *r, struct arena *perm, struct ckpt_id id,
                             struct str name)
{
    return str_fmt(perm, "%.*s%.*s/%.*s", STR_ARG(s3_prefix(r->s3)), STR_ARG(ckpt_name(perm, id)),
                   STR_ARG(name));
}

struct str ckpt_remote_address(const struct ckpt_remote *r, struct arena *perm, struct ckpt_id id)
{
    struct str key = object_key(r, perm, id, STR(""));
    return s3_address(r->s3, perm, str_sub(key, 0, key.len - 1));
}

enum status ckpt_remote_open(struct os *os, struct web *web, const struct s3_settings *where,
                             struct arena *perm, struct ckpt_remote **out, struct err *err)
{
    struct ckpt_remote *r  = NEW(perm, struct ckpt_remote, 1);
    enum status         st = STATUS_OK;
    r->os                  = os;
    if (!web) st = web_open(os, perm, &r->own_web, err);
    if (!st) st = s3_open(os, web ? web : r->own_web, where, perm, &r->s3, err);
    if (st) ckpt_remote_close(r);
    *out = st ? NULL : r;
    return st;
}

void ckpt_remote_close(struct ckpt_remote *r)
{
    if (r->own_web) web_close(r->own_web);
    r->own_web = NULL;
}

void           ckpt_remote_cancel(struct ckpt_remote *r) { s3_cancel(r->s3); }
struct s3_sums ckpt_remote_sums(const struct ckpt_remote *r) { return s3_sums(r->s3); }

/* --- reading patiently ------------------------------------------------------------------------------ */

/* One bad answer to a reader (307, 400, 403, 404 of what was listed, other bytes) may be a proxy's, or
 * of a moment: it is asked again, for a moment, before anybody acts on it. s3_send has waited for its
 * own kinds before. */
struct tries {
    i64 count, wrong; /* wrong: the bytes came and were others */
    i64 begin_ns;
};

static struct tries tries_begin(struct ckpt_remote *r)
{
    return (struct tries){ .begin_ns = r->os->now_ns(r->os) };
}

/* Is it to be read once more? NO: what came is damaged; WORLD: nothing did. */
static bool once_more(struct ckpt_remote *r, struct tries *t, enum status st)
{
    if (st != STATUS_NO && st != STATUS_WORLD) return false;
    t->count++;
    t->wrong += st == STATUS_NO;
    bool enough = st == STATUS_NO ? t->wrong >= WRONG_MAX : t->count >= READ_TRIES;
    if (enough || r->os->now_ns(r->os) - t->begin_ns > read_limit_ns) return false;
    r->os->sleep_ns(r->os, read_wait_ns << (t->count - 1));
    return true;
}

/* --- who writes ------------------------------------------------------------------------------------ */

/* The highest number of a start; 0: none yet. */
static enum status last_attempt(struct ckpt_remote *r, struct arena scratch, i64 *last,
                                struct err *err)
{
    struct str     prefix = str_cat(&scratch, s3_prefix(r->s3), STR("attempts/"));
    struct arena   keys   = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct s3_list list;
    enum status    st = s3_list(r->s3, prefix, STR(""), &keys, scratch, &list, err);
    *last             = 0;
    for (i64 i = 0; !st && i < list.count; i++) {
        i64 number;
        if (str_i64(str_sub(list.objects[i].key, prefix.len, INT64_MAX), &number) &&
            number <= CKPT_NUMBER_MAX)
            *last = MAX(*last, number);
    }
    return st;
}

/* The checkpoint a key belongs to, by the folder in it. */
static bool id_of_key(const struct ckpt_remote *r, struct str key, struct ckpt_id *id)
{
    struct str rest = str_sub(key, s3_prefix(r->s3).len, key.len), name = STR("");
    return str_cut(&rest, '/', &name) && ckpt_name_parse(name, id);
}

/* Shards that a machine uploaded before it died, and whose manifest never came, cost money for ever.
 * They go after a day: a start that was taken over may until then still be about to finish. */
static void delete_orphans(struct ckpt_remote *r, i64 attempt, struct arena scratch)
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

enum status ckpt_remote_give_up(struct ckpt_remote *r, struct arena scratch, struct err *err)
{
    i64 count;
    return s3_abort_uploads(r->s3, str_cat(&scratch, s3_prefix(r->s3), STR("step-")), scratch,
                            &count, err);
}

enum status ckpt_remote_claim(struct ckpt_remote *r, i64 least, struct arena scratch, i64 *attempt,
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
        ckpt_remote_give_up(r, scratch,
                            NULL); /* where that may not be asked, the lifecycle does it */
        delete_orphans(r, *attempt, scratch);
        return STATUS_OK;
    }
    return err_set(err, STATUS_WORLD, "%.*s: other processes took %d numbers in a row",
                   STR_ARG(s3_address(r->s3, &scratch, attempt_key(r, &scratch, *attempt))),
                   CLAIMS_MAX);
}

enum status ckpt_remote_taken_over(struct ckpt_remote *r, i64 attempt, struct arena scratch,
                                   i64 *by, struct err *err)
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

static int by_key(const void *a, const void *b)
{
    struct str x = ((const struct s3_object *)a)->key, y = ((const struct s3_object *)b)->key;
    int        order = memcmp(x.data, y.data, (size_t)MIN(x.len, y.len));
    return order ? order : (x.len > y.len) - (x.len < y.len);
}

/* Its manifest, which the store has listed. */
static void manifest_get(struct ckpt_remote *r, struct ckpt *c, struct arena *perm,
                         struct arena scratch)
{
    struct str   key = object_key(r, &scratch, c->id, STR(CKPT_MANIFEST)), text;
    struct tries t   = tries_begin(r);
    enum status  st;
    do {
        struct arena turn = scratch;
        c->why            = (struct err){ 0 };
        st                = s3_get(r->s3, key, &turn, &text, &c->why);
        if (st == STATUS_NO) st = STATUS_WORLD; /* it was listed: somebody is wrong */
        else if (!st)
            st = ckpt_manifest_parse(c->folder, str_copy(perm, text), perm, &c->manifest, &c->why);
    } while (once_more(r, &t, st));
    c->why.status = st;
}

/* Does the list have every shard, as large as the manifest says? */
static void check_listed(struct ckpt_remote *r, struct ckpt *c, const struct s3_list *l,
                         struct arena scratch)
{
    for (i64 i = 0; i < c->manifest.shard_count && !c->why.status; i++) {
        struct arena             turn = scratch;
        const struct ckpt_shard *s    = &c->manifest.shards[i];
        struct s3_object         want = { .key = object_key(r, &turn, c->id, s->name) };
        const struct s3_object  *there =
            bsearch(&want, l->objects, (size_t)l->count, sizeof want, by_key);
        if (!there)
            err_set(&c->why, STATUS_NO, "%.*s is missing",
                    STR_ARG(s3_address(r->s3, &turn, want.key)));
        else if (there->bytes >= 0 && there->bytes != s->bytes)
            err_set(&c->why, STATUS_NO, "%.*s has %lld bytes, and its manifest says %lld",
                    STR_ARG(s3_address(r->s3, &turn, want.key)), (long long)there->bytes,
                    (long long)s->bytes);
    }
}

enum status ckpt_remote_list(struct ckpt_remote *r, struct arena *perm, struct arena scratch,
                             struct ckpt_list *out, struct err *err)
{
    struct str     prefix = str_cat(&scratch, s3_prefix(r->s3), STR("step-"));
    struct arena   keys   = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct s3_list list;
    enum status    st = s3_list(r->s3, prefix, STR(""), &keys, scratch, &list, err);
    *out              = (struct ckpt_list){ 0 };
    if (st) return st;
    struct ckpt *all   = NEW(perm, struct ckpt, list.count);
    i64          count = 0;
    if (list.count) qsort(list.objects, (size_t)list.count, sizeof *list.objects, by_key);
    for (i64 i = 0; i < list.count; i++) { /* without a manifest it is not there yet */
        struct ckpt *c = &all[count];
        if (!str_ends(list.objects[i].key, STR("/" CKPT_MANIFEST))) continue;
        if (!id_of_key(r, list.objects[i].key, &c->id)) continue; /* not ours */
        if (!str_eq(list.objects[i].key, object_key(r, &scratch, c->id, STR(CKPT_MANIFEST))))
            continue;
        c->folder = ckpt_remote_address(r, perm, c->id);
        manifest_get(r, c, perm, scratch);
        if (c->why.status == STATUS_INTERRUPTED)
            return err_set(err, STATUS_INTERRUPTED, "%s", c->why.text);
        check_listed(r, c, &list, scratch);
        count++;
    }
    if (count) qsort(all, (size_t)count, sizeof *all, newest_first);
    *out = (struct ckpt_list){ all, count };
    return STATUS_OK;
}

/* --- there and back -------------------------------------------------------------------------------- */

static bool is_there(struct ckpt_remote *r, struct str key, i64 bytes, struct arena scratch)
{
    struct s3_object o;
    return !s3_head(r->s3, key, &scratch, &o, NULL) && o.bytes == bytes;
}

static enum status put_manifest(struct ckpt_remote *r, struct str folder, struct ckpt_id id,
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

enum status ckpt_remote_put(struct ckpt_remote *r, struct str folder, const struct ckpt_manifest *m,
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
 * src/plan/storage.csv, which tests/unit/test_ckpt_remote.c holds this to. */
static const struct archive {
    struct str class;
    f64 hours, usd_gb;
} archives[] = { { STR_INIT("GLACIER"), 5, 0.01 }, { STR_INIT("DEEP_ARCHIVE"), 12, 0.02 } };

bool ckpt_remote_archive(struct str class, f64 *hours, f64 *usd_gb)
{
    for (i64 i = 0; i < COUNT_OF(archives); i++)
        if (str_eq(class, archives[i].class)) {
            *hours  = archives[i].hours;
            *usd_gb = archives[i].usd_gb;
            return true;
        }
    return false;
}

enum status ckpt_remote_class(struct ckpt_remote *r, const struct ckpt_manifest *m,
                              struct arena *perm, struct str *out, struct err *err)
{
    struct s3_object o = { 0 };
    if (!m->shard_count) return STATUS_OK;
    enum status st = s3_head(r->s3, object_key(r, perm, m->id, m->shards[0].name), perm, &o, err);
    *out           = o.storage_class;
    return st;
}

enum status ckpt_remote_readable(struct ckpt_remote *r, const struct ckpt_manifest *m,
                                 struct arena scratch, struct err *err)
{
    for (i64 i = 0; i < m->shard_count; i++) {
        struct arena     turn = scratch;
        struct s3_object o;
        f64              hours, usd_gb;
        struct str       key = object_key(r, &turn, m->id, m->shards[i].name);
        enum status      st  = s3_head(r->s3, key, &turn, &o, err);
        if (st) return STATUS_WORLD;
        if (!o.archived || !ckpt_remote_archive(o.storage_class, &hours, &usd_gb)) continue;
        f64 gb = (f64)ckpt_bytes(m) / 1e9;
        if (o.restoring)
            return err_set(err, STATUS_NO, "%.*s is being restored from %.*s, within %g hours",
                           STR_ARG(ckpt_remote_address(r, &turn, m->id)), STR_ARG(o.storage_class),
                           hours);
        return err_set(
            err, STATUS_NO,
            "%.*s is archived in %.*s: restoring its %.3g GB takes up to %g hours and about $%.2f "
            "(frugal checkpoints restore)",
            STR_ARG(ckpt_remote_address(r, &turn, m->id)), STR_ARG(o.storage_class), gb, hours,
            gb * usd_gb);
    }
    return STATUS_OK;
}

/* NO: what came is not what the manifest says. */
static enum status fetch_once(struct ckpt_remote *r, const struct ckpt_manifest *m,
                              struct ckpt_store *to, struct arena scratch, struct err *err)
{
    struct str  folder;
    enum status st = ckpt_import_begin(to, m, &scratch, &folder, err);
    if (st == STATUS_NO) return STATUS_OK; /* a whole one is here already */
    if (st) return st;
    for (i64 i = 0; i < m->shard_count && !st; i++) {
        struct arena turn = scratch;
        struct str path = str_fmt(&turn, "%.*s/%.*s", STR_ARG(folder), STR_ARG(m->shards[i].name));
        st = s3_download(r->s3, object_key(r, &turn, m->id, m->shards[i].name), m->shards[i].bytes,
                         path, err);
    }
    if (!st) return ckpt_import_commit(to, m, scratch, err);
    ckpt_drop(to, m, scratch);
    return st == STATUS_NO ? STATUS_WORLD : st; /* 404: yet it was listed */
}

static enum status fetch(struct ckpt_remote *r, const struct ckpt_manifest *m,
                         struct ckpt_store *to, struct arena scratch, struct err *err)
{
    struct tries t   = tries_begin(r);
    bool         was = os_private(true);
    enum status  st;
    do st = fetch_once(r, m, to, scratch, err);
    while (once_more(r, &t, st));
    os_private(was);
    return st;
}

/* NO: in an archive. */
static enum status readable(struct ckpt_remote *r, const struct ckpt_manifest *m,
                            struct arena scratch, struct err *err)
{
    struct tries t = tries_begin(r);
    enum status  st;
    do st = ckpt_remote_readable(r, m, scratch, err);
    while (st == STATUS_WORLD && once_more(r, &t, st));
    return st;
}

enum status ckpt_remote_fetch(struct ckpt_remote *r, const struct ckpt_manifest *m,
                              struct ckpt_store *to, struct arena scratch, struct err *err)
{
    enum status st = readable(r, m, scratch, err);
    if (st) return st;
    st = fetch(r, m, to, scratch, err);
    return st == STATUS_NO ? STATUS_WORLD : st;
}

static enum status verify_shard(struct ckpt_remote *r, const struct ckpt_manifest *m, i64 i,
                                const atomic_bool *urgent, struct arena scratch, struct err *err)
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
        if (urgent && atomic_load(urgent)) return STATUS_INTERRUPTED;
        st = s3_get_version(r->s3, key, STR(""), at, MIN(VERIFY_BYTES, s->bytes - at), urgent,
                            &turn, &bytes, err);
        if (!st) xxh64_add(&hash, bytes);
    }
    if (st || xxh64_end(&hash) == s->hash) return st;
    return err_set(err, STATUS_NO,
                   "%.*s is damaged: its hash is %016llx, and its manifest says %016llx",
                   STR_ARG(s3_address(r->s3, &scratch, key)), (unsigned long long)xxh64_end(&hash),
                   (unsigned long long)s->hash);
}

/* INTERRUPTED: *urgent is true. */
static enum status verify_unless(struct ckpt_remote *r, const struct ckpt_manifest *m,
                                 const atomic_bool *urgent, struct arena scratch, struct err *err)
{
    enum status st = ckpt_remote_readable(r, m, scratch, err);
    for (i64 i = 0; i < m->shard_count && !st; i++) {
        struct tries t = tries_begin(r);
        do st = verify_shard(r, m, i, urgent, scratch, err);
        while (once_more(r, &t, st));
    }
    return st;
}

enum status ckpt_remote_verify(struct ckpt_remote *r, const struct ckpt_manifest *m,
                               struct arena scratch, struct err *err)
{
    return verify_unless(r, m, NULL, scratch, err);
}

enum status ckpt_remote_rate(struct ckpt_remote *r, const struct ckpt_manifest *m,
                             struct arena scratch, f64 *bytes_s, struct err *err)
{
    const struct ckpt_shard *largest  = &m->shards[0];
    i64                      begin_ns = r->os->now_ns(r->os);
    struct str               bytes    = STR("");
    for (i64 i = 1; i < m->shard_count; i++)
        if (m->shards[i].bytes > largest->bytes) largest = &m->shards[i];
    struct str  key = object_key(r, &scratch, m->id, largest->name);
    enum status st =
        s3_get_range(r->s3, key, 0, MIN(VERIFY_BYTES, largest->bytes), &scratch, &bytes, err);
    *bytes_s = (f64)bytes.len * 1e9 / (f64)MAX(1, r->os->now_ns(r->os) - begin_ns);
    return st;
}

enum status ckpt_remote_fetch_newer(struct ckpt_remote *r, struct ckpt_id have,
                                    struct ckpt_store *to, struct arena *perm, struct arena scratch,
                                    struct str *said, struct ckpt_id *got, struct err *err)
{
    struct arena     lists = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct textbuf   b     = textbuf_new(perm);
    struct ckpt_list list;
    bool             found = false;
    enum status      st    = ckpt_remote_list(r, &lists, scratch, &list, err);
    *said                  = STR("");
    *got                   = have;
    if (st) return st;
    for (i64 i = 0; i < list.count && !found && ckpt_order(have, list.items[i].id) < 0; i++) {
        const struct ckpt *c   = &list.items[i];
        struct err         why = c->why;
        if (!why.status) why.status = readable(r, &c->manifest, scratch, &why);
        if (!why.status) why.status = fetch(r, &c->manifest, to, scratch, &why);
        if (why.status && why.status != STATUS_NO) return err_set(err, why.status, "%s", why.text);
        found = !why.status;
        if (found) *got = c->id;
        else textbuf_fmt(&b, "%s%s", b.len ? "; " : "", why.text);
    }
    struct str where = s3_address(r->s3, &scratch, s3_prefix(r->s3));
    if (!b.len && !found) return err_set(err, STATUS_NO, "%.*s has nothing newer", STR_ARG(where));
    if (!got->attempt)
        return err_set(err, STATUS_WORLD, "no checkpoint in %.*s can be used: %.*s", STR_ARG(where),
                       STR_ARG(textbuf_str(&b)));
    if (b.len)
        textbuf_fmt(&b, "; %lld steps are repeated, from step %lld on",
                    (long long)MAX(list.items[0].id.step - got->step, 0), (long long)got->step);
    *said = textbuf_str(&b);
    return found ? STATUS_OK
                 : err_set(err, STATUS_NO, "%.*s has no newer valid checkpoint", STR_ARG(where));
}

bool ckpt_remote_holds(struct ckpt_remote *r, struct ckpt_id id, struct arena scratch)
{
    struct s3_object o;
    return !s3_head(r->s3, object_key(r, &scratch, id, STR(CKPT_MANIFEST)), &scratch, &o, NULL);
}

/* --- afterwards ------------------------------------------------------------------------------------ */

/* The name of object i of a checkpoint: its shards, then the manifest. */
static struct str object_name(const struct ckpt_manifest *m, i64 i)
{
    return i < m->shard_count ? m->shards[i].name : STR(CKPT_MANIFEST);
}

enum status ckpt_remote_restore(struct ckpt_remote *r, const struct ckpt_manifest *m, i64 days,
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

enum status ckpt_remote_retire(struct ckpt_remote *r, const struct ckpt_manifest *m,
                               struct arena scratch, struct err *err)
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

enum status ckpt_remote_delete(struct ckpt_remote *r, const struct ckpt_manifest *m,
                               struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = m->shard_count; i >= 0 && !st; i--) {
        struct arena turn = scratch;
        st = s3_delete(r->s3, object_key(r, &turn, m->id, object_name(m, i)), turn, err);
    }
    return st;
}

enum status ckpt_remote_delete_listed(struct ckpt_remote *r, struct ckpt_id id,
                                      struct arena scratch, struct err *err)
{
    struct arena   keys   = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct str     prefix = object_key(r, &scratch, id, STR(""));
    struct s3_list l;
    enum status    st = s3_list(r->s3, prefix, STR(""), &keys, scratch, &l, err);
    if (!st) st = s3_delete(r->s3, object_key(r, &scratch, id, STR(CKPT_MANIFEST)), scratch, err);
    for (i64 i = 0; !st && i < l.count; i++) {
        struct str name = str_sub(l.objects[i].key, prefix.len, l.objects[i].key.len);
        if (ckpt_is_ours(name)) st = s3_delete(r->s3, l.objects[i].key, scratch, err);
    }
    return st;
}

/* The index of one that has been read back and is newer than item `first`; -1: there is none. */
static enum status find_verified(struct ckpt_remote *r, const struct ckpt_list *l, i64 first,
                                 struct ckpt_id *verified, const atomic_bool *urgent,
                                 struct arena scratch, i64 *index, struct err *err)
{
    for (*index = 0; *index < first; ++*index)
        if (!l->items[*index].why.status && !ckpt_order(l->items[*index].id, *verified))
            return STATUS_OK;
    for (*index = 0; *index < first; ++*index) {
        const struct ckpt *c = &l->items[*index];
        if (c->why.status) continue;
        enum status st = verify_unless(r, &c->manifest, urgent, scratch, err);
        if (st == STATUS_NO) continue; /* damaged, or in an archive */
        if (!st) *verified = c->id;
        return st;
    }
    return err_set(err, STATUS_NO,
                   "no old checkpoint is deleted: no newer one in %.*s could be verified",
                   STR_ARG(s3_address(r->s3, &scratch, s3_prefix(r->s3))));
}

enum status ckpt_remote_prune(struct ckpt_remote *r, struct ckpt_list *l, i64 keep,
                              struct ckpt_id *verified, struct arena scratch, struct err *err)
{
    return ckpt_remote_prune_unless(r, l, keep, verified, NULL, scratch, err);
}

enum status ckpt_remote_prune_unless(struct ckpt_remote *r, struct ckpt_list *l, i64 keep,
                                     struct ckpt_id *verified, const atomic_bool *urgent,
                                     struct arena scratch, struct err *err)
{
    bool *kept  = NEW(&scratch, bool, l->count);
    i64   first = 0, by;
    ASSERT(keep >= 1);
    ckpt_mark_kept(l, keep, kept);
    while (first < l->count && kept[first]) first++;
    if (first == l->count) return STATUS_OK;
    enum status st = find_verified(r, l, first, verified, urgent, scratch, &by, err);
    for (i64 i = l->count - 1; i > by && !st; i--) {
        if (kept[i]) continue;
        st = ckpt_remote_delete(r, &l->items[i].manifest, scratch, err);
        if (!st) err_set(&l->items[i].why, STATUS_NO, "deleted");
    }
    return st;
}

enum status ckpt_remote_lifecycle(struct ckpt_remote *r, struct lifecycle *c, struct arena scratch,
                                  i64 *others, struct err *err)
{
    struct str there, merged;
    if (s3_is_google(r->s3))
        return err_set(err, STATUS_USAGE,
                       "objects in gs:// have no tags for a rule to match; add a rule by age "
                       "in Google's console");
    enum status st = s3_lifecycle_get(r->s3, &scratch, &there, err);
    c->prefix      = s3_prefix(r->s3);
    if (!st) st = lifecycle_merge(&scratch, there, c, &merged, others, err);
    return st ? st : s3_lifecycle_put(r->s3, merged, scratch, err);
}
