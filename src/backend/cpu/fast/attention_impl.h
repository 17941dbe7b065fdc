/* attention_impl.h - softmax(q . k) v and its gradient, in tiles that stay in the caches.
 *
 * Keys and values of one head are copied into a worker's buffer once: keys as panels of the
 * transposed matrix (gemm_tile.h), values as rows. Then for a few queries at a time
 *
 *     s = (scale q) . k^T     p = exp(s - top)     o = p . v / sum p
 *
 * over all keys they see: memory grows with T, never with T*T. The causal half is not computed,
 * to within a tile. The gradient knows lse, so there keys come in chunks too:
 *
 *     p = exp(s - lse)    ds = p (do . v^T - delta)    delta = do . o
 *     dq += ds . (scale k)    dk += ds^T . (scale q)    dv += p^T . do
 *
 * A block of work is one query head and a share of its queries; for the gradient, one key head
 * with all query heads that read it, because they add to the same dk and dv. Where weights are dropped, p counts as
 * often as it is kept in o and dv, and do . v^T in ds. */
#include "backend/cpu/fast/attention.h"
#include "backend/cpu/fast/attention_drop.h"
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/gemm_tile.h"
#include "backend/cpu/fast/rows_exp.h"

enum {
    Q_MAX         = 64,        /* queries at a time; a multiple of every MR */
    SCORE_FLOATS  = 32 * 1024, /* forward: scores of one tile of queries, 128 KiB */
    KEYS          = 240,       /* backward: keys at a time; a multiple of every NR */
    KEYS_ROW      = 272,       /* an odd number of cache lines: rows do not collide */
    BLOCKS_WANTED = 16,
};

static i64 round_up(i64 n, i64 to) { return (n + to - 1) / to * to; }

/* Keys [0, this) are seen by query t < len. */
static i64 keys_end(const struct attention *a, i64 len, i64 t) { return a->causal ? t + 1 : len; }

/* By all of `rows` queries from t on. */
static i64 keys_end_rows(const struct attention *a, i64 len, i64 t, i64 rows)
{
    return keys_end(a, len, t + rows - 1);
}

/* Keys [this, ..) are seen by queries from t on: the first of the tile of keys that it lies in. */
static i64 keys_begin(const struct attention *a, i64 b, i64 t, i64 tile)
{
    return attention_begin(a, b, t) / tile * tile;
}

static void copy_rows(f32 *to, const f32 *from, i64 row, i64 rows, i64 D, f32 scale)
{
    for (i64 r = 0; r < rows; r++)
        for (i64 i = 0; i < D; i += V_LANES)
            v_store(to + r * D + i, v_load(from + r * row + i) * v_set(scale));
}

static void zero_rows(f32 *to, i64 row, i64 rows, i64 D)
{
    for (i64 r = 0; r < rows; r++) memset(to + r * row, 0, (size_t)D * sizeof *to);
}

static void pack_transposed(f32 *to, const f32 *from, i64 row, i64 rows, i64 D)
{
    for (i64 n = 0; n < rows; n += NR)
        pack_panel(to + n * D, from + n * row, row, MIN(rows - n, NR), D);
}

/* c[rows, D] = a . b, or += if t.from is c; b's D columns are contiguous. */
static void tile_columns(struct tile t, i64 rows, i64 D)
{
    bool adds = t.from == t.c;
    for (i64 n = 0; n < D; n += NR, t.b += NR, t.c += NR) {
        if (adds) t.from = t.c;
        tile_any(&t, rows, MIN(D - n, NR) / V_LANES);
    }
}

/* ---- forward */

struct forward {
    struct attention a;
    i64              queries, shares; /* queries in a tile; blocks a head is shared by */
    i64              scores_row;
    f32             *work; /* for each worker: k^T, v, scores, q */
    i64              work_floats;
};

struct forward_buffers {
    f32 *kt, *v, *scores, *q;
};

