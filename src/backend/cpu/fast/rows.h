/* rows.h - sums over one contiguous row of floats, in an order fixed by the vector's width. */
#ifndef BACKEND_CPU_FAST_ROWS_H
#define BACKEND_CPU_FAST_ROWS_H
#include "backend/cpu/fast/simd.h"

enum { ROW_CHAINS = 4 }; /* sums side by side, so that an addition need not wait for the last */

V_INLINE f32 chains_sum(const vf *s) { return v_sum((s[0] + s[1]) + (s[2] + s[3])); }

V_INLINE f32 row_sum(const f32 *x, i64 count)
{
    vf  s[ROW_CHAINS] = { 0 };
    i64 i             = 0;
    for (; i + ROW_CHAINS * V_LANES <= count; i += ROW_CHAINS * V_LANES)
        for (int j = 0; j < ROW_CHAINS; j++) s[j] += v_load(x + i + j * V_LANES);
    for (; i < count; i += V_LANES) s[0] += v_load_n(x + i, MIN(count - i, V_LANES));
    return chains_sum(s);
}

/* The sum of (x - from)^2. */
V_INLINE f32 row_sum_squares(const f32 *x, i64 count, f32 from)
{
    vf  s[ROW_CHAINS] = { 0 }, f = v_set(from);
    i64 i = 0;
    for (; i + ROW_CHAINS * V_LANES <= count; i += ROW_CHAINS * V_LANES)
        for (int j = 0; j < ROW_CHAINS; j++) {
            vf d = v_load(x + i + j * V_LANES) - f;
            s[j] = v_fma(d, d, s[j]);
        }
    for (; i < count; i += V_LANES) {
        i64 n = MIN(count - i, V_LANES);
        vf  d = v_load_n(x + i, n) - v_load_n((const f32 *)&f, n); /* 0 in the lanes beyond */
        s[1]  = v_fma(d, d, s[1]);
    }
    return chains_sum(s);
}

V_INLINE f32 row_dot(const f32 *x, const f32 *y, i64 count)
{
    vf  s[ROW_CHAINS] = { 0 };
    i64 i             = 0;
    for (; i + ROW_CHAINS * V_LANES <= count; i += ROW_CHAINS * V_LANES)
        for (int j = 0; j < ROW_CHAINS; j++)
            s[j] = v_fma(v_load(x + i + j * V_LANES), v_load(y + i + j * V_LANES), s[j]);
    for (; i < count; i += V_LANES) {
        vm m = v_first(MIN(count - i, V_LANES));
        s[0] = v_fma(v_load_m(x + i, m), v_load_m(y + i, m), s[0]);
    }
    return chains_sum(s);
}

/* y = the sum of `rows` rows of x, `step` apart; four at a time spare three of four loads of y. */
V_INLINE void rows_add(f32 *y, const f32 *x, i64 rows, i64 step, i64 width)
{
    memset(y, 0, (size_t)width * sizeof *y);
    for (i64 r = 0; r < rows; r += 4, x += 4 * step) {
        i64 left = MIN(rows - r, 4);
        for (i64 i = 0; i < width; i += V_LANES) {
            vm m   = v_first(MIN(width - i, V_LANES));
            vf sum = v_load_m(y + i, m);
            if (left == 4) {
                vf a = v_load_m(x + i, m) + v_load_m(x + step + i, m);
                vf b = v_load_m(x + 2 * step + i, m) + v_load_m(x + 3 * step + i, m);
                sum  = sum + (a + b);
            } else {
                for (i64 k = 0; k < left; k++) sum += v_load_m(x + k * step + i, m);
            }
            v_store_m(y + i, sum, m);
        }
    }
}

#endif
