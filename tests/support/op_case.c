/* op_case.c - generators of cases, one a forward op, and how gradients follow from them. */
#include "support/op_case.h"
#include "backend/cpu/ref/ref_int.h"
#include "base/fp8.h"
#include "base/nf4.h"
#include "ir/fp8.h"
#include <string.h>

/* --- elements --- */

f64 element_get(const void *data, enum dtype t, i64 i)
{
    return ref_load(&(struct tensor){ .data = (void *)(uintptr_t)data, .type.dtype = t }, i);
}

void element_set(void *data, enum dtype t, i64 i, f64 v)
{
    ref_store(&(struct tensor){ .data = data, .type.dtype = t }, i, v);
}

/* --- operands --- */

struct maker {
    struct op_case *c;
    struct draw    *draw;
    struct arena   *perm;
    enum dtype      dtype;
};

static i64 size(struct maker *m, i64 size_max) { return draw_size(m->draw, size_max); }

static struct shape random_shape(struct maker *m, i32 rank_max, i64 count_max)
{
    struct shape s = { 1 + (i32)draw_to(m->draw, rank_max), { 0 } };
    for (i32 i = s.rank - 1; i >= 0; i--) {
        s.dim[i] = size(m, MAX(1, count_max));
        count_max /= s.dim[i];
    }
    return s;
}

/* Adds an input without values; NULL when only types are asked for. */
static void *add_input(struct maker *m, enum dtype t, struct shape s)
{
    i32 i       = m->c->in_count++;
    m->c->in[i] = type_of(t, s);
    if (!m->draw->types_only)
        m->c->data[i] = arena_take(m->perm, MAX(1, type_bytes(m->c->in[i])), 1, 64);
    return m->c->data[i];
}

/* A stream of its own for values, so that types do not depend on whether values are drawn. */
static struct draw stream(struct maker *m) { return (struct draw){ .state = draw_bits(m->draw) }; }

/* Adds an input; every element is scale * normal + shift. */
static void add_normal(struct maker *m, enum dtype t, struct shape s, f64 scale, f64 shift)
{
    struct draw d    = stream(m);
    void       *data = add_input(m, t, s);
    for (i64 k = 0; data && k < shape_count(s); k++)
        element_set(data, t, k, scale * draw_normal(&d) + shift);
}

static void add(struct maker *m, struct shape s) { add_normal(m, m->dtype, s, 1, 0); }

/* [low, high): whole numbers for i32 and u8. */
static void add_uniform(struct maker *m, enum dtype t, struct shape s, f64 low, f64 high)
{
    struct draw d    = stream(m);
    void       *data = add_input(m, t, s);
    for (i64 k = 0; data && k < shape_count(s); k++) {
        f64 v = low + (high - low) * draw_unit(&d);
        element_set(data, t, k, dtype_is_float(t) ? v : floor(v));
    }
}

/* Weights beside activations are of the same type or kept in f32. */
static enum dtype weight_dtype(struct maker *m)
{
    return m->dtype == DT_F64 || draw_coin(m->draw) ? m->dtype : DT_F32;
}

static enum dtype wide_dtype(struct maker *m) { return m->dtype == DT_F64 ? DT_F64 : DT_F32; }

/* Mostly of order 1, sometimes where functions saturate. */
static f64 random_scale(struct maker *m)
{
    i64 k = draw_to(m->draw, 6);
    return k < 4 ? 1 : k == 4 || m->dtype == DT_F16 ? 10 : 100;
}

/* --- generators ---
 *
 * At most one draw in a list of arguments: compilers evaluate these in any order, and the same seed must give the same
 * cases with each of them. */

typedef void generator(struct maker *m);

static void case_map(struct maker *m)
{
    m->c->at.mul = draw_normal(m->draw);
    m->c->at.add = draw_normal(m->draw);
    m->c->at.cap = 15;
    f64 scale    = random_scale(m);
    add_normal(m, m->dtype, random_shape(m, 4, 5000), scale, 0);
}

static void case_exp(struct maker *m)
{
    f64 scale = draw_coin(m->draw) ? 1 : 3;
    add_normal(m, m->dtype, random_shape(m, 4, 5000), scale, 0);
}

static void case_positive(struct maker *m)
{
    f64 high = draw_coin(m->draw) ? 2 : 200;
    add_uniform(m, m->dtype, random_shape(m, 4, 5000), 0.01, high);
}

static struct shape tail_of(struct maker *m, struct shape s)
{
    i32 drop = (i32)draw_to(m->draw, s.rank + 1);
    if (drop == s.rank) return shape_1(1);
    return shape_of(s.rank - drop, s.dim + drop);
}

static void case_binary(struct maker *m)
{
    struct shape s = random_shape(m, 4, 5000);
    add(m, s);
    add(m, draw_coin(m->draw) ? s : tail_of(m, s));
}

static void case_div(struct maker *m)
{
    struct shape s = random_shape(m, 4, 5000);
    add(m, s);
    add_uniform(m, m->dtype, draw_coin(m->draw) ? s : tail_of(m, s), 0.5, 4);
}

static void case_rows(struct maker *m) /* softmax: also rows far from 0 */
{
    i64          wide = size(m, 1024), rows = size(m, 33), outer = 1 + draw_to(m->draw, 4);
    struct shape s = shape_3(outer, rows, wide);
    m->c->terms    = (f64)shape_last(s);
    add_normal(m, m->dtype, s, draw_coin(m->draw) ? 1 : 20, 0);
}

