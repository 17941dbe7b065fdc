/* plan_ask.c - what is to be trained: a run file, a config.json or a model's name, as a workload. */
#include "base/quantity.h"
#include "job/plan_question.h"
#include "plan/known.h"
#include "plan/scaling.h"
#include "train/train.h"
#include <math.h>

enum { SHALLOW = 2, DEEPER = 4 };

static const f64 batch_tokens =
    524288;                       /* of a step of a known model, unless --batch says another */
static const i64 batch_auto = 64; /* samples, where train.batch=auto leaves it open */

static i64 part_of(i64 whole, f64 part, i64 unit)
{
    return MAX(1, (i64)((f64)whole * part / (f64)unit + 0.5)) * unit;
}

/* As many key heads as fit the heads, at most their part. */
static i64 divisor_below(i64 heads, i64 most)
{
    i64 n = MAX(MIN(most, heads), 1);
    while (heads % n) n--;
    return n;
}

/* ---- a run file ---- */

/* Heads keep their width, so there are fewer of them. */
static enum status scale_settings(struct model_config *m, const struct plan_question *q,
                                  struct err *err)
{
    if (q->depth_part == 1 && q->width_part == 1) return STATUS_OK;
    if (!str_eq(m->kind, STR("gpt")) && !str_eq(m->kind, STR("encoder")))
        return err_set(err, STATUS_USAGE,
                       "--scale_model needs a model with blocks: gpt or encoder");
    i64 head    = m->width / MAX(m->heads, 1);
    m->depth    = part_of(m->depth, q->depth_part, 1);
    m->heads    = part_of(m->heads, q->width_part, 1);
    m->width    = m->heads * head;
    m->kv_heads = m->kv_heads ? divisor_below(m->heads, m->kv_heads) : 0;
    if (m->hidden) m->hidden = part_of(m->hidden, q->width_part, 8);
    return STATUS_OK;
}

struct other_batches {
    const struct train_config *train;
    i64                        train_samples, eval_samples;
};

static void other_batches(const void *context, struct compile_config *config)
{
    const struct other_batches *o = context;
    train_batches(o->train, o->train_samples, o->eval_samples, config);
}

/* What a known model needs and a run file has settings for. */
static enum status refuse_flags(const struct plan_request *r, struct err *err)
{
    const struct {
        bool        given;
        const char *name, *instead;
    } rows[] = { { !isnan(r->batch_tokens), "--batch", "train.batch" },
                 { !isnan(r->tokens), "--tokens", "train.steps or train.epochs" },
                 { r->context, "--context", "data.context" } };
    for (i64 i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].given)
            return err_set(err, STATUS_USAGE, "%s is for known models; for a run file, set %s",
                           rows[i].name, rows[i].instead);
    if (isnan(r->target)) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "--target is for known models; a run file is priced for all of its train.steps "
                   "or train.epochs");
}

static enum status read_run(struct plan_question *q, struct config **out, struct train_outline *o,
                            struct err *err)
{
    const struct plan_request *r  = q->request;
    enum status                st = refuse_flags(r, err);
    if (!st)
        st = config_read(q->os, q->perm, r->command, r->what, r->settings, r->setting_count, out,
                         err);
    if (!st && r->freeze.len) (*out)->settings.train.freeze = r->freeze;
    if (!st && r->lora) (*out)->settings.train.lora.rank = r->lora;
    if (!st) st = plan_given(r, *out, &q->limits.given, err);
    if (!st) st = scale_settings(&(*out)->settings.model, q, err);
    if (!st) st = train_outline(q->os, &(*out)->settings, q->perm, o, err);
    return st;
}

/* Settings that change what a step costs, and that no row is compiled with. */
static void note_unpriced(struct plan_question *q, const struct train_config *t)
{
    if (!str_eq(t->fp8, STR("off")))
        plan_note(&q->notes, STR("train.fp8 is not priced: products in bf16, as without it"));
}

