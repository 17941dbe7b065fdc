/* shapes.c - the shape rules: from the types of an op's inputs to those of its results, or one
 * sentence that says which sizes do not fit. */
#include "base/nf4.h"
#include "ir/attention.h"
#include "ir/collective.h"
#include "ir/fp8.h"
#include "ir/ir_int.h"

static struct shape in_shape(const struct sig *s, i32 i) { return s->in[i].shape; }

/* Statistics and losses are never kept below f32; neither is the result of a node marked `wide`. */
static enum dtype wide(enum dtype t) { return t == DT_F64 ? DT_F64 : DT_F32; }

static struct type result(const struct sig *s, struct shape shape)
{
    enum dtype t = s->in[0].dtype;
    return type_of(s->at->wide ? wide(t) : t, shape);
}

/* Weights and statistics beside activations are of their type or f32. */
static bool fits_beside(struct type weight, enum dtype activation)
{
    return weight.dtype == activation || weight.dtype == DT_F32;
}

static enum status fail(struct err *err, const char *what, struct type a, struct type b)
{
    char         text[256];
    struct arena scratch = { .begin = (u8 *)text, .end = (u8 *)text + sizeof text };
    struct str   ta      = type_text(&scratch, a);
    struct str   tb      = type_text(&scratch, b);
    return err_set(err, STATUS_USAGE, "%s: %.*s and %.*s", what, STR_ARG(ta), STR_ARG(tb));
}

static enum status fail_one(struct err *err, const char *what, struct type a)
{
    char         text[256];
    struct arena scratch = { .begin = (u8 *)text, .end = (u8 *)text + sizeof text };
    struct str   ta      = type_text(&scratch, a);
    return err_set(err, STATUS_USAGE, "%s, not %.*s", what, STR_ARG(ta));
}

static enum status need_float(struct err *err, struct type t)
{
    return dtype_is_float(t.dtype) ? STATUS_OK : fail_one(err, "needs floating-point numbers", t);
}

enum status shape_binary(struct sig *s, struct err *err)
{
    struct shape a = in_shape(s, 0), b = in_shape(s, 1);
    if (s->in[0].dtype != s->in[1].dtype) return fail(err, "types differ", s->in[0], s->in[1]);
    if (!shape_is_suffix(a, b) && shape_count(b) != 1)
        return fail(err, "the second must equal the first or its tail", s->in[0], s->in[1]);
    s->out[0] = s->in[0];
    return STATUS_OK;
}

enum status shape_map(struct sig *s, struct err *err)
{
    s->out[0] = s->in[0];
    return need_float(err, s->in[0]);
}

enum status shape_same(struct sig *s, struct err *err)
{
    if (!type_eq(s->in[0], s->in[1])) return fail(err, "must be alike", s->in[0], s->in[1]);
    return shape_map(s, err);
}

static enum status same_dtype(const struct sig *s, i32 a, i32 b, struct err *err)
{
    if (s->in[a].dtype == s->in[b].dtype) return STATUS_OK;
    return fail(err, "types differ", s->in[a], s->in[b]);
}

/* dy, x, … -> dx */
enum status shape_as_in1(struct sig *s, struct err *err)
{
    s->out[0] = s->in[1];
    if (same_dtype(s, 0, 1, err)) return STATUS_USAGE;
    return need_float(err, s->in[1]);
}

enum status shape_swiglu(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0);
    if (!x.rank || x.dim[x.rank - 1] % 2)
        return fail_one(err, "needs an even last axis (gate and value)", s->in[0]);
    s->out[0] = s->in[0];
    s->out[0].shape.dim[x.rank - 1] /= 2;
    return need_float(err, s->in[0]);
}

static enum status need_rng(const struct sig *s, i32 at, struct err *err)
{
    if (type_eq(s->in[at], type_of(DT_I32, shape_1(4)))) return STATUS_OK;
    return fail_one(err, "the rng tensor must be i32[4]", s->in[at]);
}

static enum status need_rate(const struct sig *s, struct err *err)
{
    if (s->at->p >= 0 && s->at->p < 1) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "dropout rate %g must be at least 0 and below 1", s->at->p);
}

enum status shape_cast(struct sig *s, struct err *err)
{
    enum dtype from = s->in[0].dtype, to = s->at->dtype;
    s->out[0] = type_of(to, in_shape(s, 0));
    if ((s->at->stochastic != 0) != (s->in_count == 2))
        return err_set(err, STATUS_USAGE, "stochastic rounding and only that reads the rng tensor");
    if (s->in_count == 1) return STATUS_OK;
    if (from != DT_F32 || (to != DT_BF16 && to != DT_F16))
        return fail(err, "only f32 is rounded at random, to bf16 or f16", s->in[0], s->out[0]);
    return need_rng(s, 1, err);
}

