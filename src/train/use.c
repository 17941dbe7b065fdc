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
 * weights (bench/results/generate.md). A text of up to ROWS_STEPPED more tokens is read one by one, which is faster. */
enum { ROWS_AT_ONCE = 64, ROWS_STEPPED = 4 };

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
    if (!st && kind != USE_ROWS && !dataset_count(u->s.data, SPLIT_EVAL))
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

static void next_whole(struct use *u, const struct use_text *text, f64 *logits)
{
    i32 at = (i32)text->count - 1;
    session_put(&u->s, STR("x"), text->tokens, text->count * (i64)sizeof *text->tokens);
    session_put(&u->s, STR("at"), &at, sizeof at);
    u->s.backend->table->run(u->s.backend, u->s.set->programs[PROGRAM_EVAL]);
    session_get_numbers(&u->s, STR("logits"), logits, u->vocabulary);
}

struct new_rows { /* one token each */
    i32 *x, *sequence, *place;
    i32 *at; /* of each sequence: the row of its last token */
    i64  count, room;
};

static struct new_rows rows_new(struct arena *perm, i64 room, i64 sequences)
{
    struct new_rows r = { .room = room };
    r.x               = NEW(perm, i32, room);
    r.sequence        = NEW(perm, i32, room);
    r.place           = NEW(perm, i32, room);
    r.at              = NEW(perm, i32, sequences);
    return r;
}

/* Most steps differ from the one before in tokens and places alone. */
static void put_if_new(struct use *u, struct str name, i32 *last, const i32 *now, i64 count)
{
    if (!memcmp(last, now, (size_t)count * sizeof *now)) return;
    memcpy(last, now, (size_t)count * sizeof *now);
    session_put(&u->s, name, now, count * (i64)sizeof *now);
}

static void rows_run(struct use *u, enum program_id id, struct new_rows *r)
{
    for (i64 i = r->count; i < r->room; i++) r->x[i] = 0, r->sequence[i] = -1, r->place[i] = 0;
    session_put(&u->s, STR("x"), r->x, r->room * (i64)sizeof *r->x);
    session_put(&u->s, STR("place"), r->place, r->room * (i64)sizeof *r->x);
    put_if_new(u, STR("sequence"), u->last_sequence, r->sequence, r->room);
    put_if_new(u, STR("at"), u->last_at, r->at, u->sequences);
    u->s.backend->table->run(u->s.backend, u->s.set->programs[id]);
    r->count = 0;
}

/* As many tokens of the texts as there is room for, those of a text in their order. True: some text is complete. */
static bool rows_fill(struct use *u, const struct use_text *texts, i64 each, struct new_rows *r,
                      bool *complete)
{
    bool any = false;
    for (i64 i = 0; i < u->sequences; i++) {
        i64 left = texts[i].count - u->seen[i], take = MIN(MIN(left, each), r->room - r->count);
        complete[i] = left > 0 && take == left;
        any |= complete[i];
        for (i64 k = 0; k < take; k++, r->count++) {
            r->x[r->count]        = texts[i].tokens[u->seen[i]];
            r->place[r->count]    = (i32)u->seen[i]++;
            r->sequence[r->count] = (i32)i;
        }
        if (complete[i]) r->at[i] = (i32)r->count - 1;
    }
    return any;
}

/* The first of the largest; 0 where none is. Sixteen at a time: a processor compares as many at once. */
static i64 likeliest(const f32 *logits, i64 count)
{
    enum { LANES = 16 };
    f32 top[LANES], most = -INFINITY;
    i64 whole = count / LANES * LANES;
    for (i32 k = 0; k < LANES; k++) top[k] = -INFINITY;
    for (i64 i = 0; i < whole; i += LANES)
        for (i32 k = 0; k < LANES; k++) top[k] = logits[i + k] > top[k] ? logits[i + k] : top[k];
    for (i32 k = 0; k < LANES; k++) most = top[k] > most ? top[k] : most;
    for (i64 i = whole; i < count; i++) most = logits[i] > most ? logits[i] : most;
    for (i64 i = 0; i < count; i++)
        if (logits[i] >= most) return i;
    return 0;
}

static i64 likeliest_wide(const f64 *logits, i64 count)
{
    i64 best = 0;
    for (i64 i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

struct answers { /* of each sequence that is complete: one of the two */
    f64 *logits;
    i32 *tokens;
};

static void take_answers(struct use *u, const bool *complete, struct answers to,
                         struct arena scratch)
{
    i64  size = u->vocabulary, all = u->sequences * size;
    bool wide    = program_set_find(u->s.set, STR("logits"))->type.dtype == DT_F64;
    f64 *numbers = NEW(&scratch, f64, to.logits || wide ? all : all / 2 + 1);
    if (to.logits || wide) session_get_numbers(&u->s, STR("logits"), numbers, all);
    else session_get(&u->s, STR("logits"), numbers, all * (i64)sizeof(f32));
    for (i64 i = 0; i < u->sequences; i++) {
        if (!complete[i]) continue;
        if (to.logits) memcpy(to.logits + i * size, numbers + i * size, (size_t)size * sizeof(f64));
        else if (!wide)
            to.tokens[i] = (i32)likeliest((const f32 *)(const void *)numbers + i * size, size);
        else to.tokens[i] = (i32)likeliest_wide(numbers + i * size, size);
    }
}

static void next_cached(struct use *u, const struct use_text *texts, struct answers to)
{
    struct arena    scratch  = u->s.scratch;
    bool           *complete = NEW(&scratch, bool, u->sequences);
    struct new_rows one      = rows_new(&scratch, u->sequences, u->sequences);
    struct new_rows many     = rows_new(&scratch, u->rows, u->sequences);
    for (;;) {
        i64 most = 0;
        for (i64 i = 0; i < u->sequences; i++) most = MAX(most, texts[i].count - u->seen[i]);
        if (!most) return;
        bool             steps = most <= ROWS_STEPPED;
        struct new_rows *r     = steps ? &one : &many;
        bool             done  = rows_fill(u, texts, steps ? 1 : u->rows, r, complete);
        rows_run(u, steps ? PROGRAM_EVAL_LAST : PROGRAM_EVAL, r);
        if (done) take_answers(u, complete, to, scratch);
    }
}

static void check_texts(const struct use *u, const struct use_text *texts)
{
    for (i64 i = 0; i < u->sequences; i++)
        ASSERT(!texts[i].count || (texts[i].count > u->seen[i] && texts[i].count <= u->length));
}

void use_next(struct use *u, const struct use_text *texts, f64 *logits)
{
    check_texts(u, texts);
    if (u->rows) {
        next_cached(u, texts, (struct answers){ .logits = logits });
        return;
    }
    for (i64 i = 0; i < u->sequences; i++)
        if (texts[i].count) next_whole(u, &texts[i], logits + i * u->vocabulary);
}

void use_likeliest(struct use *u, const struct use_text *texts, i32 *tokens)
{
    struct arena scratch = u->s.scratch;
    check_texts(u, texts);
    if (u->rows) {
        next_cached(u, texts, (struct answers){ .tokens = tokens });
        return;
    }
    f64 *logits = NEW(&scratch, f64, u->vocabulary);
    for (i64 i = 0; i < u->sequences; i++) {
        if (!texts[i].count) continue;
        next_whole(u, &texts[i], logits);
        tokens[i] = (i32)likeliest_wide(logits, u->vocabulary);
    }
}
