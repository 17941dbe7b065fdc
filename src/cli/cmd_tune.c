/* cmd_tune.c - frugal tune RUN.YAML KEY=VALUE...: what is measured, as a table, and the file with the winner. */
#include "cli/jobs.h"
#include "job/tuning.h"
#include <math.h>

enum status command_tune(struct cli *c, struct err *err);

static const f64 seconds_default = 60;

static struct cli *cli_of(const struct tuning *t) { return t->context; }

static void on_measured(const struct tuning *t, const struct tune_value *v, f64 seconds)
{
    struct say  *say     = cli_of(t)->say;
    struct arena scratch = *cli_of(t)->perm;
    if (say->live)
        say_live(say, str_fmt(&scratch, "%lld measured: %.*s %.0f samples/s",
                              (long long)t->measured, STR_ARG(v->words), 1 / seconds));
}

static void show_event(const struct tuning *t, const struct tune_lever *l,
                       const struct tune_value *v)
{
    struct arena   scratch = *cli_of(t)->perm;
    f64            s       = tune_seconds(v);
    struct textbuf b       = event_begin(&scratch, "tried");
    event_str(&b, "lever", str_of(l->name));
    event_str(&b, "settings", v->words);
    event_bool(&b, "digits", l->digits);
    event_f64(&b, "samples_per_s", 1 / s);
    event_f64(&b, "usd_million", tuning_usd_million(t, s));
    event_f64(&b, "noise", tune_noise(v));
    event_i64(&b, "rounds", v->rounds);
    event_bool(&b, "won", v == &l->values[l->won]);
    event_str(&b, "why_not", str_of(v->why_not));
    event_end(&b, cli_of(t)->say);
}

static void show_value(const struct tuning *t, const struct tune_lever *l,
                       const struct tune_value *v)
{
    struct arena scratch = *cli_of(t)->perm;
    f64 s = tune_seconds(v), before = tune_seconds(&l->values[0]), usd = tuning_usd_million(t, s);
    struct str  words = v->words.len ? v->words : STR("as it is");
    const char *name = v == l->values ? l->name : "", *mark = v == &l->values[l->won] ? "*" : " ";
    if (cli_of(t)->say->json) {
        show_event(t, l, v);
        return;
    }
    say_result(cli_of(t)->say, "%-12s %s %-40.*s ", name, mark, STR_ARG(words));
    if (v->why_not[0]) {
        say_result(cli_of(t)->say, "cannot run: %s\n", v->why_not);
        return;
    }
    struct str rate    = text_count(&scratch, tuning_units(t) / s),
               dollars = text_dollars(&scratch, usd);
    say_result(cli_of(t)->say, "%12.*s %10.*s %7.2fx %5.1f %%%s\n", STR_ARG(rate),
               isnan(usd) ? 1 : (int)dollars.len, isnan(usd) ? "-" : dollars.data, before / s,
               100 * tune_noise(v), v->behind ? "  much slower" : "");
}

static void on_lever(const struct tuning *t, const struct tune_lever *l)
{
    for (i64 i = 0; i < l->count; i++) show_value(t, l, &l->values[i]);
}

static void on_levers(const struct tuning *t)
{
    if (!cli_of(t)->say->json)
        say_result(cli_of(t)->say, "%-12s   %-40s %10s/s %8s/M %8s %7s\n", "lever", "settings",
                   t->first.sample_tokens ? "tokens" : "samples", "$", "speed", "noise");
}

static void show_winner(const struct tuning *t)
{
    struct say  *say     = cli_of(t)->say;
    struct arena scratch = *cli_of(t)->perm;
    f64          speed   = tuning_speed(t);
    bool         digits  = tuning_digits(t);
    if (say->json) {
        struct textbuf b = event_begin(&scratch, "tuned");
        event_f64(&b, "speed", speed);
        event_bool(&b, "digits", digits);
        event_str(&b, "file", t->file);
        event_end(&b, say);
    } else if (!t->won_count) {
        say_result(say, "\nNothing was faster by more than the noise: the settings are good for "
                        "this machine.\n");
    } else {
        say_result(say,
                   "\n%.2fx the speed at the same price per hour: %.2f of the cost%s.\nfrugal "
                   "train %.*s\n",
                   speed, 1 / speed,
                   digits ? "; results differ by rounding (docs/decisions/precision.md)"
                          : ", with the same results",
                   STR_ARG(t->file));
    }
}

static enum status seconds_of(const struct request *r, f64 *out, struct err *err)
{
    struct str given = r->value[FLAG_seconds];
    *out             = seconds_default;
    if (!r->given[FLAG_seconds]) return STATUS_OK;
    if (str_f64(given, out) && *out > 0 && *out <= 86400) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--seconds is %.*s; expected a number above 0, like 60",
                   STR_ARG(given));
}

enum status command_tune(struct cli *c, struct err *err)
{
    struct tuning *t = NEW(c->perm, struct tuning, 1);
    struct config *config;
    f64            seconds;
    enum status    st = seconds_of(c->request, &seconds, err);
    if (!st) st = config_of_request(c->request, c->os, c->perm, &config, err);
    if (st) return st;
    struct job job = job_of(c, config, "tune");
    *t             = (struct tuning){ .job         = &job,
                                      .config      = config,
                                      .on_levers   = on_levers,
                                      .on_measured = on_measured,
                                      .on_lever    = on_lever,
                                      .context     = c };
    st             = tuning_run(t, seconds, err);
    if (!st) show_winner(t);
    return st;
}
