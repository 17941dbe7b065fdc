/* noise.h - the gradient noise scale: how many samples a step are worth having (McCandlish et al. 2018,
 * arXiv 1812.06162). Pure.
 *
 * The gradient of B samples is the true one plus noise of variance tr(S)/B. Two sizes of batch tell the
 * two apart: with |G_b|^2 of the larger and |G_s|^2 of the smaller one (appendix A.1),
 *
 *     |G|^2 = (b |G_b|^2 - s |G_s|^2) / (b - s)      tr(S) = (|G_s|^2 - |G_b|^2) / (1/s - 1/b)
 *
 * are unbiased, but noisy: they are averaged apart, over about a hundred steps, and then divided. The
 * simple noise scale is tr(S)/|G|^2 samples: with as many a step, a run takes twice the fewest steps and
 * twice the least data. */
#ifndef TRAIN_NOISE_H
#define TRAIN_NOISE_H
#include "base/text.h"

struct noise {         /* begins zeroed */
    f64 square, trace; /* running means of |G|^2 and tr(S), times the same weight */
    i64 steps;
};

/* Squared norms of the mean gradient of `small` samples and of the `large` > small that hold them.
 * What is not finite is passed over. */
void noise_add(struct noise *n, f64 small_square, i64 small, f64 large_square, i64 large);
f64  noise_scale(const struct noise *n); /* samples; NaN: too few steps yet, or no end of it */
struct str noise_absent(const struct noise *n,
                        struct arena       *perm); /* why it is NaN; empty: it is not */

/* What a step of `batch` samples costs: times the fewest steps, times the least data. */
f64 noise_steps(f64 scale, i64 batch);
f64 noise_data(f64 scale, i64 batch);
i64 noise_batch(f64 scale); /* the power of two nearest to it: the batch that balances the two */

#endif
