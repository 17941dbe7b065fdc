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

/* 31,200 and 0.413 */
static struct str text_rate(struct arena *perm, f64 rate)
{
    return rate < 100 ? str_fmt(perm, "%.3g", rate) : text_count(perm, rate);
}

/* "975 steps/s  p50/95/99 1.02/1.1/1.31 ms  wait 3 %  MFU 41 %": what is left out is not known. */
static void add_speed(struct textbuf *b, struct arena *parts, const struct event_step *t)
{
    if (!isnan(t->steps_per_s))
        textbuf_fmt(b, "  %.*s steps/s  p50/95/99 %.3g/%.3g/%.3g ms  wait %.0f %%",
                    STR_ARG(text_rate(parts, t->steps_per_s)), 1e3 * t->step_p50_s, 1e3 * t->step_p95_s,
                    1e3 * t->step_p99_s, 100 * t->input_share);
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
        say_message(p->say,
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
        STR_ARG(t->why), (long long)t->to_step, t->lr_factor, (long long)t->rollbacks, (long long)t->rollbacks_max);
}

static void checkpoint_words(struct say *s, const struct event_checkpoint *t)
{
    long long step = (long long)t->step;
    switch (t->what) {
    case CHECKPOINT_RESUMED:
        if (t->text.len)
            say_message(s, "resumed at step %lld, not bit-exact: %.*s\n", step, STR_ARG(t->text));
        else say_message(s, "resumed at step %lld, bit-exact\n", step);
        break;
    case CHECKPOINT_INTERVAL: say_message(s, "checkpoints %.*s\n", STR_ARG(t->text)); break;
    case CHECKPOINT_DAMAGED:
        say_message(s, "warning: the checkpoint of step %lld is skipped: %.*s\n", step,
                    STR_ARG(t->text));
        break;
    case CHECKPOINT_FAILED:
        say_message(s, "warning: no checkpoint of step %lld: %.*s\n", step, STR_ARG(t->text));
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
    else checkpoint_words(p->say, t);
}

static void remote_words(struct say *s, const struct event_done *v, struct arena scratch)
{
    if (!v->remote_puts) return;
    say_result(s, "%-12s", "object store");
    if (v->remote_step >= 0) say_result(s, " step %lld is there", (long long)v->remote_step);
    else say_result(s, " nothing is there");
    struct str sent = text_bytes(&scratch, (f64)v->remote_bytes);
    say_result(s, "; %.*s sent, %lld requests", STR_ARG(sent), (long long)(v->remote_puts + v->remote_gets));
    if (!isnan(v->requests_usd)) say_result(s, " for %.*s", STR_ARG(text_dollars(&scratch, v->requests_usd)));
    else say_result(s, ", whose price is not known");
    say_result(s, "\n");
}

static void saving_words(struct say *s, const struct event_done *v, struct arena scratch)
{
    if (!v->checkpoints && !v->checkpoints_failed) return;
    say_result(s, "%-12s%lld saved", "checkpoints ", (long long)v->checkpoints);
    if (v->checkpoints_failed) say_result(s, ", %lld failed", (long long)v->checkpoints_failed);
    if (v->checkpoints_late) say_result(s, ", %lld late", (long long)v->checkpoints_late);
    if (v->checkpoints)
        say_result(s, "; the newest of step %lld, %.*s", (long long)v->checkpoint_step,
                   STR_ARG(text_bytes(&scratch, (f64)v->checkpoint_bytes)));
    say_result(s, "; training paused for %.3g s", v->checkpoint_blocked_s);
    if (!isnan(v->checkpoint_total_s)) say_result(s, ", total cost %.3g s", v->checkpoint_total_s);
    say_result(s, "\n");
    remote_words(s, v, scratch);
}

/* What the noise of the gradients says of the batch. */
static void noise_words(struct say *s, const struct event_done *r, struct arena scratch)
{
    f64 scale = r->noise_scale, tokens = scale * r->tokens_per_s / r->samples_per_s;
    if (isnan(scale)) return;
    struct str unit = STR("");
    if (!isnan(tokens))
        unit = str_fmt(&scratch, " (%.*s tokens)", STR_ARG(text_count(&scratch, tokens)));
    say_result(s,
               "%-12sscale %.*s samples%.*s: with %lld a step the run takes %.3g times the fewest "
               "steps and %.3g times the least data; with about %lld, twice each\n",
               "noise", STR_ARG(text_count(&scratch, scale)), STR_ARG(unit),
               (long long)r->step_samples, noise_steps(scale, r->step_samples),
               noise_data(scale, r->step_samples), (long long)noise_batch(scale));
}

/* Power, and how busy the GPU was: what its driver and the catalogue tell. */
static void gpu_words(const struct progress *p, const struct event_done *r)
{
    if (!isnan(r->mfu))
        say_result(p->say, "%-12s%.1f %% of %s\n", "MFU", 100 * r->mfu,
                   r->mfu_measured ? "the measured peak of a large matrix product here" : "the GPU's dense peak");
    if (!isnan(r->energy_wh))
        say_result(p->say, "%-12s%.3g Wh, %.0f W on average\n", "energy", r->energy_wh, r->watts);
    if (!isnan(r->sm_activity))
        say_result(p->say, "%-12smultiprocessors had work %.0f %% of the time\n", "activity", 100 * r->sm_activity);
}

/* Steps by percentile, and where their time and all between them went; what is less than half a
 * hundredth is not worth a word. */
static void time_words(struct say *s, const struct event_done *r)
{
    f64 all_ns = (f64)split_sum(&r->split_ns);
    if (isnan(r->step_p50_s)) return;
    say_result(s, "%-12s%.3g ms p50, %.3g p95, %.3g p99; %.1f %% of it waiting for data\n", "step",
               1e3 * r->step_p50_s, 1e3 * r->step_p95_s, 1e3 * r->step_p99_s, 100 * r->input_share);
    say_result(s, "%-12s", "spent");
    for (i64 i = 0, told = 0; i < PART_LOOP_COUNT; i++)
        if (200 * (f64)r->split_ns.ns[i] >= all_ns)
            say_result(s, "%s%s %.1f %%", told++ ? ", " : "", clock_part_name((enum part)i),
                       100 * (f64)r->split_ns.ns[i] / all_ns);
    say_result(s, "\n");
}

static void cost_words(const struct progress *p, const struct event_done *r, struct arena scratch)
{
    struct str usd = text_dollars(&scratch, r->dollars);
    if (isnan(r->dollars)) say_result(p->say, "cost        price unknown; give the price of an hour: train.usd_hour=0.10\n");
    else say_result(p->say, "%-12s%.*s at $%g an hour\n", "cost", STR_ARG(usd), p->usd_hour);
}

static void summary(struct progress *p, const struct event_done *r)
{
    struct arena scratch = p->scratch;
    struct say  *s       = p->say;
    bool         words   = !isnan(r->tokens_per_s);
    if (!r->steps) {
        say_result(s, "%-12s%.2f s, no step done\n", "time", r->seconds);
        cost_words(p, r, scratch);
        return;
    }
    for (i64 i = 0; i < r->metrics.count; i++)
        say_result(s, "%-12.*s%.*s\n", STR_ARG(r->metrics.items[i].name),
                   STR_ARG(text_metric(&scratch, r->metrics.items[i].name, r->metrics.items[i].value)));
    if (isfinite(r->loss)) say_result(s, "%-12s%.4f\n", "loss", r->loss);
    if (r->target_reached >= 0)
        say_result(s, "%-12s%s\n", "target", r->target_reached ? "reached" : "not reached");
    if (r->stopped != STOP_END) say_result(s, "%-12s%.*s\n", "stopped", STR_ARG(r->why));
    if (r->samples_skipped)
        say_result(s, "%-12s%lld samples were unreadable and replaced\n", "skipped",
                   (long long)r->samples_skipped);
    if (!isnan(r->loss_scale))
        say_result(s, "%-12s%g at the end; %lld steps overflowed and were skipped\n", "loss scale",
                   r->loss_scale, (long long)r->skipped);
    say_result(s, "%-12s%.*s %s/s, ", "throughput",
               STR_ARG(text_count(&scratch, words ? r->tokens_per_s : r->samples_per_s)), words ? "tokens" : "samples");
    if (!isnan(r->steps_per_s)) say_result(s, "%.*s steps/s, ", STR_ARG(text_rate(&scratch, r->steps_per_s)));
    say_result(s, "%.*sFLOP/s\n", STR_ARG(text_si(&scratch, r->flops_per_s)));
    time_words(s, r);
    gpu_words(p, r);
    if (isnan(r->first_step_ms)) /* all of them were made before this start */
        say_result(s, "%-12s%.2f s for %lld steps\n", "time", r->seconds, (long long)r->steps);
    else
        say_result(s, "%-12s%.2f s for %lld steps; the first finished after %.0f ms\n", "time",
                   r->seconds, (long long)r->steps, r->first_step_ms);
    saving_words(s, r, scratch);
    noise_words(s, r, scratch);
    say_result(s, "%-12s%.*s planned, %.*s used; the process took %.*s at its peak\n", "memory",
               STR_ARG(text_bytes(&scratch, (f64)r->arena_bytes_planned)),
               STR_ARG(text_bytes(&scratch, (f64)r->arena_bytes_used)),
               STR_ARG(text_bytes(&scratch, (f64)r->peak_rss_bytes)));
    if (r->device_bytes >= 0)
        say_result(s, "%-12s%.*s used according to the driver, libraries included\n", "GPU memory",
                   STR_ARG(text_bytes(&scratch, (f64)r->device_bytes)));
    if (r->out.len && r->weights_step != r->steps)
        say_result(s, "%-12s%.*s, those of step %lld\n", "weights", STR_ARG(r->out), (long long)r->weights_step);
    else if (r->out.len) say_result(s, "%-12s%.*s\n", "weights", STR_ARG(r->out));
    cost_words(p, r, scratch);
    if (!(r->saved_s > 0)) return;
    struct str clock = text_clock(&scratch, r->saved_s);
    struct str money = isnan(r->saved_dollars) ? STR("") : text_dollars(&scratch, r->saved_dollars);
    say_result(s, "%-12s%.*s%s%.*s of the planned run\n", "saved", STR_ARG(clock),
               money.len ? " and " : "", STR_ARG(money));
}

static void on_done(void *context, const struct event_done *r)
{
    struct progress *p = context;
    if (p->say->json) say_event(p, EVENT_done, r);
    else summary(p, r);
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
