/* build.c - one shorthand an op that models use. */
#include "ir/build.h"
#include <math.h>

/* Sticky errors: an operand of -1 means an earlier node failed. */
static i32 op_with(struct graph *g, i32 op, struct str name, const i32 *in, i32 count,
                   struct attrs at)
{
    if (g->err.status) return -1;
    return graph_op(g, op, name, in, count, &at);
}

i32 build_unary(struct graph *g, i32 op, struct str name, i32 x)
{
    return op_with(g, op, name, &x, 1, (struct attrs){ 0 });
}

i32 build_binary(struct graph *g, i32 op, struct str name, i32 a, i32 b)
{
    return op_with(g, op, name, (i32[]){ a, b }, 2, (struct attrs){ 0 });
}

i32 build_scale(struct graph *g, struct str name, i32 x, f64 mul, f64 add)
{
    return op_with(g, OP_SCALE, name, &x, 1, (struct attrs){ .mul = mul, .add = add });
}

i32 build_cast(struct graph *g, struct str name, i32 x, enum dtype to)
{
    return op_with(g, OP_CAST, name, &x, 1, (struct attrs){ .dtype = to });
}

i32 build_reshape(struct graph *g, struct str name, i32 x, struct shape to)
{
    if (g->err.status || shape_eq(graph_type(g, x).shape, to)) return x;
    return op_with(g, OP_RESHAPE, name, &x, 1, (struct attrs){ .dims = to });
}

i32 build_transpose(struct graph *g, struct str name, i32 x, struct shape permutation)
{
    return op_with(g, OP_TRANSPOSE, name, &x, 1, (struct attrs){ .dims = permutation });
}

i32 build_concat(struct graph *g, struct str name, const i32 *x, i32 count, i32 axis)
{
    return op_with(g, OP_CONCAT, name, x, count, (struct attrs){ .axis = axis });
}

i32 build_slice(struct graph *g, struct str name, i32 x, i32 axis, i64 start, i64 count)
{
    struct attrs at = { .axis = axis, .start = start, .count = count };
    return op_with(g, OP_SLICE, name, &x, 1, at);
}

i32 build_sum(struct graph *g, struct str name, i32 x, i32 axis, i32 count)
{
    return op_with(g, OP_SUM, name, &x, 1, (struct attrs){ .axis = axis, .count = count });
}

i32 build_broadcast(struct graph *g, struct str name, i32 x, i32 axis, struct shape sizes)
{
    return op_with(g, OP_BROADCAST, name, &x, 1, (struct attrs){ .axis = axis, .dims = sizes });
}

i32 build_matmul(struct graph *g, struct str name, i32 a, i32 b, i32 bias, bool ta, bool tb)
{
    i32 in[] = { a, b, bias };
    return op_with(g, OP_MATMUL, name, in, bias < 0 ? 2 : 3, (struct attrs){ .ta = ta, .tb = tb });
}

i32 build_embedding(struct graph *g, struct str name, i32 table, i32 ids)
{
    return build_binary(g, OP_EMBEDDING, name, table, ids);
}

i32 build_layernorm(struct graph *g, struct str name, i32 x, i32 w, i32 b, f64 eps)
{
    return op_with(g, OP_LAYERNORM, name, (i32[]){ x, w, b }, 3, (struct attrs){ .eps = eps });
}

i32 build_rmsnorm(struct graph *g, struct str name, i32 x, i32 w, f64 eps)
{
    return op_with(g, OP_RMSNORM, name, (i32[]){ x, w }, w < 0 ? 1 : 2,
                   (struct attrs){ .eps = eps });
}

i32 build_batchnorm(struct graph *g, struct str name, i32 x, i32 w, i32 b, i32 mean, i32 var,
                    f64 eps, f64 momentum, bool training)
{
    i32          in[] = { x, w, b, mean, var };
    struct attrs at   = { .eps = eps };
    if (training) at.momentum = momentum;
    return op_with(g, training ? OP_BATCHNORM : OP_BATCHNORM_EVAL, name, in, 5, at);
}

i32 build_conv2d(struct graph *g, struct str name, i32 x, i32 w, i32 bias, i64 stride, i64 pad)
{
    i32 in[] = { x, w, bias };
    return op_with(g, OP_CONV2D, name, in, bias < 0 ? 2 : 3,
                   (struct attrs){ .stride = stride, .pad = pad });
}

i32 build_pool(struct graph *g, i32 op, struct str name, i32 x, i64 kernel, i64 stride, i64 pad)
{
    struct attrs at = { .kernel = kernel, .stride = stride, .pad = pad };
    return op_with(g, op, name, &x, 1, at);
}

static i32 rng_of(struct graph *g)
{
    return graph_value(g, VALUE_SCALAR, STR("rng"), type_of(DT_I32, shape_1(4)));
}