enum status shape_fill(struct sig *s, struct err *err)
{
    (void)err;
    s->out[0] = type_of(s->at->dtype, s->at->dims);
    return STATUS_OK;
}

enum status shape_reshape(struct sig *s, struct err *err)
{
    s->out[0] = type_of(s->in[0].dtype, s->at->dims);
    if (shape_count(s->at->dims) != shape_count(in_shape(s, 0)))
        return fail(err, "sizes differ", s->in[0], s->out[0]);
    return STATUS_OK;
}

enum status shape_transpose(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0), p = s->at->dims;
    u32          seen = 0;
    s->out[0]         = s->in[0];
    if (p.rank != x.rank) return fail_one(err, "the permutation must name every axis", s->in[0]);
    for (i32 i = 0; i < p.rank; i++) {
        if (p.dim[i] < 0 || p.dim[i] >= x.rank || (seen >> p.dim[i] & 1))
            return fail_one(err, "the permutation must name each axis once", s->in[0]);
        seen |= 1u << p.dim[i];
        s->out[0].shape.dim[i] = x.dim[p.dim[i]];
    }
    return STATUS_OK;
}

static enum status axis_in(const struct sig *s, i32 input, struct err *err)
{
    if (s->at->axis >= 0 && s->at->axis < in_shape(s, input).rank) return STATUS_OK;
    return fail_one(err, "the axis is out of range", s->in[input]);
}

enum status shape_concat(struct sig *s, struct err *err)
{
    if (axis_in(s, 0, err)) return STATUS_USAGE;
    s->out[0] = s->in[0];
    for (i32 i = 1; i < s->in_count; i++) {
        struct type t = s->in[i];
        if (axis_in(s, i, err)) return STATUS_USAGE;
        i64 size                 = t.shape.dim[s->at->axis];
        t.shape.dim[s->at->axis] = s->in[0].shape.dim[s->at->axis];
        if (!type_eq(t, s->in[0])) return fail(err, "differ off the axis", s->in[0], s->in[i]);
        s->out[0].shape.dim[s->at->axis] += size;
    }
    return STATUS_OK;
}

enum status shape_slice(struct sig *s, struct err *err)
{
    if (axis_in(s, 0, err)) return STATUS_USAGE;
    s->out[0] = s->in[0];
    i64 *dim  = &s->out[0].shape.dim[s->at->axis];
    if (s->at->start < 0 || s->at->count < 0 || s->at->count > *dim - s->at->start)
        return fail_one(err, "the slice is out of range", s->in[0]);
    *dim = s->at->count;
    return STATUS_OK;
}

enum status shape_dims(struct sig *s, struct err *err)
{
    (void)err;
    s->out[0] = result(s, s->at->dims);
    return STATUS_OK;
}

enum status shape_embedding_grad(struct sig *s, struct err *err)
{
    s->out[0] = result(s, s->at->dims);
    if (s->in_count < 3 || type_eq(s->in[2], s->out[0])) return STATUS_OK;
    return fail_one(err, "what is added must have the result's type", s->in[2]);
}

enum status shape_sum(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0), y = { 0 };
    i64          from = s->at->axis, count = s->at->count;
    if (from < 0 || count < 0 || from > x.rank || count > x.rank - from)
        return fail_one(err, "the summed axes are out of range", s->in[0]);
    for (i32 i = 0; i < x.rank; i++) {
        if (i < from || i >= from + count) y.dim[y.rank++] = x.dim[i];
    }
    if (!y.rank) y = shape_1(1);
    s->out[0] = result(s, y);
    return need_float(err, s->in[0]);
}

enum status shape_broadcast(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0), y = { 0 };
    if (shape_count(x) == 1 && s->at->axis == 0) x.rank = 0; /* a scalar repeated: dims is all */
    if (s->at->axis < 0 || s->at->axis > x.rank || x.rank + s->at->dims.rank > RANK_MAX)
        return fail_one(err, "the new axes are out of range", s->in[0]);
    for (i32 i = 0; i < s->at->axis; i++) y.dim[y.rank++] = x.dim[i];
    for (i32 i = 0; i < s->at->dims.rank; i++) y.dim[y.rank++] = s->at->dims.dim[i];
    for (i32 i = (i32)s->at->axis; i < x.rank; i++) y.dim[y.rank++] = x.dim[i];
    s->out[0] = type_of(s->in[0].dtype, y);
    return STATUS_OK;
}

