/* cmd_tune.c - frugal tune RUN.YAML KEY=VALUE...: what is measured, the table, and the file with the winner. */
#include "base/date.h"
#include "base/pool.h"
#include "cli/jobs.h"
#include "cli/tune.h"
#include "job/record.h"
#include <math.h>

enum status command_tune(struct cli *c, struct err *err);

static const f64 seconds_default = 60, trial_least_s = 0.2, trial_most_s = 10;

struct tune {
    struct cli       *cli;
    struct config    *config;
    struct str        won[2 * TUNE_LEVERS_MAX]; /* words that were chosen so far */
    i64               won_count;
    struct measured   first; /* the run as it was */
    f64               trial_s;
    i64               measured; /* so far */
    struct tune_lever levers[TUNE_LEVERS_MAX];
    i64               lever_count;
};

/* The run's settings with what was chosen so far, and these words. */
static enum status settings_with(const struct tune *t, struct str words, struct arena *perm,
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
    struct tune    *t       = context;
    struct arena    scratch = *t->cli->perm;
    struct config  *config  = NEW(&scratch, struct config, 1);
    struct measured m       = { 0 };
    enum status     st      = settings_with(t, v->words, &scratch, config, err);
    if (!st) st = measure_run(t->cli->os, &config->settings, t->trial_s, MEASURE_STEPS, &m, err);
    *seconds = m.seconds;
    t->measured++;
    if (!st && t->cli->say->live)
        say_live(t->cli->say, str_fmt(&scratch, "%lld measured: %.*s %.0f samples/s",
                                      (long long)t->measured, STR_ARG(v->words), 1 / m.seconds));
    return st;
}

/* Samples, or tokens where samples are sequences. */
static f64 units(const struct tune *t)
{
    return t->first.sample_tokens ? (f64)t->first.sample_tokens : 1;
}
static const char *unit(const struct tune *t)
{
    return t->first.sample_tokens ? "tokens" : "samples";
}

/* NaN: the price is not known. */
static f64 usd_million(const struct tune *t, f64 seconds)
{
    f64 million_s = seconds / units(t) * 1e6;
    return bill_estimate_usd(t->config->settings.train.usd_hour, million_s);
}

static void show_event(struct tune *t, const struct tune_lever *l, const struct tune_value *v)
{
    struct arena   scratch = *t->cli->perm;
    f64            s       = tune_seconds(v);
    struct textbuf b       = event_begin(&scratch, "tried");
    event_str(&b, "lever", str_of(l->name));
    event_str(&b, "settings", v->words);
    event_bool(&b, "digits", l->digits);
    event_f64(&b, "samples_per_s", 1 / s);
    event_f64(&b, "usd_million", usd_million(t, s));
    event_f64(&b, "noise", tune_noise(v));
    event_i64(&b, "rounds", v->rounds);
    event_bool(&b, "won", v == &l->values[l->won]);
    event_str(&b, "why_not", str_of(v->why_not));
    event_end(&b, t->cli->say);
}

static void show_value(struct tune *t, const struct tune_lever *l, const struct tune_value *v)
{
    struct arena scratch = *t->cli->perm;
    f64          s = tune_seconds(v), before = tune_seconds(&l->values[0]), usd = usd_million(t, s);
    struct str   words = v->words.len ? v->words : STR("as it is");
    const char  *name = v == l->values ? l->name : "", *mark = v == &l->values[l->won] ? "*" : " ";
    if (t->cli->say->json) {
        show_event(t, l, v);
        return;
    }
    say_result(t->cli->say, "%-12s %s %-40.*s ", name, mark, STR_ARG(words));
    if (v->why_not[0]) {
        say_result(t->cli->say, "cannot run: %s\n", v->why_not);
        return;
    }
    struct str rate = text_count(&scratch, units(t) / s), dollars = text_dollars(&scratch, usd);
    say_result(t->cli->say, "%12.*s %10.*s %7.2fx %5.1f %%%s\n", STR_ARG(rate),
               isnan(usd) ? 1 : (int)dollars.len, isnan(usd) ? "-" : dollars.data, before / s,
               100 * tune_noise(v), v->behind ? "  much slower" : "");
}

static void show_lever(struct tune *t, const struct tune_lever *l)
{
    for (i64 i = 0; i < l->count; i++) show_value(t, l, &l->values[i]);
}

