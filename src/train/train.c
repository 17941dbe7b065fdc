/* train.c - the loop: batch, gradients, update; evaluation when due; stop at the end, when a signal
 * asks, or when guard.c says so. Nothing is allocated between two steps. */
#include "train/train.h"
#include "train/replay.h"
#include "train/saving.h"
#include <math.h>
#include <string.h>

enum { PERM_RESERVE_GIB = 64 }; /* address space only: pages are taken when touched */

enum { ETA_STEPS = 5, LOADING_STEPS = 100 }; /* before them, start-up would be taken for the pace */

static const f64 waits_much    = 0.1;                /* of a step, for its data */
static const i64 peak_after_ns = (i64)5000000000;

struct loop {
    struct session               s;
    const struct train_listener *listener;
    struct loader               *loader;
    struct replay                replay;
    i64                          begin_ns;  /* of the run */
    struct limits                limits;
    struct lint_facts            facts;
    bool                         told[LINT_COUNT]; /* by rule */
    struct run_state             at;
    i64                          steps_before, samples_before; /* by earlier processes */
    struct train_metric          metric;
    struct train_scaling         scaling;
    struct guard                 guard;
    struct saving                saving;
    struct meter                 meter;
    struct lookout              *lookout;
    i64                          evaluations; /* of this process */
    i64                          first_wait_ns; /* for its first batch: start-up, no sign of slow data */
    struct step_split            split; /* of this process's steps, as are the next two */
    struct quantiles             times; /* of steps, loading included, evaluation not */
    struct profile              *profile;      /* NULL: no step is looked at */
    bool                         profile_told;
    f64                          step_flops;   /* of a whole one, what is recomputed included */
    f64                          useful;       /* useful_share; NaN: not known yet */
    f64                          peak_flops_s; /* peak_measured, likewise */
    bool                         looks_ahead; /* see can_look_ahead */
    struct batch                *ahead; /* of the next step, if it was fetched already */
    enum status                  input; /* of the batch that did not come, and why */
    struct err                   input_err;
    bool                         begun; /* its gradients are being computed */
    bool                         evaluates;
    bool                         kept; /* train.out was written */
    struct train_result         *result;
};

/* Tells all who listen. */
#define TELL(first, on_event, event)                                                               \
    for (const struct train_listener *to = (first); to; to = to->next)                             \
        if (to->on_event) to->on_event(to->context, event)

static i64 now_ns(struct loop *l) { return l->s.os->now_ns(l->s.os); }

/* From now on the run's time belongs to that part, in the ledger's terms too; returns when that is. */
static i64 enter(struct loop *l, enum part part)
{
    struct account *a   = l->listener->account;
    i64             now = now_ns(l), since = l->split.since_ns;
    profile_part(l->profile, split_enter(&l->split, part, now), since, now);
    if (part == PART_input) account_enter(a, TERM_loading, now);
    if (part == PART_evaluation) account_enter(a, TERM_evaluation, now);
    if (part == PART_checkpoint) account_enter(a, TERM_checkpoint, now);
    return now;
}

static f64 elapsed_s(struct loop *l) { return (f64)(now_ns(l) - l->begin_ns) / 1e9; }

static f64 dollars(struct loop *l) { return elapsed_s(l) / 3600 * l->s.settings->train.usd_hour; }

/* Its running statistics are the only buffers there are. */
static bool has_batch_norm(const struct program_set *set)
{
    for (i32 i = 0; i < set->persistent_count; i++)
        if (set->persistents[i].kind == VALUE_BUFFER) return true;
    return false;
}