static struct forward forward_of(const struct call *c)
{
    struct forward f = { .a = attention_of(c), .work = c->work };
    i64            T = f.a.T, D = f.a.D, panels = round_up(T, NR);
    f.queries    = MIN(Q_MAX, MAX(MR, SCORE_FLOATS / MAX(1, T) / MR * MR));
    f.shares     = fast_div_up(BLOCKS_WANTED, MAX(1, f.a.B * f.a.H));
    f.shares     = MIN(f.shares, MAX(1, fast_div_up(T, f.queries)));
    f.scores_row = round_up(panels, V_LANES);
    if (f.scores_row / V_LANES % 2 == 0) f.scores_row += V_LANES; /* as KEYS_ROW */
    f.work_floats = panels * D + round_up(T * D, V_LANES) + f.queries * (f.scores_row + D);
    return f;
}

static struct forward_buffers forward_buffers(const struct forward *f, i32 worker)
{
    struct forward_buffers m;
    m.kt     = f->work + worker * f->work_floats;
    m.v      = m.kt + round_up(f->a.T, NR) * f->a.D;
    m.scores = m.v + round_up(f->a.T * f->a.D, V_LANES);
    m.q      = m.scores + f->queries * f->scores_row;
    return m;
}

/* Of `rows` queries from t on, MR at a time, with the keys that the last of them sees. */
static void scores(const struct forward *f, const struct forward_buffers *m, i64 b, i64 len, i64 t,
                   i64 rows)
{
    const struct attention *a   = &f->a;
    i64                     all = keys_end_rows(a, len, t, rows);
    struct tile             s   = { .K     = a->D,
                                    .a_row = a->D,
                                    .a_col = 1,
                                    .b_row = NR,
                                    .c_row = f->scores_row,
                                    .from  = tile_zeros,
                                    .last  = V_LANES };
    for (i64 n = keys_begin(a, b, t, NR); n < all; n += NR) {
        for (i64 r = 0; r < rows; r += MR) {
            i64 count = MIN(rows - r, MR), end = keys_end_rows(a, len, t + r, count);
            if (n >= end || n + NR <= attention_begin(a, b, t + r)) continue;
            s.a = m->q + r * a->D;
            s.b = m->kt + n * a->D;
            s.c = m->scores + r * f->scores_row + n;
            tile_any(&s, count, MIN(fast_div_up(end - n, V_LANES), NV));
        }
    }
}

/* Weights of keys [first, end) of query t; others of the same vectors may be multiplied too. */
static void drop_row(const struct drop *d, i64 t, f32 *p, i64 first, i64 end)
{
    f32 keep[STRIDE];
    for (i64 s = first / V_LANES * V_LANES; s < end; s += STRIDE) {
        drop_keys(d, t, s, keep);
        for (i64 k = 0; k < STRIDE && s + k < end; k += V_LANES)
            v_store(p + s + k, v_load(p + s + k) * v_load(keep + k));
    }
}

/* One tile of MR queries: probabilities in place of scores, then o. */
static void attend(const struct forward *f, const struct forward_buffers *m, i64 b, i64 h, i64 len,
                   i64 t, i64 rows, f32 *o, f32 *lse)
{
    struct drop             drop  = drop_of(&f->a, b, h);
    const struct attention *a     = &f->a;
    i64                     begin = attention_begin(a, b, t), end = keys_end_rows(a, len, t, rows);
    f32                     over_sum[MR];
    for (i64 r = 0; r < rows; r++) {
        f32 *s     = m->scores + r * f->scores_row;
        i64  first = attention_begin(a, b, t + r), seen = keys_end(a, len, t + r);
        f32  top = row_top(s + first, seen - first, DT_F32);
        f32  sum = row_exp(s + first, s + first, seen - first, top, DT_F32);
        for (i64 i = begin; i < first; i++) s[i] = 0;
        for (i64 i = seen; i < end; i++) s[i] = 0;
        if (a->drops) drop_row(&drop, t + r, s, first, seen);
        over_sum[r] = 1 / sum;
        lse[r]      = (f32)((f64)top + log((f64)sum));
    }
    struct tile v = { .K     = end - begin,
                      .a     = m->scores + begin,
                      .a_row = f->scores_row,
                      .a_col = 1,
                      .b     = m->v + begin * a->D,
                      .b_row = a->D,
                      .c     = o,
                      .c_row = a->o_row,
                      .from  = tile_zeros,
                      .last  = V_LANES };
    tile_columns(v, rows, a->D);
    for (i64 r = 0; r < rows; r++)
        for (i64 i = 0; i < a->D; i += V_LANES)
            v_store(o + r * a->o_row + i, v_load(o + r * a->o_row + i) * v_set(over_sum[r]));
}

