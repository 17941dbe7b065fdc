/* plan_given.c - settings of a plan: which the search obeys, and that what would be ignored is refused. */
#include "job/plan_question.h"
#include "train/train.h"

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

static void given_sharding(const struct config *config, struct plan_given *out)
{
    const struct train_config *t = &config->settings.train;
    out->has_shard               = was_given(config, "train.shard");
    out->has_copies              = was_given(config, "train.shard_over");
    out->sharding = (struct sharding){ shard_of(t->shard), str_eq(t->shard_over, STR("machine")) };
}

/* On the command line; what the run file says of these is the plan's to choose. */
enum status plan_given(const struct plan_request *r, const struct config *config,
                       struct plan_given *out, struct err *err)
{
    const struct train_config *t  = &config->settings.train;
    enum status                st = STATUS_OK;
    if (r->spot) out->markets = 1u << PRICE_SPOT;
    if (r->on_demand) out->markets = 1u << PRICE_ON_DEMAND;
    if (r->gpus) out->gpus = r->gpus;
    if (was_given(config, "train.precision")) st = given_precision(t->precision, out, err);
    if (!st && was_given(config, "train.recompute")) st = given_recompute(t->recompute, out, err);
    if (!st) given_sharding(config, out);
    if (!st && was_given(config, "train.micro_batch")) out->micro = t->micro_batch;
    return st;
}

/* ---- settings of a known model ---- */

static const char *const known_keys[] = {
    "train.batch",     "train.steps",     "train.optimiser",    "train.decay",
    "train.eps",       "train.clip",      "train.nesterov",     "train.freeze",
    "train.precision", "train.recompute", "train.micro_batch",  "run.ledger",
    "train.lora.rank", "train.lora.on",   "train.lora.weights", "train.shard",
    "train.shard_over"
};

static enum status refuse_others(const struct config *config, struct str model, struct err *err)
{
    for (i64 o = 0; o < OPTION_COUNT; o++) {
        i64 i = 0;
        if (config->origin[o].kind != ORIGIN_COMMAND_LINE) continue;
        while (i < COUNT_OF(known_keys) && !str_eq(options[o].key, str_of(known_keys[i]))) i++;
        if (i == COUNT_OF(known_keys))
            return err_set(err, STATUS_USAGE,
                           "a plan of %.*s does not use %.*s: leave it out, or plan a run file",
                           (int)MIN(model.len, 60), model.data, STR_ARG(options[o].key));
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

static enum status check_batch(const struct config *c, struct err *err)
{
    if (!was_given(c, "train.batch") || c->settings.train.batch) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.batch=auto is chosen in training; a plan of a known model needs a number "
                   "of sequences per step, or --batch");
}

/* AdamW as such models are trained with it (GPT-3, Llama), but for what was given. */
enum status plan_known_settings(struct plan_question *q, struct known_settings *out,
                                struct err *err)
{
    const struct plan_request *r      = q->request;
    struct config             *config = config_new(q->perm);
    struct train_config       *t      = &config->settings.train;
    t->optimiser                      = STR("adamw");
    t->decay                          = 0.1;
    t->clip                           = 1;
    t->batch                          = 0;
    enum status st                    = STATUS_OK;
    for (i64 i = 0; !st && i < r->setting_count; i++)
        st = config_add_override(config, q->perm, r->settings[i], err);
    if (!st) st = refuse_others(config, r->what, err);
    if (!st) st = check_batch(config, err);
    *out = (struct known_settings){ .config = { .eps      = t->eps,
                                                .decay    = t->decay,
                                                .clip     = t->clip,
                                                .nesterov = t->nesterov,
                                                .freeze   = t->freeze,
                                                .fuse     = FUSE_ALL },
                                    .batch  = t->batch,
                                    .steps  = t->steps,
                                    .lora   = t->lora };
    if (r->lora) out->lora.rank = r->lora;
    out->config.frozen_low = out->lora.rank > 0;
    if (r->freeze.len) out->config.freeze = r->freeze;
    if (!st) st = optimiser_named(t->optimiser, &out->config.optimiser, err);
    if (!st) st = plan_given(r, config, &q->limits.given, err);
    if (config->settings.run.ledger.len) q->ledger = config->settings.run.ledger;
    return st;
}
