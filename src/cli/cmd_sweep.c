/* cmd_sweep.c - frugal sweep RUN.YAML KEY=VALUE...: a line a rung, then the table, best first, and the bill. */
#include "cli/jobs.h"
#include "job/sweep.h"
#include <math.h>

enum status command_sweep(struct cli *c, struct err *err);

enum { LOSS_AT = 2 }; /* its column, where there is one */

static struct cli *cli_of(const struct sweep *s) { return s->context; }

static f64 usd_hour(const struct sweep *s) { return s->config->settings.train.usd_hour; }

static f64 part_done(const struct note *n) { return n->steps ? (f64)n->step / (f64)n->steps : 0; }

static const char *state_name(const struct sweep *s, const struct trial *t)
{
    if (note_failed(&t->last)) return "failed";
    switch (s->asha->trials[t - s->trials].state) {
    case ASHA_NEW: return "new";
    case ASHA_RUNNING: return "running";
    case ASHA_PAUSED: return "waits";
    case ASHA_OUT: return "out";
    case ASHA_DONE: return "done";
    }
    return "";
}

static void on_start(struct sweep *s)
{
    struct arena       scratch = s->scratch;
    const struct asha *a       = s->asha;
    i64                at_once = s->config->settings.sweep.at_once;
    if (cli_of(s)->say->json) {
        struct textbuf b = event_begin(&scratch, "sweep");
        event_i64(&b, "trials", s->count);
        event_i64(&b, "rungs", a->rung_count);
        event_i64(&b, "eta", a->eta);
        event_f64(&b, "first", a->part[0]);
        event_i64(&b, "at_once", at_once);
        event_end(&b, cli_of(s)->say);
        return;
    }
    struct textbuf b = textbuf_new(&scratch);
    textbuf_fmt(&b, "%lld trial%s, %lld at once", (long long)s->count, s->count == 1 ? "" : "s",
                (long long)at_once);
    if (a->rung_count > 1) textbuf_fmt(&b, "; one in %lld continues after", (long long)a->eta);
    for (i64 k = 0; k + 1 < a->rung_count; k++)
        textbuf_fmt(&b, "%s %.3g %%", k ? "," : "", 100 * a->part[k]);
    say_message(cli_of(s)->say, "%.*s\n", STR_ARG(textbuf_str(&b)));
}

static void trial_event(struct sweep *s, const struct trial *t)
{
    struct arena       scratch = s->scratch;
    const struct note *n       = &t->last;
    struct textbuf     b       = event_begin(&scratch, "trial");
    event_i64(&b, "trial", t->number);
    event_str(&b, "settings", t->words);
    event_str(&b, "state", str_of(state_name(s, t)));
    event_i64(&b, "step", n->step);
    event_i64(&b, "steps", n->steps);
    event_str(&b, "metric", str_of(n->metric));
    event_f64(&b, "value", n->value);
    event_f64(&b, "loss", n->loss);
    event_bool(&b, "target_reached", n->target_reached);
    event_f64(&b, "seconds", n->seconds);
    event_f64(&b, "dollars", sweep_trial_usd(s, n->seconds));
    if (n->kind == NOTE_END) {
        event_str(&b, "stopped", stop_reason_name(n->stopped));
        event_str(&b, "why", str_of(n->text));
    }
    event_end(&b, cli_of(s)->say);
}

static void on_trial(struct sweep *s, const struct trial *t)
{
    struct arena       scratch = s->scratch;
    const struct note *n       = &t->last;
    if (cli_of(s)->say->json) {
        trial_event(s, t);
    } else if (note_failed(n)) {
        say_message(cli_of(s)->say, "trial %lld of %lld: %.*s: %s\n", (long long)t->number,
                    (long long)s->count, STR_ARG(t->words), n->text);
    } else if (isnan(n->loss)) {
        say_message(cli_of(s)->say, "trial %lld of %lld: %.*s: ended before an evaluation: %s\n",
                    (long long)t->number, (long long)s->count, STR_ARG(t->words), n->text);
    } else {
        struct str value = text_metric(&scratch, str_of(n->metric), n->value);
        say_message(cli_of(s)->say, "trial %lld of %lld after %.3g %%: %s %.*s  %.*s\n",
                    (long long)t->number, (long long)s->count, 100 * part_done(n), n->metric,
                    STR_ARG(value), STR_ARG(t->words));
    }
}

