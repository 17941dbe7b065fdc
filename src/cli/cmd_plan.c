/* cmd_plan.c - frugal plan WHAT: what training it would cost, where, and how. */
#include "cli/jobs.h"
#include "cli/plan.h"
#include "plan/known.h"
#include "plan/scaling.h"
#include "run/ledger.h"
#include "train/train.h"
#include <math.h>
#include <string.h>

enum status command_plan(struct cli *c, struct err *err);

enum { SCRATCH_GIB = 64, SHALLOW = 2, DEEPER = 4, RECORDED = 5 }; /* rows the ledger is told of */

static const f64 batch_tokens =
    524288;                       /* of a step of a known model, unless --batch says another */
static const i64 batch_auto = 64; /* samples, where train.batch=auto leaves it open */

void note(struct question *q, struct str text) { plan_note(&q->notes, text); }

/* --- numbers of flags --- */

static enum status number_of(const struct request *r, i32 flag, f64 scale, f64 *out,
                             struct err *err)
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

static enum status limits_of(const struct request *r, struct plan_limits *out, struct err *err)
{
    f64         runs;
    enum status st = number_of(r, FLAG_INDEX_deadline, 3600, &out->deadline_s, err);
    if (!st) st = number_of(r, FLAG_INDEX_budget, 1, &out->budget_usd, err);
    if (!st) st = number_of(r, FLAG_INDEX_runs, 1, &runs, err);
    if (!st) out->runs = isnan(runs) ? 1 : MAX((i64)runs, 1);
    return st;
}

/* --- what is to be trained --- */

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

