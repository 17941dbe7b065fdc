/* feed.c - the batches of a step, and what of the next step may be begun before this one is over. */
#include "run/profile.h"
#include "train/loop.h"

static bool writes_state(const struct program *p)
{
    for (i32 i = 0; p && i < p->graph->node_count; i++)
        if (op_info(p->graph->nodes[i].op)->effect == EFFECT_STATE) return true;
    return false;
}

bool can_feed_ahead(const struct session *s)
{
    return s->config.accumulate <= 1 && s->backend->table->behind;
}

bool can_look_ahead(const struct session *s)
{
    bool plain = s->config.accumulate <= 1 && !s->config.square && s->config.precision != DT_F16 &&
                 !s->settings->train.gradients.len;
    /* where programs call other ranks, all must begin the same ones */
    return plain && s->backend->table->behind && !session_calls(s) &&
           !writes_state(s->set->programs[PROGRAM_TRAIN]) &&
           !writes_state(s->set->programs[PROGRAM_TRAIN_LAST]);
}

/* It came, or never will. */
static struct batch *got(struct loop *l, struct batch *b)
{
    clock_enter(l->clock, PART_other);
    replay_keep(&l->replay, b, dataset_feeds(l->s.data), l->s.perm);
    return b;
}

struct batch *feed_first(struct loop *l)
{
    bool first = !clock_step_times(l->clock)->count; /* start-up, and no sign of slow data */
    clock_enter(l->clock, first ? PART_fill : PART_input);
    struct batch *b = replay_next(&l->replay);
    if (!b) b = session_batch(&l->s, l->loader, l->at.step, &l->input, &l->input_err);
    return got(l, b);
}

struct batch *feed_next(struct loop *l)
{
    static const i64 listen_ns = (i64)100000000;
    clock_enter(l->clock, PART_input);
    struct batch *b = replay_next(&l->replay);
    while (!b && !loader_ready(l->loader, clock_now(l->clock) + listen_ns))
        if (undo_leaves_wait(&l->undo)) return got(l, NULL);
    if (!b) b = loader_next(l->loader);
    if (!b) l->input = loader_failed(l->loader, &l->input_err);
    return got(l, b);
}

/* Not before the data is there, not past the end, not before an evaluation, and not where it would blur a
 * profiled step. */
static bool is_wise(const struct loop *l, const struct batch *b)
{
    bool last  = l->limits.steps && l->at.step + 1 >= l->limits.steps;
    i64  every = l->s.settings->train.eval_every;
    bool eval  = l->evaluates && (every ? (l->at.step + 1) % every == 0 : b->ends_epoch);
    bool timed = profile_on(l->profile, l->at.step) || profile_on(l->profile, l->at.step + 1);
    return l->ahead.feeds && !last && !eval && !timed && loader_ready(l->loader, 0);
}

void feed_ahead(struct loop *l, const struct batch *b)
{
    struct ahead *a = &l->ahead;
    if (!is_wise(l, b) || !(a->batch = feed_next(l))) return;
    clock_enter(l->clock, PART_copy);
    session_put_batch(&l->s, loop_program_of(&l->s, a->batch, 0), a->batch);
    a->fed = true;
    if (a->computes) loop_micro_step(l, a->batch, l->at.step + 1, 0, loop_lr(l, l->at.step + 1));
    a->begun = a->computes && !l->input;
}
