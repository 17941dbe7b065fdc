/* use.c - a session without training. */
#include "train/use.h"
#include "model/hf.h"
#include "store/safetensors.h"
#include "train/train_int.h"
#include <math.h>

enum { NAMES_BYTES = 256 << 20 }; /* address space for the header of the weights */
enum { PERM_RESERVE_GIB = 64 };   /* likewise for all that is held */

struct use {
    struct arena    perm; /* that it lies in itself */
    struct session  s;
    struct settings settings;
    i64             length, vocabulary; /* of sequences to continue */
};

enum status use_settings(struct os *os, struct settings *settings, struct arena *perm,
                         struct err *err)
{
    return adapters_settings(os, settings, perm, err);
}

/* Nothing of how it was trained matters; one batch holds what evaluation's does. */
static enum status use_new(struct os *os, const struct settings *settings, struct use **out,
                           struct err *err)
{
    struct arena         perm = arena_open((i64)PERM_RESERVE_GIB << 30);
    struct train_config *t;
    *out = NULL;
    if (!perm.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    struct use *u         = NEW(&perm, struct use, 1);
    u->perm               = perm;
    u->settings           = *settings;
    u->settings.eval_only = true;
    t                     = &u->settings.train;
    t->batch              = MAX(t->eval_batch, 1);
    t->micro_batch        = 0;
    t->noise_scale        = false;
    t->optimiser          = STR("adamw");
    *out                  = u;
    return adapters_settings(os, &u->settings, &u->perm, err);
}

static enum status need_weights(const struct settings *s, struct err *err)
{
    if (s->train.init.len || str_eq(s->model.kind, STR("hf"))) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "this model has no weights: give train.init, a safetensors file");
}

enum status use_open(struct os *os, const struct settings *settings, enum use_kind kind,
                     struct use **out, struct err *err)
{
    enum status st = use_new(os, settings, out, err);
    struct use *u  = *out;
    if (st) return st;
    u->settings.model.ask = kind == USE_PREDICT ? ASK_LOGITS : ASK_LOSS;
    st                    = need_weights(&u->settings, err);
    if (!st) st = session_open(&u->s, os, &u->settings, &u->perm, err);
    if (!st && !dataset_count(u->s.data, SPLIT_EVAL))
        st = err_set(
            err, STATUS_USAGE,
            "there are no samples to evaluate: give data.eval_path, or data.held_out above 0");
    return st ? st : session_start(&u->s, err);
}

void use_close(struct use *u)
{
    struct arena perm;
    if (!u) return;
    perm = u->perm;
    if (session_close(&u->s)) arena_close(&perm);
}

enum status use_evaluate(struct use *u, struct train_eval *out, struct err *err)
{
    *out = (struct train_eval){ 0 };
    return evaluate(&u->s, out, err);
}

/* --- classes --- */

static void softmax(f64 *x, i64 count)
{
    f64 top = -INFINITY, sum = 0;
    for (i64 i = 0; i < count; i++) top = MAX(top, x[i]);
    for (i64 i = 0; i < count; i++) sum += x[i] = exp(x[i] - top);
    for (i64 i = 0; i < count; i++) x[i] /= sum;
}

struct predicting {
    use_answer *answer;
    void       *context;
    i64         sample, classes; /* classes 1: a click or none */
    bool        clicks;
};

static enum status predict_batch(void *context, struct session *s, const struct batch *b,
                                 struct err *err)
{
    struct predicting *p       = context;
    struct arena       scratch = s->scratch;
    f64               *x       = NEW(&scratch, f64, b->count * p->classes);
    (void)err;
    session_get_numbers(s, p->clicks ? STR("scores") : STR("logits"), x, b->count * p->classes);
    for (i64 i = 0; i < b->count; i++) {
        f64 *of = x + i * p->classes;
        if (p->clicks) *of = 1 / (1 + exp(-*of));
        else softmax(of, p->classes);
        p->answer(p->context, p->sample++, of, p->classes);
    }
    return STATUS_OK;
}

enum status use_predict(struct use *u, use_answer *answer, void *context, struct err *err)
{
    struct predicting        p = { answer, context, 0, 1, session_has(&u->s, STR("scores")) };
    const struct persistent *t = program_set_find(u->s.set, STR("logits"));
    if (model_rows(u->s.model) > 1)
        return err_set(err, STATUS_USAGE,
                       "this model predicts tokens, not classes: use `frugal generate`");
    if (!p.clicks) p.classes = shape_last(t->type.shape);
    return evaluate_batches(&u->s, predict_batch, &p, err);
}