static void scale_known(struct known *k, const struct question *q)
{
    if (q->depth_part == 1 && q->width_part == 1) return;
    k->depth    = part_of(k->depth, q->depth_part, 1);
    k->heads    = part_of(k->heads, q->width_part, 1);
    k->width    = k->heads * k->head_dim;
    k->hidden   = part_of(k->hidden, q->width_part, 8);
    k->kv_heads = divisor_below(k->heads, part_of(k->kv_heads, q->width_part, 1));
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

static enum status job_of_run(struct cli *c, struct question *q, struct err *err)
{
    struct config       *config;
    struct train_outline o;
    enum status          st = config_of_request(c->request, c->os, c->perm, &config, err);
    if (!st) st = scale_settings(&config->settings.model, q, err);
    if (!st) st = train_outline(c->os, &config->settings, c->perm, &o, err);
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

/* A model of a shape, twice, shallow: the deep one follows from the two. */
static enum status shallow(struct cli *c, struct question *q, const struct known *k, i64 context,
                           struct err *err)
{
    struct known  low = *k, high = *k;
    struct model *a, *b;
    struct str    differs;
    low.depth      = SHALLOW;
    high.depth     = DEEPER;
    enum status st = known_model_new(&low, context, c->perm, &a, &differs, err);
    if (!st) st = known_model_new(&high, context, c->perm, &b, &differs, err);
    if (st) return st;
    if (differs.len) note(q, differs);
    q->workload.build    = model_build;
    q->workload.context  = a;
    q->workload.deeper   = b;
    q->workload.depth[0] = SHALLOW;
    q->workload.depth[1] = DEEPER;
    q->workload.depth[2] = k->depth;
    return STATUS_OK;
}

/* Tokens as given, or as a loss asks for, or as many as are best for this size. */
static enum status tokens_of(struct cli *c, struct question *q, const struct known *k, f64 *tokens,
                             struct err *err)
{
    struct law  law = law_at(0);
    f64         n   = known_parameters_used(k), target;
    enum status st  = number_of(c->request, FLAG_INDEX_tokens, 1, tokens, err);
    if (!st) st = number_of(c->request, FLAG_INDEX_target, 1, &target, err);
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

static enum status job_of_known(struct cli *c, struct question *q, const struct known *whole,
                                struct err *err)
{
    f64           tokens, batch;
    struct known *k = NEW(c->perm, struct known, 1);
    *k              = *whole;
    enum status st  = tokens_of(c, q, k, &tokens, err); /* of the whole model */
    scale_known(k, q);
    if (!st) st = number_of(c->request, FLAG_INDEX_batch, 1, &batch, err);
    if (st) return st;
    if (isnan(batch)) {
        batch = batch_tokens;
        note(q, str_fmt(c->perm, "assuming %.0f tokens per step; --batch changes it", batch));
    }
    i64 samples = 1; /* a power of two, so that GPUs can share it */
    while ((f64)(2 * samples * k->context) <= batch) samples *= 2;
    q->workload       = (struct plan_workload){ .name        = k->name,
                                                .config      = { .optimiser = OPTIMISER_ADAMW,
                                                                 .eps       = 1e-8,
                                                                 .decay     = 0.1,
                                                                 .clip      = 1,
                                                                 .fuse      = FUSE_ALL },
                                                .batch_total = samples,
                                                .tokens      = k->context };
    q->workload.steps = (i64)ceil(tokens / (f64)(samples * k->context));
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
                       "what to plan? Give a run file, a config.json or the name of a model");
    what = r->arguments[0];
    if (str_ends(what, STR(".json"))) {
        enum status st = os_read_all(c->os, what, c->perm, &text, err);
        if (!st) st = known_read(what, text, c->perm, &read, err);
        return st ? st : job_of_known(c, q, &read, err);
    }
    const struct known *k = known_find(what);
    if (k && !str_ends(what, STR(".yaml"))) return job_of_known(c, q, k, err);
    return job_of_run(c, q, err);
}

/* --- where --- */

static enum status devices_of(struct cli *c, struct question *q, struct err *err)
{
    struct plan_where where = { .cloud    = c->request->value[FLAG_INDEX_on],
                                .prices   = c->request->value[FLAG_INDEX_prices],
                                .here     = q->ours,
                                .usd_hour = q->usd_hour };
    return plan_devices_open(&q->devices, c->os, &where, &q->notes, c->perm, err);
}

/* --- the command --- */

static enum status time_kernels(struct cli *c, struct arena scratch, struct err *err)
{
    struct str  path;
    i64         count;
    enum status st = plan_calibrate(c->os, c->perm, scratch, &count, &path, err);
    if (!st)
        say_message(c->say, "%lld kernels timed; rates written to %.*s\n", (long long)count,
                    STR_ARG(path));
    return st;
}

static void learn(struct cli *c, struct question *q)
{
    struct plan_learner of = { .ledger       = ledger_path(c->os, q->ledger, c->perm),
                               .catalogue    = q->devices.catalogue,
                               .devices      = q->devices.items,
                               .device_count = q->devices.count,
                               .limits       = &q->limits,
                               .workload     = &q->workload,
                               .loads        = q->ours,
                               .settings     = q->settings };
    plan_learn(c->os, &of, &q->notes, c->perm);
}

/* An hour of this machine has no price, so it cannot be ranked; how long it takes can be told. */
static void tell_unpriced(struct cli *c, struct question *q, const struct plan_variants *v,
                          struct arena scratch)
{
    struct plan_result *r = NEW(c->perm, struct plan_result, 1);
    for (i64 i = q->devices.rented_count; i < q->devices.count && isnan(q->usd_hour); i++) {
        struct device *d    = &q->devices.items[i];
        d->usd_h[PRICE_OWN] = 0;
        plan_search(&q->workload, v, d, 1, q->devices.catalogue, &q->limits, r, scratch);
        d->usd_h[PRICE_OWN] = NAN;
        if (!r->count) continue;
        struct plan_row *row = &r->rows[0];
        note(q,
             str_fmt(c->perm,
                     "%.*s: %.3g h in %s, not ranked: set train.usd_hour to the price of an hour",
                     STR_ARG(d->name), row->hours, precision_text(row->precision)));
        row->bill.total = NAN;
        plan_record(c, q, row);
    }
}

static enum status answer(struct cli *c, struct question *q, struct arena scratch, struct err *err)
{
    struct plan_variants *v  = NEW(c->perm, struct plan_variants, 1);
    struct plan_result   *r  = NEW(c->perm, struct plan_result, 1);
    enum status           st = plan_compile(c->perm, &q->workload, v, scratch, err);
    if (st) return st;
    i64 ranked = isnan(q->usd_hour) ? q->devices.rented_count : q->devices.count;
    plan_search(&q->workload, v, q->devices.items, ranked, q->devices.catalogue, &q->limits, r,
                scratch);
    tell_unpriced(c, q, v, scratch);
    if (r->count) plan_show(c, q, v, r);
    for (i64 i = 0; i < MIN(r->count, RECORDED); i++) plan_record(c, q, &r->rows[i]);
    if (r->count && c->request->flags & FLAG_scale_model) return plan_scale(c, q, scratch, err);
    if (r->count) return STATUS_OK;
    return err_set(err, STATUS_NO,
                   "no plan: %lld do not fit in memory, %lld miss the deadline, %lld exceed the "
                   "budget, %lld machines have no price",
                   (long long)r->too_large, (long long)r->too_late, (long long)r->too_dear,
                   (long long)r->no_price);
}

enum status command_plan(struct cli *c, struct err *err)
{
    struct question *q       = NEW(c->perm, struct question, 1);
    struct arena     scratch = arena_open((i64)SCRATCH_GIB << 30);
    enum status      st      = STATUS_OK;
    q->depth_part = q->width_part = 1;
    if (!scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    if (c->request->flags & FLAG_calibrate) {
        st = time_kernels(c, scratch, err);
    } else {
        st = limits_of(c->request, &q->limits, err);
        if (!st) st = plan_ask(c, q, err);
        if (!st) st = devices_of(c, q, err);
        if (!st) learn(c, q);
        if (!st) st = answer(c, q, scratch, err);
    }
    plan_devices_close(&q->devices);
    arena_close(&scratch);
    return st;
}
