/* forecast.h - where a falling curve will end, and whether it comes down to a target in time.
 *
 * y = a + b x^-c with a, b >= 0 is the shape that learning curves have (a floor, and a power law
 * above it). It is fitted by least squares, Huber's weights keep single bad evaluations from
 * bending it, and the spread of its future is that of fits to resampled residuals. Pure: the same
 * points give the same answer. docs/decisions/stopping.md has what it is worth. */
#ifndef RUN_FORECAST_H
#define RUN_FORECAST_H
#include "base/types.h"

enum { FORECAST_POINTS_MIN = 8, FORECAST_POINTS_MAX = 64 };

struct forecast {
    f64 value; /* of the curve at the end; NaN: too few points */
    f64 reach; /* how probable it is that a point at or below the target comes by then, 0 to 1 */
};

/* x > 0 rises; count <= FORECAST_POINTS_MAX. */
struct forecast forecast_curve(const f64 *x, const f64 *y, i64 count, f64 x_end, f64 target);

#endif