static enum status job_of_run(struct plan_question *q, struct err *err)
{
    struct config       *config;
    struct train_outline o;
    enum status          st = read_run(q, &config, &o, err);
    if (st) return st;
    struct other_batches *others = NEW(q->perm, struct other_batches, 1);
    *others = (struct other_batches){ &config->settings.train, o.train_samples, o.eval_samples };
    q->usd_hour = config->settings.train.usd_hour;
    q->ours     = true;
    q->run_file = q->request->what;
    q->settings = settings_changed(config, q->perm);
    q->ledger   = config->settings.run.ledger;
    i64 every =
        config->settings.train.eval_every ? config->settings.train.eval_every : o.epoch_steps;
    q->workload = (struct plan_workload){ .name        = q->run_file,
                                          .config      = o.config,
                                          .build       = model_build,
                                          .context     = o.model,
                                          .batch_total = o.batch_total ? o.batch_total : batch_auto,
                                          .steps       = o.steps,
                                          .eval_samples   = o.eval_samples,
                                          .evals          = o.steps / MAX(every, 1),
                                          .tokens         = o.tokens,
                                          .others         = other_batches,
                                          .others_context = others };
    if (!o.batch_total)
        plan_note(&q->notes, str_fmt(q->perm,
                                     "train.batch=auto: assuming %lld samples per step; "
                                     "set train.batch to change it",
                                     (long long)batch_auto));
    note_unpriced(q, &config->settings.train);
    if (config->settings.train.target == config->settings.train.target)
        plan_note(&q->notes,
                  STR("the target may be reached before the last step: the whole run is priced"));
    if (o.steps) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "the run has no end: set train.steps or train.epochs");
}

/* ---- a known model ---- */

static void scale_known(struct known *k, const struct plan_question *q)
{
    if (q->depth_part == 1 && q->width_part == 1) return;
    k->depth        = part_of(k->depth, q->depth_part, 1);
    k->heads        = part_of(k->heads, q->width_part, 1);
    k->width        = part_of(k->width, q->width_part, k->head_dim);
    k->hidden       = part_of(k->hidden, q->width_part, 8);
    k->kv_heads     = divisor_below(k->heads, part_of(k->kv_heads, q->width_part, 1));
    k->dense_blocks = MIN(k->dense_blocks, k->depth);
    if (k->expert_hidden) k->expert_hidden = part_of(k->expert_hidden, q->width_part, 8);
    if (k->shared_hidden) k->shared_hidden = part_of(k->shared_hidden, q->width_part, 8);
}

/* The two shallow models stand for the deep one only where a pattern treats all blocks alike. */
static enum status check_freeze(const struct plan_question *q, struct arena scratch,
                                struct err *err)
{
    struct str    glob = q->workload.config.freeze;
    struct graph *g    = graph_new(&scratch, STR("freeze"));
    enum status   st   = STATUS_OK;
    if (!glob.len) return STATUS_OK;
    st = model_build(q->workload.context, g, 1, MODE_TRAIN, err);
    for (i32 i = 0; !st && i < g->value_count; i++) {
        struct str name = g->values[i].name;
        if (g->values[i].kind != VALUE_PARAM || !str_starts(name, STR("h.0."))) continue;
        for (i64 block = 1; block < q->workload.depth[2]; block++) {
            struct arena here  = scratch;
            struct str   other = str_fmt(&here, "h.%lld.%.*s", (long long)block,
                                         STR_ARG(str_sub(name, 4, name.len)));
            if (str_glob(glob, other) != str_glob(glob, name))
                return err_set(
                    err, STATUS_USAGE,
                    "freeze=%.*s freezes some blocks and not others, which `frugal plan` "
                    "prices for run files only; for a known model write h.*.attn.* or the like",
                    STR_ARG(glob));
        }
    }
    return st;
}

