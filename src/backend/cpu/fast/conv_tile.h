/* conv_tile.h - the two inner loops that all convolutions come down to. Both hold a tile of sums
 * in registers, one or two vectors of out-channels wide:
 *
 *     dots     out[p] = bias + sum over k of x[p, k] * w[k]     a tile of neighbouring p
 *     outers   sum[k] += sum over p of x[p, k] * dy[p]          a tile of neighbouring k
 *
 * x are numbers of the image, the same for all lanes; out, w, dy, sum and bias are vectors. Both
 * x may come in several rows that are `x_row` apart. */
#ifndef BACKEND_CPU_FAST_CONV_TILE_H
#define BACKEND_CPU_FAST_CONV_TILE_H
#include "backend/cpu/fast/simd.h"

/* Sums in one tile, with one and with two vectors of channels. */
enum {
    DOTS_1   = V_REGISTERS == 32 ? 14 : 8, /* each needs an address register too */
    OUTERS_1 = V_REGISTERS == 32 ? 16 : 8,
    TILE_2   = V_REGISTERS == 32 ? 12 : 6,
};

/* Calls tile(t, n, vectors) with constants in place of n and vectors. */
#define CASE(n, tile, vectors)                                                                     \
    case n:                                                                                        \
        tile(t, n, vectors);                                                                       \
        break;
#define CASES_6(...)                                                                               \
    CASE(1, __VA_ARGS__)                                                                           \
    CASE(2, __VA_ARGS__)                                                                           \
    CASE(3, __VA_ARGS__)                                                                           \
    CASE(4, __VA_ARGS__)                                                                           \
    CASE(5, __VA_ARGS__)                                                                           \
    CASE(6, __VA_ARGS__)
#define CASES_8(...) CASES_6(__VA_ARGS__) CASE(7, __VA_ARGS__) CASE(8, __VA_ARGS__)
#define CASES_12(...)                                                                              \
    CASES_8(__VA_ARGS__)                                                                           \
    CASE(9, __VA_ARGS__)                                                                           \
    CASE(10, __VA_ARGS__)                                                                          \
    CASE(11, __VA_ARGS__)                                                                          \
    CASE(12, __VA_ARGS__)
#define CASES_14(...)                                                                              \
    CASES_12(__VA_ARGS__)                                                                          \
    CASE(13, __VA_ARGS__)                                                                          \
    CASE(14, __VA_ARGS__)
#define CASES_16(...) CASES_14(__VA_ARGS__) CASE(15, __VA_ARGS__) CASE(16, __VA_ARGS__)
#if V_REGISTERS == 32
#define CASES_DOTS_1 CASES_14
#define CASES_OUTERS_1 CASES_16
#define CASES_TILE_2 CASES_12
#else
#define CASES_DOTS_1 CASES_8
#define CASES_OUTERS_1 CASES_8
#define CASES_TILE_2 CASES_6
#endif

static inline i64 div_up(i64 a, i64 b) { return (a + b - 1) / b; }

/* Vectors of out-channels. */
static inline i64 lane_blocks(i64 channels) { return div_up(channels, V_LANES); }

/* `count` in tiles of at most `most`, all about as large. */
static inline i64 even_tiles(i64 count, i64 most) { return div_up(count, div_up(count, most)); }

/* ---- dots ---- */

struct dots {
    const f32 *x, *w, *bias; /* w: [rows][run][V_LANES]; bias: NULL is 0 */
    f32       *out;
    i64        rows, run; /* k runs over `run` numbers in each of `rows` */
    i64        x_row, x_step, out_step;
    i64        w_block; /* from the first vector's weights to the second's */
    i64        lanes;   /* channels in the last vector */
};

