/* checkpoints_remote.c - frugal checkpoints on object stores: list, verify and show with what keeping and
 * reading them costs, delete the old, copy to and fro, restore from an archive, and the bucket's
 * lifecycle. */
#include "cli/checkpoints.h"
#include "store/ckpt_remote.h"
#include <math.h>
#include <string.h>

enum { DAYS_DEFAULT = 7, ABORT_DAYS = 2, MEMORY_BYTES = 1 << 26 };

static enum status open_remote(struct cli *c, struct str where, struct ckpt_remote **out,
                               struct err *err)
{
    struct s3_settings s = object_store_here(c->os, where);
    return ckpt_remote_open(c->os, NULL, &s, c->perm, out, err);
}

static enum status list_remote(struct cli *c, struct str where, struct ckpt_remote **r,
                               struct ckpt_list *list, struct err *err)
{
    enum status st = open_remote(c, where, r, err);
    if (st) return st;
    struct arena scratch = arena_part(c->perm, MEMORY_BYTES);
    st                   = ckpt_remote_list(*r, c->perm, scratch, list, err);
    if (st) ckpt_remote_close(*r);
    return st;
}

static void tell_cost(struct cli *c, struct str where, const struct ckpt_list *l,
                      const struct ckpt *only, struct str class)
{
    struct arena           scratch = *c->perm;
    const struct storage  *s       = object_store_class(catalogue_new(&scratch), where, class);
    struct checkpoint_cost sum     = checkpoint_cost_of(l, only, s, c->os->wall_ns(c->os));
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "storage");
        event_f64(&b, "bytes", sum.bytes);
        event_str(&b, "storage_class", s ? s->name : class);
        event_f64(&b, "month_usd", sum.month_usd);
        event_f64(&b, "minimum_days", s ? s->minimum_days : NAN);
        event_f64(&b, "early_usd", sum.early_usd);
        event_f64(&b, "fetch_usd", sum.fetch_usd);
        event_f64(&b, "requests_usd", sum.requests_usd);
        event_f64(&b, "retrieve_usd", sum.retrieve_usd);
        event_f64(&b, "egress_usd", sum.egress_usd);
        event_end(&b, c->say);
        return;
    }
    if (!s) return;
    say_result(c->say, "%.*s in %.*s: %.*s a month", STR_ARG(text_bytes(&scratch, sum.bytes)),
               STR_ARG(s->name), STR_ARG(text_dollars(&scratch, sum.month_usd)));
    if (s->minimum_days > 0)
        say_result(c->say, ", billed for at least %g days, of which %.*s remain to be paid",
                   s->minimum_days, STR_ARG(text_dollars(&scratch, sum.early_usd)));
    say_result(c->say, "; reading it outside its region costs %.*s (%.0f requests %.*s",
               STR_ARG(text_dollars(&scratch, sum.fetch_usd)), sum.requests,
               STR_ARG(text_dollars(&scratch, sum.requests_usd)));
    if (sum.retrieve_usd > 0)
        say_result(c->say, ", retrieval %.*s", STR_ARG(text_dollars(&scratch, sum.retrieve_usd)));
    say_result(c->say, ", egress %.*s)\n", STR_ARG(text_dollars(&scratch, sum.egress_usd)));
}

static enum status run_list(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct ckpt_remote *r;
    struct ckpt_list    list;
    struct str class = STR("");
    (void)count;
    enum status st = list_remote(c, a[0], &r, &list, err);
    if (st) return st;
    for (i64 i = 0; i < list.count; i++) checkpoints_tell(c, &list, i, "valid", &list.items[i].why);
    if (list.count && !list.items[0].why.status)
        ckpt_remote_class(r, &list.items[0].manifest, c->perm, &class, NULL);
    if (list.count) tell_cost(c, a[0], &list, NULL, class);
    else if (!c->say->json) say_message(c->say, "%.*s has no checkpoints\n", STR_ARG(a[0]));
    ckpt_remote_close(r);
    return STATUS_OK;
}

static enum status run_verify(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct ckpt_remote *r;
    struct ckpt_list    list;
    struct ckpt        *only = NULL;
    i64                 bad = 0, seen = 0;
    enum status         st = list_remote(c, a[0], &r, &list, err);
    if (st) return st;
    if (count > 1) st = checkpoints_find(&list, a[1], a[0], &only, err);
    for (i64 i = 0; i < list.count && !st; i++) {
        struct err why = list.items[i].why;
        if (only && only != &list.items[i]) continue;
        if (!why.status)
            why.status = ckpt_remote_verify(r, &list.items[i].manifest, *c->perm, &why);
        bad += why.status != STATUS_OK;
        checkpoints_tell(c, &list, i, "verified", &why);
        seen++;
    }
    ckpt_remote_close(r);
    if (st || !bad) return st;
    return err_set(err, STATUS_NO, "%lld of %lld checkpoints cannot be restored", (long long)bad,
                   (long long)seen);
}

