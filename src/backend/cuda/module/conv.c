/* conv.c - convolution and its gradients by cuDNN, in the program's own layout: NHWC images, OHWI
 * weights, both described by strides; 1x1 convolutions of stride 1 also as matrix products.
 *
 * For each kind of convolution the library's first few engines become plans when the program is laid
 * out, by several threads, and one more lets the clock choose among those that are made; where there is no memory for
 * that, it chooses when the program is prepared. Engines that do
 * not repeat their sums are left out unless the run allows them, and in f32 those that round operands
 * (TF32) or transform them. A 16-bit weight gradient that the program has in f32 is stored in the low type, with a cast
 * behind it, unless the library cannot (tuning.h).
 * A bias and the maps that follow in a low type are drawn into the same graph; where the library has
 * no engine for the whole, or a slow one, the bias is added after and the chain left to the backend. */
#include "backend/cuda/module/conv.h"
#include "backend/cuda/module/dnn.h"
#include "backend/cuda/module/gemm.h"
#include "backend/cuda/module/launch.h"
#include "base/pool.h"
#include <pthread.h>
#include <string.h>

enum { CONVS_MAX = 512, CHOICES_MAX = 16 };
/* With maps one engine is tried for eight without: each is compiled when it is made a plan. */
enum { WHOLE_FEWER = 8 };
enum { POOL_RESERVE = 1 << 24 }; /* address space only */
enum { WORK_BYTES_MAX = 256 << 20 };
#define CLOCK_MS 0.02f /* a launch alone may take so much more than another of the same */
enum { ID_X = 1, ID_W, ID_Y, ID_BIAS, ID_MAP };

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)
static const u32 notes_off     = NOTE(DOWN_CONVERT_INPUTS) | NOTE(REDUCED_PRECISION_REDUCTION);
static const u32 notes_off_f32 = NOTE(TENSOR_CORE) | NOTE(FFT) | NOTE(WINOGRAD_TILE_4x4) |
                                 NOTE(WINOGRAD_TILE_6x6) | NOTE(WINOGRAD_TILE_13x13);

struct conv { /* of one kind */
    struct conv_kind key;
    struct dnn_plan  plans[CHOICES_MAX];
    i32              count, best;
    f32              ms; /* of the best */
    f32 kept_ms; /* what the one plan took when it was chosen; 0: that is not known or does not matter */
    bool made, timed;
    bool again; /* the plan was chosen in an earlier run */
    bool noted; /* it is among the choices that are kept */
};

static struct conv known[CONVS_MAX]; /* of the process, as the library's handle is */
static i32         known_count;

/* --- the graph --- */

struct sketch {
    struct dnn_sketch s;
    struct conv_kind  k;
};

