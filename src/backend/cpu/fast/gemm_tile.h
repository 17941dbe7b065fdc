/* gemm_tile.h - the heart of every matrix product: one tile of C that stays in the registers.
 *
 * It is MR rows by NV vectors: 24 (12) accumulators of 32 (16) registers; the rest holds a row of B
 * and one number of A. NR columns of B, packed row after row, are a panel. 99 % of the peak on one
 * Zen 4 core with operands in the second cache. */
#ifndef BACKEND_CPU_FAST_GEMM_TILE_H
#define BACKEND_CPU_FAST_GEMM_TILE_H
#include "backend/cpu/fast/transpose.h"

#if V_REGISTERS == 32
#define MR 8
#else
#define MR 4
#endif
enum { NV = 3, NR = NV * V_LANES };

static const f32 tile_zeros[NR] __attribute__((unused)); /* to begin a sum with */

struct tile {
    i64        K;
    const f32 *a;
    i64        a_row, a_col; /* number (i, k) of A is a[i * a_row + k * a_col] */
    const f32 *b;
    i64        b_row; /* row k of B begins at b + k * b_row */
    f32       *c;
    i64        c_row;
    const f32 *from; /* what the sum begins with: row i at from + i * from_row */
    i64        from_row;
    i64        last; /* columns in the last vector */
};

/* rows and nv are constants where this is called, so the loops over them vanish. */
V_INLINE void tile_run(const struct tile *t, const int rows, const int nv)
{
    vf         acc[MR][NV];
    const vm   last = v_first(t->last);
    const f32 *a = t->a, *b = t->b;
    const i64  a_row = t->a_row, a_col = t->a_col, b_row = t->b_row, K = t->K;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < nv; j++) {
            const f32 *from = t->from + i * t->from_row + j * V_LANES;
            acc[i][j]       = j < nv - 1 ? v_load(from) : v_load_m(from, last);
            __builtin_prefetch(t->c + i * t->c_row + j * V_LANES, 1);
        }
    for (i64 k = 0; k < K; k++, a += a_col, b += b_row) {
        vf row[NV];
        for (int j = 0; j < nv; j++) row[j] = v_load(b + j * V_LANES);
        for (int i = 0; i < rows; i++) {
            vf x = v_set(a[i * a_row]);
            for (int j = 0; j < nv; j++) acc[i][j] = v_fma(x, row[j], acc[i][j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < nv; j++) {
            f32 *to = t->c + i * t->c_row + j * V_LANES;
            if (j < nv - 1) v_store(to, acc[i][j]);
            else v_store_m(to, acc[i][j], last);
        }
}

#define TILE_CASE(rows, nv)                                                                        \
    case (rows)*4 + (nv):                                                                          \
        tile_run(t, rows, nv);                                                                     \
        break;
#define TILE_CASES(rows) TILE_CASE(rows, 1) TILE_CASE(rows, 2) TILE_CASE(rows, 3)

__attribute__((unused)) static void tile_any(const struct tile *t, i64 rows, i64 nv)
{
    switch (rows * 4 + nv) {
        TILE_CASES(1)
        TILE_CASES(2)
        TILE_CASES(3)
        TILE_CASES(4)
#if MR == 8
        TILE_CASES(5)
        TILE_CASES(6)
        TILE_CASES(7)
        TILE_CASES(8)
#endif
    }
}

/* Columns of length K, `column` apart, `count` of them, become rows of `width` numbers (a
 * constant), filled up with zeros: V_LANES steps of K at a time, transposed in registers. */
V_INLINE void pack_columns(f32 *to, i64 to_row, const f32 *from, i64 column, i64 count, i64 K,
                           const int width)
{
    for (i64 k = 0; k < K; k += V_LANES) {
        i64 steps = MIN(K - k, V_LANES);
        vf  x[V_LANES];
        for (int i = 0; i < width; i++) {
            const f32 *p = from + i * column + k;
            x[i]         = i < count ? steps == V_LANES ? v_load(p) : v_load_n(p, steps) : v_zero();
        }
        v_transpose(x, width);
        if (width == V_LANES) {
            for (i64 s = 0; s < steps; s++) v_store(to + (k + s) * to_row, x[s]);
        } else {
            f32 *rows = to + k * width; /* to_row == width: the vectors lie one after the other */
            i64  left = steps * width;
            for (int i = 0; i < width && left > 0; i++, left -= V_LANES)
                v_store_n(rows + i * V_LANES, x[i], MIN(left, V_LANES));
        }
    }
}

/* A panel of B whose columns are contiguous and `column` apart; `count` <= NR of them are there. */
V_INLINE void pack_panel(f32 *to, const f32 *from, i64 column, i64 count, i64 K)
{
    for (int j = 0; j < NV; j++)
        pack_columns(to + j * V_LANES, NR, from + j * V_LANES * column, column, count - j * V_LANES,
                     K, V_LANES);
}

#endif
