/* conv.c - convolution and its gradients by cuDNN, in the program's own layout: NHWC images, OHWI
 * weights, both described by strides.
 *
 * For each kind of convolution the library's first few engines become plans when the program is laid
 * out, so that its workspace is known; the clock chooses among them when it is prepared. Engines that do
 * not repeat their sums are left out, and in f32 those that round operands (TF32) or transform them.
 * A bias and the maps that follow in a low type are drawn into the same graph; where the library has
 * no engine for the whole, the bias is added after and the chain left to the backend. */
#include "backend/cuda/module/dnn.h"
#include "backend/cuda/module/launch.h"
#include <string.h>

enum { CONVS_MAX = 256, CHOICES = 4 };
enum { CHOICES_WHOLE = 1 }; /* with maps: each engine is compiled when it is made a plan */
enum { WORK_BYTES_MAX = 128 << 20 };
enum { ID_X = 1, ID_W, ID_Y, ID_BIAS, ID_MAP };

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)
static const u32 notes_off = NOTE(NONDETERMINISTIC) | NOTE(DOWN_CONVERT_INPUTS) |
                             NOTE(REDUCED_PRECISION_REDUCTION);
static const u32 notes_off_f32 = NOTE(TENSOR_CORE) | NOTE(FFT) | NOTE(WINOGRAD_TILE_4x4) |
                                 NOTE(WINOGRAD_TILE_6x6) | NOTE(WINOGRAD_TILE_13x13);

struct key { /* what plans depend on; compared as bytes */
    i64 op, N, H, W, C, O, OH, OW, KH, KW, stride, pad;
    i64 in, out, bias;              /* dtypes; bias DT_COUNT: not drawn in */
    i64 map_count, maps[THEN_MAX]; /* drawn in */
};

struct conv {
    struct key      key;
    struct dnn_plan plans[CHOICES];
    i32             count, best;
};

static struct conv known[CONVS_MAX]; /* of the process, as the library's handle is */
static i32         known_count;

/* --- the graph --- */

struct sketch {
    struct dnn_sketch s;
    struct key        k;
};

