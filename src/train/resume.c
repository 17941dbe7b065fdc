/* resume.c - is the checkpoint in the folder this run's, and will it go on to the bit? */
#include "train/resume.h"
#include "base/json.h"
#include "base/rng.h"
#include <math.h>
#include <string.h>

/* --- what is compared --- */

enum kind { INT, NUMBER, TEXT, TRUTH };
enum effect {
    CHANGES, /* another value is told; the steps are then no longer the same */
    ENDS,    /* a run that had ended goes on */
};

static const struct {
    const char *key;
    enum kind   kind;
    enum effect effect;
    size_t      offset;
} settings_kept[] = {
#define SETTING(kind, effect, field)                                                               \
    {                                                                                              \
        "train." #field, kind, effect, offsetof(struct train_config, field)                        \
    }
    SETTING(NUMBER, CHANGES, lr),
    SETTING(NUMBER, CHANGES, beta1),
    SETTING(NUMBER, CHANGES, beta2),
    SETTING(NUMBER, CHANGES, eps),
    SETTING(NUMBER, CHANGES, decay),
    SETTING(NUMBER, CHANGES, momentum),
    SETTING(NUMBER, CHANGES, clip),
    SETTING(TRUTH, CHANGES, nesterov),
    SETTING(NUMBER, CHANGES, muon_lr),
    SETTING(NUMBER, CHANGES, muon_rest_lr),
    SETTING(NUMBER, CHANGES, muon_momentum),
    SETTING(TEXT, CHANGES, muon_scale),
    SETTING(TEXT, CHANGES, schedule),
    SETTING(NUMBER, CHANGES, peak_part),
    SETTING(NUMBER, CHANGES, decay_part),
    SETTING(INT, CHANGES, step_every),
    SETTING(NUMBER, CHANGES, step_factor),
    SETTING(TEXT, CHANGES, lr_scaling),
    SETTING(INT, CHANGES, lr_batch),
    SETTING(NUMBER, CHANGES, lr_end),
    SETTING(INT, CHANGES, warmup),
    SETTING(TEXT, CHANGES, warmup_unit),
    SETTING(TRUTH, CHANGES, wide_sums),
    SETTING(TRUTH, CHANGES, stochastic_rounding),
    SETTING(INT, ENDS, epochs),
    SETTING(INT, ENDS, steps),
    SETTING(TEXT, ENDS, target_metric),
    SETTING(NUMBER, ENDS, target),
    SETTING(INT, ENDS, patience),
    SETTING(NUMBER, ENDS, min_improvement),
    SETTING(NUMBER, ENDS, max_seconds),
    SETTING(NUMBER, ENDS, max_dollars),
    SETTING(NUMBER, ENDS, forecast),
#undef SETTING
};

static struct str value_text(const struct train_config *c, i64 row, struct arena *perm)
{
    const void *field = (const char *)c + settings_kept[row].offset;
    switch (settings_kept[row].kind) {
    case INT: return str_fmt(perm, "%lld", (long long)*(const i64 *)field);
    case NUMBER: break;
    case TRUTH: return *(const bool *)field ? STR("true") : STR("false");
    case TEXT: return *(const struct str *)field;
    }
    struct textbuf b = textbuf_new(perm);
    textbuf_f64(&b, *(const f64 *)field);
    return textbuf_str(&b);
}

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

/* Samples that are shuffled together, as it was found where nobody said it: the order depends on it. */
static struct str block_text(const struct session *s, struct arena *perm)
{
    return str_fmt(perm, "%lld", (long long)dataset_block(s->data));
}

/* What must be the same. */
enum { MUST_COUNT = 8 };
struct must {
    const char *key;
    struct str  value;
};