enum status shape_matmul(struct sig *s, struct err *err)
{
    struct shape a = in_shape(s, 0), b = in_shape(s, 1), y = a;
    if (a.rank < 2 || b.rank < 2) return fail(err, "need two axes each", s->in[0], s->in[1]);
    i64 m = a.dim[a.rank - (s->at->ta ? 1 : 2)], k = a.dim[a.rank - (s->at->ta ? 2 : 1)];
    i64 n = b.dim[b.rank - (s->at->tb ? 2 : 1)], k2 = b.dim[b.rank - (s->at->tb ? 1 : 2)];
    if (k != k2 || s->in[0].dtype != s->in[1].dtype)
        return fail(err, "do not multiply", s->in[0], s->in[1]);
    if (b.rank != 2) {
        bool same = a.rank == b.rank;
        for (i32 i = 0; same && i < a.rank - 2; i++) same = a.dim[i] == b.dim[i];
        if (!same) return fail(err, "leading axes differ", s->in[0], s->in[1]);
    } else if (a.rank != 2 && s->at->ta) {
        return fail_one(err, "a transposed first operand must have two axes", s->in[0]);
    }
    y.dim[y.rank - 2] = m;
    y.dim[y.rank - 1] = n;
    s->out[0]         = result(s, y);
    if (s->in_count == 3 &&
        (!shape_eq(in_shape(s, 2), shape_1(n)) || !fits_beside(s->in[2], s->in[0].dtype)))
        return fail(err, "the bias must have one number a column", s->out[0], s->in[2]);
    return need_float(err, s->in[0]);
}

/* --- fp8 --- */

enum status shape_quantise(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0), state = in_shape(s, 1);
    if (!x.rank || shape_last(x) < 1 || s->in[0].dtype == DT_F64)
        return fail_one(err, "needs rows of numbers, f32 or lower", s->in[0]);
    if (s->in[1].dtype != DT_F32 || state.rank != 2 || state.dim[1] != FP8_STATE ||
        s->at->start < 0 || s->at->start >= state.dim[0])
        return fail_one(err, "needs a row of amaxes", s->in[1]);
    if (s->at->format & ~(1 | FP8_AGAIN))
        return err_set(err, STATUS_USAGE, "format must be 0 (e4m3) or 1 (e5m2), 2 more: again");
    s->out[0] = type_of(DT_U8, shape_2(shape_rows(x), shape_last(x)));
    s->out[1] = type_of(DT_U8, shape_2(shape_last(x), shape_rows(x)));
    s->out[2] = type_of(DT_F32, shape_1(1));
    return need_float(err, s->in[0]);
}

enum status shape_unpack(struct sig *s, struct err *err)
{
    struct shape codes = in_shape(s, 0);
    bool         nf4   = s->at->format == 0;
    struct type  last  = s->in[s->in_count - 1];
    if (s->at->format < 0 || s->at->format > 1 || s->in_count != (nf4 ? 3 : 2))
        return err_set(err, STATUS_USAGE, "format must be 0 (nf4, with sizes) or 1 (e4m3)");
    if (s->in[0].dtype != DT_U8 || codes.rank != 2)
        return fail_one(err, "needs codes of a matrix", s->in[0]);
    if (nf4) codes.dim[1] *= 2;
    s->out[0]  = type_of(s->at->dtype, codes);
    i64  count = shape_count(codes);
    bool fits  = nf4 ? count % NF4_GROUP == 0 &&
                          type_eq(last, type_of(DT_F32, shape_2(count / NF4_GROUP, NF4_SCALES)))
                     : type_eq(last, type_of(DT_F32, shape_1(codes.dim[0])));
    if (!fits) return fail(err, "needs the scales of whole groups, or of rows", s->in[0], last);
    if (nf4 && !type_eq(s->in[1], type_of(DT_U8, shape_1(count / NF4_BLOCK))))
        return fail(err, "needs a size a block", s->in[0], s->in[1]);
    return need_float(err, s->out[0]);
}

enum status shape_matmul_fp8(struct sig *s, struct err *err)
{
    struct shape a = in_shape(s, 0), b = in_shape(s, 1), y = s->at->dims;
    struct type  factor = type_of(DT_F32, shape_1(1));
    if (a.rank != 2 || b.rank != 2 || a.dim[1] != b.dim[1] || s->in[0].dtype != DT_U8 ||
        s->in[1].dtype != DT_U8)
        return fail(err, "need codes of two matrices that multiply", s->in[0], s->in[1]);
    if (!type_eq(s->in[2], factor) || !type_eq(s->in[3], factor))
        return fail(err, "need a factor each", s->in[2], s->in[3]);
    s->out[0] = type_of(s->at->dtype, y);
    if (!y.rank || shape_last(y) != b.dim[0] || shape_span(y, 0, y.rank - 1) != a.dim[0])
        return fail(err, "dims must be those of the product", s->in[0], s->out[0]);
    if (s->at->format < 0 || s->at->format > 2 || s->at->dtype == DT_F64)
        return err_set(err, STATUS_USAGE, "both operands are e5m2, or the result is f64");
    if (s->in_count == 5 &&
        (!shape_eq(in_shape(s, 4), shape_1(b.dim[0])) || !fits_beside(s->in[4], s->at->dtype)))
        return fail(err, "the bias must have one number a column", s->out[0], s->in[4]);
    return need_float(err, s->out[0]);
}