static void tell_start(struct loop *l)
{
    struct session    *s = &l->s;
    struct train_start e = { .run                 = l->saving.resume.run,
                             .step                = l->at.step,
                             .device              = s->target.name,
                             .gpus                = s->target.gpus,
                             .parameters          = weights_count(s, false),
                             .parameters_trained  = weights_count(s, true),
                             .train_samples       = dataset_count(s->data, SPLIT_TRAIN),
                             .eval_samples        = dataset_count(s->data, SPLIT_EVAL),
                             .sample_tokens       = model_rows(s->model) > 1 ? model_rows(s->model) : 0,
                             .batch               = s->config.batch,
                             .accumulate          = MAX(s->config.accumulate, 1),
                             .batch_reason        = s->batch_reason,
                             .batch_norm          = has_batch_norm(s->set),
                             .steps               = l->limits.steps,
                             .epochs              = l->limits.epochs,
                             .arena_bytes_planned = s->set->arena_bytes,
                             .precision           = precision_name(s->precision.dtype),
                             .precision_reason    = s->precision.reason,
                             .metric              = l->guard.stop.config.metric,
                             .optimiser           = optimiser_name(s->config.optimiser),
                             .optimiser_reason    = s->optimiser_reason,
                             .muon_share          = s->muon_share,
                             .checkpoint_bytes    = l->saving.snapshot.bytes,
                             .copy_bytes          = l->guard.copy_bytes,
                             .flops_step          = session_step_flops(s),
                             .usd_hour            = s->settings->train.usd_hour,
                             .lr                  = l->limits.rates.lr,
                             .set                 = s->set,
                             .target              = &s->target,
                             .lr_given            = s->settings->train.lr };
    TELL(l->listener, on_start, &e);
    if (s->note.len) TELL(l->listener, on_note, s->note);
}

/* What was not told yet. */
static void tell_findings(struct loop *l)
{
    struct arena   scratch = l->s.scratch;
    struct finding found[LINT_COUNT];
    i64            count = lint(&l->facts, found, &scratch);
    for (i64 i = 0; i < count; i++) {
        if (l->told[found[i].rule]) continue;
        l->told[found[i].rule] = true;
        TELL(l->listener, on_finding, &found[i]);
    }
}

/* Once the pace is known: a step that waits for its data takes as long as they do. */
static void judge_loading(struct loop *l)
{
    f64 step_s = (f64)l->at.steps_ns * 1e-9 / (f64)l->at.step, wait_s = (f64)l->at.waited_ns * 1e-9 / (f64)l->at.step;
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
    struct str text = str_fmt(&scratch, "%s: %.*s", l->s.target.bus_id.len ? "the GPU" : "the cores",
                              STR_ARG(usage_text(&u, &scratch)));
    TELL(l->listener, on_note, text);
}

static f64 tokens_per_s(const struct loop *l, f64 samples_per_s)
{
    i64 rows = model_rows(l->s.model);
    return rows > 1 ? samples_per_s * (f64)rows : NAN;
}

/* What MFU is measured by: once, when it is less than a hundredth of the run so far. */
static void measure_peak(struct loop *l)
{
    if (!isnan(l->useful) || l->s.settings->timed || split_sum(&l->split) < peak_after_ns) return;
    l->useful       = useful_share(&l->s);
    l->peak_flops_s = peak_measured(&l->s);
}

static f64 input_share(const struct loop *l) { return (f64)l->at.waited_ns / (f64)l->at.steps_ns; }

static void tell_step(struct loop *l, f64 lr)
{
    f64                   rate = (f64)l->at.samples / ((f64)l->at.steps_ns / 1e9);
    struct train_progress e    = { .step          = l->at.step,
                                   .steps         = l->limits.steps,
                                   .epoch         = l->at.epoch + 1,
                                   .epochs        = l->limits.epochs,
                                   .samples       = l->at.samples - l->samples_before,
                                   .elapsed_s     = elapsed_s(l),
                                   .eta_s         = NAN,
                                   .lr            = lr,
                                   .loss          = l->at.loss,
                                   .metric        = l->metric,
                                   .scaling       = l->scaling,
                                   .samples_per_s = rate,
                                   .tokens_per_s  = tokens_per_s(l, rate),
                                   .input_share   = input_share(l),
                                   .peak_flops_s  = l->peak_flops_s,
                                   .times         = &l->times,
                                   .split         = &l->split,
                                   .dollars       = dollars(l) };
    e.model_flops_per_s         = l->useful * l->step_flops * quantiles_per_s(&l->times);
    f64                   age_s = elsewhere_age_s(&l->saving.resume.elsewhere);
    e.remote_age_s              = isnan(age_s) ? 0 : age_s;
    if (l->limits.steps && l->at.step >= ETA_STEPS)
        e.eta_s = e.elapsed_s / (f64)l->at.step * (f64)(l->limits.steps - l->at.step);
    TELL(l->listener, on_step, &e);
}

