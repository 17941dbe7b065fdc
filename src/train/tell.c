/* tell.c - the events of a run: when it begins, after each step, and when it ends. */
#include "train/loop.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ETA_STEPS = 5, LOADING_STEPS = 100 }; /* before them, start-up would be taken for the pace */

static const f64 waits_much = 0.1; /* of a step, for its data */

void tell_note(struct loop *l, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    emit_note(l->with->to, &(struct event_note){ str_of(text) });
}

void tell_overfit(struct loop *l, f64 held_out_loss)
{
    const struct overfit      *o     = &l->at.overfit;
    const struct train_config *t     = &l->s.settings->train;
    struct str                 model = l->s.settings->model.kind;
    const char                *drops = str_eq(model, STR("layers"))   ? ", a dropout layer"
                                       : str_eq(model, STR("ranker")) ? "" /* it has no dropout */
                                                                      : ", model.dropout";
    tell_note(l,
              "overfitting: since step %lld the held-out loss has risen from %.4g to %.4g while "
              "the training loss "
              "fell from %.4g to %.4g. What helps: %s%smore data%s",
              (long long)o->best_step, o->best, held_out_loss, o->best_training, o->training,
              l->guard.keeps_best ? "" : "train.keep_best=true (ends with the best weights), ",
              t->patience ? "" : "train.patience=3 (stops soon after the best evaluation), ",
              drops);
}

/* Its running statistics are the only buffers there are. */
static bool has_batch_norm(const struct program_set *set)
{
    for (i32 i = 0; i < set->persistent_count; i++)
        if (set->persistents[i].kind == VALUE_BUFFER) return true;
    return false;
}

void tell_start(struct loop *l)
{
    struct session    *s = &l->s;
    struct event_start e = { .version            = STR(FRUGAL_VERSION),
                             .run                = l->restore->run,
                             .from_step          = l->at.step,
                             .device             = s->target.name,
                             .gpus               = s->target.gpus,
                             .parameters         = weights_count(s, false),
                             .parameters_trained = weights_count(s, true),
                             .train_samples      = dataset_count(s->data, SPLIT_TRAIN),
                             .eval_samples       = dataset_count(s->data, SPLIT_EVAL),
                             .sample_tokens = model_rows(s->model) > 1 ? model_rows(s->model) : 0,
                             .batch         = s->config.batch,
                             .accumulate    = MAX(s->config.accumulate, 1),
                             .batch_reason  = s->batch_reason,
                             .batch_norm    = has_batch_norm(s->set),
                             .steps         = l->limits.steps,
                             .epochs        = l->limits.epochs,
                             .arena_bytes_planned = s->set->arena_bytes,
                             .precision           = precision_name(s->precision.dtype),
                             .precision_reason    = s->precision.reason,
                             .metric              = l->guard.stop.config.metric,
                             .optimiser           = optimiser_name(s->config.optimiser),
                             .optimiser_reason    = s->optimiser_reason,
                             .muon_share          = s->muon_share,
                             .checkpoint_bytes    = l->saving.snapshot.bytes,
                             .copy_bytes          = l->guard.copy_bytes,
                             .flops_step          = l->all_flops,
                             .usd_hour            = s->settings->train.usd_hour,
                             .lr                  = l->limits.rates.lr,
                             .set                 = s->set,
                             .target              = &s->target,
                             .lr_given            = s->settings->train.lr,
                             .step_samples        = session_step_samples(s),
                             .ranks               = s->ranks ? s->ranks->count : 1 };
    if (l->with->peak_flops_s) l->peak_flops_s = l->with->peak_flops_s(e.device, e.precision);
    emit_start(l->with->to, &e);
    if (s->note.len) emit_note(l->with->to, &(struct event_note){ s->note });
}

void tell_findings(struct loop *l)
{
    struct arena   scratch = l->s.scratch;
    struct finding found[LINT_COUNT];
    i64            count = lint(&l->facts, found, &scratch);
    for (i64 i = 0; i < count; i++) {
        if (l->told[found[i].rule]) continue;
        l->told[found[i].rule] = true;
        emit_finding(l->with->to, &(struct event_finding){ str_of(lint_rules[found[i].rule].name),
                                                           found[i].text });
    }
}

