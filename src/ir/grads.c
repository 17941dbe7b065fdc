/* grads.c - the gradient rules: each emits, in the same language, the nodes that carry a result's
 * gradient to the inputs. dout[i] is the gradient of result i; din[i] is to be set. */
#include "ir/build.h"
#include "ir/ir_int.h"

static struct shape value_shape(const struct graph *g, i32 value)
{
    return graph_type(g, value).shape;
}

static struct str grad_name(struct graph *g, const struct node *n)
{
    return str_cat(g->perm, n->name, STR("'"));
}

static i32 emit(struct graph *g, const struct node *n, i32 op, const i32 *in, i32 count,
                const struct attrs *at)
{
    return graph_op(g, op, grad_name(g, n), in, count, at);
}

/* Brings a gradient of a's shape down to b's, where b was repeated over a's leading axes. */
static i32 unbroadcast(struct graph *g, const struct node *n, i32 d, i32 b)
{
    struct shape from = value_shape(g, d), to = value_shape(g, b);
    if (shape_eq(from, to)) return d;
    if (shape_count(to) == 1 && !shape_is_suffix(from, to))
        return build_reshape(g, grad_name(g, n), build_sum(g, grad_name(g, n), d, 0, from.rank),
                             to);
    i32 sum = build_sum(g, grad_name(g, n), d, 0, from.rank - to.rank);
    return build_reshape(g, grad_name(g, n), sum, to);
}

void grad_add(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    if (want[0]) din[0] = dout[0];
    if (want[1]) din[1] = unbroadcast(g, n, dout[0], n->in[1]);
}

void grad_sub(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    if (want[0]) din[0] = dout[0];
    if (want[1])
        din[1] = unbroadcast(g, n, build_scale(g, grad_name(g, n), dout[0], -1, 0), n->in[1]);
}

void grad_mul(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    if (want[0]) din[0] = build_binary(g, OP_MUL, grad_name(g, n), dout[0], n->in[1]);
    if (want[1])
        din[1] = unbroadcast(g, n, build_binary(g, OP_MUL, grad_name(g, n), dout[0], n->in[0]),
                             n->in[1]);
}

void grad_div(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    i32 da = build_binary(g, OP_DIV, grad_name(g, n), dout[0], n->in[1]);
    if (want[0]) din[0] = da;
    if (want[1]) {
        i32 db = build_binary(g, OP_MUL, grad_name(g, n), da, n->out);
        din[1] = unbroadcast(g, n, build_scale(g, grad_name(g, n), db, -1, 0), n->in[1]);
    }
}

void grad_scale(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    if (want[0]) din[0] = build_scale(g, grad_name(g, n), dout[0], n->at.mul, 0);
}

/* Maps whose gradient op reads the result, or the input. */
static void from_result(struct graph *g, const struct node *n, const i32 *dout, i32 op, i32 *din)
{
    din[0] = emit(g, n, op, (i32[]){ dout[0], n->out }, 2, &n->at);
}

static void from_input(struct graph *g, const struct node *n, const i32 *dout, i32 op, i32 *din)
{
    din[0] = emit(g, n, op, (i32[]){ dout[0], n->in[0] }, 2, &n->at);
}

#define GRAD_OF_MAP(rule, from, op)                                                                \
    void rule(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)  \
    {                                                                                              \
        if (want[0]) from(g, n, dout, op, din);                                                    \
    }

GRAD_OF_MAP(grad_relu, from_result, OP_RELU_GRAD)
GRAD_OF_MAP(grad_tanh, from_result, OP_TANH_GRAD)
GRAD_OF_MAP(grad_sigmoid, from_result, OP_SIGMOID_GRAD)
GRAD_OF_MAP(grad_softcap, from_result, OP_SOFTCAP_GRAD)
GRAD_OF_MAP(grad_softmax, from_result, OP_SOFTMAX_GRAD)
GRAD_OF_MAP(grad_exp, from_result, OP_MUL)
GRAD_OF_MAP(grad_relu2, from_input, OP_RELU2_GRAD)
GRAD_OF_MAP(grad_gelu, from_input, OP_GELU_GRAD)
GRAD_OF_MAP(grad_gelu_erf, from_input, OP_GELU_ERF_GRAD)
GRAD_OF_MAP(grad_silu, from_input, OP_SILU_GRAD)
GRAD_OF_MAP(grad_swiglu, from_input, OP_SWIGLU_GRAD)
GRAD_OF_MAP(grad_log, from_input, OP_DIV)

