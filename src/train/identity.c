/* identity.c - a run compared with the one that a checkpoint is of. */
#include "train/identity.h"
#include "store/st_folder.h"
#include "train/options.h"
#include <math.h>
#include <string.h>

static const struct str build = STR_INIT(FRUGAL_VERSION " " __VERSION__);
static const struct str version =
    STR_INIT("1"); /* of what is kept; none: few settings, nothing of the data */

struct str identity_before(const struct json *before, const char *key)
{
    const struct json *v = json_get(before, str_of(key));
    return v ? v->text : STR("");
}

/* --- what is kept --- */

/* A number for the model's operations, whatever they are compiled to: another dropout or activation
 * has the same tensors and is another run. */
static struct str model_mark(struct session *s, struct arena *perm)
{
    struct arena   scratch = s->scratch, half = arena_part(&scratch, 1 << 26);
    struct graph  *g = graph_new(&half, STR("model"));
    struct program p = { .graph = g };
    if (model_build(s->model, g, 1, MODE_TRAIN, NULL)) return STR("");
    p.offset      = NEW(&half, i64, g->value_count);
    p.instrs      = NEW(&half, struct instr, g->node_count);
    p.instr_count = g->node_count;
    for (i32 i = 0; i < g->node_count; i++) p.instrs[i].node = i;
    struct str text = program_print(&p, &half, scratch);
    return str_fmt(perm, "%016llx", (unsigned long long)str_hash(text));
}

/* Every kernel that takes part in a step, once: "matmul=avx512 …". */
static struct str kernels(struct session *s, struct arena *perm, struct arena scratch)
{
    struct textbuf b = textbuf_new(perm);
    for (i32 id = 0; id < PROGRAM_COUNT; id++) {
        const struct program *p = s->set->programs[id];
        for (i32 i = 0; p && i < p->instr_count; i++) {
            struct arena mine = scratch;
            struct str   word =
                str_fmt(&mine, " %s=%.*s ", op_info(p->graph->nodes[p->instrs[i].node].op)->name,
                        STR_ARG(p->instrs[i].kernel));
            struct str text = textbuf_str(&b);
            if (text.len && memmem(text.data, (size_t)text.len, word.data, (size_t)word.len))
                continue;
            textbuf_add(&b, b.len ? str_sub(word, 1, word.len) : word);
        }
    }
    return str_trim(textbuf_str(&b));
}

/* Kernels as compile names them for the largest batch. What a device chooses by time, for batches of other
 * lengths too, comes later, is in its `choices`, and is taken from there by a resumed run. */
enum status identity_init(struct identity *i, struct session *s, struct err *err)
{
    *i                   = (struct identity){ 0 };
    i->kernels           = kernels(s, s->perm, s->scratch);
    struct data_config c = s->settings->data;
    c.remote             = s->remote;
    enum status st = dataset_fingerprints(s->data, &c, s->perm, i->files, &i->file_count, err);
    if (st || !s->settings->train.lora.rank || !str_eq(s->settings->model.kind, STR("hf")))
        return st;
    struct fingerprint *f     = &i->files[i->file_count++]; /* its weights are in no checkpoint */
    struct str         *paths = NULL;
    i64                 count = 0;
    f->key                    = "model.path";
    st = st_folder_files(s->os, model_config_of(s->model)->path, s->perm, &paths, &count, err);
    return st ? st : fingerprint_files(s->os, paths, count, s->perm, &f->text, err);
}

/* Where nobody said it, what it came to; empty: it was said. */
static struct str chosen(const struct option *o, const struct session *s, struct arena *perm)
{
    const struct settings *c = s->settings;
    if (str_eq(o->key, STR("train.optimiser")) && str_eq(c->train.optimiser, STR("auto")))
        return optimiser_name(s->config.optimiser);
    if (str_eq(o->key, STR("train.precision")) && str_eq(c->train.precision, STR("auto")))
        return precision_name(s->precision.dtype);
    if (str_eq(o->key, STR("train.batch")) && !c->train.batch)
        return str_fmt(perm, "%lld", (long long)session_step_samples(s));
    if (str_eq(o->key, STR("train.micro_batch")) && !c->train.micro_batch)
        return str_fmt(perm, "%lld", (long long)session_batch_all(s));
    if (str_eq(o->key, STR("data.shuffle_block")) && !c->data.shuffle_block)
        return str_fmt(perm, "%lld", (long long)dataset_block(s->data));
    return STR("");
}

