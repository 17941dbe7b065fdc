/* progress.c - what a run looks like while it runs, and when it is done. */
#include "cli/progress.h"
#include "base/json.h"
#include "cli/peak.h"
#include "cli/verdict_show.h"
#include "plan/catalogue.h"
#include "train/noise.h"
#include <math.h>

/* Seconds between two showings of a step. A terminal is redrawn at most ten times a second; a log
 * file gets a line now and then; a program that reads our events can bear one a second. */
static const f64 live_every_s = 0.1, plain_every_s = 5.0, json_every_s = 1.0;

enum { BAR_COLUMNS = 10 };

static void add_metric(struct textbuf *b, struct arena *scratch, struct train_metric m)
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
static void add_speed(struct textbuf *b, struct arena *parts, const struct train_progress *t, f64 mfu)
{
    const struct quantiles *q = t->times;
    if (q && q->count)
        textbuf_fmt(b, "  %.*s steps/s  p50/95/99 %.3g/%.3g/%.3g ms  wait %.0f %%",
                    STR_ARG(text_rate(parts, quantiles_per_s(q))), 1e3 * quantiles_at(q, 0.5), 1e3 * quantiles_at(q, 0.95),
                    1e3 * quantiles_at(q, 0.99), 100 * t->input_share);
    if (!isnan(mfu)) textbuf_fmt(b, "  MFU %.0f %%", 100 * mfu);
}

struct str progress_line(struct arena *perm, const struct train_progress *t, f64 mfu)
{
    struct arena   parts = arena_part(perm, 4096); /* so that the line grows in place */
    struct textbuf b     = textbuf_new(perm);
    bool           words = !isnan(t->tokens_per_s);
    struct str     rate  = text_count(&parts, words ? t->tokens_per_s : t->samples_per_s);

    textbuf_fmt(&b, "step %lld", (long long)t->step);
    if (t->steps) textbuf_fmt(&b, "/%lld", (long long)t->steps);
    if (!isnan(t->loss)) textbuf_fmt(&b, "  loss %.4f", t->loss);
    if (t->metric.name.len) add_metric(&b, &parts, t->metric);
    if (t->scaling.skipped) textbuf_fmt(&b, "  skipped %lld", (long long)t->scaling.skipped);
    if (isfinite(t->samples_per_s))
        textbuf_fmt(&b, "  %.*s %s/s", STR_ARG(rate), words ? "tokens" : "samples");
    if (!isnan(t->eta_s)) textbuf_fmt(&b, "  ETA %.*s", STR_ARG(text_clock(&parts, t->eta_s)));
    if (!isnan(t->dollars)) textbuf_fmt(&b, "  %.*s", STR_ARG(text_dollars(&parts, t->dollars)));
    if (t->remote_age_s > 0)
        textbuf_fmt(&b, "  remote %.*s old", STR_ARG(text_clock(&parts, t->remote_age_s)));
    add_speed(&b, &parts, t, mfu); /* last: a narrow terminal cuts the end off */
    return textbuf_str(&b);
}

/* The line behind a bar, where the terminal has room for one. */
static struct str with_bar(struct arena *perm, const struct train_progress *t, struct str line,
                           i64 columns)
{
    char bar[BAR_COLUMNS + 1] = { 0 };
    if (!t->steps || line.len + BAR_COLUMNS + 3 >= columns) return line;
    for (i64 i = 0; i < BAR_COLUMNS; i++)
        bar[i] = (i + 1) * t->steps <= t->step * BAR_COLUMNS ? '#' : '-';
    return str_fmt(perm, "[%s] %.*s", bar, STR_ARG(line));
}

static void event_metrics(struct textbuf *b, const struct train_metric *metrics, i64 count)
{
    textbuf_fmt(b, ",\"metrics\":{");
    for (i64 i = 0; i < count; i++) {
        if (i) textbuf_fmt(b, ",");
        json_add_string(b, metrics[i].name);
        textbuf_fmt(b, ":");
        json_add_f64(b, metrics[i].value);
    }
    textbuf_fmt(b, "}");
}