/* `given`: an operand beside qkv, or -1. */
static i32 attention(struct graph *g, i32 op, struct str name, i32 qkv, i32 given, struct attrs at,
                     struct seeing how)
{
    if (g->err.status) return -1;
    f64 head_dim = (f64)shape_last(graph_type(g, qkv).shape) / (f64)(at.heads + 2 * at.kv_heads);
    i32 in[] = { qkv, given, -1 }, count = given < 0 ? 1 : 2;
    at.causal = how.causal;
    at.window = how.window;
    at.scale  = how.scale != 0 ? how.scale : 1 / sqrt(head_dim);
    if (how.dropout > 0) {
        in[count++] = rng_of(g);
        at.p        = how.dropout;
        at.key      = (i64)str_hash(name);
    }
    return op_with(g, op, name, in, count, at);
}

i32 build_attention(struct graph *g, struct str name, i32 qkv, i32 given, i64 heads, i64 kv_heads,
                    struct seeing how)
{
    struct attrs at = { .heads = heads, .kv_heads = kv_heads };
    return attention(g, OP_ATTENTION, name, qkv, given, at, how);
}

struct packed build_pack(struct graph *g, struct str name, i32 x, i32 lens)
{
    struct packed rows = { -1, -1, -1, -1, 0 };
    if (g->err.status) return rows;
    struct shape s    = graph_type(g, x).shape;
    i64          most = s.dim[0] * s.dim[1];
    g->rows           = g->rows ? MIN(g->rows, most) : most;
    rows.tokens =
        op_with(g, OP_PACK, name, (i32[]){ x, lens }, 2, (struct attrs){ .count = g->rows });
    rows.longest = MIN(s.dim[1], g->rows);
    if (rows.tokens < 0) return rows;
    rows.sample   = rows.tokens + 1;
    rows.position = rows.tokens + 2;
    rows.offsets  = rows.tokens + 3;
    return rows;
}

i32 build_attention_packed(struct graph *g, struct str name, i32 qkv, const struct packed *rows,
                           i64 heads, i64 kv_heads, struct seeing how)
{
    struct attrs at = { .heads = heads, .kv_heads = kv_heads, .count = rows->longest };
    return attention(g, OP_ATTENTION_PACKED, name, qkv, rows->offsets, at, how);
}

i32 build_attention_cached(struct graph *g, struct str name, i32 qkv, const struct cached *rows,
                           i64 heads, i64 kv_heads, i64 window)
{
    if (g->err.status) return -1;
    i64         row = shape_last(graph_type(g, qkv).shape), head_dim = row / (heads + 2 * kv_heads);
    struct type type = graph_type(g, qkv);
    struct attrs at  = { .heads = heads, .kv_heads = kv_heads, .window = window };
    struct str   of  = str_cat(g->perm, name, STR(".cache"));
    at.scale         = 1 / sqrt((f64)head_dim);
    type.shape       = shape_3(rows->sequences, rows->length, 2 * kv_heads * head_dim);
    i32 cache        = graph_value(g, VALUE_CACHE, of, type);
    i32 in[]         = { qkv, cache, rows->sequence, rows->place };
    return op_with(g, OP_ATTENTION_CACHED, name, in, 4, at);
}

i32 build_rope(struct graph *g, struct str name, i32 qkv, i32 at, i64 heads, i64 head_dim, f64 base,
               struct rope_scaling scaling)
{
    struct attrs attrs = { .heads = heads, .head_dim = head_dim, .base = base };
    attrs.stretch      = scaling.stretch;
    attrs.low          = scaling.low;
    attrs.high         = scaling.high;
    return op_with(g, OP_ROPE, name, (i32[]){ qkv, at }, at < 0 ? 1 : 2, attrs);
}

i32 build_qknorm(struct graph *g, struct str name, i32 qkv, i64 heads, i64 head_dim, f64 eps)
{
    struct attrs at = { .heads = heads, .head_dim = head_dim, .eps = eps };
    return op_with(g, OP_QKNORM, name, &qkv, 1, at);
}

i32 build_softcap(struct graph *g, struct str name, i32 x, f64 cap)
{
    return op_with(g, OP_SOFTCAP, name, &x, 1, (struct attrs){ .cap = cap });
}

i32 build_dropout_packed(struct graph *g, struct str name, i32 x, f64 p, const struct packed *rows)
{
    if (p == 0) return x;
    i32 in[] = { x, rng_of(g), rows ? rows->sample : -1, rows ? rows->position : -1 };
    return op_with(g, OP_DROPOUT, name, in, rows ? 4 : 2,
                   (struct attrs){ .p = p, .key = (i64)str_hash(name) });
}

i32 build_dropout(struct graph *g, struct str name, i32 x, f64 p)
{
    return build_dropout_packed(g, name, x, p, NULL);
}

i32 build_xent(struct graph *g, struct str name, i32 logits, i32 targets, f64 smoothing)
{
    return op_with(g, OP_XENT, name, (i32[]){ logits, targets }, 2,
                   (struct attrs){ .smoothing = smoothing });
}