static struct str value_of(const struct option *o, struct os *os, const struct settings *settings,
                           struct arena *perm)
{
    if (str_eq(o->key, STR("data.kind"))) return data_kind(os, &settings->data);
    if (str_eq(o->key, STR("train.optimiser")) && settings->optimiser_chosen.len)
        return settings->optimiser_chosen;
    return option_get_text(o, settings, perm);
}

static void add_text(struct textbuf *b, struct str key, struct str value)
{
    if (b->data[b->len - 1] != '{') textbuf_add(b, STR(","));
    json_add_string(b, key);
    textbuf_add(b, STR(":"));
    json_add_string(b, value);
}

/* Of what follows from settings and data together. */
enum { COUNT_ROWS = 2 };
struct count {
    const char *key;
    i64         value;
};
static void counts(const struct session *s, struct count to[COUNT_ROWS])
{
    to[0] = (struct count){ "samples to train on", dataset_count(s->data, SPLIT_TRAIN) };
    to[1] = (struct count){ "samples a step", session_step_samples(s) };
}

/* "1", "4", "4 with train.shard=state", "4 with train.shard=all over 2" */
static struct str ranks_text(const struct session *s, struct arena *perm)
{
    static const char *const how[] = { "", " with train.shard=state", " with train.shard=all" };
    if (!s->ranks) return STR("1");
    i32        count = s->ranks->count;
    bool       some  = s->config.shard && s->config.places < count;
    struct str over  = some ? str_fmt(perm, " over %d", s->config.places) : STR("");
    return str_fmt(perm, "%d%s%.*s", count, how[s->config.shard], STR_ARG(over));
}

struct str identity_text(const struct identity *id, struct session *s, struct arena *perm)
{
    struct arena   parts = arena_part(perm, 1 << 22); /* so that the text grows in place */
    struct textbuf b     = textbuf_new(perm);
    struct count   count[COUNT_ROWS];
    textbuf_add(&b, STR("{"));
    add_text(&b, STR("identity"), version);
    add_text(&b, STR("build"), build);
    add_text(&b, STR("device"), s->target.name);
    add_text(&b, STR("threads"), str_fmt(&parts, "%d", s->target.threads));
    add_text(&b, STR("ranks"), ranks_text(s, &parts));
    add_text(&b, STR("batch"), str_fmt(&parts, "%lld", (long long)session_batch_all(s)));
    add_text(&b, STR("kernels"), id->kernels);
    if (s->backend->table->choices)
        add_text(&b, STR("choices"), s->backend->table->choices(s->backend, &parts));
    counts(s, count);
    for (i64 i = 0; i < COUNT_ROWS; i++)
        add_text(&b, str_of(count[i].key), str_fmt(&parts, "%lld", (long long)count[i].value));
    add_text(&b, STR("model"), model_mark(s, &parts));
    for (i64 i = 0; i < id->file_count; i++)
        add_text(&b, str_fmt(&parts, "file of %s", id->files[i].key), id->files[i].text);
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct str text = chosen(&options[i], s, &parts);
        if (options[i].resume == RESUME_FREE) continue;
        add_text(&b, options[i].key,
                 text.len ? text : value_of(&options[i], s->os, s->settings, &parts));
    }
    textbuf_add(&b, STR("}"));
    return textbuf_str(&b);
}

/* --- comparing --- */

static bool is_course(const struct option *o, const struct settings *settings)
{
    const struct train_config *t     = &settings->train;
    bool                       falls = !str_eq(t->schedule, STR("constant"));
    bool                       half  = settings->data.pieces > 0;         /* it lies elsewhere */
    bool                       kept  = str_eq(t->keep_best, STR("true")); /* auto changes no step */
    bool judged = kept || t->rollbacks || t->patience || t->forecast > 0 || !isnan(t->target);
    return o->resume == RESUME_COURSE || (o->resume == RESUME_LENGTH && (falls || half)) ||
           (o->resume == RESUME_EVALS && judged);
}

/* Nothing to compare: the checkpoint of an older build does not say it, auto takes what it says, or the operations
 * tell more of the network than how it is written. */
static bool is_open(const struct option *o, const struct json *before, struct str now)
{
    return !json_get(before, o->key) || str_eq(now, STR("auto")) ||
           str_eq(o->key, STR("model.layers")) ||
           (str_eq(o->key, STR("data.shuffle_block")) && str_eq(now, STR("0")));
}