/* Of the step that begins with sample `first` of its epoch. */
static i64 step_samples(const struct loop *l, i64 first)
{
    return MIN(session_step_samples(&l->s), session_epoch_samples(&l->s) - first);
}

static f64 lr_of(const struct loop *l, i64 step)
{
    return schedule_lr(&l->limits.rates, step, l->limits.steps) * l->guard.lr_factor;
}

/* The caller waited since begin_ns, and it came or never will. */
static struct batch *got_batch(struct loop *l, struct batch *b, i64 begin_ns)
{
    i64 end_ns = enter(l, PART_other);
    replay_keep(&l->replay, b, dataset_feeds(l->s.data), l->s.perm);
    account_step(l->listener->account, l->at.step, end_ns);
    l->at.waited_ns += end_ns - begin_ns;
    return b;
}

/* The first of a step, or no more. */
static struct batch *first_batch(struct loop *l)
{
    i64           begin_ns = enter(l, PART_input);
    struct batch *b        = replay_next(&l->replay);
    if (!b) b = session_batch(&l->s, l->loader, l->at.step, &l->input, &l->input_err);
    got_batch(l, b, begin_ns);
    if (!l->first_wait_ns) l->first_wait_ns = l->split.ns[PART_input];
    return b;
}

/* Another of the same step, which listens to nobody: half a step cannot be saved. */
static struct batch *next_batch(struct loop *l)
{
    i64           begin_ns = enter(l, PART_input);
    struct batch *b        = replay_next(&l->replay);
    if (!b) b = loader_next(l->loader);
    if (!b) l->input = loader_failed(l->loader, &l->input_err);
    return got_batch(l, b, begin_ns);
}

/* On a device that works behind our back this only asks for the work, unless the step is profiled. */
static void run_program(struct loop *l, enum program_id id)
{
    struct backend *b    = l->s.backend;
    enum part       part = id == PROGRAM_UPDATE ? PART_update : PART_compute;
    if (!profile_on(l->profile, l->at.step)) {
        enter(l, b->table->behind ? PART_launch : part);
        b->table->run(b, l->s.set->programs[id]);
        enter(l, PART_other);
        return;
    }
    i64 begin = enter(l, part);
    b->table->time(b, l->s.set->programs[id], profile_seconds(l->profile));
    i64 end = now_ns(l);
    split_enter(&l->split, PART_other, end);
    profile_ran(l->profile, id, begin, end, part, &l->split);
}

/* One micro-batch of a step: its gradients overwrite those of the last step or are added to those of this. */
static void micro_step(struct loop *l, const struct batch *b, i64 step, i64 first_sample, f64 lr)
{
    struct session     *s     = &l->s;
    const struct feeds *feeds = dataset_feeds(s->data);
    bool                full  = b->count == s->config.batch;
    enum program_id     begin = full ? PROGRAM_TRAIN : PROGRAM_TRAIN_LAST;
    enum program_id     go_on = full ? PROGRAM_ADD : PROGRAM_ADD_LAST;
    i64                 rows  = step_samples(l, b->index - first_sample) * model_rows(s->model);
    enter(l, PART_copy);
    session_put_scalars(s, step, rows, first_sample, lr);
    for (i32 f = 0; f < feeds->count; f++)
        session_put(s, feeds->feed[f].name, b->data[f], b->count * type_bytes(feeds->feed[f].type));
    run_program(l, first_sample ? go_on : begin);
}

/* What the last program tells of itself. */
struct told {
    struct asked loss, hits;
};

static void ask_losses(struct loop *l, struct told *t)
{
    session_ask(&l->s, STR("loss"), &t->loss);
    if (session_has(&l->s, STR("hits"))) session_ask(&l->s, STR("hits"), &t->hits);
}

static void add_losses(struct loop *l, const struct told *t, i64 rows)
{
    enter(l, PART_compute); /* until the answers are there, scaling_now's too */
    l->at.loss += session_answer(&l->s, &t->loss) / (f64)rows;
    if (session_has(&l->s, STR("hits"))) {
        l->metric.name = STR("accuracy");
        l->metric.value += session_answer(&l->s, &t->hits) / (f64)rows;
    }
}

