/* limits.c - how many samples a step and an epoch have, and where the run ends. */
#include "train/train_int.h"

i64 session_batch_all(const struct session *s)
{
    return s->batch_all ? s->batch_all : s->config.batch;
}

i64 session_whole(const struct session *s)
{
    i64 count = dataset_count(s->data, SPLIT_TRAIN);
    return s->settings->train.drop_last
               ? MIN(session_step_samples(s), count - count % session_batch_all(s))
               : 0;
}

i64 session_epoch_samples(const struct session *s)
{
    i64 count = dataset_count(s->data, SPLIT_TRAIN);
    i64 whole = session_whole(s);
    return whole ? count - count % whole : count;
}

i64 session_step_samples(const struct session *s)
{
    return session_batch_all(s) * MAX(s->config.accumulate, 1);
}

struct limits session_limits(const struct session *s)
{
    const struct train_config *c     = &s->settings->train;
    i64                        whole = session_step_samples(s);
    i64                        each  = MAX((session_epoch_samples(s) + whole - 1) / whole, 1);
    struct limits              l     = { .epochs = c->epochs, .epoch_steps = each };
    l.steps                          = MIN(c->epochs, INT64_MAX / each) * each;
    if (c->steps && (!l.steps || c->steps < l.steps)) l.steps = c->steps;
    i64 most    = INT64_MAX / 2 / (session_epoch_samples(s) + whole);
    i64 half    = s->settings->data.pieces ? MIN(l.steps / 2, most) : 0;
    l.in_pieces = half / each * session_epoch_samples(s) + half % each * whole;
    l.rates     = schedule_resolve(c, (struct pace){ .epoch_steps  = each,
                                                     .step_samples = whole,
                                                     .step_rows    = whole * model_rows(s->model),
                                                     .steps        = l.steps });
    return l;
}