enum status identity_compare_settings(const struct json *before, struct os *os,
                                      const struct settings   *settings,
                                      struct identity_changes *changes, struct arena scratch,
                                      struct err *err)
{
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        const struct option *o    = &options[i];
        struct arena         mine = scratch;
        struct str           now  = value_of(o, os, settings, &mine);
        if (o->resume == RESUME_FREE || is_open(o, before, now)) continue;
        struct str was = json_get(before, o->key)->text;
        if (str_eq(was, now)) continue;
        if (o->resume == RESUME_EQUAL)
            return err_set(err, STATUS_USAGE, "%.*s was %.*s and is %.*s", STR_ARG(o->key),
                           STR_ARG(was), STR_ARG(now));
        changes->end |= o->resume == RESUME_END || o->resume == RESUME_LENGTH;
        if (!is_course(o, settings)) continue;
        changes->course = true;
        changes->say(changes->context, str_fmt(&mine, "%.*s was %.*s and is %.*s now",
                                               STR_ARG(o->key), STR_ARG(was), STR_ARG(now)));
    }
    return STATUS_OK;
}

/* Files that were added or left out since are others, too. */
static enum status compare_files(const struct identity *id, const struct json *before,
                                 struct arena scratch, struct err *err)
{
    static const char *const keys[FINGERPRINTS_MAX] = { "data.path",      "data.labels",
                                                        "data.eval_path", "data.eval_labels",
                                                        "data.files",     "model.path" };
    bool                     any                    = false; /* of an older build there is none */
    for (i64 k = 0; k < FINGERPRINTS_MAX; k++)
        any |= json_get(before, str_fmt(&scratch, "file of %s", keys[k])) != NULL;
    for (i64 k = 0; any && k < FINGERPRINTS_MAX; k++) {
        struct str was = identity_before(before,
                                         str_z(&scratch, str_fmt(&scratch, "file of %s", keys[k]))),
                   now = STR("");
        for (i64 i = 0; i < id->file_count; i++)
            if (!strcmp(id->files[i].key, keys[k])) now = id->files[i].text;
        if (fingerprint_compare(was, now) != FINGERPRINT_OTHER) continue;
        return err_set(err, STATUS_USAGE,
                       "the data of %s has changed since the run began (%.*s; now %.*s)", keys[k],
                       STR_ARG(was.len ? was : STR("none")), STR_ARG(now.len ? now : STR("none")));
    }
    return STATUS_OK;
}

enum status identity_compare(const struct identity *id, const struct json *before,
                             struct session *s, struct err *err)
{
    struct arena scratch = s->scratch;
    struct count count[COUNT_ROWS];
    enum status  st = compare_files(id, before, scratch, err);
    if (st) return st;
    counts(s, count);
    for (i64 i = 0; i < COUNT_ROWS; i++) {
        struct str was = identity_before(before, count[i].key);
        struct str now = str_fmt(&scratch, "%lld", (long long)count[i].value);
        if (!str_eq(was, now))
            return err_set(err, STATUS_USAGE, "%s was %.*s and is %.*s", count[i].key, STR_ARG(was),
                           STR_ARG(now));
    }
    if (str_eq(identity_before(before, "model"), model_mark(s, &scratch))) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "its tensors are the same, but its model has other operations");
}

/* The number of threads is no reason: no kernel's result depends on it. */
struct str identity_other_bits(const struct identity *id, const struct json *before,
                               struct session *s, struct arena *perm)
{
    struct str device = identity_before(before, "device"), batch = identity_before(before, "batch");
    struct str was = identity_before(before, "build"),
               now = str_fmt(perm, "%lld", (long long)session_batch_all(s));
    if (!str_eq(device, s->target.name))
        return str_fmt(perm, "it was computed by %.*s", STR_ARG(device));
    if (!str_eq(was, build))
        return str_fmt(perm, "it was computed by another build of frugal (%.*s)", STR_ARG(was));
    if (!str_eq(identity_before(before, "identity"), version))
        return STR("it was saved by another version of frugal, which recorded fewer settings and "
                   "data to compare");
    if (!str_eq(batch, now))
        return str_fmt(perm, "it was computed %.*s samples at a time, not %.*s", STR_ARG(batch),
                       STR_ARG(now));
    struct str ranks = identity_before(before, "ranks"), here = ranks_text(s, perm);
    if (!str_eq(ranks.len ? ranks : STR("1"), here))
        return str_fmt(perm, "it was computed by other ranks: %.*s, not %.*s",
                       STR_ARG(ranks.len ? ranks : STR("1")), STR_ARG(here));
    if (!str_eq(identity_before(before, "kernels"), id->kernels))
        return STR("it was computed by other kernels");
    for (i64 i = 0; i < id->file_count; i++) {
        struct str key = str_fmt(perm, "file of %s", id->files[i].key);
        if (fingerprint_compare(identity_before(before, str_z(perm, key)), id->files[i].text))
            return str_fmt(
                perm, "only names and sizes could be compared of the data of %s, not the content",
                id->files[i].key);
    }
    return STR("");
}
