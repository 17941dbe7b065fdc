/* cmd_checkpoints.c - frugal checkpoints: what lies in a folder of them, whether it is whole, what a
 * restore would take; deleting the old, copying one to another place. */
#include "base/date.h"
#include "base/json.h"
#include "cli/checkpoints.h"

enum status command_checkpoints(struct cli *c, struct err *err);

enum status checkpoints_find(const struct ckpt_list *l, struct str word, struct str folder,
                             struct ckpt **out, struct err *err)
{
    struct ckpt_id id = { 0 };
    i64            step;
    bool           by_name = ckpt_name_parse(word, &id), by_step = str_i64(word, &step);
    for (i64 i = 0; i < l->count; i++) {
        struct ckpt *k = *out = &l->items[i];
        if (by_name ? !ckpt_order(k->id, id) && k->id.step == id.step
                    : by_step && k->id.step == step)
            return STATUS_OK;
        if (!word.len && !k->why.status) return STATUS_OK;
    }
    if (!word.len) return err_set(err, STATUS_NO, "%.*s has no valid checkpoint", STR_ARG(folder));
    return err_set(err, STATUS_USAGE,
                   "%.*s has no checkpoint %.*s; give a name from the list, or a step",
                   STR_ARG(folder), (int)MIN(word.len, 80), word.data);
}

void checkpoints_tell(struct cli *c, const struct ckpt_list *l, i64 i, const char *right,
                      const struct err *why)
{
    static const char *const    wrong[] = { "", "damaged", "unknown version", "unreadable" };
    struct arena                scratch = *c->perm;
    const struct ckpt          *k       = &l->items[i];
    const struct ckpt_manifest *m       = &k->manifest;
    bool                        best    = i == ckpt_best(l);
    struct str                  name    = ckpt_name(&scratch, k->id);
    const char                 *word    = why->status ? wrong[why->status] : right;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "checkpoint");
        event_str(&b, "name", name);
        event_i64(&b, "step", k->id.step);
        event_str(&b, "status", str_of(word));
        event_str(&b, "why", str_of(why->text));
        if (!k->why.status) {
            event_str(&b, "run", m->run);
            event_f64(&b, "written_s", (f64)m->wall_ns * 1e-9);
            event_i64(&b, "bytes", ckpt_bytes(m));
            event_str(&b, "metric", m->metric);
            event_f64(&b, "value", m->value);
            event_bool(&b, "best", best);
        }
        event_end(&b, c->say);
        return;
    }
    if (why->status) {
        say_result(c->say, "%-20.*s %s\n", STR_ARG(name), why->text);
        return;
    }
    struct str when  = date_text(&scratch, m->wall_ns / 1000000000);
    struct str bytes = text_bytes(&scratch, (f64)ckpt_bytes(m));
    struct str value = STR("");
    if (m->metric.len) value = text_metric(&scratch, m->metric, m->value);
    say_result(c->say, "%-20.*s %.*s %9.*s  %s%s%.*s%s%.*s%s\n", STR_ARG(name), STR_ARG(when),
               STR_ARG(bytes), word, value.len ? ", " : "", STR_ARG(m->metric),
               value.len ? " " : "", STR_ARG(value), best ? ", best" : "");
}

static enum status run_list(struct cli *c, const struct str *arguments, i64 count, struct err *err)
{
    struct ckpt_list list;
    enum status      st = checkpoint_folder_list(c->os, arguments[0], c->perm, &list, err);
    (void)count;
    for (i64 i = 0; i < list.count && !st; i++)
        checkpoints_tell(c, &list, i, "valid", &list.items[i].why);
    if (!st && !list.count && !c->say->json)
        say_message(c->say, "%.*s has no checkpoints\n", STR_ARG(arguments[0]));
    return st;
}

static enum status run_verify(struct cli *c, const struct str *arguments, i64 count,
                              struct err *err)
{
    struct ckpt_list list;
    struct ckpt     *only = NULL;
    i64              bad = 0, seen = 0;
    enum status      st = checkpoint_folder_list(c->os, arguments[0], c->perm, &list, err);
    if (!st && count > 1) st = checkpoints_find(&list, arguments[1], arguments[0], &only, err);
    for (i64 i = 0; i < list.count && !st; i++) {
        struct err why = { 0 };
        if (only && only != &list.items[i]) continue;
        bad += ckpt_verify(c->os, &list.items[i], *c->perm, &why) != STATUS_OK;
        checkpoints_tell(c, &list, i, "verified", &why);
        seen++;
    }
    if (st || !bad) return st;
    return err_set(err, STATUS_NO, "%lld of %lld checkpoints cannot be restored", (long long)bad,
                   (long long)seen);
}

