/* attention_bf16_impl.h - softmax(q . k) v and its gradient on bf16, with products of bf16.
 *
 * Forward, 32 queries at a time against all keys they see:
 *
 *     s = q . k^T     p = exp(scale s - top)     o = p . v / sum p
 *
 * Backward, 128 keys of a head at a time against all queries that see them. Scores are made
 * transposed, keys by queries, because two of three products want them so:
 *
 *     p = exp(scale s - lse)    ds = scale p (v . do^T - delta)    delta = do . o
 *     dv = p . do    dk = ds . q    dq += ds^T . k
 *
 * Scores and sums are f32; p and ds are rounded to bf16 for the products that read them, which is
 * the error of one more rounding of o. A block of work is one query head and a share of its queries;
 * for the gradient, one key head with all query heads that read it. Every operand of a head is
 * packed once, in the forms of bf16_tile.h. Where weights are dropped, p counts as often as it is kept in o and dv, and
 * v . do^T in ds. */
#include "backend/cpu/fast/attention.h"
#include "backend/cpu/fast/attention_drop.h"
#include "backend/cpu/fast/bf16_tile.h"
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/rows.h"
#include "backend/cpu/fast/simd_math.h"

enum {
    KEYS          = 128, /* backward: keys at a time, whole tiles of steps */
    PAD           = 96,  /* a multiple of STEPS, ROWS and every NR */
    BLOCKS_WANTED = 16,
};

/* Keys [0, this) are seen by queries before t_end <= len. */
static i64 keys_end(const struct attention *a, i64 len, i64 t_end)
{
    return a->causal ? t_end : len;
}

/* to[rows, D] = from * factor, in bf16; rows of `from` are D filled up to vectors. */
static void put_rows(u16 *to, i64 to_row, const f32 *from, const f32 *factor, i64 rows, i64 D)
{
    for (i64 r = 0; r < rows; r++)
        for (i64 i = 0; i < D; i += V_LANES) {
            vf x = v_load(from + r * round_up(D, V_LANES) + i);
            if (factor) x *= v_set(factor[r]);
            v_put(to, r * to_row + i, x, v_first(MIN(D - i, V_LANES)), DT_BF16);
        }
}

static void zero_rows(u16 *to, i64 row, i64 rows, i64 D)
{
    for (i64 r = 0; r < rows; r++) memset(to + r * row, 0, (size_t)D * sizeof *to);
}

static vi lanes_from(i64 first)
{
    return (vi){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } + (i32)first;
}

/* ---- forward */

struct forward {
    struct attention a;
    const u16       *qkv;
    u16             *o;
    i64              shares; /* blocks a head is shared by */
    u8              *work;
    i64              work_bytes; /* of a worker */
};

struct forward_buffers {
    u16 *k, *v, *q, *p; /* as panels: keys by D, D by keys, rows of queries; p in rows of p_row */
    f32 *scores, *o;
    i64  p_row;
};

/* The next of a worker's buffers, which lie one after the other; NULL where there is no memory. */
static void *take(u8 *work, i64 *at, i64 bytes)
{
    void *here = work ? work + *at : NULL;
    *at += round_up(bytes, 64);
    return here;
}

static u16 *take_u16(u8 *work, i64 *at, i64 count) { return take(work, at, 2 * count); }
static f32 *take_f32(u8 *work, i64 *at, i64 count) { return take(work, at, 4 * count); }

/* Lays out the buffers of one worker; their bytes. */
static i64 forward_buffers(const struct attention *a, u8 *work, struct forward_buffers *m)
{
    i64 at    = 0;
    m->p_row  = round_up(a->T, PAD) + STEPS; /* no power of two */
    m->scores = take_f32(work, &at, ROWS * m->p_row);
    m->o      = take_f32(work, &at, ROWS * round_up(a->D, V_LANES));
    m->k      = take_u16(work, &at, b_numbers(a->T, a->D));
    m->v      = take_u16(work, &at, b_numbers(a->D, a->T));
    m->q      = take_u16(work, &at, a_numbers(ROWS, a->D));
    m->p      = take_u16(work, &at, ROWS * m->p_row);
    return at;
}

static struct forward forward_of(const struct call *c)
{
    struct forward         f = { .a = attention_of(c) };
    struct forward_buffers m;
    f.qkv        = c->in[0].data;
    f.o          = c->out[0].data;
    f.shares     = fast_div_up(BLOCKS_WANTED, MAX(1, f.a.B * f.a.H));
    f.shares     = MIN(f.shares, MAX(1, fast_div_up(f.a.T, ROWS)));
    f.work       = c->work;
    f.work_bytes = forward_buffers(&f.a, NULL, &m);
    return f;
}

