/* attention.c - softmax(q . k) v and its gradient, without ever holding the matrix of scores.
 *
 * qkv is [B, T, H + 2G, D]: H query heads, G key heads, G value heads; packed it is [R, H + 2G, D], and
 * `offsets` says where each sequence begins. With p = exp(s - lse) and delta = do . o, the gradient of a
 * score is ds = p (do . v - delta). Where weights are dropped, p and do . v are multiplied by what is kept of the
 * weight, all but the p that ds begins with; delta is the same. */
#include "ir/attention.h"
#include "backend/cpu/ref/ref_int.h"
#include "base/rng.h"

struct attention {
    const struct tensor *qkv, *lens, *offsets, *positions;
    i64                  B, T, H, G, D; /* packed: T is the longest that a sequence may be */
    i64                  window;
    f64                  scale;
    bool                 causal;
    f64                  p; /* of a weight to be dropped */
    struct rng_key       key;
};

/* Operands but rng. */
static i32 given_count(const struct call *c) { return c->in_count - (c->at->p > 0); }

static void read_rng(struct attention *a, const struct call *c)
{
    if (!(c->at->p > 0)) return;
    const i32 *rng = c->in[given_count(c)].data;
    a->p           = c->at->p;
    a->key         = (struct rng_key){ .seed   = (u64)(u32)rng[1] << 32 | (u32)rng[0],
                                       .name   = (u64)c->at->key,
                                       .step   = (u32)rng[2],
                                       .sample = (u32)rng[3] };
}

/* What the weight of key s is multiplied by. */
static f64 kept(const struct attention *a, i64 b, i64 h, i64 t, i64 s)
{
    struct rng_key key = a->key;
    if (!(a->p > 0)) return 1;
    key.sample += (u64)b;
    return rng_uniform(key, attention_weight(h, t, s)) >= a->p ? 1 / (1 - a->p) : 0;
}

/* given: lengths or positions, or NULL. */
static struct attention attention_of(const struct call *c, const struct tensor *qkv,
                                     const struct tensor *given)
{
    bool             placed = given && given->type.shape.rank == 2;
    struct attention a      = { .qkv       = qkv,
                                .lens      = placed ? NULL : given,
                                .positions = placed ? given : NULL,
                                .B         = ref_dim(qkv, 0),
                                .T         = ref_dim(qkv, 1),
                                .H         = c->at->heads,
                                .G         = c->at->kv_heads,
                                .scale     = c->at->scale,
                                .causal    = c->at->causal,
                                .window    = c->at->window };
    a.D                     = ref_dim(qkv, 2) / (a.H + 2 * a.G);
    ASSERT(a.D <= HEAD_DIM_MAX);
    read_rng(&a, c);
    return a;
}

static struct attention packed_of(const struct call *c, const struct tensor *qkv,
                                  const struct tensor *offsets)
{
    struct attention a = { .qkv     = qkv,
                           .offsets = offsets,
                           .B       = offsets->count - 1,
                           .T       = c->at->count,
                           .H       = c->at->heads,
                           .G       = c->at->kv_heads,
                           .scale   = c->at->scale,
                           .causal  = c->at->causal,
                           .window  = c->at->window };
    a.D                = ref_dim(qkv, 1) / (a.H + 2 * a.G);
    ASSERT(a.D <= HEAD_DIM_MAX);
    read_rng(&a, c);
    return a;
}

static i64 row_at(const struct attention *a, i64 b, i64 t)
{
    if (!a->offsets) return b * a->T + t;
    return MIN(ref_dim(a->qkv, 0), MAX(0, ref_index(a->offsets, b))) + t;
}

static i64 q_at(const struct attention *a, i64 b, i64 t, i64 h)
{
    return (row_at(a, b, t) * (a->H + 2 * a->G) + h) * a->D;
}
static i64 k_at(const struct attention *a, i64 b, i64 t, i64 g) { return q_at(a, b, t, a->H + g); }
static i64 v_at(const struct attention *a, i64 b, i64 t, i64 g)
{
    return q_at(a, b, t, a->H + a->G + g);
}
static i64 o_at(const struct attention *a, i64 b, i64 t, i64 h)
{
    return (row_at(a, b, t) * a->H + h) * a->D;
}
static i64 lse_at(const struct attention *a, i64 b, i64 h, i64 t)
{
    if (a->offsets) return h * ref_dim(a->qkv, 0) + row_at(a, b, t);
    return (b * a->H + h) * a->T + t;
}

static i64 length(const struct attention *a, i64 b)
{
    if (a->offsets) {
        i64 begin = row_at(a, b, 0), end = MIN(ref_dim(a->qkv, 0), ref_index(a->offsets, b + 1));
        return MAX(0, MIN(a->T, end - begin));
    }
    return a->lens ? MIN(a->T, ref_index(a->lens, b)) : a->T;
}