static void on_eval(struct sweep *s, const struct trial *t)
{
    struct arena       scratch = s->scratch;
    const struct note *n       = &t->last;
    if (!cli_of(s)->say->live || cli_of(s)->say->json) return;
    struct str value = text_metric(&scratch, str_of(n->metric), n->value);
    say_live(cli_of(s)->say,
             str_fmt(&scratch, "trial %lld of %lld after %.3g %%: %s %.*s", (long long)t->number,
                     (long long)s->count, 100 * part_done(n), n->metric, STR_ARG(value)));
}

static const char *metric_of(const struct sweep *s)
{
    for (i64 i = 0; i < s->count; i++)
        if (s->trials[i].last.metric[0]) return s->trials[i].last.metric;
    return "";
}

static bool by_loss(const struct sweep *s) { return str_eq(str_of(metric_of(s)), STR("loss")); }

/* The row: " 3      85.3 %    0.4211   100 %    1.32 s  $0.0001  done  train.lr=0.003". Where the metric
 * is the loss, once is enough. */
static void table_row(struct sweep *s, const struct say_table *table, const struct trial *t)
{
    struct arena       scratch = s->scratch;
    const struct note *n       = &t->last;
    bool               blank   = !n->steps || note_failed(n) || isnan(n->value);
    struct str         value   = text_metric(&scratch, str_of(n->metric), n->value);
    struct str         loss    = str_fmt(&scratch, "%.4f", n->loss);
    struct str         money   = text_dollars(&scratch, sweep_trial_usd(s, n->seconds));
    if (isnan(usd_hour(s))) money = STR("-");
    if (blank) value = loss = STR("-");
    const struct str cells[] = { str_fmt(&scratch, "%lld", (long long)t->number),
                                 value,
                                 str_fmt(&scratch, "%.0f %%", 100 * part_done(n)),
                                 str_fmt(&scratch, "%.2f s", n->seconds),
                                 money,
                                 str_of(state_name(s, t)),
                                 t->words };
    struct str       all[COUNT_OF(cells) + 1];
    i64              count = 0;
    for (i64 i = 0; i < COUNT_OF(cells); i++) {
        if (i == LOSS_AT && !by_loss(s)) all[count++] = loss;
        all[count++] = cells[i];
    }
    say_row(cli_of(s)->say, table, all);
}

static bool is_shown(const struct trial *t) { return t->last.metric[0] || note_failed(&t->last); }

/* The rows, best first; the settings as wide as the widest, so that say_row knows what fits. */
static void show_table(struct sweep *s, const i64 *order)
{
    const struct say_column all[] = {
        { "trial", 5, 0 }, { metric_of(s), 10, 0 }, { "loss", 8, 4 }, { "of run", 6, 3 },
        { "time", 9, 1 },  { "cost", 13, 2 },       { "", -7, 5 },    { "settings", -8, 0 },
    };
    struct say_column columns[COUNT_OF(all)];
    struct say_table  table = { columns, 0, "", "  " };
    for (i64 i = 0; i < COUNT_OF(all); i++)
        if (i != LOSS_AT || !by_loss(s)) columns[table.count++] = all[i];
    struct say_column *settings = &columns[table.count - 1];
    for (i64 i = 0; i < s->count; i++)
        if (is_shown(&s->trials[i]))
            settings->width = MIN(settings->width, -(i32)s->trials[i].words.len);
    say_row(cli_of(s)->say, &table, NULL);
    for (i64 i = 0; i < s->count; i++)
        if (is_shown(&s->trials[order[i]])) table_row(s, &table, &s->trials[order[i]]);
}

