/* loop.c - step after step, until the run ends: evaluation when due, rollbacks, checkpoints, and what signals, caps and
 * guard.c ask for. Nothing is allocated between two steps. */
#include "train/loop.h"
#include "base/digits.h"
#include "train/dealt.h"
#include "train/mistakes.h"
#include "train/save_parts.h"
#include <math.h>
#include <stdio.h>

static const i64 peak_after_ns = (i64)5000000000;

void loop_note_time(struct loop *l)
{
    struct spent spent = bill_spent(l->bill);
    l->at.steps_ns     = l->before.steps_ns + clock_step_times(l->clock)->sum_ns;
    l->at.waited_ns    = l->before.waited_ns + clock_waited_ns(l->clock);
    l->at.elapsed_ns   = spent.ns;
    l->at.spent_usd    = spent.usd;
}

f64 loop_lr(const struct loop *l, i64 step)
{
    return schedule_lr(&l->limits.rates, step, l->limits.steps) * l->guard.lr_factor;
}

/* --- a step that is not finished --- */

/* The run is again where it was after its last whole step. */
static void put_back(struct loop *l)
{
    undo_put_back(&l->undo, &l->at);
    loop_note_time(l);
}

static enum status drop_step(struct loop *l, struct err *err)
{
    f64 lost_s = (f64)(clock_now(l->clock) - l->undo.begin_ns) * 1e-9;
    put_back(l);
    tell_note(l, "step %lld is abandoned after %s s%s", (long long)l->at.step + 1, DIGITS(lost_s),
              l->undo.starved ? ": its data does not arrive" : ", so that there is time to save");
    return session_check_signal(&l->s, l->at.step, err);
}

static enum status input_failed(const struct loop *l, struct err *err)
{
    if (l->input && err) *err = l->input_err;
    return l->input;
}

/* In the middle of a step: what it has changed is put back where that was copied, or else cannot be saved. */
static enum status step_failed(struct loop *l, struct err *err)
{
    l->unread = l->undo.watched && !l->broken;
    if (l->unread) put_back(l);
    return input_failed(l, err);
}

/* --- evaluation --- */

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
    struct train_eval e         = { .step = l->at.step, .epoch = l->at.epoch + 1 };
    i64               before_ns = clock_part_ns(l->clock, PART_evaluation);
    clock_enter(l->clock, PART_evaluation);
    lookout_mark(l->lookout, RHYTHM_EVALUATION);
    l->evaluations++;
    l->ahead.fed = false; /* its batches lie there */
    mistakes_due(l->s.mistakes, bill_elapsed_s(l->bill), l->at.step == l->limits.steps);
    loop_listen(l, undo_leaves_evaluation);
    enum status st = evaluate(&l->s, &e, err);
    loop_listen(l, NULL);
    clock_enter(l->clock, PART_other);
    l->unread = st == STATUS_WORLD;
    if (st) return st; /* half an evaluation says nothing: the one before it stands */
    l->at.eval_due    = false;
    struct spent done = bill_spent(l->bill);
    e.eval_s          = (f64)(clock_part_ns(l->clock, PART_evaluation) - before_ns) * 1e-9;
    e.elapsed_s       = (f64)done.ns * 1e-9;
    e.dollars         = done.usd;
    st                = together_eval(l, &e, err);
    if (st) return st;
    *now            = guard_eval(&l->guard, &e, fall_to_come(l));
    e.forecast      = l->guard.stop.forecast;
    l->at.last_eval = e;
    l->at.eval_step = l->at.step;
    clock_enter(l->clock, PART_logging);
    tell_eval(l, &e);
    if (l->evaluations == 1 && eval_explains(&e)) tell_note(l, "%s", eval_explains(&e));
    if (l->s.mistakes && l->s.mistakes->due)
        mistakes_tell(l->s.mistakes, l->with->to, e.step, l->s.scratch);
    if (overfit_eval(&l->at.overfit, e.step, e.loss)) tell_overfit(l, e.loss);
    if (stop_warns(&l->guard.stop))
        tell_note(l, "%s. train.forecast=0.95 stops such a run", l->guard.stop.text);
    samples_write(l, false);
    clock_enter(l->clock, PART_other);
    return STATUS_OK;
}

/* What writing train.out takes at the end: on a slow disk, as it was never timed. */
static f64 out_s(const struct loop *l)
{
    static const f64 bytes_s = 125e6;
    if (!l->s.settings->train.out.len) return 0;
    return (f64)weights_count(&l->s, false) * sizeof(f32) / bytes_s;
}

/* What caps allow, and what must be kept back of it. An evaluation does without the backward pass, two
 * thirds of a step's work; half of a step for as many samples leaves something for its loading. */
