/* noise.c - the gradient noise scale from two sizes of batch; noise.h says how. */
#include "train/noise.h"
#include <math.h>

static const f64 memory    = 0.99; /* of the running means: a hundred steps */
static const i64 steps_min = 20;   /* fewer say nothing */

void noise_add(struct noise *n, f64 small_square, i64 small, f64 large_square, i64 large)
{
    f64 s = (f64)small, b = (f64)large;
    f64 square = (b * large_square - s * small_square) / (b - s);
    f64 trace  = (small_square - large_square) / (1 / s - 1 / b);
    if (large <= small || !isfinite(square) || !isfinite(trace)) return;
    n->square = memory * n->square + (1 - memory) * square;
    n->trace  = memory * n->trace + (1 - memory) * trace;
    n->steps++;
}

f64 noise_scale(const struct noise *n)
{
    bool known = n->steps >= steps_min && n->square > 0 && n->trace > 0;
    return known ? n->trace / n->square : NAN;
}

struct str noise_absent(const struct noise *n, struct arena *perm)
{
    if (!isnan(noise_scale(n))) return STR("");
    if (n->steps < steps_min)
        return str_fmt(perm, "%lld step%s measured, and it takes %lld", (long long)n->steps,
                       n->steps == 1 ? " was" : "s were", (long long)steps_min);
    return n->square > 0
               ? STR("the two halves of a step have the same gradient: a smaller batch would do")
               : STR("the gradient of a step is nothing but noise: a larger batch would learn "
                     "more");
}

f64 noise_steps(f64 scale, i64 batch) { return 1 + scale / (f64)batch; }

f64 noise_data(f64 scale, i64 batch) { return 1 + (f64)batch / scale; }

i64 noise_batch(f64 scale) { return (i64)exp2(fmin(fmax(rint(log2(scale)), 0), 40)); }
