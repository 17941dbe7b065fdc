/* checkpoints_remote.c - frugal checkpoints on object stores: list with what keeping them costs, delete
 * the old, copy to and fro, restore from an archive, and the bucket's lifecycle. */
#include "cli/checkpoints.h"
#include "plan/catalogue.h"
#include "run/notice.h"
#include "store/remote.h"
#include <ctype.h>
#include <math.h>

enum { DAYS_DEFAULT = 7, ABORT_DAYS = 2, MEMORY_BYTES = 1 << 26 };

bool checkpoints_is_remote(struct str where)
{
    return str_starts(where, STR("s3://")) || str_starts(where, STR("gs://"));
}

static enum status open_remote(struct cli *c, struct str where, struct remote **out,
                               struct err *err)
{
    enum cloud         here = cloud_of_machine(c->os);
    struct s3_settings s    = { .to      = where,
                                .ask_aws = here == CLOUD_AWS,
                                .ask_gcp = here == CLOUD_GCP };
    return remote_open(c->os, NULL, &s, c->perm, out, err);
}

static enum status list_remote(struct cli *c, struct str where, struct remote **r,
                               struct ckpt_list *list, struct err *err)
{
    enum status st = open_remote(c, where, r, err);
    if (st) return st;
    struct arena scratch = arena_part(c->perm, MEMORY_BYTES);
    st                   = remote_list(*r, c->perm, scratch, list, err);
    if (st) remote_close(*r);
    return st;
}

/* The catalogue writes them in small letters, and calls Google's and AWS's first one standard. */
static const struct storage *storage_of(struct cli *c, struct str where, struct str class)
{
    char       low[32]  = "standard";
    struct str provider = str_starts(where, STR("gs://")) ? STR("gcp") : STR("aws");
    if (class.len >= (i64)sizeof low) return NULL;
    for (i64 i = 0; i < class.len; i++) low[i] = (char)tolower((unsigned char)class.data[i]);
    if (class.len) low[class.len] = 0;
    return catalogue_storage(catalogue_new(c->perm), provider, str_of(low));
}

/* What a month of it costs; a class with a minimum bills at least that. */
static void tell_cost(struct cli *c, struct str where, const struct ckpt_list *l, struct str class)
{
    struct arena          scratch = *c->perm;
    const struct storage *s       = storage_of(c, where, class);
    f64                   bytes   = 0;
    for (i64 i = 0; i < l->count; i++)
        if (!l->items[i].why.status) bytes += (f64)ckpt_bytes(&l->items[i].manifest);
    f64 month = s ? storage_dollars(s, bytes, 30) : NAN,
        back  = s ? bytes / 1e9 * (s->egress_internet_gb_usd + s->retrieve_gb_usd) : NAN;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "storage");
        event_f64(&b, "bytes", bytes);
        event_str(&b, "storage_class", s ? s->name : class);
        event_f64(&b, "month_usd", month);
        event_f64(&b, "minimum_days", s ? s->minimum_days : NAN);
        event_f64(&b, "fetch_usd", back);
        event_end(&b, c->say);
        return;
    }
    if (!s) return;
    say_result(c->say, "%.*s in %.*s: %.*s a month", STR_ARG(text_bytes(&scratch, bytes)),
               STR_ARG(s->name), STR_ARG(text_dollars(&scratch, month)));
    if (s->minimum_days > 0) say_result(c->say, ", billed for at least %g days", s->minimum_days);
    say_result(c->say, "; to read all of it elsewhere than in its region %.*s\n",
               STR_ARG(text_dollars(&scratch, back)));
}

static enum status run_list(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct remote   *r;
    struct ckpt_list list;
    struct str class = STR("");
    (void)count;
    enum status st = list_remote(c, a[0], &r, &list, err);
    if (st) return st;
    for (i64 i = 0; i < list.count; i++)
        checkpoints_tell(c, &list, i, "believed", &list.items[i].why);
    if (list.count && !list.items[0].why.status)
        remote_class(r, &list.items[0].manifest, c->perm, &class, NULL);
    if (list.count) tell_cost(c, a[0], &list, class);
    else if (!c->say->json) say_message(c->say, "%.*s has no checkpoints\n", STR_ARG(a[0]));
    remote_close(r);
    return STATUS_OK;
}

static enum status fetch(struct cli *c, const struct str *a, struct str name, struct err *err)
{
    struct remote     *r;
    struct ckpt_list   list;
    struct ckpt       *k;
    struct ckpt_store *to;
    enum status        st = list_remote(c, a[0], &r, &list, err);
    if (st) return st;
    st = checkpoints_find(&list, name, a[0], &k, err);
    if (!st && k->why.status) st = err_set(err, k->why.status, "%s", k->why.text);
    if (!st) st = ckpt_store_open(c->os, a[1], c->perm, &to, err);
    if (!st) {
        st = remote_fetch(r, &k->manifest, to, *c->perm, err);
        ckpt_store_close(to);
    }
    if (!st) checkpoints_tell_copied(c, k, a[1]);
    remote_close(r);
    return st;
}

static enum status carry(struct cli *c, const struct str *a, struct str name, struct err *err)
{
    struct remote   *r;
    struct ckpt_list list;
    struct ckpt     *k;
    enum status      st = ckpt_list(c->os, a[0], c->perm, &list, err);
    if (!st) st = checkpoints_find(&list, name, a[0], &k, err);
    if (!st) st = ckpt_verify(c->os, k, *c->perm, err);
    if (!st) st = open_remote(c, a[1], &r, err);
    if (st) return st;
    st = remote_put(r, k->folder, &k->manifest, S3_RESUME, *c->perm, err);
    if (!st) checkpoints_tell_copied(c, k, a[1]);
    remote_close(r);
    return st;
}

