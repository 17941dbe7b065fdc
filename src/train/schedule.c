/* schedule.c - the learning rate of a step, as a pure function.
 *
 * What the user said in other units (warm-up in epochs or tokens, a rate tuned for another batch) is
 * resolved once, before the first step; from then on everything is in steps. */
#include "train/train_int.h"
#include <math.h>
#include <string.h>

/* Linear for sgd (Goyal et al. 2017), the square root for the others (Malladi et al. 2022). */
static f64 scale_for_batch(const struct train_config *c, i64 step_samples)
{
    if (!c->lr_batch) return 1;
    f64 ratio = (f64)step_samples / (f64)c->lr_batch;
    return str_eq(c->optimiser, STR("sgd")) ? ratio : sqrt(ratio);
}

enum status warmup_parse(struct str text, struct warmup *out, struct err *err)
{
    static const struct {
        const char      *ending;
        enum warmup_unit unit;
    } units[]         = { { "%", WARMUP_PERCENT },    { "epochs", WARMUP_EPOCHS },
                          { "epoch", WARMUP_EPOCHS }, { "tokens", WARMUP_TOKENS },
                          { "steps", WARMUP_STEPS },  { "step", WARMUP_STEPS } };
    struct str number = str_trim(text);
    *out              = (struct warmup){ .unit = WARMUP_STEPS };
    for (i32 i = 0; i < COUNT_OF(units); i++) {
        if (!str_ends(number, str_of(units[i].ending))) continue;
        out->unit = units[i].unit;
        number    = str_trim(str_sub(number, 0, number.len - (i64)strlen(units[i].ending)));
        break;
    }
    bool ok = !text.len || (str_f64(number, &out->count) && out->count >= 0 && out->count <= 1e18);
    if (ok && out->unit == WARMUP_STEPS) ok = out->count == floor(out->count);
    if (ok && out->unit == WARMUP_PERCENT) ok = out->count <= 100;
    if (ok) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.warmup is %.*s; expected a whole number of steps, a part of the run like "
                   "5%%, 2 epochs or "
                   "1e6 tokens",
                   (int)MIN(text.len, 60), text.data);
}

/* In whole steps; tokens are rounded up. */
static i64 warmup_steps(struct str text, struct pace pace)
{
    struct warmup w;
    if (warmup_parse(text, &w, NULL)) return 0; /* session.c has refused it */
    switch (w.unit) {
    case WARMUP_STEPS: break;
    case WARMUP_EPOCHS: w.count *= (f64)pace.epoch_steps; break;
    case WARMUP_TOKENS: w.count = ceil(w.count / (f64)pace.step_rows); break;
    case WARMUP_PERCENT: w.count *= (f64)pace.steps / 100; break;
    }
    return (i64)MIN(w.count, 1e18);
}

struct learning_rates schedule_resolve(const struct train_config *c, struct pace pace)
{
    return (struct learning_rates){ .schedule   = c->schedule,
                                    .lr         = c->lr * scale_for_batch(c, pace.step_samples),
                                    .lr_end     = c->lr_end,
                                    .decay_part = c->decay_part,
                                    .warmup     = warmup_steps(c->warmup, pace) };
}

static f64 half_cosine(f64 done) { return 0.5 * (1 - cos(acos(-1.0) * done)); } /* 0 to 1 */

/* Up and down by half cosines, as torch.optim.lr_scheduler.OneCycleLR (Smith and Topin 2017), whose 1/25
 * and 30 % these are: the peak is step up, the last step has lr_end. */
static f64 one_cycle(const struct learning_rates *c, i64 step, i64 steps_max)
{
    static const f64 begin = 1 / 25.0, climb = 0.3;
    f64              up = climb * (f64)steps_max - 1, last = (f64)steps_max - 1;
    f64              at = MIN((f64)step, last);
    if (at < up) return begin + (1 - begin) * half_cosine(at / up);
    return 1 - (1 - c->lr_end) * (last > up ? half_cosine((at - up) / (last - up)) : 0);
}

/* Where in [lr_end, 1] the rate stands once the warm-up is over: done in [0, 1]. */
static f64 level(const struct learning_rates *c, f64 done)
{
    f64 drop = 0; /* of the way down */
    if (str_eq(c->schedule, STR("linear"))) drop = done;
    if (str_eq(c->schedule, STR("cosine"))) drop = half_cosine(done);
    if (str_eq(c->schedule, STR("wsd"))) drop = MAX(0, 1 - (1 - done) / c->decay_part);
    if (str_eq(c->schedule, STR("step")))
        return pow(0.1, floor(3 * MIN(done, 0.999))); /* He et al. 2015 */
    return 1 - (1 - c->lr_end) * drop;
}

f64 schedule_lr(const struct learning_rates *c, i64 step, i64 steps_max)
{
    if (str_eq(c->schedule, STR("one_cycle")))
        return c->lr * (steps_max ? one_cycle(c, step, steps_max) : 1);
    if (step < c->warmup) return c->lr * (f64)(step + 1) / (f64)c->warmup;
    if (steps_max <= c->warmup) return c->lr;
    return c->lr * level(c, MIN((f64)(step - c->warmup) / (f64)(steps_max - c->warmup), 1));
}