static void forward_block(void *context, i64 block, i32 worker)
{
    const struct forward   *f = context;
    const struct attention *a = &f->a;
    struct forward_buffers  m = forward_buffers(f, worker);
    i64  share = block % f->shares, h = block / f->shares % a->H, b = block / f->shares / a->H;
    i64  g = h * a->G / a->H, len = attention_length(a, b), last = attention_end(a, b);
    f32 *o = a->out + attention_o(a, b, h), *lse = attention_lse(a, b, h);

    pack_transposed(m.kt, a->qkv + attention_k(a, b, g), a->row, len, a->D);
    copy_rows(m.v, a->qkv + attention_v(a, b, g), a->row, len, a->D, 1);
    for (i64 t = share * f->queries; t < last; t += f->shares * f->queries) {
        i64 rows = MIN(f->queries, last - t), live = MAX(0, MIN(rows, len - t));
        zero_rows(o + (t + live) * a->o_row, a->o_row, rows - live, a->D);
        memset(lse + t + live, 0, (size_t)(rows - live) * sizeof *lse);
        if (!live) continue;
        copy_rows(m.q, a->qkv + attention_q(a, b, h) + t * a->row, a->row, live, a->D, a->scale);
        scores(f, &m, b, len, t, live);
        for (i64 r = 0; r < live; r += MR) {
            struct forward_buffers tile = m;
            tile.scores += r * f->scores_row;
            attend(f, &tile, b, h, len, t + r, MIN(live - r, MR), o + (t + r) * a->o_row,
                   lse + t + r);
        }
    }
}

static bool takes(const struct call *c)
{
    struct attention a    = attention_of(c);
    i32              lens = attention_is_grad(c) ? 4 : 1;
    return fast_ids_at(c, lens) && a.D % V_LANES == 0 && a.D > 0;
}

static i64 forward_work(const struct call *c)
{
    return pool_threads(c->pool) * forward_of(c).work_floats * (i64)sizeof(f32);
}

static void forward(const struct call *c)
{
    struct forward f = forward_of(c);
    pool_run(c->pool, f.a.B * f.a.H * f.shares, forward_block, &f);
    attention_clear(c);
}

/* ---- backward */

struct backward {
    struct attention a;
    f32             *work; /* for each worker: k^T, v^T, scale k, p, ds, scale q, do, delta */
    i64              work_floats;
};

struct backward_buffers {
    f32 *kt, *vt, *k, *p, *ds, *q, *d_o, *delta;
};

static struct backward backward_of(const struct call *c)
{
    struct backward f = { .a = attention_of(c), .work = c->work };
    i64             T = f.a.T, D = f.a.D;
    f.work_floats = 2 * round_up(T, NR) * D + round_up(T * D, V_LANES) + 2 * Q_MAX * KEYS_ROW +
                    2 * Q_MAX * D + Q_MAX;
    return f;
}

static struct backward_buffers backward_buffers(const struct backward *f, i32 worker)
{
    i64                     T = f->a.T, D = f->a.D;
    struct backward_buffers m;
    m.kt    = f->work + worker * f->work_floats;
    m.vt    = m.kt + round_up(T, NR) * D;
    m.k     = m.vt + round_up(T, NR) * D;
    m.p     = m.k + round_up(T * D, V_LANES);
    m.ds    = m.p + Q_MAX * KEYS_ROW;
    m.q     = m.ds + Q_MAX * KEYS_ROW;
    m.d_o   = m.q + Q_MAX * D;
    m.delta = m.d_o + Q_MAX * D;
    return m;
}

struct chunk { /* queries [t, t + rows) and keys [s, s + KEYS) of one head */
    i64        b, h, len, t, rows, s;
    i64        end;   /* of the keys that the last query sees, counted from s */
    bool       first; /* of these queries' chunks */
    const f32 *lse;   /* of query t */
};

/* Keys of the chunk that `count` queries from row r on see, counted from s. */
static i64 chunk_end(const struct attention *a, const struct chunk *k, i64 r, i64 count)
{
    return MAX(0, MIN(KEYS, keys_end_rows(a, k->len, k->t + r, count) - k->s));
}