static void start_words(struct progress *p, const struct train_start *t)
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
        say_message(p->say, "%.*s more to make checkpoints from\n",
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
                    "batch norm sees %lld samples at a time, not the %lld of a step: the result "
                    "is not that of train.batch=%lld\n",
                    (long long)t->batch, (long long)(t->batch * t->accumulate),
                    (long long)(t->batch * t->accumulate));
}

static void on_start(void *context, const struct train_start *t)
{
    struct progress *p       = context;
    struct arena     scratch = p->scratch;
    p->usd_hour              = t->usd_hour;
    p->peak_flops_s          = peak_flops_s(t->device, t->precision);
    if (!p->say->json) {
        start_words(p, t);
        return;
    }
    struct textbuf b = event_begin(&scratch, "start");
    event_str(&b, "version", STR(FRUGAL_VERSION));
    event_str(&b, "device", t->device);
    event_i64(&b, "parameters", t->parameters);
    event_i64(&b, "parameters_trained", t->parameters_trained);
    event_i64(&b, "train_samples", t->train_samples);
    event_i64(&b, "eval_samples", t->eval_samples);
    event_i64(&b, "batch", t->batch);
    event_i64(&b, "accumulate", t->accumulate);
    event_str(&b, "batch_reason", t->batch_reason);
    event_bool(&b, "batch_norm", t->batch_norm);
    event_i64(&b, "steps", t->steps);
    event_i64(&b, "epochs", t->epochs);
    event_i64(&b, "arena_bytes_planned", t->arena_bytes_planned);
    event_str(&b, "metric", t->metric);
    event_i64(&b, "checkpoint_bytes", t->checkpoint_bytes);
    event_i64(&b, "copy_bytes", t->copy_bytes);
    event_f64(&b, "flops_step", t->flops_step);
    event_f64(&b, "lr", t->lr);
    event_str(&b, "optimiser", t->optimiser);
    event_str(&b, "optimiser_reason", t->optimiser_reason);
    event_f64(&b, "muon_share", t->muon_share);
    event_str(&b, "precision", t->precision);
    event_str(&b, "precision_reason", t->precision_reason);
    event_f64(&b, "usd_hour", t->usd_hour);
    event_end(&b, p->say);
}

void say_finding(struct say *s, const struct finding *f, struct arena scratch)
{
    const char *rule = lint_rules[f->rule].name;
    if (!s->json) {
        say_message(s, "warning: %.*s [%s]\n", STR_ARG(f->text), rule);
        return;
    }
    struct textbuf b = event_begin(&scratch, "finding");
    event_str(&b, "rule", str_of(rule));
    event_str(&b, "text", f->text);
    event_end(&b, s);
}

static void on_note(void *context, struct str text)
{
    struct progress *p       = context;
    struct arena     scratch = p->scratch;
    if (!p->say->json) {
        say_message(p->say, "note: %.*s\n", STR_ARG(text));
        return;
    }
    struct textbuf b = event_begin(&scratch, "note");
    event_str(&b, "text", text);
    event_end(&b, p->say);
}

static void on_finding(void *context, const struct finding *f)
{
    struct progress *p = context;
    say_finding(p->say, f, p->scratch);
}

/* Of the catalogue's peak; of the measured one where it has none. */
static f64 mfu_of(const struct progress *p, f64 model_flops_per_s, f64 measured_flops_s)
{
    return model_flops_per_s / (isnan(p->peak_flops_s) ? measured_flops_s : p->peak_flops_s);
}

