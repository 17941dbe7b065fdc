/* attention.cuh - a call of attention as kernels see it: where sequences begin, how long they are,
 * where their heads lie. */
#ifndef BACKEND_CUDA_MODULE_ATTENTION_CUH
#define BACKEND_CUDA_MODULE_ATTENTION_CUH
#include "backend/cuda/module/random.cuh"
#include "ir/attention.h"

struct attention {
    i64        B, T, H, G, D; /* packed: T is the longest that a sequence may be */
    f32        scale;
    bool       causal;
    const i32 *lens, *offsets, *positions; /* or NULL */
    i64        rows;
    i64        window; /* keys that a query sees at most; 0: no such bound */
    /* Dropout on the weights; rng is NULL without. */
    const i32 *rng;
    u64        name;
    u32        least; /* the smallest word that keeps its weight */
    f32        over;  /* 1 / (1 - p) */
};

static struct attention attention_of(const struct gpu_call *c, const struct tensor *qkv, i32 lens)
{
    struct shape     s      = qkv->type.shape;
    bool             packed = s.rank == 2;
    i32              drops  = c->at->p > 0;
    const i32       *given  = c->in_count - drops > lens ? data_of<i32>(c->in[lens]) : NULL;
    struct attention a      = {};
    a.H                     = c->at->heads;
    a.G                     = c->at->kv_heads;
    a.B                     = packed ? c->in[lens].count - 1 : s.dim[0];
    a.T                     = packed ? c->at->count : s.dim[1];
    a.D                     = shape_last(s) / (a.H + 2 * a.G);
    a.scale                 = (f32)c->at->scale;
    a.causal                = c->at->causal != 0;
    a.rows                  = shape_rows(s);
    a.window                = c->at->window;
    if (packed) a.offsets = given;
    else if (given && c->in[lens].type.shape.rank == 2) a.positions = given;
    else a.lens = given;
    if (!drops) return a;
    a.rng   = data_of<i32>(c->in[c->in_count - 1]);
    a.name  = (u64)c->at->key;
    a.least = (u32)MIN(ceil(c->at->p * 0x1p32), 0x1p32 - 1);
    a.over  = (f32)(1 / (1 - c->at->p));
    return a;
}

/* Row of position t. */
__device__ inline i64 row_at(const struct attention &a, i64 b, i64 t)
{
    return (a.offsets ? min(a.rows, (i64)max(0, a.offsets[b])) : b * a.T) + t;
}
__device__ inline i64 head_at(const struct attention &a, i64 b, i64 t, i64 h)
{
    return (row_at(a, b, t) * (a.H + 2 * a.G) + h) * a.D;
}
__device__ inline i64 o_at(const struct attention &a, i64 b, i64 t, i64 h)
{
    return (row_at(a, b, t) * a.H + h) * a.D;
}
__device__ inline i64 lse_at(const struct attention &a, i64 b, i64 t, i64 h)
{
    return a.offsets ? h * a.rows + row_at(a, b, t) : (b * a.H + h) * a.T + t;
}
__device__ inline i64 length(const struct attention &a, i64 b)
{
    if (a.offsets)
        return max((i64)0, min(a.T, min(a.rows, (i64)a.offsets[b + 1]) - row_at(a, b, 0)));
    return a.lens ? min(a.T, (i64)a.lens[b]) : a.T;
}
/* Positions [0, end) have a row of their own, of padding too. */
__device__ inline i64 rows_end(const struct attention &a, i64 b)
{
    return a.offsets ? length(a, b) : a.T;
}
/* Keys [begin, end) are seen by query t; none by a query that is padding. The begin never falls from one query to the
 * next. */
__device__ inline i64 keys_begin(const struct attention &a, i64 b, i64 t)
{
    i64 begin = a.window ? max((i64)0, t - a.window + 1) : 0;
    return a.positions ? max(begin, t - max(0, a.positions[b * a.T + t])) : begin;
}
__device__ inline i64 keys_end(const struct attention &a, i64 b, i64 t)
{
    i64 len = length(a, b);
    return t >= len ? 0 : a.causal ? t + 1 : len;
}

/* --- dropout on the weights --- */

struct drop { /* of one sequence and head */
    u64 key, first;
    u32 sample, step;
};

__device__ inline struct drop drop_of(const struct attention &a, i64 b, i64 h)
{
    u64 sample = (u64)(u32)a.rng[3] + (u64)b;
    return { random_key(a.rng, a.name, sample), attention_weight(h, 0, 0), (u32)sample,
             (u32)a.rng[2] };
}

/* Words of the four keys from s on, a multiple of 4, for query t. */
__device__ inline void drop_words(const struct drop &d, i64 t, i64 s, u32 *word)
{
    random_words(word, d.key, d.sample, d.step, (d.first | attention_weight(0, t, s)) / 4);
}

__device__ inline f32 kept(const struct attention &a, u32 word)
{
    return word >= a.least ? a.over : 0;
}

/* What the weight of key s for query t is multiplied by. */
__device__ inline f32 kept_at(const struct attention &a, i64 b, i64 h, i64 t, i64 s)
{
    u32 word[4];
    if (!a.rng) return 1;
    drop_words(drop_of(a, b, h), t, s & ~(i64)3, word);
    return kept(a, s % 4 == 0 ? word[0] : s % 4 == 1 ? word[1] : s % 4 == 2 ? word[2] : word[3]);
}

enum { CLEAR_THREADS = 128 };

/* 0 in the rows of `width` numbers that belong to no sequence, and in their lse. */
template <class T> __global__ void clear_rows(T *y, f32 *lse, i64 width, struct attention a)
{
    for (i64 row = row_at(a, a.B, 0) + blockIdx.x; row < a.rows; row += gridDim.x) {
        for (i64 i = threadIdx.x; i < width; i += CLEAR_THREADS)
            y[row * width + i] = from_f32<T>(0);
        for (i64 h = threadIdx.x; lse && h < a.H; h += CLEAR_THREADS) lse[h * a.rows + row] = 0;
    }
}

/* 0 in the rows that are padding by `lens`. */
template <class T> __global__ void clear_padding(T *y, f32 *lse, i64 width, struct attention a)
{
    for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
        i64 b = row / a.T, t = row % a.T;
        if (t < length(a, b)) continue;
        for (i64 i = threadIdx.x; i < width; i += CLEAR_THREADS)
            y[row * width + i] = from_f32<T>(0);
        for (i64 h = threadIdx.x; lse && h < a.H; h += CLEAR_THREADS) lse[lse_at(a, b, t, h)] = 0;
    }
}

template <class T> static void clear(const struct gpu_call *c, struct attention a, T *y, f32 *lse)
{
    if (!a.offsets) return;
    clear_rows<T>
        <<<(unsigned)MIN(a.rows, 2 * c->gpu->processors), CLEAR_THREADS, 0, c->gpu->stream>>>(
            y, lse, shape_last(c->out[0].type.shape), a);
}

#endif