enum status shape_fp8_advance(struct sig *s, struct err *err)
{
    struct shape state = in_shape(s, 0);
    if (s->in[0].dtype == DT_F32 && state.rank == 2 && state.dim[1] == FP8_STATE) return STATUS_OK;
    return fail_one(err, "needs rows of amaxes", s->in[0]);
}

enum status shape_embedding(struct sig *s, struct err *err)
{
    struct shape y = in_shape(s, 1);
    if (in_shape(s, 0).rank != 2 || s->in[1].dtype != DT_I32 || y.rank == RANK_MAX)
        return fail(err, "needs a table [rows, width] and i32 ids", s->in[0], s->in[1]);
    y.dim[y.rank++] = in_shape(s, 0).dim[1];
    s->out[0]       = type_of(s->in[0].dtype, y);
    return need_float(err, s->in[0]);
}

static struct shape rows_shape(struct shape x)
{
    if (x.rank > 1) x.rank--;
    else x = shape_1(1);
    return x;
}

/* Weights of a norm: one number a channel. */
static enum status per_channel(const struct sig *s, i32 from, i32 to, struct err *err)
{
    struct shape c = shape_1(shape_last(in_shape(s, 0)));
    for (i32 i = from; i < to; i++) {
        if (!shape_eq(in_shape(s, i), c) || !fits_beside(s->in[i], s->in[0].dtype))
            return fail(err, "needs one number a channel", s->in[0], s->in[i]);
    }
    return need_float(err, s->in[0]);
}

enum status shape_layernorm(struct sig *s, struct err *err)
{
    s->out[0] = s->in[0];
    s->out[1] = s->out[2] = type_of(wide(s->in[0].dtype), rows_shape(in_shape(s, 0)));
    return per_channel(s, 1, 3, err);
}

enum status shape_layernorm_grad(struct sig *s, struct err *err)
{
    if (!type_eq(s->in[0], s->in[1])) return fail(err, "must be alike", s->in[0], s->in[1]);
    s->out[0] = s->in[1];
    s->out[1] = s->out[2] = s->in[2];
    return per_channel(s, 2, 3, err);
}

enum status shape_rmsnorm(struct sig *s, struct err *err)
{
    s->out[0] = s->in[0];
    s->out[1] = type_of(wide(s->in[0].dtype), rows_shape(in_shape(s, 0)));
    return per_channel(s, 1, s->in_count, err);
}

/* dy, x, rstd and, where there is one, the weight. */
enum status shape_rmsnorm_grad(struct sig *s, struct err *err)
{
    if (!type_eq(s->in[0], s->in[1])) return fail(err, "must be alike", s->in[0], s->in[1]);
    s->out[0] = s->in[1];
    s->out[1] = s->in_count == 4
                    ? s->in[3]
                    : type_of(wide(s->in[0].dtype), shape_1(shape_last(in_shape(s, 0))));
    return per_channel(s, 3, s->in_count, err);
}

/* Those of the norm without the second summand, and behind them the sum. */
enum status shape_add_norm(struct sig *s, struct err *err)
{
    bool        layer = s->op == OP_ADD_LAYERNORM;
    struct type in[3] = { s->in[0] };
    struct sig  norm  = { in, s->in_count - 1, s->out, s->at, s->op };
    if (!type_eq(s->in[0], s->in[1])) return fail(err, "must be alike", s->in[0], s->in[1]);
    for (i32 i = 1; i < norm.in_count; i++) in[i] = s->in[i + 1];
    s->out[layer ? 3 : 2] = s->in[0];
    return layer ? shape_layernorm(&norm, err) : shape_rmsnorm(&norm, err);
}

enum status shape_batchnorm(struct sig *s, struct err *err)
{
    struct type channel = type_of(wide(s->in[0].dtype), shape_1(shape_last(in_shape(s, 0))));
    s->out[0]           = s->in[0];
    s->out[1] = s->out[2] = channel;
    return per_channel(s, 1, 5, err);
}

enum status shape_batchnorm_grad(struct sig *s, struct err *err)
{
    if (!type_eq(s->in[0], s->in[1])) return fail(err, "must be alike", s->in[0], s->in[1]);
    s->out[0] = s->in[1];
    s->out[1] = s->out[2] = s->in[2];
    return per_channel(s, 2, 5, err);
}

static i64 window_count(i64 size, i64 kernel, i64 stride, i64 pad)
{
    return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}