/* Keys [begin, end) are seen by query t; none by a query that is padding. */
static i64 keys_begin(const struct attention *a, i64 b, i64 t)
{
    i64 begin = a->window ? MAX(0, t - a->window + 1) : 0;
    if (a->positions) begin = MAX(begin, t - MAX(0, ref_index(a->positions, b * a->T + t)));
    return begin;
}
static i64 keys_end(const struct attention *a, i64 b, i64 t)
{
    i64 len = length(a, b);
    return t >= len ? 0 : a->causal ? t + 1 : len;
}

/* Positions [0, end) have a row. */
static i64 rows_end(const struct attention *a, i64 b) { return a->offsets ? length(a, b) : a->T; }

/* Rows of `width` numbers that belong to no sequence. */
static void clear_rows(const struct attention *a, const struct tensor *y, i64 width)
{
    i64 first = row_at(a, a->B - 1, length(a, a->B - 1));
    for (i64 i = first * width; i < y->count; i++) ref_store(y, i, 0);
}

static f64 dot(const struct tensor *x, i64 at_x, const struct tensor *y, i64 at_y, i64 count)
{
    f64 sum = 0;
    for (i64 i = 0; i < count; i++) sum += ref_load(x, at_x + i) * ref_load(y, at_y + i);
    return sum;
}

static void add_scaled(f64 *sum, f64 factor, const struct tensor *x, i64 at_x, i64 count)
{
    for (i64 i = 0; i < count; i++) sum[i] += factor * ref_load(x, at_x + i);
}

static void store_scaled(const struct tensor *y, i64 at_y, f64 factor, const f64 *v, i64 count)
{
    for (i64 i = 0; i < count; i++) ref_store(y, at_y + i, factor * v[i]);
}

static f64 score(const struct attention *a, i64 b, i64 h, i64 t, i64 s)
{
    i64 g = h * a->G / a->H;
    return a->scale * dot(a->qkv, q_at(a, b, t, h), a->qkv, k_at(a, b, s, g), a->D);
}

static void attend(const struct call *c, const struct attention *a, i64 b, i64 h, i64 t)
{
    f64 o[HEAD_DIM_MAX] = { 0 }, top = -INFINITY, sum = 0;
    i64 begin = keys_begin(a, b, t), end = keys_end(a, b, t);
    for (i64 s = begin; s < end; s++) top = fmax(top, score(a, b, h, t, s));
    for (i64 s = begin; s < end; s++) {
        f64 p = exp(score(a, b, h, t, s) - top);
        sum += p;
        add_scaled(o, p * kept(a, b, h, t, s), a->qkv, v_at(a, b, s, h * a->G / a->H), a->D);
    }
    store_scaled(&c->out[0], o_at(a, b, t, h), end ? 1 / sum : 0, o, a->D);
    ref_store(&c->out[1], lse_at(a, b, h, t), end ? top + log(sum) : 0);
}

static void attend_all(const struct call *c, const struct attention *a)
{
    for (i64 b = 0; b < a->B; b++)
        for (i64 h = 0; h < a->H; h++)
            for (i64 t = 0; t < rows_end(a, b); t++) attend(c, a, b, h, t);
}

void ref_ATTENTION(const struct call *c)
{
    struct attention a = attention_of(c, &c->in[0], given_count(c) == 2 ? &c->in[1] : NULL);
    attend_all(c, &a);
}

void ref_ATTENTION_PACKED(const struct call *c)
{
    struct attention a = packed_of(c, &c->in[0], &c->in[1]);
    attend_all(c, &a);
    clear_rows(&a, &c->out[0], a.H * a.D);
    for (i64 h = 0, last = a.B - 1; h < a.H; h++)
        for (i64 i = lse_at(&a, last, h, length(&a, last)); i < (h + 1) * ref_dim(&c->in[0], 0);
             i++)
            ref_store(&c->out[1], i, 0);
}

/* --- over a cache --- */

/* Head g of the keys at a place; G further on are the values. */
static i64 cached_at(const struct tensor *cache, i64 sequence, i64 place, i64 g, i64 D)
{
    return (sequence * ref_dim(cache, 1) + place) * ref_dim(cache, 2) + g * D;
}

static void attend_cached(const struct call *c, i64 r, i64 h, i64 D)
{
    const struct tensor *qkv = &c->in[0], *cache = &c->in[1];
    i64                  H = c->at->heads, G = c->at->kv_heads, g = h * G / H;
    i64                  sequence = ref_index(&c->in[2], r), place = ref_index(&c->in[3], r);
    i64                  begin = c->at->window ? MAX(0, place - c->at->window + 1) : 0;
    i64                  end = sequence < 0 ? begin : place + 1, q = r * ref_dim(qkv, 1) + h * D;
    f64                  o[HEAD_DIM_MAX] = { 0 }, top = -INFINITY, sum = 0;
    for (i64 s = begin; s < end; s++)
        top = fmax(top, c->at->scale * dot(qkv, q, cache, cached_at(cache, sequence, s, g, D), D));
    for (i64 s = begin; s < end; s++) {
        i64 k = cached_at(cache, sequence, s, g, D);
        f64 p = exp(c->at->scale * dot(qkv, q, cache, k, D) - top);
        sum += p;
        add_scaled(o, p, cache, k + G * D, D);
    }
    store_scaled(&c->out[0], (r * H + h) * D, end > begin ? 1 / sum : 0, o, D);
}

