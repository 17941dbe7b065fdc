/* use.c - a session without training. */
#include "train/use.h"
#include "model/hf.h"
#include "store/safetensors.h"
#include "train/use_int.h"
#include <math.h>
#include <string.h>

enum { NAMES_BYTES = 256 << 20 }; /* address space for the header of the weights */
enum { PERM_RESERVE_GIB = 64 };   /* likewise for all that is held */

/* Rows of new text that one program reads: enough that a product is bound by arithmetic rather than by reading the
 * weights (bench/results/generate-2026-11-17.txt). */
enum { ROWS_AT_ONCE = 64 };

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

/* Of a classifier of sequences that knows its classes, nothing of its data matters but how a text becomes tokens. */
static enum status forget_data(struct os *os, struct settings *s, struct arena *perm,
                               struct err *err)
{
    struct model_config c    = s->model;
    struct data_config *data = &s->data;
    enum status         st   = STATUS_OK;
    data->rows_only          = true;
    if (str_eq(c.kind, STR("hf"))) st = hf_settings(os, &c, perm, err);
    if (!st && str_eq(c.kind, STR("hf")) && !hf_is_encoder(&c))
        st = err_set(err, STATUS_USAGE, "%.*s predicts tokens, not classes: use `frugal generate`",
                     STR_ARG(c.path));
    if (st || !c.classes || !hf_is_encoder(&c)) return st;
    data->kind = STR("csv");
    data->path = data->eval_path = STR("");
    if (!data->text.len) data->text = STR("text");
    if (!data->label.len) data->label = STR("label");
    return STATUS_OK;
}

enum status use_open(struct os *os, const struct settings *settings, enum use_kind kind,
                     struct use **out, struct err *err)
{
    enum status st = use_new(os, settings, out, err);
    struct use *u  = *out;
    if (st) return st;
    u->settings.model.ask = kind == USE_EVALUATE ? ASK_LOSS : ASK_LOGITS;
    st                    = need_weights(&u->settings, err);
    if (!st && kind == USE_ROWS) st = forget_data(os, &u->settings, &u->perm, err);
    if (!st) st = session_open(&u->s, os, &u->settings, &u->perm, err);
    return st ? st : session_start(&u->s, err);
}

void use_close(struct use *u)
{
    struct arena perm;
    if (!u) return;
    perm = u->perm;
    if (session_close(&u->s)) arena_close(&perm);
}

struct str use_class_name(const struct use *u, i64 class)
{
    const struct str *names;
    return class < dataset_class_names(u->s.data, &names) ? names[class] : STR("");
}

enum status use_evaluate(struct use *u, struct train_eval *out, struct err *err)
{
    *out = (struct train_eval){ 0 };
    return evaluate(&u->s, out, err);
}

/* --- the next token --- */

/* What a model of ours has learned is in its weights: the size of its vocabulary, and of its positions. */
static enum status look_at_weights(struct os *os, struct settings *s, struct arena scratch,
                                   struct err *err)
{
    struct st_parts        f;
    const struct st_whole *wte, *wpe;
    struct arena           names = arena_part(&scratch, NAMES_BYTES);
    enum status            st    = st_parts_open(os, s->train.init, &names, &f, err);
    if (st) return st;
    wte = st_parts_find(&f, STR("wte.weight"));
    wpe = st_parts_find(&f, STR("wpe.weight"));
    if (!wte || wte->shape.rank != 2)
        st = err_set(err, STATUS_USAGE, "%.*s has no tensor wte.weight: it is not of a gpt",
                     STR_ARG(s->train.init));
    if (!st) s->model.vocabulary = wte->shape.dim[0];
    if (!st) s->model.places = wpe && wpe->shape.rank == 2 ? wpe->shape.dim[0] : 0;
    if (!st && !s->model.places) s->model.context = s->data.context;
    st_parts_close(os, &f);
    return st;
}

/* The same of a run that goes on. */
static enum status look_at_run(const struct session *now, struct settings *s, struct err *err)
{
    const struct persistent *wte = program_set_find(now->set, STR("wte.weight"));
    const struct persistent *wpe = program_set_find(now->set, STR("wpe.weight"));
    if (!wte || wte->type.shape.rank != 2)
        return err_set(err, STATUS_USAGE, "the run's model has no tensor wte.weight");
    s->model.vocabulary = wte->type.shape.dim[0];
    s->model.places     = wpe && wpe->type.shape.rank == 2 ? wpe->type.shape.dim[0] : 0;
    if (!s->model.places) s->model.context = s->data.context;
    return STATUS_OK;
}

/* Beside a run there may be no room on its GPU. */
static void on_the_processor(const struct session *now, struct train_config *t)
{
    if (!now->backend->table->behind) return;
    t->device    = STR("cpu");
    t->precision = STR("fp32");
    t->fp8       = STR("");
}