enum status shape_conv2d(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0), w = in_shape(s, 1);
    if (x.rank != 4 || w.rank != 4 || x.dim[3] != w.dim[3] || s->in[0].dtype != s->in[1].dtype)
        return fail(err, "needs an image [N,H,W,C] and a weight [O,KH,KW,C]", s->in[0], s->in[1]);
    if (s->at->stride < 1 || s->at->pad < 0 || s->at->pad > TENSOR_BYTES_MAX)
        return fail_one(err, "needs a stride of at least 1 and no negative padding", s->in[0]);
    i64 h = window_count(x.dim[1], w.dim[1], s->at->stride, s->at->pad);
    i64 v = window_count(x.dim[2], w.dim[2], s->at->stride, s->at->pad);
    if (h < 1 || v < 1) return fail(err, "the kernel is larger than the image", s->in[0], s->in[1]);
    s->out[0] = result(s, shape_4(x.dim[0], h, v, w.dim[0]));
    if (s->in_count == 3 &&
        (!shape_eq(in_shape(s, 2), shape_1(w.dim[0])) || !fits_beside(s->in[2], s->in[0].dtype)))
        return fail(err, "the bias must have one number a filter", s->out[0], s->in[2]);
    return need_float(err, s->in[0]);
}

enum status shape_conv2d_grad(struct sig *s, struct err *err)
{
    if (same_dtype(s, 0, 1, err)) return STATUS_USAGE;
    return shape_dims(s, err);
}

enum status shape_avgpool(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0);
    if (x.rank != 4) return fail_one(err, "needs an image [N,H,W,C]", s->in[0]);
    if (s->at->stride < 1 || s->at->kernel < 1 || s->at->kernel > TENSOR_BYTES_MAX ||
        s->at->pad < 0 || s->at->pad >= s->at->kernel)
        return fail_one(err, "needs a window and a stride of at least 1, padding below the window",
                        s->in[0]);
    i64 h = window_count(x.dim[1], s->at->kernel, s->at->stride, s->at->pad);
    i64 v = window_count(x.dim[2], s->at->kernel, s->at->stride, s->at->pad);
    if (h < 1 || v < 1) return fail_one(err, "the window is larger than the image", s->in[0]);
    s->out[0] = type_of(s->in[0].dtype, shape_4(x.dim[0], h, v, x.dim[3]));
    return need_float(err, s->in[0]);
}

enum status shape_maxpool(struct sig *s, struct err *err)
{
    enum status st = shape_avgpool(s, err);
    s->out[1]      = type_of(DT_I32, s->out[0].shape);
    return st;
}

/* *given: operands before rng, which comes last where weights of sequences of `length` are dropped. */
static enum status split_rng(const struct sig *s, i64 length, i32 *given, struct err *err)
{
    *given = s->in_count - (s->at->p > 0);
    if (need_rate(s, err)) return STATUS_USAGE;
    if (!(s->at->p > 0)) return STATUS_OK;
    if (length > (i64)1 << ATTENTION_PLACE_BITS)
        return fail_one(err, "dropout on the weights needs sequences of at most 2^24", s->in[0]);
    return need_rng(s, *given, err);
}

/* The first `given` operands are looked at. */
static enum status shape_heads_of(struct sig *s, i32 given, struct err *err)
{
    struct shape x = in_shape(s, 0);
    i64          h = s->at->heads, g = s->at->kv_heads;
    if (x.rank != 3 || h < 1 || h > x.dim[2] || g < 1 || h % g || x.dim[2] % (h + 2 * g))
        return fail_one(err, "needs [B,T,(heads + 2 kv_heads) * head_dim], kv_heads dividing heads",
                        s->in[0]);
    i64 d = x.dim[2] / (h + 2 * g);
    if (d > HEAD_DIM_MAX)
        return fail_one(err, "needs heads of at most 1024 numbers; more heads make them smaller",
                        s->in[0]);
    if (s->at->window < 0 || (s->at->window && !s->at->causal))
        return fail_one(err, "a window needs causal attention, and at least one key", s->in[0]);
    bool placed = given == 2 && s->at->causal &&
                  type_eq(s->in[1], type_of(DT_I32, shape_2(x.dim[0], x.dim[1])));
    if (given > 2 ||
        (given == 2 && !placed && !type_eq(s->in[1], type_of(DT_I32, shape_1(x.dim[0])))))
        return fail(err, "needs i32 lengths, one a sequence, or if causal positions, one a row",
                    s->in[0], s->in[1]);
    s->out[0] = type_of(s->in[0].dtype, shape_3(x.dim[0], x.dim[1], h * d));
    s->out[1] = type_of(wide(s->in[0].dtype), shape_3(x.dim[0], h, x.dim[1]));
    return need_float(err, s->in[0]);
}

enum status shape_attention(struct sig *s, struct err *err)
{
    i32         given;
    enum status st = split_rng(s, in_shape(s, 0).dim[1], &given, err);
    return st ? st : shape_heads_of(s, given, err);
}

