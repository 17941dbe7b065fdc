/* samples.c - now and then, what a text model writes by now: an event for whoever looks at the run.
 *
 * The text is drawn by a model of its own (use.h) with a copy of the run's weights, and with random numbers of its own:
 * the run computes the same with it and without. It is written with an evaluation, as seldom.h says, and only where it
 * is expected to fit into its part of the time that this process has run, into the memory, and into the run's caps. */
#include "train/loop.h"
#include <math.h>

/* What the first text is expected to take, the others by the one before: a token reads every weight, from memory, in
 * so many bytes a second, and a small model's programs take this long to start. If that was too little, the text ends
 * with its time, and with it slack_s, so that a busy machine shortens no text of a few milliseconds; the next waits the
 * longer. One that would keep the run waiting for longer than longest_s is not worth it. */
static const f64 bytes_s = 1e10, token_s = 0.0001, margin = 1.25, slack_s = 1, longest_s = 20;

static f64 copy_bytes(const struct loop *l)
{
    return (f64)weights_count(&l->s, false) * sizeof(f32);
}

static f64 expected_s(const struct loop *l)
{
    struct clock *c      = l->clock;
    i64           tokens = MIN(TRAIN_TEXT_TOKENS, model_rows(l->s.model));
    if (l->samples.last_s > 0) return margin * l->samples.last_s;
    i64 open_ns = clock_part_ns(c, PART_start_compile) + clock_part_ns(c, PART_start_kernels) +
                  clock_part_ns(c, PART_start_weights);
    return (f64)open_ns * 1e-9 + (f64)tokens * (copy_bytes(l) / bytes_s + token_s);
}

/* Seconds that it may take; 0: it is not worth it. */
static f64 allowed_s(const struct loop *l)
{
    const struct stop_config *c    = &l->guard.stop.config;
    f64                       may  = l->with->write_part * (f64)clock_age_ns(l->clock) * 1e-9;
    f64                       ends = c->limit_s - bill_elapsed_s(l->bill) - c->save_s - c->eval_s;
    may                            = MIN(may - l->samples.spent_s, longest_s);
    if (!(expected_s(l) <= may) || expected_s(l) > ends) return 0;
    return ends < may + slack_s ? ends : may + slack_s; /* NaN: nothing ends it */
}

static bool fits(const struct loop *l)
{
    i64 bytes = (i64)(margin * copy_bytes(l)), free_bytes = os_memory_free_bytes();
    return bytes <= free_bytes / 2 && !session_fits_host(&l->s, bytes, "what it writes", "", NULL);
}

/* The best may have taken the place of the last. */
static i64 weights_step(const struct loop *l)
{
    return l->guard.restored ? l->guard.copy_step : l->at.step;
}

static bool is_wanted(const struct loop *l)
{
    const struct samples *m = &l->samples;
    if (!l->with || !l->with->write || !l->with->to || l->s.ranks || l->s.settings->timed)
        return false;
    return isfinite(l->at.loss) && !(m->when.made && m->step == weights_step(l));
}

void samples_write(struct loop *l, bool last)
{
    struct samples *m = &l->samples;
    if (!is_wanted(l)) return;
    f64 may_s = allowed_s(l);
    if (!(may_s > 0) || !fits(l) || !seldom_due(&m->when, bill_elapsed_s(l->bill), last)) return;
    struct arena      scratch  = l->s.scratch;
    i64               begin_ns = clock_enter(l->clock, PART_evaluation);
    struct train_text t        = l->with->write(&l->s, may_s, &scratch);
    m->last_s                  = (f64)(clock_enter(l->clock, PART_logging) - begin_ns) * 1e-9;
    m->spent_s += m->last_s;
    m->step = weights_step(l);
    if (t.text.len) emit_sample(l->with->to, &(struct event_sample){ m->step, t.prompt, t.text });
}