static void case_swiglu(struct maker *m)
{
    i64 half = size(m, 129), rows = size(m, 65);
    add(m, shape_2(rows, 2 * half));
}

static void case_cast(struct maker *m)
{
    if (draw_to(m->draw, 4) == 0) {
        m->c->at.stochastic = 1;
        m->c->at.key        = (i64)draw_bits(m->draw);
        m->c->at.dtype      = draw_coin(m->draw) ? DT_BF16 : DT_F16;
        f64 scale           = draw_coin(m->draw) ? 1 : 1e-5;
        add_normal(m, DT_F32, random_shape(m, 4, 5000), scale, 0);
        add_uniform(m, DT_I32, shape_1(4), 0, 1e6);
        return;
    }
    enum dtype from = (enum dtype)draw_to(m->draw, DT_COUNT);
    m->c->at.dtype  = (enum dtype)draw_to(m->draw, DT_COUNT);
    if (from == DT_U8) add_uniform(m, from, random_shape(m, 4, 5000), 0, 256);
    else add_normal(m, from, random_shape(m, 4, 5000), 50, 100);
}

static void case_fill(struct maker *m)
{
    m->c->at.dims  = random_shape(m, 4, 5000);
    m->c->at.dtype = m->dtype;
    m->c->at.add   = draw_normal(m->draw);
}

static void case_reshape(struct maker *m)
{
    struct shape s = random_shape(m, 4, 5000);
    m->c->at.dims  = shape_1(shape_count(s));
    add(m, s);
}

static void case_transpose(struct maker *m)
{
    struct shape s = random_shape(m, 4, 5000);
    struct shape p = { s.rank, { 0, 1, 2, 3 } };
    for (i32 i = s.rank - 1; i > 0; i--) {
        i64 k = draw_to(m->draw, i + 1), swap = p.dim[i];
        p.dim[i] = p.dim[k];
        p.dim[k] = swap;
    }
    m->c->at.dims = p;
    add(m, s);
}

static void case_concat(struct maker *m)
{
    struct shape s = random_shape(m, 4, 2000);
    m->c->at.axis  = draw_to(m->draw, s.rank);
    for (i64 left = 1 + draw_to(m->draw, 4); left > 0; left--) {
        s.dim[m->c->at.axis] = size(m, 33);
        add(m, s);
    }
}

static void case_slice(struct maker *m)
{
    struct shape s = random_shape(m, 4, 5000);
    m->c->at.axis  = draw_to(m->draw, s.rank);
    m->c->at.start = draw_to(m->draw, s.dim[m->c->at.axis]);
    m->c->at.count = 1 + draw_to(m->draw, s.dim[m->c->at.axis] - m->c->at.start);
    add(m, s);
}

/* In large draws also what bias gradients sum up: many rows. */
static void case_sum(struct maker *m)
{
    static const i64 widths[] = { 3, 100, 768, 771, 1600, 4800, 6400 };
    struct shape     s        = random_shape(m, 4, 20000);
    m->c->at.axis             = draw_to(m->draw, s.rank);
    m->c->at.count            = 1 + draw_to(m->draw, s.rank - m->c->at.axis);
    if (m->draw->large && draw_coin(m->draw)) {
        i64 width      = widths[draw_to(m->draw, COUNT_OF(widths))];
        s              = shape_2(200 + draw_to(m->draw, 400), width);
        m->c->at.axis  = 0;
        m->c->at.count = 1;
    }
    m->c->at.wide = draw_coin(m->draw);
    m->c->macs    = (f64)shape_count(s);
    add(m, s);
}

static void case_broadcast(struct maker *m)
{
    struct shape s = random_shape(m, 3, 100);
    m->c->at.axis = draw_to(m->draw, s.rank + 1), m->c->at.dims = random_shape(m, 3, 100);
    add(m, s);
}

static void case_matmul(struct maker *m)
{
    i64 M = size(m, 256), N = size(m, 384), K = size(m, 384), two = 1 + draw_to(m->draw, 3);
    i64 ta = draw_coin(m->draw), tb = draw_coin(m->draw), kind = draw_to(m->draw, 5);
    if (kind == 4) /* a few rows, as of new tokens: kernels of their own */
        ta = 0, tb = 1, M = 1 + draw_to(m->draw, 5), K = 8 * size(m, 600) - 4 * draw_coin(m->draw);
    struct shape a = ta ? shape_2(K, M) : shape_2(M, K), b = tb ? shape_2(N, K) : shape_2(K, N);
    if (kind == 0) { /* a batch of products */
        a = shape_4(2, two, a.dim[0], a.dim[1]);
        b = shape_4(2, two, b.dim[0], b.dim[1]);
    } else if (kind == 1 && !ta) { /* leading axes are rows */
        a = shape_3(two, a.dim[0], a.dim[1]);
    }
    m->c->at.ta   = ta;
    m->c->at.tb   = tb;
    m->c->at.wide = draw_coin(m->draw);
    m->c->terms   = (f64)K;
    add(m, a);
    add(m, b);
    if (draw_coin(m->draw)) add_normal(m, weight_dtype(m), shape_1(N), 1, 0);
}

static i64 size_16(struct maker *m, i64 size_max) { return (size(m, size_max) + 15) / 16 * 16; }