/* Once the pace is known: a step that waits for its data takes as long as they do. */
static void judge_loading(struct loop *l)
{
    f64 step_s = (f64)l->at.steps_ns * 1e-9 / (f64)l->at.step,
        wait_s = (f64)l->at.waited_ns * 1e-9 / (f64)l->at.step;
    if (l->at.step != LOADING_STEPS || wait_s < waits_much * step_s) return;
    l->facts.load_s    = step_s / (f64)MAX(l->s.config.accumulate, 1);
    l->facts.compute_s = (step_s - wait_s) / (f64)MAX(l->s.config.accumulate, 1);
    tell_findings(l);
}

/* Once, after the first minute that is not well. */
static void tell_usage(struct loop *l)
{
    struct usage u;
    struct arena scratch = l->s.scratch;
    if (!lookout_news(l->lookout, &u)) return;
    tell_note(l, "%s: %.*s", l->s.target.bus_id.len ? "the GPU" : "the cores",
              STR_ARG(usage_text(&u, &scratch)));
}

/* Once, when it is known. */
static void tell_long_step(struct loop *l)
{
    struct arena scratch = l->s.scratch;
    struct str   text    = l->told_long ? STR("") : undo_warning(&l->undo, &scratch);
    l->told_long |= text.len > 0;
    if (text.len) emit_note(l->with->to, &(struct event_note){ text });
}

/* What the loader has decided or left out. */
static void tell_loader(struct loop *l)
{
    char line[LOADER_LINE_MAX];
    while (dataset_says(l->s.data, line))
        emit_note(l->with->to, &(struct event_note){ str_of(line) });
    while (loader_says(l->loader, line))
        emit_note(l->with->to, &(struct event_note){ str_of(line) });
    while (l->s.eval_loader && loader_says(l->s.eval_loader, line))
        emit_note(l->with->to, &(struct event_note){ str_of(line) });
}

static f64 tokens_per_s(const struct loop *l, f64 samples_per_s)
{
    i64 rows = model_rows(l->s.model);
    return rows > 1 ? samples_per_s * (f64)rows : NAN;
}

static void tell_progress(struct loop *l, f64 lr)
{
    f64               rate  = loop_samples_per_s(l);
    f64               age_s = remote_save_age_s(&l->restore->remote);
    struct step_split split = clock_split(l->clock);
    struct event_step e     = { .step          = l->at.step,
                                .steps         = l->limits.steps,
                                .epoch         = l->at.epoch + 1,
                                .epochs        = l->limits.epochs,
                                .samples       = l->at.samples - l->before.samples,
                                .elapsed_s     = (f64)l->at.elapsed_ns * 1e-9,
                                .eta_s         = NAN,
                                .lr            = lr,
                                .loss          = l->at.loss,
                                .metrics       = { { l->metric }, l->metric.name.len > 0 },
                                .loss_scale    = l->scaling.scale,
                                .skipped       = l->scaling.skipped,
                                .samples_per_s = rate,
                                .tokens_per_s  = tokens_per_s(l, rate),
                                .steps_per_s   = NAN,
                                .step_p50_s    = NAN,
                                .step_p95_s    = NAN,
                                .step_p99_s    = NAN,
                                .input_share   = loop_input_share(l),
                                .times         = clock_step_times(l->clock),
                                .split         = &split,
                                .busy          = lookout_busy(l->lookout),
                                .dollars       = l->at.spent_usd,
                                .remote_age_s  = age_s > 0 ? age_s : NAN };
    e.mfu = l->useful * l->step_flops * quantiles_per_s(e.times) / l->peak_flops_s;
    if (l->limits.steps && l->at.step >= ETA_STEPS)
        e.eta_s = e.elapsed_s / (f64)l->at.step * (f64)(l->limits.steps - l->at.step);
    emit_step(l->with->to, &e);
}

static struct event_terms terms_of(struct clock *c)
{
    struct event_terms t;
    clock_terms(c, t.ns);
    return t;
}

static struct event_metrics metrics_of(const struct event_metric *metrics, i64 count)
{
    struct event_metrics m = { .count = count };
    memcpy(m.items, metrics, sizeof m.items);
    return m;
}

void tell_eval(struct loop *l, const struct train_eval *t)
{
    emit_eval(l->with->to, &(struct event_eval){ .step      = t->step,
                                                 .epoch     = t->epoch,
                                                 .elapsed_s = t->elapsed_s,
                                                 .eval_s    = t->eval_s,
                                                 .samples   = t->samples,
                                                 .loss      = t->loss,
                                                 .metrics = metrics_of(t->metrics, t->metric_count),
                                                 .target_reached = t->target_reached,
                                                 .forecast       = t->forecast.value,
                                                 .reach          = t->forecast.reach,
                                                 .dollars        = t->dollars,
                                                 .terms_ns       = terms_of(l->clock) });
}

