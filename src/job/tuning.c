/* tuning.c - a tuning from its first measurement to the file with the winner. */
#include "job/tuning.h"
#include "base/date.h"
#include "base/pool.h"
#include "job/record.h"

static const f64 trial_least_s = 0.2, trial_most_s = 10;

/* The run's settings with what was chosen so far, and these words. */
static enum status settings_with(const struct tuning *t, struct str words, struct arena *perm,
                                 struct config *out, struct err *err)
{
    *out = *t->config;
    for (i64 i = 0; i <= t->won_count; i++) {
        struct str rest = i < t->won_count ? t->won[i] : words, one;
        while (str_cut(&rest, ' ', &one)) {
            enum status st = one.len ? config_add_override(out, perm, one, err) : STATUS_OK;
            if (st) return st;
        }
    }
    return STATUS_OK;
}

static enum status measure(void *context, const struct tune_value *v, f64 *seconds, struct err *err)
{
    struct tuning  *t       = context;
    struct arena    scratch = *t->job->perm;
    struct config  *config  = NEW(&scratch, struct config, 1);
    struct measured m       = { 0 };
    enum status     st      = settings_with(t, v->words, &scratch, config, err);
    if (!st) st = measure_run(t->job->os, &config->settings, t->trial_s, MEASURE_STEPS, &m, err);
    *seconds = m.seconds;
    t->measured++;
    if (!st && t->on_measured) t->on_measured(t, v, m.seconds);
    return st;
}

static enum status try_levers(struct tuning *t, struct err *err)
{
    if (t->on_levers) t->on_levers(t);
    for (i64 i = 0; i < t->lever_count; i++) {
        struct tune_lever *l  = &t->levers[i];
        enum status        st = tune_try(l, measure, t, err);
        if (st) return st;
        if (t->on_lever) t->on_lever(t, l);
        if (l->won) t->won[t->won_count++] = l->values[l->won].words;
    }
    return STATUS_OK;
}

/* One measurement tells what there is to try; the time for all is shared out among them. */
static enum status look_first(struct tuning *t, f64 seconds, struct err *err)
{
    const struct settings *s      = &t->config->settings;
    i64                    values = 0;
    t->trial_s                    = MIN(MAX(seconds / 40, trial_least_s), trial_most_s);
    enum status st = measure_run(t->job->os, s, t->trial_s, MEASURE_STEPS, &t->first, err);
    if (st)
        return st == STATUS_NO
                   ? err_set(err, STATUS_USAGE, "the run does not start: %s", t->first.text)
                   : st;
    i64               cores = pool_machine_threads();
    struct tune_facts f     = { .gpus       = t->first.gpus,
                                .cores      = cores,
                                .threads    = s->train.threads ? s->train.threads : cores,
                                .batch      = t->first.batch,
                                .accumulate = t->first.accumulate,
                                .batch_norm = t->first.batch_norm,
                                .low        = t->first.low,
                                .wide       = s->model.dtype == DT_F64,
                                .recomputes = !str_eq(s->train.recompute, STR("none")),
                                .loads      = str_eq(data_kind(t->job->os, &s->data), STR("images")) };
    t->lever_count          = tune_levers(&f, t->levers, t->job->perm);
    for (i64 i = 0; i < t->lever_count; i++) values += t->levers[i].count;
    t->trial_s = MIN(MAX(seconds / (f64)(values * TUNE_ROUNDS), trial_least_s), trial_most_s);
    return STATUS_OK;
}

/* From the first lever's start to the last one's winner: what is measured in turns is compared, nothing else. */
f64 tuning_speed(const struct tuning *t)
{
    f64 speed = 1;
    for (i64 i = 0; i < t->lever_count; i++) {
        const struct tune_lever *l = &t->levers[i];
        if (l->won) speed *= tune_seconds(&l->values[0]) / tune_seconds(&l->values[l->won]);
    }
    return speed;
}

bool tuning_digits(const struct tuning *t)
{
    for (i64 i = 0; i < t->lever_count; i++)
        if (t->levers[i].won && t->levers[i].digits) return true;
    return false;
}

f64 tuning_units(const struct tuning *t)
{
    return t->first.sample_tokens ? (f64)t->first.sample_tokens : 1;
}

f64 tuning_usd_million(const struct tuning *t, f64 seconds)
{
    f64 million_s = seconds / tuning_units(t) * 1e6;
    return bill_estimate_usd(t->config->settings.train.usd_hour, million_s);
}

static enum status keep(struct tuning *t, struct err *err)
{
    struct os     *os    = t->job->os;
    struct arena  *perm  = t->job->perm;
    struct config *after = NEW(perm, struct config, 1);
    struct str     day   = date_text(perm, os->wall_ns(os) / 1000000000);
    if (!t->won_count) return STATUS_OK;
    enum status st = settings_with(t, STR(""), perm, after, err);
    struct str  head =
        str_fmt(perm, "%.*s: %.2fx the speed, measured on %s, %.*s", STR_ARG(t->config->file),
                tuning_speed(t), t->first.device, STR_ARG(day));
    if (!st) st = tune_write(os, t->config, after, head, perm, &t->file, err);
    return st;
}

enum status tuning_run(struct tuning *t, f64 seconds, struct err *err)
{
    struct record record;
    enum status   st = record_init(&record, t->job, err);
    if (st) return st;
    os_signals_catch();
    record_work_open(&record, &t->config->settings, "measurements");
    st = look_first(t, seconds, err);
    if (!st) st = try_levers(t, err);
    record_work_close(&record, t->measured, st);
    return st ? st : keep(t, err);
}