static void case_quantise(struct maker *m)
{
    static const f64 scales[] = { 1e-6, 0.02, 1, 300 };
    enum dtype       t        = m->dtype == DT_F64 ? DT_F32 : m->dtype; /* f64 has no such cast */
    i64              rows = 1 + draw_to(m->draw, 3), used = draw_to(m->draw, 3);
    m->c->at.start  = draw_to(m->draw, rows);
    m->c->at.format = draw_coin(m->draw);
    f64 scale       = scales[draw_to(m->draw, t == DT_F16 ? 3 : COUNT_OF(scales))];
    i64 wide = size_16(m, 257), high = size_16(m, 257);
    add_normal(m, t, shape_2(high, wide), scale, 0);
    /* none used before, too small, or of its size: then some saturate */
    add_uniform(m, DT_F32, shape_2(rows, FP8_STATE), 0, used == 0 ? 0 : used == 1 ? 1e-3 : 4);
}

static void add_codes(struct maker *m, struct shape s, enum fp8 format)
{
    struct draw d    = stream(m);
    u8         *data = add_input(m, DT_U8, s);
    for (i64 k = 0; data && k < shape_count(s); k++)
        data[k] = fp8_from_f32((f32)(draw_normal(&d) * 8), format);
}

static void add_bytes(struct maker *m, struct shape s)
{
    struct draw d    = stream(m);
    u8         *data = add_input(m, DT_U8, s);
    for (i64 k = 0; data && k < shape_count(s); k++) data[k] = (u8)draw_to(&d, 256);
}

static void case_unpack(struct maker *m)
{
    i64 groups = 1 + draw_to(m->draw, 3), K = (i64)1 << (5 + draw_to(m->draw, 6));
    i64 N          = groups * NF4_GROUP / K;
    m->c->at.dtype = m->dtype;
    if (draw_coin(m->draw)) {
        add_bytes(m, shape_2(N, K / 2));
        add_bytes(m, shape_1(N * K / NF4_BLOCK));
        add_uniform(m, DT_F32, shape_2(groups, NF4_SCALES), 0.01, 0.5);
        return;
    }
    m->c->at.format = 1;
    K               = size(m, 300);
    add_codes(m, shape_2(N, K), FP8_E4M3);
    add_uniform(m, DT_F32, shape_1(N), 0.001, 0.5);
}

static void case_matmul_fp8(struct maker *m)
{
    i64 M = size_16(m, 256), N = size_16(m, 384), K = size_16(m, 384), format = draw_to(m->draw, 3);
    m->c->at.format = format;
    m->c->at.dtype  = m->dtype == DT_F64 || draw_coin(m->draw) ? DT_F32 : m->dtype;
    m->c->at.dims   = draw_coin(m->draw) ? shape_2(M, N) : shape_3(2, M / 2, N);
    m->c->terms     = (f64)K;
    add_codes(m, shape_2(M, K), format & 1 ? FP8_E5M2 : FP8_E4M3);
    add_codes(m, shape_2(N, K), format & 2 ? FP8_E5M2 : FP8_E4M3);
    add_uniform(m, DT_F32, shape_1(1), 0.125, 0.5);
    add_uniform(m, DT_F32, shape_1(1), 0.125, 0.5);
    if (draw_coin(m->draw)) add_normal(m, m->c->at.dtype, shape_1(N), 1, 0);
}

static void case_fp8_advance(struct maker *m)
{
    add_uniform(m, DT_F32, shape_2(size(m, 300), FP8_STATE), 0, 4);
}

static void case_embedding(struct maker *m)
{
    i64 rows = size(m, 129), ids = size(m, 512);
    if (m->draw->large)
        rows = draw_coin(m->draw) ? 3 : 1 + draw_to(m->draw, 3000); /* long runs, or none */
    add(m, shape_2(rows, size(m, 384)));
    add_uniform(m, DT_I32, draw_coin(m->draw) ? shape_1(ids) : shape_2(2, ids), 0, (f64)rows);
    m->c->terms = (f64)(2 * ids);
}

/* In large draws some have more rows than a GPU's blocks take at once, or more columns. */
static void case_layernorm(struct maker *m)
{
    static const i64 wide[] = { 1032, 1600, 2048, 3072, 4096, 4104 };
    i64              width = size(m, 1024), rows = size(m, 65), outer = 1 + draw_to(m->draw, 3);
    i64              kind = m->draw->large ? draw_to(m->draw, 4) : 0;
    struct shape     s    = shape_3(outer, rows, width);
    if (kind == 1) width = 8 * (1 + draw_to(m->draw, 16));
    if (kind == 1) s = shape_2(5000 + draw_to(m->draw, 5000), width);
    if (kind == 2) width = wide[draw_to(m->draw, COUNT_OF(wide))];
    if (kind == 2) s = shape_2(1 + draw_to(m->draw, 200), width);
    if (kind == 3) s = shape_2(2200 + draw_to(m->draw, 1000), 1600);
    enum dtype w = weight_dtype(m);
    m->c->at.eps = 1e-5;
    m->c->terms  = (f64)(shape_last(s) + shape_rows(s));
    add_normal(m, m->dtype, s, 1, draw_coin(m->draw) ? 0 : 3);
    add_normal(m, w, shape_1(shape_last(s)), 1, 1);
    add_normal(m, w, shape_1(shape_last(s)), 1, 0);
}

/* As a norm's, with a second summand behind the first. */
static void case_add_layernorm(struct maker *m)
{
    struct op_case *c = m->c;
    case_layernorm(m);
    add_normal(m, c->in[0].dtype, c->in[0].shape, 1, 0);
    struct type type = c->in[3];
    void       *data = c->data[3];
    for (i32 i = 3; i > 1; i--) {
        c->in[i]   = c->in[i - 1];
        c->data[i] = c->data[i - 1];
    }
    c->in[1]   = type;
    c->data[1] = data;
}

