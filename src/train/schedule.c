/* schedule.c - the learning rate of a step, as a pure function. */
#include "train/train_int.h"
#include <math.h>

f64 schedule_lr(const struct train_config *c, i64 step, i64 steps_max)
{
    if (step < c->warmup) return c->lr * (f64)(step + 1) / (f64)c->warmup;
    if (steps_max <= c->warmup) return c->lr;
    f64 done = (f64)(step - c->warmup) / (f64)(steps_max - c->warmup);
    f64 left = 1 - MIN(done, 1);
    if (str_eq(c->schedule, STR("linear"))) return c->lr * (c->lr_end + (1 - c->lr_end) * left);
    if (str_eq(c->schedule, STR("cosine"))) {
        f64 wave = 0.5 * (1 + cos(acos(-1.0) * (1 - left)));
        return c->lr * (c->lr_end + (1 - c->lr_end) * wave);
    }
    return c->lr;
}
