/* plan_ask.c - what is to be trained: a run file, a config.json or a model's name, as a workload. */
#include "cli/jobs.h"
#include "cli/plan.h"
#include "plan/known.h"
#include "plan/scaling.h"
#include "train/train.h"
#include <math.h>

enum { SHALLOW = 2, DEEPER = 4 };

static const f64 batch_tokens =
    524288;                       /* of a step of a known model, unless --batch says another */
static const i64 batch_auto = 64; /* samples, where train.batch=auto leaves it open */

enum status plan_number(const struct request *r, i32 flag, f64 scale, f64 *out, struct err *err)
{
    struct str text = r->value[flag];
    *out            = NAN;
    if (!(r->flags & (u64)1 << flag)) return STATUS_OK;
    if (str_ends(text, STR("h"))) text.len--;
    if (str_starts(text, STR("$"))) text = str_sub(text, 1, text.len);
    if (str_f64(text, out) && *out > 0) {
        *out *= scale;
        return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE, "--%.*s=%.*s is not a number above 0",
                   STR_ARG(flags[flag].name), (int)MIN(r->value[flag].len, 40),
                   r->value[flag].data);
}

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
static enum status scale_settings(struct model_config *m, const struct question *q, struct err *err)
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

/* Flags that a known model needs and a run file has settings for. */
static enum status refuse_flags(const struct request *r, struct err *err)
{
    static const struct {
        u64         flag;
        const char *name, *instead;
    } rows[] = { { FLAG_batch, "--batch", "train.batch" },
                 { FLAG_tokens, "--tokens", "train.steps or train.epochs" },
                 { FLAG_target, "--target", "train.steps or train.epochs" },
                 { FLAG_context, "--context", "data.context" } };
    for (i64 i = 0; i < COUNT_OF(rows); i++)
        if (r->flags & rows[i].flag)
            return err_set(err, STATUS_USAGE, "%s is for known models; a run file says it with %s",
                           rows[i].name, rows[i].instead);
    return STATUS_OK;
}

static enum status read_run(struct cli *c, struct question *q, struct config **out,
                            struct train_outline *o, struct err *err)
{
    enum status st = refuse_flags(c->request, err);
    if (!st) st = config_of_request(c->request, c->os, c->perm, out, err);
    if (!st && c->request->flags & FLAG_freeze)
        (*out)->settings.train.freeze = c->request->value[FLAG_INDEX_freeze];
    if (!st) st = plan_given(c, *out, &q->limits.given, err);
    if (!st) st = scale_settings(&(*out)->settings.model, q, err);
    if (!st) st = train_outline(c->os, &(*out)->settings, c->perm, o, err);
    return st;
}

static enum status job_of_run(struct cli *c, struct question *q, struct err *err)
{
    struct config       *config;
    struct train_outline o;
    enum status          st = read_run(c, q, &config, &o, err);
    if (st) return st;
    struct other_batches *others = NEW(c->perm, struct other_batches, 1);
    *others = (struct other_batches){ &config->settings.train, o.train_samples, o.eval_samples };
    q->usd_hour = config->settings.train.usd_hour;
    q->ours     = true;
    q->run_file = c->request->arguments[0];
    q->settings = settings_changed(config, c->perm);
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
        note(q, str_fmt(c->perm,
                        "train.batch=auto: assuming %lld samples per step; "
                        "set train.batch to change it",
                        (long long)batch_auto));
    if (config->settings.train.target == config->settings.train.target)
        note(q, STR("the target may be reached before the last step: the whole run is priced"));
    if (o.steps) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "the run has no end: set train.steps or train.epochs");
}

/* ---- a known model ---- */

static void scale_known(struct known *k, const struct question *q)
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
static enum status check_freeze(const struct question *q, struct arena scratch, struct err *err)
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
static enum status shallow(struct cli *c, struct question *q, const struct known *k, i64 context,
                           struct err *err)
{
    struct model *a, *b;
    struct str    differs;
    enum status   st = known_model_new(k, SHALLOW, context, c->perm, &a, &differs, err);
    if (!st) st = known_model_new(k, DEEPER, context, c->perm, &b, &differs, err);
    if (st) return st;
    if (differs.len) note(q, str_cat(c->perm, STR("priced as a model that differs: "), differs));
    q->stand_in                = differs.len > 0;
    q->parameters_used         = known_parameters_used(k);
    q->workload.parameters     = known_parameters(k);
    q->workload.attention_part = known_attention_part(k);
    q->workload.build          = model_build;
    q->workload.context        = a;
    q->workload.deeper         = b;
    q->workload.depth[0]       = SHALLOW;
    q->workload.depth[1]       = DEEPER;
    q->workload.depth[2]       = k->depth;
    return check_freeze(q, *c->perm, err);
}

