/* overfit.h - does a run learn its training samples by heart?
 *
 *     held-out    3.1  2.4  2.0  1.9* 2.0  2.1     * the best
 *     training    3.2  2.4  2.0  1.8  1.6  1.5     mean since the evaluation before
 *
 * Two evaluations in a row worse than the best, the last by more than a hundredth, while the training loss fell by as
 * much: more steps make the model worse. It is reported once. Pure: the loop feeds it, and a checkpoint keeps it. */
#ifndef RUN_OVERFIT_H
#define RUN_OVERFIT_H
#include "base/types.h"

struct overfit { /* zeroed: nothing seen yet */
    f64  sum;    /* of training losses since the last evaluation */
    i64  count;
    f64  best, best_training; /* losses at the best evaluation */
    i64  best_step;           /* 0: none yet */
    i64  worse;               /* evaluations since */
    f64  training;            /* mean before the newest evaluation */
    bool reported;
};

void overfit_step(struct overfit *o, f64 training_loss);
/* True: now is the time to report it. */
bool overfit_eval(struct overfit *o, i64 step, f64 held_out_loss);

#endif
