/* attention.h - a call of attention as its kernels see it. */
#ifndef BACKEND_CPU_FAST_ATTENTION_H
#define BACKEND_CPU_FAST_ATTENTION_H
#include "backend/cpu/kernel.h"

struct attention {
    i64        B, T, H, G, D; /* batch, positions, query heads, key heads, numbers in a head */
    i64        row, o_row;    /* from one position to the next in qkv and in o */
    const f32 *qkv, *o, *d_o;
    const i32 *lens;      /* or NULL */
    f32       *out, *lse; /* o, or dqkv; lse is only read by the gradient */
    f32        scale;
    bool       causal;
};

struct attention attention_of(const struct call *c); /* forward or gradient; data may be NULL */

static inline i64 attention_length(const struct attention *a, i64 b)
{
    return a->lens ? MAX(0, MIN(a->T, a->lens[b])) : a->T;
}

/* Where the heads of position 0 begin in qkv, and head h in o. */
static inline i64 attention_q(const struct attention *a, i64 b, i64 h)
{
    return b * a->T * a->row + h * a->D;
}
static inline i64 attention_k(const struct attention *a, i64 b, i64 g)
{
    return attention_q(a, b, a->H + g);
}
static inline i64 attention_v(const struct attention *a, i64 b, i64 g)
{
    return attention_q(a, b, a->H + a->G + g);
}
static inline i64 attention_o(const struct attention *a, i64 b, i64 h)
{
    return b * a->T * a->o_row + h * a->D;
}

#endif
