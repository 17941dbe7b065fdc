/* quantiles.c - bucket i holds what lies between 1.02^i and 1.02^(i + 1) microseconds. */
#include "run/quantiles.h"
#include <math.h>

static const f64 growth = 1.02, first_ns = 1e3;

static i64 bucket_of(i64 ns)
{
    f64 at = log(MAX((f64)ns, first_ns) / first_ns) / log(growth);
    return MIN((i64)at, QUANTILES_BUCKETS - 1);
}

void quantiles_add(struct quantiles *q, i64 ns)
{
    ASSERT(ns >= 0);
    q->min_ns = q->count ? MIN(q->min_ns, ns) : ns;
    q->max_ns = MAX(q->max_ns, ns);
    q->sum_ns += ns;
    q->count++;
    q->bucket[bucket_of(ns)]++;
}

f64 quantiles_at(const struct quantiles *q, f64 part)
{
    i64 rank = MAX((i64)ceil(part * (f64)q->count), 1), seen = 0;
    if (!q->count) return NAN;
    for (i64 i = 0; i < QUANTILES_BUCKETS; i++) {
        seen += q->bucket[i];
        if (seen < rank) continue;
        f64 middle = first_ns * pow(growth, (f64)i + 0.5);
        return MIN(MAX(middle, (f64)q->min_ns), (f64)q->max_ns) * 1e-9;
    }
    return NAN; /* rank is beyond the last: part > 1 */
}

f64 quantiles_per_s(const struct quantiles *q)
{
    return q->sum_ns ? (f64)q->count / ((f64)q->sum_ns * 1e-9) : NAN;
}