static void case_add_rmsnorm(struct maker *m)
{
    case_add_layernorm(m);
    m->c->in_count = draw_coin(m->draw) ? 2 : 3;
}

static void case_rmsnorm(struct maker *m)
{
    case_layernorm(m);
    m->c->in_count = draw_coin(m->draw) ? 1 : 2;
}

static void case_batchnorm(struct maker *m)
{
    struct shape s;
    if (draw_coin(m->draw)) {
        i64 C = size(m, 256), rows = 2 + size(m, 129);
        s = shape_2(rows, C);
    } else {
        i64 C = size(m, 129), W = size(m, 17), H = 2 + draw_to(m->draw, 9),
            N = 1 + draw_to(m->draw, 3);
        s     = shape_4(N, H, W, C);
    }
    struct shape ch   = shape_1(shape_last(s));
    m->c->at.eps      = 1e-5;
    m->c->at.momentum = 0.1;
    m->c->terms       = (f64)shape_rows(s);
    add_normal(m, m->dtype, s, 1, draw_coin(m->draw) ? 0 : 3);
    add_normal(m, wide_dtype(m), ch, 1, 1);
    add_normal(m, wide_dtype(m), ch, 1, 0);
    add_normal(m, wide_dtype(m), ch, 1, 0);
    add_uniform(m, wide_dtype(m), ch, 0.5, 2);
}

static void case_conv2d(struct maker *m)
{
    static const i64 kernels[] = { 1, 3, 3, 5, 7 };
    i64  KH = kernels[draw_to(m->draw, COUNT_OF(kernels))], O = size(m, 65), C = size(m, 65);
    i64  KW     = draw_to(m->draw, 4) ? KH : kernels[draw_to(m->draw, COUNT_OF(kernels))];
    i64  stride = 1 + draw_to(m->draw, 2), pad = draw_coin(m->draw) ? MIN(KH, KW) / 2 : 0;
    bool usual = draw_coin(m->draw) && !m->draw->odd;
    if (usual) { /* as most layers are, and some kernels want it */
        KH = KW = 3;
        stride  = 1;
        O       = 16 + 16 * draw_to(m->draw, 2);
        C       = 16 + 16 * draw_to(m->draw, 2);
    }
    i64 H = KH + draw_to(m->draw, 12), W = KW + draw_to(m->draw, 12), N = 1 + draw_to(m->draw, 3);
    while (O * C * KH * KW * H * W * N > 1500000) {
        if (O > C) O = (O + 1) / 2;
        else C = (C + 1) / 2;
    }
    i64 OH = (H + 2 * pad - KH) / stride + 1, OW = (W + 2 * pad - KW) / stride + 1;
    m->c->at.stride = stride;
    m->c->at.pad    = pad;
    m->c->at.wide   = draw_coin(m->draw);
    m->c->macs      = (f64)(N * OH * OW * O * KH * KW * C);
    add(m, shape_4(N, H, W, C));
    add(m, shape_4(O, KH, KW, C));
    if (draw_coin(m->draw)) add_normal(m, weight_dtype(m), shape_1(O), 1, 0);
}

static void case_pool(struct maker *m)
{
    i64 K = 1 + draw_to(m->draw, 4), H = K + draw_to(m->draw, 12), W = K + draw_to(m->draw, 12);
    m->c->at.kernel = K;
    m->c->at.stride = 1 + draw_to(m->draw, 3);
    m->c->at.pad    = draw_to(m->draw, K / 2 + 1);
    m->c->terms     = (f64)(K * K);
    i64 C           = size(m, 129);
    add(m, shape_4(1 + draw_to(m->draw, 3), H, W, C));
}

/* Numbers three times as large make scores nine times as large, and a score's rounding error is a
 * relative error of its probability: bounds that grow with the root of the terms need 81 of them. */
static i64 attention_window(struct maker *m, i64 T)
{
    if (!m->c->at.causal || draw_coin(m->draw)) return 0;
    return 1 + draw_to(m->draw, T + 3);
}

/* Documents of random length, some of one token, one after the other through each sequence. */
static void add_positions(struct maker *m, i64 B, i64 T)
{
    struct draw d     = stream(m);
    i64         least = 1 + draw_to(m->draw, 40);
    i32        *data  = add_input(m, DT_I32, shape_2(B, T));
    for (i64 i = 0; data && i < B * T; i++)
        data[i] = i % T == 0 || draw_to(&d, least) == 0 ? 0 : data[i - 1] + 1;
}

/* Dropout on the weights, of every fourth case. */
static void add_drop(struct maker *m)
{
    if (draw_to(m->draw, 4)) return;
    m->c->at.key = (i64)draw_bits(m->draw);
    m->c->at.p   = draw_coin(m->draw) ? 0.1 : 0.5;
    m->c->terms /= pow(1 - m->c->at.p, 2);
    add_uniform(m, DT_I32, shape_1(4), 0, 1e6);
}