static cudnnDataType_t dnn_type(i64 t)
{
    return t == DT_BF16 ? CUDNN_DATA_BFLOAT16 : t == DT_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* n images of c channels, the channels of a pixel side by side. id 0: without memory, in f32. */
static dnn_desc image(struct sketch *g, i64 id, i64 dtype, i64 n, i64 c, i64 h, i64 w)
{
    return dnn_tensor(&g->s, (struct dnn_tensor){ dnn_type(dtype), { n, c, h, w },
                                                  { h * w * c, 1, w * c, c }, id, false });
}

/* As large as the result: the image, its gradient or the weight's. */
static dnn_desc like_result(struct sketch *g, i64 id, i64 dtype)
{
    const struct key *k = &g->k;
    if (k->op == OP_CONV2D) return image(g, id, dtype, k->N, k->O, k->OH, k->OW);
    if (k->op == OP_CONV2D_GRAD_X) return image(g, id, dtype, k->N, k->C, k->H, k->W);
    return image(g, id, dtype, k->O, k->C, k->KH, k->KW);
}

/* The last step writes the result, those before it what nobody stores. */
static dnn_desc step_result(struct sketch *g, bool last)
{
    return last ? like_result(g, ID_Y, g->k.out) : like_result(g, 0, DT_F32);
}

static bool draws(i64 op) { return op == OP_RELU || op == OP_ADD || op == OP_RELU_GRAD; }

static dnn_desc draw_map(struct sketch *g, i32 i, dnn_desc x)
{
    dnn_desc y       = step_result(g, i == g->k.map_count - 1);
    i64      op      = g->k.maps[i];
    dnn_desc operand = op == OP_RELU ? NULL : like_result(g, ID_MAP + i, g->k.out);
    if (op == OP_RELU_GRAD)
        dnn_map_grad(&g->s, CUDNN_POINTWISE_RELU_BWD, x, operand, y, CUDNN_DATA_FLOAT);
    else
        dnn_map(&g->s, op == OP_RELU ? CUDNN_POINTWISE_RELU_FWD : CUDNN_POINTWISE_ADD, x, operand,
                NULL, y, CUDNN_DATA_FLOAT);
    return y;
}

static void draw(struct sketch *g)
{
    const struct key *k = &g->k;
    bool     biased = k->bias != DT_COUNT, alone = !biased && !k->map_count;
    dnn_desc r = step_result(g, alone);
    dnn_desc x = k->op == OP_CONV2D_GRAD_X ? r : image(g, ID_X, k->in, k->N, k->C, k->H, k->W);
    dnn_desc w = k->op == OP_CONV2D_GRAD_W ? r : image(g, ID_W, k->in, k->O, k->C, k->KH, k->KW);
    /* of the gradients the one operand besides is dy, and takes the name that is free */
    i64      id = k->op == OP_CONV2D_GRAD_X ? ID_X : ID_W;
    dnn_desc y  = k->op == OP_CONV2D ? r : image(g, id, k->in, k->N, k->O, k->OH, k->OW);
    dnn_convolve(&g->s,
                 k->op == OP_CONV2D          ? DNN_CONV
                 : k->op == OP_CONV2D_GRAD_X ? DNN_CONV_GRAD_X
                                             : DNN_CONV_GRAD_W,
                 x, w, y, k->stride, k->pad);
    if (biased) {
        dnn_desc sum = step_result(g, !k->map_count);
        dnn_map(&g->s, CUDNN_POINTWISE_ADD, r, image(g, ID_BIAS, k->bias, 1, k->O, 1, 1), NULL, sum,
                CUDNN_DATA_FLOAT);
        r = sum;
    }
    for (i32 i = 0; i < k->map_count; i++) r = draw_map(g, i, r);
}

/* --- plans by kind --- */

/* NULL: the library is not there or has no engine for it. */
static struct conv *conv_of(const struct gpu_call *c, struct key k)
{
    struct sketch g = { .k = k };
    for (i32 i = 0; i < known_count; i++) {
        if (!memcmp(&known[i].key, &k, sizeof k)) return known[i].count ? &known[i] : NULL;
    }
    if (known_count == CONVS_MAX || !dnn_begin(&g.s, c->gpu)) return NULL;
    struct conv     *v     = &known[known_count++];
    struct dnn_rules rules = { notes_off | (k.in == DT_F32 ? notes_off_f32 : 0), WORK_BYTES_MAX };
    *v                     = (struct conv){ .key = k, .best = -1 };
    draw(&g);
    v->count = dnn_end_many(&g.s, rules, v->plans,
                            k.bias != DT_COUNT || k.map_count ? CHOICES_WHOLE : CHOICES);
    return v->count ? v : NULL;
}

static struct key plain_key(const struct gpu_call *c)
{
    bool         dx = c->op == OP_CONV2D_GRAD_X, dw = c->op == OP_CONV2D_GRAD_W;
    struct shape x = (dx ? c->out[0] : c->in[dw]).type.shape;
    struct shape w = (dw ? c->out[0] : c->in[1]).type.shape;
    struct shape y = (dx || dw ? c->in[0] : c->out[0]).type.shape;
    struct key   k;
    memset(&k, 0, sizeof k);
    k.op = c->op;
    k.N = x.dim[0], k.H = x.dim[1], k.W = x.dim[2], k.C = x.dim[3];
    k.O = w.dim[0], k.KH = w.dim[1], k.KW = w.dim[2];
    k.OH = y.dim[1], k.OW = y.dim[2];
    k.stride = c->at->stride, k.pad = c->at->pad;
    k.in   = c->in[0].type.dtype;
    k.out  = c->out[0].type.dtype;
    k.bias = DT_COUNT;
    return k;
}

/* With bias and chain, if all of it can be drawn; false: it cannot. */
static bool whole_key(const struct gpu_call *c, struct key *k)
{
    const struct chain *then = &c->at->then;
    *k                       = plain_key(c);
    if (k->in == DT_F32 || then->keep) return false; /* f32's engines with maps are TF32's */
    if (c->in_count == 3) k->bias = c->in[2].type.dtype;
    for (i32 i = 0; i < then->count; i++) {
        if (!draws(then->op[i])) return false;
        k->maps[k->map_count++] = then->op[i];
    }
    return c->in_count == 3 || then->count;
}

/* The convolution alone, into a low result where the library has no other. */
static struct conv *plain_conv(const struct gpu_call *c)
{
    struct key   k = plain_key(c);
    struct conv *v = conv_of(c, k);
    if (v || k.out == k.in) return v;
    k.out = k.in;
    return conv_of(c, k);
}

/* --- as kernels --- */

static bool takes_whole(const struct gpu_call *c)
{
    struct key k;
    return c->out[0].count && c->in[0].count && whole_key(c, &k) && conv_of(c, k);
}

static bool takes_plain(const struct gpu_call *c)
{
    return c->out[0].count && c->in[0].count && plain_conv(c);
}

static i64 room(i64 bytes) { return (bytes + 255) / 256 * 256; }

static i64 library_bytes(const struct conv *v)
{
    i64 most = 0;
    for (i32 i = 0; i < v->count; i++) most = MAX(most, v->plans[i].work_bytes);
    return room(most);
}

static i64 work_whole(const struct gpu_call *c)
{
    struct key k;
    whole_key(c, &k);
    return library_bytes(conv_of(c, k));
}

static bool casts_result(const struct gpu_call *c, const struct conv *v)
{
    return v->key.out != (i64)c->out[0].type.dtype;
}

/* The library's, then the low result, then the bias in the result's type. */
static i64 work_plain(const struct gpu_call *c)
{
    struct conv *v   = plain_conv(c);
    i64          low = casts_result(c, v) ? room(c->out[0].count * dtype_bytes(c->in[0].type.dtype)) : 0;
    return library_bytes(v) + low + (c->in_count == 3 ? room(v->key.O * (i64)sizeof(f32)) : 0);
}

struct attempt {
    const struct gpu_call *c;
    const struct conv     *v;
    i32                    plan;
};

static void *result_of(const struct gpu_call *c, const struct conv *v)
{
    return casts_result(c, v) ? (u8 *)c->work + library_bytes(v) : c->out[0].data;
}

static bool convolve(void *context)
{
    const struct attempt  *a = context;
    const struct gpu_call *c = a->c;
    const struct key      *k = &a->v->key;
    /* conv: x, w; grad_x: dy as X, w; grad_w: dy as W, x */
    bool             dw     = c->op == OP_CONV2D_GRAD_W;
    struct dnn_bound list[DNN_BOUND_MAX] = { { ID_X, c->in[dw].data },
                                             { ID_W, c->in[!dw].data },
                                             { ID_Y, result_of(c, a->v) } };
    i32              count = 3, operand = c->in_count;
    if (k->bias != DT_COUNT) list[count++] = (struct dnn_bound){ ID_BIAS, c->in[2].data };
    for (i32 i = 0; i < k->map_count; i++) {
        if (k->maps[i] != OP_RELU)
            list[count++] = (struct dnn_bound){ ID_MAP + i, c->in[operand++].data };
    }
    return dnn_run(c, &a->v->plans[a->plan], list, count, c->work);
}

/* The clock decides, once a kind. */
static void *plan(const struct gpu_call *c, struct conv *v)
{
    f32 best = -1;
    for (i32 i = 0; v->best < 0 && i < v->count; i++) {
        struct attempt a  = { c, v, i };
        f32            ms = gpu_time_ms(c->gpu, convolve, &a);
        if (ms < 0 || (best >= 0 && ms >= best)) continue;
        best    = ms;
        v->best = i;
    }
    return v->best >= 0 ? v : NULL;
}

static void *plan_whole(const struct gpu_call *c, struct arena *perm)
{
    struct key k;
    (void)perm;
    whole_key(c, &k);
    return plan(c, conv_of(c, k));
}

static void *plan_plain(const struct gpu_call *c, struct arena *perm)
{
    (void)perm;
    return plan(c, plain_conv(c));
}

static void run(const struct gpu_call *c)
{
    const struct conv *v = c->plan;
    struct attempt     a = { c, v, v->best };
    if (!convolve(&a)) assert_failed("cuDNN's convolution runs", __FILE__, __LINE__);
}

/* y += bias, one number a channel, by the kernel of op add. */
static void add_bias(const struct gpu_call *c, const struct conv *v)
{
    struct tensor   y = c->out[0], bias = c->in[2], in[2];
    struct gpu_call add = { .op = OP_ADD, .at = c->at, .in = in, .in_count = 2, .out = &y, .gpu = c->gpu };
    if (bias.type.dtype != y.type.dtype) {
        u8 *cast = (u8 *)c->work + work_plain(c) - room(v->key.O * (i64)sizeof(f32));
        launch_cast(cast, y.type.dtype, bias.data, bias.type.dtype, bias.count, c->gpu->stream);
        bias.data       = cast;
        bias.type.dtype = y.type.dtype;
    }
    in[0] = y, in[1] = bias;
    gpu_kernel_choose(&add)->run(&add);
}

static void run_plain(const struct gpu_call *c)
{
    const struct conv *v = c->plan;
    run(c);
    if (casts_result(c, v))
        launch_cast(c->out[0].data, c->out[0].type.dtype, result_of(c, v), (enum dtype)v->key.out,
                    c->out[0].count, c->gpu->stream);
    if (c->in_count == 3) add_bias(c, v);
}

extern const struct gpu_kernel gpu_kernels_conv[];
const struct gpu_kernel        gpu_kernels_conv[] = {
    { OP_CONV2D, "cudnn", takes_whole, run, work_whole, plan_whole, DOES_CHAIN },
    { OP_CONV2D, "cudnn", takes_plain, run_plain, work_plain, plan_plain, 0 },
    { OP_CONV2D_GRAD_X, "cudnn", takes_whole, run, work_whole, plan_whole, DOES_CHAIN },
    { OP_CONV2D_GRAD_X, "cudnn", takes_plain, run_plain, work_plain, plan_plain, 0 },
    { OP_CONV2D_GRAD_W, "cudnn", takes_plain, run_plain, work_plain, plan_plain, 0 },
};
extern const i32 gpu_kernels_conv_count;
const i32        gpu_kernels_conv_count = (i32)COUNT_OF(gpu_kernels_conv);