enum status shape_pack(struct sig *s, struct err *err)
{
    struct shape x    = in_shape(s, 0);
    i64          rows = s->at->count;
    if (x.rank != 2 || s->in[0].dtype != DT_I32 ||
        !type_eq(s->in[1], type_of(DT_I32, shape_1(x.dim[0]))))
        return fail(err, "needs i32 tokens [B,T] and lengths [B]", s->in[0], s->in[1]);
    if (rows < x.dim[0] || rows > x.dim[0] * x.dim[1])
        return fail_one(err, "count must be rows for one token of each sequence or more", s->in[0]);
    s->out[0] = s->out[1] = s->out[2] = type_of(DT_I32, shape_1(rows));
    s->out[3]                         = type_of(DT_I32, shape_1(x.dim[0] + 1));
    return STATUS_OK;
}

enum status shape_attention_packed(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0), offsets = in_shape(s, 1);
    i64          h = s->at->heads, rows = x.rank == 2 ? x.dim[0] : 0;
    struct type  one = type_of(s->in[0].dtype, shape_3(1, rows, x.rank == 2 ? x.dim[1] : 0));
    struct sig   all = { &one, 1, s->out, s->at, s->op };
    if (x.rank != 2 || s->at->count < 1 || s->at->count > rows)
        return fail_one(err, "needs packed rows, and count the longest sequence's", s->in[0]);
    if (s->in[1].dtype != DT_I32 || offsets.rank != 1 || offsets.dim[0] < 2 ||
        s->in_count != 2 + (s->at->p > 0))
        return fail(err, "needs i32 offsets, one more than sequences", s->in[0], s->in[1]);
    i32         given;
    enum status st = split_rng(s, s->at->count, &given, err);
    if (!st) st = shape_heads_of(&all, 1, err);
    if (st) return st;
    s->out[0].shape = shape_2(rows, shape_last(s->out[0].shape));
    s->out[1].shape = shape_2(h, rows);
    return STATUS_OK;
}

enum status shape_attention_cached(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0), cache = in_shape(s, 1);
    i64          h = s->at->heads, g = s->at->kv_heads, rows = x.rank == 2 ? x.dim[0] : 0;
    if (x.rank != 2 || h < 1 || h > x.dim[1] || g < 1 || h % g || x.dim[1] % (h + 2 * g))
        return fail_one(err, "needs [R,(heads + 2 kv_heads) * head_dim], kv_heads dividing heads",
                        s->in[0]);
    i64 d = x.dim[1] / (h + 2 * g);
    if (d > HEAD_DIM_MAX || s->at->window < 0)
        return fail_one(err, "needs heads of at most 1024 numbers, and no window below 0",
                        s->in[0]);
    if (cache.rank != 3 || cache.dim[2] != 2 * g * d || s->in[1].dtype != wide(s->in[0].dtype))
        return fail(err, "needs a cache [N,L,2 kv_heads * head_dim], f32 at least", s->in[0],
                    s->in[1]);
    for (i32 i = 2; i < 4; i++)
        if (!type_eq(s->in[i], type_of(DT_I32, shape_1(rows))))
            return fail(err, "needs an i32 sequence and an i32 place for each row", s->in[0],
                        s->in[i]);
    s->out[0] = type_of(s->in[0].dtype, shape_2(rows, h * d));
    return need_float(err, s->in[0]);
}

enum status shape_attention_grad(struct sig *s, struct err *err)
{
    i32 given;
    if (same_dtype(s, 1, 2, err) || split_rng(s, 0, &given, err)) return STATUS_USAGE;
    return shape_as_in1(s, err);
}

enum status shape_heads(struct sig *s, struct err *err)
{
    struct shape x = in_shape(s, 0);
    i64          d = s->at->head_dim;
    if (x.rank != 3 || d < 2 || d % 2 || x.dim[2] % d || s->at->heads < 0 ||
        s->at->heads > x.dim[2] / d)
        return fail_one(err, "needs [B,T,heads * head_dim] with an even head_dim", s->in[0]);
    return shape_map(s, err);
}

enum status shape_rope(struct sig *s, struct err *err)
{
    struct shape x  = in_shape(s, 0);
    enum status  st = shape_heads(s, err);
    if (!st &&
        !(s->at->stretch >= 0 && s->at->low >= 0 && (s->at->high == 0 || s->at->high > s->at->low)))
        st = fail_one(err, "needs a stretch of at least 0, and high above low or 0", s->in[0]);
    if (st || s->in_count == 1) return st;
    if (type_eq(s->in[1], type_of(DT_I32, shape_2(x.dim[0], x.dim[1])))) return STATUS_OK;
    return fail(err, "needs i32 positions [B,T]", s->in[0], s->in[1]);
}

enum status shape_qknorm(struct sig *s, struct err *err)
{
    enum status st = shape_heads(s, err);
    if (st) return st;
    struct shape x = in_shape(s, 0);
    s->out[1]      = type_of(wide(s->in[0].dtype), shape_3(x.dim[0], x.dim[1], s->at->heads));
    return STATUS_OK;
}

