/* attention_short_impl.h - softmax(q . k) v and its gradient within short packed sequences: words, queries, events.
 *
 * At 32 positions and less the kernels for long sequences spend their time on packing operands for products that have
 * hardly begun when they end. Here a sequence is a block of work, all of a head lies in the first cache as f32 whatever
 * its storage is, and the keys are the lanes of one or two vectors, so that a row of scores needs no loop:
 *
 *     s = q . k^T    p = exp(scale s - top)    o = p . v / sum p
 *     dp = do . v^T    ds = scale p (dp - do . o)    dq = ds . k    dk = ds^T . q    dv = p^T . do
 *
 * ROWS of queries (of keys, for dk and dv) go side by side; rows and lanes beyond the sequence are zeros. Every sum has
 * one order, whatever the number of threads. */
#include "backend/cpu/fast/attention.h"
#include "backend/cpu/fast/rows.h"
#include "backend/cpu/fast/simd_math.h"
#include "backend/cpu/fast/transpose.h"

/* An array is not a power of two long: arrays that lie so far apart share few lines of the cache. */
enum {
    KEYS_MAX = 32, /* whole vectors, and whole ROWS */
    D_MAX    = 64,
    ROWS     = 4,
    FLOATS   = KEYS_MAX * D_MAX + 17 * 16,
};

struct head { /* of one sequence: rows of numbers, and the same with positions as lanes */
    _Alignas(64) f32 q[FLOATS], k[FLOATS], v[FLOATS], d_o[FLOATS], dk[FLOATS], dv[FLOATS];
    _Alignas(64) f32 k_lanes[FLOATS], v_lanes[FLOATS];
    _Alignas(64) f32 p[KEYS_MAX * KEYS_MAX], ds[KEYS_MAX * KEYS_MAX];
    _Alignas(64) f32 lse[KEYS_MAX], sum[KEYS_MAX], delta[KEYS_MAX];
};

struct short_call {
    struct attention a;
    const void      *qkv, *o, *d_o;
    void            *out; /* o, or dqkv */
};

/* to[rows][D] = from; rows up to whole vectors of positions are zeros. */
V_INLINE void widen(f32 *to, const void *from, i64 at, i64 step, i64 rows, i64 D,
                    const enum dtype t)
{
    for (i64 r = 0; r < rows; r++)
        for (i64 i = 0; i < D; i += V_LANES)
            v_store(to + r * D + i, v_get(from, at + r * step + i, v_all, t));
    i64 whole = fast_div_up(rows, V_LANES) * V_LANES;
    memset(to + rows * D, 0, (size_t)((whole - rows) * D) * sizeof *to);
}

V_INLINE void narrow(void *to, i64 at, i64 step, const f32 *from, i64 rows, i64 D,
                     const enum dtype t)
{
    for (i64 r = 0; r < rows; r++)
        for (i64 i = 0; i < D; i += V_LANES)
            v_put(to, at + r * step + i, v_load(from + r * D + i), v_all, t);
}

/* lanes[D][nv vectors of positions] = rows^T. */
V_INLINE void turn(f32 *lanes, const f32 *rows, i64 D, const int nv)
{
    vf x[V_LANES];
    for (i64 s = 0; s < nv * V_LANES; s += V_LANES)
        for (i64 d = 0; d < D; d += V_LANES) {
            for (int r = 0; r < V_LANES; r++) x[r] = v_load(rows + (s + r) * D + d);
            v_transpose(x, V_LANES);
            for (int r = 0; r < V_LANES; r++) v_store(lanes + (d + r) * nv * V_LANES + s, x[r]);
        }
}

/* y[ROWS][nv] = x . lanes */
V_INLINE void times_lanes(vf y[ROWS][2], const f32 *x, const f32 *lanes, i64 D, const int nv)
{
    for (int r = 0; r < ROWS; r++)
        for (int n = 0; n < nv; n++) y[r][n] = v_zero();
    for (i64 d = 0; d < D; d++)
        for (int n = 0; n < nv; n++) {
            vf l = v_load(lanes + (d * nv + n) * V_LANES);
            for (int r = 0; r < ROWS; r++) y[r][n] = v_fma(v_set(x[r * D + d]), l, y[r][n]);
        }
}

/* y[ROWS][V_LANES numbers from i on] = sum over `count` positions of weight[row step r + step s] * x[s]. */
V_INLINE void weigh(vf y[ROWS], const f32 *weight, i64 row, i64 step, const f32 *x, i64 count,
                    i64 D)
{
    for (int r = 0; r < ROWS; r++) y[r] = v_zero();
    for (i64 s = 0; s < count; s++) {
        vf at = v_load(x + s * D);
        for (int r = 0; r < ROWS; r++) y[r] = v_fma(v_set(weight[r * row + s * step]), at, y[r]);
    }
}

