/* cached_impl.h - attention of new rows over a cache of keys and values, for one token at a time.
 *
 * A new row reads all keys before it once, so there is nothing to gain from tiles of queries: a block of work is
 * one head of one row, which goes over its keys in chunks and keeps the softmax's sum and top as it goes:
 *
 *     s = (scale q) . k    top' = max(top, s)    o = o exp(top - top') + exp(s - top') v
 *
 * No memory grows with the cache. The cache is f32 whatever the rows are. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/rows_exp.h"

enum { KEYS = 128 }; /* of a chunk: 32 KiB of them and as much of values with heads of 64 */

struct cached {
    const void *qkv;
    void       *o;
    f32        *cache;
    const i32  *sequence, *place;
    i64         rows, L, H, G, D, window;
    f32         scale;
};

static struct cached cached_of(const struct call *c)
{
    struct shape  x = c->in[0].type.shape, s = c->in[1].type.shape;
    struct cached a = { .qkv      = c->in[0].data,
                        .o        = c->out[0].data,
                        .cache    = c->in[1].data,
                        .sequence = c->in[2].data,
                        .place    = c->in[3].data,
                        .rows     = x.dim[0],
                        .L        = s.dim[1],
                        .H        = c->at->heads,
                        .G        = c->at->kv_heads,
                        .window   = c->at->window,
                        .scale    = (f32)c->at->scale };
    a.D             = x.dim[1] / (a.H + 2 * a.G);
    return a;
}

/* Keys of head g at a place; the values lie G D further on. */
static f32 *cached_at(const struct cached *a, i64 sequence, i64 place, i64 g)
{
    return a->cache + ((sequence * a->L + place) * 2 * a->G + g) * a->D;
}

V_INLINE void widen(f32 *to, const void *from, i64 at, i64 count, f32 scale, const enum dtype t)
{
    for (i64 i = 0; i < count; i += V_LANES) {
        vm m = v_first(MIN(count - i, V_LANES));
        v_store_m(to + i, v_get(from, at + i, m, t) * v_set(scale), m);
    }
}

/* Keys and values of a row to their place. */
V_INLINE void keep_block(const struct cached *a, i64 r, const enum dtype t)
{
    if (a->sequence[r] < 0) return;
    i64 at = (r * (a->H + 2 * a->G) + a->H) * a->D;
    widen(cached_at(a, a->sequence[r], a->place[r], 0), a->qkv, at, 2 * a->G * a->D, 1, t);
}

struct running { /* of one head of one row */
    f32 q[HEAD_DIM_MAX], o[HEAD_DIM_MAX];
    f32 top, sum;
};

static void attend_chunk(const struct cached *a, struct running *w, const f32 *k, i64 keys)
{
    f32        s[KEYS], top = w->top;
    i64        row = 2 * a->G * a->D;
    const f32 *v   = k + a->G * a->D;
    for (i64 j = 0; j < keys; j++) s[j] = row_dot(w->q, k + j * row, a->D, DT_F32);
    w->top  = fmaxf(top, row_top(s, keys, DT_F32));
    f32 old = top == w->top ? 1 : expf(top - w->top);
    w->sum  = w->sum * old + row_exp(s, s, keys, w->top, DT_F32);
    for (i64 i = 0; i < a->D; i += V_LANES) {
        vm m  = v_first(MIN(a->D - i, V_LANES));
        vf of = v_load_m(w->o + i, m) * v_set(old);
        for (i64 j = 0; j < keys; j++) of = v_fma(v_set(s[j]), v_load_m(v + j * row + i, m), of);
        v_store_m(w->o + i, of, m);
    }
}

V_INLINE void attend_block(const struct cached *a, i64 block, const enum dtype t)
{
    struct running w;
    i64            r = block / a->H, h = block % a->H, g = h * a->G / a->H;
    i64            end   = a->sequence[r] < 0 ? 0 : a->place[r] + 1;
    i64            begin = a->window ? MAX(0, end - a->window) : 0;
    w.top                = -INFINITY;
    w.sum                = 0;
    widen(w.q, a->qkv, (r * (a->H + 2 * a->G) + h) * a->D, a->D, a->scale, t);
    memset(w.o, 0, (size_t)a->D * sizeof *w.o);
    for (i64 s = begin; s < end; s += KEYS)
        attend_chunk(a, &w, cached_at(a, a->sequence[r], s, g), MIN(KEYS, end - s));
    for (i64 i = 0; i < a->D; i += V_LANES) {
        vm m = v_first(MIN(a->D - i, V_LANES));
        vf y = v_load_m(w.o + i, m) * v_set(end > begin ? 1 / w.sum : 0);
        v_put(a->o, (r * a->H + h) * a->D + i, y, m, t);
    }
}

BY_STORAGE(keep_block)
BY_STORAGE(attend_block)

static void attention_cached(const struct call *c)
{
    struct cached a = cached_of(c);
    for (i64 r = 0; r < a.rows; r++)
        ASSERT(a.sequence[r] < 0 || (a.place[r] >= 0 && a.place[r] < a.L));
    pool_run(c->pool, a.rows, keep_block_by[fast_storage(c)], &a);
    pool_run(c->pool, a.rows * a.H, attend_block_by[fast_storage(c)], &a);
}

const struct kernel ISA_FN(kernels_cached)[] = {
    { OP_ATTENTION_CACHED, "cached_" ISA_NAME, ISA_HERE, stored, attention_cached, NULL },
};
const i32 ISA_COUNT(kernels_cached) = (i32)COUNT_OF(ISA_FN(kernels_cached));
