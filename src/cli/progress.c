/* progress.c - what a run looks like while it runs, and when it is done. */
#include "cli/progress.h"
#include "base/digits.h"
#include "train/noise.h"
#include <math.h>
#include <stdarg.h>

/* Seconds between two showings of a step. A terminal is redrawn at most ten times a second; a log
 * file gets a line now and then; a program that reads our events can bear one a second. */
static const f64 live_every_s = 0.1, plain_every_s = 5.0, json_every_s = 1.0;

/* The bar is shorter below the usual 80 columns, and left out where hardly anything else would fit. */
enum { BAR_COLUMNS = 10, BAR_COLUMNS_NARROW = 6, NARROW = 80, BAR_FROM = 40 };

/* A line of items with two blanks between them. Those that do not fit are left out, whole. */
struct line {
    struct textbuf b;
    struct arena   item;
    i64            columns; /* 0: no limit */
};

static void add_item(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_item(struct line *l, const char *format, ...)
{
    struct arena scratch = l->item;
    va_list      args;
    va_start(args, format);
    struct str item = str_vfmt(&scratch, format, args);
    va_end(args);
    bool first = !l->b.len;
    if (l->columns && l->b.len + item.len + (first ? 0 : 2) >= l->columns && !first) return;
    textbuf_fmt(&l->b, "%s%.*s", first ? "" : "  ", STR_ARG(item));
}

static void add_metric(struct line *l, struct arena *scratch, struct event_metric m)
{
    struct str name = m.name, value = text_metric(scratch, m.name, m.value);
    if (str_eq(name, STR("accuracy"))) name = STR("acc");
    if (str_eq(name, STR("perplexity"))) name = STR("ppl");
    add_item(l, "%.*s %.*s", STR_ARG(name), STR_ARG(value));
}

struct str text_rate(struct arena *perm, f64 rate)
{
    return rate < 100 ? str_fmt(perm, "%.3g", rate) : text_count(perm, rate);
}

/* "975 steps/s  p50/95/99 1.02/1.1/1.31 ms  wait 3 %  MFU 41 %": what is left out is not known. */
static void add_speed(struct line *l, struct arena *parts, const struct event_step *t)
{
    if (!isnan(t->steps_per_s)) {
        add_item(l, "%.*s steps/s", STR_ARG(text_rate(parts, t->steps_per_s)));
        add_item(l, "p50/95/99 %s/%s/%s ms", DIGITS(1e3 * t->step_p50_s),
                 DIGITS(1e3 * t->step_p95_s), DIGITS(1e3 * t->step_p99_s));
        add_item(l, "wait %.0f %%", 100 * t->input_share);
    }
    if (!isnan(t->mfu)) add_item(l, "MFU %.0f %%", 100 * t->mfu);
}

/* "[###-------] ", or nothing where the terminal is too narrow or the end is not known. */
static struct str bar_text(struct arena *perm, i64 columns, i64 done, i64 all)
{
    char bar[BAR_COLUMNS + 1] = { 0 };
    i64  width                = columns < NARROW ? BAR_COLUMNS_NARROW : BAR_COLUMNS;
    if (!all || columns < BAR_FROM) return STR("");
    for (i64 i = 0; i < width; i++) bar[i] = (i + 1) * all <= done * width ? '#' : '-';
    return str_fmt(perm, "[%s] ", bar);
}

struct str progress_line(struct arena *perm, const struct event_step *t, i64 columns)
{
    struct arena parts = arena_part(perm, 4096); /* so that the line grows in place */
    struct line  l     = { .item = arena_part(perm, 1024), .columns = columns };
    bool         words = !isnan(t->tokens_per_s);
    struct str   rate  = text_count(&parts, words ? t->tokens_per_s : t->samples_per_s);
    struct str   bar   = columns ? bar_text(&parts, columns, t->step, t->steps) : STR("");
    struct str   all   = t->steps ? str_fmt(&parts, "/%lld", (long long)t->steps) : STR("");

    l.b = textbuf_new(perm);
    add_item(&l, "%.*sstep %lld%.*s", STR_ARG(bar), (long long)t->step, STR_ARG(all));
    if (!isnan(t->loss)) add_item(&l, "loss %.4f", t->loss);
    for (i64 i = 0; i < t->metrics.count; i++) add_metric(&l, &parts, t->metrics.items[i]);
    if (t->skipped) add_item(&l, "skipped %lld", (long long)t->skipped);
    if (!isnan(t->eta_s)) add_item(&l, "ETA %.*s", STR_ARG(text_clock(&parts, t->eta_s)));
    if (isfinite(t->samples_per_s))
        add_item(&l, "%.*s %s/s", STR_ARG(rate), words ? "tokens" : "samples");
    if (!isnan(t->dollars)) add_item(&l, "%.*s", STR_ARG(text_dollars(&parts, t->dollars)));
    if (t->remote_age_s > 0)
        add_item(&l, "remote %.*s old", STR_ARG(text_clock(&parts, t->remote_age_s)));
    add_speed(&l, &parts, t); /* last: a narrow terminal has no room for it */
    return textbuf_str(&l.b);
}

static void start_words(struct progress *p, const struct event_start *t)
{
    struct arena scratch = p->scratch;
    struct str   batch   = str_fmt(&scratch, "%lld", (long long)t->batch);
    if (t->accumulate > 1)
        batch = str_fmt(&scratch, "%lld x %lld", (long long)t->accumulate, (long long)t->batch);
    if (t->ranks > 1)
        batch = str_fmt(&scratch, "%lld over %lld ranks", (long long)t->step_samples,
                        (long long)t->ranks);
    say_message(p->say, "%.*s parameters, %.*s sample%s, batch %.*s, on %.*s; %.*s planned\n",
                STR_ARG(text_count(&scratch, (f64)t->parameters)),
                STR_ARG(text_count(&scratch, (f64)t->train_samples)),
                t->train_samples == 1 ? "" : "s", STR_ARG(batch), STR_ARG(t->device),
                STR_ARG(text_bytes(&scratch, (f64)t->arena_bytes_planned)));
    if (t->checkpoint_bytes)
        say_message(p->say, "%.*s more for a copy that checkpoints are written from\n",
                    STR_ARG(text_bytes(&scratch, (f64)t->checkpoint_bytes)));
    if (t->copy_bytes)
        say_message(p->say, "%.*s more for a copy of the weights\n",
                    STR_ARG(text_bytes(&scratch, (f64)t->copy_bytes)));
    if (t->batch_reason.len)
        say_message(p->say, "batch %lld: %.*s\n", (long long)t->batch, STR_ARG(t->batch_reason));
    if (t->lr != t->lr_given)
        say_message(p->say, "learning rate %g x %g for this batch = %g\n", t->lr_given,
                    t->lr / t->lr_given, t->lr);
    if (t->optimiser_reason.len)
        say_message(p->say, "optimiser %.*s: %.*s\n", STR_ARG(t->optimiser),
                    STR_ARG(t->optimiser_reason));
    if (t->precision_reason.len)
        say_message(p->say, "precision %.*s: %.*s\n", STR_ARG(t->precision),
                    STR_ARG(t->precision_reason));
    if (t->batch_norm && t->accumulate > 1)
        say_message(
            p->say,
            "batch norm sees %lld sample%s at a time, not the %lld of a step: the result differs "
            "from train.batch=%lld computed at once\n",
            (long long)t->batch, t->batch == 1 ? "" : "s", (long long)(t->batch * t->accumulate),
            (long long)(t->batch * t->accumulate));
}

static void say_event(struct progress *p, enum event_kind kind, const void *event)
{
    struct arena   scratch = p->scratch;
    struct textbuf b       = textbuf_new(&scratch);
    event_json(kind, event, &b);
    say_line(p->say, &b);
}

static void on_start(void *context, const struct event_start *t)
{
    struct progress *p = context;
    p->usd_hour        = t->usd_hour;
    if (p->say->json) say_event(p, EVENT_start, t);
    else start_words(p, t);
}

static void finding_words(struct say *s, const struct event_finding *e)
{
    say_message(s, "warning: %.*s [%.*s]\n", STR_ARG(e->text), STR_ARG(e->rule));
}

void say_finding(struct say *s, const struct finding *f, struct arena scratch)
{
    struct event_finding e = { str_of(lint_rules[f->rule].name), f->text };
    struct textbuf       b = textbuf_new(&scratch);
    if (!s->json) {
        finding_words(s, &e);
        return;
    }
    event_json(EVENT_finding, &e, &b);
    say_line(s, &b);
}

static void on_note(void *context, const struct event_note *e)
{
    struct progress *p = context;
    if (p->say->json) say_event(p, EVENT_note, e);
    else say_message(p->say, "note: %.*s\n", STR_ARG(e->text));
}

static void on_finding(void *context, const struct event_finding *e)
{
    struct progress *p = context;
    if (p->say->json) say_event(p, EVENT_finding, e);
    else finding_words(p->say, e);
}

static void on_step(void *context, const struct event_step *e)
{
    struct progress *p = context;
    bool due = p->every ? e->step % p->every == 0 : e->elapsed_s >= p->next_s || e->step == 1;
    if (!due) return;
    struct event_step t       = *e;
    struct arena      scratch = p->scratch;
    bool              live    = p->say->live && !p->say->json;
    p->next_s = t.elapsed_s + (p->say->json ? json_every_s : live ? live_every_s : plain_every_s);
    event_step_fill(&t);
    if (p->say->json) {
        say_event(p, EVENT_step, &t);
        return;
    }
    struct str line = progress_line(&scratch, &t, live ? p->say->columns : 0);
    if (live) say_live(p->say, line);
    else say_message(p->say, "%.*s\n", STR_ARG(line));
}

static void on_evaluating(void *context, const struct event_evaluating *e)
{
    struct progress            *p       = context;
    struct arena                scratch = p->scratch;
    const struct eval_progress *at      = e->at;
    if (!p->say->live || p->say->json) return;
    struct line l    = { .item = arena_part(&scratch, 1024), .columns = p->say->columns };
    struct str  bar  = bar_text(&scratch, p->say->columns, at->samples, at->samples_all);
    struct str  done = text_count(&scratch, (f64)at->samples),
               all   = text_count(&scratch, (f64)at->samples_all);
    l.b              = textbuf_new(&scratch);
    add_item(&l, "%.*sevaluating", STR_ARG(bar));
    add_item(&l, "step %lld", (long long)at->step);
    add_item(&l, "%.*s of %.*s samples", STR_ARG(done), STR_ARG(all));
    say_live(p->say, textbuf_str(&l.b));
}

static void on_eval(void *context, const struct event_eval *t)
{
    struct progress *p       = context;
    struct arena     scratch = p->scratch;
    if (p->say->json) {
        say_event(p, EVENT_eval, t);
        return;
    }
    struct arena parts = arena_part(&scratch, 4096);
    struct line  l     = { .item = arena_part(&scratch, 1024) };
    l.b                = textbuf_new(&scratch);
    add_item(&l, "evaluated after step %lld, epoch %lld:", (long long)t->step, (long long)t->epoch);
    add_item(&l, "loss %.4f", t->loss);
    for (i64 i = 0; i < t->metrics.count; i++) add_metric(&l, &parts, t->metrics.items[i]);
    if (t->target_reached) add_item(&l, "target reached");
    else if (!isnan(t->reach)) add_item(&l, "target probability %.0f %%", 100 * t->reach);
    say_message(p->say, "%.*s\n", STR_ARG(textbuf_str(&l.b)));
}

static void on_rollback(void *context, const struct event_rollback *t)
{
    struct progress *p = context;
    if (p->say->json) {
        say_event(p, EVENT_rollback, t);
        return;
    }
    say_message(
        p->say,
        "%.*s: back to the weights of step %lld, with %g times the learning rate (rollback %lld "
        "of %lld)\n",
        STR_ARG(t->why), (long long)t->to_step, t->lr_factor, (long long)t->rollbacks,
        (long long)t->rollbacks_max);
}

/* The schedule is said once, a failing save after 1, 2, 4, … failures: the summary counts them all. */
static void checkpoint_words(struct progress *p, const struct event_checkpoint *t)
{
    struct say *s    = p->say;
    long long   step = (long long)t->step;
    switch (t->what) {
    case CHECKPOINT_RESUMED:
        if (t->text.len)
            say_message(s, "resumed at step %lld, not bit-exact: %.*s\n", step, STR_ARG(t->text));
        else say_message(s, "resumed at step %lld, bit-exact\n", step);
        break;
    case CHECKPOINT_INTERVAL:
        if (!p->interval) say_message(s, "checkpoints %.*s\n", STR_ARG(t->text));
        p->interval = true;
        break;
    case CHECKPOINT_DAMAGED:
        say_message(s, "warning: the checkpoint of step %lld was skipped: %.*s\n", step,
                    STR_ARG(t->text));
        break;
    case CHECKPOINT_FAILED:
        p->failed++;
        if (!(p->failed & (p->failed - 1)))
            say_message(s, "warning: the checkpoint of step %lld was not saved: %.*s\n", step,
                        STR_ARG(t->text));
        break;
    case CHECKPOINT_NOT_UPLOADED:
        say_message(s, "warning: not uploaded to the object store: %.*s\n", STR_ARG(t->text));
        break;
    case CHECKPOINT_CHANGED:
    case CHECKPOINT_BEHIND:
    case CHECKPOINT_SHARED: say_message(s, "warning: %.*s\n", STR_ARG(t->text)); break;
    case CHECKPOINT_SAVED: /* as it should be: the summary counts them */
    case CHECKPOINT_UPLOADED:
    case CHECKPOINT_KIND_COUNT: break;
    }
}

static void on_checkpoint(void *context, const struct event_checkpoint *t)
{
    struct progress *p = context;
    if (p->say->json) say_event(p, EVENT_checkpoint, t);
    else checkpoint_words(p, t);
}

static void on_done(void *context, const struct event_done *r)
{
    struct progress *p = context;
    if (p->say->json) say_event(p, EVENT_done, r);
    else summary_show(p, r);
}

struct subscriber progress_subscriber(struct progress *p)
{
    p->shown   = (struct verdict_shown){ .say = p->say, .scratch = p->scratch };
    p->verdict = verdict_subscriber(&p->shown);
    return (struct subscriber){ .context       = p,
                                .next          = &p->verdict,
                                .on_start      = on_start,
                                .on_note       = on_note,
                                .on_finding    = on_finding,
                                .on_step       = on_step,
                                .on_evaluating = on_evaluating,
                                .on_eval       = on_eval,
                                .on_rollback   = on_rollback,
                                .on_checkpoint = on_checkpoint,
                                .on_done       = on_done };
}