static void case_attention(struct maker *m)
{
    static const i64 dims[]    = { 1, 4, 5, 8, 16, 24, 32, 40, 64, 72, 80, 96, 128, 256 };
    static const i64 lengths[] = { 1, 2, 127, 131, 192, 257, 307 }; /* primes among them */
    i64              D = dims[draw_to(m->draw, COUNT_OF(dims))], G = 1 + draw_to(m->draw, 2);
    i64  H = G * (1 + draw_to(m->draw, 3)), B = 1 + draw_to(m->draw, 2), T = size(m, 65);
    bool whole = draw_to(m->draw, 4) ==
                 0; /* blocks of rows and a size of head that fast kernels are made for */
    if (whole) D = draw_coin(m->draw) ? 64 : 128, T = 128 * (1 + draw_to(m->draw, 2));
    if (whole && m->draw->large && draw_coin(m->draw))
        B = 6, H = 8, G = 4, T = 512; /* more blocks than processors */
    if (!whole && m->draw->large)     /* heads of real models */
        D = dims[8 + draw_to(m->draw, 6)], T = lengths[draw_to(m->draw, COUNT_OF(lengths))];
    m->c->at.heads    = H;
    m->c->at.kv_heads = G;
    m->c->at.causal   = draw_coin(m->draw);
    m->c->at.window   = attention_window(m, T);
    m->c->at.scale    = 1 / sqrt((f64)D);
    f64 scale         = draw_coin(m->draw) ? 1 : 3;
    m->c->terms       = (f64)(T * (H / G) + D) * pow(scale, 4);
    add_normal(m, m->dtype, shape_3(B, T, (H + 2 * G) * D), scale, 0);
    if (m->c->at.causal && draw_to(m->draw, 3) == 0) add_positions(m, B, T);
    else if (!whole && draw_coin(m->draw)) add_uniform(m, DT_I32, shape_1(B), 0, (f64)(T + 1));
    add_drop(m);
}

/* Sequences of random length, some empty, behind them rows that belong to none. */
static void add_offsets(struct maker *m, i64 B, i64 rows, i64 longest)
{
    struct draw d    = stream(m);
    i32        *data = add_input(m, DT_I32, shape_1(B + 1));
    for (i64 b = 0; data && b < B; b++) {
        i64 length  = draw_to(&d, longest + 1);
        data[b + 1] = (i32)MIN(rows, data[b] + length);
    }
}

static const i64 head_dims[] = { 1, 5, 8, 16, 24, 32, 40, 64, 72, 80, 96, 128, 256 };

static void case_attention_packed(struct maker *m)
{
    i64 D = head_dims[draw_to(m->draw, COUNT_OF(head_dims))], G = 1 + draw_to(m->draw, 2);
    i64 H = G * (1 + draw_to(m->draw, 3)), B = 1 + draw_to(m->draw, 5), rows = size(m, 129);
    if (m->draw->large) rows = 150 + draw_to(m->draw, 200), D = head_dims[7 + draw_to(m->draw, 6)];
    m->c->at.heads = H, m->c->at.kv_heads = G, m->c->at.causal = draw_coin(m->draw);
    m->c->at.window = attention_window(m, rows);
    m->c->at.scale = 1 / sqrt((f64)D), m->c->at.count = 1 + draw_to(m->draw, rows);
    f64 scale   = draw_coin(m->draw) ? 1 : 3; /* as attention's */
    m->c->terms = (f64)(m->c->at.count * (H / G) + D) * pow(scale, 4);
    add_normal(m, m->dtype, shape_2(rows, (H + 2 * G) * D), scale, 0);
    add_offsets(m, B, rows, m->c->at.count);
    add_drop(m);
}

/* New rows of each sequence lie one after the other, some of padding among them; the longest fills the cache. */
static void add_places(struct maker *m, i64 N, i64 L, i64 rows)
{
    struct draw d        = stream(m);
    i32        *sequence = add_input(m, DT_I32, shape_1(rows));
    i32        *place    = add_input(m, DT_I32, shape_1(rows));
    for (i64 of = 0, at = draw_to(&d, L), r = 0; place && r < rows; r++, at++) {
        while (of < N && (at >= L || draw_to(&d, 9) == 0)) at = ++of < N ? draw_to(&d, L) : 0;
        bool none   = of >= N || draw_to(&d, 9) == 0;
        sequence[r] = none ? -1 : (i32)of, place[r] = none ? 0 : (i32)at;
    }
}

static void case_attention_cached(struct maker *m)
{
    i64 D = head_dims[draw_to(m->draw, COUNT_OF(head_dims))], G = 1 + draw_to(m->draw, 2);
    i64 H = G * (1 + draw_to(m->draw, 8)), N = 1 + draw_to(m->draw, 4), L = size(m, 300);
    i64 rows = 1 + draw_coin(m->draw) * draw_to(m->draw, 12), window = draw_to(m->draw, 2 * L);
    if (draw_coin(m->draw)) D = 32 * (1 + draw_to(m->draw, 4));
    if (m->draw->large)
        L = MAX(L, 64), D = (D + 31) / 32 * 32;  /* several blocks share the keys of one */
    f64 scale      = draw_coin(m->draw) ? 1 : 3; /* as attention's */
    m->c->at.heads = H, m->c->at.kv_heads = G, m->c->at.window = window > L ? 0 : window;
    m->c->at.scale = 1 / sqrt((f64)D), m->c->terms = (f64)(L + D) * pow(scale, 4);
    add_normal(m, m->dtype, shape_2(rows, (H + 2 * G) * D), scale, 0);
    add_normal(m, wide_dtype(m), shape_3(N, L, 2 * G * D), scale, 0);
    add_places(m, N, L, rows);
}

