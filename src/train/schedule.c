/* schedule.c - the learning rate of a step, as a pure function.
 *
 * What the user said in other units (warm-up in epochs or tokens, a rate tuned for another batch) is
 * resolved once, before the first step; from then on everything is in steps. */
#include "train/train_int.h"
#include <math.h>

static f64 scale_for_batch(const struct train_config *c, i64 step_samples)
{
    if (!c->lr_batch || str_eq(c->lr_scaling, STR("none"))) return 1;
    f64  ratio = (f64)step_samples / (f64)c->lr_batch;
    bool sgd   = str_eq(c->optimiser, STR("sgd"));
    bool root  = str_eq(c->lr_scaling, STR("sqrt")) || (str_eq(c->lr_scaling, STR("auto")) && !sgd);
    return root ? sqrt(ratio) : ratio;
}

struct train_config schedule_resolve(const struct train_config *c, struct pace pace)
{
    struct train_config r = *c;
    if (str_eq(c->warmup_unit, STR("epochs"))) r.warmup = c->warmup * pace.epoch_steps;
    if (str_eq(c->warmup_unit, STR("tokens")))
        r.warmup = (c->warmup + pace.step_rows - 1) / pace.step_rows;
    if (str_eq(c->warmup_unit, STR("percent"))) r.warmup = pace.steps * MIN(c->warmup, 100) / 100;
    r.lr = c->lr * scale_for_batch(c, pace.step_samples);
    return r;
}

static f64 half_cosine(f64 done) { return 0.5 * (1 - cos(acos(-1.0) * done)); } /* 0 to 1 */

/* Up and down by half cosines, as torch.optim.lr_scheduler.OneCycleLR (Smith and Topin 2017), whose 1/25
 * it begins with: the peak is step up, the last step has lr_end. */
static f64 one_cycle(const struct train_config *c, i64 step, i64 steps_max)
{
    static const f64 begin = 1 / 25.0;
    f64              up = c->peak_part * (f64)steps_max - 1, last = (f64)steps_max - 1;
    f64              at = MIN((f64)step, last);
    if (at < up) return begin + (1 - begin) * half_cosine(at / up);
    return 1 - (1 - c->lr_end) * (last > up ? half_cosine((at - up) / (last - up)) : 0);
}

/* Where in [lr_end, 1] the rate stands once the warm-up is over: done in [0, 1]. */
static f64 level(const struct train_config *c, f64 done)
{
    f64 drop = 0; /* of the way down */
    if (str_eq(c->schedule, STR("linear"))) drop = done;
    if (str_eq(c->schedule, STR("cosine"))) drop = half_cosine(done);
    if (str_eq(c->schedule, STR("wsd"))) drop = MAX(0, 1 - (1 - done) / c->decay_part);
    return 1 - (1 - c->lr_end) * drop;
}

f64 schedule_lr(const struct train_config *c, i64 step, i64 steps_max)
{
    if (str_eq(c->schedule, STR("one_cycle")))
        return c->lr * (steps_max ? one_cycle(c, step, steps_max) : 1);
    if (step < c->warmup) return c->lr * (f64)(step + 1) / (f64)c->warmup;
    if (str_eq(c->schedule, STR("step")))
        return c->lr * pow(c->step_factor, (f64)((step - c->warmup) / MAX(c->step_every, 1)));
    if (steps_max <= c->warmup) return c->lr;
    return c->lr * level(c, MIN((f64)(step - c->warmup) / (f64)(steps_max - c->warmup), 1));
}
