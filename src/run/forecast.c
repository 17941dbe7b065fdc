/* forecast.c - the fit is linear in a and b, so only c is searched, on a grid: no start values, no
 * iteration that may fail to converge, and a few thousand products an evaluation. */
#include "run/forecast.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 4, DRAWS = 100 };

/* Exponents seen in practice lie around 0.1 to 1; 2 is a curve that has arrived. */
static const f64 exponents[] = { 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0 };

struct fit {
    f64 a, b, c;
    f64 cost; /* weighted sum of squares */
};

static f64 fit_at(const struct fit *f, f64 x) { return f->a + f->b * pow(x, -f->c); }

/* Least squares of y = a + b u. A bound that is broken becomes the answer, and the other follows. */
static struct fit fit_line(const f64 *u, const f64 *y, const f64 *w, i64 count)
{
    f64 sw = 0, su = 0, sy = 0, suu = 0, suy = 0;
    for (i64 i = 0; i < count; i++) {
        sw += w[i];
        su += w[i] * u[i];
        sy += w[i] * y[i];
        suu += w[i] * u[i] * u[i];
        suy += w[i] * u[i] * y[i];
    }
    f64        det = sw * suu - su * su;
    struct fit f   = { .b = det > 0 ? (sw * suy - su * sy) / det : 0 };
    f.b            = MAX(f.b, 0);
    f.a            = (sy - f.b * su) / sw;
    if (f.a < 0) {
        f.a = 0;
        f.b = MAX(suy / suu, 0);
    }
    for (i64 i = 0; i < count; i++) {
        f64 r = y[i] - f.a - f.b * u[i];
        f.cost += w[i] * r * r;
    }
    return f;
}

typedef f64 powers[COUNT_OF(exponents)][FORECAST_POINTS_MAX]; /* x^-c */

static struct fit fit_curve(powers u, const f64 *y, const f64 *w, i64 count)
{
    struct fit best = { .cost = INFINITY };
    for (i64 k = 0; k < COUNT_OF(exponents); k++) {
        struct fit f = fit_line(u[k], y, w, count);
        f.c          = exponents[k];
        if (f.cost < best.cost) best = f;
    }
    return best;
}

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

/* 1.4826 times the median of the magnitudes: the standard deviation, were they normal. */
static f64 spread(const f64 *r, i64 count)
{
    f64 v[FORECAST_POINTS_MAX];
    for (i64 i = 0; i < count; i++) v[i] = fabs(r[i]);
    qsort(v, (size_t)count, sizeof *v, by_value);
    return 1.4826 * v[count / 2];
}

/* Huber's weights, by reweighting: beyond 1.5 spreads a residual counts by its size, not its square.
 * Leaves the residuals in r. */
static struct fit fit_robust(powers u, const f64 *x, const f64 *y, i64 count, f64 *r)
{
    f64        w[FORECAST_POINTS_MAX];
    struct fit f = { 0 };
    for (i64 i = 0; i < count; i++) w[i] = 1;
    for (i64 round = 0; round < ROUNDS; round++) {
        f = fit_curve(u, y, w, count);
        for (i64 i = 0; i < count; i++) r[i] = y[i] - fit_at(&f, x[i]);
        f64 limit = 1.5 * spread(r, count);
        for (i64 i = 0; i < count; i++) w[i] = fabs(r[i]) > limit ? limit / fabs(r[i]) : 1;
    }
    return f;
}

struct forecast forecast_curve(const f64 *x, const f64 *y, i64 count, f64 x_end, f64 target)
{
    powers u;
    f64    r[FORECAST_POINTS_MAX], drawn[FORECAST_POINTS_MAX], even[FORECAST_POINTS_MAX];
    f64    lucky = 0; /* the deepest dip under the curve: there will be one like it again */
    i64    hits  = 0;
    ASSERT(count <= FORECAST_POINTS_MAX);
    if (count < FORECAST_POINTS_MIN) return (struct forecast){ NAN, NAN };
    for (i64 k = 0; k < COUNT_OF(exponents); k++)
        for (i64 i = 0; i < count; i++) u[k][i] = pow(x[i], -exponents[k]);
    struct fit best = fit_robust(u, x, y, count, r);
    f64 wide = sqrt((f64)count / (f64)(count - 3)); /* three parameters flatter the residuals */
    for (i64 i = 0; i < count; i++) {
        lucky   = MIN(lucky, r[i]);
        even[i] = 1;
    }
    for (i64 d = 0; d < DRAWS; d++) {
        struct rng_key key = { .seed = (u64)count, .sample = (u64)d };
        for (i64 i = 0; i < count; i++)
            drawn[i] = fit_at(&best, x[i]) + wide * r[rng_u32(key, (u64)i) % (u64)count];
        struct fit f = fit_curve(u, drawn, even, count);
        hits += fit_at(&f, x_end) + lucky <= target;
    }
    return (struct forecast){ fit_at(&best, x_end), (f64)hits / DRAWS };
}