static void case_pack(struct maker *m)
{
    i64 B = size(m, 33), T = size(m, 65);
    m->c->at.count = B + draw_to(m->draw, B * T - B + 1);
    add_uniform(m, DT_I32, shape_2(B, T), 0, 1000);
    add_uniform(m, DT_I32, shape_1(B), -1, (f64)(T + 2));
}

static void case_heads(struct maker *m)
{
    i64 D =
        draw_coin(m->draw) ? 2 * size(m, 64) : (i64)16 << draw_to(m->draw, 4); /* vectors or not */
    i64 total         = 1 + draw_to(m->draw, 5);
    m->c->at.heads    = 1 + draw_to(m->draw, total);
    m->c->at.head_dim = D;
    m->c->at.base     = 10000;
    m->c->at.inverse  = draw_coin(m->draw);
    m->c->at.eps      = 1e-6;
    m->c->terms       = (f64)D;
    i64 rows          = size(m, 65);
    add(m, shape_3(1 + draw_to(m->draw, 3), rows, total * D));
}

/* At any position below the number of rows, or at the index on axis 1. */
static void case_rope(struct maker *m)
{
    case_heads(m);
    struct shape x = m->c->in[0].shape;
    if (draw_coin(m->draw)) m->c->at.stretch = 1 + (f64)draw_to(m->draw, 8);
    if (draw_coin(m->draw)) m->c->at.low = 0.001, m->c->at.high = 0.1;
    if (draw_coin(m->draw))
        add_uniform(m, DT_I32, shape_2(x.dim[0], x.dim[1]), 0, draw_coin(m->draw) ? 40 : 5000);
}

static void case_dropout(struct maker *m)
{
    struct shape x = random_shape(m, 4, 5000);
    m->c->at.key   = (i64)draw_bits(m->draw);
    m->c->at.p     = draw_coin(m->draw) ? 0.1 : 0.5;
    add(m, x);
    add_uniform(m, DT_I32, shape_1(4), 0, 1e6);
    if (draw_coin(m->draw)) return;
    add_uniform(m, DT_I32, shape_1(x.dim[0]), -1, 9); /* packed rows, some of no sample */
    add_uniform(m, DT_I32, shape_1(x.dim[0]), 0, 999);
}

static void xent_over(struct maker *m, struct shape rows, i64 V)
{
    struct shape x     = rows;
    x.dim[x.rank++]    = V;
    m->c->at.smoothing = draw_coin(m->draw) ? 0 : 0.1;
    m->c->terms        = (f64)V;
    add_normal(m, m->dtype, x, draw_coin(m->draw) ? 1 : 20, 0);
    add_uniform(m, DT_I32, rows, -1, (f64)V);
}

static void case_xent(struct maker *m)
{
    struct shape rows = draw_coin(m->draw) ? shape_1(size(m, 65)) : shape_2(2, size(m, 33));
    xent_over(m, rows, 1 + size(m, 1024));
}

/* Some as wide as a vocabulary, for which there are kernels of their own: one block has rows of up to 57,000 numbers,
 * several share longer ones, and each goes on to its next row if there are more than fit at once. */
static void case_xent_both(struct maker *m)
{
    static const f64 caps[] = { 0, 0, 2, 15 };
    i64              kind   = (i64)draw_to(m->draw, 10);
    if (kind == 0)
        xent_over(m, shape_1(300 + draw_to(m->draw, 100)), 8 * (1024 + draw_to(m->draw, 40)));
    else if (kind == 1) xent_over(m, shape_1(size(m, 9)), 8 * (1024 + draw_to(m->draw, 6200)));
    else if (kind == 2)
        xent_over(m, shape_1(70 + draw_to(m->draw, 40)), 8 * (7200 + draw_to(m->draw, 100)));
    else if (kind == 3) xent_over(m, shape_1(size(m, 3)), 8 * (7200 + draw_to(m->draw, 30000)));
    else case_xent(m);
    m->c->at.cap = caps[draw_to(m->draw, COUNT_OF(caps))];
    add_normal(m, wide_dtype(m), m->c->in[1].shape, 1, 0);
}

static void case_bce(struct maker *m)
{
    struct shape s = random_shape(m, 2, 5000);
    add_normal(m, m->dtype, s, random_scale(m), 0);
    add_uniform(m, weight_dtype(m), s, 0, 1);
}

static void case_sumsq(struct maker *m)
{
    add(m, random_shape(m, 2, 30000));
    m->c->macs = (f64)shape_count(m->c->in[0].shape);
}

static void case_clip(struct maker *m)
{
    m->c->at.limit = (f64)draw_to(m->draw, 3);
    add_uniform(m, wide_dtype(m), shape_1(1), 0, 9);
}

static void case_unscale(struct maker *m)
{
    m->c->at.growth  = 2;
    m->c->at.backoff = 0.5;
    m->c->at.count   = 1 + draw_to(m->draw, 5);
    add_uniform(m, DT_F32, shape_1(1), 1, 65536);
    add_uniform(m, DT_F32, shape_1(3), 0, 5);
    add_uniform(m, DT_F32, shape_1(1), 0, 1e6);
    bool bad = draw_to(m->draw, 3) == 0;
    if (bad && m->c->data[2]) *(f32 *)m->c->data[2] = INFINITY;
}

