/* cmd_tune.c - frugal tune RUN.YAML KEY=VALUE...: what is measured, as a table, and the file with the winner. */
#include "cli/jobs.h"
#include "job/tuning.h"
#include <math.h>

enum status command_tune(struct cli *c, struct err *err);

static const f64  seconds_default = 60;
static const char as_it_is[]      = "as it is";

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

/* To a file 40 columns; on a terminal as many as the widest needs. */
static i64 settings_width(const struct tuning *t)
{
    i64 width = str_of(as_it_is).len;
    if (!cli_of(t)->say->table_columns) return 40;
    for (i64 i = 0; i < t->lever_count; i++)
        for (i64 k = 0; k < t->levers[i].count; k++)
            width = MAX(width, t->levers[i].values[k].words.len);
    return width;
}

/* A row of the table; NULL: its heads. */
static void show_cells(const struct tuning *t, const struct str *cells)
{
    const struct say_column columns[] = {
        { "lever", -12, 0 },
        { "", -1, 0 },
        { "settings", -(i32)settings_width(t), 0 },
        { t->first.sample_tokens ? "tokens/s" : "samples/s", 12, 2 },
        { "$/M", 10, 3 },
        { "speed", 8, 0 },
        { "noise", 7, 1 },
        { "", -12, 4 },
    };
    const struct say_table table = { columns, COUNT_OF(columns), "", " " };
    say_row(cli_of(t)->say, &table, cells);
}

static void show_value(const struct tuning *t, const struct tune_lever *l,
                       const struct tune_value *v)
{
    struct arena scratch = *cli_of(t)->perm;
    f64 s = tune_seconds(v), before = tune_seconds(&l->values[0]), usd = tuning_usd_million(t, s);
    f64 noise         = tune_noise(v);
    struct str  words = v->words.len ? v->words : str_of(as_it_is);
    const char *name = v == l->values ? l->name : "", *mark = v == &l->values[l->won] ? "*" : " ";
    if (cli_of(t)->say->json) {
        show_event(t, l, v);
        return;
    }
    if (v->why_not[0]) {
        say_result(cli_of(t)->say, "%-12s %s %-*.*s cannot run: %s\n", name, mark,
                   (int)settings_width(t), STR_ARG(words), v->why_not);
        return;
    }
    const struct str cells[] = { str_of(name),
                                 str_of(mark),
                                 words,
                                 text_count(&scratch, tuning_units(t) / s),
                                 isnan(usd) ? STR("-") : text_dollars(&scratch, usd),
                                 str_fmt(&scratch, "%.2fx", before / s),
                                 isnan(noise) ? STR("-")
                                              : str_fmt(&scratch, "%.1f %%", 100 * noise),
                                 v->behind ? STR(" far behind") : STR("") };
    show_cells(t, cells);
}

static void on_lever(const struct tuning *t, const struct tune_lever *l)
{
    for (i64 i = 0; i < l->count; i++) show_value(t, l, &l->values[i]);
}

static void on_levers(const struct tuning *t)
{
    if (!cli_of(t)->say->json) show_cells(t, NULL);
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
    enum status    st = only_process(c, "tune", err);
    if (!st) st = seconds_of(c->request, &seconds, err);
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