enum status checkpoints_rate(struct cli *c, f64 *rate, struct err *err)
{
    struct str text = c->request->value[FLAG_rate];
    *rate           = 0;
    if (!c->request->given[FLAG_rate]) return STATUS_OK;
    if (!str_f64(text, rate) || !(*rate > 0))
        return err_set(err, STATUS_USAGE, "--rate is %.*s; expected megabytes per second, like 500",
                       (int)MIN(text.len, 40), text.data);
    *rate *= 1e6;
    return STATUS_OK;
}

void checkpoints_tell_restore(struct cli *c, const struct ckpt *k, f64 rate, const char *measured)
{
    struct arena scratch = *c->perm;
    i64          bytes   = ckpt_bytes(&k->manifest);
    bool         given   = c->request->given[FLAG_rate];
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "restore");
        event_str(&b, "name", ckpt_name(&scratch, k->id));
        event_i64(&b, "bytes", bytes);
        event_f64(&b, "bytes_per_s", rate);
        event_bool(&b, "measured", !given);
        event_f64(&b, "seconds", (f64)bytes / rate);
        event_end(&b, c->say);
        return;
    }
    struct str size = text_bytes(&scratch, (f64)bytes), speed = text_bytes(&scratch, rate);
    say_result(c->say, "restore   %.*s in %.2f s at %.*s/s, %s\n", STR_ARG(size), (f64)bytes / rate,
               STR_ARG(speed), given ? "as given" : measured);
}

/* A line for each text of it, as `frugal train` writes them; of another program as it is. */
static void tell_state(struct cli *c, struct str state)
{
    struct arena scratch = *c->perm;
    struct json *root;
    bool texts = !json_parse(&scratch, state, &root, NULL) && root->kind == JSON_MAP && root->count;
    for (const struct json *v = texts ? root->first : NULL; v; v = v->next)
        texts &= v->kind == JSON_STRING;
    for (const struct json *v = texts ? root->first : NULL; v; v = v->next)
        say_result(c->say, "%-10s%.*s %.*s\n", v == root->first ? "state" : "", STR_ARG(v->key),
                   STR_ARG(v->text.len ? v->text : STR("empty")));
    if (!texts) say_result(c->say, "state     %.*s\n", STR_ARG(state));
}

void checkpoints_tell_inside(struct cli *c, const struct ckpt_manifest *m)
{
    if (c->say->json) return;
    say_result(c->say, "run       %.*s, attempt %lld, save %lld\n", STR_ARG(m->run),
               (long long)m->id.attempt, (long long)m->id.save);
    for (i64 i = 0; i < m->shard_count; i++) {
        struct arena scratch = *c->perm;
        struct str   bytes   = text_bytes(&scratch, (f64)m->shards[i].bytes);
        say_result(c->say, "shard     %-28.*s %9.*s\n", STR_ARG(m->shards[i].name), STR_ARG(bytes));
    }
    tell_state(c, m->state);
}

static enum status run_show(struct cli *c, const struct str *arguments, i64 count, struct err *err)
{
    struct ckpt_list list;
    struct ckpt     *k;
    f64              rate;
    enum status      st = checkpoint_folder_list(c->os, arguments[0], c->perm, &list, err);
    if (!st)
        st = checkpoints_find(&list, count > 1 ? arguments[1] : STR(""), arguments[0], &k, err);
    if (!st && k->why.status) st = err_set(err, k->why.status, "%s", k->why.text);
    if (!st && !k->manifest.shard_count)
        st = err_set(err, STATUS_NO, "%.*s has no shards", STR_ARG(k->folder));
    if (!st) st = checkpoints_rate(c, &rate, err);
    if (!st && rate == 0) st = checkpoint_rate(c->os, c->clock, k, *c->perm, &rate, err);
    if (st) return st;
    checkpoints_tell(c, &list, k - list.items, "valid", &k->why);
    checkpoints_tell_inside(c, &k->manifest);
    checkpoints_tell_restore(c, k, rate, "measured just now, perhaps from the page cache");
    return STATUS_OK;
}

enum status checkpoints_number(struct cli *c, i64 flag, i64 *value, struct err *err)
{
    struct str text = c->request->value[flag];
    if (!c->request->given[flag] || (str_i64(text, value) && *value >= 1)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--%.*s is %.*s; expected a whole number of at least 1",
                   STR_ARG(flags[flag].name), (int)MIN(text.len, 40), text.data);
}

static bool is_there(const struct ckpt_list *l, struct ckpt_id id)
{
    for (i64 i = 0; i < l->count; i++)
        if (!ckpt_order(l->items[i].id, id)) return true;
    return false;
}