static struct feed feed_of(struct str name, i32 rank, i64 count, i64 range)
{
    return (struct feed){ name, { DT_I32, { .rank = rank, .dim = { count } } }, range };
}

static struct feeds next_feeds(i64 length, i64 vocabulary)
{
    struct feeds feeds = { .count = 3 };
    feeds.feed[0]      = feed_of(STR("x"), 1, length, vocabulary);
    feeds.feed[1]      = feed_of(STR("y"), 1, length, vocabulary);
    feeds.feed[2]      = feed_of(STR("at"), 0, 0, length);
    return feeds;
}

/* train.precision=auto: a GPU keeps matrices in bf16, as train does its products, and reads half the bytes for a token;
 * on the processor casts of all weights would take longer than one row of products. */
static void precision_to_continue(struct session *s, const struct settings *settings)
{
    bool asked = !str_eq(settings->train.precision, STR("auto"));
    bool low   = s->config.precision == DT_BF16 && s->backend->table->behind;
    if (asked || low || s->precision.dtype == DT_F64) return;
    s->precision        = (struct precision){ .dtype = DT_F32 };
    s->config.precision = DT_F32;
}

static enum status open_next(struct use *u, struct os *os, const struct use_next_config *config,
                             struct arena *perm, struct err *err)
{
    struct settings *s    = &u->settings;
    struct model    *m    = NULL;
    i64              most = s->model.places ? s->model.places : s->model.context;
    if (config->now) on_the_processor(config->now, &s->train);
    s->train.batch = 0;
    enum status st = session_device(&u->s, os, s, perm, err);
    if (st) return st;
    precision_to_continue(&u->s, s);
    u->s.of          = config->now;
    bool cached      = config->cache != USE_CACHE_OFF;
    u->length        = config->length ? MIN(config->length, most) : most;
    u->vocabulary    = s->model.vocabulary;
    u->sequences     = MAX(config->sequences, 1);
    u->seen          = NEW(perm, i64, u->sequences);
    u->rows          = cached ? ROWS_AT_ONCE : 0;
    i64 most_rows    = MAX(u->rows, u->sequences);
    u->last_sequence = NEW(perm, i32, most_rows);
    u->last_at       = NEW(perm, i32, u->sequences);
    u->numbers       = NEW(perm, f64, u->sequences * u->vocabulary);
    memset(u->last_sequence, 0x80, (size_t)most_rows * sizeof(i32)); /* no number that is put */
    memset(u->last_at, 0x80, (size_t)u->sequences * sizeof(i32));
    struct feeds feeds          = next_feeds(u->length, u->vocabulary);
    s->model.ask                = ASK_NEXT;
    s->model.lora               = s->train.lora;
    s->model.cached             = cached ? u->sequences : 0;
    u->s.config.eval_batch      = cached ? u->rows : 1;
    u->s.config.eval_batch_last = cached ? u->sequences : 0;
    st                          = model_new(perm, &s->model, &feeds, &m, err);
    if (!st) st = session_compile(&u->s, model_build, m, err);
    u->s.model = m;
    if (!st && !config->now) st = weights_check(&u->s, err);
    return st ? st : session_start(&u->s, err);
}

enum status use_open_next(struct os *os, const struct settings *settings,
                          const struct use_next_config *config, struct use **out, struct err *err)
{
    bool        theirs = str_eq(settings->model.kind, STR("hf"));
    enum status st     = use_new(os, settings, out, err);
    struct use *u      = *out;
    if (!st && !config->now) st = need_weights(settings, err);
    if (!st && !theirs && !str_eq(settings->model.kind, STR("gpt")))
        st = err_set(err, STATUS_USAGE, "a model of kind %.*s does not predict tokens",
                     STR_ARG(settings->model.kind));
    if (!st && theirs) st = hf_settings(os, &u->settings.model, &u->perm, err);
    if (!st && hf_is_encoder(&u->settings.model))
        st = err_set(err, STATUS_USAGE, "%.*s predicts classes, not tokens: use `frugal predict`",
                     STR_ARG(settings->model.path));
    if (!st && !theirs)
        st = config->now ? look_at_run(config->now, &u->settings, err)
                         : look_at_weights(os, &u->settings, u->perm, err);
    return st ? st : open_next(u, os, config, &u->perm, err);
}

bool use_must_stop(struct use *u) { return session_check_signal(&u->s, 0, NULL) != STATUS_OK; }

const struct settings *use_run_settings(const struct session *now) { return now->settings; }
struct os             *use_run_os(const struct session *now) { return now->os; }

struct train_loaded use_loaded(const struct use *u) { return u->s.loaded; }

i64  use_length(const struct use *u) { return u->length; }
i64  use_vocabulary(const struct use *u) { return u->vocabulary; }
i64  use_sequences(const struct use *u) { return u->sequences; }
void use_forget(struct use *u, i64 index) { u->seen[index] = 0; }