static enum status try_levers(struct tune *t, struct err *err)
{
    if (!t->cli->say->json)
        say_result(t->cli->say, "%-12s   %-40s %10s/s %8s/M %8s %7s\n", "lever", "settings",
                   unit(t), "$", "speed", "noise");
    for (i64 i = 0; i < t->lever_count; i++) {
        struct tune_lever *l  = &t->levers[i];
        enum status        st = tune_try(l, measure, t, err);
        if (st) return st;
        show_lever(t, l);
        if (l->won) t->won[t->won_count++] = l->values[l->won].words;
    }
    return STATUS_OK;
}

/* One measurement tells what there is to try; the time for all is shared out among them. */
static enum status look_first(struct tune *t, f64 seconds, struct err *err)
{
    const struct settings *s      = &t->config->settings;
    i64                    values = 0;
    t->trial_s                    = MIN(MAX(seconds / 40, trial_least_s), trial_most_s);
    enum status st = measure_run(t->cli->os, s, t->trial_s, MEASURE_STEPS, &t->first, err);
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
                                .loads      = str_eq(data_kind(t->cli->os, &s->data), STR("images")) };
    t->lever_count          = tune_levers(&f, t->levers, t->cli->perm);
    for (i64 i = 0; i < t->lever_count; i++) values += t->levers[i].count;
    t->trial_s = MIN(MAX(seconds / (f64)(values * TUNE_ROUNDS), trial_least_s), trial_most_s);
    return STATUS_OK;
}

/* From the first lever's start to the last one's winner: what is measured in turns is compared, nothing else. */
static f64 speed_won(const struct tune *t)
{
    f64 speed = 1;
    for (i64 i = 0; i < t->lever_count; i++) {
        const struct tune_lever *l = &t->levers[i];
        if (l->won) speed *= tune_seconds(&l->values[0]) / tune_seconds(&l->values[l->won]);
    }
    return speed;
}

static bool digits_won(const struct tune *t)
{
    for (i64 i = 0; i < t->lever_count; i++)
        if (t->levers[i].won && t->levers[i].digits) return true;
    return false;
}

static enum status keep(struct tune *t, struct err *err)
{
    struct arena  *perm  = t->cli->perm;
    struct config *after = NEW(perm, struct config, 1);
    struct str     path, day = date_text(perm, t->cli->os->wall_ns(t->cli->os) / 1000000000);
    enum status    st = settings_with(t, STR(""), perm, after, err);
    struct str     head =
        str_fmt(perm, "%.*s: %.2fx the speed, measured on %s, %.*s", STR_ARG(t->config->file),
                speed_won(t), t->first.device, STR_ARG(day));
    if (!st && t->won_count) st = tune_write(t->cli->os, t->config, after, head, perm, &path, err);
    if (st) return st;
    if (t->cli->say->json) {
        struct textbuf b = event_begin(perm, "tuned");
        event_f64(&b, "speed", speed_won(t));
        event_bool(&b, "digits", digits_won(t));
        event_str(&b, "file", t->won_count ? path : STR(""));
        event_end(&b, t->cli->say);
    } else if (!t->won_count) {
        say_result(t->cli->say, "\nNothing was faster by more than the noise: the settings are "
                                "good for this machine.\n");
    } else {
        say_result(t->cli->say,
                   "\n%.2fx the speed at the same price per hour: %.2f of the cost%s.\nfrugal "
                   "train %.*s\n",
                   speed_won(t), 1 / speed_won(t),
                   digits_won(t) ? "; results differ by rounding (docs/decisions/precision.md)"
                                 : ", with the same results",
                   STR_ARG(path));
    }
    return STATUS_OK;
}

static enum status seconds_of(const struct request *r, f64 *out, struct err *err)
{
    struct str given = r->value[FLAG_INDEX_seconds];
    *out             = seconds_default;
    if (!(r->flags & FLAG_seconds)) return STATUS_OK;
    if (str_f64(given, out) && *out > 0 && *out <= 86400) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--seconds is %.*s; expected a number above 0, like 60",
                   STR_ARG(given));
}

enum status command_tune(struct cli *c, struct err *err)
{
    struct tune  *t = NEW(c->perm, struct tune, 1);
    struct record record;
    f64           seconds;
    t->cli         = c;
    enum status st = seconds_of(c->request, &seconds, err);
    if (!st) st = config_of_request(c->request, c->os, c->perm, &t->config, err);
    if (st) return st;
    struct job job = job_of(c, t->config, "tune");
    st             = record_init(&record, &job, err);
    if (st) return st;
    os_signals_catch();
    record_work_open(&record, &t->config->settings, "measurements");
    st = look_first(t, seconds, err);
    if (!st) st = try_levers(t, err);
    record_work_close(&record, t->measured, st);
    return st ? st : keep(t, err);
}