/* The command that trains the best again: the user's own words, then the trial's. */
static struct str command_of(const struct sweep *s, const struct trial *t, struct arena *perm)
{
    const struct request *r = cli_of(s)->request;
    struct textbuf        b = textbuf_new(perm);
    textbuf_fmt(&b, "frugal train");
    for (i64 i = 0; i < r->argument_count; i++) {
        if (i && str_starts(r->arguments[i], STR("sweep."))) continue;
        textbuf_fmt(&b, " ");
        add_shell_word(&b, r->arguments[i]);
    }
    textbuf_fmt(&b, " %.*s", STR_ARG(t->words));
    return textbuf_str(&b);
}

static void end_event(struct sweep *s, const struct trial *best, struct sweep_totals bill)
{
    struct arena   scratch = s->scratch;
    bool           none    = isnan(best->last.value);
    struct str     command = none ? STR("") : command_of(s, best, &scratch);
    struct textbuf b       = event_begin(&scratch, "sweep_done");
    event_i64(&b, "trials", s->count);
    event_i64(&b, "finished", bill.done);
    event_f64(&b, "best", none ? NAN : (f64)best->number);
    event_str(&b, "settings", none ? STR("") : best->words);
    event_f64(&b, "value", best->last.value);
    event_str(&b, "command", command);
    event_f64(&b, "seconds", bill.seconds);
    event_f64(&b, "dollars", bill.usd);
    event_f64(&b, "saved_s", bill.saved_s);
    event_f64(&b, "saved_dollars", bill.saved_usd);
    event_end(&b, cli_of(s)->say);
}

static void show_end(struct sweep *s)
{
    struct say         *say     = cli_of(s)->say;
    struct arena        scratch = s->scratch;
    i64                *order   = NEW(&scratch, i64, s->count);
    struct sweep_totals bill    = s->totals;
    asha_ranking(s->asha, order);
    s->scratch               = scratch; /* the order stays while rows are made */
    const struct trial *best = &s->trials[order[0]];
    if (say->json) {
        end_event(s, best, bill);
        return;
    }
    show_table(s, order);
    if (sweep_never_compared(s))
        say_message(say, "trials ended before they were compared; a smaller "
                         "train.eval_every would save money\n");
    if (!isnan(best->last.value))
        say_result(say, "%-12s%.*s\n", "best", STR_ARG(command_of(s, best, &scratch)));
    if (isnan(bill.usd))
        say_result(say,
                   "%-12s%.1f s; price unknown; give the price of an hour: train.usd_hour=0.10\n",
                   "cost", bill.seconds);
    else
        say_result(say, "%-12s%.*s for %.1f s at $%g an hour\n", "cost",
                   STR_ARG(text_dollars(&scratch, bill.usd)), bill.seconds, usd_hour(s));
    if (!(bill.saved_s > 0)) return;
    struct str money = isnan(bill.saved_usd) ? STR("") : text_dollars(&scratch, bill.saved_usd);
    struct str time  = bill.saved_s < 60 ? str_fmt(&scratch, "%.3g s", bill.saved_s)
                                         : text_clock(&scratch, bill.saved_s);
    say_result(say, "%-12s%.*s%s%.*s compared with running every trial to the end\n", "saved",
               STR_ARG(time), money.len ? " and " : "", STR_ARG(money));
}

enum status command_sweep(struct cli *c, struct err *err)
{
    struct config *config;
    enum status    st = only_process(c, "sweep", err);
    if (!st) st = config_of_request(c->request, c->os, c->perm, &config, err);
    if (st) return st;
    struct job   job = job_of(c, config, "sweep");
    struct sweep s   = { .job      = &job,
                         .config   = config,
                         .on_start = on_start,
                         .on_eval  = on_eval,
                         .on_trial = on_trial,
                         .context  = c };
    st               = sweep_run(&s, err);
    if (s.told) show_end(&s);
    return st;
}
