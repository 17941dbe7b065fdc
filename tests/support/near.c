/* near.c - distances by norm. */
#include "support/near.h"
#include "backend/cpu/kernel.h"
#include "base/rng.h"
#include "ir/muon.h"
#include "support/op_case.h"
#include <math.h>
#include <string.h>

/* Of the gradient of a norm: which operand 1/deviation is; else NULL. */
static const struct tensor *rstds_of(i32 op, const struct tensor *in)
{
    if (op == OP_LAYERNORM_GRAD) return &in[4];
    return op == OP_RMSNORM_GRAD || op == OP_QKNORM_GRAD ? &in[2] : NULL;
}

/* 1/deviation of what element i was normalised with: its row, or its head, of which the last may be left alone. */
static f64 rstd_at(const struct tensor *rstds, i64 i, i64 width, i64 run, i64 rows)
{
    i64 runs = rstds->count / rows, which = i % width / run;
    return which < runs ? element_get(rstds->data, rstds->type.dtype, i / width * runs + which) : 1;
}

/* Of the gradient of a loss over classes, dloss (p - 1) where p is near 1: which operand dloss is; else NULL. */
static const struct tensor *losses_of(i32 op, const struct tensor *in)
{
    return op == OP_XENT_GRAD ? &in[0] : op == OP_XENT_BOTH ? &in[2] : NULL;
}

static f64 norm_of(const struct tensor *t)
{
    f64 sum = 0;
    for (i64 i = 0; i < t->count; i++) {
        f64 v = element_get(t->data, t->type.dtype, i);
        if (isfinite(v)) sum += v * v;
    }
    return sqrt(sum);
}

f64 near_terms(i32 op, const struct attrs *at, const struct tensor *in, i32 in_count, i64 count)
{
    if (losses_of(op, in)) return norm_of(losses_of(op, in));
    if (!in_count || in[0].count != count || !count || !dtype_is_float(in[0].type.dtype)) return 0;
    const struct tensor *rstds = rstds_of(op, in);
    i64 width = shape_last(in[0].type.shape), run = op == OP_QKNORM_GRAD ? at->head_dim : width;
    f64 sum = 0;
    for (i64 i = 0; i < count; i++) {
        f64 v = element_get(in[0].data, in[0].type.dtype, i);
        if (rstds) v *= rstd_at(rstds, i, width, run, count / width);
        if (isfinite(v)) sum += v * v;
    }
    return sqrt(sum);
}

/* The norm of the rows' largest numbers. */
static f64 norm_of_largest(const struct tensor *t)
{
    f64 sum = 0, top = 0;
    i64 width = shape_last(t->type.shape);
    for (i64 i = 0; i < t->count; i++) {
        f64 v = element_get(t->data, t->type.dtype, i);
        top   = fmax(i % width ? top : 0, isfinite(v) ? fabs(v) : 0);
        if (i % width == width - 1) sum += top * top;
    }
    return sqrt(sum);
}

/* Numbers that add up at random grow with the root of their count: so does the norm of all of them. */
f64 near_sum_terms(i32 op, i32 result, const struct tensor *in, i64 count)
{
    bool norm = op == OP_BATCHNORM || op == OP_LAYERNORM || op == OP_ADD_LAYERNORM;
    bool grad = op == OP_BATCHNORM_GRAD || op == OP_LAYERNORM_GRAD || op == OP_RMSNORM_GRAD;
    if (norm && result == 1 && in[0].count) {
        f64 both = op == OP_ADD_LAYERNORM ? norm_of(&in[1]) : 0;
        return (norm_of(&in[0]) + both) * sqrt((f64)count / (f64)in[0].count);
    }
    if ((grad && result > 0) || op == OP_SUM || op == OP_EMBEDDING_GRAD) return norm_of(&in[0]);
    if (op == OP_XENT && result == 0) return norm_of_largest(&in[0]);
    return op == OP_XENT_BOTH && result == 1 ? norm_of_largest(&in[0]) : 0;
}

f64 near_distance(const void *got, const void *want, struct type t, f64 terms)
{
    f64 off = 0, size = 0;
    i64 count = shape_count(t.shape);
    for (i64 i = 0; i < count; i++) {
        f64 g = element_get(got, t.dtype, i), w = element_get(want, t.dtype, i);
        if (w != w && g != g) continue;
        if (g == w) g = w = isfinite(w) ? w : 0;
        off += (g - w) * (g - w);
        size += w * w;
    }
    if (off == 0) return 0;
    size = fmax(sqrt(size), terms);
    return off == off ? sqrt(off) / (size > 0 ? size : 1) : INFINITY;
}

static f64 roundoff(enum dtype t)
{
    return t == DT_BF16 ? 0x1p-9 : t == DT_F16 ? 0x1p-12 : 0x1p-24;
}