void ref_ATTENTION_CACHED(const struct call *c)
{
    const struct tensor *qkv = &c->in[0], *cache = &c->in[1];
    i64                  H = c->at->heads, width = ref_dim(cache, 2), rows = ref_dim(qkv, 0);
    i64                  D = ref_dim(qkv, 1) / (H + 2 * c->at->kv_heads);
    ASSERT(D <= HEAD_DIM_MAX);
    for (i64 r = 0; r < rows; r++) {
        i64 sequence = ref_index(&c->in[2], r), place = ref_index(&c->in[3], r);
        if (sequence < 0) continue;
        ASSERT(sequence < ref_dim(cache, 0) && place >= 0 && place < ref_dim(cache, 1));
        for (i64 i = 0, to = cached_at(cache, sequence, place, 0, D); i < width; i++)
            ref_store(cache, to + i, ref_load(qkv, r * ref_dim(qkv, 1) + H * D + i));
    }
    for (i64 r = 0; r < rows; r++)
        for (i64 h = 0; h < H; h++) attend_cached(c, r, h, D);
}

struct pair { /* of a query and a key: the weight, and the gradient of the score */
    f64 weight, ds;
};

static struct pair pair_grad(const struct call *c, const struct attention *a, i64 b, i64 h, i64 t,
                             i64 s)
{
    const struct tensor *d_o = &c->in[0], *o = &c->in[2], *lse = &c->in[3];
    i64                  at    = o_at(a, b, t, h);
    f64                  p     = exp(score(a, b, h, t, s) - ref_load(lse, lse_at(a, b, h, t)));
    f64                  delta = dot(d_o, at, o, at, a->D);
    f64                  dp    = dot(d_o, at, a->qkv, v_at(a, b, s, h * a->G / a->H), a->D);
    f64                  keep  = kept(a, b, h, t, s);
    return (struct pair){ p * keep, p * (dp * keep - delta) };
}

static void query_grad(const struct call *c, const struct attention *a, i64 b, i64 h, i64 t)
{
    f64 dq[HEAD_DIM_MAX] = { 0 };
    for (i64 s = keys_begin(a, b, t); s < keys_end(a, b, t); s++) {
        struct pair pair = pair_grad(c, a, b, h, t, s);
        add_scaled(dq, pair.ds, a->qkv, k_at(a, b, s, h * a->G / a->H), a->D);
    }
    store_scaled(&c->out[0], q_at(a, b, t, h), a->scale, dq, a->D);
}

static void key_value_grad(const struct call *c, const struct attention *a, i64 b, i64 g, i64 s)
{
    f64 dk[HEAD_DIM_MAX] = { 0 }, dv[HEAD_DIM_MAX] = { 0 };
    for (i64 h = 0; h < a->H; h++) {
        if (h * a->G / a->H != g) continue;
        for (i64 t = 0; t < rows_end(a, b); t++) {
            if (s < keys_begin(a, b, t) || s >= keys_end(a, b, t)) continue;
            struct pair pair = pair_grad(c, a, b, h, t, s);
            add_scaled(dk, pair.ds, a->qkv, q_at(a, b, t, h), a->D);
            add_scaled(dv, pair.weight, &c->in[0], o_at(a, b, t, h), a->D);
        }
    }
    store_scaled(&c->out[0], k_at(a, b, s, g), a->scale, dk, a->D);
    store_scaled(&c->out[0], v_at(a, b, s, g), 1, dv, a->D);
}

static void grad_all(const struct call *c, const struct attention *a)
{
    for (i64 b = 0; b < a->B; b++) {
        for (i64 h = 0; h < a->H; h++)
            for (i64 t = 0; t < rows_end(a, b); t++) query_grad(c, a, b, h, t);
        for (i64 g = 0; g < a->G; g++)
            for (i64 s = 0; s < rows_end(a, b); s++) key_value_grad(c, a, b, g, s);
    }
}

void ref_ATTENTION_GRAD(const struct call *c)
{
    struct attention a = attention_of(c, &c->in[1], given_count(c) == 5 ? &c->in[4] : NULL);
    grad_all(c, &a);
}

void ref_ATTENTION_PACKED_GRAD(const struct call *c)
{
    struct attention a = packed_of(c, &c->in[1], &c->in[4]);
    grad_all(c, &a);
    clear_rows(&a, &c->out[0], (a.H + 2 * a.G) * a.D);
}