/* p, g, `states` tensors, hyper, factor */
static void add_optimiser(struct maker *m, struct shape s, i32 states, f32 lr)
{
    static const f32 steps[] = { 0, 1, 2, 7, 1000 };
    m->c->at.nesterov        = draw_coin(m->draw);
    m->c->at.eps             = 1e-8;
    m->c->at.decay           = draw_coin(m->draw) ? 0 : 0.1;
    add(m, s);
    add(m, s);
    add_normal(m, wide_dtype(m), s, 1, 0);
    if (states == 2) add_uniform(m, wide_dtype(m), s, 0, 2);
    f32   hyper[4] = { lr, 0.9f, 0.999f, steps[draw_to(m->draw, COUNT_OF(steps))] };
    void *data     = add_input(m, DT_F32, shape_1(4));
    if (data) memcpy(data, hyper, sizeof hyper);
    add_uniform(m, wide_dtype(m), shape_1(1), 0.1, 1);
}

static void case_accumulate(struct maker *m)
{
    struct shape s = random_shape(m, 2, 5000);
    add(m, s);
    add(m, s);
}

/* An index of at most `count` rows that rises, -1 behind the last, and rows, 0 there; room for `room`. */
static void add_rows(struct maker *m, enum dtype t, i64 table_rows, i64 count, i64 room, i64 width)
{
    struct draw d     = stream(m);
    f64         each  = (f64)table_rows / (f64)count;
    i64         used  = draw_to(&d, count + 1);
    void       *rows  = add_input(m, t, shape_2(room, width));
    i32        *index = add_input(m, DT_I32, shape_1(room));
    for (i64 i = 0; index && i < room; i++) {
        i64 low = (i64)(each * (f64)i), high = MAX(low + 1, (i64)(each * (f64)(i + 1)));
        index[i] = i < used ? (i32)(low + draw_to(&d, high - low)) : -1;
        for (i64 k = 0; k < width; k++)
            element_set(rows, t, i * width + k, i < used ? draw_normal(&d) : 0);
    }
}

static void case_embedding_rows(struct maker *m)
{
    i64 rows = 1 + draw_to(m->draw, 1000), ids = size(m, 300), width = size(m, 129);
    if (draw_coin(m->draw)) rows = 3; /* long runs */
    if (draw_coin(m->draw)) rows = 3 << 20;
    m->c->at.count = MIN(rows, ids) + draw_to(m->draw, 10);
    m->c->at.wide  = draw_coin(m->draw);
    m->c->terms    = (f64)ids;
    add(m, shape_2(ids, width));
    add_uniform(m, DT_I32, shape_1(ids), 0, (f64)rows);
}

/* Collectives of one rank: nothing happens. More are in test_collectives.c. */
static void case_alone(struct maker *m)
{
    m->c->at = (struct attrs){ .ranks = 1, .dims = shape_1(size(m, 5000)) };
    add(m, m->c->at.dims);
}

static void case_rows_alone(struct maker *m)
{
    i64 table = 1 + draw_to(m->draw, 3000), count = 1 + draw_to(m->draw, MIN(table, 100));
    m->c->at.ranks = 1;
    add_rows(m, m->dtype, table, count, count, size(m, 65));
}

static void case_rows_join(struct maker *m)
{
    i64 table = 1 + draw_to(m->draw, 3000), width = size(m, 65),
        count = 1 + draw_to(m->draw, MIN(table, 100));
    i64 more  = 1 + draw_to(m->draw, MIN(table, 100));
    add_rows(m, m->dtype, table, count, count + more, width);
    add_rows(m, m->dtype, table, more, more, width);
}

static void add_row_optimiser(struct maker *m, i32 states, bool by_row)
{
    static const f32 steps[] = { 0, 1, 10, 1000 };
    i64              count = 1 + draw_to(m->draw, 200), table = count + draw_to(m->draw, 2000),
        width          = size(m, 129);
    enum dtype   t     = wide_dtype(m);
    bool         low   = dtype_bytes(m->dtype) == 2 && draw_coin(m->draw); /* rounded at random */
    struct shape state = by_row ? shape_1(table) : shape_2(table, width);
    m->c->at.eps       = states ? 1e-8 : 0;
    m->c->terms        = (f64)width;
    add_normal(m, low ? m->dtype : t, shape_2(table, width), 1, 0);
    add_rows(m, t, table, count, count, width);
    if (states == 2) add_normal(m, t, state, 1, 0);
    if (states) add_uniform(m, t, state, 0, 2);
    f32   hyper[4] = { 0.01f, 0.9f, 0.999f, steps[draw_to(m->draw, COUNT_OF(steps))] };
    void *data     = add_input(m, DT_F32, shape_1(4));
    if (data) memcpy(data, hyper, sizeof hyper);
    add_uniform(m, t, shape_1(1), 0.1, 1);
    if (!low) return;
    m->c->at.key = (i64)draw_to(m->draw, 1 << 30);
    add_uniform(m, DT_I32, shape_1(4), 0, 1 << 30);
}

static void case_rows_sgd(struct maker *m) { add_row_optimiser(m, 0, false); }
static void case_rows_adagrad(struct maker *m) { add_row_optimiser(m, 1, true); }
static void case_rows_adam(struct maker *m) { add_row_optimiser(m, 2, false); }

static void case_sgd(struct maker *m) { add_optimiser(m, random_shape(m, 2, 5000), 1, 0.01f); }
static void case_adam(struct maker *m) { add_optimiser(m, random_shape(m, 2, 5000), 2, 0.01f); }

/* A step is all of the result, and as large as the parameter. What rounding leaves on a singular
 * value near 0 grows by 3.4445^5 = 485, and bounds grow with twice the root of the terms. Where its
 * numbers are kept low, near_allowed_muon says how far the step may lie by norm. */
