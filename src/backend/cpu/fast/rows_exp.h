/* rows_exp.h - the two passes that every softmax of a row begins with. */
#ifndef BACKEND_CPU_FAST_ROWS_EXP_H
#define BACKEND_CPU_FAST_ROWS_EXP_H
#include "backend/cpu/fast/rows.h"
#include "backend/cpu/fast/simd_math.h"

/* The largest number of a row; what is no number is passed over, as in fmax. */
V_INLINE f32 row_top(const f32 *x, i64 width)
{
    vf  top = v_set(-INFINITY);
    i64 i   = 0;
    for (; i + V_LANES <= width; i += V_LANES) top = v_max(v_load(x + i), top);
    f32 best = v_top(top);
    for (; i < width; i++) best = x[i] > best ? x[i] : best;
    return best;
}

/* The sum of exp(x - top); the exponentials too, if y is not NULL. */
V_INLINE f32 row_exp(f32 *y, const f32 *x, i64 width, f32 top)
{
    vf  sum = v_zero(), shift = v_set(top);
    i64 i = 0;
    for (; i + V_LANES <= width; i += V_LANES) {
        vf e = v_exp(v_load(x + i) - shift);
        if (y) v_store(y + i, e);
        sum = sum + e;
    }
    f32 rest[V_LANES] = { 0 };
    if (i < width) {
        v_store(rest, v_exp(v_load_n(x + i, width - i) - shift));
        for (i64 k = width - i; k < V_LANES; k++) rest[k] = 0;
        if (y) memcpy(y + i, rest, (size_t)(width - i) * sizeof *y);
    }
    return v_sum(sum + v_load(rest));
}

#endif