static void step_event(struct progress *p, const struct train_progress *t)
{
    struct arena   scratch = p->scratch;
    struct textbuf b       = event_begin(&scratch, "step");
    bool           timed   = t->times && t->times->count;
    event_i64(&b, "step", t->step);
    event_i64(&b, "steps", t->steps);
    event_i64(&b, "epoch", t->epoch);
    event_f64(&b, "elapsed_s", t->elapsed_s);
    event_f64(&b, "lr", t->lr);
    event_f64(&b, "loss", t->loss);
    event_metrics(&b, &t->metric, t->metric.name.len ? 1 : 0);
    event_f64(&b, "loss_scale", t->scaling.scale);
    event_i64(&b, "skipped", t->scaling.skipped);
    event_f64(&b, "samples_per_s", t->samples_per_s);
    event_f64(&b, "tokens_per_s", t->tokens_per_s);
    event_f64(&b, "steps_per_s", timed ? quantiles_per_s(t->times) : NAN);
    event_f64(&b, "step_p50_s", timed ? quantiles_at(t->times, 0.5) : NAN);
    event_f64(&b, "step_p95_s", timed ? quantiles_at(t->times, 0.95) : NAN);
    event_f64(&b, "step_p99_s", timed ? quantiles_at(t->times, 0.99) : NAN);
    event_f64(&b, "input_share", t->input_share);
    event_f64(&b, "mfu", mfu_of(p, t->model_flops_per_s, t->peak_flops_s));
    event_f64(&b, "dollars", t->dollars);
    event_f64(&b, "remote_age_s", t->remote_age_s > 0 ? t->remote_age_s : NAN);
    event_end(&b, p->say);
}

static void on_step(void *context, const struct train_progress *t)
{
    struct progress *p = context;
    bool due = p->every ? t->step % p->every == 0 : t->elapsed_s >= p->next_s || t->step == 1;
    if (!due) return;
    struct arena scratch = p->scratch;
    bool         live    = p->say->live && !p->say->json;
    p->next_s = t->elapsed_s + (p->say->json ? json_every_s : live ? live_every_s : plain_every_s);
    if (p->say->json) {
        step_event(p, t);
        return;
    }
    struct str line = progress_line(&scratch, t, mfu_of(p, t->model_flops_per_s, t->peak_flops_s));
    if (!live) say_message(p->say, "%.*s\n", STR_ARG(line));
    else say_live(p->say, with_bar(&scratch, t, line, p->say->columns));
}

static void on_eval(void *context, const struct train_eval *t)
{
    struct progress *p       = context;
    struct arena     scratch = p->scratch;
    if (p->say->json) {
        struct textbuf b = event_begin(&scratch, "eval");
        event_i64(&b, "step", t->step);
        event_i64(&b, "epoch", t->epoch);
        event_f64(&b, "elapsed_s", t->elapsed_s);
        event_f64(&b, "eval_s", t->eval_s);
        event_i64(&b, "samples", t->samples);
        event_f64(&b, "loss", t->loss);
        event_metrics(&b, t->metrics, t->metric_count);
        event_bool(&b, "target_reached", t->target_reached);
        event_f64(&b, "forecast", t->forecast.value);
        event_f64(&b, "reach", t->forecast.reach);
        event_f64(&b, "dollars", t->dollars);
        event_end(&b, p->say);
        return;
    }
    struct arena   parts = arena_part(&scratch, 4096);
    struct textbuf b     = textbuf_new(&scratch);
    textbuf_fmt(&b, "evaluated after step %lld, epoch %lld:  loss %.4f", (long long)t->step,
                (long long)t->epoch, t->loss);
    for (i64 i = 0; i < t->metric_count; i++) add_metric(&b, &parts, t->metrics[i]);
    if (!isnan(t->forecast.reach) && !t->target_reached)
        textbuf_fmt(&b, "  chance of the target %.0f %%", 100 * t->forecast.reach);
    say_message(p->say, "%.*s%s\n", STR_ARG(textbuf_str(&b)),
                t->target_reached ? "  target reached" : "");
}

