/* seldom.h - how often something of a run is shown that grows slowly: what a classifier takes for what, what a text
 * model writes. With the first four evaluations, then when the run is a quarter older than at the last: some fifty in a
 * month, whatever train.eval_every says. */
#ifndef TRAIN_SELDOM_H
#define TRAIN_SELDOM_H
#include "base/types.h"

struct seldom {
    i64 made;
    f64 next_s; /* no other before the run is so old */
};

static inline bool seldom_due(struct seldom *s, f64 elapsed_s, bool last)
{
    enum { FIRST = 4 };
    const f64 gap_s = 10, gap_part = 0.25;
    if (!last && s->made >= FIRST && elapsed_s < s->next_s) return false;
    s->made++;
    s->next_s = elapsed_s + MAX(gap_s, gap_part * elapsed_s);
    return true;
}

#endif