f64 near_allowed(i32 op, const struct attrs *at, const struct type *in, i32 in_count, struct type t,
                 f64 terms)
{
    f64 operand = 0x1p-24;
    if (op == OP_MATMUL_FP8) /* Hopper's fp8 units add in some 14 bits (arXiv 2412.19437, 3.3.2) */
        return (1 + at->then.count) * (16 * roundoff(t.dtype) + 0x1p-10);
    if (!dtype_is_float(t.dtype)) return 0;
    for (i32 i = 0; i < in_count; i++)
        if (dtype_is_float(in[i].dtype)) operand = fmax(operand, roundoff(in[i].dtype));
    return (1 + at->then.count) *
           (16 * roundoff(t.dtype) + 2 * operand + 0x1p-24 * sqrt(fmax(terms, 256)));
}

/* --- tables that are rounded at random --- */

bool near_is_rounded(i32 op, const struct type *in, i32 in_count)
{
    return (op == OP_ROWS_SGD || op == OP_ROWS_ADAGRAD || op == OP_ROWS_ADAM) &&
           in[in_count - 1].dtype == DT_I32;
}

f64 near_differing(const void *got, const void *want, struct type t)
{
    i64 count = shape_count(t.shape), differ = 0;
    for (i64 i = 0; i < count; i++) differ += ((const u16 *)got)[i] != ((const u16 *)want)[i];
    return (f64)differ / (f64)MAX(count, 1);
}

/* Random words are the same, so numbers differ only where f32's rounding takes a step across the word's threshold. Two
 * neighbours of bf16 are 2^16 of f32's apart, of f16 2^13. A step is off by two of them, so of numbers of their old
 * size 4 in 2^16 differ; of one that became 2^k times smaller the error is 2^k times as large, but only one in 2^k is
 * so small: 16 such k. And 8 more, for tables of few numbers: of the one that is expected there, Poisson's law gives
 * that to one case in a million. Other words would change a third of the numbers. */
f64 near_differing_allowed(struct type t)
{
    f64 between = t.dtype == DT_BF16 ? 0x1p16 : 0x1p13;
    return 4 * 16 / between + 8 / (f64)MAX(shape_count(t.shape), 1);
}

/* --- muon --- */

/* The parameter after the step, in f64 but for what is stored; the gradient and the momentum are moved at random, in
 * the root mean square by `by` of themselves. Its distance from `exact`, where that is not NULL. */
static f64 muon_step(const struct attrs *at, const struct tensor *in, f64 by, u64 draw,
                     const f32 *exact, f32 *to, struct arena scratch)
{
    struct tensor copy[5];
    struct attrs  wide = *at;
    f64           off  = 0;
    for (i32 i = 0; i < 5; i++) {
        copy[i]      = in[i];
        copy[i].data = arena_take(&scratch, type_bytes(in[i].type), 1, 64);
        memcpy(copy[i].data, in[i].data, (size_t)type_bytes(in[i].type));
    }
    for (i32 i = 1; i <= 2; i++)
        for (i64 k = 0; k < in[i].count; k++) {
            f64 u = rng_u32((struct rng_key){ .seed = draw, .name = (u64)i }, (u64)k) * 0x1p-32;
            ((f32 *)copy[i].data)[k] *= (f32)(1 + sqrt(3) * by * (2 * u - 1));
        }
    wide.dtype       = DT_F32;
    struct call call = { OP_MUON, &wide, copy, 5, NULL, NULL, 0, NULL, NULL };
    call.work_bytes  = ref_work(&call);
    call.work        = arena_take(&scratch, call.work_bytes, 1, 64);
    ref_run(&call);
    memcpy(to, copy[0].data, (size_t)type_bytes(in[0].type));
    for (i64 k = 0; exact && k < in[0].count; k++)
        off += ((f64)to[k] - (f64)exact[k]) * ((f64)to[k] - (f64)exact[k]);
    return sqrt(off);
}

/* X is rounded before the first of five iterations, and in each are A = X X', B = b A + c A A (or A A and B, each) and
 * (a I + B) X. By norm the root mean square counts, u: test_muon.c has it, and why the rounding of A comes into X as at
 * most |b| u and the last as 1.2 u, where singular values s are at most 1. That of B does as at most
 * max |b s^2 + c s^4| u = 2.8 u, twice where there are two. What follows leaves an error as it is, or enlarges it at
 * most as all five iterations do one of X before the first: that is measured here, as the farthest of some random
 * errors of the gradient and the momentum. Elements are rounded independently, so norms add up by squares. If the naive
 * kernel rounds too, its own distance comes on top, by squares as well. A norm of n such numbers differs from its root
 * mean square by 1 / sqrt(2 n) of it (chi's deviation): three of these for the side x side numbers of A and B. */
