/* rows.h - sums over one contiguous row of numbers, in an order fixed by the vector's width. */
#ifndef BACKEND_CPU_FAST_ROWS_H
#define BACKEND_CPU_FAST_ROWS_H
#include "backend/cpu/fast/storage.h"

enum { ROW_CHAINS = 4 }; /* sums side by side, so that an addition need not wait for the last */

V_INLINE f32 chains_sum(const vf *s) { return v_sum((s[0] + s[1]) + (s[2] + s[3])); }

V_INLINE f32 row_sum(const void *x, i64 count, const enum dtype t)
{
    vf  s[ROW_CHAINS] = { 0 };
    i64 i             = 0;
    for (; i + ROW_CHAINS * V_LANES <= count; i += ROW_CHAINS * V_LANES)
        for (int j = 0; j < ROW_CHAINS; j++) s[j] += v_get(x, i + j * V_LANES, v_all, t);
    for (; i < count; i += V_LANES) s[0] += v_get(x, i, v_first(MIN(count - i, V_LANES)), t);
    return chains_sum(s);
}

/* The sum of (x - from)^2. */
V_INLINE f32 row_sum_squares(const void *x, i64 count, f32 from, const enum dtype t)
{
    vf  s[ROW_CHAINS] = { 0 }, f = v_set(from);
    i64 i = 0;
    for (; i + ROW_CHAINS * V_LANES <= count; i += ROW_CHAINS * V_LANES)
        for (int j = 0; j < ROW_CHAINS; j++) {
            vf d = v_get(x, i + j * V_LANES, v_all, t) - f;
            s[j] = v_fma(d, d, s[j]);
        }
    for (; i < count; i += V_LANES) {
        vm m = v_first(MIN(count - i, V_LANES));
        vf d = v_get(x, i, m, t) - v_load_m((const f32 *)&f, m); /* 0 in the lanes beyond */
        s[1] = v_fma(d, d, s[1]);
    }
    return chains_sum(s);
}

V_INLINE f32 row_dot(const void *x, const void *y, i64 count, const enum dtype t)
{
    vf  s[ROW_CHAINS] = { 0 };
    i64 i             = 0;
    for (; i + ROW_CHAINS * V_LANES <= count; i += ROW_CHAINS * V_LANES)
        for (int j = 0; j < ROW_CHAINS; j++) {
            i64 k = i + j * V_LANES;
            s[j]  = v_fma(v_get(x, k, v_all, t), v_get(y, k, v_all, t), s[j]);
        }
    for (; i < count; i += V_LANES) {
        vm m = v_first(MIN(count - i, V_LANES));
        s[0] = v_fma(v_get(x, i, m, t), v_get(y, i, m, t), s[0]);
    }
    return chains_sum(s);
}

/* sum + the next four rows of x, `step` apart, or the `left` that are there. */
V_INLINE vf rows_next(vf sum, const void *x, i64 at, i64 step, i64 left, vm m, const enum dtype t)
{
    if (left >= 4) {
        vf a = v_get(x, at, m, t) + v_get(x, at + step, m, t);
        vf b = v_get(x, at + 2 * step, m, t) + v_get(x, at + 3 * step, m, t);
        return sum + (a + b);
    }
    for (i64 k = 0; k < left; k++) sum += v_get(x, at + k * step, m, t);
    return sum;
}

/* y = the sum of `rows` rows of x; four at a time spare three of four loads of y. */
V_INLINE void rows_add(f32 *y, const void *x, i64 rows, i64 step, i64 width, const enum dtype t)
{
    memset(y, 0, (size_t)width * sizeof *y);
    for (i64 r = 0; r < rows; r += 4)
        for (i64 i = 0; i < width; i += V_LANES) {
            vm m = v_first(MIN(width - i, V_LANES));
            v_store_m(y + i, rows_next(v_load_m(y + i, m), x, r * step + i, step, rows - r, m, t),
                      m);
        }
}

#endif