/* The squared norm of the gradients summed so far in this step. */
static f64 gradient_square(struct loop *l)
{
    struct session *s = &l->s;
    f64 square, scale = scaling_now(s).scale; /* of fp16 losses; NaN: none */
    run_program(l, PROGRAM_SQUARE);
    enter(l, PART_compute);
    session_get_numbers(s, STR("grad_square"), &square, 1);
    return isnan(scale) ? square : square / (scale * scale);
}

static bool writes_state(const struct program *p)
{
    for (i32 i = 0; p && i < p->graph->node_count; i++)
        if (op_info(p->graph->nodes[i].op)->effect == EFFECT_STATE) return true;
    return false;
}

/* May the next step's gradients be computed before this one's loss is known? Where the device works behind
 * the host's back, so that it need not wait while the host looks; and where that leaves no trace if the run
 * takes another turn: gradients are computed again, running statistics and fp8's scales would not be. */
static bool can_look_ahead(const struct session *s)
{
    bool plain = s->config.accumulate <= 1 && !s->config.square && s->config.precision != DT_F16 &&
                 !s->settings->train.gradients.len;
    return plain && s->backend->table->behind && !writes_state(s->set->programs[PROGRAM_TRAIN]) &&
           !writes_state(s->set->programs[PROGRAM_TRAIN_LAST]);
}

/* Not before the data is there, not past the end, not before an evaluation, and not where it would blur a profiled step. */
static bool ahead_due(const struct loop *l, const struct batch *b)
{
    bool last  = l->limits.steps && l->at.step + 1 >= l->limits.steps;
    i64  every = l->s.settings->train.eval_every;
    bool eval  = l->evaluates && (every ? (l->at.step + 1) % every == 0 : b->ends_epoch);
    bool timed = profile_on(l->profile, l->at.step) || profile_on(l->profile, l->at.step + 1);
    return l->looks_ahead && !last && !eval && !timed && loader_ready(l->loader, 0);
}

static void look_ahead(struct loop *l)
{
    l->ahead = next_batch(l);
    l->begun = l->ahead;
    if (l->ahead) micro_step(l, l->ahead, l->at.step + 1, 0, lr_of(l, l->at.step + 1));
}

static void update(struct loop *l)
{
    struct backend *b = l->s.backend;
    if (saving_copies(&l->saving)) {
        enter(l, PART_checkpoint);
        saving_wait_copied(&l->saving);
        account_step(l->listener->account, l->at.step, enter(l, PART_other));
    }
    run_program(l, PROGRAM_UPDATE);
    b->table->mark(b);
}

/* One update from the micro-batches that make it; the epoch's end makes a smaller one. Returns the
 * last of them, or none (l->input) and nothing is done. */
static struct batch step(struct loop *l, struct batch *b, f64 lr)
{
    struct session *s       = &l->s;
    i64             samples = step_samples(l, b->index), rows = samples * model_rows(s->model);
    i64             done = 0, first = b->count;
    f64             part = NAN; /* of the whole gradient's square, from the first batch alone */
    struct told     told;
    l->at.loss = l->metric.value = 0;
    for (;;) {
        if (!l->begun) micro_step(l, b, l->at.step, done, lr);
        l->begun = false;
        ask_losses(l, &told);
        if (!done && s->config.square) part = gradient_square(l);
        done += b->count;
        if (done >= samples) break;
        add_losses(l, &told, rows);
        b = next_batch(l);
        if (!b) return (struct batch){ 0 };
    }
    if (s->config.square) {
        f64 times = (f64)samples / (f64)first; /* it was divided by all the step's rows */
        noise_add(&l->at.noise, part * times * times, first, gradient_square(l), samples);
    }
    update(l);
    struct batch last = *b; /* the loader may take it back now */
    if (ahead_due(l, b)) look_ahead(l);
    add_losses(l, &told, rows);
    l->scaling = scaling_now(s);
    l->at.step++;
    l->at.samples += samples;
    return last;
}

/* How far the learning rate has still to fall, from the highest to come to the last, as a part of
 * its peak. */
static f64 fall_to_come(const struct loop *l)
{
    enum { LOOKS = 32 };
    i64 left = l->limits.steps - 1 - l->at.step;
    f64 high = 0, end = 0;
    for (i64 i = 0; left > 0 && i <= LOOKS; i++) {
        end  = schedule_lr(&l->limits.rates, l->at.step + left * i / LOOKS, l->limits.steps);
        high = MAX(high, end);
    }
    return (high - end) / l->limits.rates.lr;
}

