/* sdpa.c - attention by cuDNN's fused engines: bf16 and f16, causal (by a window too) or not, without padding.
 *
 * The engines are found by the shape of the graph: product, scale, mask, softmax, product, in just
 * these operations. q, k and v are read where they lie in the packed tensor. */
#include "backend/cuda/module/dnn.h"
#include <math.h>
#include <string.h>

enum { PLANS_MAX = 64 };
enum {
    ID_Q = 1,
    ID_K,
    ID_V,
    ID_O,
    ID_LSE,
    ID_DO,
    ID_DQ,
    ID_DK,
    ID_DV,
    ID_SUM,
    ID_SCALE,
    ID_MASKED,
    ID_ONE,
    ID_DQ_SUM,
    ID_WINDOW
};

struct key { /* what a plan depends on; compared as bytes */
    i64 op, B, T, H, G, D, causal, window, dtype;
    i64 any_order; /* backward: dq is summed as blocks come; else through a workspace of all scores */
};

struct sdpa {
    struct key      key;
    f32             scale, window; /* read when the plan runs */
    bool            found;
    struct dnn_plan plan;
};

static struct sdpa known[PLANS_MAX]; /* of the process, as the library's handle is */
static i32         known_count;

static f32 masked = -INFINITY, one = 1;

/* --- the graphs --- */

struct sketch {
    struct dnn_sketch s;
    struct key        k;
    cudnnDataType_t   low;
};

static dnn_desc bound(struct sketch *g, i64 id, i64 heads, bool transposed)
{
    i64               W = (g->k.H + 2 * g->k.G) * g->k.D, T = g->k.T, D = g->k.D;
    bool              packed = id != ID_O && id != ID_DO;
    i64               row    = packed ? W : g->k.H * D;
    struct dnn_tensor t = { g->low, { g->k.B, heads, T, D }, { T * row, D, row, 1 }, id, false };
    if (transposed) {
        t.dim[2] = D, t.dim[3] = T;
        t.stride[2] = 1, t.stride[3] = row;
    }
    return dnn_tensor(&g->s, t);
}

static dnn_desc per_row(struct sketch *g, i64 id)
{
    i64 H = g->k.H, T = g->k.T;
    return dnn_tensor(&g->s,
                      (struct dnn_tensor){
                          CUDNN_DATA_FLOAT, { g->k.B, H, T, 1 }, { H * T, T, 1, 1 }, id, false });
}

static dnn_desc scores(struct sketch *g, cudnnDataType_t type)
{
    struct key k = g->k;
    return dnn_tensor(&g->s,
                      (struct dnn_tensor){ .type = type, .dim = { k.B, k.H, k.T, k.T }, .id = 0 });
}