static void update_budget(struct loop *l)
{
    static const f64           eval_part = 0.5;
    const struct train_config *t         = &l->s.settings->train;
    struct stop_config        *c         = &l->guard.stop.config;
    f64                        sample_s  = (f64)l->at.steps_ns * 1e-9 / (f64)MAX(l->at.samples, 1);
    c->limit_s                           = bill_limit_s(l->bill, t->max_seconds,
                                                        t->max_dollars - saving_needs_usd(&l->saving, l->bill));
    c->save_s                            = saving_end_s(&l->saving) + out_s(l);
    c->eval_s = l->evaluates ? eval_part * sample_s * (f64)dataset_count(l->s.data, SPLIT_EVAL) : 0;
}

/* What would pass the cap is not begun: the first that is left out and the last are told. */
static bool eval_fits(struct loop *l, bool last)
{
    const struct stop *s         = &l->guard.stop;
    f64                left_s    = s->config.limit_s - bill_elapsed_s(l->bill);
    char               which[48] = "last evaluation";
    if (stop_eval_fits(s, bill_elapsed_s(l->bill))) return true;
    if (!last) snprintf(which, sizeof which, "evaluation after step %lld", (long long)l->at.step);
    if (last || !l->eval_skipped)
        tell_note(l,
                  "the %s is skipped: it takes about %s s, the last save %s s, and "
                  "the cap leaves %s s",
                  which, DIGITS(s->eval_s > 0 ? s->eval_s : s->config.eval_s),
                  DIGITS(s->config.save_s), DIGITS(MAX(left_s, 0)));
    l->eval_skipped = true;
    return false;
}

/* When asked for, and at the end of the run. */
static bool eval_due(struct loop *l, const struct batch *b, enum stop_action now)
{
    i64  every = l->s.settings->train.eval_every;
    bool last  = now == STOP_NOW || l->at.step == l->limits.steps;
    if (!l->evaluates || now == STOP_ROLL_BACK || !isfinite(l->at.loss)) return false;
    if (!last && !(every ? l->at.step % every == 0 : b->ends_epoch)) return false;
    return eval_fits(l, last);
}

/* --- what follows a step --- */

/* The loader does not go back: the batches that led astray are passed over. */
static void roll_back(struct loop *l)
{
    struct guard         *g = &l->guard;
    struct event_rollback e = { .step          = l->at.step,
                                .to_step       = g->copy_step,
                                .rollbacks     = g->stop.rollbacks,
                                .rollbacks_max = g->stop.config.rollbacks,
                                .why           = str_of(g->stop.text) };
    guard_roll_back(g);
    l->ahead.begun  = false; /* gradients of weights that are gone */
    e.lr_factor     = g->lr_factor;
    l->at.step      = g->copy_step;
    l->at.last_eval = g->copy_eval;
    l->at.eval_step = g->copy_eval.samples ? g->copy_step : -1;
    emit_rollback(l->with->to, &e);
}

/* An evaluation, or going back. A run that is interrupted in its evaluation makes that up when it is resumed. */
static enum status after_step(struct loop *l, enum stop_action now, struct err *err)
{
    enum status st = STATUS_OK;
    if (l->at.eval_due) st = evaluate_now(l, &now, err);
    if (!st && now == STOP_ROLL_BACK) roll_back(l);
    return st;
}

static bool is_done(const struct loop *l)
{
    bool steps = l->limits.steps && l->at.step >= l->limits.steps;
    return steps || l->guard.stop.reason || (l->s.settings->profile_only && l->told_profile);
}

static enum status save_if_due(struct loop *l, i64 step_ns, struct err *err)
{
    bool follows = l->s.ranks && l->s.ranks->rank;
    if (!l->saving.writer && !l->s.ranks) return STATUS_OK;
    clock_enter(l->clock, PART_checkpoint);
    enum status st =
        follows ? parts_follow(&l->saving, err) : saving_step(&l->saving, step_ns, err);
    if (!follows && l->saving.taken_step == l->at.step) lookout_mark(l->lookout, RHYTHM_CHECKPOINT);
    if (!follows && dealt_say(&l->s, DEALT_GO_ON, err)) st = STATUS_WORLD;
    clock_enter(l->clock, PART_other);
    if (st && l->s.ranks && !is_done(l))
        together_fail(l, st, err); /* at the end all agree anyway */
    return st;
}

/* What MFU is measured by: once, when it is less than a hundredth of the run so far. */
static void measure_peak(struct loop *l)
{
    struct step_split split = clock_split(l->clock);
    if (!isnan(l->useful) || l->s.settings->timed || split_sum(&split) < peak_after_ns) return;
    l->useful = useful_share(&l->s);
    if (!isnan(l->peak_flops_s)) return;
    judge_rate(&l->s, &l->rates, &l->guard.stop);
    l->peak_flops_s  = peak_measured(&l->s, &l->rates);
    l->peak_measured = !isnan(l->peak_flops_s);
}