/* A model of a shape, twice, shallow: the deep one follows from the two. */
static enum status shallow(struct plan_question *q, const struct known *k, i64 context,
                           const struct lora_config *lora, struct err *err)
{
    struct model *a, *b;
    struct str    differs;
    enum status   st = known_model_new(k, SHALLOW, context, lora, q->perm, &a, &differs, err);
    if (!st) st = known_model_new(k, DEEPER, context, lora, q->perm, &b, &differs, err);
    if (st) return st;
    if (differs.len)
        plan_note(&q->notes, str_cat(q->perm, STR("priced as a model that differs: "), differs));
    q->stand_in        = differs.len > 0;
    q->parameters_used = known_parameters_used(k);
    /* Adapters come on top of the model's own: where it is the same model, they are counted already. */
    q->workload.parameters     = lora->rank && !differs.len ? 0 : known_parameters(k);
    q->workload.attention_part = known_attention_part(k);
    q->workload.build          = model_build;
    q->workload.context        = a;
    q->workload.deeper         = b;
    q->workload.depth[0]       = SHALLOW;
    q->workload.depth[1]       = DEEPER;
    q->workload.depth[2]       = k->depth;
    return check_freeze(q, *q->perm, err);
}

/* Tokens as given, or as a loss asks for, or as many as are best for this size. */
static enum status tokens_of(struct plan_question *q, const struct known *k, f64 *tokens,
                             struct err *err)
{
    struct law law = law_at(0);
    f64        n = known_parameters_used(k), target = q->request->target;
    *tokens = q->request->tokens;
    if (!isnan(*tokens)) return STATUS_OK;
    if (!isnan(target)) {
        f64 rest = target - law.e - law.a / pow(n, law.alpha);
        if (!(rest > 0))
            return err_set(
                err, STATUS_NO,
                "--target=%g is below %.3g, which %.*s reaches with infinitely many tokens "
                "by the law of %.*s",
                target, law.e + law.a / pow(n, law.alpha), STR_ARG(k->name), STR_ARG(law.name));
        *tokens = pow(law.b / rest, 1 / law.beta);
        if (*tokens > PLAN_TOKENS_MAX)
            return err_set(err, STATUS_NO,
                           "--target=%g needs %.3g tokens by the law of %.*s, and %g are the most "
                           "that is planned",
                           target, *tokens, STR_ARG(law.name), PLAN_TOKENS_MAX);
        plan_note(
            &q->notes,
            str_fmt(q->perm,
                    "%.3g tokens for a loss of %g by the law of %.*s, on its text and tokenizer",
                    *tokens, target, STR_ARG(law.name)));
        return STATUS_OK;
    }
    /* N = k (6 N D)^a turned round. */
    *tokens = pow(n / law.line_k, 1 / law.line_a) / (6 * n);
    plan_note(&q->notes, str_fmt(q->perm,
                                 "assuming %.3g tokens, the best for this size by the law of %.*s; "
                                 "--tokens changes it",
                                 *tokens, STR_ARG(law.name)));
    return STATUS_OK;
}

/* Of a sequence: as given, or as the model's config has it. */
static enum status context_of(struct plan_question *q, struct known *k, struct err *err)
{
    i64 given = q->request->context;
    if (!given) {
        plan_note(
            &q->notes,
            str_fmt(
                q->perm,
                "sequences of %.*s tokens, as the model's config has them; --context changes it",
                STR_ARG(text_count(q->perm, (f64)k->context))));
        return STATUS_OK;
    }
    if (k->positions && given > k->positions)
        return err_set(err, STATUS_USAGE,
                       "--context %lld: %.*s has learned positions for %lld tokens only",
                       (long long)given, STR_ARG(k->name), (long long)k->positions);
    if (given > k->context)
        plan_note(
            &q->notes,
            str_fmt(q->perm,
                    "--context %.*s is longer than the %.*s tokens that this model is planned "
                    "with by default: it is priced; whether the model can use them is not checked",
                    STR_ARG(text_count(q->perm, (f64)given)),
                    STR_ARG(text_count(q->perm, (f64)k->context))));
    k->context = given;
    if (k->window >= k->context) k->window = 0;
    return STATUS_OK;
}

