/* scaling_fit.c - a law from runs, as Hoffmann et al. (section 3.3) and its replication state it:
 *
 *   minimise  sum_i huber(lse(a - alpha log N_i, b - beta log D_i, e) - log L_i)
 *
 * by Gauss-Newton with the weights that make squares of Huber's loss (iteratively reweighted), damped
 * as Levenberg and Marquardt do. Logarithms of N and D are taken from their means, which all but
 * uncouples a from alpha and b from beta. From each pair of exponents of a grid, E, A and B begin at
 * the least squares that they are then linear in. */
#include "base/csv.h"
#include "base/rng.h"
#include "plan/scaling.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { P = 5, STEPS_MAX = 400, RESAMPLES_MAX = 10000 };
enum { A, B, E, ALPHA, BETA }; /* the parameters; A, B and E as logarithms */

static const f64 huber_delta = 1e-3; /* Hoffmann et al., section 3.3 */

struct data {
    const f64 *n, *d, *loss; /* logarithms; of n and d less their means */
    const i32 *index;        /* which points count; some may twice */
    i64        count;
    f64        n_mean, d_mean;
};

static f64 huber(f64 r)
{
    f64 size = fabs(r);
    return size <= huber_delta ? 0.5 * r * r : huber_delta * (size - 0.5 * huber_delta);
}

/* Residual of a point, and by what each parameter moves it. */
static f64 residual(const struct data *d, const f64 *p, i64 i, f64 *slope)
{
    f64 x = p[A] - p[ALPHA] * d->n[i], y = p[B] - p[BETA] * d->d[i], z = p[E];
    f64 most = fmax(fmax(x, y), z);
    f64 wx = exp(x - most), wy = exp(y - most), wz = exp(z - most), sum = wx + wy + wz;
    slope[A]     = wx / sum;
    slope[B]     = wy / sum;
    slope[E]     = wz / sum;
    slope[ALPHA] = -slope[A] * d->n[i];
    slope[BETA]  = -slope[B] * d->d[i];
    return most + log(sum) - d->loss[i];
}

static f64 objective(const struct data *d, const f64 *p)
{
    f64 sum = 0, slope[P];
    for (i64 i = 0; i < d->count; i++) sum += huber(residual(d, p, d->index[i], slope));
    return isfinite(sum) ? sum : INFINITY;
}

/* The weighted squares' matrix and gradient at p. */
static void squares(const struct data *d, const f64 *p, f64 h[P][P], f64 *g)
{
    memset(h, 0, sizeof(f64[P][P]));
    memset(g, 0, P * sizeof *g);
    for (i64 i = 0; i < d->count; i++) {
        f64 slope[P], r = residual(d, p, d->index[i], slope);
        f64 weight = fabs(r) <= huber_delta ? 1 : huber_delta / fabs(r);
        for (i32 j = 0; j < P; j++) {
            g[j] += weight * r * slope[j];
            for (i32 k = 0; k <= j; k++) h[j][k] += weight * slope[j] * slope[k];
        }
    }
}

/* Cholesky of n x n (lower half given, overwritten), then both halves solved; false: not positive. */
static bool solve(i32 n, f64 h[P][P], f64 *x)
{
    for (i32 j = 0; j < n; j++) {
        for (i32 k = 0; k <= j; k++) {
            f64 sum = h[j][k];
            for (i32 i = 0; i < k; i++) sum -= h[j][i] * h[k][i];
            if (j == k && !(sum > 0)) return false;
            h[j][k] = j == k ? sqrt(sum) : sum / h[k][k];
        }
    }
    for (i32 j = 0; j < n; j++) {
        for (i32 i = 0; i < j; i++) x[j] -= h[j][i] * x[i];
        x[j] /= h[j][j];
    }
    for (i32 j = n - 1; j >= 0; j--) {
        for (i32 i = j + 1; i < n; i++) x[j] -= h[i][j] * x[i];
        x[j] /= h[j][j];
    }
    return true;
}

/* Down from p until no step helps any more; gives the objective there. */
static f64 descend(const struct data *d, f64 *p)
{
    f64 at = objective(d, p), damp = 1e-3;
    for (i32 step = 0; step < STEPS_MAX && damp < 1e12; step++) {
        f64 h[P][P], damped[P][P], g[P], move[P], next[P];
        squares(d, p, h, g);
        for (bool better = false; !better && damp < 1e12;) {
            memcpy(damped, h, sizeof h);
            for (i32 j = 0; j < P; j++) {
                damped[j][j] += damp * h[j][j] + 1e-300;
                move[j] = -g[j];
            }
            f64 there = INFINITY;
            if (solve(P, damped, move)) {
                for (i32 j = 0; j < P; j++) next[j] = p[j] + move[j];
                there = objective(d, next);
            }
            better = there < at;
            damp   = better ? fmax(damp / 10, 1e-12) : damp * 10;
            if (!better) continue;
            memcpy(p, next, sizeof next);
            bool still = at - there <= 1e-13 * at;
            at         = there;
            if (still) return at;
        }
    }
    return at;
}