/* One that lies in an archive has no rate: its sentence says how long it takes. */
static enum status run_show(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct ckpt_remote *r;
    struct ckpt_list    list;
    struct ckpt        *k;
    struct err          archived = { 0 };
    struct str class             = STR("");
    f64         rate;
    enum status st = list_remote(c, a[0], &r, &list, err);
    if (st) return st;
    st = checkpoints_find(&list, count > 1 ? a[1] : STR(""), a[0], &k, err);
    if (!st && k->why.status) st = err_set(err, k->why.status, "%s", k->why.text);
    if (!st && !k->manifest.shard_count)
        st = err_set(err, STATUS_NO, "%.*s has no shards", STR_ARG(k->folder));
    if (!st) st = checkpoints_rate(c, &rate, err);
    if (!st) st = ckpt_remote_class(r, &k->manifest, c->perm, &class, err);
    if (!st && ckpt_remote_readable(r, &k->manifest, *c->perm, &archived) == STATUS_NO) rate = NAN;
    if (!st && rate == 0) st = ckpt_remote_rate(r, &k->manifest, *c->perm, &rate, err);
    ckpt_remote_close(r);
    if (st) return st;
    checkpoints_tell(c, &list, k - list.items, "valid", &k->why);
    checkpoints_tell_inside(c, &k->manifest);
    if (isnan(rate)) say_message(c->say, "%s\n", archived.text);
    else checkpoints_tell_restore(c, k, rate, "measured just now");
    tell_cost(c, a[0], &list, k, class);
    return STATUS_OK;
}

static enum status fetch(struct cli *c, const struct str *a, struct str name, struct err *err)
{
    struct ckpt_remote *r;
    struct ckpt_list    list;
    struct ckpt        *k;
    struct ckpt_store  *to;
    enum status         st = list_remote(c, a[0], &r, &list, err);
    if (st) return st;
    st = checkpoints_find(&list, name, a[0], &k, err);
    if (!st && k->why.status) st = err_set(err, k->why.status, "%s", k->why.text);
    if (!st) st = ckpt_store_open(c->os, a[1], c->perm, &to, err);
    if (!st) {
        st = ckpt_remote_fetch(r, &k->manifest, to, *c->perm, err);
        ckpt_store_close(to);
    }
    if (!st) checkpoints_tell_copied(c, k, a[1]);
    ckpt_remote_close(r);
    return st;
}

static enum status carry(struct cli *c, const struct str *a, struct str name, struct err *err)
{
    struct ckpt_remote *r;
    struct ckpt_list    list;
    struct ckpt        *k;
    enum status         st = ckpt_list(c->os, a[0], c->perm, &list, err);
    if (!st) st = checkpoints_find(&list, name, a[0], &k, err);
    if (!st) st = ckpt_verify(c->os, k, *c->perm, err);
    if (!st) st = open_remote(c, a[1], &r, err);
    if (st) return st;
    st = ckpt_remote_put(r, k->folder, &k->manifest, S3_RESUME, *c->perm, err);
    if (!st) checkpoints_tell_copied(c, k, a[1]);
    ckpt_remote_close(r);
    return st;
}

static enum status run_copy(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct str name = count > 2 ? a[2] : STR("");
    if (object_store_is(a[0]) && object_store_is(a[1]))
        return err_set(
            err, STATUS_USAGE,
            "cannot copy from one object store to another directly: copy to a folder first");
    return object_store_is(a[0]) ? fetch(c, a, name, err) : carry(c, a, name, err);
}

static enum status run_prune(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct ckpt_remote *r;
    struct ckpt_list    before, after;
    i64                 keep = CHECKPOINTS_KEEP;
    enum status         st   = checkpoints_number(c, FLAG_keep, &keep, err);
    (void)count;
    if (!st) st = list_remote(c, a[0], &r, &before, err);
    if (st) return st;
    struct ckpt_list old      = { NEW(c->perm, struct ckpt, before.count), before.count };
    struct ckpt_id   verified = { 0 };
    if (before.count) memcpy(old.items, before.items, (size_t)before.count * sizeof *old.items);
    st                   = ckpt_remote_prune(r, &old, keep, &verified, *c->perm, err);
    struct arena scratch = arena_part(c->perm, MEMORY_BYTES);
    enum status  listed  = ckpt_remote_list(r, c->perm, scratch, &after, st ? NULL : err);
    if (!listed) checkpoints_tell_pruned(c, &before, &after);
    ckpt_remote_close(r);
    return st ? st : listed;
}