/* Samples of a step: from train.batch, from --batch in tokens, or a power of two that GPUs can share. */
static enum status samples_of(struct plan_question *q, const struct known *k, i64 given, i64 *out,
                              struct err *err)
{
    f64 tokens = q->request->batch_tokens, context = (f64)k->context;
    *out = given;
    if (given) return STATUS_OK;
    if (!isnan(tokens)) {
        f64 below = floor(tokens / context) * context;
        if (tokens < context)
            return err_set(err, STATUS_USAGE,
                           "--batch %.0f is less than one sequence of %.0f tokens; --context makes "
                           "sequences shorter",
                           tokens, context);
        if (below != tokens)
            return err_set(
                err, STATUS_USAGE,
                "--batch %.0f is not a whole number of sequences of %.0f tokens: take %.0f "
                "or %.0f",
                tokens, context, below, below + context);
        *out = (i64)(tokens / context);
        return STATUS_OK;
    }
    *out = 1;
    while ((f64)(2 * *out) * context <= batch_tokens) *out *= 2;
    plan_note(&q->notes, str_fmt(q->perm, "assuming %.*s tokens per step; --batch changes it",
                                 STR_ARG(text_count(q->perm, (f64)*out * context))));
    return STATUS_OK;
}

static enum status job_of_known(struct plan_question *q, const struct known *whole, struct err *err)
{
    f64                   tokens = NAN;
    i64                   samples;
    struct known         *k = NEW(q->perm, struct known, 1);
    struct known_settings s;
    *k             = *whole;
    enum status st = plan_known_settings(q, &s, err);
    if (!st && !s.steps) st = tokens_of(q, k, &tokens, err); /* of the whole model */
    scale_known(k, q);
    if (!st) st = context_of(q, k, err);
    if (!st) st = samples_of(q, k, s.batch, &samples, err);
    if (st) return st;
    q->workload = (struct plan_workload){
        .name = k->name, .config = s.config, .batch_total = samples, .tokens = k->context
    };
    q->workload.steps = s.steps ? s.steps : (i64)ceil(tokens / (f64)(samples * k->context));
    return shallow(q, k, k->context, &s.lora, err);
}

static enum status unknown(struct plan_question *q, struct str name, struct err *err)
{
    const struct known *best = known_nearest(name, *q->perm);
    q->unknown               = true;
    return err_set(
        err, STATUS_USAGE,
        "%.*s is neither a known model nor a file%s%.*s%s; give a run file, a config.json "
        "or one of the models above (`frugal plan --models`)",
        (int)MIN(name.len, 60), name.data, best ? " (did you mean " : "",
        best ? (int)best->name.len : 0, best ? best->name.data : "", best ? "?)" : "");
}

/* A run file, a config.json, or a name; empty: the settings alone are the run. */
enum status plan_ask(struct plan_question *q, struct err *err)
{
    struct str   what = q->request->what, text;
    struct known read;
    q->usd_hour = NAN;
    q->ledger   = q->os->env(q->os, "FRUGAL_RUN_LEDGER");
    if (str_ends(what, STR(".json"))) {
        enum status st = os_read_all(q->os, what, q->perm, &text, err);
        if (!st) st = known_read(what, text, q->perm, &read, err);
        return st ? st : job_of_known(q, &read, err);
    }
    if (!what.len) return job_of_run(q, err);
    bool                yaml = str_ends(what, STR(".yaml")) || str_ends(what, STR(".yml"));
    const struct known *k    = yaml ? NULL : known_find(what);
    if (k) return job_of_known(q, k, err);
    struct arena scratch = *q->perm;
    if (!yaml && os_read_all(q->os, what, &scratch, &text, NULL)) return unknown(q, what, err);
    return job_of_run(q, err);
}