enum status shape_dropout(struct sig *s, struct err *err)
{
    if (need_rng(s, 1, err) || need_rate(s, err)) return STATUS_USAGE;
    struct type rows = type_of(DT_I32, shape_1(in_shape(s, 0).dim[0]));
    if (s->in_count == 3 ||
        (s->in_count == 4 && (!type_eq(s->in[2], rows) || !type_eq(s->in[3], rows))))
        return fail(err, "needs a sample and a position of each row", s->in[0], s->in[2]);
    return shape_map(s, err);
}

enum status shape_xent(struct sig *s, struct err *err)
{
    struct shape rows = in_shape(s, 0);
    if (rows.rank < 2) return fail_one(err, "needs logits [rows, classes]", s->in[0]);
    rows.rank--;
    if (s->in[1].dtype != DT_I32 || !shape_eq(in_shape(s, 1), rows))
        return fail(err, "needs one i32 target a row", s->in[0], s->in[1]);
    s->out[0] = s->out[1] = type_of(wide(s->in[0].dtype), rows);
    return need_float(err, s->in[0]);
}

enum status shape_xent_both(struct sig *s, struct err *err)
{
    enum status st = shape_xent(s, err);
    if (st) return st;
    if (!shape_eq(in_shape(s, 2), in_shape(s, 1)) || !fits_beside(s->in[2], s->in[0].dtype))
        return fail(err, "needs a loss's gradient a row, f32 or as its logits", s->in[2], s->in[0]);
    s->out[0] = s->in[0];
    return STATUS_OK;
}

enum status shape_bce(struct sig *s, struct err *err)
{
    if (!shape_eq(in_shape(s, 0), in_shape(s, 1)) || !dtype_is_float(s->in[1].dtype))
        return fail(err, "needs one target a logit", s->in[0], s->in[1]);
    s->out[0] = type_of(wide(s->in[0].dtype), in_shape(s, 0));
    return need_float(err, s->in[0]);
}

/* dloss, logits, targets, …: a loss is never kept in a low type. */
enum status shape_loss_grad(struct sig *s, struct err *err)
{
    s->out[0] = s->in[1];
    if (!fits_beside(s->in[0], s->in[1].dtype))
        return fail(err, "the loss must be f32 or as its logits", s->in[0], s->in[1]);
    return need_float(err, s->in[1]);
}

enum status shape_hits(struct sig *s, struct err *err) { return shape_xent(s, err); }

enum status shape_scalar(struct sig *s, struct err *err)
{
    s->out[0] = type_of(wide(s->in[0].dtype), shape_1(1));
    return need_float(err, s->in[0]);
}

enum status shape_clip(struct sig *s, struct err *err)
{
    s->out[0] = s->out[1] = s->in[0];
    return shape_count(in_shape(s, 0)) == 1 ? STATUS_OK
                                            : fail_one(err, "needs one number", s->in[0]);
}

enum status shape_unscale(struct sig *s, struct err *err)
{
    struct type one = type_of(DT_F32, shape_1(1));
    s->out[0] = s->out[1] = s->out[2] = one;
    if (!type_eq(s->in[0], one) || !type_eq(s->in[2], one))
        return fail(err, "scale and sum must be f32[1]", s->in[0], s->in[2]);
    if (!type_eq(s->in[1], type_of(DT_F32, shape_1(3))))
        return fail_one(err, "the counts must be f32[3]", s->in[1]);
    return STATUS_OK;
}

enum status shape_accumulate(struct sig *s, struct err *err)
{
    if (!type_eq(s->in[0], s->in[1])) return fail(err, "must be alike", s->in[0], s->in[1]);
    return need_float(err, s->in[0]);
}

/* --- ranks --- */

static enum status need_ranks(const struct sig *s, struct err *err)
{
    if (s->at->ranks < 1) return fail_one(err, "needs a rank at least", s->in[0]);
    if (s->at->over < 0 || s->at->over >= OVER_COUNT)
        return fail_one(err, "is over ranks that are no group", s->in[0]);
    return need_float(err, s->in[0]);
}

enum status shape_ranks(struct sig *s, struct err *err) { return need_ranks(s, err); }

enum status shape_ranks_part(struct sig *s, struct err *err)
{
    i64         ranks = s->at->ranks, all = shape_count(in_shape(s, 0));
    enum status st = need_ranks(s, err);
    if (!st) s->out[0] = type_of(s->in[0].dtype, shape_1(ranks_part(all, ranks)));
    return st;
}

enum status shape_gather_parts(struct sig *s, struct err *err)
{
    i64 ranks = s->at->ranks, part = shape_count(in_shape(s, 0));
    s->out[0] = type_of(s->in[0].dtype, s->at->dims);
    if (ranks < 1 || part != ranks_part(shape_count(s->at->dims), ranks))
        return fail(err, "is not a rank's part", s->in[0], s->out[0]);
    return need_ranks(s, err);
}