/* E, A and B by least squares of L/L = 1 for given exponents. */
static void begin_at(const struct data *d, f64 alpha, f64 beta, f64 *p)
{
    f64 h[P][P] = { 0 }, x[P] = { 0 }, mean = 0;
    for (i64 i = 0; i < d->count; i++) {
        i64 at     = d->index[i];
        f64 inv    = exp(-d->loss[at]);
        f64 row[3] = { inv * exp(-alpha * d->n[at]), inv * exp(-beta * d->d[at]), inv };
        mean += 1 / inv / (f64)d->count;
        for (i32 j = 0; j < 3; j++) {
            x[j] += row[j];
            for (i32 k = 0; k <= j; k++) h[j][k] += row[j] * row[k];
        }
    }
    for (i32 j = 0; j < 3; j++) h[j][j] *= 1 + 1e-10;
    bool solved = solve(3, h, x);
    for (i32 j = 0; j < 3; j++) p[j] = log(solved && x[j] > 0.01 * mean ? x[j] : 0.01 * mean);
    p[ALPHA] = alpha;
    p[BETA]  = beta;
}

static f64 best_of_starts(const struct data *d, f64 *best)
{
    static const f64 exponents[] = { 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2 };
    f64              least       = INFINITY;
    for (i64 i = 0; i < COUNT_OF(exponents); i++) {
        for (i64 j = 0; j < COUNT_OF(exponents); j++) {
            f64 p[P];
            begin_at(d, exponents[i], exponents[j], p);
            f64 at = descend(d, p);
            if (!(at < least) || !(p[ALPHA] > 0) || !(p[BETA] > 0)) continue;
            least = at;
            memcpy(best, p, sizeof p);
        }
    }
    return least;
}

static struct law law_of_parameters(const struct data *d, const f64 *p)
{
    return law_of(exp(p[E]), exp(p[A] + p[ALPHA] * d->n_mean), exp(p[B] + p[BETA] * d->d_mean),
                  p[ALPHA], p[BETA]);
}

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

/* Fits to points drawn with replacement, each from where all of them led. */
static void bootstrap(const struct data *d, const f64 *p, i64 resamples, u64 seed,
                      struct arena scratch, struct fitted_law *out)
{
    i32        *index = NEW(&scratch, i32, d->count);
    f64        *found = NEW(&scratch, f64, P * resamples);
    struct data drawn = *d;
    drawn.index       = index;
    for (i64 r = 0; r < resamples; r++) {
        struct rng_key key = { .seed = seed, .name = str_hash(STR("law")), .step = (u64)r };
        f64            q[P];
        for (i64 i = 0; i < d->count; i++)
            index[i] = (i32)(rng_uniform(key, (u64)i) * (f64)d->count);
        memcpy(q, p, sizeof q);
        f64 at = descend(&drawn, q);
        if (!isfinite(at) || !(q[ALPHA] > 0) || !(q[BETA] > 0)) continue;
        struct law l          = law_of_parameters(d, q);
        f64        numbers[P] = { l.a, l.b, l.e, l.alpha, l.beta };
        for (i32 j = 0; j < P; j++) found[j * resamples + out->resamples] = numbers[j];
        out->resamples++;
    }
    f64 low[P], high[P];
    for (i32 j = 0; j < P && out->resamples; j++) {
        f64 *of = found + j * resamples;
        qsort(of, (size_t)out->resamples, sizeof *of, by_value);
        low[j]  = of[(i64)(0.025 * (f64)(out->resamples - 1))];
        high[j] = of[(i64)(0.975 * (f64)(out->resamples - 1))];
    }
    if (!out->resamples) return;
    out->low  = law_of(low[E], low[A], low[B], low[ALPHA], low[BETA]);
    out->high = law_of(high[E], high[A], high[B], high[ALPHA], high[BETA]);
}

static bool is_one_value(const f64 *v, i64 count)
{
    for (i64 i = 1; i < count; i++)
        if (v[i] != v[0]) return false;
    return true;
}