static void on_rollback(void *context, const struct train_rollback *t)
{
    struct progress *p       = context;
    struct arena     scratch = p->scratch;
    if (p->say->json) {
        struct textbuf b = event_begin(&scratch, "rollback");
        event_i64(&b, "step", t->step);
        event_i64(&b, "to_step", t->to_step);
        event_i64(&b, "rollbacks", t->count);
        event_f64(&b, "lr_factor", t->lr_factor);
        event_str(&b, "why", str_of(t->why));
        event_end(&b, p->say);
        return;
    }
    say_message(
        p->say,
        "%s: back to the weights of step %lld, on with %g of the learning rate (%lld of %lld "
        "times)\n",
        t->why, (long long)t->to_step, t->lr_factor, (long long)t->count, (long long)t->count_max);
}

static void event_startup(struct textbuf *b, const struct train_startup *s)
{
    event_f64(b, "start_data_s", s->data);
    event_f64(b, "start_device_s", s->device);
    event_f64(b, "start_compile_s", s->compile);
    event_f64(b, "start_kernels_s", s->kernels);
    event_f64(b, "start_weights_s", s->weights);
}

static void checkpoint_words(struct say *s, const struct train_checkpoint *t)
{
    long long step = (long long)t->step;
    switch (t->kind) {
    case CHECKPOINT_RESUMED:
        if (t->text.len)
            say_message(s, "goes on from step %lld, not to the bit: %.*s\n", step, STR_ARG(t->text));
        else say_message(s, "goes on from step %lld, to the bit\n", step);
        break;
    case CHECKPOINT_INTERVAL: say_message(s, "checkpoints %.*s\n", STR_ARG(t->text)); break;
    case CHECKPOINT_DAMAGED:
        say_message(s, "warning: the checkpoint of step %lld is passed over: %.*s\n", step,
                    STR_ARG(t->text));
        break;
    case CHECKPOINT_FAILED:
        say_message(s, "warning: no checkpoint of step %lld: %.*s\n", step, STR_ARG(t->text));
        break;
    case CHECKPOINT_NOT_UPLOADED:
        say_message(s, "warning: not in the object store: %.*s\n", STR_ARG(t->text));
        break;
    case CHECKPOINT_CHANGED:
    case CHECKPOINT_BEHIND:
    case CHECKPOINT_SHARED: say_message(s, "warning: %.*s\n", STR_ARG(t->text)); break;
    case CHECKPOINT_SAVED: /* as it should be: the summary counts them */
    case CHECKPOINT_UPLOADED:
    case CHECKPOINT_KIND_COUNT: break;
    }
}

static void on_checkpoint(void *context, const struct train_checkpoint *t)
{
    struct progress *p       = context;
    struct arena     scratch = p->scratch;
    if (!p->say->json) {
        checkpoint_words(p->say, t);
        return;
    }
    bool           saved = t->kind == CHECKPOINT_SAVED;
    struct textbuf b     = event_begin(&scratch, "checkpoint");
    event_str(&b, "what", train_checkpoint_name(t->kind));
    event_i64(&b, "step", t->step);
    event_str(&b, "text", t->text);
    event_f64(&b, "blocked_s", saved ? t->blocked_s : NAN);
    event_f64(&b, "persist_s", saved ? t->persist_s : NAN);
    event_f64(&b, "bytes", saved ? (f64)t->bytes : NAN);
    event_end(&b, p->say);
}

static void saving_fields(struct textbuf *b, const struct train_saving *v)
{
    event_i64(b, "checkpoints", v->count);
    event_i64(b, "checkpoints_failed", v->failed);
    event_i64(b, "checkpoints_late", v->late);
    event_f64(b, "checkpoint_step", v->step < 0 ? NAN : (f64)v->step);
    event_f64(b, "resumed_step", v->resumed_step < 0 ? NAN : (f64)v->resumed_step);
    event_f64(b, "checkpoint_blocked_s", v->blocked_s);
    event_f64(b, "checkpoint_total_s", v->total_s);
    event_f64(b, "remote_step", v->remote_step < 0 ? NAN : (f64)v->remote_step);
    event_i64(b, "remote_puts", v->remote_puts);
    event_i64(b, "remote_gets", v->remote_gets);
    event_i64(b, "remote_bytes", v->remote_bytes);
}

