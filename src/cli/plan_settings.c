/* plan_settings.c - settings and flags of a plan: which are obeyed, which contradict each other, and that what
 * would be ignored is refused. */
#include "cli/plan.h"
#include "train/train.h"
#include <math.h>

/* ---- settings that the search obeys ---- */

static bool was_given(const struct config *c, const char *key)
{
    const struct option *o = option_find(str_of(key));
    return c->origin[o - options].kind == ORIGIN_COMMAND_LINE;
}

static enum status given_precision(struct str word, struct plan_given *out, struct err *err)
{
    static const struct {
        const char *word;
        enum dtype  dtype;
    } words[] = { { "fp32", DT_F32 }, { "bf16", DT_BF16 }, { "fp16", DT_F16 } };
    if (str_eq(word, STR("auto"))) return STATUS_OK;
    for (i64 i = 0; i < COUNT_OF(words); i++) {
        if (!str_eq(word, str_of(words[i].word))) continue;
        out->has_precision = true;
        out->precision     = words[i].dtype;
        return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE, "`frugal plan` cannot use train.precision=%.*s",
                   STR_ARG(word));
}

static enum status given_recompute(struct str word, struct plan_given *out, struct err *err)
{
    static const struct {
        const char         *word;
        enum recompute_kind kind;
    } words[] = { { "none", RECOMPUTE_NONE }, { "all", RECOMPUTE_ALL }, { "2", RECOMPUTE_EVERY } };
    if (str_eq(word, STR("auto"))) return STATUS_OK;
    for (i64 i = 0; i < COUNT_OF(words); i++) {
        if (!str_eq(word, str_of(words[i].word))) continue;
        out->has_recompute = true;
        out->recompute     = words[i].kind;
        return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE,
                   "`frugal plan` cannot use train.recompute=%.*s; it prices none, 2 and all",
                   STR_ARG(word));
}

/* On the command line; what the run file says of these is the plan's to choose. */
enum status plan_given(struct cli *c, const struct config *config, struct plan_given *out,
                       struct err *err)
{
    const struct train_config *t  = &config->settings.train;
    enum status                st = STATUS_OK;
    f64                        gpus;
    if (c->request->flags & FLAG_spot) out->markets = 1u << PRICE_SPOT;
    if (c->request->flags & FLAG_on_demand) out->markets = 1u << PRICE_ON_DEMAND;
    st = plan_number(c->request, FLAG_INDEX_gpus, 1, &gpus, err);
    if (!st && !isnan(gpus)) {
        if (gpus != floor(gpus) || gpus > PLAN_GPUS_MAX)
            return err_set(err, STATUS_USAGE, "--gpus takes a whole number from 1 to %d",
                           PLAN_GPUS_MAX);
        out->gpus = (i64)gpus;
    }
    if (!st && was_given(config, "train.precision")) st = given_precision(t->precision, out, err);
    if (!st && was_given(config, "train.recompute")) st = given_recompute(t->recompute, out, err);
    if (!st && was_given(config, "train.micro_batch")) out->micro = t->micro_batch;
    return st;
}

/* ---- settings of a known model ---- */

static const char *const known_keys[] = { "train.batch",     "train.steps",       "train.optimiser",
                                          "train.decay",     "train.eps",         "train.clip",
                                          "train.nesterov",  "train.freeze",      "train.precision",
                                          "train.recompute", "train.micro_batch", "run.ledger" };

static enum status refuse_others(const struct config *config, struct str model, struct err *err)
{
    for (i64 o = 0; o < OPTION_COUNT; o++) {
        i64 i = 0;
        if (config->origin[o].kind != ORIGIN_COMMAND_LINE) continue;
        while (i < COUNT_OF(known_keys) && !str_eq(options[o].key, str_of(known_keys[i]))) i++;
        if (i == COUNT_OF(known_keys))
            return err_set(
                err, STATUS_USAGE,
                "%.*s does not change what a plan of %.*s costs: leave it out, or plan a "
                "run file",
                STR_ARG(options[o].key), (int)MIN(model.len, 60), model.data);
    }
    return STATUS_OK;
}