struct span { /* of keys, [begin, end) */
    i64 begin, end;
};

/* Row r of p, of query t, from its scores: all of `seen`, 0 in the rest of `at`. The sum of p, and the logarithm of
 * what the exponentials sum to. */
static f32 softmax_row(const struct forward_buffers *m, i64 r, i64 t, struct span seen,
                       struct span at, const struct drop *d, f32 *lse)
{
    f32 *s = m->scores + r * m->p_row, scale = d->a->scale, keep[STRIDE];
    vf   top = v_set(-INFINITY), sum = v_zero();
    vi   first = v_set_i((i32)seen.begin), past = v_set_i((i32)seen.end);
    for (i64 i = at.begin; i < at.end; i += V_LANES) {
        vf x  = v_load(s + i) * v_set(scale);
        vi in = lanes_from(i) < past;
        if (i < seen.begin) in &= lanes_from(i) >= first;
        x   = v_select(in, x, v_set(-INFINITY));
        top = v_max(x, top);
        v_store(s + i, x);
    }
    f32 highest = v_top(top);
    for (i64 i = at.begin; i < at.end; i += V_LANES) {
        vf p = v_exp(v_load(s + i) - v_set(highest));
        sum += p;
        if (d->a->drops) {
            if ((i - at.begin) % STRIDE == 0) drop_keys(d, t, i, keep);
            p *= v_load(keep + (i - at.begin) % STRIDE);
        }
        v_put(m->p, r * m->p_row + i, p, v_all, DT_BF16);
    }
    f32 total = v_sum(sum);
    *lse      = (f32)((f64)highest + log((f64)total));
    return total;
}

/* `rows` queries from t on. */
static void attend(const struct forward *f, const struct forward_buffers *m, const u16 *q, i64 b,
                   i64 h, i64 len, i64 t, i64 rows, u16 *o, f32 *lse)
{
    struct drop             drop = drop_of(&f->a, b, h);
    const struct attention *a    = &f->a;
    i64                     end = keys_end(a, len, t + rows), tiles = tiles_of(a->D);
    i64              begin = attention_begin(a, b, t) / PAD * PAD; /* whole panels and steps */
    struct span      at    = { begin, round_up(end, STEPS) };
    f32              over_sum[ROWS];
    struct bf16_tile s = { .tiles   = tiles,
                           .a       = m->q,
                           .a_row   = STEPS,
                           .a_tile  = A_TILE,
                           .a_panel = tiles * A_TILE,
                           .b       = m->k + begin * tiles * STEPS,
                           .c       = m->scores + begin,
                           .c_row   = m->p_row };
    struct bf16_tile v = { .tiles   = tiles_of(end - begin),
                           .a       = m->p + begin,
                           .a_row   = m->p_row,
                           .a_tile  = STEPS,
                           .a_panel = PANEL * m->p_row,
                           .b       = m->v + begin / STEPS * B_TILE,
                           .c       = m->o,
                           .c_row   = round_up(a->D, V_LANES) };
    pack_a(m->q, (struct lines){ q, a->row, 1, rows, a->D });
    product_rows(s, 2, end - begin, tiles * B_TILE);
    for (i64 r = 0; r < rows; r++) {
        struct span seen = { attention_begin(a, b, t + r), keys_end(a, len, t + r + 1) };
        over_sum[r]      = 1 / softmax_row(m, r, t + r, seen, at, &drop, lse + r);
    }
    product_rows(v, 2, a->D, tiles_of(len) * B_TILE);
    put_rows(o, a->o_row, m->o, over_sum, rows, a->D);
}

static void forward_block(void *context, i64 block, i32 worker)
{
    const struct forward   *f = context;
    const struct attention *a = &f->a;
    struct forward_buffers  m;
    i64 share = block % f->shares, h = block / f->shares % a->H, b = block / f->shares / a->H;
    i64 g = h * a->G / a->H, len = attention_length(a, b), last = attention_end(a, b);
    const u16 *q   = f->qkv + attention_q(a, b, h);
    u16       *o   = f->o + attention_o(a, b, h);
    f32       *lse = attention_lse(a, b, h);

    forward_buffers(a, f->work + worker * f->work_bytes, &m);
    products_begin();
    pack_b(m.k, (struct lines){ f->qkv + attention_k(a, b, g), a->row, 1, len, a->D });
    pack_b(m.v, (struct lines){ f->qkv + attention_v(a, b, g), 1, a->row, a->D, len });
    for (i64 t = share * ROWS; t < last; t += f->shares * ROWS) {
        i64 rows = MIN(ROWS, last - t), live = MAX(0, MIN(rows, len - t));
        zero_rows(o + (t + live) * a->o_row, a->o_row, rows - live, a->D);
        memset(lse + t + live, 0, (size_t)(rows - live) * sizeof *lse);
        if (live) attend(f, &m, q + t * a->row, b, h, len, t, live, o + t * a->o_row, lse + t);
    }
    products_end();
}

