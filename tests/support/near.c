/* near.c - distances by norm. */
#include "support/near.h"
#include "support/op_case.h"
#include <math.h>

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
    /* Five steps of a steep iteration in bf16: simulated for 1,000 random matrices, the direction is off by that at
     * most (tests/oracle/test_precision.py muon). */
    if (op == OP_MUON) return 0.1;
    if (op == OP_MATMUL_FP8) /* Hopper's fp8 units add in some 14 bits (arXiv 2412.19437, 3.3.2) */
        return (1 + at->then.count) * (16 * roundoff(t.dtype) + 0x1p-10);
    if (!dtype_is_float(t.dtype)) return 0;
    for (i32 i = 0; i < in_count; i++)
        if (dtype_is_float(in[i].dtype)) operand = fmax(operand, roundoff(in[i].dtype));
    return (1 + at->then.count) *
           (16 * roundoff(t.dtype) + 2 * operand + 0x1p-24 * sqrt(fmax(terms, 256)));
}