void tell_step(struct loop *l, f64 lr)
{
    tell_progress(l, lr);
    tell_loader(l);
    judge_loading(l);
    tell_usage(l);
    tell_long_step(l);
}

static void add_speed(struct loop *l, struct train_result *r)
{
    const struct quantiles *times = clock_step_times(l->clock);
    r->samples_per_s              = loop_samples_per_s(l);
    r->tokens_per_s               = tokens_per_s(l, r->samples_per_s);
    f64 steps_s                   = r->samples_per_s / (f64)session_step_samples(&l->s);
    r->flops_per_s                = l->all_flops * steps_s;
    if (isnan(l->useful)) l->useful = useful_share(&l->s);
    r->model_flops_per_s = l->useful * l->step_flops * steps_s; /* its peak is this rank's too */
    r->mfu               = r->model_flops_per_s / l->peak_flops_s;
    r->mfu_measured      = l->peak_measured;
    r->steps_per_s       = quantiles_per_s(times);
    r->step_p50_s        = quantiles_at(times, 0.5);
    r->step_p95_s        = quantiles_at(times, 0.95);
    r->step_p99_s        = quantiles_at(times, 0.99);
    r->input_share       = loop_input_share(l);
    r->split             = clock_split(l->clock);
}

static struct train_startup startup_of(const struct step_split *s)
{
    return (struct train_startup){ .data    = (f64)s->ns[PART_start_data] * 1e-9,
                                   .device  = (f64)s->ns[PART_start_device] * 1e-9,
                                   .compile = (f64)s->ns[PART_start_compile] * 1e-9,
                                   .kernels = (f64)s->ns[PART_start_kernels] * 1e-9,
                                   .weights = (f64)s->ns[PART_start_weights] * 1e-9 };
}

void tell_result(struct loop *l)
{
    struct train_result *r = l->result;
    clock_enter(l->clock, PART_other);
    loop_note_time(l);
    add_speed(l, r);
    r->steps           = l->at.step;
    r->startup         = startup_of(&r->split);
    r->epochs          = l->at.epoch + 1;
    r->power           = meter_end(&l->meter, &l->s);
    r->samples_skipped = loader_stats(l->loader).skipped;
    if (l->s.eval_loader) r->samples_skipped += loader_stats(l->s.eval_loader).skipped;
    if (l->s.settings->timed) judge_rate(&l->s, &l->rates, &l->guard.stop); /* others have ended */
    r->together           = together_waited(l);
    r->evidence           = tell_evidence(l, lookout_end(l->lookout));
    r->evidence.slowest   = r->together.slowest;
    r->evidence.waited_ns = r->together.waited_ns;
    r->loss               = l->at.eval_step >= 0 ? l->at.last_eval.loss : l->at.loss;
    r->metric_count       = l->at.eval_step >= 0 ? l->at.last_eval.metric_count : 0;
    memcpy(r->metrics, l->at.last_eval.metrics, sizeof r->metrics);
    r->scaling        = l->scaling;
    r->target_set     = !isnan(l->s.settings->train.target);
    r->target_reached = l->at.last_eval.target_reached;
    r->saving         = l->saving.figures;
    r->noise_scale    = noise_scale(&l->at.noise);
    if (l->s.config.square) r->noise_absent = noise_absent(&l->at.noise, l->s.perm);
    r->step_samples        = session_step_samples(&l->s);
    r->arena_bytes_planned = l->s.set->arena_bytes;
    r->arena_bytes_used    = l->s.backend->table->used_bytes(l->s.backend);
    r->device_bytes =
        l->s.backend->table->device_bytes ? l->s.backend->table->device_bytes(l->s.backend) : -1;
    r->peak_rss_bytes = os_peak_rss_bytes();
    if (l->kept) r->out = l->s.settings->train.out;
    r->seconds = bill_elapsed_s(l->bill);
    guard_result(&l->guard, l->at.step, r);
}

