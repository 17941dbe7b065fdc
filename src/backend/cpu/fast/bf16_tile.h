/* bf16_tile.h - the heart of every product of bf16 numbers: 16 or 32 rows by a few vectors of
 * columns, summed in f32.
 *
 * Both instruction sets multiply pairs: two neighbouring steps of K lie side by side in 32 bits,
 * and a lane takes a0*b0 + a1*b1. Steps come in tiles of 32 (16 pairs), filled up with zeros:
 *
 *     A   rows of pairs, 16 rows to a panel      [panel][tile][16 rows][16 pairs], or as it lies
 *     B   pairs of rows, NR columns to a panel   [panel][tile][16 pairs][NR columns]
 *
 * AVX512-BF16 holds 8 rows by 48 columns of sums in registers and sends each pair of A to all
 * lanes. AMX holds 32 by 32 in four of its eight tiles of 16 rows by 64 bytes; two others are of A
 * and two of B. */
#ifndef BACKEND_CPU_FAST_BF16_TILE_H
#define BACKEND_CPU_FAST_BF16_TILE_H
#include "backend/cpu/fast/storage.h"
#include "backend/cpu/fast/transpose.h"

#ifdef __AMX_BF16__
enum { NV = 2 };
#else
enum { NV = 3 };
#endif
enum {
    NR     = NV * V_LANES,
    PANEL  = 16,        /* rows of A */
    ROWS   = 2 * PANEL, /* at a time */
    STEPS  = 32,        /* of K in a tile */
    PAIRS  = STEPS / 2,
    A_TILE = PANEL * STEPS, /* numbers in a tile of a packed panel */
    B_TILE = NR * STEPS,
};

/* ---- packing */

/* An operand seen as lines along K: rows of A, columns of B. One of the distances is 1. */
struct lines {
    const u16 *data;
    i64        line, step;   /* distance from line to line, from step to step */
    i64        count, steps; /* of them that are there; the others are 0 */
};

/* 16 pairs of line i, or pair i of 16 lines: whichever lies side by side in memory. */
V_INLINE vf pairs_at(const struct lines *from, i64 i)
{
    if (from->step == 1) {
        i64       steps = i < from->count ? MIN(from->steps, STEPS) : 0;
        __mmask32 mask  = (__mmask32)((1ull << MAX(steps, 0)) - 1);
        return (vf)_mm512_maskz_loadu_epi16(mask, from->data + i * from->line);
    }
    __mmask16  lines = (__mmask16)((1u << MAX(0, MIN(from->count, PANEL))) - 1);
    __mmask16  low = 2 * i < from->steps ? lines : 0, high = 2 * i + 1 < from->steps ? lines : 0;
    const u16 *p = from->data + 2 * i * from->step;
    __m512i    a = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(low, p));
    __m512i    b = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(high, p + from->step));
    return (vf)_mm512_or_epi32(a, _mm512_slli_epi32(b, 16));
}

/* A tile of 16 lines, as lines of pairs (`lines_wanted`) or pairs of lines; rows of `to` are
 * to_row numbers apart. */
V_INLINE void pack_tile(u16 *to, i64 to_row, struct lines from, const bool lines_wanted)
{
    vf x[PAIRS];
    for (i64 i = 0; i < PAIRS; i++) x[i] = pairs_at(&from, i);
    if ((from.step == 1) != lines_wanted) v_transpose(x, PAIRS);
    for (i64 i = 0; i < PAIRS; i++) memcpy(to + i * to_row, &x[i], sizeof x[i]);
}

V_INLINE void pack_a_tile(u16 *to, struct lines from) { pack_tile(to, STEPS, from, true); }

V_INLINE void pack_b_tile(u16 *to, struct lines from)
{
    for (int v = 0; v < NV; v++, from.data += V_LANES * from.line, from.count -= V_LANES)
        pack_tile(to + v * STEPS, 2 * NR, from, false);
}

static inline i64 round_up(i64 n, i64 to) { return (n + to - 1) / to * to; }
static inline i64 tiles_of(i64 steps) { return round_up(steps, STEPS) / STEPS; }

/* Numbers in a whole packed operand; of A, an even number of panels. */
static inline i64 a_numbers(i64 lines, i64 steps)
{
    return round_up(lines, ROWS) * round_up(steps, STEPS);
}
static inline i64 b_numbers(i64 lines, i64 steps)
{
    return round_up(lines, NR) * round_up(steps, STEPS);
}

__attribute__((unused)) static void pack_a(u16 *to, struct lines from)
{
    i64 panels = round_up(from.count, ROWS) / PANEL, steps = from.steps;
    for (i64 p = 0; p < panels; p++, from.data += PANEL * from.line, from.count -= PANEL) {
        struct lines tile = from;
        for (i64 k = 0; k < steps; k += STEPS, to += A_TILE) {
            pack_a_tile(to, tile);
            tile.data += STEPS * tile.step;
            tile.steps -= STEPS;
        }
    }
}

__attribute__((unused)) static void pack_b(u16 *to, struct lines from)
{
    i64 lines = from.count, steps = from.steps;
    for (i64 n = 0; n < lines; n += NR, from.data += NR * from.line, from.count -= NR) {
        struct lines tile = from;
        for (i64 k = 0; k < steps; k += STEPS, to += B_TILE) {
            pack_b_tile(to, tile);
            tile.data += STEPS * tile.step;
            tile.steps -= STEPS;
        }
    }
}

/* ---- products */