/* What went is told also where an error came in between. */
void checkpoints_tell_pruned(struct cli *c, const struct ckpt_list *before,
                             const struct ckpt_list *after)
{
    struct arena scratch = *c->perm;
    i64          deleted = 0, bytes = 0;
    for (i64 i = 0; i < before->count; i++) {
        const struct ckpt *k = &before->items[i];
        if (is_there(after, k->id)) continue;
        deleted++;
        bytes += k->why.status ? 0 : ckpt_bytes(&k->manifest);
        if (c->say->json) continue;
        struct str name = ckpt_name(&scratch, k->id);
        say_result(c->say, "deleted %.*s\n", STR_ARG(name));
    }
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "pruned");
        event_i64(&b, "deleted", deleted);
        event_i64(&b, "bytes", bytes);
        event_i64(&b, "kept", after->count);
        event_end(&b, c->say);
        return;
    }
    struct str size = text_bytes(&scratch, (f64)bytes);
    say_result(c->say, "%lld kept, %lld deleted, %.*s\n", (long long)after->count,
               (long long)deleted, STR_ARG(size));
}

static enum status run_prune(struct cli *c, const struct str *arguments, i64 count, struct err *err)
{
    struct ckpt_list   before, after;
    struct ckpt_store *store;
    i64                keep   = CHECKPOINTS_KEEP;
    enum status        listed = STATUS_OK, st = checkpoints_number(c, FLAG_keep, &keep, err);
    (void)count;
    if (!st) st = checkpoint_folder_list(c->os, arguments[0], c->perm, &before, err);
    if (!st) st = ckpt_store_open(c->os, arguments[0], c->perm, &store, err);
    if (st) return st;
    st     = ckpt_prune(store, keep, *c->perm, err);
    listed = ckpt_list(c->os, arguments[0], c->perm, &after, st ? NULL : err);
    if (!listed) checkpoints_tell_pruned(c, &before, &after);
    ckpt_store_close(store);
    return st ? st : listed;
}

void checkpoints_tell_copied(struct cli *c, const struct ckpt *k, struct str to)
{
    struct arena scratch = *c->perm;
    struct str   name    = ckpt_name(&scratch, k->id);
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "copied");
        event_str(&b, "name", name);
        event_str(&b, "to", to);
        event_i64(&b, "bytes", ckpt_bytes(&k->manifest));
        event_end(&b, c->say);
        return;
    }
    struct str bytes = text_bytes(&scratch, (f64)ckpt_bytes(&k->manifest));
    say_result(c->say, "copied %.*s to %.*s, %.*s, verified\n", STR_ARG(name), STR_ARG(to),
               STR_ARG(bytes));
}

static enum status run_copy(struct cli *c, const struct str *arguments, i64 count, struct err *err)
{
    struct ckpt_list   list;
    struct ckpt       *k;
    struct ckpt_store *to;
    enum status        st = checkpoint_folder_list(c->os, arguments[0], c->perm, &list, err);
    if (!st)
        st = checkpoints_find(&list, count > 2 ? arguments[2] : STR(""), arguments[0], &k, err);
    if (!st && k->why.status) st = err_set(err, k->why.status, "%s", k->why.text);
    if (!st) st = ckpt_store_open(c->os, arguments[1], c->perm, &to, err);
    if (st) return st;
    st = ckpt_copy(c->os, k, to, *c->perm, err);
    ckpt_store_close(to);
    if (!st) checkpoints_tell_copied(c, k, arguments[1]);
    return st;
}

static const struct verb {
    const char *name, *arguments;
    i64         least, most; /* arguments */
    enum status (*run)(struct cli *c, const struct str *arguments, i64 count, struct err *err);
} verbs[] = {
    { "list", "FOLDER", 1, 1, run_list },         { "verify", "FOLDER [NAME]", 1, 2, run_verify },
    { "show", "FOLDER [NAME]", 1, 2, run_show },  { "prune", "FOLDER [--keep N]", 1, 1, run_prune },
    { "copy", "FROM TO [NAME]", 2, 3, run_copy },
};

enum status command_checkpoints(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    for (i64 i = 0; i < r->argument_count; i++) {
        if (!object_store_is(r->arguments[i])) continue;
        if (i == 0) return checkpoints_remote(c, STR("list"), r->arguments, r->argument_count, err);
        return checkpoints_remote(c, r->arguments[0], r->arguments + 1, r->argument_count - 1, err);
    }
    if (!r->argument_count)
        return err_set(err, STATUS_USAGE, "which folder? Try: frugal checkpoints list FOLDER");
    for (i64 i = 0; i < COUNT_OF(verbs); i++) {
        const struct verb *v     = &verbs[i];
        i64                count = r->argument_count - 1;
        if (!str_eq(r->arguments[0], str_of(v->name))) continue;
        if (count < v->least || count > v->most)
            return err_set(err, STATUS_USAGE, "expected frugal checkpoints %s %s", v->name,
                           v->arguments);
        return v->run(c, r->arguments + 1, count, err);
    }
    if (r->argument_count == 1) return run_list(c, r->arguments, 1, err);
    return err_set(err, STATUS_USAGE,
                   "unknown verb %.*s; expected list, verify, show, prune or copy; restore and "
                   "lifecycle need s3://BUCKET/PREFIX",
                   (int)MIN(r->arguments[0].len, 80), r->arguments[0].data);
}