/* --- the next token --- */

/* What a model of ours has learned is in its weights: the size of its vocabulary, and of its positions. */
static enum status look_at_weights(struct os *os, struct settings *s, struct arena scratch,
                                   struct err *err)
{
    struct st_file          f;
    const struct st_tensor *wte, *wpe;
    struct arena            names = arena_part(&scratch, NAMES_BYTES);
    enum status             st    = st_open(os, s->train.init, &names, &f, err);
    if (st) return st;
    wte = st_find(&f, STR("wte.weight"));
    wpe = st_find(&f, STR("wpe.weight"));
    if (!wte || wte->shape.rank != 2)
        st = err_set(err, STATUS_USAGE, "%.*s has no tensor wte.weight: it is not of a gpt",
                     STR_ARG(s->train.init));
    if (!st) s->model.vocabulary = wte->shape.dim[0];
    if (!st) s->model.places = wpe && wpe->shape.rank == 2 ? wpe->shape.dim[0] : 0;
    if (!st && !s->model.places) s->model.context = s->data.context;
    st_close(os, &f);
    return st;
}

static struct feed feed_of(struct str name, i32 rank, i64 count, i64 range)
{
    return (struct feed){ name, { DT_I32, { .rank = rank, .dim = { count } } }, range };
}

static enum status open_next(struct use *u, struct os *os, i64 length, struct arena *perm,
                             struct err *err)
{
    struct settings *s     = &u->settings;
    struct feeds     feeds = { .count = 3 };
    struct model    *m     = NULL;
    i64              most  = s->model.places ? s->model.places : s->model.context;
    u->length              = length ? MIN(length, most) : most;
    u->vocabulary          = s->model.vocabulary;
    feeds.feed[0]          = feed_of(STR("x"), 1, u->length, u->vocabulary);
    feeds.feed[1]          = feed_of(STR("y"), 1, u->length, u->vocabulary);
    feeds.feed[2]          = feed_of(STR("at"), 0, 0, u->length);
    s->model.ask           = ASK_NEXT;
    s->model.lora          = s->train.lora;
    if (str_eq(s->train.precision,
               STR("auto"))) /* casts of all weights would take longer than one row of products */
        s->train.precision = STR("fp32");
    s->train.batch      = 0;
    s->train.eval_batch = 1;
    enum status st      = model_new(perm, &s->model, &feeds, &m, err);
    if (!st) st = session_build(&u->s, os, s, perm, model_build, m, err);
    u->s.model = m;
    if (!st) st = weights_check(&u->s, err);
    return st ? st : session_start(&u->s, err);
}

enum status use_open_next(struct os *os, const struct settings *settings, i64 length,
                          struct use **out, struct err *err)
{
    bool        theirs = str_eq(settings->model.kind, STR("hf"));
    enum status st     = use_new(os, settings, out, err);
    struct use *u      = *out;
    if (!st) st = need_weights(settings, err);
    if (!st && !theirs && !str_eq(settings->model.kind, STR("gpt")))
        st = err_set(err, STATUS_USAGE, "a model of kind %.*s does not predict tokens",
                     STR_ARG(settings->model.kind));
    if (!st && theirs) st = hf_settings(os, &u->settings.model, &u->perm, err);
    if (!st && hf_is_encoder(&u->settings.model))
        st = err_set(err, STATUS_USAGE, "%.*s predicts classes, not tokens: use `frugal predict`",
                     STR_ARG(settings->model.path));
    if (!st && !theirs) st = look_at_weights(os, &u->settings, u->perm, err);
    return st ? st : open_next(u, os, length, &u->perm, err);
}

i64 use_length(const struct use *u) { return u->length; }
i64 use_vocabulary(const struct use *u) { return u->vocabulary; }

void use_next(struct use *u, const i32 *tokens, i64 count, f64 *logits)
{
    const struct backend_table *be = u->s.backend->table;
    i32                         at = (i32)count - 1;
    ASSERT(count >= 1 && count <= u->length);
    session_put(&u->s, STR("x"), tokens, count * (i64)sizeof *tokens);
    session_put(&u->s, STR("at"), &at, sizeof at);
    be->run(u->s.backend, u->s.set->programs[PROGRAM_EVAL]);
    session_get_numbers(&u->s, STR("logits"), logits, u->vocabulary);
}
