/* near.c - distances by norm. */
#include "support/near.h"
#include "support/op_case.h"
#include <math.h>

static f64 square_norm(const struct tensor *x)
{
    f64 sum = 0;
    for (i64 i = 0; i < x->count; i++) {
        f64 v = element_get(x->data, x->type.dtype, i);
        if (isfinite(v)) sum += v * v;
    }
    return sum;
}

f64 near_distance(const void *got, const void *want, struct type t, const struct tensor *first)
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
    if (first && first->count == count && dtype_is_float(first->type.dtype))
        size = fmax(size, square_norm(first));
    return off == off ? sqrt(off / (size > 0 ? size : 1)) : INFINITY;
}

static f64 roundoff(enum dtype t)
{
    return t == DT_BF16 ? 0x1p-9 : t == DT_F16 ? 0x1p-12 : 0x1p-24;
}

f64 near_allowed(i32 op, const struct attrs *at, const struct type *in, i32 in_count, struct type t,
                 f64 terms)
{
    f64 operand = 0x1p-24;
    if (op == OP_MUON) return 0.05; /* five steps of a steep iteration in bf16: 2^-9 each, enlarged */
    if (op == OP_MATMUL_FP8) /* Hopper's fp8 units add in some 14 bits (arXiv 2412.19437, 3.3.2) */
        return (1 + at->then.count) * (16 * roundoff(t.dtype) + 0x1p-10);
    if (!dtype_is_float(t.dtype)) return 0;
    for (i32 i = 0; i < in_count; i++)
        if (dtype_is_float(in[i].dtype)) operand = fmax(operand, roundoff(in[i].dtype));
    return (1 + at->then.count) * (16 * roundoff(t.dtype) + 2 * operand + 0x1p-24 * sqrt(fmax(terms, 256)));
}
