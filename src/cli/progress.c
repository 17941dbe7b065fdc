/* progress.c - what a run looks like while it runs, and when it is done. */
#include "cli/progress.h"
#include "train/noise.h"
#include <math.h>

/* Seconds between two showings of a step. A terminal is redrawn at most ten times a second; a log
 * file gets a line now and then; a program that reads our events can bear one a second. */
static const f64 live_every_s = 0.1, plain_every_s = 5.0, json_every_s = 1.0;

enum { BAR_COLUMNS = 10 };

static void add_metric(struct textbuf *b, struct arena *scratch, struct event_metric m)
{
    struct str name = m.name, value = text_metric(scratch, m.name, m.value);
    if (str_eq(name, STR("accuracy"))) name = STR("acc");
    if (str_eq(name, STR("perplexity"))) name = STR("ppl");
    textbuf_fmt(b, "  %.*s %.*s", STR_ARG(name), STR_ARG(value));
}

struct str text_rate(struct arena *perm, f64 rate)
{
    return rate < 100 ? str_fmt(perm, "%.3g", rate) : text_count(perm, rate);
}

/* "975 steps/s  p50/95/99 1.02/1.1/1.31 ms  wait 3 %  MFU 41 %": what is left out is not known. */
static void add_speed(struct textbuf *b, struct arena *parts, const struct event_step *t)
{
    if (!isnan(t->steps_per_s))
        textbuf_fmt(b, "  %.*s steps/s  p50/95/99 %.3g/%.3g/%.3g ms  wait %.0f %%",
                    STR_ARG(text_rate(parts, t->steps_per_s)), 1e3 * t->step_p50_s,
                    1e3 * t->step_p95_s, 1e3 * t->step_p99_s, 100 * t->input_share);
    if (!isnan(t->mfu)) textbuf_fmt(b, "  MFU %.0f %%", 100 * t->mfu);
}

struct str progress_line(struct arena *perm, const struct event_step *t)
{
    struct arena   parts = arena_part(perm, 4096); /* so that the line grows in place */
    struct textbuf b     = textbuf_new(perm);
    bool           words = !isnan(t->tokens_per_s);
    struct str     rate  = text_count(&parts, words ? t->tokens_per_s : t->samples_per_s);

    textbuf_fmt(&b, "step %lld", (long long)t->step);
    if (t->steps) textbuf_fmt(&b, "/%lld", (long long)t->steps);
    if (!isnan(t->loss)) textbuf_fmt(&b, "  loss %.4f", t->loss);
    for (i64 i = 0; i < t->metrics.count; i++) add_metric(&b, &parts, t->metrics.items[i]);
    if (t->skipped) textbuf_fmt(&b, "  skipped %lld", (long long)t->skipped);
    if (isfinite(t->samples_per_s))
        textbuf_fmt(&b, "  %.*s %s/s", STR_ARG(rate), words ? "tokens" : "samples");
    if (!isnan(t->eta_s)) textbuf_fmt(&b, "  ETA %.*s", STR_ARG(text_clock(&parts, t->eta_s)));
    if (!isnan(t->dollars)) textbuf_fmt(&b, "  %.*s", STR_ARG(text_dollars(&parts, t->dollars)));
    if (t->remote_age_s > 0)
        textbuf_fmt(&b, "  remote %.*s old", STR_ARG(text_clock(&parts, t->remote_age_s)));
    add_speed(&b, &parts, t); /* last: a narrow terminal cuts the end off */
    return textbuf_str(&b);
}

/* The line behind a bar, where the terminal has room for one. */
static struct str with_bar(struct arena *perm, const struct event_step *t, struct str line,
                           i64 columns)
{
    char bar[BAR_COLUMNS + 1] = { 0 };
    if (!t->steps || line.len + BAR_COLUMNS + 3 >= columns) return line;
    for (i64 i = 0; i < BAR_COLUMNS; i++)
        bar[i] = (i + 1) * t->steps <= t->step * BAR_COLUMNS ? '#' : '-';
    return str_fmt(perm, "[%s] %.*s", bar, STR_ARG(line));
}

static void start_words(struct progress *p, const struct event_start *t)
{
    struct arena scratch = p->scratch;
    struct str   batch   = str_fmt(&scratch, "%lld", (long long)t->batch);
    if (t->accumulate > 1)
        batch = str_fmt(&scratch, "%lld x %lld", (long long)t->accumulate, (long long)t->batch);
    say_message(p->say, "%.*s parameters, %.*s samples, batch %.*s, on %.*s; %.*s planned\n",
                STR_ARG(text_count(&scratch, (f64)t->parameters)),
                STR_ARG(text_count(&scratch, (f64)t->train_samples)), STR_ARG(batch),
                STR_ARG(t->device), STR_ARG(text_bytes(&scratch, (f64)t->arena_bytes_planned)));
    if (t->checkpoint_bytes)
        say_message(p->say, "%.*s more for a copy that checkpoints are written from\n",
                    STR_ARG(text_bytes(&scratch, (f64)t->checkpoint_bytes)));
    if (t->copy_bytes)
        say_message(p->say, "%.*s more for a copy of the weights and the optimiser's state\n",
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
            "batch norm sees %lld samples at a time, not the %lld of a step: the result differs "
            "from train.batch=%lld computed at once\n",
            (long long)t->batch, (long long)(t->batch * t->accumulate),
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
    struct str line = progress_line(&scratch, &t);
    if (!live) say_message(p->say, "%.*s\n", STR_ARG(line));
    else say_live(p->say, with_bar(&scratch, &t, line, p->say->columns));
}

static void on_eval(void *context, const struct event_eval *t)
{
    struct progress *p       = context;
    struct arena     scratch = p->scratch;
    if (p->say->json) {
        say_event(p, EVENT_eval, t);
        return;
    }
    struct arena   parts = arena_part(&scratch, 4096);
    struct textbuf b     = textbuf_new(&scratch);
    textbuf_fmt(&b, "evaluated after step %lld, epoch %lld:  loss %.4f", (long long)t->step,
                (long long)t->epoch, t->loss);
    for (i64 i = 0; i < t->metrics.count; i++) add_metric(&b, &parts, t->metrics.items[i]);
    if (!isnan(t->reach) && !t->target_reached)
        textbuf_fmt(&b, "  target probability %.0f %%", 100 * t->reach);
    say_message(p->say, "%.*s%s\n", STR_ARG(textbuf_str(&b)),
                t->target_reached ? "  target reached" : "");
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
    p->shown   = (struct verdict_shown){ p->say, p->scratch };
    p->verdict = verdict_subscriber(&p->shown);
    return (struct subscriber){ .context       = p,
                                .next          = &p->verdict,
                                .on_start      = on_start,
                                .on_note       = on_note,
                                .on_finding    = on_finding,
                                .on_step       = on_step,
                                .on_eval       = on_eval,
                                .on_rollback   = on_rollback,
                                .on_checkpoint = on_checkpoint,
                                .on_done       = on_done };
}