void grad_sqrt(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    if (!want[0]) return;
    i32 half = build_scale(g, grad_name(g, n), dout[0], 0.5, 0);
    din[0]   = build_binary(g, OP_DIV, grad_name(g, n), half, n->out);
}

void grad_cast(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    enum dtype from = graph_type(g, n->in[0]).dtype;
    if (want[0] && dtype_is_float(from)) din[0] = build_cast(g, grad_name(g, n), dout[0], from);
}

void grad_reshape(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                  i32 *din)
{
    if (want[0]) din[0] = build_reshape(g, grad_name(g, n), dout[0], value_shape(g, n->in[0]));
}

void grad_transpose(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                    i32 *din)
{
    struct shape back = n->at.dims;
    for (i32 i = 0; i < back.rank; i++) back.dim[n->at.dims.dim[i]] = i;
    if (want[0]) din[0] = build_transpose(g, grad_name(g, n), dout[0], back);
}

void grad_concat(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    i64 start = 0;
    for (i32 i = 0; i < n->in_count; i++) {
        i64 size = value_shape(g, n->in[i]).dim[n->at.axis];
        if (want[i])
            din[i] = build_slice(g, grad_name(g, n), dout[0], (i32)n->at.axis, start, size);
        start += size;
    }
}

void grad_slice(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    struct attrs at = { .axis  = n->at.axis,
                        .start = n->at.start,
                        .dims  = value_shape(g, n->in[0]) };
    if (want[0]) din[0] = emit(g, n, OP_SLICE_GRAD, dout, 1, &at);
}

void grad_sum(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    struct shape x = value_shape(g, n->in[0]), dims = { 0 };
    for (i64 i = 0; i < n->at.count; i++) dims.dim[dims.rank++] = x.dim[n->at.axis + i];
    if (!want[0]) return;
    i32 all = build_broadcast(g, grad_name(g, n), dout[0], (i32)n->at.axis, dims);
    din[0]  = build_reshape(g, grad_name(g, n), all, x); /* [5,1] summed to [1] comes back as [5] */
}

void grad_broadcast(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                    i32 *din)
{
    if (!want[0]) return;
    i32 sum = build_sum(g, grad_name(g, n), dout[0], (i32)n->at.axis, n->at.dims.rank);
    din[0]  = build_reshape(g, grad_name(g, n), sum, value_shape(g, n->in[0]));
}

/* y = op(a) . op(b). Leading axes of a over a rank-2 b are rows, so they are flattened first. */
void grad_matmul(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    struct str   name = grad_name(g, n);
    struct shape sa = value_shape(g, n->in[0]), sb = value_shape(g, n->in[1]);
    bool         ta = n->at.ta, tb = n->at.tb;
    i32          d = dout[0], a = n->in[0], b = n->in[1];
    if (sb.rank == 2 && sa.rank > 2) {
        d = build_reshape(g, name, d, shape_2(shape_rows(sa), shape_last(value_shape(g, d))));
        a = build_reshape(g, name, a, shape_2(shape_rows(sa), shape_last(sa)));
    }
    if (want[0]) {
        i32 da = ta ? build_matmul(g, name, b, d, -1, tb, true)
                    : build_matmul(g, name, d, b, -1, false, !tb);
        din[0] = build_reshape(g, name, da, sa);
    }
    if (want[1])
        din[1] = tb ? build_matmul(g, name, d, a, -1, true, ta)
                    : build_matmul(g, name, a, d, -1, !ta, false);
    if (n->in_count == 3 && want[2]) {
        struct shape sd = value_shape(g, d);
        din[2]          = build_sum(g, name, d, 0, sd.rank - 1);
    }
}

void grad_embedding(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                    i32 *din)
{
    struct attrs at = { .dims  = value_shape(g, n->in[0]),
                        .count = g->values[n->in[0]].sparse_rows };
    at.wide         = at.count && dtype_bytes(g->values[n->in[0]].type.dtype) == 2;
    if (want[0] && at.count)
        din[0] = emit(g, n, OP_EMBEDDING_ROWS, (i32[]){ dout[0], n->in[1] }, 2, &at);
    else if (want[0]) din[0] = emit(g, n, OP_EMBEDDING_GRAD, (i32[]){ dout[0], n->in[1] }, 2, &at);
}