/* The lanes of vector n that query t sees. */
V_INLINE vi seen(const struct attention *a, i64 len, i64 t, int n)
{
    static const vi lanes = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    return lanes + n * V_LANES < v_set_i((i32)(a->causal ? MIN(len, t + 1) : len));
}

/* Four queries from t on: p, whose rows sum up to h->sum, and h->lse, the top so far. */
V_INLINE void softmax_rows(struct head *h, const struct attention *a, i64 len, i64 t, const int nv)
{
    vf s[ROWS][2], scale = v_set(a->scale);
    times_lanes(s, h->q + t * a->D, h->k_lanes, a->D, nv);
    for (int r = 0; r < ROWS; r++) {
        vf top = v_set(-INFINITY), sum = v_zero();
        for (int n = 0; n < nv; n++) {
            s[r][n] = v_select(seen(a, len, t + r, n), s[r][n] * scale, v_set(-INFINITY));
            top     = v_max(s[r][n], top);
        }
        h->lse[t + r] = v_top(top);
        for (int n = 0; n < nv; n++) {
            vf p = v_exp(s[r][n] - v_set(h->lse[t + r]));
            v_store(h->p + (t + r) * KEYS_MAX + n * V_LANES, p);
            sum += p;
        }
        h->sum[t + r] = v_sum(sum);
    }
}

V_INLINE void forward_head(const struct short_call *f, struct head *h, i64 b, i64 i, i64 len,
                           const int nv, const enum dtype t)
{
    const struct attention *a = &f->a;
    i64                     g = i * a->G / a->H, D = a->D, at = attention_o(a, b, i);
    f32                    *lse = attention_lse(a, b, i);
    widen(h->q, f->qkv, attention_q(a, b, i), a->row, len, D, t);
    widen(h->k, f->qkv, attention_k(a, b, g), a->row, len, D, t);
    widen(h->v, f->qkv, attention_v(a, b, g), a->row, len, D, t);
    turn(h->k_lanes, h->k, D, nv);
    for (i64 q = 0; q < len; q += ROWS) {
        softmax_rows(h, a, len, q, nv);
        for (i64 d = 0; d < D; d += V_LANES) {
            vf o[ROWS];
            weigh(o, h->p + q * KEYS_MAX, KEYS_MAX, 1, h->v + d, len, D);
            for (i64 r = 0; r < MIN(ROWS, len - q); r++)
                v_put(f->out, at + (q + r) * a->o_row + d, o[r] / v_set(h->sum[q + r]), v_all, t);
        }
    }
    for (i64 q = 0; q < len; q += V_LANES)
        v_store_n(lse + q, v_load(h->lse + q) + v_log(v_load(h->sum + q)), MIN(V_LANES, len - q));
}

/* p and ds of four queries from t on; 0 where a query does not see a key. */
V_INLINE void gradient_rows(struct head *h, const struct attention *a, i64 len, i64 t, const int nv)
{
    vf s[ROWS][2], dp[ROWS][2], scale = v_set(a->scale);
    times_lanes(s, h->q + t * a->D, h->k_lanes, a->D, nv);
    times_lanes(dp, h->d_o + t * a->D, h->v_lanes, a->D, nv);
    for (int r = 0; r < ROWS; r++)
        for (int n = 0; n < nv; n++) {
            vi in = seen(a, len, t + r, n) & v_set_i(t + r < len ? -1 : 0);
            vf p  = v_select(in, v_exp(s[r][n] * scale - v_set(h->lse[t + r])), v_zero());
            vf ds = v_select(in, scale * p * (dp[r][n] - v_set(h->delta[t + r])), v_zero());
            v_store(h->p + (t + r) * KEYS_MAX + n * V_LANES, p);
            v_store(h->ds + (t + r) * KEYS_MAX + n * V_LANES, ds);
        }
}

/* One query head: dq, and dk and dv of its key head grow. */
V_INLINE void backward_head(const struct short_call *f, struct head *h, i64 b, i64 i, i64 len,
                            const int nv, const enum dtype t)
{
    const struct attention *a = &f->a;
    i64                     D = a->D, at = attention_o(a, b, i), to = attention_q(a, b, i);
    const f32              *lse = attention_lse(a, b, i);
    widen(h->q, f->qkv, to, a->row, len, D, t);
    widen(h->d_o, f->d_o, at, a->o_row, len, D, t);
    memcpy(h->lse, lse, (size_t)len * sizeof *lse);
    for (i64 q = 0; q < len; q++) {
        vf sum = v_zero();
        for (i64 d = 0; d < D; d += V_LANES)
            sum = v_fma(v_load(h->d_o + q * D + d), v_get(f->o, at + q * a->o_row + d, v_all, t),
                        sum);
        h->delta[q] = v_sum(sum);
    }
    for (i64 q = 0; q < len; q += ROWS) {
        gradient_rows(h, a, len, q, nv);
        for (i64 d = 0; d < D; d += V_LANES) {
            vf dq[ROWS];
            weigh(dq, h->ds + q * KEYS_MAX, KEYS_MAX, 1, h->k + d, len, D);
            for (i64 r = 0; r < MIN(ROWS, len - q); r++)
                v_put(f->out, to + (q + r) * a->row + d, dq[r], v_all, t);
        }
    }
    for (i64 s = 0; s < len; s += ROWS)
        for (i64 d = 0; d < D; d += V_LANES) {
            vf  dk[ROWS], dv[ROWS];
            i64 of = s * D + d;
            weigh(dk, h->ds + s, 1, KEYS_MAX, h->q + d, len, D);
            weigh(dv, h->p + s, 1, KEYS_MAX, h->d_o + d, len, D);
            for (int r = 0; r < ROWS; r++) {
                v_store(h->dk + of + r * D, v_load(h->dk + of + r * D) + dk[r]);
                v_store(h->dv + of + r * D, v_load(h->dv + of + r * D) + dv[r]);
            }
        }
}

