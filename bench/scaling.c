/* scaling.c - a law fitted to the points of a file, beside the published replication:
 * `bench_scaling DATA.CSV [RESAMPLES]`.
 *
 * DATA.CSV has the columns params, train_flop (or tokens) and loss: the 245 points read off the
 * figures of Hoffmann et al. by Besiroglu et al. (epoch-research/analyzing-chinchilla). The five
 * highest losses are left out, as they do. Each number should lie in their 95 % interval. */
#include "plan/scaling.h"
#include "base/os.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { DROPPED = 5, RESAMPLES = 1000 };

static int by_loss(const void *a, const void *b)
{
    f64 x = ((const struct run_point *)a)->loss, y = ((const struct run_point *)b)->loss;
    return (x > y) - (x < y);
}

static void row(const char *name, f64 ours, f64 low, f64 high, f64 theirs, f64 from, f64 to)
{
    printf("%-7s %10.4f  %10.4f to %10.4f   %10.4f  %9.4f to %9.4f   %s\n", name, ours, low, high,
           theirs, from, to, ours >= from && ours <= to ? "inside" : "OUTSIDE");
}

int main(int argc, char **argv)
{
    struct arena      perm = arena_open((i64)1 << 30);
    struct run_point *points;
    struct fitted_law fit;
    struct law        theirs = law_at(0);
    struct err        err    = { 0 };
    struct str        text;
    i64               count, resamples = argc > 2 ? atoll(argv[2]) : RESAMPLES;
    struct timespec   begin, end;
    if (argc < 2 || resamples < 0 || resamples > RESAMPLES) {
        fprintf(stderr, "bench_scaling DATA.CSV [RESAMPLES]\n");
        return STATUS_USAGE;
    }
    enum status st = os_read_all(os_real(), str_of(argv[1]), &perm, &text, &err);
    if (!st) st = law_points_read(str_of(argv[1]), text, &perm, &points, &count, &err);
    if (st) {
        fprintf(stderr, "%s\n", err.text);
        return (int)st;
    }
    qsort(points, (size_t)count, sizeof *points, by_loss);
    i64 kept = MAX(count - DROPPED, 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    st = law_fit(points, kept, resamples, 1, perm, &fit, &err);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (st) {
        fprintf(stderr, "%s\n", err.text);
        return (int)st;
    }
    printf("%lld points, the %d highest losses left out; sum of Huber losses %.6g; %lld resamples; "
           "%.1f s\n\n",
           (long long)count, DROPPED, fit.objective, (long long)fit.resamples,
           (f64)(end.tv_sec - begin.tv_sec) + 1e-9 * (f64)(end.tv_nsec - begin.tv_nsec));
    printf("%-7s %10s  %24s   %10s  %22s\n", "", "ours", "95 % by bootstrap", "published",
           "95 % published");
    row("E", fit.law.e, fit.low.e, fit.high.e, theirs.e, 1.769, 1.871);
    row("A", fit.law.a, fit.low.a, fit.high.a, theirs.a, 285, 744);
    row("B", fit.law.b, fit.low.b, fit.high.b, theirs.b, 1042, 5810);
    row("alpha", fit.law.alpha, fit.low.alpha, fit.high.alpha, theirs.alpha, 0.317, 0.373);
    row("beta", fit.law.beta, fit.low.beta, fit.high.beta, theirs.beta, 0.331, 0.415);
    f64 budgets[] = { 1e18, 1e20, 5.76e23 };
    printf("\n%-10s %22s %22s\n", "FLOPs", "ours: N, tokens/N", "published");
    for (i64 i = 0; i < COUNT_OF(budgets); i++) {
        struct sizing a = law_best(&fit.law, budgets[i]), b = law_best(&theirs, budgets[i]);
        printf("%-10.3g %14.4g %7.1f %14.4g %7.1f\n", budgets[i], a.parameters,
               a.tokens / a.parameters, b.parameters, b.tokens / b.parameters);
    }
    arena_close(&perm);
    return 0;
}