static cudnnDataType_t dnn_type(i64 t)
{
    return t == DT_BF16 ? CUDNN_DATA_BFLOAT16 : t == DT_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* n images of c channels, the channels of a pixel side by side. id 0: without memory, in f32. */
static dnn_desc image(struct sketch *g, i64 id, i64 dtype, i64 n, i64 c, i64 h, i64 w)
{
    return dnn_tensor(&g->s,
                      (struct dnn_tensor){
                          dnn_type(dtype), { n, c, h, w }, { h * w * c, 1, w * c, c }, id, false });
}

/* As large as the result: the image, its gradient or the weight's. */
static dnn_desc like_result(struct sketch *g, i64 id, i64 dtype)
{
    const struct conv_kind *k = &g->k;
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
    const struct conv_kind *k      = &g->k;
    bool                    biased = k->bias != DT_COUNT, alone = !biased && !k->map_count;
    dnn_desc                r = step_result(g, alone);
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

static u32 rules_of(const struct conv_kind *k)
{
    return notes_off | (k->in == DT_F32 ? notes_off_f32 : 0) |
           (k->any_order ? 0 : NOTE(NONDETERMINISTIC));
}

static bool is_whole(const struct conv_kind *k) { return k->bias != DT_COUNT || k->map_count; }

/* Engines to choose from. */
static i32 tries_of(const struct gpu *gpu, const struct conv_kind *k)
{
    return (i32)MIN(CHOICES_MAX, is_whole(k) ? MAX(1, gpu->tries / WHOLE_FEWER) : gpu->tries);
}

/* What is kept of this kind, or NULL. */
static struct tuned_conv *recall(const struct gpu_call *c, const struct conv_kind *k)
{
    return tuning_find_conv(c->gpu->tuning, k, dnn_version(), tries_of(c->gpu, k));
}

static void keep(const struct gpu_call *c, const struct conv_kind *k, enum way way, f32 ms,
                 const struct dnn_plan *p)
{
    struct tuned_conv t;
    if (p && p->knob_count < 0) return; /* it could not be made again */
    memset(&t, 0, sizeof t);
    t.kind = *k, t.library = dnn_version(), t.way = way, t.tried = tries_of(c->gpu, k),
    t.us = (f64)ms * 1e3, t.used = true;
    if (p) {
        t.engine     = p->engine;
        t.knob_count = p->knob_count;
        memcpy(t.knobs, p->knobs, sizeof t.knobs);
    }
    tuning_add_conv(c->gpu->tuning, &t);
}

/* What two threads may do at once: nothing here writes but to *v. */
struct making {
    struct gpu       *gpu;
    struct tuned_conv kept; /* used: there is one, by an engine */
    struct conv      *v;
};

/* The plan that was chosen once; false: none was, or this library does not make it. */
static bool make_again(const struct making *m, i32 thread)
{
    struct dnn_rules rules = { rules_of(&m->v->key), WORK_BYTES_MAX };
    struct sketch    g     = { .k = m->v->key };
    if (!m->kept.used || !dnn_begin_on(&g.s, m->gpu, thread)) return false;
    draw(&g);
    if (!dnn_end_as(&g.s, rules, &m->kept, &m->v->plans[0])) return false;
    m->v->count   = 1;
    m->v->again   = true;
    m->v->kept_ms = m->kept.exact ? 0 : (f32)(m->kept.us * 1e-3);
    return true;
}

static i32 make_anew(struct gpu *gpu, const struct conv_kind *k, i64 work_bytes_max,
                     struct dnn_plan *to, i32 thread)
{
    struct dnn_rules rules = { rules_of(k), work_bytes_max };
    struct sketch    g     = { .k = *k };
    if (!dnn_begin_on(&g.s, gpu, thread)) return 0;
    draw(&g);
    return dnn_end_many(&g.s, rules, to, tries_of(gpu, k));
}

static struct making making_of(const struct gpu_call *c, struct conv *v)
{
    struct tuned_conv *t = recall(c, &v->key);
    struct making      m = { .gpu = c->gpu, .v = v };
    if (t) m.kept = *t;
    m.kept.used = t && t->way == WAY_ENGINE;
    if (m.kept.used) t->used = true;
    return m;
}

static void make(const struct making *m, i32 thread)
{
    struct conv *v = m->v;
    if (!make_again(m, thread))
        v->count = make_anew(m->gpu, &v->key, WORK_BYTES_MAX, v->plans, thread);
    v->made = true;
}

/* Its entry, where plans may not be made yet; NULL: there are too many, or there is no library. */
static struct conv *entry_of(const struct conv_kind *k)
{
    for (i32 i = 0; i < known_count; i++) {
        if (!memcmp(&known[i].key, k, sizeof *k)) return &known[i];
    }
    if (known_count == CONVS_MAX || !dnn_version()) return NULL;
    struct conv *v = &known[known_count++];
    *v             = (struct conv){ .key = *k, .best = -1 };
    return v;
}

/* NULL: the library is not there or has no engine for it. */
static struct conv *conv_of(const struct gpu_call *c, struct conv_kind k)
{
    struct conv *v = entry_of(&k);
    if (v && !v->made) {
        struct making m = making_of(c, v);
        make(&m, 0);
    }
    return v && v->count ? v : NULL;
}

static struct conv_kind plain_key(const struct gpu_call *c)
{
    bool             dx = c->op == OP_CONV2D_GRAD_X, dw = c->op == OP_CONV2D_GRAD_W;
    struct shape     x = (dx ? c->out[0] : c->in[dw]).type.shape;
    struct shape     w = (dw ? c->out[0] : c->in[1]).type.shape;
    struct shape     y = (dx || dw ? c->in[0] : c->out[0]).type.shape;
    struct conv_kind k;
    memset(&k, 0, sizeof k);
    k.op = c->op;
    k.N = x.dim[0], k.H = x.dim[1], k.W = x.dim[2], k.C = x.dim[3];
    k.O = w.dim[0], k.KH = w.dim[1], k.KW = w.dim[2];
    k.OH = y.dim[1], k.OW = y.dim[2];
    k.stride = c->at->stride, k.pad = c->at->pad;
    k.in        = c->in[0].type.dtype;
    k.out       = c->out[0].type.dtype;
    k.bias      = DT_COUNT;
    k.any_order = c->gpu->any_order;
    return k;
}

/* With bias and chain, if all of it can be drawn; false: it cannot. */
static bool whole_key(const struct gpu_call *c, struct conv_kind *k)
{
    const struct chain *then = &c->at->then;
    *k                       = plain_key(c);
    if (k->in == DT_F32 || then->keep) return false; /* f32's engines with maps are TF32's */
    if (k->op == OP_CONV2D_GRAD_X && k->stride > 1)
        return false; /* only an engine that takes 0.5 to 2.7 s to compile */
    if (c->in_count == 3) k->bias = c->in[2].type.dtype;
    for (i32 i = 0; i < then->count; i++) {
        if (!draws(then->op[i])) return false;
        k->maps[k->map_count++] = then->op[i];
    }
    return c->in_count == 3 || then->count;
}

/* The convolution alone: into the result's type, and into the low one with a cast behind. */
struct ways {
    struct conv *straight, *low; /* NULL: the library has none */
};

static struct conv_kind low_key(struct conv_kind k)
{
    k.out = k.in;
    return k;
}

static struct ways ways_of(const struct gpu_call *c)
{
    struct conv_kind         k = plain_key(c);
    const struct tuned_conv *t = recall(c, &k);
    struct ways              w = { NULL, NULL };
    if (tuning_tries_low(&k, t)) w.low = conv_of(c, low_key(k));
    if (tuning_tries_straight(&k, t, w.low)) w.straight = conv_of(c, k);
    return w;
}

/* --- the fastest of a kind's plans, on memory of its own --- */

static i64 room(i64 bytes) { return (bytes + 255) / 256 * 256; }

static i64 image_bytes(i64 n, i64 h, i64 w, i64 c, i64 type)
{
    return room(n * h * w * c * dtype_bytes((enum dtype)type));
}

/* What is bound to a kind's graph: its operands one after the other, then what the engines work in. */
struct trial {
    const struct gpu_call *c;
    const struct dnn_plan *plan;
    struct dnn_bound       list[DNN_BOUND_MAX];
    i32                    count;
    u8                    *memory;
    i64                    bytes;
};

static void bind_trial(struct trial *t, i64 id, i64 bytes)
{
    t->list[t->count++] = (struct dnn_bound){ id, t->memory ? t->memory + t->bytes : NULL };
    t->bytes += bytes;
}

static struct trial trial_of(const struct conv_kind *k, u8 *memory)
{
    struct trial t  = { .memory = memory };
    bool         dw = k->op == OP_CONV2D_GRAD_W, dx = k->op == OP_CONV2D_GRAD_X;
    i64          x    = image_bytes(k->N, k->H, k->W, k->C, dx ? k->out : k->in);
    i64          w    = image_bytes(k->O, k->KH, k->KW, k->C, dw ? k->out : k->in);
    i64          y    = image_bytes(k->N, k->OH, k->OW, k->O, dx || dw ? k->in : k->out);
    i64          like = dx ? x : dw ? w : y;
    bind_trial(&t, ID_X, dx ? y : x);
    bind_trial(&t, ID_W, dw ? y : w);
    bind_trial(&t, ID_Y, like);
    if (k->bias != DT_COUNT) bind_trial(&t, ID_BIAS, image_bytes(1, 1, 1, k->O, k->bias));
    for (i32 i = 0; i < k->map_count; i++)
        if (k->maps[i] != OP_RELU) bind_trial(&t, ID_MAP + i, like);
    return t;
}

static i64 trial_bytes(const struct conv_kind *k)
{
    return trial_of(k, NULL).bytes + room(WORK_BYTES_MAX);
}

static bool launch_trial(void *context)
{
    const struct trial *t = context;
    return dnn_run_amid(t->c, t->plan, t->list, t->count, t->memory + t->bytes);
}

/* The fastest stays, and the others' workspace need not be laid out. One that was kept is timed where it is used, and
 * so are all where none ran here. */
static void time_plans(struct gpu *gpu, struct conv *v, u8 *memory)
{
    struct gpu_call c    = { .gpu = gpu };
    struct trial    t    = trial_of(&v->key, memory);
    i32             best = -1;
    if (v->again) return;
    t.c = &c;
    for (i32 i = 0; i < v->count; i++) {
        t.plan = &v->plans[i];
        f32 ms = gpu_time_amid_ms(gpu, launch_trial, &t);
        if (ms < 0 || (best >= 0 && ms >= v->ms)) continue;
        best  = i;
        v->ms = ms;
    }
    if (best < 0) return;
    for (i32 i = 0; i < v->count; i++)
        if (i != best) dnn_drop(&v->plans[i]);
    v->plans[0] = v->plans[best];
    v->count    = 1;
    v->best     = 0;
    v->timed    = true;
}

/* --- plans of many kinds, by several threads --- */

static bool is_wanted(const struct conv_kind *k)
{
    const struct conv *v = entry_of(k);
    return v && !v->made;
}

bool conv_wants_plans(const struct gpu_call *c)
{
    struct conv_kind         k;
    const struct tuned_conv *t    = NULL;
    bool                     want = false;
    if (!c->out[0].count || !c->in[0].count) return false;
    if (whole_key(c, &k)) {
        t = recall(c, &k);
        if (tuning_tries_straight(&k, t, false)) want = is_wanted(&k);
        if (t && t->way == WAY_ENGINE) return want;
    }
    k = plain_key(c), t = recall(c, &k);
    if (tuning_tries_straight(&k, t, tuning_tries_low(&k, t))) want |= is_wanted(&k);
    if (tuning_tries_low(&k, t)) {
        k = low_key(k);
        want |= is_wanted(&k);
    }
    return want;
}

struct batch_of_plans {
    struct making   list[CONVS_MAX];
    i64             count;
    struct pool    *pool;
    int             device;
    pthread_mutex_t lock; /* of what lies below */
    pthread_cond_t  more;
    struct conv    *made[CONVS_MAX];
    i64             made_count;
};

static void make_block(void *context, i64 block, i32 worker)
{
    struct batch_of_plans *all = context;
    (void)cudaSetDevice(all->device); /* a thread begins at device 0 */
    make(&all->list[block], worker);
    pthread_mutex_lock(&all->lock);
    all->made[all->made_count++] = all->list[block].v;
    pthread_cond_signal(&all->more);
    pthread_mutex_unlock(&all->lock);
}

static void *make_all(void *context)
{
    struct batch_of_plans *all = context;
    pool_run(all->pool, all->count, make_block, all);
    return NULL;
}

/* The next whose plans are made, once they are. */
static struct conv *next_made(struct batch_of_plans *all, i64 index)
{
    pthread_mutex_lock(&all->lock);
    while (all->made_count <= index) pthread_cond_wait(&all->more, &all->lock);
    struct conv *v = all->made[index];
    pthread_mutex_unlock(&all->lock);
    return v;
}

/* All plans of the list are made, and timed as far as there is memory for it. Making takes seconds of the processor's
 * and timing a second of the GPU's, so one thread times what the others have made. */
static void make_and_time(struct batch_of_plans *all)
{
    struct gpu *gpu = all->list[0].gpu;
    pthread_t   maker;
    void       *memory = NULL;
    i64         bytes  = 0;
    for (i64 i = 0; i < all->count; i++) bytes = MAX(bytes, trial_bytes(&all->list[i].v->key));
    if (cudaMalloc(&memory, (size_t)bytes) != cudaSuccess)
        (void)
            cudaGetLastError(); /* memory is short: they are timed later, in that of the program */
    else cudaMemsetAsync(memory, 0x30, (size_t)bytes, gpu->stream); /* no NaN in any type */
    if (pthread_create(&maker, NULL, make_all, all)) {
        (void)make_all(all);
    } else {
        for (i64 i = 0; i < all->count; i++) {
            struct conv *v = next_made(all, i);
            if (memory) time_plans(gpu, v, memory);
        }
        pthread_join(maker, NULL);
    }
    if (memory) cudaFree(memory);
}

void conv_make_plans(struct gpu *gpu)
{
    struct gpu_call c   = { .gpu = gpu };
    struct arena    own = arena_open(POOL_RESERVE);
    if (!own.begin) return; /* they are made one by one, when each is asked for */
    struct batch_of_plans *all = NEW(&own, struct batch_of_plans, 1);
    /* first those with maps: they are compiled, which takes half a second of a core each */
    for (i32 later = 0; later < 2; later++)
        for (i32 i = 0; i < known_count; i++)
            if (!known[i].made && is_whole(&known[i].key) == !later)
                all->list[all->count++] = making_of(&c, &known[i]);
    if (all->count && cudaGetDevice(&all->device) == cudaSuccess) {
        i64 threads = MIN(MIN(all->count, DNN_THREADS_MAX), pool_machine_threads());
        pthread_mutex_init(&all->lock, NULL);
        pthread_cond_init(&all->more, NULL);
        all->pool = pool_open(&own, (i32)threads);
        make_and_time(all);
        pool_close(all->pool);
        pthread_cond_destroy(&all->more);
        pthread_mutex_destroy(&all->lock);
    }
    arena_close(&own);
}

/* A product of all pixels' channels. */
static bool is_product(const struct conv_kind *k)
{
    return k->KH == 1 && k->KW == 1 && k->stride == 1 && k->pad == 0;
}

static struct product product_of(const struct conv_kind *k)
{
    i64            pixels = k->N * k->H * k->W;
    bool           dx = k->op == OP_CONV2D_GRAD_X, dw = k->op == OP_CONV2D_GRAD_W;
    struct product p;
    memset(&p, 0, sizeof p); /* it is compared as bytes */
    p.M     = dw ? k->O : pixels;
    p.N     = dx || dw ? k->C : k->O;
    p.K     = dw ? pixels : dx ? k->O : k->C;
    p.batch = 1;
    p.ta    = dw;
    p.tb    = !dx && !dw;
    p.in    = (enum dtype)k->in;
    p.out   = (enum dtype)k->out;
    p.bias  = DT_COUNT;
    p.then  = -1;
    return p;
}

/* --- as kernels --- */

/* How one instruction is done: by one of a kind's plans, or by a product. */
struct done_by {
    const struct conv      *conv; /* NULL: the product */
    i32                     plan;
    const struct gemm_plan *product;
    f32                     ms;
};

static bool takes_whole(const struct gpu_call *c)
{
    struct conv_kind k;
    if (!c->out[0].count || !c->in[0].count || !whole_key(c, &k)) return false;
    struct tuned_conv *t = recall(c, &k);
    if (t && t->way == WAY_APART) t->used = true; /* a checkpoint carries what was used */
    return (!t || t->way == WAY_ENGINE) && conv_of(c, k);
}

static bool takes_plain(const struct gpu_call *c)
{
    struct conv_kind k;
    struct ways      w;
    if (!c->out[0].count || !c->in[0].count) return false;
    k = plain_key(c), w = ways_of(c);
    return w.straight || w.low || is_product(&k);
}

static i64 plans_bytes(const struct conv *v)
{
    i64 most = 0;
    for (i32 i = 0; v && i < v->count; i++) most = MAX(most, v->plans[i].work_bytes);
    return room(most);
}

/* The workspace: the result in the low type, the bias in the result's, then what the libraries ask for. Only the last
 * depends on what was chosen so far. */
static i64 low_bytes(const struct gpu_call *c)
{
    bool wide = c->out[0].type.dtype != c->in[0].type.dtype;
    return wide ? room(c->out[0].count * dtype_bytes(c->in[0].type.dtype)) : 0;
}

static i64 own_bytes(const struct gpu_call *c)
{
    return low_bytes(c) + (c->in_count == 3 ? room(c->in[2].count * (i64)sizeof(f32)) : 0);
}

static void *library_work(const struct gpu_call *c) { return (u8 *)c->work + own_bytes(c); }

static i64 work_plain(const struct gpu_call *c)
{
    struct ways      w = ways_of(c);
    struct conv_kind k = plain_key(c);
    struct product   p = product_of(&k);
    return own_bytes(c) + MAX(MAX(plans_bytes(w.straight), plans_bytes(w.low)),
                              is_product(&k) ? gemm_work(&p) : 0);
}

/* The plain one may turn out the faster, unless it was tried. */
static i64 work_whole(const struct gpu_call *c)
{
    struct conv_kind k;
    whole_key(c, &k);
    i64 bytes = own_bytes(c) + plans_bytes(conv_of(c, k));
    return recall(c, &k) ? bytes : MAX(bytes, work_plain(c));
}

struct attempt {
    const struct gpu_call *c;
    struct done_by         by;
};

static bool casts_result(const struct attempt *a)
{
    return a->by.conv && a->by.conv->key.out != (i64)a->c->out[0].type.dtype;
}

static struct gemm_operands product_operands(const struct gpu_call *c)
{
    return (struct gemm_operands){ .alpha = 1,
                                   .a     = c->in[0].data,
                                   .b     = c->in[1].data,
                                   .d     = c->out[0].data,
                                   .work  = library_work(c) };
}

static bool multiply(const struct attempt *a)
{
    struct gemm_operands o = product_operands(a->c);
    gemm_run(a->c->gpu, a->by.product, &o);
    return true;
}

/* conv: x, w; grad_x: dy as X, w; grad_w: dy as W, x */
static bool convolve(const struct attempt *a)
{
    const struct gpu_call  *c                   = a->c;
    const struct conv_kind *k                   = &a->by.conv->key;
    bool                    dw                  = c->op == OP_CONV2D_GRAD_W;
    void                   *result              = casts_result(a) ? c->work : c->out[0].data;
    struct dnn_bound        list[DNN_BOUND_MAX] = { { ID_X, c->in[dw].data },
                                                    { ID_W, c->in[!dw].data },
                                                    { ID_Y, result } };
    i32                     count = 3, operand = c->in_count;
    if (k->bias != DT_COUNT) list[count++] = (struct dnn_bound){ ID_BIAS, c->in[2].data };
    for (i32 i = 0; i < k->map_count; i++) {
        if (k->maps[i] != OP_RELU)
            list[count++] = (struct dnn_bound){ ID_MAP + i, c->in[operand++].data };
    }
    if (!dnn_run(c, &a->by.conv->plans[a->by.plan], list, count, library_work(c))) return false;
    if (casts_result(a))
        launch_cast(c->out[0].data, c->out[0].type.dtype, result, (enum dtype)k->out,
                    c->out[0].count, c->gpu->stream);
    return true;
}

static bool do_it(void *context)
{
    const struct attempt *a = context;
    return a->by.conv ? convolve(a) : multiply(a);
}

static f32 plan_ms(const struct gpu_call *c, struct conv *v, i32 plan)
{
    struct attempt a = { c, { .conv = v, .plan = plan } };
    return gpu_time_ms(c->gpu, do_it, &a);
}

/* A plan that was made again but takes twice as long as when it was chosen is not the one that was chosen. Others
 * take its place, if they can do with the workspace there is. */
static void check_kept(const struct gpu_call *c, struct conv *v)
{
    struct dnn_plan old = v->plans[0];
    f32             ms  = plan_ms(c, v, 0);
    bool            ok  = ms >= 0 && ms <= 2 * v->kept_ms + CLOCK_MS;
    v->kept_ms          = 0;
    if (ok) {
        v->best = 0, v->ms = ms, v->timed = v->noted = true;
        return;
    }
    v->count = make_anew(c->gpu, &v->key, c->work_bytes - own_bytes(c), v->plans, 0);
    if (v->count) dnn_drop(&old);
    else v->plans[0] = old, v->count = 1;
}

/* The clock decides, once a kind. */
static struct done_by best_plan(const struct gpu_call *c, struct conv *v)
{
    if (!v) return (struct done_by){ .ms = -1 };
    if (v->kept_ms > 0) check_kept(c, v);
    for (i32 i = 0; !v->timed && i < v->count; i++) {
        f32 ms = plan_ms(c, v, i);
        if (ms < 0 || (v->best >= 0 && ms >= v->ms)) continue;
        v->best = i;
        v->ms   = ms;
    }
    if (!v->noted && v->best >= 0) keep(c, &v->key, WAY_ENGINE, v->ms, &v->plans[v->best]);
    v->timed = v->noted = true;
    return (struct done_by){ v, v->best, NULL, v->best >= 0 ? v->ms : -1 };
}

static struct done_by by_product(const struct gpu_call *c, const struct conv_kind *k,
                                 struct arena *perm)
{
    struct gemm_operands o = product_operands(c);
    struct attempt       a = { c, { .ms = -1 } };
    if (!is_product(k)) return a.by;
    a.by.product = gemm_plan(c->gpu, product_of(k), &o, perm);
    if (a.by.product) a.by.ms = gpu_time_ms(c->gpu, do_it, &a);
    return a.by;
}

static struct done_by faster(struct done_by a, struct done_by b)
{
    return a.ms < 0 || (b.ms >= 0 && b.ms < a.ms) ? b : a;
}

static struct {
    struct conv_kind key;
    struct done_by   by;
} decided[CONVS_MAX];
static i32 decided_count;

/* A product's plan lives as long as the program that asked for it, so each has its own. */
static struct done_by decided_by(const struct gpu_call *c, const struct conv_kind *k,
                                 struct done_by by, struct arena *perm)
{
    struct gemm_operands o = product_operands(c);
    if (by.conv || by.ms < 0) return by;
    by.product = gemm_plan(c->gpu, product_of(k), &o, perm);
    if (!by.product) by.ms = -1;
    return by;
}

static struct done_by decide(const struct gpu_call *c, struct arena *perm)
{
    struct conv_kind k = plain_key(c);
    struct ways      w = ways_of(c);
    for (i32 i = 0; i < decided_count; i++) {
        if (!memcmp(&decided[i].key, &k, sizeof k)) return decided_by(c, &k, decided[i].by, perm);
    }
    struct tuned_conv *t = recall(c, &k);
    struct done_by     by =
        t && t->way != WAY_PRODUCT ? (struct done_by){ .ms = -1 } : by_product(c, &k, perm);
    by = faster(by, faster(best_plan(c, w.straight), best_plan(c, w.low)));
    if (t) t->used = true;
    else if (by.ms >= 0 && !by.conv) keep(c, &k, WAY_PRODUCT, by.ms, NULL);
    else if (by.ms >= 0 && by.conv == w.low) keep(c, &k, WAY_LOW, by.ms, NULL);
    if (decided_count < CONVS_MAX) {
        decided[decided_count].key  = k;
        decided[decided_count++].by = by;
    }
    return by;
}

static void *kept(struct done_by by, struct arena *perm)
{
    if (by.ms < 0) return NULL;
    struct done_by *to = NEW(perm, struct done_by, 1);
    *to                = by;
    return to;
}

static void *plan_plain(const struct gpu_call *c, struct arena *perm)
{
    return kept(decide(c, perm), perm);
}

static bool launch_chain(void *context)
{
    gpu_kernel_chain.run(context);
    return cudaGetLastError() == cudaSuccess;
}

/* Milliseconds of the maps in a pass of their own. */
static f32 chain_ms(const struct gpu_call *c)
{
    struct tensor   in[1 + THEN_MAX] = { c->out[0] };
    struct gpu_call maps             = *c;
    for (i32 i = 0, n = op_then_inputs(c->at); i < n; i++) in[1 + i] = c->in[c->in_count + i];
    maps.in = in;
    return gpu_time_ms(c->gpu, launch_chain, &maps);
}

/* All in one, if that is faster than one after the other. */
static void *plan_whole(const struct gpu_call *c, struct arena *perm)
{
    struct conv_kind k;
    whole_key(c, &k);
    bool           known_kind = recall(c, &k);
    struct done_by whole      = best_plan(c, conv_of(c, k));
    struct done_by plain =
        known_kind || c->in_count == 3 ? (struct done_by){ .ms = -1 } : decide(c, perm);
    if (plain.ms >= 0 && whole.ms >= 0) {
        f32 maps = chain_ms(c);
        if (maps >= 0 && plain.ms + maps < whole.ms) {
            keep(c, &k, WAY_APART, plain.ms + maps, NULL);
            return NULL;
        }
    }
    return kept(whole, perm);
}

static void run(const struct gpu_call *c)
{
    struct attempt a = { c, *(const struct done_by *)c->plan };
    if (!do_it(&a)) assert_failed("cuDNN's convolution runs", __FILE__, __LINE__);
}

/* y += bias, one number a channel, by the kernel of op add. */
static void add_bias(const struct gpu_call *c)
{
    struct tensor   y = c->out[0], bias = c->in[2], in[2];
    struct gpu_call add = {
        .op = OP_ADD, .at = c->at, .in = in, .in_count = 2, .out = &y, .gpu = c->gpu
    };
    if (bias.type.dtype != y.type.dtype) {
        u8 *cast = (u8 *)c->work + low_bytes(c);
        launch_cast(cast, y.type.dtype, bias.data, bias.type.dtype, bias.count, c->gpu->stream);
        bias.data       = cast;
        bias.type.dtype = y.type.dtype;
    }
    in[0] = y, in[1] = bias;
    gpu_kernel_choose(&add)->run(&add);
}

static void run_plain(const struct gpu_call *c)
{
    run(c);
    if (c->in_count == 3) add_bias(c);
}

extern const struct gpu_kernel gpu_kernels_conv[];
const struct gpu_kernel        gpu_kernels_conv[] = {
           { OP_CONV2D, "cudnn_fused", takes_whole, run, work_whole, plan_whole, DOES_CHAIN },
           { OP_CONV2D, "cudnn", takes_plain, run_plain, work_plain, plan_plain, 0 },
           { OP_CONV2D_GRAD_X, "cudnn_fused", takes_whole, run, work_whole, plan_whole, DOES_CHAIN },
           { OP_CONV2D_GRAD_X, "cudnn", takes_plain, run_plain, work_plain, plan_plain, 0 },
           { OP_CONV2D_GRAD_W, "cudnn", takes_plain, run_plain, work_plain, plan_plain, 0 },
};
extern const i32 gpu_kernels_conv_count;
const i32        gpu_kernels_conv_count = (i32)COUNT_OF(gpu_kernels_conv);