static enum status evaluate_now(struct loop *l, enum stop_action *now, struct err *err)
{
    struct train_eval e  = { .step = l->at.step, .epoch = l->at.epoch + 1 };
    enter(l, PART_evaluation);
    lookout_mark(l->lookout, RHYTHM_EVALUATION);
    l->evaluations++;
    enum status st = evaluate(&l->s, &e, err);
    if (st) return st; /* half an evaluation says nothing: the one before it stands */
    l->at.eval_due = false;
    e.elapsed_s  = elapsed_s(l);
    e.dollars    = dollars(l);
    *now         = guard_eval(&l->guard, &e, fall_to_come(l));
    e.forecast   = l->guard.stop.forecast;
    l->at.last_eval = e;
    l->at.eval_step = l->at.step;
    enter(l, PART_logging);
    TELL(l->listener, on_eval, &e);
    enter(l, PART_other);
    return STATUS_OK;
}

/* When asked for, and at the end of the run. */
static bool eval_due(const struct loop *l, const struct batch *b, enum stop_action now)
{
    i64 every = l->s.settings->train.eval_every;
    if (!l->evaluates || now == STOP_ROLL_BACK || !isfinite(l->at.loss)) return false;
    if (now == STOP_NOW || l->at.step == l->limits.steps) return true;
    return every ? l->at.step % every == 0 : b->ends_epoch;
}

/* The loader does not go back: the batches that led astray are passed over. */
static void roll_back(struct loop *l)
{
    struct guard         *g = &l->guard;
    struct train_rollback e = { .step      = l->at.step,
                                .to_step   = g->copy_step,
                                .count     = g->stop.rollbacks,
                                .count_max = g->stop.config.rollbacks,
                                .why       = g->stop.text };
    guard_roll_back(g);
    l->begun = false; /* gradients of weights that are gone */
    e.lr_factor  = g->lr_factor;
    l->at.step      = g->copy_step;
    l->at.last_eval = g->copy_eval;
    l->at.eval_step = g->copy_eval.samples ? g->copy_step : -1;
    TELL(l->listener, on_rollback, &e);
}

/* What follows a step: an evaluation, going back, a checkpoint. One that is interrupted in its
 * evaluation makes that up when it goes on. */
static enum status after_step(struct loop *l, enum stop_action now, struct err *err)
{
    enum status st = STATUS_OK;
    if (l->at.eval_due) st = evaluate_now(l, &now, err);
    if (!st && now == STOP_ROLL_BACK) roll_back(l);
    return st;
}

static enum status input_failed(const struct loop *l, struct err *err)
{
    if (l->input && err) *err = l->input_err;
    return l->input;
}

/* What the loader has decided or left out. */
static void tell_loader(struct loop *l)
{
    char line[LOADER_LINE_MAX];
    while (dataset_says(l->s.data, line)) TELL(l->listener, on_note, str_of(line));
    while (loader_says(l->loader, line)) TELL(l->listener, on_note, str_of(line));
    while (l->s.eval_loader && loader_says(l->s.eval_loader, line))
        TELL(l->listener, on_note, str_of(line));
}

static enum status one_step(struct loop *l, struct batch *b, i64 begin_ns, struct err *err)
{
    struct stop *stop = &l->guard.stop;
    f64 lr      = lr_of(l, l->at.step);
    l->at.epoch = b->epoch;
    lookout_mark(l->lookout, RHYTHM_STEP);
    struct batch last = step(l, b, lr);
    if (l->input) return input_failed(l, err);
    i64 step_ns = enter(l, PART_logging) - begin_ns;
    l->at.steps_ns += step_ns;
    quantiles_add(&l->times, step_ns);
    l->at.next_epoch = last.epoch;
    l->at.next_index = last.index + last.count;
    if (isnan(l->result->first_step_ms))
        l->result->first_step_ms = (f64)os_process_age_ns() / 1e6;
    tell_step(l, lr);
    tell_loader(l);
    judge_loading(l);
    tell_usage(l);
    enter(l, PART_other);
    measure_peak(l);
    enum stop_action now = stop_step(stop, l->at.step, elapsed_s(l), l->at.loss);
    enum status      st  = scaling_check(l->scaling, l->at.step, err);
    l->at.eval_due       = eval_due(l, &last, now);
    if (!st) st = after_step(l, now, err);
    l->at.elapsed_ns = now_ns(l) - l->begin_ns;
    if (!st && !stop->reason) st = session_check_signal(&l->s, l->at.step, err);
    if (st || !l->saving.saver) return st;
    enter(l, PART_checkpoint);
    st = saving_step(&l->saving, step_ns, err);
    if (l->saving.taken_step == l->at.step) lookout_mark(l->lookout, RHYTHM_CHECKPOINT);
    enter(l, PART_other);
    return st;
}