V_INLINE void dots_tile(const struct dots *t, const int count, const int vectors)
{
    vf sum[DOTS_1][2];
#pragma GCC unroll 16
    for (int p = 0; p < count; p++)
        for (int v = 0; v < vectors; v++) {
            i64 n     = v == vectors - 1 ? t->lanes : V_LANES;
            sum[p][v] = t->bias ? v_load_n(t->bias + v * V_LANES, n) : v_zero();
        }
    const f32 *w = t->w;
    for (i64 y = 0; y < t->rows; y++) {
        const f32 *x = t->x + y * t->x_row;
        for (i64 k = 0; k < t->run; k++, w += V_LANES) {
            vf a = v_load(w), b = vectors == 2 ? v_load(w + t->w_block) : a;
#pragma GCC unroll 16
            for (int p = 0; p < count; p++) {
                vf s      = v_set(x[p * t->x_step + k]);
                sum[p][0] = v_fma(s, a, sum[p][0]);
                if (vectors == 2) sum[p][1] = v_fma(s, b, sum[p][1]);
            }
        }
    }
#pragma GCC unroll 16
    for (int p = 0; p < count; p++)
        for (int v = 0; v < vectors; v++) {
            f32 *to = t->out + p * t->out_step + v * V_LANES;
            if (v < vectors - 1 || t->lanes == V_LANES) v_store(to, sum[p][v]);
            else v_store_n(to, sum[p][v], t->lanes);
        }
}

static void dots_1(const struct dots *t, i64 count)
{
    switch (count) {
        CASES_DOTS_1(dots_tile, 1)
    }
}

static void dots_2(const struct dots *t, i64 count)
{
    switch (count) {
        CASES_TILE_2(dots_tile, 2)
    }
}

static inline i64 dots_size(i64 count, i64 vectors)
{
    return even_tiles(count, vectors == 2 ? TILE_2 : DOTS_1);
}

/* `count` neighbouring p, in tiles of size = dots_size(count, vectors). */
static void dots_run(struct dots t, i64 count, i64 size, i64 vectors)
{
    for (i64 left = count, n; left > 0; left -= n) {
        n = MIN(left, size);
        if (vectors == 2) dots_2(&t, n);
        else dots_1(&t, n);
        t.x += n * t.x_step;
        t.out += n * t.out_step;
    }
}

/* ---- outers ---- */

struct outers {
    const f32 *x, *dy;
    f32       *sum;
    i64        rows, cols; /* p runs over `cols` in each of `rows` */
    i64        x_row, x_step, dy_row, dy_step;
    i64        sum_block; /* from the first vector's sums to the second's */
};

V_INLINE void outers_tile(const struct outers *t, const int count, const int vectors)
{
    vf sum[OUTERS_1][2];
#pragma GCC unroll 16
    for (int k = 0; k < count; k++)
        for (int v = 0; v < vectors; v++)
            sum[k][v] = v_load(t->sum + k * V_LANES + v * t->sum_block);
    for (i64 y = 0; y < t->rows; y++) {
        const f32 *x = t->x + y * t->x_row, *dy = t->dy + y * t->dy_row;
        for (i64 p = 0; p < t->cols; p++, x += t->x_step, dy += t->dy_step) {
            vf a = v_load(dy), b = vectors == 2 ? v_load(dy + V_LANES) : a;
#pragma GCC unroll 16
            for (int k = 0; k < count; k++) {
                vf s      = v_set(x[k]);
                sum[k][0] = v_fma(s, a, sum[k][0]);
                if (vectors == 2) sum[k][1] = v_fma(s, b, sum[k][1]);
            }
        }
    }
#pragma GCC unroll 16
    for (int k = 0; k < count; k++)
        for (int v = 0; v < vectors; v++)
            v_store(t->sum + k * V_LANES + v * t->sum_block, sum[k][v]);
}

static void outers_1(const struct outers *t, i64 count)
{
    switch (count) {
        CASES_OUTERS_1(outers_tile, 1)
    }
}

static void outers_2(const struct outers *t, i64 count)
{
    switch (count) {
        CASES_TILE_2(outers_tile, 2)
    }
}

static inline i64 outers_size(i64 count, i64 vectors)
{
    return even_tiles(count, vectors == 2 ? TILE_2 : OUTERS_1);
}

/* `count` neighbouring k, in tiles of size = outers_size(count, vectors). */
static void outers_run(struct outers t, i64 count, i64 size, i64 vectors)
{
    for (i64 left = count, n; left > 0; left -= n) {
        n = MIN(left, size);
        if (vectors == 2) outers_2(&t, n);
        else outers_1(&t, n);
        t.x += n;
        t.sum += n * V_LANES;
    }
}

#endif