static enum status one_step(struct loop *l, struct batch *b, i64 begin_ns, struct err *err)
{
    struct stop *stop = &l->guard.stop;
    f64          lr   = loop_lr(l, l->at.step);
    undo_begin(&l->undo, &l->at, begin_ns, l->ahead.begun);
    l->at.epoch = b->epoch;
    lookout_mark(l->lookout, RHYTHM_STEP);
    struct batch last = loop_step(l, b, lr);
    if (l->undo.left_off) return drop_step(l, err);
    if (l->input && !last.all) return step_failed(l, err);
    i64 step_ns      = clock_step_end(l->clock);
    l->at.next_epoch = last.epoch;
    l->at.next_index = last.index + last.all;
    loop_note_time(l);
    if (isnan(l->result->first_step_ms))
        l->result->first_step_ms = (f64)clock_age_ns(l->clock) / 1e6;
    tell_step(l, lr);
    clock_enter(l->clock, PART_other);
    update_budget(l);
    overfit_step(&l->at.overfit, l->at.loss);
    enum stop_action now = stop_step(stop, l->at.step, bill_elapsed_s(l->bill), l->at.loss);
    if (!stop->reason) measure_peak(l); /* these two know what is left until a cap */
    if (!stop->reason) tell_verdict_so_far(l);
    enum status st = scaling_check(l->scaling, l->at.step, err);
    l->at.eval_due = eval_due(l, &last, now);
    if (!st) st = together_decide(l, &now, err);
    if (!st) st = after_step(l, now, err);
    loop_note_time(l);
    if (!st && !stop->reason) st = session_check_signal(&l->s, l->at.step, err);
    if (!st && l->input) { /* the next step's data */
        l->unread = true;
        return input_failed(l, err);
    }
    return st ? st : save_if_due(l, step_ns, err);
}

/* --- all of them --- */

/* The last state is saved before the reason of the end becomes part of it, unless it is the run's own: then the save
 * that is under way is finished, for which rank 0 needs the others. */
static enum status save_last(struct loop *l, enum status st, struct err *err)
{
    struct ranks *ranks = l->s.ranks;
    struct err    why   = { 0 };
    bool          spoilt =
        l->guard.stop.reason == STOP_DIVERGED || (st && st != STATUS_INTERRUPTED && !l->unread);
    if (l->saving.writer) clock_enter(l->clock, PART_checkpoint);
    if (spoilt && (!ranks || ranks->failed.status)) return st;
    if (ranks && ranks->rank) return parts_follow(&l->saving, err) ? STATUS_WORLD : st;
    if (spoilt) {
        saving_finish(&l->saving);
        return dealt_say(&l->s, DEALT_GO_ON, err) ? STATUS_WORLD : st;
    }
    enum status saved = saving_end(&l->saving, st, &why);
    if (dealt_say(&l->s, DEALT_GO_ON, &why)) saved = STATUS_WORLD;
    if (l->unread && st && st != STATUS_INTERRUPTED)
        saved = STATUS_OK; /* the data is why the run ends */
    if (saved && err) *err = why;
    return saved ? saved : st;
}

enum status loop_run(struct loop *l, struct err *err)
{
    struct stop *stop = &l->guard.stop;
    enum status  st   = session_check_signal(&l->s, l->at.step, err); /* it may have come before */
    update_budget(l);
    enum stop_action now = STOP_GO_ON;
    if (!st && !stop->reason)
        now = stop_over(stop, bill_elapsed_s(l->bill)); /* by earlier starts */
    if (!st && l->at.eval_due && !stop->reason)
        l->at.eval_due = eval_fits(l, l->at.step == l->limits.steps);
    if (!st) st = together_decide(l, &now, err);
    if (!st && l->at.eval_due && !stop->reason) st = after_step(l, STOP_GO_ON, err);
    while (!st && !is_done(l)) {
        i64 begin_ns = profiling_step(l);
        if (is_done(l)) break;
        struct batch *b = l->ahead.batch ? l->ahead.batch : feed_first(l);
        l->ahead.batch  = NULL;
        if (!b) {
            if (l->s.ranks && l->input) together_tell_failure(l);
            l->unread = true;
            st        = input_failed(l, err);
            break;
        }
        st = one_step(l, b, begin_ns, err);
    }
    profiling_step(l); /* ends the last */
    profiling_tell(l);
    st = save_last(l, st, err);
    if (st == STATUS_INTERRUPTED) stop_end(stop, STOP_SIGNAL, l->at.step);
    else stop_end(stop, STOP_END, l->at.step);
    if (!st && stop->reason == STOP_DIVERGED) st = err_set(err, STATUS_NO, "%s", stop->text);
    return st;
}