f64 near_allowed_muon(const struct attrs *at, const struct tensor *in, enum dtype kind,
                      struct arena scratch)
{
    enum { DRAWS = 16, DRAWS_LARGE = 4, LARGE = 128 * 128 }; /* norms of many numbers are alike */
    const f64  roundings = sqrt(1 + MUON_STEPS * (4.775 * 4.775 + 2 * 2.8 * 2.8 + 1.2 * 1.2));
    const f64  u         = roundoff(kind);
    const f32 *hyper = in[3].data, *before = in[0].data;
    i64        count = in[0].count;
    f32       *exact = NEW(&scratch, f32, count), *other = NEW(&scratch, f32, count);
    f64        step = 0, size = 0, most = 0;
    muon_step(at, in, 0, 0, NULL, exact, scratch);
    for (i64 i = 0; i < count; i++) {
        f64 x = (f64)before[i] * (1 - (f64)hyper[0] * at->decay) - (f64)exact[i];
        step += x * x;
        size += (f64)exact[i] * (f64)exact[i];
    }
    for (u64 i = 0; i < (count > LARGE ? DRAWS_LARGE : DRAWS); i++)
        most = fmax(most, muon_step(at, in, u, i, exact, other, scratch));
    f64 both = roundoff(at->dtype) >= u ? roundoff(at->dtype) / u : 0;
    f64 side = (f64)MIN(shape_last(in[0].type.shape), count / shape_last(in[0].type.shape));
    f64 few  = 1 + 3 / (sqrt(2) * side);
    f64 off  = roundings * few * fmax(u * sqrt(step), most) * sqrt(1 + both * both);
    return size > 0 ? off / sqrt(size) + 16 * 0x1p-24 : 0;
}

/* --- attention --- */

static f64 at_of(const struct tensor *in, i32 k, i64 i)
{
    return element_get(in[k].data, in[k].type.dtype, i);
}

f64 *near_attention_terms(i32 op, const struct attrs *at, const struct tensor *in, i32 in_count,
                          struct arena *perm)
{
    bool packed = op == OP_ATTENTION_PACKED_GRAD;
    f64  over   = 1 / (1 - at->p); /* of weights that are kept */
    if (at->p > 0) in_count--;
    bool placed = in_count == 5 && in[4].type.shape.rank == 2;
    i64  B      = packed ? in[4].count - 1 : in[1].type.shape.dim[0];
    i64  T = packed ? at->count : in[1].type.shape.dim[1], H = at->heads, G = at->kv_heads;
    i64  all = H + 2 * G, D = shape_last(in[1].type.shape) / all, pairs = B * H * T * T;
    i64  rows = shape_rows(in[1].type.shape);
    f64 *size = NEW(perm, f64, in[1].count);
    for (i64 n = 0; n < pairs; n++) {
        i64 key = n % T, t = n / T % T, h = n / T / T % H, b = n / T / T / H;
        i64 first = packed ? (i64)at_of(in, 4, b) : b * T, row = first + t;
        i64 len   = packed                     ? (i64)at_of(in, 4, b + 1) - first
                    : in_count == 5 && !placed ? MIN(T, (i64)at_of(in, 4, b))
                                               : T;
        i64 begin = at->window ? t - at->window + 1 : 0;
        if (placed) begin = MAX(begin, t - (i64)at_of(in, 4, b * T + t));
        i64 q = (row * all + h) * D, k = ((first + key) * all + H + h * G / H) * D;
        i64 v = k + G * D, o = (row * H + h) * D,
            lse   = packed ? h * rows + row : (b * H + h) * T + t;
        f64 score = 0, dp = 0, delta = 0;
        if (t >= len || key < begin || key >= (at->causal ? t + 1 : len)) continue;
        for (i64 d = 0; d < D; d++) {
            score += at->scale * at_of(in, 1, q + d) * at_of(in, 1, k + d);
            dp += at_of(in, 0, o + d) * at_of(in, 1, v + d);
            delta += at_of(in, 0, o + d) * at_of(in, 2, o + d);
        }
        f64 p      = exp(score - at_of(in, 3, lse));
        f64 change = fabs(dp * over - delta), dropped = at->p > 0 ? fabs(delta) : 0;
        f64 ds = at->scale * p * MAX(change, dropped);
        for (i64 d = 0; d < D; d++) {
            size[q + d] += ds * fabs(at_of(in, 1, k + d));
            size[k + d] += ds * fabs(at_of(in, 1, q + d));
            size[v + d] += p * over * fabs(at_of(in, 0, o + d));
        }
    }
    return size;
}
