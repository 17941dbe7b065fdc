/* tune.c - levers, their values, and which of them wins. */
#include "train/tune.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const f64 far_behind[] = {
    1.5, 1.25
}; /* of the best, after the first round and later: no noise makes that good */
static const f64 gain_least = 0.02; /* below it a change is not worth a line in a file */

static struct tune_lever *lever_new(struct tune_lever *list, i64 *count, const char *name,
                                    bool digits)
{
    ASSERT(*count < TUNE_LEVERS_MAX);
    struct tune_lever *l = &list[(*count)++];
    *l                   = (struct tune_lever){ .name = name, .digits = digits };
    return l;
}

static void add(struct tune_lever *l, struct str words)
{
    if (l->count < TUNE_VALUES_MAX) l->values[l->count++] = (struct tune_value){ .words = words };
}

/* All cores, and halves of them: more threads than memory can feed only get in each other's way. */
static void add_threads(struct tune_lever *l, const struct tune_facts *f, struct arena *perm)
{
    add(l, str_fmt(perm, "train.threads=%lld", (long long)f->threads));
    for (i64 n = f->cores; n >= 1; n /= 2)
        if (n != f->threads) add(l, str_fmt(perm, "train.threads=%lld", (long long)n));
}

/* A step's samples in equal parts: divisors of it, the larger first, where memory allows them. */
static void add_batches(struct tune_lever *l, const struct tune_facts *f, struct arena *perm)
{
    i64 all = f->batch * f->accumulate;
    add(l, str_fmt(perm, "train.micro_batch=%lld", (long long)f->batch));
    for (i64 parts = 1; parts <= all; parts = parts < 4 ? parts + 1 : parts * 2) {
        if (all % parts || parts == f->accumulate) continue;
        add(l, str_fmt(perm, "train.micro_batch=%lld", (long long)(all / parts)));
    }
}

/* Threads that the loader finds by itself, against fixed ones that are there from the first batch on. */
static void add_workers(struct tune_lever *l, const struct tune_facts *f, struct arena *perm)
{
    add(l, STR("")); /* as it is */
    add(l, STR("loader.workers=auto"));
    for (i64 n = 1; n <= 2 * f->cores && n <= 256; n *= 2)
        add(l, str_fmt(perm, "loader.workers=%lld", (long long)n));
}

i64 tune_levers(const struct tune_facts *f, struct tune_lever *out, struct arena *perm)
{
    i64                count = 0;
    struct tune_lever *l;
    if (!f->wide) {
        l = lever_new(out, &count, "precision", true);
        if (f->low) add(l, STR("")); /* as it is */
        add(l, STR("train.precision=fp32"));
        if (!f->low) add(l, STR("train.precision=bf16"));
    }
    if (!f->gpus && f->cores > 1) add_threads(lever_new(out, &count, "threads", false), f, perm);
    if (!f->batch_norm && f->batch * f->accumulate > 1)
        add_batches(lever_new(out, &count, "micro-batch", true), f, perm);
    l = lever_new(out, &count, "recompute", false);
    if (f->recomputes) add(l, STR(""));
    add(l, STR("train.recompute=none"));
    if (!f->recomputes) add(l, STR("train.recompute=all"));
    if (f->loads) add_workers(lever_new(out, &count, "loader", false), f, perm);
    return count;
}

f64 tune_seconds(const struct tune_value *v)
{
    f64 s[TUNE_ROUNDS];
    if (!v->rounds || v->why_not[0]) return NAN;
    memcpy(s, v->seconds, sizeof s);
    for (i64 i = 1; i < v->rounds; i++)
        for (i64 k = i; k > 0 && s[k] < s[k - 1]; k--) {
            f64 t    = s[k];
            s[k]     = s[k - 1];
            s[k - 1] = t;
        }
    return (s[(v->rounds - 1) / 2] + s[v->rounds / 2]) / 2;
}

static f64 fastest(const struct tune_value *v)
{
    f64 s = INFINITY;
    for (i64 i = 0; i < v->rounds; i++) s = fmin(s, v->seconds[i]);
    return s;
}

f64 tune_noise(const struct tune_value *v)
{
    f64 slowest = 0;
    if (v->rounds < 2) return NAN;
    for (i64 i = 0; i < v->rounds; i++) slowest = fmax(slowest, v->seconds[i]);
    return (slowest - fastest(v)) / tune_seconds(v);
}

static enum status measure_once(struct tune_value *v, tune_measure *measure, void *context,
                                struct err *err)
{
    struct err  why = { 0 };
    enum status st  = measure(context, v, &v->seconds[v->rounds], &why);
    if (!st) v->rounds++;
    if (st == STATUS_NO) snprintf(v->why_not, sizeof v->why_not, "%s", why.text);
    if (st && st != STATUS_NO) *err = why;
    return st == STATUS_NO ? STATUS_OK : st;
}

static i64 best_of(const struct tune_lever *l)
{
    i64 best = 0;
    for (i64 i = 1; i < l->count; i++) {
        f64 now = tune_seconds(&l->values[i]), then = tune_seconds(&l->values[best]);
        if (now < then || (isnan(then) && !isnan(now))) best = i;
    }
    return best;
}

enum status tune_try(struct tune_lever *l, tune_measure *measure, void *context, struct err *err)
{
    for (i64 round = 0; round < TUNE_ROUNDS; round++) {
        for (i64 i = 0; i < l->count; i++) {
            struct tune_value *v = &l->values[i];
            if (v->why_not[0] || v->behind) continue;
            enum status st = measure_once(v, measure, context, err);
            if (st) return st;
        }
        f64 best = tune_seconds(&l->values[best_of(l)]);
        for (i64 i = 1; i < l->count; i++) /* the first is what others are measured by */
            l->values[i].behind |= tune_seconds(&l->values[i]) > far_behind[round > 0] * best;
    }
    const struct tune_value *was = &l->values[0], *now = &l->values[best_of(l)];
    f64                      s = tune_seconds(now), before = tune_seconds(was);
    bool better = isnan(before) || (s < (1 - gain_least) * before && s < fastest(was));
    l->won      = better ? now - l->values : 0;
    return STATUS_OK;
}