/* Tokens as given, or as a loss asks for, or as many as are best for this size. */
static enum status tokens_of(struct cli *c, struct question *q, const struct known *k, f64 *tokens,
                             struct err *err)
{
    struct law  law = law_at(0);
    f64         n   = known_parameters_used(k), target;
    enum status st  = plan_number(c->request, FLAG_INDEX_tokens, 1, tokens, err);
    if (!st) st = plan_number(c->request, FLAG_INDEX_target, 1, &target, err);
    if (st || !isnan(*tokens)) return st;
    if (!isnan(target)) {
        f64 rest = target - law.e - law.a / pow(n, law.alpha);
        if (!(rest > 0))
            return err_set(
                err, STATUS_NO,
                "--target=%g is below %.3g, which %.*s reaches with infinitely many tokens "
                "by the law of %.*s",
                target, law.e + law.a / pow(n, law.alpha), STR_ARG(k->name), STR_ARG(law.name));
        *tokens = pow(law.b / rest, 1 / law.beta);
        note(q,
             str_fmt(c->perm,
                     "%.3g tokens for a loss of %g by the law of %.*s, on its text and tokenizer",
                     *tokens, target, STR_ARG(law.name)));
        return STATUS_OK;
    }
    /* N = k (6 N D)^a turned round. */
    *tokens = pow(n / law.line_k, 1 / law.line_a) / (6 * n);
    note(q, str_fmt(c->perm,
                    "assuming %.3g tokens, the best for this size by the law of %.*s; "
                    "--tokens changes it",
                    *tokens, STR_ARG(law.name)));
    return STATUS_OK;
}

/* Of a sequence: as given, or as the model's config has it. */
static enum status context_of(struct cli *c, struct question *q, struct known *k, struct err *err)
{
    f64         given;
    enum status st = plan_number(c->request, FLAG_INDEX_context, 1, &given, err);
    if (st) return st;
    if (isnan(given)) {
        note(q,
             str_fmt(
                 c->perm,
                 "sequences of %.*s tokens, as the model's config has them; --context changes it",
                 STR_ARG(text_count(c->perm, (f64)k->context))));
        return STATUS_OK;
    }
    if (given != floor(given) || given > (1 << 24))
        return err_set(err, STATUS_USAGE, "--context takes a whole number of tokens");
    if (k->positions && given > (f64)k->positions)
        return err_set(err, STATUS_USAGE,
                       "--context %.0f: %.*s has learned positions for %lld tokens only", given,
                       STR_ARG(k->name), (long long)k->positions);
    k->context = (i64)given;
    if (k->window >= k->context) k->window = 0;
    return STATUS_OK;
}

/* Samples of a step: from train.batch, from --batch in tokens, or a power of two that GPUs can share. */
static enum status samples_of(struct cli *c, struct question *q, const struct known *k, i64 given,
                              i64 *out, struct err *err)
{
    f64         tokens, context = (f64)k->context;
    enum status st = plan_number(c->request, FLAG_INDEX_batch, 1, &tokens, err);
    *out           = given;
    if (st || given) return st;
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
    note(q, str_fmt(c->perm, "assuming %.*s tokens per step; --batch changes it",
                    STR_ARG(text_count(c->perm, (f64)*out * context))));
    return STATUS_OK;
}

static enum status job_of_known(struct cli *c, struct question *q, const struct known *whole,
                                struct err *err)
{
    f64                   tokens = NAN;
    i64                   samples;
    struct known         *k = NEW(c->perm, struct known, 1);
    struct known_settings s;
    *k             = *whole;
    enum status st = plan_known_settings(c, q, &s, err);
    if (!st && !s.steps) st = tokens_of(c, q, k, &tokens, err); /* of the whole model */
    scale_known(k, q);
    if (!st) st = context_of(c, q, k, err);
    if (!st) st = samples_of(c, q, k, s.batch, &samples, err);
    if (st) return st;
    q->workload = (struct plan_workload){
        .name = k->name, .config = s.config, .batch_total = samples, .tokens = k->context
    };
    q->workload.steps = s.steps ? s.steps : (i64)ceil(tokens / (f64)(samples * k->context));
    return shallow(c, q, k, k->context, err);
}

/* A run file, a config.json, or a name. */
enum status plan_ask(struct cli *c, struct question *q, struct err *err)
{
    const struct request *r = c->request;
    struct str            what, text;
    struct known          read;
    q->usd_hour = NAN;
    q->ledger   = c->os->env(c->os, "FRUGAL_RUN_LEDGER");
    if (!r->argument_count)
        return err_set(err, STATUS_USAGE,
                       "what to plan? Give a run file, a config.json or the name of a model "
                       "(`frugal plan --models`)");
    what = r->arguments[0];
    if (str_ends(what, STR(".json"))) {
        enum status st = os_read_all(c->os, what, c->perm, &text, err);
        if (!st) st = known_read(what, text, c->perm, &read, err);
        return st ? st : job_of_known(c, q, &read, err);
    }
    bool                yaml = str_ends(what, STR(".yaml")) || str_ends(what, STR(".yml"));
    const struct known *k    = yaml ? NULL : known_find(what);
    if (k) return job_of_known(c, q, k, err);
    struct arena scratch = *c->perm;
    if (!yaml && os_read_all(c->os, what, &scratch, &text, NULL)) return plan_unknown(c, what, err);
    return job_of_run(c, q, err);
}