struct bf16_tile {
    i64        tiles; /* of K */
    const u16 *a;
    i64        a_row, a_tile, a_panel; /* from row to row, tile to tile, panel to panel */
    const u16 *b;                      /* a panel, or its first vectors */
    f32       *c;
    i64        c_row;
    bool       adds; /* to what c holds; else c begins at 0 */
};

#ifdef __AMX_BF16__

/* All eight tiles are 16 rows of 64 bytes. The tiles belong to the thread; they are given back so
 * that it is cheap to switch to another. */
V_INLINE void products_begin(void)
{
    static const struct {
        u8  palette, start_row, reserved[14];
        u16 row_bytes[16];
        u8  rows[16];
    } config = { .palette   = 1,
                 .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
                 .rows      = { 16, 16, 16, 16, 16, 16, 16, 16 } };
    _tile_loadconfig(&config);
}

V_INLINE void products_end(void) { _tile_release(); }

/* To the compiler the instructions on tiles read and write no memory. */
V_INLINE void tiles_barrier(void) { __asm__ volatile("" ::: "memory"); }

V_INLINE void product_tile(const struct bf16_tile *t, const int panels, const int nv)
{
    const u16 *a = t->a, *b = t->b;
    f32       *c = t->c, *low = t->c + PANEL * t->c_row;
    const i64  a_row = t->a_row * 2, a_panel = t->a_panel, a_tile = t->a_tile, c_row = t->c_row * 4;
    tiles_barrier();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (t->adds) {
        _tile_loadd(0, c, c_row);
        if (nv == 2) _tile_loadd(1, c + V_LANES, c_row);
        if (panels == 2) _tile_loadd(2, low, c_row);
        if (panels == 2 && nv == 2) _tile_loadd(3, low + V_LANES, c_row);
    }
    for (i64 k = 0; k < t->tiles; k++, a += a_tile, b += B_TILE) {
        _tile_loadd(4, a, a_row);
        _tile_loadd(6, b, 4 * NR);
        _tile_dpbf16ps(0, 4, 6);
        if (nv == 2) _tile_loadd(7, b + STEPS, 4 * NR);
        if (nv == 2) _tile_dpbf16ps(1, 4, 7);
        if (panels == 2) _tile_loadd(5, a + a_panel, a_row);
        if (panels == 2) _tile_dpbf16ps(2, 5, 6);
        if (panels == 2 && nv == 2) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_row);
    if (nv == 2) _tile_stored(1, c + V_LANES, c_row);
    if (panels == 2) _tile_stored(2, low, c_row);
    if (panels == 2 && nv == 2) _tile_stored(3, low + V_LANES, c_row);
    tiles_barrier();
}

/* c[16 panels, 16 nv] = or += a . b; panels is 1 or 2, nv in [1, NV]. */
__attribute__((unused)) static void product(const struct bf16_tile *t, i64 panels, i64 nv)
{
    if (panels == 2 && nv == 2) product_tile(t, 2, 2);
    else if (panels == 2) product_tile(t, 2, 1);
    else if (nv == 2) product_tile(t, 1, 2);
    else product_tile(t, 1, 1);
}

#else

enum { MR = 8 }; /* rows in registers */

V_INLINE void products_begin(void) {}
V_INLINE void products_end(void) {}

V_INLINE __m512bh pairs_of(const u16 *p)
{
    __m512bh x;
    memcpy(&x, p, sizeof x);
    return x;
}

V_INLINE __m512bh pair_of(const u16 *p) /* one pair to all lanes */
{
    i32 x;
    memcpy(&x, p, sizeof x);
    return (__m512bh)_mm512_set1_epi32(x);
}

V_INLINE void product_tile(const struct bf16_tile *t, const u16 *a, f32 *c, const int nv)
{
    __m512     acc[MR][NV];
    const u16 *b     = t->b;
    const i64  a_row = t->a_row;
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < nv; j++)
            acc[i][j] = t->adds ? (__m512)v_load(c + i * t->c_row + j * V_LANES) : (__m512)v_zero();
    for (i64 k = 0; k < t->tiles; k++, a += t->a_tile)
        for (i64 p = 0; p < PAIRS; p++, b += 2 * NR) {
            __m512bh row[NV];
            for (int j = 0; j < nv; j++) row[j] = pairs_of(b + j * STEPS);
            for (int i = 0; i < MR; i++) {
                __m512bh x = pair_of(a + i * a_row + 2 * p);
                for (int j = 0; j < nv; j++) acc[i][j] = _mm512_dpbf16_ps(acc[i][j], x, row[j]);
            }
        }
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < nv; j++) v_store(c + i * t->c_row + j * V_LANES, (vf)acc[i][j]);
}

/* c[16 panels, 16 nv] = or += a . b; panels is 1 or 2, nv in [1, NV]. */
__attribute__((unused)) static void product(const struct bf16_tile *t, i64 panels, i64 nv)
{
    for (i64 r = 0; r < panels * PANEL; r += MR) {
        const u16 *a = t->a + r / PANEL * t->a_panel + r % PANEL * t->a_row;
        f32       *c = t->c + r * t->c_row;
        if (nv == 3) product_tile(t, a, c, 3);
        else if (nv == 2) product_tile(t, a, c, 2);
        else product_tile(t, a, c, 1);
    }
}

#endif

/* The same for all columns of b, whose panels are b_panel apart. */
__attribute__((unused)) static void product_rows(struct bf16_tile t, i64 panels, i64 columns,
                                                 i64 b_panel)
{
    for (i64 n = 0; n < columns; n += NR, t.b += b_panel, t.c += NR)
        product(&t, panels, MIN(round_up(columns - n, V_LANES) / V_LANES, NV));
}

#endif