static void tell_profile(struct loop *l)
{
    struct session *s = &l->s;
    struct target   t = s->target;
    if (!l->profile || l->profile_told) return;
    l->profile_told = true;
    if (s->backend->table->rate) s->backend->table->rate(s->backend, &t);
    TELL(l->listener, on_profile, (&(struct train_profile){ l->profile, &t }));
}

/* A step begins, or the run ends. What begins with the clock's reading that it returns is the step's. */
static i64 begin_step(struct loop *l)
{
    i64 begin = enter(l, PART_other);
    profile_step(l->profile, l->at.step, begin, &l->split);
    if (l->profile_told || !profile_over(l->profile, l->at.step)) return begin;
    tell_profile(l);
    return enter(l, PART_other);
}

static bool is_done(const struct loop *l)
{
    bool steps = l->limits.steps && l->at.step >= l->limits.steps;
    return steps || l->guard.stop.reason || (l->s.settings->profile_only && l->profile_told);
}

/* The last state is saved before the reason of the end becomes part of it, unless it is the run's own. */
static enum status steps(struct loop *l, struct err *err)
{
    struct stop *stop = &l->guard.stop;
    enum status  st   = session_check_signal(&l->s, l->at.step, err); /* it may have come before */
    if (!st && l->at.eval_due) st = after_step(l, STOP_GO_ON, err);
    while (!st && !is_done(l)) {
        i64           begin_ns = begin_step(l);
        if (is_done(l)) break;
        struct batch *b        = l->ahead ? l->ahead : first_batch(l);
        if (l->ahead) account_step(l->listener->account, l->at.step, begin_ns);
        l->ahead = NULL;
        if (!b) st = input_failed(l, err);
        if (!b) break;
        st = one_step(l, b, begin_ns, err);
    }
    begin_step(l); /* ends the last */
    tell_profile(l);
    if (l->saving.saver) enter(l, PART_checkpoint);
    if (stop->reason != STOP_DIVERGED && (!st || st == STATUS_INTERRUPTED)) {
        struct err  why   = { 0 };
        enum status saved = saving_end(&l->saving, st, &why);
        if (saved && err) *err = why;
        if (saved) st = saved;
    }
    if (st == STATUS_INTERRUPTED) stop_end(stop, STOP_SIGNAL, l->at.step);
    else stop_end(stop, STOP_END, l->at.step);
    if (!st && stop->reason == STOP_DIVERGED) st = err_set(err, STATUS_NO, "%s", stop->text);
    return st;
}