static void musts(struct session *s, struct arena *perm, struct must *to)
{
    const struct train_config *c               = &s->settings->train;
    const struct must          all[MUST_COUNT] = {
                 { "train.optimiser", optimiser_name(s->config.optimiser) },
                 { "train.precision", precision_name(s->precision.dtype) },
                 { "train.seed", str_fmt(perm, "%llu", (unsigned long long)c->seed) },
                 { "train.shuffle", c->shuffle ? STR("true") : STR("false") },
                 { "train.drop_last", c->drop_last ? STR("true") : STR("false") },
                 { "samples to train on",
                   str_fmt(perm, "%lld", (long long)dataset_count(s->data, SPLIT_TRAIN)) },
                 { "samples a step", str_fmt(perm, "%lld", (long long)session_step_samples(s)) },
                 { "model", model_mark(s, perm) },
    };
    memcpy(to, all, sizeof all);
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

static void add_text(struct textbuf *b, const char *key, struct str value)
{
    if (b->data[b->len - 1] != '{') textbuf_add(b, STR(","));
    json_add_string(b, str_of(key));
    textbuf_add(b, STR(":"));
    json_add_string(b, value);
}

static const struct str build = STR_INIT(FRUGAL_VERSION " " __VERSION__);

struct str resume_text(struct session *s, struct arena *perm)
{
    struct arena   parts = arena_part(perm, 1 << 22); /* so that the text grows in place */
    struct must    must[MUST_COUNT];
    struct textbuf b = textbuf_new(perm);
    musts(s, &parts, must);
    textbuf_add(&b, STR("{"));
    add_text(&b, "build", build);
    add_text(&b, "device", s->target.name);
    add_text(&b, "threads", str_fmt(&parts, "%d", s->target.threads));
    add_text(&b, "batch", str_fmt(&parts, "%lld", (long long)s->config.batch));
    add_text(&b, "data.shuffle_block", block_text(s, &parts));
    add_text(&b, "kernels", kernels(s, &parts, s->scratch));
    if (s->backend->table->choices)
        add_text(&b, "choices", s->backend->table->choices(s->backend, &parts));
    for (i64 i = 0; i < MUST_COUNT; i++) add_text(&b, must[i].key, must[i].value);
    for (i64 i = 0; i < COUNT_OF(settings_kept); i++)
        add_text(&b, settings_kept[i].key, value_text(&s->settings->train, i, &parts));
    textbuf_add(&b, STR("}"));
    return textbuf_str(&b);
}

static struct str text_before(const struct resume *r, const char *key)
{
    const struct json *v = json_get(r->before, str_of(key));
    return v ? v->text : STR("");
}

/* --- finding --- */

void resume_tell(const struct train_listener *to, const struct train_checkpoint *e)
{
    for (; to; to = to->next)
        if (to->on_checkpoint) to->on_checkpoint(to->context, e);
}

static void tell(const struct resume *r, enum train_checkpoint_kind kind, i64 step, struct str text)
{
    resume_tell(r->listener,
                &(struct train_checkpoint){ .kind = kind, .step = step, .text = text });
}

/* What was chosen for the machine of then stays as it was. */
static void keep_choices(struct resume *r, struct arena *perm)
{
    struct train_config *t     = &r->settings.train;
    i64                  batch = 0;
    t->init                    = STR(""); /* its weights are in the checkpoint */
    r->settings.choices        = text_before(r, "choices");
    str_i64(text_before(r, "batch"), &batch);
    if (!r->settings.data.shuffle_block)
        str_i64(text_before(r, "data.shuffle_block"), &r->settings.data.shuffle_block);
    bool halved = t->noise_scale && t->accumulate <= 1 && !t->batch_total; /* session.c */
    if (!t->batch) t->batch = halved ? 2 * batch : batch;
    if (str_eq(t->precision, STR("auto")))
        t->precision = str_copy(perm, text_before(r, "train.precision"));
    if (str_eq(t->optimiser, STR("auto")))
        t->optimiser = str_copy(perm, text_before(r, "train.optimiser"));
}

static enum status find(struct resume *r, struct str folder, struct arena *perm, struct err *err)
{
    enum status st = ckpt_list(r->os, folder, perm, &r->list, err);
    if (st || !r->list.count) return st;
    st = ckpt_load_newest(r->os, &r->list, perm, &r->loaded, err);
    for (i64 i = 0; i < r->list.count && r->list.items[i].why.status; i++)
        tell(r, CHECKPOINT_DAMAGED, r->list.items[i].id.step, str_of(r->list.items[i].why.text));
    if (st == STATUS_NO)
        return STATUS_OK; /* none is whole: the run begins anew, and that was told */
    if (st) return st;
    r->found = true;
    r->run   = r->loaded.ckpt->manifest.run;
    st       = json_parse(perm, r->loaded.ckpt->manifest.state, &r->before, err);
    if (!st) keep_choices(r, perm);
    return st;
}

/* The newest here, unless there is a newer one in the object store. */
static enum status find_anywhere(struct resume *r, struct arena *perm, struct err *err)
{
    struct str     folder = r->settings.checkpoint.dir;
    struct ckpt_id have   = { 0 };
    bool           brought;
    enum status    st = find(r, folder, perm, err);
    if (st) return st;
    if (r->found) have = r->loaded.ckpt->id;
    st = elsewhere_restore(&r->elsewhere, have, perm, &brought, err);
    if (st || !brought) return st;
    resume_forget(r);
    return find(r, folder, perm, err);
}

enum status resume_open(struct resume *r, struct os *os, const struct settings *settings,
                        const struct train_listener *listener, struct arena *perm, struct err *err)
{
    *r = (struct resume){ .os = os, .listener = listener, .settings = *settings };
    struct checkpoint_config *c = &r->settings.checkpoint;
    if (c->to.len && !c->dir.len) c->dir = STR("checkpoints");
    if (!c->dir.len) return STATUS_OK;
    enum status st = ckpt_store_open(os, c->dir, perm, &r->store, err);
    if (st) return st;
    r->attempt = ckpt_attempt_last(r->store) + 1;
    r->run     = str_fmt(perm, "%016llx", (unsigned long long)rng_mix((u64)os->wall_ns(os)));
    st =
        elsewhere_open(&r->elsewhere, os, &r->settings, listener, r->store, perm, &r->attempt, err);
    if (st) return st;
    if (!listener->orders || !listener->orders->fresh) return find_anywhere(r, perm, err);
    st = ckpt_clear(r->store, *perm, err);
    return st ? st : elsewhere_clear(&r->elsewhere, err);
}

void resume_forget(struct resume *r)
{
    if (r->found) ckpt_unload(r->os, &r->loaded);
    r->found = false;
}

void resume_close(struct resume *r)
{
    resume_forget(r);
    elsewhere_close(&r->elsewhere, r->ended);
    if (r->store) ckpt_store_close(r->store);
    r->store = NULL;
}

/* --- comparing --- */

static enum status another(const struct resume *r, struct err *err, struct str what)
{
    return err_set(
        err, STATUS_USAGE,
        "%.*s holds the checkpoints of another run: %.*s. Give this one a checkpoint.dir of "
        "its own, or begin anew with --fresh, which removes them",
        STR_ARG(r->settings.checkpoint.dir), STR_ARG(what));
}

/* The optimiser comes before the tensors, of which it makes some. */
static enum status check_same(struct resume *r, struct session *s, const struct snapshot *n,
                              struct err *err)
{
    struct must must[MUST_COUNT];
    struct err  why;
    musts(s, s->perm, must);
    struct str block = text_before(r, "data.shuffle_block"), now = block_text(s, s->perm);
    if (block.len && !str_eq(block, now)) /* an older checkpoint does not say it */
        return another(r, err, str_fmt(s->perm, "data.shuffle_block was %.*s and is %.*s", STR_ARG(block), STR_ARG(now)));
    for (i64 i = 0; i < MUST_COUNT; i++) {
        struct str was = text_before(r, must[i].key), is = must[i].value;
        if (i == 1 && snapshot_fits(n, &r->loaded, &why)) return another(r, err, str_of(why.text));
        if (str_eq(was, is)) continue;
        if (str_eq(str_of(must[i].key), STR("model")))
            return another(r, err,
                           STR("its tensors are these, but its model has other operations"));
        return another(
            r, err,
            str_fmt(s->perm, "%s was %.*s and is %.*s", must[i].key, STR_ARG(was), STR_ARG(is)));
    }
    return STATUS_OK;
}

/* True: a setting that the steps depend on is another. */
static bool tell_changes(struct resume *r, struct session *s)
{
    bool any = false;
    for (i64 i = 0; i < COUNT_OF(settings_kept); i++) {
        struct arena scratch = s->scratch;
        struct str   was     = text_before(r, settings_kept[i].key);
        struct str   is      = value_text(&s->settings->train, i, &scratch);
        if (str_eq(was, is) || !json_get(r->before, str_of(settings_kept[i].key))) continue;
        if (settings_kept[i].effect == ENDS) r->ends_changed = true;
        bool told         = settings_kept[i].effect == CHANGES;
        bool steps_matter = !str_eq(s->settings->train.schedule, STR("constant")) &&
                            (str_eq(str_of(settings_kept[i].key), STR("train.steps")) ||
                             str_eq(str_of(settings_kept[i].key), STR("train.epochs")));
        if (!told && !steps_matter) continue;
        any = true;
        tell(r, CHECKPOINT_CHANGED, r->loaded.ckpt->id.step,
             str_fmt(&scratch, "%s was %.*s and is %.*s now: the run goes on with that",
                     settings_kept[i].key, STR_ARG(was), STR_ARG(is)));
    }
    return any;
}

/* Why the bits may not be those of a run that was never interrupted; empty: they are. The number of
 * threads is no reason: no kernel's result depends on it. */
static struct str other_bits(const struct resume *r, struct session *s, struct arena *perm)
{
    struct str device = text_before(r, "device"), batch = text_before(r, "batch");
    struct str now = str_fmt(perm, "%lld", (long long)s->config.batch);
    if (!str_eq(device, s->target.name))
        return str_fmt(perm, "it was computed by %.*s", STR_ARG(device));
    if (!str_eq(text_before(r, "build"), build))
        return str_fmt(perm, "it was computed by another build of frugal (%.*s)",
                       STR_ARG(text_before(r, "build")));
    if (!str_eq(batch, now))
        return str_fmt(perm, "it was computed %.*s samples at a time, not %.*s", STR_ARG(batch),
                       STR_ARG(now));
    if (!str_eq(text_before(r, "kernels"), kernels(s, perm, s->scratch)))
        return STR("it was computed by other kernels");
    return STR("");
}

enum status resume_check(struct resume *r, struct session *s, const struct snapshot *n,
                         struct err *err)
{
    if (!r->found) return STATUS_OK;
    enum status st = check_same(r, s, n, err);
    if (st) return st;
    bool       changed = tell_changes(r, s);
    struct str why     = other_bits(r, s, s->perm);
    if (!why.len && changed) why = STR("settings have changed");
    tell(r, CHECKPOINT_RESUMED, r->loaded.ckpt->id.step, why);
    return STATUS_OK;
}
