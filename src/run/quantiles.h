/* quantiles.h - how long steps take, as percentiles, in bounded memory.
 *
 * A histogram of 1 µs to 11 days whose buckets grow by 2 %: a quantile is within 1 % of the step that has
 * its rank. Count, sum, smallest and largest are exact. One owner, no locks. */
#ifndef RUN_QUANTILES_H
#define RUN_QUANTILES_H
#include "base/types.h"

enum { QUANTILES_BUCKETS = 1400 };

struct quantiles { /* all zero: nothing yet */
    i64 count, sum_ns, min_ns, max_ns;
    i64 bucket[QUANTILES_BUCKETS];
};

void quantiles_add(struct quantiles *q, i64 ns); /* >= 0 */
/* In seconds, the value that `part` (0 to 1) of all do not exceed, by the nearest rank; NaN: none yet. */
f64 quantiles_at(const struct quantiles *q, f64 part);
f64 quantiles_per_s(const struct quantiles *q); /* count over sum; NaN: none yet */

#endif