static void fill_result(struct loop *l)
{
    struct train_result *r = l->result;
    r->steps               = l->at.step;
    r->startup             = l->s.startup;
    r->epochs              = l->at.epoch + 1;
    r->samples_per_s       = l->at.steps_ns ? (f64)l->at.samples / ((f64)l->at.steps_ns / 1e9) : NAN;
    r->tokens_per_s        = tokens_per_s(l, r->samples_per_s);
    r->flops_per_s         = l->step_flops / (f64)session_step_samples(&l->s) * r->samples_per_s;
    if (isnan(l->useful)) l->useful = useful_share(&l->s);
    r->model_flops_per_s   = l->useful * r->flops_per_s;
    r->peak_flops_s        = l->peak_flops_s;
    r->steps_per_s         = quantiles_per_s(&l->times);
    r->step_p50_s          = quantiles_at(&l->times, 0.5);
    r->step_p95_s          = quantiles_at(&l->times, 0.95);
    r->step_p99_s          = quantiles_at(&l->times, 0.99);
    r->input_share         = input_share(l);
    r->split               = l->split;
    r->power               = meter_end(&l->meter, &l->s);
    struct loader_stats loaded = loader_stats(l->loader);
    r->samples_skipped     = loaded.skipped;
    if (l->s.eval_loader) r->samples_skipped += loader_stats(l->s.eval_loader).skipped;
    r->evidence            = judge_end(&l->s, l->lookout, &l->split, &l->saving, &loaded,
                                       (struct judged_counts){ l->at.step - l->steps_before, l->evaluations,
                                                               l->limits.epoch_steps, l->first_wait_ns });
    r->loss                = l->at.eval_step >= 0 ? l->at.last_eval.loss : l->at.loss;
    r->metric_count        = l->at.eval_step >= 0 ? l->at.last_eval.metric_count : 0;
    memcpy(r->metrics, l->at.last_eval.metrics, sizeof r->metrics);
    r->scaling             = l->scaling;
    r->target_set          = !isnan(l->s.settings->train.target);
    r->target_reached      = l->at.last_eval.target_reached;
    r->saving              = l->saving.figures;
    r->noise_scale         = noise_scale(&l->at.noise);
    r->step_samples        = session_step_samples(&l->s);
    r->arena_bytes_planned = l->s.set->arena_bytes;
    r->arena_bytes_used    = l->s.backend->table->used_bytes(l->s.backend);
    r->device_bytes        = l->s.backend->table->device_bytes ? l->s.backend->table->device_bytes(l->s.backend) : -1;
    r->peak_rss_bytes      = os_peak_rss_bytes();
    if (l->kept) r->out = l->s.settings->train.out;
    r->seconds = elapsed_s(l);
    r->dollars = dollars(l);
    guard_result(&l->guard, l->at.step, r);
}

static enum status open_loader(struct loop *l, struct err *err)
{
    const struct train_config *c      = &l->s.settings->train;
    struct loader_config       config = { .split     = SPLIT_TRAIN,
                                          .seed      = c->seed,
                                          .shuffle   = c->shuffle,
                                          .drop_last = c->drop_last,
                                          .forever   = true,
                                          .skip      = str_eq(l->s.settings->data.on_error, STR("skip")),
                                          .batch     = l->s.config.batch,
                                          .epoch     = l->at.next_epoch,
                                          .index     = l->at.next_index,
                                          .epochs    = l->limits.epochs,
                                          .options   = l->s.settings->loader };
    return loader_open(l->s.perm, l->s.data, &config, &l->loader, err);
}

/* What the user wants written, also after an interruption; but untrained weights never take the
 * place of older ones. A failure to write outranks the interruption. */
static enum status keep(struct loop *l, enum status st, struct err *err)
{
    struct session            *s   = &l->s;
    const struct train_config *c   = &s->settings->train;
    struct err                 why = { 0 };
    enum status                bad = STATUS_OK;
    bool                       best = guard_restore_best(&l->guard, l->at.step, st);
    if (best) l->at.last_eval = l->guard.copy_eval;
    else if (st == STATUS_NO) l->at.eval_step = -1; /* what was judged then is lost */
    if (st && !best && (st != STATUS_INTERRUPTED || !l->at.step)) return st;
    if (c->out.len) bad = weights_save(s, WEIGHTS_VALUES, c->out, &why);
    if (!bad && c->gradients.len) bad = weights_save(s, WEIGHTS_GRADIENTS, c->gradients, &why);
    if (bad && err) *err = why;
    l->kept = c->out.len && !bad;
    return bad ? bad : st;
}

/* Found out before the first step, not after the last. */
static enum status keep_check(struct session *s, struct err *err)
{
    const struct train_config *c  = &s->settings->train;
    enum status                st = STATUS_OK;
    if (c->out.len) st = weights_save_check(s, WEIGHTS_VALUES, c->out, err);
    if (!st && c->gradients.len) st = weights_save_check(s, WEIGHTS_GRADIENTS, c->gradients, err);
    return st;
}