static enum status optimiser_named(struct str name, enum optimiser_kind *out, struct err *err)
{
    *out = optimiser_of(name);
    if (!str_eq(name, STR("auto"))) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.optimiser=%.*s is chosen in training; a plan of a known model needs sgd, "
                   "adam, adamw or muon",
                   STR_ARG(name));
}

/* AdamW as such models are trained with it (GPT-3, Llama), but for what was given. */
enum status plan_known_settings(struct cli *c, struct question *q, struct known_settings *out,
                                struct err *err)
{
    const struct request *r      = c->request;
    struct config        *config = config_new(c->perm);
    struct train_config  *t      = &config->settings.train;
    t->optimiser                 = STR("adamw");
    t->decay                     = 0.1;
    t->clip                      = 1;
    t->batch                     = 0;
    enum status st               = STATUS_OK;
    for (i64 i = 1; !st && i < r->argument_count; i++)
        st = config_add_override(config, c->perm, r->arguments[i], err);
    if (!st) st = refuse_others(config, r->arguments[0], err);
    *out = (struct known_settings){ .config = { .eps      = t->eps,
                                                .decay    = t->decay,
                                                .clip     = t->clip,
                                                .nesterov = t->nesterov,
                                                .freeze   = t->freeze,
                                                .fuse     = FUSE_ALL },
                                    .batch  = t->batch,
                                    .steps  = t->steps };
    if (r->flags & FLAG_freeze) out->config.freeze = r->value[FLAG_INDEX_freeze];
    if (!st) st = optimiser_named(t->optimiser, &out->config.optimiser, err);
    if (!st) st = plan_given(c, config, &q->limits.given, err);
    if (config->settings.run.ledger.len) q->ledger = config->settings.run.ledger;
    return st;
}

/* ---- flags ---- */

static bool has_setting(const struct request *r, const char *key)
{
    struct str prefix = str_of(key);
    for (i64 i = 1; i < r->argument_count; i++)
        if (str_starts(r->arguments[i], prefix) && r->arguments[i].len > prefix.len &&
            r->arguments[i].data[prefix.len] == '=')
            return true;
    return false;
}

static enum status both(struct err *err, const char *a, const char *b)
{
    return err_set(err, STATUS_USAGE, "%s and %s contradict each other: give one of them", a, b);
}

enum status plan_flags(const struct request *r, struct err *err)
{
    static const struct {
        u64         one, other;
        const char *a, *b;
    } pairs[] = { { FLAG_spot, FLAG_on_demand, "--spot", "--on-demand" },
                  { FLAG_tokens, FLAG_target, "--tokens", "--target" } };
    static const struct {
        u64         flag;
        const char *name, *key;
    } settings[] = { { FLAG_batch, "--batch", "train.batch" },
                     { FLAG_tokens, "--tokens", "train.steps" },
                     { FLAG_target, "--target", "train.steps" },
                     { FLAG_freeze, "--freeze", "train.freeze" } };
    for (i64 i = 0; i < COUNT_OF(pairs); i++)
        if (r->flags & pairs[i].one && r->flags & pairs[i].other)
            return both(err, pairs[i].a, pairs[i].b);
    for (i64 i = 0; i < COUNT_OF(settings); i++)
        if (r->flags & settings[i].flag && has_setting(r, settings[i].key))
            return both(err, settings[i].name, settings[i].key);
    for (i64 alone = FLAG_INDEX_calibrate;; alone = FLAG_INDEX_models) {
        u64 flag = (u64)1 << alone;
        if (r->flags & flag && (r->argument_count || r->flags & ~(flag | FLAG_json)))
            return err_set(err, STATUS_USAGE, "--%.*s stands alone: nothing else is used with it",
                           STR_ARG(flags[alone].name));
        if (alone == FLAG_INDEX_models) return STATUS_OK;
    }
}