/* p, g, then `states` tensors like p, then hyper f32[4] and the factor. */
static enum status optimiser(struct sig *s, i32 states, struct err *err)
{
    for (i32 i = 1; i < 2 + states; i++) {
        if (!shape_eq(in_shape(s, 0), in_shape(s, i)))
            return fail(err, "parameter, gradient and state must be alike", s->in[0], s->in[i]);
    }
    if (!type_eq(s->in[2 + states], type_of(DT_F32, shape_1(4))))
        return fail_one(err, "the hyper tensor must be f32[4]", s->in[2 + states]);
    return need_float(err, s->in[0]);
}

enum status shape_sgd(struct sig *s, struct err *err) { return optimiser(s, 1, err); }

enum status shape_adam(struct sig *s, struct err *err)
{
    bool fits = s->in_count < 7 || (shape_eq(in_shape(s, 6), in_shape(s, 0)) &&
                                    (s->in[6].dtype == DT_BF16 || s->in[6].dtype == DT_F16));
    if (!fits) return fail(err, "the copy must be like the parameter", s->in[0], s->in[6]);
    return optimiser(s, 2, err);
}

enum status shape_muon(struct sig *s, struct err *err)
{
    if (in_shape(s, 0).rank < 2) return fail_one(err, "needs a matrix", s->in[0]);
    return optimiser(s, 1, err);
}

/* dy, ids -> rows, index */
enum status shape_embedding_rows(struct sig *s, struct err *err)
{
    struct shape y = in_shape(s, 0), ids = in_shape(s, 1);
    if (s->in[1].dtype != DT_I32 || y.rank != ids.rank + 1 || shape_rows(y) != shape_count(ids))
        return fail(err, "needs a row for each i32 id", s->in[0], s->in[1]);
    if (s->at->count < 1 || s->at->count > TENSOR_BYTES_MAX)
        return fail_one(err, "needs room for a row at least", s->in[0]);
    s->out[0] = result(s, shape_2(s->at->count, shape_last(y)));
    s->out[1] = type_of(DT_I32, shape_1(s->at->count));
    return need_float(err, s->in[0]);
}

/* Input `at` and the next: rows [count, width] of floating-point numbers, and their i32 index. */
static enum status rows_and_index(const struct sig *s, i32 at, i64 width, struct err *err)
{
    struct type rows = s->in[at], index = s->in[at + 1];
    bool fits = rows.shape.rank == 2 && rows.shape.dim[1] == width && dtype_is_float(rows.dtype);
    if (!fits || !type_eq(index, type_of(DT_I32, shape_1(rows.shape.dim[0]))))
        return fail(err, "needs rows of a table and their i32 index", rows, index);
    return STATUS_OK;
}

enum status shape_rows_join(struct sig *s, struct err *err)
{
    i64         width = shape_last(in_shape(s, 0));
    enum status st    = rows_and_index(s, 0, width, err);
    if (!st) st = rows_and_index(s, 2, width, err);
    return st ? st : same_dtype(s, 0, 2, err);
}

enum status shape_rows_reduce(struct sig *s, struct err *err)
{
    if (s->at->ranks < 1) return fail_one(err, "needs a rank at least", s->in[0]);
    return rows_and_index(s, 0, shape_last(in_shape(s, 0)), err);
}

/* A table, rows, index, then `states` tensors of shape `state`, hyper f32[4] and the factor. */
static enum status row_optimiser(struct sig *s, i32 states, struct shape state, struct err *err)
{
    struct type p = s->in[0];
    if (p.shape.rank != 2 || !dtype_is_float(p.dtype))
        return fail_one(err, "needs a table [rows, width]", p);
    if (rows_and_index(s, 1, p.shape.dim[1], err)) return STATUS_USAGE;
    for (i32 i = 3; i < 3 + states; i++)
        if (!type_eq(s->in[i], type_of(wide(p.dtype), state)))
            return fail(err, "the state does not fit the table", p, s->in[i]);
    if (!type_eq(s->in[3 + states], type_of(DT_F32, shape_1(4))))
        return fail_one(err, "the hyper tensor must be f32[4]", s->in[3 + states]);
    if (s->in_count == 6 + states && !type_eq(s->in[5 + states], type_of(DT_I32, shape_1(4))))
        return fail_one(err, "the rng tensor must be i32[4]", s->in[5 + states]);
    if (s->in_count == 6 + states && p.dtype != DT_BF16 && p.dtype != DT_F16)
        return fail_one(err, "only a table of 16 bits is rounded at random", p);
    return STATUS_OK;
}

enum status shape_rows_sgd(struct sig *s, struct err *err)
{
    return row_optimiser(s, 0, in_shape(s, 0), err);
}

enum status shape_rows_adagrad(struct sig *s, struct err *err)
{
    return row_optimiser(s, 1, shape_1(in_shape(s, 0).dim[0]), err);
}

enum status shape_rows_adam(struct sig *s, struct err *err)
{
    return row_optimiser(s, 2, in_shape(s, 0), err);
}