static enum status run_restore(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct ckpt_remote *r;
    struct ckpt_list    list;
    struct ckpt        *k;
    i64                 days = DAYS_DEFAULT;
    enum status         st   = checkpoints_number(c, FLAG_days, &days, err);
    if (!st) st = list_remote(c, a[0], &r, &list, err);
    if (st) return st;
    st = checkpoints_find(&list, count > 1 ? a[1] : STR(""), a[0], &k, err);
    if (!st) st = ckpt_remote_restore(r, &k->manifest, days, *c->perm, err);
    if (!st) {
        struct err why = { 0 };
        ckpt_remote_readable(r, &k->manifest, *c->perm, &why);
        say_message(c->say, "%s\n", why.status ? why.text : "it can be read now");
    }
    ckpt_remote_close(r);
    return st;
}

static enum status run_lifecycle(struct cli *c, const struct str *a, i64 count, struct err *err)
{
    struct ckpt_remote *r;
    struct lifecycle    rules = { .abort_days    = ABORT_DAYS,
                                  .cold_days     = DAYS_DEFAULT,
                                  .storage_class = STR("GLACIER_IR") };
    i64                 others;
    (void)count;
    if (c->request->given[FLAG_class]) rules.storage_class = c->request->value[FLAG_class];
    enum status st = checkpoints_number(c, FLAG_days, &rules.cold_days, err);
    if (!st) st = open_remote(c, a[0], &r, err);
    if (st) return st;
    st = ckpt_remote_lifecycle(r, &rules, *c->perm, &others, err);
    ckpt_remote_close(r);
    if (st) return st;
    const struct storage *cold =
        object_store_class(catalogue_new(c->perm), a[0], rules.storage_class);
    if (c->say->json) {
        struct arena   scratch = *c->perm;
        struct textbuf b       = event_begin(&scratch, "lifecycle");
        event_i64(&b, "rules_of_others", others);
        event_i64(&b, "abort_days", rules.abort_days);
        event_i64(&b, "cold_days", rules.cold_days);
        event_str(&b, "storage_class", rules.storage_class);
        event_f64(&b, "gb_month_usd", cold ? cold->gb_month_usd : NAN);
        event_f64(&b, "minimum_days", cold ? cold->minimum_days : NAN);
        event_f64(&b, "move_1000_usd", cold ? cold->put_1000_usd : NAN);
        event_f64(&b, "retrieve_gb_usd", cold ? cold->retrieve_gb_usd : NAN);
        event_end(&b, c->say);
        return STATUS_OK;
    }
    say_result(c->say,
               "unfinished uploads are aborted after %lld days, superseded checkpoints move to "
               "%.*s after "
               "%lld; %lld other rules are unchanged\n",
               (long long)rules.abort_days, STR_ARG(rules.storage_class),
               (long long)rules.cold_days, (long long)others);
    struct store_price price = cold ? store_price_of(cold) : (struct store_price){ 0 };
    if (cold)
        say_result(
            c->say,
            "a GB there costs $%.3g a month, and at least $%.3g for its %g days; moving 1,000 "
            "objects costs $%.3g, reading a GB back $%.3g\n",
            cold->gb_month_usd, bill_storage_usd(&price, 1e9, 0), cold->minimum_days,
            cold->put_1000_usd, cold->retrieve_gb_usd);
    return STATUS_OK;
}

static const struct verb {
    const char *name, *arguments;
    i64         least, most; /* arguments */
    enum status (*run)(struct cli *c, const struct str *arguments, i64 count, struct err *err);
} verbs[] = {
    { "list", "s3://BUCKET/PREFIX", 1, 1, run_list },
    { "verify", "s3://BUCKET/PREFIX [NAME]", 1, 2, run_verify },
    { "show", "s3://BUCKET/PREFIX [NAME]", 1, 2, run_show },
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
    return err_set(
        err, STATUS_USAGE,
        "%.*s does not work on an object store; expected list, verify, show, prune, copy, restore "
        "or lifecycle",
        (int)MIN(verb.len, 80), verb.data);
}