static void add_saving(struct event_done *e, const struct train_saving *v)
{
    e->checkpoints          = v->count;
    e->checkpoints_failed   = v->failed;
    e->checkpoints_late     = v->late;
    e->checkpoint_step      = v->step;
    e->checkpoint_bytes     = v->bytes;
    e->resumed_step         = v->resumed_step;
    e->checkpoint_blocked_s = v->blocked_s;
    e->checkpoint_total_s   = v->total_s;
    e->remote_step          = v->remote_step;
    e->remote_puts          = v->remote_puts;
    e->remote_gets          = v->remote_gets;
    e->remote_bytes         = v->remote_bytes;
    e->requests_usd         = v->requests_usd;
    e->storage_usd          = v->storage_usd;
}

static f64 notice_s(struct train_orders *o)
{
    if (!o) return NAN;
    pthread_mutex_lock(&o->lock);
    f64 s = o->notice_s != 0 ? o->notice_s : NAN;
    pthread_mutex_unlock(&o->lock);
    return s;
}

bool tell_taken(const struct train_with *with, const struct train_result *r)
{
    return r->stopped == STOP_SIGNAL && !isnan(notice_s(with->orders));
}

/* By the machine's provider, which says when; a user's signal says nothing. */
static void tell_interruption(const struct train_with *with, const struct train_result *r)
{
    f64 given_s = notice_s(with->orders);
    emit_interruption(with->to, &(struct event_interruption){
                                    .kind       = isnan(given_s) ? STR("signal") : STR("notice"),
                                    .notice_s   = given_s,
                                    .step       = r->steps,
                                    .saved_step = MAX(r->saving.step, 0) });
}

void tell_done(const struct train_with *with, const struct train_result *r, struct clock *clock)
{
    struct event_done e = { .steps           = r->steps,
                            .epochs          = r->epochs,
                            .seconds         = r->seconds,
                            .first_step_ms   = r->first_step_ms,
                            .start_data_s    = r->startup.data,
                            .start_device_s  = r->startup.device,
                            .start_compile_s = r->startup.compile,
                            .start_kernels_s = r->startup.kernels,
                            .start_weights_s = r->startup.weights,
                            .samples_per_s   = r->samples_per_s,
                            .tokens_per_s    = r->tokens_per_s,
                            .flops_per_s     = r->flops_per_s,
                            .steps_per_s     = r->steps_per_s,
                            .step_p50_s      = r->step_p50_s,
                            .step_p95_s      = r->step_p95_s,
                            .step_p99_s      = r->step_p99_s,
                            .input_share     = r->input_share,
                            .split_ns        = r->split,
                            .mfu             = r->mfu,
                            .mfu_measured    = r->mfu_measured,
                            .energy_wh       = r->power.energy_wh,
                            .watts           = r->power.watts,
                            .sm_activity     = r->power.sm_activity,
                            .loss            = r->loss,
                            .metrics         = metrics_of(r->metrics, r->metric_count),
                            .target_reached  = r->target_set ? r->target_reached : -1,
                            .stopped         = r->stopped,
                            .why             = str_of(r->why),
                            .rollbacks       = r->rollbacks,
                            .samples_skipped = r->samples_skipped,
                            .weights_step    = r->weights_step,
                            .saved_s         = r->saved_s,
                            .saved_dollars   = r->saved_dollars,
                            .loss_scale      = r->scaling.scale,
                            .skipped         = r->scaling.skipped,
                            .noise_scale     = r->noise_scale,
                            .batch_advised =
                                isnan(r->noise_scale) ? -1 : noise_batch(r->noise_scale),
                            .dollars             = r->dollars,
                            .arena_bytes_planned = r->arena_bytes_planned,
                            .arena_bytes_used    = r->arena_bytes_used,
                            .device_bytes        = r->device_bytes,
                            .peak_rss_bytes      = r->peak_rss_bytes,
                            .out                 = r->out,
                            .step_samples        = r->step_samples,
                            .terms_ns            = terms_of(clock),
                            .busy                = r->evidence.usage.mean,
                            .noise_absent        = r->noise_absent,
                            .ranks               = r->together.ranks,
                            .slowest_rank        = r->together.slowest,
                            .machines            = r->together.machines,
                            .waited_s            = 1e-9 * (f64)r->together.waited_ns,
                            .sent_bytes          = r->together.sent_bytes };
    if (r->evidence.usage.shape) e.usage = str_of(usage_name(r->evidence.usage.shape));
    add_saving(&e, &r->saving);
    if (r->stopped == STOP_SIGNAL) tell_interruption(with, r);
    emit_done(with->to, &e);
}
