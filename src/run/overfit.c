/* overfit.c - the rule of overfit.h. */
#include "run/overfit.h"

void overfit_step(struct overfit *o, f64 training_loss)
{
    o->sum += training_loss;
    o->count++;
}

/* Evaluations see the same samples each time: smaller changes are the run's own noise. */
static const f64 clearly = 1.01;

bool overfit_eval(struct overfit *o, i64 step, f64 held_out_loss)
{
    o->training = o->count ? o->sum / (f64)o->count : o->training;
    o->sum      = 0;
    o->count    = 0;
    if (!o->best_step || held_out_loss <= o->best) {
        o->best          = held_out_loss;
        o->best_training = o->training;
        o->best_step     = step;
        o->worse         = 0;
        return false;
    }
    o->worse++;
    bool rises = o->worse >= 2 && held_out_loss > clearly * o->best;
    bool falls = clearly * o->training < o->best_training;
    bool now   = rises && falls && !o->reported;
    o->reported |= now;
    return now;
}
