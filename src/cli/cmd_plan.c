/* cmd_plan.c - frugal plan WHAT: what training it would cost, where, and how. job/plan_question.h answers. */
#include "cli/plan_show.h"
#include <math.h>

enum status command_plan(struct cli *c, struct err *err);

enum { SCRATCH_GIB = 64, CONTEXT_MAX = 1 << 24 };

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

static enum status check_flags(const struct request *r, struct err *err)
{
    static const struct {
        i32         one, other;
        const char *a, *b;
    } pairs[] = { { FLAG_spot, FLAG_on_demand, "--spot", "--on-demand" },
                  { FLAG_tokens, FLAG_target, "--tokens", "--target" } };
    static const struct {
        i32         flag;
        const char *name, *key;
    } settings[] = { { FLAG_batch, "--batch", "train.batch" },
                     { FLAG_tokens, "--tokens", "train.steps" },
                     { FLAG_target, "--target", "train.steps" },
                     { FLAG_freeze, "--freeze", "train.freeze" },
                     { FLAG_lora, "--lora", "train.lora.rank" } };
    for (i64 i = 0; i < COUNT_OF(pairs); i++)
        if (r->given[pairs[i].one] && r->given[pairs[i].other])
            return both(err, pairs[i].a, pairs[i].b);
    for (i64 i = 0; i < COUNT_OF(settings); i++)
        if (r->given[settings[i].flag] && has_setting(r, settings[i].key))
            return both(err, settings[i].name, settings[i].key);
    for (i64 alone = FLAG_calibrate;; alone = FLAG_models) {
        i64 others = r->argument_count;
        for (i64 f = 0; f < FLAG_COUNT; f++) others += r->given[f] && f != alone && f != FLAG_json;
        if (r->given[alone] && others)
            return err_set(err, STATUS_USAGE, "--%.*s stands alone: nothing else is used with it",
                           STR_ARG(flags[alone].name));
        if (alone == FLAG_models) return STATUS_OK;
    }
}

/* --flag N, a number above 0 and up to `most`; NaN: it was not given. */
static enum status number_of(const struct request *r, i32 flag, f64 most, f64 *out, struct err *err)
{
    struct str text = r->value[flag];
    *out            = NAN;
    if (!r->given[flag]) return STATUS_OK;
    if (flag == FLAG_deadline && str_ends(text, STR("h"))) text.len--;
    if (flag == FLAG_budget && str_starts(text, STR("$"))) text = str_sub(text, 1, text.len);
    if (str_f64(text, out) && *out > 0 && *out <= most) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--%.*s=%.*s is not a number above 0 and up to %g",
                   STR_ARG(flags[flag].name), (int)MIN(r->value[flag].len, 40), r->value[flag].data,
                   most);
}

/* A whole number, at most `most`; 0: it was not given. */
static enum status whole_of(const struct request *r, i32 flag, i64 most, i64 *out, struct err *err)
{
    f64 value;
    *out = 0;
    if (!r->given[flag]) return STATUS_OK;
    if (!str_f64(r->value[flag], &value) || !(value >= 1 && value <= (f64)most) ||
        value != floor(value))
        return err_set(err, STATUS_USAGE, "--%.*s takes a whole number from 1 to %lld",
                       STR_ARG(flags[flag].name), (long long)most);
    *out = (i64)value;
    return STATUS_OK;
}

enum status plan_request_read(const struct request *r, struct plan_request *out, struct err *err)
{
    if (!r->argument_count)
        return err_set(err, STATUS_USAGE,
                       "what to plan? Give a run file, a config.json or the name of a model "
                       "(`frugal plan --models`)");
    *out           = (struct plan_request){ .command       = r->command->name,
                                            .what          = r->arguments[0],
                                            .settings      = r->arguments + 1,
                                            .setting_count = r->argument_count - 1,
                                            .cloud         = r->value[FLAG_on],
                                            .prices        = r->value[FLAG_prices],
                                            .machine       = r->value[FLAG_machine],
                                            .region        = r->value[FLAG_region],
                                            .freeze        = r->value[FLAG_freeze],
                                            .spot          = r->given[FLAG_spot],
                                            .on_demand     = r->given[FLAG_on_demand] };
    enum status st = number_of(r, FLAG_deadline, 1e9, &out->deadline_s, err);
    out->deadline_s *= 3600;
    if (!st) st = number_of(r, FLAG_budget, 1e15, &out->budget_usd, err);
    if (!st) st = whole_of(r, FLAG_runs, 1000000000, &out->runs, err);
    out->runs = MAX(out->runs, 1);
    if (!st) st = number_of(r, FLAG_tokens, PLAN_TOKENS_MAX, &out->tokens, err);
    if (!st) st = number_of(r, FLAG_target, 1e3, &out->target, err);
    if (!st) st = number_of(r, FLAG_batch, PLAN_BATCH_MAX, &out->batch_tokens, err);
    if (!st && floor(out->batch_tokens) != out->batch_tokens && !isnan(out->batch_tokens))
        st = err_set(err, STATUS_USAGE, "--batch takes a whole number of tokens");
    if (!st) st = whole_of(r, FLAG_context, CONTEXT_MAX, &out->context, err);
    if (!st) st = whole_of(r, FLAG_lora, 1024, &out->lora, err);
    if (!st) st = whole_of(r, FLAG_gpus, PLAN_GPUS_MAX, &out->gpus, err);
    return st;
}

/* ---- the command ---- */

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

static enum status plan(struct cli *c, struct arena scratch, struct err *err)
{
    struct plan_question *q = NEW(c->perm, struct plan_question, 1);
    struct plan_request   request;
    enum status           st = plan_request_read(c->request, &request, err);
    if (st) return st;
    st = plan_open(q, c->os, &request, c->perm, scratch, err);
    if (q->unknown) plan_models_names(c);
    if (!st && q->result->count) plan_show(c, q);
    else if (!st) st = plan_none(c, q, err);
    if (!st && c->request->given[FLAG_scale_model]) st = plan_scale(c, q, scratch, err);
    plan_close(q);
    return st;
}

enum status command_plan(struct cli *c, struct err *err)
{
    struct arena scratch = arena_open((i64)SCRATCH_GIB << 30);
    if (!scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = check_flags(c->request, err);
    if (!st && c->request->given[FLAG_models]) plan_models(c);
    else if (!st && c->request->given[FLAG_calibrate]) st = time_kernels(c, scratch, err);
    else if (!st) st = plan(c, scratch, err);
    arena_close(&scratch);
    return st;
}