/* At AWS's list prices: the catalogue's first class, where shards are put unless something else is said. */
static f64 request_dollars(const struct train_saving *v)
{
    struct arena memory = arena_open((i64)64 << 20);
    if (!memory.begin) return NAN;
    const struct storage *s = catalogue_storage(catalogue_new(&memory), STR("aws"), STR(""));
    f64 dollars = ((f64)v->remote_puts * s->put_1000_usd + (f64)v->remote_gets * s->get_1000_usd) / 1000;
    arena_close(&memory);
    return dollars;
}

static void remote_words(struct say *s, const struct train_saving *v, struct arena scratch)
{
    if (!v->remote_puts) return;
    say_result(s, "%-12s", "object store");
    if (v->remote_step >= 0) say_result(s, " step %lld is there", (long long)v->remote_step);
    else say_result(s, " nothing is there");
    struct str sent = text_bytes(&scratch, (f64)v->remote_bytes);
    say_result(s, "; %.*s sent, %lld requests for %.*s at AWS's prices\n", STR_ARG(sent),
               (long long)(v->remote_puts + v->remote_gets),
               STR_ARG(text_dollars(&scratch, request_dollars(v))));
}

static void saving_words(struct say *s, const struct train_saving *v, struct arena scratch)
{
    if (!v->count && !v->failed) return;
    say_result(s, "%-12s%lld saved", "checkpoints ", (long long)v->count);
    if (v->failed) say_result(s, ", %lld failed", (long long)v->failed);
    if (v->late) say_result(s, ", %lld late", (long long)v->late);
    if (v->count)
        say_result(s, "; the newest of step %lld, %.*s", (long long)v->step,
                   STR_ARG(text_bytes(&scratch, (f64)v->bytes)));
    say_result(s, "; steps stood still for %.3g s", v->blocked_s);
    if (!isnan(v->total_s)) say_result(s, ", all they took was %.3g s", v->total_s);
    say_result(s, "\n");
    remote_words(s, v, scratch);
}

static void event_split(struct textbuf *b, const struct step_split *s)
{
    textbuf_fmt(b, ",\"split_ns\":{");
    for (i64 i = 0; i < PART_COUNT; i++)
        textbuf_fmt(b, "%s\"%s\":%lld", i ? "," : "", split_name(i), (long long)s->ns[i]);
    textbuf_fmt(b, "}");
}

static void done_event(struct progress *p, const struct train_result *r)
{
    struct arena   scratch = p->scratch;
    struct textbuf b       = event_begin(&scratch, "done");
    event_i64(&b, "steps", r->steps);
    event_i64(&b, "epochs", r->epochs);
    event_f64(&b, "seconds", r->seconds);
    event_f64(&b, "first_step_ms", r->first_step_ms);
    event_startup(&b, &r->startup);
    event_f64(&b, "samples_per_s", r->samples_per_s);
    event_f64(&b, "tokens_per_s", r->tokens_per_s);
    event_f64(&b, "flops_per_s", r->flops_per_s);
    event_f64(&b, "steps_per_s", r->steps_per_s);
    event_f64(&b, "step_p50_s", r->step_p50_s);
    event_f64(&b, "step_p95_s", r->step_p95_s);
    event_f64(&b, "step_p99_s", r->step_p99_s);
    event_f64(&b, "input_share", r->input_share);
    event_split(&b, &r->split);
    event_f64(&b, "mfu", mfu_of(p, r->model_flops_per_s, r->peak_flops_s));
    event_f64(&b, "energy_wh", r->power.energy_wh);
    event_f64(&b, "watts", r->power.watts);
    event_f64(&b, "sm_activity", r->power.sm_activity);
    event_f64(&b, "loss", r->loss);
    event_metrics(&b, r->metrics, r->metric_count);
    if (r->target_set) event_bool(&b, "target_reached", r->target_reached);
    event_str(&b, "stopped", stop_reason_name(r->stopped));
    event_str(&b, "why", str_of(r->why));
    event_i64(&b, "rollbacks", r->rollbacks);
    event_i64(&b, "samples_skipped", r->samples_skipped);
    event_i64(&b, "weights_step", r->weights_step);
    event_f64(&b, "saved_s", r->saved_s);
    event_f64(&b, "saved_dollars", r->saved_dollars);
    event_f64(&b, "loss_scale", r->scaling.scale);
    event_i64(&b, "skipped", r->scaling.skipped);
    saving_fields(&b, &r->saving);
    event_f64(&b, "noise_scale", r->noise_scale);
    if (isnan(r->noise_scale)) event_f64(&b, "batch_advised", NAN);
    else event_i64(&b, "batch_advised", noise_batch(r->noise_scale));
    event_f64(&b, "dollars", r->dollars);
    event_i64(&b, "arena_bytes_planned", r->arena_bytes_planned);
    event_i64(&b, "arena_bytes_used", r->arena_bytes_used);
    event_f64(&b, "device_bytes", r->device_bytes < 0 ? NAN : (f64)r->device_bytes);
    event_i64(&b, "peak_rss_bytes", r->peak_rss_bytes);
    event_str(&b, "out", r->out);
    event_end(&b, p->say);
}

