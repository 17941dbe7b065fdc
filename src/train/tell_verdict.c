/* tell_verdict.c - what limits the run (run/verdict.h), told while it goes on and when it has ended. */
#include "run/verdict_events.h"
#include "train/loop.h"
#include <math.h>

enum { VERDICT_BYTES = 1 << 16 };

/* At the latest; before that, whenever the steps' time has doubled. */
static const i64 judge_again_ns = 600000000000;

struct evidence tell_evidence(struct loop *l, struct lookout_seen seen)
{
    struct loader_stats loaded = loader_stats(l->loader);
    return judge_run(&l->s, seen, &l->rates, &l->saving, &loaded,
                     (struct judged_counts){ l->at.step - l->before.step, l->evaluations,
                                             l->limits.epoch_steps });
}

void tell_verdict(const struct train_with *with, const struct settings *s,
                  const struct train_result *r, struct arena scratch)
{
    struct arena texts = arena_part(&scratch, VERDICT_BYTES);
    if (!with->to || !verdict_is_due(&r->evidence.split)) return;
    struct verdict v = verdict_of(&r->evidence, &texts);
    verdict_emit(with->to, &r->evidence, &v,
                 (struct verdict_of_run){ r->dollars, s->run.runs_per_month, .so_far = false },
                 scratch);
}

/* When it has made all of its steps, or has come to a cap. Where neither is known: so far. */
static f64 dollars_in_all(struct loop *l)
{
    const struct train_config *t     = &l->s.settings->train;
    f64                        now_s = bill_elapsed_s(l->bill), end_s = INFINITY;
    if (l->limits.steps) end_s = now_s * (f64)l->limits.steps / (f64)l->at.step;
    end_s = fmin(end_s, bill_limit_s(l->bill, t->max_seconds, t->max_dollars)); /* NaN: no cap */
    return bill_spent(l->bill).usd * (isinf(end_s) ? 1 : end_s / now_s);
}

void tell_verdict_so_far(struct loop *l)
{
    const struct settings *s     = l->s.settings;
    struct step_split      split = clock_split(l->clock);
    split.ns[PART_fill]          = 0;
    i64 ns                       = split_sum(&split);
    if (!l->with->to || s->timed || ns < l->judge_at_ns || !verdict_is_due(&split)) return;
    l->judge_at_ns = ns + MIN(ns, judge_again_ns);
    judge_rate(&l->s, &l->rates, &l->guard.stop);
    struct evidence e       = tell_evidence(l, lookout_now(l->lookout, l->s.scratch));
    struct arena    scratch = l->s.scratch, texts = arena_part(&scratch, VERDICT_BYTES);
    struct verdict  v = verdict_of(&e, &texts);
    verdict_emit(
        l->with->to, &e, &v,
        (struct verdict_of_run){ dollars_in_all(l), s->run.runs_per_month, .so_far = true },
        scratch);
}
