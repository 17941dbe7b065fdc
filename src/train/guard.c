/* guard.c - keeps a run from spending money in vain: applies the policy of stop.c to a session, and
 * holds the one copy of its state that serves both going back and keeping the best.
 *
 * The copy is taken after an evaluation only: there the loss has just shown that the weights are
 * sound, and it costs a fraction of the evaluation before it. Gradients, inputs and scalars are not
 * part of it; the next step makes them anew. */
#include "train/checkpoint_writer.h"
#include "train/train_int.h"
#include <math.h>
#include <string.h>

static const f64 spike = 8; /* standard deviations of the loss: docs/decisions/stopping.md */

/* Weights to go back to continue with the optimiser's state; those that a run ends with need none. */
bool guard_copies(const struct guard *g, const struct persistent *t)
{
    bool going_back = g->s->settings->train.rollbacks > 0;
    bool state =
        t->kind == VALUE_PARAM || t->kind == VALUE_BUFFER || (t->kind == VALUE_STATE && going_back);
    return state && !t->frozen;
}

/* Of several ranks each keeps its own copy, and all must decide alike: hence nothing here depends on a machine.
 * A run that is evaluated at its end only has nothing to choose from. */
static bool keeps_best(const struct session *s, i64 steps_max)
{
    const struct train_config *c = &s->settings->train;
    if (!str_eq(c->keep_best, STR("auto"))) return str_eq(c->keep_best, STR("true"));
    i64  every = c->eval_every ? c->eval_every : session_limits(s).epoch_steps;
    bool dealt = s->ranks && s->config.shard;
    bool once  = steps_max && every >= steps_max;
    return dataset_count(s->data, SPLIT_EVAL) > 0 && !dealt && !once;
}

static void copy_take(struct guard *g, i64 step)
{
    struct backend *b    = g->s->backend;
    u8             *to   = g->copy;
    ticket          last = 0;
    if (g->writer)
        while (!checkpoint_writer_wait(g->writer, 1000000000))
            continue; /* it may be reading the copy */
    for (i32 i = 0; i < g->s->set->persistent_count; i++) {
        const struct persistent *t = &g->s->set->persistents[i];
        if (!guard_copies(g, t)) continue;
        last = b->table->get(b, t->offset, to, type_bytes(t->type));
        to += type_bytes(t->type);
    }
    b->table->wait(b, last);
    g->copy_step = step;
}

static void copy_put_back(struct guard *g)
{
    struct backend *b    = g->s->backend;
    const u8       *from = g->copy;
    if (g->writer) checkpoint_writer_wait_copied(g->writer);
    for (i32 i = 0; i < g->s->set->persistent_count; i++) {
        const struct persistent *t = &g->s->set->persistents[i];
        if (!guard_copies(g, t)) continue;
        b->table->put(b, t->offset, from, type_bytes(t->type));
        from += type_bytes(t->type);
    }
    b->table->mark(b);
}

static enum status check(const struct session *s, struct err *err)
{
    const struct train_config *c     = &s->settings->train;
    bool                       asked = str_eq(c->keep_best, STR("true"));
    const char                *what  = !isnan(c->target) ? "target"
                                       : c->patience     ? "patience"
                                       : asked           ? "keep_best"
                                       : c->rollbacks    ? "rollbacks"
                                                         : NULL;
    if (what && !dataset_count(s->data, SPLIT_EVAL))
        return err_set(err, STATUS_USAGE,
                       "train.%s needs samples to evaluate on: set data.held_out=0.1 "
                       "or data.eval_path",
                       what);
    if (s->ranks && s->config.shard && (asked || c->rollbacks) &&
        train_checkpoint_dir(s->settings).len)
        return err_set(err, STATUS_USAGE,
                       "train.%s keeps a copy that checkpoints cannot hold with train.shard=%.*s: "
                       "train.shard=none",
                       asked ? "keep_best" : "rollbacks", STR_ARG(c->shard));
    if (c->forecast > 0 && isnan(c->target))
        return err_set(err, STATUS_USAGE, "train.forecast needs a target: train.target=0.9");
    if (!isnan(c->max_dollars) && !(c->usd_hour > 0))
        return err_set(err, STATUS_USAGE,
                       "train.max_dollars needs the price of an hour: train.usd_hour=0.10 "
                       "or run.machine=aws/g5.xlarge");
    return STATUS_OK;
}

