/* rows_exp.h - the two passes that every softmax of a row begins with. */
#ifndef BACKEND_CPU_FAST_ROWS_EXP_H
#define BACKEND_CPU_FAST_ROWS_EXP_H
#include "backend/cpu/fast/rows.h"
#include "backend/cpu/fast/simd_math.h"

/* The largest number of a row; what is no number is passed over, as in fmax. */
V_INLINE f32 row_top(const void *x, i64 width, const enum dtype t)
{
    vf  top = v_set(-INFINITY);
    i64 i   = 0;
    for (; i + V_LANES <= width; i += V_LANES) top = v_max(v_get(x, i, v_all, t), top);
    f32 best = v_top(top);
    for (; i < width; i++) best = v_get_1(x, i, t) > best ? v_get_1(x, i, t) : best;
    return best;
}

/* The sum of exp(x - top); the exponentials too, if y is not NULL. */
V_INLINE f32 row_exp(f32 *y, const void *x, i64 width, f32 top, const enum dtype t)
{
    vf  sum = v_zero(), shift = v_set(top);
    i64 i = 0;
    for (; i + V_LANES <= width; i += V_LANES) {
        vf e = v_exp(v_get(x, i, v_all, t) - shift);
        if (y) v_store(y + i, e);
        sum = sum + e;
    }
    f32 rest[V_LANES] = { 0 };
    if (i < width) {
        v_store(rest, v_exp(v_get(x, i, v_first(width - i), t) - shift));
        for (i64 k = width - i; k < V_LANES; k++) rest[k] = 0;
        if (y) memcpy(y + i, rest, (size_t)(width - i) * sizeof *y);
    }
    return v_sum(sum + v_load(rest));
}

#endif