enum status law_fit(const struct run_point *points, i64 count, i64 resamples, u64 seed,
                    struct arena scratch, struct fitted_law *out, struct err *err)
{
    ASSERT(count <= LAW_POINTS_MAX);
    ASSERT(resamples <= RESAMPLES_MAX);
    f64        *n = NEW(&scratch, f64, count), *t = NEW(&scratch, f64, count);
    f64        *loss = NEW(&scratch, f64, count), p[P] = { 0 };
    i32        *index = NEW(&scratch, i32, count);
    struct data d     = { n, t, loss, index, count, 0, 0 };
    *out              = (struct fitted_law){ 0 };
    for (i64 i = 0; i < count; i++) {
        ASSERT(points[i].parameters > 0 && points[i].tokens > 0 && points[i].loss > 0);
        n[i]     = log(points[i].parameters);
        t[i]     = log(points[i].tokens);
        loss[i]  = log(points[i].loss);
        index[i] = (i32)i;
        d.n_mean += n[i] / (f64)count;
        d.d_mean += t[i] / (f64)count;
    }
    if (count < LAW_POINTS_MIN || is_one_value(n, count) || is_one_value(t, count))
        return err_set(err, STATUS_NO,
                       "%lld runs are too few to fit a law: it needs %d or more, of several sizes "
                       "and several numbers of tokens",
                       (long long)count, LAW_POINTS_MIN);
    for (i64 i = 0; i < count; i++) {
        n[i] -= d.n_mean;
        t[i] -= d.d_mean;
    }
    out->objective = best_of_starts(&d, p);
    if (!isfinite(out->objective))
        return err_set(err, STATUS_NO,
                       "these runs follow no law: loss does not fall with size and "
                       "tokens");
    out->law = law_of_parameters(&d, p);
    if (resamples) bootstrap(&d, p, resamples, seed, scratch, out);
    return STATUS_OK;
}

/* ---- reading runs ---- */

enum field { PARAMS, TOKENS, FLOPS, LOSS, FIELD_COUNT };
static const char *const field_names[FIELD_COUNT] = { "params", "tokens", "train_flop", "loss" };
enum { COLUMNS_MAX = 64 };

static enum status read_header(struct csv *csv, i32 *field_of, i64 *columns, struct err *err)
{
    bool        seen[FIELD_COUNT] = { 0 };
    enum status st                = STATUS_OK;
    *columns                      = 0;
    if (!csv_more(csv)) return err_set(err, STATUS_USAGE, "%.*s is empty", STR_ARG(csv->path));
    for (bool last = false; !st && !last && *columns < COLUMNS_MAX; ++*columns) {
        struct str name;
        st                 = csv_field(csv, &name, &last, err);
        field_of[*columns] = -1;
        for (i32 f = 0; f < FIELD_COUNT && !st; f++) {
            if (!str_eq(str_trim(name), str_of(field_names[f]))) continue;
            field_of[*columns] = f;
            seen[f]            = true;
        }
    }
    if (!st && !(seen[PARAMS] && seen[LOSS] && (seen[TOKENS] || seen[FLOPS])))
        st = err_set(err, STATUS_USAGE,
                     "%.*s: its header needs the columns params, loss, and tokens or train_flop",
                     STR_ARG(csv->path));
    return st;
}

enum status law_points_read(struct str path, struct str text, struct arena *perm,
                            struct run_point **points, i64 *count, struct err *err)
{
    struct csv  csv = csv_of(path, text);
    i32         field_of[COLUMNS_MAX];
    i64         columns = 0;
    enum status st      = read_header(&csv, field_of, &columns, err);
    *points             = NEW(perm, struct run_point, LAW_POINTS_MAX);
    *count              = 0;
    while (!st && csv_more(&csv)) {
        f64 v[FIELD_COUNT] = { NAN, NAN, NAN, NAN };
        i64 line = csv.line, i = 0;
        for (bool last = false; !st && !last; i++) {
            struct str s;
            st = csv_field(&csv, &s, &last, err);
            if (!st && i < columns && field_of[i] >= 0 && !str_f64(str_trim(s), &v[field_of[i]]))
                v[field_of[i]] = NAN;
        }
        if (st) break;
        if (isnan(v[TOKENS])) v[TOKENS] = v[FLOPS] / (6 * v[PARAMS]);
        if (!(v[PARAMS] > 0) || !(v[TOKENS] > 0) || !(v[LOSS] > 0))
            return err_set(err, STATUS_USAGE,
                           "%.*s:%lld: params, tokens (or train_flop) and loss must be numbers "
                           "above 0",
                           STR_ARG(path), (long long)line);
        if (*count == LAW_POINTS_MAX)
            return err_set(err, STATUS_USAGE, "%.*s has more than %d runs", STR_ARG(path),
                           LAW_POINTS_MAX);
        (*points)[(*count)++] = (struct run_point){ v[PARAMS], v[TOKENS], v[LOSS] };
    }
    return st;
}