static bool takes(const struct call *c)
{
    bool grad = attention_is_grad(c);
    if (c->out[0].type.dtype != DT_BF16) return false;
    for (i32 i = 0; i < (grad ? 3 : 1); i++)
        if (c->in[i].type.dtype != DT_BF16) return false;
    return (grad ? c->in[3] : c->out[1]).type.dtype == DT_F32 &&
           shape_count(c->in[0].type.shape) > 0;
}

static i64 forward_work(const struct call *c)
{
    return pool_threads(c->pool) * forward_of(c).work_bytes;
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
    const u16       *qkv, *o, *d_o;
    u16             *dqkv;
    u8              *work;
    i64              work_bytes; /* of a worker */
};

/* Packed as panels: k, v rows of keys; k_columns D by keys; q, d_o queries by D; q_columns,
 * d_o_columns D by queries; ds_rows 32 rows of queries. p and ds are rows of p_row queries. */
struct backward_buffers {
    u16 *k, *v, *k_columns, *q, *d_o, *q_columns, *d_o_columns, *p, *ds, *ds_rows;
    f32 *dq, *dk, *dv, *lse, *delta;
    i32 *begin; /* by query: the first key that it sees */
    i64  p_row;
};

static i64 backward_buffers(const struct attention *a, u8 *work, struct backward_buffers *m)
{
    i64 rows = round_up(a->T, PAD), sums = rows * round_up(a->D, V_LANES), at = 0;
    m->p_row       = rows + STEPS; /* as in the forward pass */
    m->dq          = take_f32(work, &at, sums);
    m->dk          = take_f32(work, &at, sums);
    m->dv          = take_f32(work, &at, sums);
    m->lse         = take_f32(work, &at, rows);
    m->delta       = take_f32(work, &at, rows);
    m->begin       = take(work, &at, rows * (i64)sizeof *m->begin);
    m->k           = take_u16(work, &at, a_numbers(a->T, a->D));
    m->v           = take_u16(work, &at, a_numbers(a->T, a->D));
    m->k_columns   = take_u16(work, &at, b_numbers(a->D, a->T));
    m->q           = take_u16(work, &at, b_numbers(rows, a->D));
    m->d_o         = take_u16(work, &at, b_numbers(rows, a->D));
    m->q_columns   = take_u16(work, &at, b_numbers(a->D, a->T));
    m->d_o_columns = take_u16(work, &at, b_numbers(a->D, a->T));
    m->p           = take_u16(work, &at, KEYS * m->p_row);
    m->ds          = take_u16(work, &at, KEYS * m->p_row);
    m->ds_rows     = take_u16(work, &at, a_numbers(ROWS, KEYS));
    return at;
}

static struct backward backward_of(const struct call *c)
{
    struct backward         f = { .a = attention_of(c) };
    struct backward_buffers m;
    f.d_o        = c->in[0].data;
    f.qkv        = c->in[1].data;
    f.o          = c->in[2].data;
    f.dqkv       = c->out[0].data;
    f.work       = c->work;
    f.work_bytes = backward_buffers(&f.a, NULL, &m);
    return f;
}

/* Are there queries that do not see a key before them? */
static bool has_begin(const struct attention *a) { return a->window || a->positions; }

/* Queries from this on see no key before `key`. */
static i64 queries_end(const struct attention *a, const struct backward_buffers *m, i64 len,
                       i64 key)
{
    i64 low = key - 1, high = len; /* the last that sees its own key, and one that does not */
    if (!has_begin(a)) return len;
    while (high - low > 1) {
        i64 t = (low + high) / 2;
        if (m->begin[t] < key) low = t;
        else high = t;
    }
    return high;
}

/* p and ds of ROWS keys from s on and one panel of queries from t on; 0 where a query does not see
 * a key. `at`: of the first key among those at work. */