static enum status run_copy(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct str name = count > 2 ? a[2] : STR("");
    if (checkpoints_is_remote(a[0]) && checkpoints_is_remote(a[1]))
        return err_set(err, STATUS_USAGE,
                       "from one object store to another only by way of a folder");
    return checkpoints_is_remote(a[0]) ? fetch(c, a, name, err) : carry(c, a, name, err);
}

/* Those that are believed, but not the newest or the best; what is damaged says not what it has. */
static enum status delete_old(struct cli *c, struct remote *r, const struct ckpt_list *l, i64 keep,
                              struct err *err)
{
    struct arena scratch = *c->perm;
    bool        *kept    = NEW(&scratch, bool, l->count);
    enum status  st      = STATUS_OK;
    ckpt_mark_kept(l, keep, kept);
    for (i64 i = l->count - 1; i >= 0 && !st; i--)
        if (!kept[i] && !l->items[i].why.status)
            st = remote_delete(r, &l->items[i].manifest, scratch, err);
    return st;
}

static enum status run_prune(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct remote   *r;
    struct ckpt_list before, after;
    i64              keep = CHECKPOINTS_KEEP;
    enum status      st   = checkpoints_number(c, FLAG_INDEX_keep, &keep, err);
    (void)count;
    if (!st) st = list_remote(c, a[0], &r, &before, err);
    if (st) return st;
    st                   = delete_old(c, r, &before, keep, err);
    struct arena scratch = arena_part(c->perm, MEMORY_BYTES);
    enum status  listed  = remote_list(r, c->perm, scratch, &after, st ? NULL : err);
    if (!listed) checkpoints_tell_pruned(c, &before, &after);
    remote_close(r);
    return st ? st : listed;
}

static enum status run_restore(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct remote   *r;
    struct ckpt_list list;
    struct ckpt     *k;
    i64              days = DAYS_DEFAULT;
    enum status      st   = checkpoints_number(c, FLAG_INDEX_days, &days, err);
    if (!st) st = list_remote(c, a[0], &r, &list, err);
    if (st) return st;
    st = checkpoints_find(&list, count > 1 ? a[1] : STR(""), a[0], &k, err);
    if (!st) st = remote_restore(r, &k->manifest, days, *c->perm, err);
    if (!st) {
        struct err why = { 0 };
        remote_readable(r, &k->manifest, *c->perm, &why);
        say_message(c->say, "%s\n", why.status ? why.text : "it can be read now");
    }
    remote_close(r);
    return st;
}

static enum status run_lifecycle(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct remote   *r;
    struct lifecycle rules = { .abort_days    = ABORT_DAYS,
                               .cold_days     = DAYS_DEFAULT,
                               .storage_class = STR("GLACIER_IR") };
    i64              others;
    (void)count;
    if (c->request->flags & FLAG_class) rules.storage_class = c->request->value[FLAG_INDEX_class];
    enum status st = checkpoints_number(c, FLAG_INDEX_days, &rules.cold_days, err);
    if (!st) st = open_remote(c, a[0], &r, err);
    if (st) return st;
    st = remote_lifecycle(r, &rules, *c->perm, &others, err);
    remote_close(r);
    if (st) return st;
    if (c->say->json) {
        struct arena   scratch = *c->perm;
        struct textbuf b       = event_begin(&scratch, "lifecycle");
        event_i64(&b, "rules_of_others", others);
        event_i64(&b, "abort_days", rules.abort_days);
        event_i64(&b, "cold_days", rules.cold_days);
        event_str(&b, "storage_class", rules.storage_class);
        event_end(&b, c->say);
        return STATUS_OK;
    }
    say_result(c->say,
               "unfinished uploads are given up after %lld days, superseded checkpoints go to %.*s "
               "after %lld; "
               "%lld rules of others stay as they were\n",
               (long long)rules.abort_days, STR_ARG(rules.storage_class),
               (long long)rules.cold_days, (long long)others);
    return STATUS_OK;
}

static const struct verb {
    const char *name, *arguments;
    i64         least, most; /* arguments */
    enum status (*run)(struct cli *c, const struct str *arguments, i64 count, struct err *err);
} verbs[] = {
    { "list", "s3://BUCKET/PREFIX", 1, 1, run_list },
    { "prune", "s3://BUCKET/PREFIX [--keep N]", 1, 1, run_prune },
    { "copy", "FROM TO [NAME]", 2, 3, run_copy },
    { "restore", "s3://BUCKET/PREFIX [NAME] [--days N]", 1, 2, run_restore },
    { "lifecycle", "s3://BUCKET/PREFIX [--days N] [--class CLASS]", 1, 1, run_lifecycle },
};

enum status checkpoints_remote(struct cli *c, struct str verb, const struct str *arguments,
                               i64 count, struct err *err)
{
    for (i64 i = 0; i < COUNT_OF(verbs); i++) {
        const struct verb *v = &verbs[i];
        if (!str_eq(verb, str_of(v->name))) continue;
        if (count < v->least || count > v->most)
            return err_set(err, STATUS_USAGE, "expected frugal checkpoints %s %s", v->name,
                           v->arguments);
        return v->run(c, arguments, count, err);
    }
    return err_set(err, STATUS_USAGE,
                   "%.*s cannot be done in an object store; list, prune, copy, restore and lifecycle "
                   "can",
                   (int)MIN(verb.len, 80), verb.data);
}