/* The first of them that queries from row r on see. */
static i64 chunk_begin(const struct attention *a, const struct chunk *k, i64 r)
{
    return MAX(0, MIN(KEYS, attention_begin(a, k->b, k->t + r) - k->s));
}

/* Of row r's scores: p as often as it is kept, and ds. */
V_INLINE void chunk_row(const struct attention *a, const struct backward_buffers *m,
                        const struct chunk *k, const struct drop *d, i64 r, i64 first, i64 all)
{
    f32 *p = m->p + r * KEYS_ROW, *ds = m->ds + r * KEYS_ROW, keep[STRIDE];
    vf   lse = v_set(k->lse[r]), delta = v_set(m->delta[r]);
    for (i64 i = first; i < all; i += V_LANES) {
        vf x = v_exp(v_load(p + i) - lse), y = v_load(ds + i), w = v_set(1);
        if (a->drops) {
            if ((i - first) % STRIDE == 0) drop_keys(d, k->t + r, k->s + i, keep);
            w = v_load(keep + (i - first) % STRIDE);
        }
        v_store(p + i, x * w);
        v_store(ds + i, x * (y * w - delta));
    }
}

/* p and ds of the chunk; 0 where a query does not see a key, up to the end of the vector. */
static void chunk_scores(const struct attention *a, const struct backward_buffers *m,
                         const struct chunk *k)
{
    struct tile t = { .K     = a->D,
                      .a_row = a->D,
                      .a_col = 1,
                      .b_row = NR,
                      .c_row = KEYS_ROW,
                      .from  = tile_zeros,
                      .last  = V_LANES };
    for (i64 n = 0; n < k->end; n += NR) {
        for (i64 r = 0; r < k->rows; r += MR) {
            i64 count = MIN(k->rows - r, MR), end = chunk_end(a, k, r, count);
            if (n >= end || n + NR <= chunk_begin(a, k, r)) continue;
            i64 nv = MIN(fast_div_up(end - n, V_LANES), NV);
            t.a    = m->q + r * a->D;
            t.b    = m->kt + (k->s + n) * a->D;
            t.c    = m->p + r * KEYS_ROW + n;
            tile_any(&t, count, nv);
            t.a = m->d_o + r * a->D;
            t.b = m->vt + (k->s + n) * a->D;
            t.c = m->ds + r * KEYS_ROW + n;
            tile_any(&t, count, nv);
        }
    }
    struct drop drop = drop_of(a, k->b, k->h);
    for (i64 r = 0; r < k->rows; r++) {
        i64  tile = r / MR * MR, all = chunk_end(a, k, tile, MIN(k->rows - tile, MR));
        i64  first = chunk_begin(a, k, r), seen = chunk_end(a, k, r, 1);
        f32 *p = m->p + r * KEYS_ROW, *ds = m->ds + r * KEYS_ROW;
        chunk_row(a, m, k, &drop, r, first / V_LANES * V_LANES, all);
        for (i64 i = 0; i < MIN(first, all); i++) p[i] = ds[i] = 0;
        for (i64 i = seen; i < round_up(all, V_LANES); i++) p[i] = ds[i] = 0;
    }
}

/* dq of the chunk's queries grows, row by row of k. */
static void chunk_dq(const struct attention *a, const struct backward_buffers *m,
                     const struct chunk *k, f32 *dq)
{
    for (i64 r = 0; r < k->rows; r += MR) {
        i64         count = MIN(k->rows - r, MR), begin = chunk_begin(a, k, r);
        f32        *c = dq + r * a->row;
        struct tile t = { .K        = MAX(0, chunk_end(a, k, r, count) - begin),
                          .a        = m->ds + r * KEYS_ROW + begin,
                          .a_row    = KEYS_ROW,
                          .a_col    = 1,
                          .b        = m->k + (k->s + begin) * a->D,
                          .b_row    = a->D,
                          .c        = c,
                          .c_row    = a->row,
                          .from     = k->first ? tile_zeros : c,
                          .from_row = k->first ? 0 : a->row,
                          .last     = V_LANES };
        tile_columns(t, count, a->D);
    }
}