/* All that can be found out before memory is allocated for it. */
static enum status prepare(struct loop *l, struct os *os, const struct settings *settings,
                           struct arena *perm, struct err *err)
{
    enum status st = lint_check_allowed(&settings->train, err);
    if (!st) st = session_open(&l->s, os, settings, perm, err);
    if (st) return st;
    l->s.orders  = l->listener ? l->listener->orders : NULL;
    l->limits    = session_limits(&l->s);
    l->evaluates = dataset_count(l->s.data, SPLIT_EVAL) > 0;
    l->looks_ahead = can_look_ahead(&l->s);
    l->replay.wanted = MIN(settings->replay, REPLAY_MAX);
    st           = target_check(&l->s, err);
    if (!st) st = guard_open(&l->guard, &l->s, l->limits.steps, err);
    if (!st) st = saving_plan(&l->saving, &l->s, &l->guard, &l->at, err);
    if (!st) st = open_loader(l, err);
    if (!st) st = keep_check(&l->s, err);
    if (!st) l->facts = facts_of(&l->s, &l->limits);
    return st;
}

enum status train_run(struct os *os, const struct settings *settings,
                      const struct train_listener *listener, struct train_result *result,
                      struct err *err)
{
    struct loop l     = { .listener      = listener,
                          .result        = result,
                          .at            = { .loss = NAN, .eval_step = -1 },
                          .useful        = NAN,
                          .peak_flops_s  = NAN,
                          .scaling.scale = NAN };
    l.begin_ns        = os->now_ns(os);
    *result           = (struct train_result){ .first_step_ms = NAN };
    struct arena perm = arena_open((i64)PERM_RESERVE_GIB << 30);
    if (!perm.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = saving_open(&l.saving, os, settings, listener, &perm, err);
    if (!st) st = prepare(&l, os, &l.saving.resume.settings, &perm, err);
    if (!st) {
        tell_start(&l);
        tell_findings(&l);
        st = session_start(&l.s, err);
    }
    if (!st) st = saving_start(&l.saving, err);
    bool ended = false; /* well, diverged or by a signal: there is something to tell */
    if (!st) {
        l.begin_ns -= l.at.elapsed_ns; /* of earlier starts */
        l.samples_before = l.at.samples;
        l.steps_before   = l.at.step;
        l.scaling        = scaling_now(&l.s);
        l.meter          = meter_begin(&l.s);
        l.lookout        = judge_begin(&l.s);
        l.step_flops     = session_step_flops(&l.s);
        split_begin(&l.split, now_ns(&l));
        if (l.s.settings->profile.active)
            l.profile = profile_new(&perm, &l.s.settings->profile, l.s.set, l.at.step,
                                    MAX(l.s.config.accumulate, 1));
        st    = steps(&l, err);
        ended = !st || st == STATUS_INTERRUPTED || st == STATUS_NO;
        enter(&l, PART_checkpoint);
        st    = keep(&l, st, err);
        enter(&l, PART_other);
        fill_result(&l);
    }
    if (l.loader) loader_close(l.loader);
    l.saving.resume.ended = !st;
    saving_close(&l.saving);
    if (session_close(&l.s)) arena_close(&perm);
    if (ended) TELL(listener, on_done, result);
    return st;
}

enum status train_compile(struct os *os, const struct settings *settings, struct arena *perm,
                          struct train_compiled *out, struct err *err)
{
    struct session s;
    enum status    st     = session_open(&s, os, settings, perm, err);
    out->set              = s.set;
    out->optimiser        = optimiser_name(s.config.optimiser);
    out->optimiser_reason = s.optimiser_reason;
    session_close(&s);
    return st;
}

enum status train_check(struct os *os, const struct settings *settings, struct arena *perm,
                        struct train_checked *out, struct err *err)
{
    struct loop l  = { .at.loss = NAN };
    enum status st = prepare(&l, os, settings, perm, err);
    *out           = (struct train_checked){ 0 };
    if (!st) {
        facts_measure(&l.s, l.loader, &l.facts);
        *out               = (struct train_checked){ .arena_bytes  = l.s.set->arena_bytes,
                                                     .batch        = l.s.config.batch,
                                                     .accumulate   = MAX(l.s.config.accumulate, 1),
                                                     .batch_reason = l.s.batch_reason,
                                                     .load_s       = l.facts.load_s,
                                                     .compute_s    = l.facts.compute_s };
        out->finding_count = lint(&l.facts, out->findings, perm);
    }
    if (l.loader) loader_close(l.loader);
    session_close(&l.s);
    return st;
}