/* Norms give all their gradients in one node; the results are consecutive. */
static void norm_grad(struct graph *g, const struct node *n, i32 op, const i32 *in, i32 count,
                      i32 results, const bool *want, i32 *din)
{
    i32 first = emit(g, n, op, in, count, NULL);
    for (i32 i = 0; i < results && first >= 0; i++) {
        if (want[i]) din[i] = first + i;
    }
}

void grad_layernorm(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                    i32 *din)
{
    i32 in[] = { dout[0], n->in[0], n->in[1], n->out + 1, n->out + 2 };
    norm_grad(g, n, OP_LAYERNORM_GRAD, in, 5, 3, want, din);
}

void grad_batchnorm(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                    i32 *din)
{
    i32 in[] = { dout[0], n->in[0], n->in[1], n->out + 1, n->out + 2 };
    norm_grad(g, n, OP_BATCHNORM_GRAD, in, 5, 3, want, din);
}

void grad_rmsnorm(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                  i32 *din)
{
    i32 in[] = { dout[0], n->in[0], n->out + 1, n->in_count == 2 ? n->in[1] : -1 };
    norm_grad(g, n, OP_RMSNORM_GRAD, in, 2 + n->in_count, n->in_count, want, din);
}

void grad_conv2d(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    struct attrs at = { .stride = n->at.stride, .pad = n->at.pad };
    at.dims         = value_shape(g, n->in[0]);
    if (want[0]) din[0] = emit(g, n, OP_CONV2D_GRAD_X, (i32[]){ dout[0], n->in[1] }, 2, &at);
    at.dims = value_shape(g, n->in[1]);
    if (want[1]) din[1] = emit(g, n, OP_CONV2D_GRAD_W, (i32[]){ dout[0], n->in[0] }, 2, &at);
    if (n->in_count == 3 && want[2]) din[2] = build_sum(g, grad_name(g, n), dout[0], 0, 3);
}

void grad_maxpool(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                  i32 *din)
{
    struct attrs at = n->at;
    at.dims         = value_shape(g, n->in[0]);
    if (want[0]) din[0] = emit(g, n, OP_MAXPOOL_GRAD, (i32[]){ dout[0], n->out + 1 }, 2, &at);
}

void grad_avgpool(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                  i32 *din)
{
    struct attrs at = n->at;
    at.dims         = value_shape(g, n->in[0]);
    if (want[0]) din[0] = emit(g, n, OP_AVGPOOL_GRAD, dout, 1, &at);
}

void grad_attention(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                    i32 *din)
{
    i32 op    = n->op == OP_ATTENTION ? OP_ATTENTION_GRAD : OP_ATTENTION_PACKED_GRAD;
    i32 in[6] = { dout[0], n->in[0], n->out, n->out + 1 };
    for (i32 i = 1; i < n->in_count; i++) in[3 + i] = n->in[i];
    if (want[0]) din[0] = emit(g, n, op, in, 3 + n->in_count, &n->at);
}

void grad_rope(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    struct attrs at = n->at;
    at.inverse      = !at.inverse;
    i32 in[]        = { dout[0], n->in_count == 2 ? n->in[1] : -1 };
    if (want[0]) din[0] = emit(g, n, OP_ROPE, in, n->in_count, &at);
}

void grad_qknorm(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    i32 in[] = { dout[0], n->in[0], n->out + 1 };
    if (want[0]) din[0] = emit(g, n, OP_QKNORM_GRAD, in, 3, &n->at);
}

/* The same key gives the same mask. */
void grad_dropout(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                  i32 *din)
{
    i32 in[4] = { dout[0] };
    for (i32 i = 1; i < n->in_count; i++) in[i] = n->in[i];
    if (want[0]) din[0] = emit(g, n, OP_DROPOUT, in, n->in_count, &n->at);
}

void grad_xent(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    i32 in[] = { dout[0], n->in[0], n->in[1], n->out + 1 };
    if (want[0]) din[0] = emit(g, n, OP_XENT_GRAD, in, 4, &n->at);
}

void grad_bce(struct graph *g, const struct node *n, const i32 *dout, const bool *want, i32 *din)
{
    i32 in[] = { dout[0], n->in[0], n->in[1] };
    if (want[0]) din[0] = emit(g, n, OP_BCE_GRAD, in, 3, &n->at);
}