static void case_muon(struct maker *m)
{
    bool                    image = draw_coin(m->draw);
    i64                     wide = size(m, image ? 8 : 65), high = size(m, image ? 33 : 65);
    struct shape            s       = image ? shape_4(high, 3, 3, wide) : shape_2(high, wide);
    static const enum dtype kinds[] = { DT_F32, DT_F32, DT_BF16, DT_F16 };
    enum dtype t   = m->dtype == DT_F64 ? DT_F64 : kinds[draw_to(m->draw, COUNT_OF(kinds))];
    m->c->at.dtype = t;
    m->c->at.scale = draw_coin(m->draw) ? 1 : 1.5;
    m->c->terms    = 485 * 485 / 4.0;
    add_optimiser(m, s, 1, (f32)sqrt((f64)MAX(s.dim[0], shape_count(s) / s.dim[0])));
}

/* --- the table --- */

/* A forward op has a generator; a gradient names its forward op and its operands there: d a fresh
 * gradient of result 0, i1 input 1, o1 result 1; `dims` is the input whose shape it gives back. */
struct row {
    enum nearness nearness;
    generator    *make;
    i32           forward;
    const char   *operands;
    i32           dims;
};

static const struct row rows[OP_COUNT] = {
#define FORWARD(name, near, make) [OP_##name] = { NEAR_##near, case_##make, 0, NULL, 0 },
#define GRADIENT(name, near, of, operands, dims)                                                   \
    [OP_##name] = { NEAR_##near, NULL, OP_##of, operands, dims },
#include "support/op_case.def"
#undef FORWARD
#undef GRADIENT
};

/* Results by the op's own shape rule. */
static void infer(struct op_case *c)
{
    struct err err = { 0 };
    struct sig s   = { c->in, c->in_count, c->out, &c->at, c->op };
    ASSERT(op_info(c->op)->shape(&s, &err) == STATUS_OK);
    ASSERT(c->in_count >= op_info(c->op)->in_min);
    ASSERT(c->in_count <= op_info(c->op)->in_max);
    for (i32 i = 0; i < op_info(c->op)->out_count && c->macs > 0; i++)
        c->terms = c->macs / (f64)MAX(1, shape_count(c->out[i].shape));
}

void op_case_run(const struct op_case *c, void **results, struct arena *perm)
{
    struct tensor in[OP_IN_MAX], out[OP_OUT_MAX];
    for (i32 i = 0; i < c->in_count; i++)
        in[i] = (struct tensor){ c->data[i], c->in[i], shape_count(c->in[i].shape) };
    for (i32 i = 0; i < op_info(c->op)->out_count; i++) {
        results[i] = arena_take(perm, MAX(1, type_bytes(c->out[i])), 1, 64);
        out[i]     = (struct tensor){ results[i], c->out[i], shape_count(c->out[i].shape) };
    }
    struct call call = { c->op, &c->at, in, c->in_count, out, NULL, 0, NULL, NULL };
    call.work_bytes  = ref_work(&call);
    call.work        = arena_take(perm, MAX(1, call.work_bytes), 1, 64);
    ref_run(&call);
}

i32 op_case_forward(i32 op) { return rows[op].operands ? rows[op].forward : -1; }
i32 op_case_input(i32 op) { return rows[op].dims; }

void op_case_gradient(struct op_case *c, i32 op, const struct op_case *forward, struct draw *draw,
                      struct arena *perm)
{
    const struct row *row                 = &rows[op];
    struct maker      m                   = { c, draw, perm, forward->out[0].dtype };
    void             *results[OP_OUT_MAX] = { NULL };
    /* a wide result's gradient comes back in the type of the inputs */
    enum dtype dy = forward->at.wide ? forward->in[0].dtype : forward->out[0].dtype;
    ASSERT(forward->op == op_case_forward(op));
    *c         = (struct op_case){ .op       = op,
                                   .nearness = row->nearness,
                                   .at       = forward->at,
                                   .terms    = forward->terms,
                                   .macs     = forward->macs };
    c->at.dims = forward->in[row->dims].shape;
    c->at.wide = op_info(op)->attrs & A_wide && draw_coin(draw);
    if (!draw->types_only) op_case_run(forward, results, perm);
    for (const char *o = row->operands; *o; o += strcspn(o, " "), o += *o == ' ') {
        i32 i = *o == 'd' ? 0 : o[1] - '0';
        if (*o == 'd') add_normal(&m, dy, forward->out[0].shape, 1, 0);
        if (*o == 'd' || (*o == 'i' && i >= forward->in_count)) continue; /* optional, absent */
        c->in[c->in_count]     = *o == 'i' ? forward->in[i] : forward->out[i];
        c->data[c->in_count++] = *o == 'i' ? forward->data[i] : results[i];
    }
    infer(c);
}

void op_case_draw(struct op_case *c, i32 op, enum dtype d, struct draw *draw, struct arena *perm)
{
    const struct row *row = &rows[op];
    if (row->operands) {
        struct op_case *forward = NEW(perm, struct op_case, 1);
        op_case_draw(forward, row->forward, d, draw, perm);
        op_case_gradient(c, op, forward, draw, perm);
        return;
    }
    struct maker m = { c, draw, perm, d };
    *c             = (struct op_case){ .op = op, .nearness = row->nearness, .terms = 1 };
    ASSERT(row->make); /* a new op needs a row above */
    row->make(&m);
    infer(c);
}