V_INLINE void backward_group(const struct short_call *f, struct head *h, i64 b, i64 g, i64 len,
                             const int nv, const enum dtype t)
{
    const struct attention *a = &f->a;
    i64                     k = attention_k(a, b, g), v = attention_v(a, b, g), D = a->D;
    widen(h->k, f->qkv, k, a->row, len, D, t);
    widen(h->v, f->qkv, v, a->row, len, D, t);
    turn(h->k_lanes, h->k, D, nv);
    turn(h->v_lanes, h->v, D, nv);
    memset(h->dk, 0, (size_t)(KEYS_MAX * D) * sizeof *h->dk);
    memset(h->dv, 0, (size_t)(KEYS_MAX * D) * sizeof *h->dv);
    for (i64 i = 0; i < a->H; i++)
        if (i * a->G / a->H == g) backward_head(f, h, b, i, len, nv, t);
    narrow(f->out, k, a->row, h->dk, len, D, t);
    narrow(f->out, v, a->row, h->dv, len, D, t);
}

V_INLINE void forward_block(void *context, i64 b, const enum dtype t)
{
    const struct short_call *f   = context;
    i64                      len = attention_length(&f->a, b);
    struct head              h;
    for (i64 i = 0; i < f->a.H && len; i++) {
        if (len <= V_LANES) forward_head(f, &h, b, i, len, 1, t);
        else forward_head(f, &h, b, i, len, 2, t);
    }
}

V_INLINE void backward_block(void *context, i64 b, const enum dtype t)
{
    const struct short_call *f   = context;
    i64                      len = attention_length(&f->a, b);
    struct head              h;
    for (i64 g = 0; g < f->a.G && len; g++) {
        if (len <= V_LANES) backward_group(f, &h, b, g, len, 1, t);
        else backward_group(f, &h, b, g, len, 2, t);
    }
}

BY_STORAGE(forward_block)
BY_STORAGE(backward_block)

/* All but the offsets, and the logarithms of sums, have one storage. */
static enum dtype storage_of(const struct call *c)
{
    enum dtype t = c->out[0].type.dtype;
    for (i32 i = 0; i < (attention_is_grad(c) ? 3 : 1); i++)
        if (c->in[i].type.dtype != t) return DT_COUNT;
    return (attention_is_grad(c) ? c->in[3] : c->out[1]).type.dtype == DT_F32 ? t : DT_COUNT;
}

static bool takes(const struct call *c)
{
    struct attention a = attention_of(c);
    enum dtype       t = storage_of(c);
    return a.T <= KEYS_MAX && a.D % V_LANES == 0 && a.D > 0 && a.D <= D_MAX && !a.drops &&
           !a.window && t != DT_COUNT && forward_block_by[t];
}

static void forward(const struct call *c)
{
    struct short_call f = { .a = attention_of(c), .qkv = c->in[0].data, .out = c->out[0].data };
    pool_run(c->pool, f.a.B, forward_block_by[storage_of(c)], &f);
    attention_clear(c);
}

static void backward(const struct call *c)
{
    struct short_call f = { .a   = attention_of(c),
                            .qkv = c->in[1].data,
                            .o   = c->in[2].data,
                            .d_o = c->in[0].data,
                            .out = c->out[0].data };
    pool_run(c->pool, f.a.B, backward_block_by[storage_of(c)], &f);
    attention_clear(c);
}

const struct kernel ISA_FN(kernels_attention_short)[] = {
    { OP_ATTENTION_PACKED, "short_" ISA_NAME, ISA_HERE, takes, forward, NULL },
    { OP_ATTENTION_PACKED_GRAD, "short_" ISA_NAME, ISA_HERE, takes, backward, NULL },
};
const i32 ISA_COUNT(kernels_attention_short) = (i32)COUNT_OF(ISA_FN(kernels_attention_short));