static dnn_desc number(struct sketch *g, i64 id)
{
    return dnn_tensor(
        &g->s, (struct dnn_tensor){ CUDNN_DATA_FLOAT, { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, id, true });
}

static dnn_desc f_map(struct sketch *g, cudnnPointwiseMode_t f, dnn_desc x, dnn_desc b)
{
    dnn_desc y = scores(g, CUDNN_DATA_FLOAT);
    dnn_map(&g->s, f, x, b, NULL, y, CUDNN_DATA_FLOAT);
    return y;
}

struct places { /* of each score: its query and its key */
    dnn_desc row, column;
};

static struct places places(struct sketch *g, dnn_desc x)
{
    struct places p = { scores(g, CUDNN_DATA_INT32), scores(g, CUDNN_DATA_INT32) };
    dnn_index(&g->s, x, 2, p.row);
    dnn_index(&g->s, x, 3, p.column);
    return p;
}

/* x where a f b, otherwise -infinity. */
static dnn_desc x_where(struct sketch *g, dnn_desc x, cudnnPointwiseMode_t f, dnn_desc a,
                        dnn_desc b)
{
    dnn_desc seen = scores(g, CUDNN_DATA_BOOLEAN), y = scores(g, CUDNN_DATA_FLOAT);
    dnn_map(&g->s, f, a, b, NULL, seen, CUDNN_DATA_BOOLEAN);
    dnn_map(&g->s, CUDNN_POINTWISE_BINARY_SELECT, x, number(g, ID_MASKED), seen, y,
            CUDNN_DATA_FLOAT);
    return y;
}

/* -infinity where the key comes after the query, or is out of its window. The engines know both masks by just these
 * operations, each with indices of its own; the window is a float. */
static dnn_desc mask(struct sketch *g, dnn_desc x)
{
    if (!g->k.causal) return x;
    struct places p = places(g, x);
    x               = x_where(g, x, CUDNN_POINTWISE_CMP_GE, p.row, p.column);
    if (!g->k.window) return x;
    p             = places(g, x);
    dnn_desc last = scores(g, CUDNN_DATA_INT32); /* from this query on the key is not seen */
    dnn_map(&g->s, CUDNN_POINTWISE_ADD, p.column, number(g, ID_WINDOW), NULL, last,
            CUDNN_DATA_INT32);
    return x_where(g, x, CUDNN_POINTWISE_CMP_GT, last, p.row);
}

static dnn_desc scaled_scores(struct sketch *g, dnn_desc q, dnn_desc k_t, dnn_desc scale)
{
    dnn_desc s = scores(g, CUDNN_DATA_FLOAT);
    dnn_matmul(&g->s, q, k_t, s);
    return f_map(g, CUDNN_POINTWISE_MUL, s, scale);
}

static void draw_forward(struct sketch *g)
{
    struct dnn_sketch *s = &g->s;
    dnn_desc x   = scaled_scores(g, bound(g, ID_Q, g->k.H, false), bound(g, ID_K, g->k.G, true),
                                 number(g, ID_SCALE));
    x            = mask(g, x);
    dnn_desc top = per_row(g, 0), sum = per_row(g, 0), log = per_row(g, 0);
    dnn_reduce(s, CUDNN_REDUCE_TENSOR_MAX, x, top);
    x = f_map(g, CUDNN_POINTWISE_EXP, f_map(g, CUDNN_POINTWISE_SUB, x, top), NULL);
    dnn_reduce(s, CUDNN_REDUCE_TENSOR_ADD, x, sum);
    dnn_map(s, CUDNN_POINTWISE_LOG, sum, NULL, NULL, log, CUDNN_DATA_FLOAT);
    dnn_map(s, CUDNN_POINTWISE_ADD, top, log, NULL, per_row(g, ID_LSE), CUDNN_DATA_FLOAT);
    dnn_desc p = scores(g, g->low);
    dnn_map(s, CUDNN_POINTWISE_DIV, x, sum, NULL, p, CUDNN_DATA_FLOAT);
    dnn_matmul(s, p, bound(g, ID_V, g->k.G, false), bound(g, ID_O, g->k.H, false));
}

/* The transposed view of scores, in the low type, for the products that sum over queries. */
static dnn_desc by_key(struct sketch *g, dnn_desc x)
{
    i64      T = g->k.T, H = g->k.H;
    dnn_desc y = dnn_tensor(
        &g->s,
        (struct dnn_tensor){ g->low, { g->k.B, H, T, T }, { H * T * T, T * T, 1, T }, 0, false });
    dnn_reshape(&g->s, x, y);
    return y;
}

/* x y, for each head of k and v the sum over the queries' heads that share it. */
static void product_by_group(struct sketch *g, dnn_desc x, dnn_desc y, i64 id)
{
    dnn_desc result = bound(g, id, g->k.G, false), all = result;
    if (g->k.G != g->k.H)
        all = dnn_tensor(&g->s, (struct dnn_tensor){ .type = g->low,
                                                     .dim  = { g->k.B, g->k.H, g->k.T, g->k.D } });
    dnn_matmul(&g->s, x, y, all);
    if (all != result) dnn_reduce(&g->s, CUDNN_REDUCE_TENSOR_ADD, all, result);
}

static void draw_backward(struct sketch *g)
{
    struct dnn_sketch *s = &g->s;
    i64                B = g->k.B, T = g->k.T, H = g->k.H, D = g->k.D;
    i64                W   = (H + 2 * g->k.G) * D;
    dnn_desc           d_o = bound(g, ID_DO, H, false), q = bound(g, ID_Q, H, false);
    dnn_desc           k_t = bound(g, ID_K, g->k.G, true), v_t = bound(g, ID_V, g->k.G, true);
    dnn_desc           scale = number(g, ID_SCALE), sum = per_row(g, ID_SUM), raw = per_row(g, 0);
    dnn_desc           product = dnn_tensor(
                  s, (struct dnn_tensor){
                         CUDNN_DATA_FLOAT, { B, H, T, D }, { H * T * D, T * D, H * D, 1 }, 0, false });
    dnn_map(s, CUDNN_POINTWISE_MUL, d_o, bound(g, ID_O, H, false), NULL, product, CUDNN_DATA_FLOAT);
    dnn_reduce(s, CUDNN_REDUCE_TENSOR_ADD, product, raw);
    dnn_map(s, CUDNN_POINTWISE_MUL, raw, number(g, ID_ONE), NULL, sum, CUDNN_DATA_FLOAT);

    dnn_desc x = f_map(g, CUDNN_POINTWISE_SUB, scaled_scores(g, q, k_t, scale), per_row(g, ID_LSE));
    dnn_desc p = f_map(g, CUDNN_POINTWISE_EXP, mask(g, x), NULL);
    product_by_group(g, by_key(g, p), d_o, ID_DV);

    dnn_desc dp = scores(g, CUDNN_DATA_FLOAT);
    dnn_matmul(s, d_o, v_t, dp);
    dnn_desc ds   = f_map(g, CUDNN_POINTWISE_MUL, f_map(g, CUDNN_POINTWISE_SUB, dp, sum), p);
    dnn_desc last = scores(g, g->low);
    dnn_map(s, CUDNN_POINTWISE_MUL, ds, scale, NULL, last, CUDNN_DATA_FLOAT);
    product_by_group(g, by_key(g, last), q, ID_DK);

    dnn_desc k = dnn_tensor(
        s, (struct dnn_tensor){ g->low, { B, g->k.G, T, D }, { T * W, D, W, 1 }, 0, false });
    dnn_reshape(s, k_t, k);
    dnn_desc dq = bound(g, ID_DQ, H, false);
    if (!g->k.any_order) {
        dnn_matmul(s, last, k, dq);
        return;
    }
    dnn_desc dq_sum = dnn_tensor(
        s, (struct dnn_tensor){
               CUDNN_DATA_FLOAT, { B, H, T, D }, { H * T * D, T * D, D, 1 }, ID_DQ_SUM, false });
    dnn_matmul(s, last, k, dq_sum);
    dnn_map(s, CUDNN_POINTWISE_IDENTITY, dq_sum, NULL, NULL, dq, CUDNN_DATA_FLOAT);
}

/* --- as kernels --- */

static struct key key_of(const struct gpu_call *c)
{
    const struct type *qkv = &c->in[c->op == OP_ATTENTION ? 0 : 1].type;
    struct key         k;
    memset(&k, 0, sizeof k);
    k.op        = c->op;
    k.B         = qkv->shape.dim[0];
    k.T         = qkv->shape.dim[1];
    k.H         = c->at->heads;
    k.G         = c->at->kv_heads;
    k.D         = qkv->shape.dim[2] / (k.H + 2 * k.G);
    k.causal    = c->at->causal;
    k.window    = c->at->window < k.T ? c->at->window : 0; /* else it bounds nothing */
    k.dtype     = qkv->dtype;
    k.any_order = c->op == OP_ATTENTION_GRAD && c->gpu->any_order;
    return k;
}

/* The gradient with repeatable bits keeps T^2 numbers of 16 bits for each head: 8 GiB a head where T is 65,536. Beyond
 * an eighth of the memory our own kernel runs instead, which keeps none and takes three times as long. */
static struct dnn_rules rules_of(const struct gpu *gpu)
{
    return (struct dnn_rules){ 0, gpu->total_bytes ? gpu->total_bytes / 8 : INT64_MAX };
}

static struct sdpa *sdpa_of(const struct gpu_call *c)
{
    struct sketch g = { .k = key_of(c) };
    for (i32 i = 0; i < known_count; i++) {
        if (!memcmp(&known[i].key, &g.k, sizeof g.k)) return &known[i];
    }
    if (known_count == PLANS_MAX || !dnn_begin(&g.s, c->gpu)) return NULL;
    struct sdpa *a = &known[known_count++];
    *a    = (struct sdpa){ .key = g.k, .scale = (f32)c->at->scale, .window = (f32)g.k.window };
    g.low = g.k.dtype == DT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
    if (c->op == OP_ATTENTION) draw_forward(&g);
    else draw_backward(&g);
    a->found = dnn_end_many(&g.s, rules_of(c->gpu), &a->plan, 1) == 1;
    return a;
}

static bool takes(const struct gpu_call *c)
{
    struct key k      = key_of(c);
    bool       padded = c->in_count == (c->op == OP_ATTENTION ? 2 : 5);
    if (c->at->p > 0) return false; /* its generator has other addresses */
    if (padded || k.D % 8 || k.D > 256 || k.T < 2 || k.B < 1) return false;
    if (k.dtype != DT_BF16 && k.dtype != DT_F16) return false;
    struct sdpa *a = sdpa_of(c);
    return a && a->found && a->scale == (f32)c->at->scale;
}

/* Of the f32 numbers that backward keeps for each row of scores: their sum, and dq until it is whole. */
static i64 rows_bytes(const struct sdpa *a, i64 numbers)
{
    return (a->key.B * a->key.H * a->key.T * numbers * (i64)sizeof(f32) + 255) / 256 * 256;
}

static i64 own_bytes(const struct sdpa *a)
{
    return rows_bytes(a, 1) + (a->key.any_order ? rows_bytes(a, a->key.D) : 0);
}

static i64 work(const struct gpu_call *c)
{
    struct sdpa *a = sdpa_of(c);
    return a->plan.work_bytes + (c->op == OP_ATTENTION ? 0 : own_bytes(a));
}

static void *part(const struct tensor *qkv, const struct key *k, i64 head)
{
    return (u8 *)qkv->data + head * k->D * dtype_bytes(qkv->type.dtype);
}

static void must(bool done)
{
    if (!done) assert_failed("cuDNN's attention runs", __FILE__, __LINE__);
}

static void run_forward(const struct gpu_call *c)
{
    struct sdpa         *a      = sdpa_of(c);
    const struct key    *k      = &a->key;
    const struct tensor *qkv    = &c->in[0];
    struct dnn_bound     list[] = { { ID_Q, part(qkv, k, 0) },
                                    { ID_K, part(qkv, k, k->H) },
                                    { ID_V, part(qkv, k, k->H + k->G) },
                                    { ID_O, c->out[0].data },
                                    { ID_LSE, c->out[1].data },
                                    { ID_SCALE, &a->scale },
                                    { ID_MASKED, &masked },
                                    { ID_WINDOW, &a->window } };
    must(dnn_run(c, &a->plan, list, k->window ? 8 : k->causal ? 7 : 6, c->work));
}

static void run_backward(const struct gpu_call *c)
{
    struct sdpa         *a   = sdpa_of(c);
    const struct key    *k   = &a->key;
    const struct tensor *qkv = &c->in[1], *d = &c->out[0];
    u8                  *own                 = c->work;
    struct dnn_bound     list[DNN_BOUND_MAX] = { { ID_Q, part(qkv, k, 0) },
                                                 { ID_K, part(qkv, k, k->H) },
                                                 { ID_V, part(qkv, k, k->H + k->G) },
                                                 { ID_O, c->in[2].data },
                                                 { ID_LSE, c->in[3].data },
                                                 { ID_DO, c->in[0].data },
                                                 { ID_DQ, part(d, k, 0) },
                                                 { ID_DK, part(d, k, k->H) },
                                                 { ID_DV, part(d, k, k->H + k->G) },
                                                 { ID_SUM, own },
                                                 { ID_SCALE, &a->scale },
                                                 { ID_ONE, &one } };
    i32                  count               = 12;
    if (k->causal) list[count++] = (struct dnn_bound){ ID_MASKED, &masked };
    if (k->window) list[count++] = (struct dnn_bound){ ID_WINDOW, &a->window };
    if (k->any_order) list[count++] = (struct dnn_bound){ ID_DQ_SUM, own + rows_bytes(a, 1) };
    must(dnn_run(c, &a->plan, list, count, own + own_bytes(a)));
}

extern const struct gpu_kernel gpu_kernels_sdpa[];
const struct gpu_kernel        gpu_kernels_sdpa[] = {
           { OP_ATTENTION, "cudnn", takes, run_forward, work, NULL, 0 },
           { OP_ATTENTION_GRAD, "cudnn", takes, run_backward, work, NULL, 0 },
};
extern const i32 gpu_kernels_sdpa_count;
const i32        gpu_kernels_sdpa_count = (i32)COUNT_OF(gpu_kernels_sdpa);
