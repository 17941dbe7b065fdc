/* attention.h - a call of attention as its kernels see it. */
#ifndef BACKEND_CPU_FAST_ATTENTION_H
#define BACKEND_CPU_FAST_ATTENTION_H
#include "backend/cpu/kernel.h"
#include "base/rng.h"

struct attention {
    i64 B, T, H, G, D; /* batch, positions, query heads, key heads, numbers in a head; of packed
                                 rows T is the longest that a sequence may be */
    i64 rows;          /* of qkv, all sequences together */
    i64 row, o_row;    /* from one position to the next in qkv and in o */
    const f32 *qkv, *o, *d_o;
    const i32 *lens;      /* or NULL */
    const i32 *positions; /* of each row in its document, or NULL */
    const i32 *offsets;   /* of packed rows: where each sequence begins, and the last ends */
    f32       *out, *lse; /* o, or dqkv; lse is only read by the gradient */
    f32        scale;
    bool       causal, packed;
    i64        window; /* keys that a query sees at most; 0: no such bound */
    /* Dropout on the weights; drops is false without. */
    bool           drops;
    struct rng_key key;   /* of the first sequence */
    u32            least; /* the smallest word that keeps its weight */
    f32            over;  /* 1 / (1 - p) */
};

struct attention attention_of(const struct call *c); /* forward or gradient; data may be NULL */
bool             attention_is_grad(const struct call *c);
void attention_clear(const struct call *c); /* results in rows that belong to no sequence */

/* The row of its first position. */
static inline i64 attention_first(const struct attention *a, i64 b)
{
    return a->packed ? MAX(0, MIN(a->rows, a->offsets[b])) : b * a->T;
}

static inline i64 attention_length(const struct attention *a, i64 b)
{
    if (a->packed)
        return MAX(0, MIN(a->T, MIN(a->rows, a->offsets[b + 1]) - attention_first(a, b)));
    return a->lens ? MAX(0, MIN(a->T, a->lens[b])) : a->T;
}

/* The first key that query t sees. It never falls from one query to the next. */
static inline i64 attention_begin(const struct attention *a, i64 b, i64 t)
{
    i64 begin = a->window ? MAX(0, t - a->window + 1) : 0;
    return a->positions ? MAX(begin, t - MAX(0, a->positions[b * a->T + t])) : begin;
}

/* Positions [0, end) have a row of their own, of padding too. */
static inline i64 attention_end(const struct attention *a, i64 b)
{
    return a->packed ? attention_length(a, b) : a->T;
}

static inline f32 *attention_lse(const struct attention *a, i64 b, i64 h)
{
    return a->lse + (a->packed ? h * a->rows + attention_first(a, b) : (b * a->H + h) * a->T);
}

/* Where the heads of position 0 begin in qkv, and head h in o. */
static inline i64 attention_q(const struct attention *a, i64 b, i64 h)
{
    return attention_first(a, b) * a->row + h * a->D;
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
    return attention_first(a, b) * a->o_row + h * a->D;
}

#endif