/* to[keys, D] += x^T . y over the chunk's queries; those before the first key do not see it. */
static void chunk_dkv(const struct attention *a, const struct chunk *k, const f32 *x, const f32 *y,
                      f32 *to)
{
    for (i64 n = chunk_begin(a, k, 0) / MR * MR; n < k->end; n += MR) {
        i64         first = a->causal ? MAX(0, k->s + n - k->t) / MR * MR : 0;
        f32        *c     = to + (k->s + n) * a->row;
        struct tile t     = { .K        = k->rows - first,
                              .a        = x + first * KEYS_ROW + n,
                              .a_row    = 1,
                              .a_col    = KEYS_ROW,
                              .b        = y + first * a->D,
                              .b_row    = a->D,
                              .c        = c,
                              .c_row    = a->row,
                              .from     = c,
                              .from_row = a->row,
                              .last     = V_LANES };
        tile_columns(t, MIN(k->end - n, MR), a->D);
    }
}

static void backward_head(const struct attention *a, const struct backward_buffers *m, i64 b, i64 h)
{
    i64        g = h * a->G / a->H, len = attention_length(a, b);
    const f32 *q = a->qkv + attention_q(a, b, h), *lse = attention_lse(a, b, h);
    f32       *dq = a->out + attention_q(a, b, h);
    zero_rows(dq + len * a->row, a->row, attention_end(a, b) - len, a->D);
    for (i64 t = 0; t < len; t += Q_MAX) {
        i64        rows = MIN(Q_MAX, len - t), at = attention_o(a, b, h) + t * a->o_row;
        const f32 *d_o = a->d_o + at, *o = a->o + at;
        copy_rows(m->q, q + t * a->row, a->row, rows, a->D, a->scale);
        copy_rows(m->d_o, d_o, a->o_row, rows, a->D, 1);
        for (i64 r = 0; r < rows; r++)
            m->delta[r] = row_dot(d_o + r * a->o_row, o + r * a->o_row, a->D, DT_F32);
        i64 end = keys_end_rows(a, len, t, rows);
        for (i64 first = keys_begin(a, b, t, KEYS), s = first; s < end; s += KEYS) {
            struct chunk k = { b, h, len, t, rows, s, MIN(KEYS, end - s), s == first, lse + t };
            chunk_scores(a, m, &k);
            chunk_dq(a, m, &k, dq + t * a->row);
            chunk_dkv(a, &k, m->p, m->d_o, a->out + attention_v(a, b, g));
            chunk_dkv(a, &k, m->ds, m->q, a->out + attention_k(a, b, g));
        }
    }
}

static void backward_block(void *context, i64 block, i32 worker)
{
    const struct backward  *f = context;
    const struct attention *a = &f->a;
    struct backward_buffers m = backward_buffers(f, worker);
    i64                     g = block % a->G, b = block / a->G, len = attention_length(a, b);
    const f32              *k = a->qkv + attention_k(a, b, g), *v = a->qkv + attention_v(a, b, g);

    pack_transposed(m.kt, k, a->row, len, a->D);
    pack_transposed(m.vt, v, a->row, len, a->D);
    copy_rows(m.k, k, a->row, len, a->D, a->scale);
    zero_rows(a->out + attention_k(a, b, g), a->row, attention_end(a, b), a->D);
    zero_rows(a->out + attention_v(a, b, g), a->row, attention_end(a, b), a->D);
    for (i64 h = 0; h < a->H; h++)
        if (h * a->G / a->H == g) backward_head(a, &m, b, h);
}

static i64 backward_work(const struct call *c)
{
    return pool_threads(c->pool) * backward_of(c).work_floats * (i64)sizeof(f32);
}

static void backward(const struct call *c)
{
    struct backward f = backward_of(c);
    pool_run(c->pool, f.a.B * f.a.G, backward_block, &f);
    attention_clear(c);
}

const struct kernel ISA_FN(kernels_attention)[] = {
    { OP_ATTENTION, "attention_" ISA_NAME, ISA_HERE, takes, forward, forward_work },
    { OP_ATTENTION_GRAD, "attention_" ISA_NAME, ISA_HERE, takes, backward, backward_work },
    { OP_ATTENTION_PACKED, "attention_" ISA_NAME, ISA_HERE, takes, forward, forward_work },
    { OP_ATTENTION_PACKED_GRAD, "attention_" ISA_NAME, ISA_HERE, takes, backward, backward_work },
};
const i32 ISA_COUNT(kernels_attention) = (i32)COUNT_OF(ISA_FN(kernels_attention));
