/* random.h - the words of base/rng.h for many elements at once, and rounding by them.
 *
 * Philox gives four words for each block of four elements; V_LANES blocks are worked out side by
 * side, and the words transposed into the order of the elements. */
#ifndef FAST_RANDOM_H
#define FAST_RANDOM_H
#include "backend/cpu/fast/storage.h"
#include "backend/cpu/fast/transpose.h"
#include "base/rng.h"

enum { STRIDE = 4 * V_LANES }; /* elements of one round */

/* The high and low half of the product of each lane; the compiler makes vectors of it. */
V_INLINE void multiply(const u32 *x, u32 by, u32 *high, u32 *low)
{
    for (int i = 0; i < V_LANES; i++) {
        u64 product = (u64)x[i] * by;
        high[i]     = (u32)(product >> 32);
        low[i]      = (u32)product;
    }
}

/* Words of the blocks block, block + step, …, a block a lane: c[0] has the first of each, and so on. Constants as in
 * base/rng.c. */
static void word_lanes(u64 philox_key, struct rng_key key, u64 block, u64 step, u32 (*c)[V_LANES])
{
    u32 *c0 = c[0], *c1 = c[1], *c2 = c[2], *c3 = c[3];
    u32  h0[V_LANES], l0[V_LANES], h2[V_LANES], l2[V_LANES];
    u32  k0 = (u32)philox_key, k1 = (u32)(philox_key >> 32);
    for (u64 i = 0; i < V_LANES; i++) {
        c0[i] = (u32)(block + i * step);
        c1[i] = (u32)((block + i * step) >> 32);
        c2[i] = (u32)key.sample;
        c3[i] = (u32)key.step;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        multiply(c0, 0xD2511F53u, h0, l0);
        multiply(c2, 0xCD9E8D57u, h2, l2);
        for (int i = 0; i < V_LANES; i++) {
            c0[i] = h2[i] ^ c1[i] ^ k0;
            c2[i] = h0[i] ^ c3[i] ^ k1;
            c1[i] = l2[i];
            c3[i] = l0[i];
        }
    }
}

/* Words of the elements from 4 * block on. */
static void words(u64 philox_key, struct rng_key key, u64 block, u32 out[STRIDE])
{
    u32 c[4][V_LANES];
    word_lanes(philox_key, key, block, 1, c);
    vf x[V_LANES] = { v_load((f32 *)c[0]), v_load((f32 *)c[1]), v_load((f32 *)c[2]),
                      v_load((f32 *)c[3]) };
    v_transpose(x, 4);
    for (int i = 0; i < 4; i++) v_store((f32 *)out + i * V_LANES, x[i]);
}

/* ---- |x| becomes floor(|x| / ulp + f) ulp, f = word / 2^16: on bits, a random part of what is cut off is added
 * before */

/* f16 below 2^-14, where an ulp is 2^-24: n ulps and a rest, which is exact. */
V_INLINE vf round_subnormal(vf size, vi word)
{
    vf q     = v_min(size * v_set(0x1p24f), v_set(1024));
    vf n     = v_from_i(__builtin_convertvector(q, vi));
    vi above = q - n >= v_set(1) - v_from_i(word) * v_set(0x1p-16f);
    return (n + v_select(above, v_set(1), v_zero())) * v_set(0x1p-24f);
}

V_INLINE vf round_at_random(vf x, vi word, const enum dtype t) /* word in [0, 2^16) */
{
    vu bits = (vu)x, sign = bits & 0x80000000u, size = bits ^ sign;
    vf cut = (vf)(t == DT_BF16 ? (size + (vu)word) & ~0xFFFFu : (size + (vu)word / 8) & ~0x1FFFu);
    if (t == DT_F16)
        cut = v_select((vf)size < v_set(0x1p-14f), round_subnormal((vf)size, word), cut);
    return v_select((vi)(size < 0x7F800000u), (vf)((vu)cut | sign), x); /* else no finite number */
}

#endif