static void pair_tile(const struct drop *d, const struct backward_buffers *m, i64 len, i64 s,
                      i64 at, i64 t)
{
    const struct attention *a = d->a;
    u32                     word[4][V_LANES]; /* four keys of each query */
    u64                     next_query = (u64)1 << (ATTENTION_PLACE_BITS - 2);
    _Alignas(64) f32        scores[ROWS * NR], dp[ROWS * NR];
    i64                     tiles = tiles_of(a->D);
    struct bf16_tile        x     = { .tiles   = tiles,
                                      .a       = m->k + s * tiles * STEPS,
                                      .a_row   = STEPS,
                                      .a_tile  = A_TILE,
                                      .a_panel = tiles * A_TILE,
                                      .b       = m->q + t * tiles * STEPS,
                                      .c       = scores,
                                      .c_row   = NR };
    product(&x, ROWS / PANEL, NV);
    x.a = m->v + s * tiles * STEPS;
    x.b = m->d_o + t * tiles * STEPS;
    x.c = dp;
    product(&x, ROWS / PANEL, NV);
    for (i64 j = 0; j < NR; j += V_LANES) {
        vf lse = v_load(m->lse + t + j), delta = v_load(m->delta + t + j), scale = v_set(a->scale);
        vi query = lanes_from(t + j), there = query < v_set_i((i32)len);
        vi begin = has_begin(a) ? v_load_i(m->begin + t + j) : v_set_i(0);
        for (i64 r = 0; r < ROWS; r++) {
            vi key = v_set_i((i32)(s + r)), seen = s + r < len ? there : v_set_i(0);
            if (a->causal) seen &= query >= key;
            if (has_begin(a)) seen &= key >= begin;
            vf  p = v_exp(v_load(scores + r * NR + j) * scale - lse), y = v_load(dp + r * NR + j);
            vf  keep = v_set(1);
            i64 to   = (at + r) * m->p_row + t + j;
            if (a->drops) {
                u64 block = attention_weight(d->h, t + j, s + r) / 4;
                if (r % 4 == 0) word_lanes(d->philox_key, d->key, block, next_query, word);
                keep = drop_keep(d, word[r % 4]);
            }
            vf ds = p * (y * keep - delta) * scale;
            p *= keep;
            v_put(m->p, to, v_select(seen, p, v_zero()), v_all, DT_BF16);
            v_put(m->ds, to, v_select(seen, ds, v_zero()), v_all, DT_BF16);
        }
    }
}

struct keys { /* which queries meet ROWS keys, in rows of p_row; whether sums are there already */
    i64  first, past, p_row;
    bool adds;
};

/* to[ROWS keys, D] = or += x . y over these queries, x in rows, y as panels of columns. */
static void add_keys(const struct attention *a, i64 len, struct keys k, const u16 *x, const u16 *y,
                     f32 *to)
{
    struct bf16_tile p = { .tiles   = tiles_of(k.past) - k.first / STEPS,
                           .a       = x + k.first,
                           .a_row   = k.p_row,
                           .a_tile  = STEPS,
                           .a_panel = PANEL * k.p_row,
                           .b       = y + k.first / STEPS * B_TILE,
                           .c       = to,
                           .c_row   = round_up(a->D, V_LANES),
                           .adds    = k.adds };
    product_rows(p, 2, a->D, tiles_of(len) * B_TILE);
}

/* dq of ROWS queries from t on grows by the keys at work, from s on, that they see. */
static void add_queries(const struct attention *a, const struct backward_buffers *m, i64 len, i64 s,
                        i64 t)
{
    i64 keys = MIN(KEYS, len - s), D = round_up(a->D, V_LANES);
    if (a->causal) keys = MIN(keys, t + ROWS - s);
    i64              tiles = tiles_of(keys);
    struct bf16_tile p     = { .tiles   = tiles,
                               .a       = m->ds_rows,
                               .a_row   = STEPS,
                               .a_tile  = A_TILE,
                               .a_panel = tiles * A_TILE,
                               .b       = m->k_columns + s / STEPS * B_TILE,
                               .c       = m->dq + t * D,
                               .c_row   = D,
                               .adds    = s > 0 || has_begin(a) };
    pack_a(m->ds_rows, (struct lines){ m->ds + t, 1, m->p_row, ROWS, tiles * STEPS });
    product_rows(p, 2, a->D, tiles_of(len) * B_TILE);
}

/* One head's part of dqkv, which begins at `at`; 0 from position `len` to `end`. */
static void put_grad(const struct backward *f, i64 at, const f32 *sums, i64 len, i64 end)
{
    const struct attention *a = &f->a;
    put_rows(f->dqkv + at, a->row, sums, NULL, len, a->D);
    zero_rows(f->dqkv + at + len * a->row, a->row, end - len, a->D);
}