/* What the noise of the gradients says of the batch. */
static void noise_words(struct say *s, const struct train_result *r, struct arena scratch)
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
static void gpu_words(const struct progress *p, const struct train_result *r)
{
    f64 used = mfu_of(p, r->model_flops_per_s, r->peak_flops_s);
    if (!isnan(used))
        say_result(p->say, "%-12s%.1f %% of %s\n", "MFU", 100 * used,
                   isnan(p->peak_flops_s) ? "what a large product was measured to reach here"
                                          : "the GPU's dense peak");
    if (!isnan(r->power.energy_wh))
        say_result(p->say, "%-12s%.3g Wh, %.0f W on average\n", "energy", r->power.energy_wh,
                   r->power.watts);
    if (!isnan(r->power.sm_activity))
        say_result(p->say, "%-12smultiprocessors had work %.0f %% of the time\n", "activity",
                   100 * r->power.sm_activity);
}

/* Steps by percentile, and where their time and all between them went; what is less than half a
 * hundredth is not worth a word. */
static void time_words(struct say *s, const struct train_result *r)
{
    f64 all_ns = (f64)split_sum(&r->split);
    if (isnan(r->step_p50_s)) return;
    say_result(s, "%-12s%.3g ms p50, %.3g p95, %.3g p99; %.1f %% of it waiting for data\n", "step",
               1e3 * r->step_p50_s, 1e3 * r->step_p95_s, 1e3 * r->step_p99_s, 100 * r->input_share);
    say_result(s, "%-12s", "spent");
    for (i64 i = 0, told = 0; i < PART_COUNT; i++)
        if (200 * (f64)r->split.ns[i] >= all_ns)
            say_result(s, "%s%s %.1f %%", told++ ? ", " : "", split_name(i),
                       100 * (f64)r->split.ns[i] / all_ns);
    say_result(s, "\n");
}