static enum status plan_copy(struct guard *g, struct err *err)
{
    const struct session *s = g->s;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (guard_copies(g, t)) g->copy_bytes += type_bytes(t->type);
    }
    return session_fits_host(s, g->copy_bytes, "the copy of good weights",
                             "train.keep_best=false, without train.rollbacks", err);
}

enum status guard_open(struct guard *g, struct session *s, i64 steps_max, struct err *err)
{
    const struct train_config *c = &s->settings->train;
    struct stop_config         p = { .metric          = target_metric(s),
                                     .target          = c->target,
                                     .patience        = c->patience,
                                     .min_improvement = c->min_improvement,
                                     .max_seconds     = c->max_seconds,
                                     .max_dollars     = c->max_dollars,
                                     .usd_hour        = c->usd_hour,
                                     .steps_max       = steps_max,
                                     .forecast        = c->forecast,
                                     .rollbacks       = c->rollbacks,
                                     .spike           = spike };
    *g = (struct guard){ .s = s, .keeps_best = keeps_best(s, steps_max), .lr_factor = 1 };
    stop_init(&g->stop, &p);
    enum status st = check(s, err);
    if (!st && (c->rollbacks || g->keeps_best)) st = plan_copy(g, err);
    return st;
}

void guard_start(struct guard *g, i64 step)
{
    if (!g->copy_bytes) return;
    if (!g->copy) g->copy = NEW(g->s->perm, u8, g->copy_bytes);
    g->copy_eval = (struct train_eval){ 0 };
    copy_take(g, step);
}

/* The best evaluation is the best whatever its loss: that of an overfitted run may be far above the first while
 * its metric still improves. Weights to go back to must be sound as well. */
static bool worth_a_copy(const struct guard *g, f64 value, f64 eval_loss)
{
    const struct train_config *t = &g->s->settings->train;
    bool sound                   = g->keeps_best && !t->rollbacks ? g->stop.reason != STOP_DIVERGED
                                                                  : stop_sound(&g->stop, eval_loss);
    bool as_good                 = value == g->stop.best &&
                   eval_loss < g->copy_eval.loss; /* an accuracy of 1 is soon reached */
    return sound && (!g->keeps_best || stop_improved(&g->stop) || as_good);
}

enum stop_action guard_eval(struct guard *g, const struct train_eval *e, f64 fall)
{
    struct stop_eval at  = { .step           = e->step,
                             .elapsed_s      = e->elapsed_s,
                             .eval_s         = e->eval_s,
                             .loss           = e->loss,
                             .value          = eval_metric(g->stop.config.metric, e),
                             .target_reached = e->target_reached,
                             .fall           = fall };
    enum stop_action now = stop_at_eval(&g->stop, &at);
    if (g->copy && worth_a_copy(g, at.value, e->loss)) {
        copy_take(g, e->step);
        g->copy_eval = *e;
    }
    return now;
}

void guard_roll_back(struct guard *g)
{
    copy_put_back(g);
    g->lr_factor *= 0.5;
    stop_rolled_back(&g->stop, g->copy_step);
}

bool guard_restore_best(struct guard *g, i64 step, enum status st)
{
    bool lost   = st == STATUS_NO; /* the last weights are of no use */
    bool gained = str_eq(g->s->settings->train.keep_best, STR("auto")) && stop_improved(&g->stop);
    if (!(g->keeps_best || lost) || (gained && !lost))
        return false; /* still learning: steps since are not lost */
    if (!g->copy || !g->copy_eval.samples || (st && !lost && st != STATUS_INTERRUPTED))
        return false;
    if (g->copy_step != step || lost) copy_put_back(g);
    g->restored = true;
    return true;
}

void guard_result(const struct guard *g, i64 step, struct train_result *r)
{
    const struct stop *s = &g->stop;
    r->rollbacks         = s->rollbacks;
    r->weights_step      = g->restored ? g->copy_step : step;
    r->stopped           = s->reason;
    r->saved_s           = stop_saved_s(s, step, r->seconds);
    r->saved_dollars     = bill_estimate_usd(s->config.usd_hour, r->saved_s);
    memcpy(r->why, s->text, sizeof r->why);
}
