/* auc.c - the area under the ROC curve: the chance that a random positive is scored above a
 * random negative (Mann-Whitney), equal scores counting half. */
#include "train/train_int.h"
#include <math.h>
#include <stdlib.h>

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

f64 auc(struct scored *samples, i64 count)
{
    f64 positives = 0, pairs = 0;
    for (i64 i = 0; i < count; i++)
        if (isnan(samples[i].score)) return NAN; /* it has no place in the order */
    qsort(samples, (size_t)count, sizeof *samples, by_score);
    for (i64 i = 0; i < count;) {
        i64 end = i;
        f64 up = 0, down = 0; /* of this score */
        for (; end < count && samples[end].score == samples[i].score; end++) {
            if (samples[end].positive) up++;
            else down++;
        }
        f64 below = (f64)i - positives; /* negatives scored lower */
        pairs += up * (below + down / 2);
        positives += up;
        i = end;
    }
    f64 negatives = (f64)count - positives;
    return positives > 0 && negatives > 0 ? pairs / (positives * negatives) : NAN;
}