static void summary(struct progress *p, const struct train_result *r)
{
    struct arena scratch = p->scratch;
    struct say  *s       = p->say;
    bool         words   = !isnan(r->tokens_per_s);
    if (!r->steps) { /* stopped before the first: there is nothing to bill */
        say_result(s, "%-12s%.2f s, no step done\n", "time", r->seconds);
        return;
    }
    for (i64 i = 0; i < r->metric_count; i++)
        say_result(s, "%-12.*s%.*s\n", STR_ARG(r->metrics[i].name),
                   STR_ARG(text_metric(&scratch, r->metrics[i].name, r->metrics[i].value)));
    if (isfinite(r->loss)) say_result(s, "%-12s%.4f\n", "loss", r->loss);
    if (r->target_set)
        say_result(s, "%-12s%s\n", "target", r->target_reached ? "reached" : "not reached");
    if (r->stopped != STOP_END) say_result(s, "%-12s%s\n", "stopped", r->why);
    if (r->samples_skipped)
        say_result(s, "%-12s%lld samples could not be had, others took their places\n", "skipped",
                   (long long)r->samples_skipped);
    if (!isnan(r->scaling.scale))
        say_result(s, "%-12s%g at the end; %lld steps overflowed and were skipped\n", "loss scale",
                   r->scaling.scale, (long long)r->scaling.skipped);
    say_result(s, "%-12s%.*s %s/s, ", "throughput",
               STR_ARG(text_count(&scratch, words ? r->tokens_per_s : r->samples_per_s)),
               words ? "tokens" : "samples");
    if (!isnan(r->steps_per_s)) say_result(s, "%.*s steps/s, ", STR_ARG(text_rate(&scratch, r->steps_per_s)));
    say_result(s, "%.*sFLOP/s\n", STR_ARG(text_si(&scratch, r->flops_per_s)));
    time_words(s, r);
    gpu_words(p, r);
    if (isnan(r->first_step_ms)) /* all of them were made before this start */
        say_result(s, "%-12s%.2f s for %lld steps\n", "time", r->seconds, (long long)r->steps);
    else
        say_result(s, "%-12s%.2f s for %lld steps; the first was done after %.0f ms\n", "time",
                   r->seconds, (long long)r->steps, r->first_step_ms);
    saving_words(s, &r->saving, scratch);
    noise_words(s, r, scratch);
    say_result(s, "%-12s%.*s planned, %.*s used; the process took %.*s at its peak\n", "memory",
               STR_ARG(text_bytes(&scratch, (f64)r->arena_bytes_planned)),
               STR_ARG(text_bytes(&scratch, (f64)r->arena_bytes_used)),
               STR_ARG(text_bytes(&scratch, (f64)r->peak_rss_bytes)));
    if (r->device_bytes >= 0)
        say_result(s, "%-12s%.*s taken by the driver's count, libraries included\n", "GPU memory",
                   STR_ARG(text_bytes(&scratch, (f64)r->device_bytes)));
    if (r->out.len && r->weights_step != r->steps)
        say_result(s, "%-12s%.*s, those of step %lld\n", "weights", STR_ARG(r->out),
                   (long long)r->weights_step);
    else if (r->out.len) say_result(s, "%-12s%.*s\n", "weights", STR_ARG(r->out));
    if (isnan(r->dollars))
        say_result(s, "%-12sprice unknown; say what an hour costs: train.usd_hour=0.10\n", "cost");
    else
        say_result(s, "%-12s%.*s at $%g an hour\n", "cost",
                   STR_ARG(text_dollars(&scratch, r->dollars)), p->usd_hour);
    if (!(r->saved_s > 0)) return;
    struct str clock = text_clock(&scratch, r->saved_s);
    struct str money = isnan(r->saved_dollars) ? STR("") : text_dollars(&scratch, r->saved_dollars);
    say_result(s, "%-12s%.*s%s%.*s of the planned run\n", "saved", STR_ARG(clock),
               money.len ? " and " : "", STR_ARG(money));
}

static void show_verdict(struct progress *p, const struct train_result *r)
{
    struct arena   scratch = p->scratch;
    struct verdict v       = verdict_of(&r->evidence, &scratch);
    if (verdict_due(&r->evidence))
        verdict_show(p->say, &r->evidence, &v, r->dollars, p->runs_per_month, scratch);
}

static void on_done(void *context, const struct train_result *r)
{
    struct progress *p = context;
    show_verdict(p, r);
    if (p->say->json) done_event(p, r);
    else summary(p, r);
}

struct train_listener progress_listener(struct progress *p)
{
    p->peak_flops_s = NAN;
    return (struct train_listener){ .context       = p,
                                    .on_start      = on_start,
                                    .on_note       = on_note,
                                    .on_finding    = on_finding,
                                    .on_step       = on_step,
                                    .on_eval       = on_eval,
                                    .on_rollback   = on_rollback,
                                    .on_checkpoint = on_checkpoint,
                                    .on_done       = on_done };
}
