/* experiments.c - a verdict's problems tried out, each in processes of its own (job/measure.h). */
#include "job/experiments.h"
#include "run/bill.h"
#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 3, ACTIVE_STEPS = 3 };

static const f64 trial_part   = 1.0 / 6; /* of the look at the run as it is */
static const f64 periods      = 8;       /* of what is made rarer, in a trial */
static const f64 trial_most_s = 20;      /* what is that rare already is not tried */

struct lab {
    struct os           *os;
    struct arena        *perm;
    const struct config *config;
    struct experiments  *e;
    f64                  trial_s;
};

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

static f64 median(f64 *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

/* Seconds of a sample with these settings, and with batches from memory where that is the experiment. */
static enum status trial(struct lab *l, const struct problem *a, struct str words, bool replay,
                         f64 seconds, f64 *out, struct err *err)
{
    struct arena    scratch = *l->perm;
    struct config  *config  = NEW(&scratch, struct config, 1);
    struct measured m       = { 0 };
    struct str      one;
    bool            whole = verdict_tries_whole(a->kind);
    enum status     st    = STATUS_OK;
    *config               = *l->config;
    while (!st && str_cut(&words, ' ', &one)) st = config_add_override(config, &scratch, one, err);
    if (replay) config->settings.replay = 2 * MAX(l->e->whole.accumulate, 1);
    if (!st)
        st = measure_run(l->os, &config->settings, seconds, whole ? MEASURE_WHOLE : MEASURE_STEPS,
                         &m, err);
    *out = m.seconds;
    return st;
}

/* Long enough to see several of what happens rarely; NaN: that would take too long. */
static f64 trial_seconds(const struct lab *l, const struct problem *a)
{
    const struct evidence *e = &l->e->whole.evidence;
    f64        step_s = (f64)split_sum(&e->split) * 1e-9 / (f64)MAX(e->steps, 1), needed = 0;
    enum bound bound = problems[a->kind].bound;
    if (bound == BOUND_evaluation) needed = periods * step_s * (f64)e->eval_every;
    if (bound == BOUND_checkpoint)
        needed = periods * step_s * (f64)e->steps / (f64)MAX(e->saves, 1);
    return needed > trial_most_s ? NAN : MAX(needed, l->trial_s);
}

/* In turns, so that whatever disturbs the machine meets both. */
static enum status experiment(struct lab *l, struct problem *a, struct err *err)
{
    f64         before[ROUNDS], after[ROUNDS], seconds = trial_seconds(l, a);
    bool        replay = problems[a->kind].experiment == EXPERIMENT_REPLAY;
    enum status st     = STATUS_OK;
    if (problems[a->kind].experiment == EXPERIMENT_NONE || isnan(seconds)) return STATUS_OK;
    if (l->e->on_try) l->e->on_try(l->e->context, problems[a->kind].name);
    for (i64 i = 0; i < ROUNDS && !st; i++) {
        st = trial(l, a, STR(""), false, seconds, &before[i], err);
        if (!st) st = trial(l, a, replay ? STR("") : a->tried, replay, seconds, &after[i], err);
    }
    if (!st) verdict_confirm(a, median(before), median(after));
    if (st == STATUS_NO) return STATUS_OK; /* it cannot run that way: not confirmed */
    return st;
}

/* Of the whole run at this pace; NaN: it has no end, or no price. */
static f64 run_dollars(const struct lab *l)
{
    const struct train_config *t = &l->config->settings.train;
    f64                        by_steps =
        t->steps ? (f64)(t->steps * l->e->whole.batch * l->e->whole.accumulate) : INFINITY;
    f64 by_epochs = t->epochs ? (f64)t->epochs * (f64)l->e->whole.train_samples : INFINITY;
    f64 samples   = MIN(by_steps, by_epochs);
    if (isinf(samples)) return NAN;
    return bill_estimate_usd(l->config->settings.train.usd_hour, samples * l->e->whole.seconds);
}

enum status experiments_run(struct experiments *e, struct os *os, const struct config *config,
                            f64 seconds, struct arena *perm, struct err *err)
{
    struct lab  l  = { os, perm, config, e, seconds * trial_part };
    enum status st = measure_run(os, &config->settings, seconds, MEASURE_WHOLE, &e->whole, err);
    if (st) return st;
    struct arena texts = arena_part(perm, 1 << 16);
    e->verdict         = verdict_of(&e->whole.evidence, &texts);
    for (i64 i = 0; i < e->verdict.count && !st; i++)
        st = experiment(&l, &e->verdict.problem[i], err);
    e->usd_run = run_dollars(&l);
    return st;
}

void profile_steps_only(struct settings *s)
{
    if (!s->profile.active) s->profile.active = ACTIVE_STEPS;
    s->profile_only    = true;
    s->checkpoint.dir  = STR("");
    s->checkpoint.to   = STR("");
    s->train.out       = STR("");
    s->train.gradients = STR("");
}

struct apart {
    struct os *os;
    enum status (*work)(void *context, struct err *err);
    void *context;
};

static int work_apart(void *context, struct file stream)
{
    struct apart *a   = context;
    struct err    end = { 0 };
    end.status        = a->work(a->context, &end);
    struct str whole  = { (const char *)&end, sizeof end };
    return a->os->write(a->os, stream, whole, NULL) ? STATUS_WORLD : (int)end.status;
}

enum status run_apart(struct os *os, enum status (*work)(void *context, struct err *err),
                      void *context, struct err *err)
{
    struct apart    a   = { os, work, context };
    struct err      end = { 0 };
    struct os_child child;
    enum status     st = os_child_start(&child, work_apart, &a, err);
    if (!st) st = child_word(os, &child, &end, sizeof end, err);
    if (st == STATUS_NO)
        st = err_set(err, STATUS_WORLD,
                     "the process that ran the steps ended without a result: out of memory?");
    if (!st && end.status) st = err_set(err, end.status, "%s", end.text);
    return st;
}