/* What the head's queries bring: packed, with lse and delta. */
static void head_pack(const struct backward *f, const struct backward_buffers *m, i64 len, i64 b,
                      i64 h)
{
    const struct attention *a = &f->a;
    const u16              *q = f->qkv + attention_q(a, b, h), *d_o = f->d_o + attention_o(a, b, h);
    const u16              *o   = f->o + attention_o(a, b, h);
    i64                     row = a->row, o_row = a->o_row, D = a->D;
    pack_b(m->q, (struct lines){ q, row, 1, len, D });
    pack_b(m->d_o, (struct lines){ d_o, o_row, 1, len, D });
    pack_b(m->q_columns, (struct lines){ q, 1, row, D, len });
    pack_b(m->d_o_columns, (struct lines){ d_o, 1, o_row, D, len });
    memcpy(m->lse, attention_lse(a, b, h), (size_t)len * sizeof *m->lse);
    for (i64 t = 0; t < len; t++) m->delta[t] = row_dot(d_o + t * o_row, o + t * o_row, D, DT_BF16);
}

/* One query head; `adds` to what other heads left in dk and dv. */
static void backward_head(const struct drop *d, const struct backward_buffers *m, i64 len,
                          bool adds)
{
    const struct attention *a = d->a;
    i64                     D = round_up(a->D, V_LANES);
    if (has_begin(a)) memset(m->dq, 0, (size_t)(round_up(len, ROWS) * D) * sizeof *m->dq);
    for (i64 s = 0; s < len; s += KEYS) {
        i64 past = queries_end(a, m, len, MIN(s + KEYS, len)), end = round_up(past, STEPS);
        for (i64 r = 0; r < MIN(KEYS, len - s); r += ROWS) {
            i64 first = a->causal ? s + r : 0;
            for (i64 t = first / NR * NR; t < end; t += NR) pair_tile(d, m, len, s + r, r, t);
            struct keys k = { first, past, m->p_row, adds };
            add_keys(a, len, k, m->p + r * m->p_row, m->d_o_columns, m->dv + (s + r) * D);
            add_keys(a, len, k, m->ds + r * m->p_row, m->q_columns, m->dk + (s + r) * D);
        }
        for (i64 t = a->causal ? s : 0; t < past; t += ROWS) add_queries(a, m, len, s, t);
    }
}

static void backward_block(void *context, i64 block, i32 worker)
{
    const struct backward  *f = context;
    const struct attention *a = &f->a;
    struct backward_buffers m;
    i64                     g = block % a->G, b = block / a->G, len = attention_length(a, b);
    i64 q_at = attention_q(a, b, 0), k_at = attention_k(a, b, g), v_at = attention_v(a, b, g);
    const u16 *k = f->qkv + k_at, *v = f->qkv + v_at;
    i64        end  = attention_end(a, b);
    bool       adds = false;

    backward_buffers(a, f->work + worker * f->work_bytes, &m);
    products_begin();
    for (i64 t = 0; t < round_up(a->T, PAD) && has_begin(a); t++)
        m.begin[t] = t < len ? (i32)attention_begin(a, b, t) : 0;
    pack_a(m.k, (struct lines){ k, a->row, 1, len, a->D });
    pack_a(m.v, (struct lines){ v, a->row, 1, len, a->D });
    pack_b(m.k_columns, (struct lines){ k, 1, a->row, a->D, len });
    for (i64 h = 0; h < a->H; h++) {
        if (h * a->G / a->H != g) continue;
        head_pack(f, &m, len, b, h);
        struct drop d = drop_of(a, b, h);
        backward_head(&d, &m, len, adds);
        put_grad(f, q_at + h * a->D, m.dq, len, end);
        adds = true;
    }
    put_grad(f, k_at, m.dk, len, end);
    put_grad(f, v_at, m.dv, len, end);
    products_end();
}

static i64 backward_work(const struct call *c)
{
    return pool_threads(c->pool) * backward_of(c).work_bytes;
}

static void backward(const struct call *c)
{
    struct backward f = backward_of(c);
    pool_run(c->pool, f.a.B * f.a.G, backward_block, &f);
    attention_clear(c);
}

const struct kernel ISA_FN(kernels_attention_bf16)[] = {
    { OP_ATTENTION, "bf16_" ISA_NAME, ISA_HERE, takes, forward, forward_work },
    { OP_ATTENTION_GRAD, "bf16_" ISA_NAME, ISA_HERE, takes, backward, backward_work },
    { OP_ATTENTION_PACKED, "bf16_" ISA_NAME, ISA_HERE, takes, forward, forward_work },
    { OP_ATTENTION_PACKED_GRAD, "bf16_" ISA_NAME, ISA_HERE, takes, backward, backward_work },
};
const i32 ISA_COUNT(kernels_attention_bf16) = (i32)COUNT_OF(ISA_FN(kernels_attention_bf16));
