/* pool_impl.h - the largest and the mean of windows of an image, and their gradients. Channels lie
 * in vectors; a block of work is one row of results (of one image, for maxpool's gradient: there
 * the index may point anywhere in it). */
#include "backend/cpu/fast/simd.h"
#include "backend/cpu/kernel.h"

struct pooling {
    i64        kernel, stride, pad;
    i64        channels;
    i64        h, w;       /* of the image */
    i64        rows, cols; /* of the results: windows */
    const f32 *from;
    const i32 *index;
    f32       *to;
    i32       *to_index;
};

/* x: the image or its gradient, y: one value a window. */
static struct pooling pooling_of(const struct call *c, const struct tensor *x,
                                 const struct tensor *y)
{
    const i64 *image = x->type.shape.dim, *windows = y->type.shape.dim;
    return (struct pooling){ .kernel   = c->at->kernel,
                             .stride   = c->at->stride,
                             .pad      = c->at->pad,
                             .channels = image[3],
                             .h        = image[1],
                             .w        = image[2],
                             .rows     = windows[1],
                             .cols     = windows[2],
                             .from     = c->in[0].data,
                             .to       = c->out[0].data };
}

static bool takes(const struct call *c)
{
    return c->in[0].type.dtype == DT_F32 && c->out[0].type.dtype == DT_F32;
}

/* Coordinates [first, end) along one axis. */
struct range {
    i64 first, end;
};

/* Pixels of window i that lie in the image. */
static struct range pixels_of(const struct pooling *p, i64 i, i64 size)
{
    i64 at = i * p->stride - p->pad;
    return (struct range){ MAX(0, at), MIN(size, at + p->kernel) };
}

/* Windows that hold pixel i. */
static struct range windows_of(const struct pooling *p, i64 i, i64 count)
{
    i64 past = i + p->pad - p->kernel; /* windows that begin here or before end too early */
    return (struct range){ past < 0 ? 0 : past / p->stride + 1,
                           MIN(count, (i + p->pad) / p->stride + 1) };
}

V_INLINE vf get(const f32 *p, i64 lanes)
{
    return lanes == V_LANES ? v_load(p) : v_load_n(p, lanes);
}

V_INLINE void put(f32 *p, vf v, i64 lanes)
{
    if (lanes == V_LANES) v_store(p, v);
    else v_store_n(p, v, lanes);
}

/* ---- the largest ---- */

static void max_window(const struct pooling *p, i64 image, struct range ys, struct range xs,
                       i64 out)
{
    vi steps;
    for (i32 i = 0; i < V_LANES; i++) steps[i] = i;
    for (i64 c = 0; c < p->channels; c += V_LANES) {
        i64        lanes = MIN(V_LANES, p->channels - c);
        const f32 *from  = p->from + image * p->h * p->w * p->channels;
        i64        first = (ys.first * p->w + xs.first) * p->channels + c;
        vf         best  = get(from + first, lanes);
        vi         index = v_set_i((i32)first);
        for (i64 y = ys.first; y < ys.end; y++)
            for (i64 x = xs.first; x < xs.end; x++) {
                i64 at     = (y * p->w + x) * p->channels + c;
                vf  v      = get(from + at, lanes);
                vi  larger = v > best;
                best       = v_select(larger, v, best);
                index      = (larger & v_set_i((i32)at)) | (~larger & index);
            }
        index += steps;
        put(p->to + out + c, best, lanes);
        memcpy(p->to_index + out + c, &index, (size_t)lanes * sizeof(i32));
    }
}

static void max_row(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct pooling *p  = context;
    struct range          ys = pixels_of(p, block % p->rows, p->h);
    for (i64 x = 0; x < p->cols; x++)
        max_window(p, block / p->rows, ys, pixels_of(p, x, p->w),
                   (block * p->cols + x) * p->channels);
}

static void maxpool(const struct call *c)
{
    struct pooling p = pooling_of(c, &c->in[0], &c->out[0]);
    p.to_index       = c->out[1].data;
    pool_run(c->pool, c->in[0].type.shape.dim[0] * p.rows, max_row, &p);
}

static void max_grad_image(void *context, i64 image, i32 worker)
{
    (void)worker;
    const struct pooling *p = context;
    i64  pixels = p->h * p->w * p->channels, windows = p->rows * p->cols * p->channels;
    f32 *to = p->to + image * pixels;
    memset(to, 0, (size_t)pixels * sizeof *to);
    for (i64 i = image * windows; i < (image + 1) * windows; i++) {
        ASSERT(p->index[i] >= 0);
        ASSERT(p->index[i] < pixels);
        to[p->index[i]] += p->from[i];
    }
}

static void maxpool_grad(const struct call *c)
{
    struct pooling p = pooling_of(c, &c->out[0], &c->in[0]);
    p.index          = c->in[1].data;
    pool_run(c->pool, c->out[0].type.shape.dim[0], max_grad_image, &p);
}

/* ---- the mean ---- */

/* to[0..channels) = factor * the sum over a rectangle of `from`, an image `wide` pixels wide. */
static void mean_of(const struct pooling *p, const f32 *from, i64 wide, struct range ys,
                    struct range xs, f32 *to)
{
    vf factor = v_set(1 / (f32)(p->kernel * p->kernel));
    for (i64 c = 0; c < p->channels; c += V_LANES) {
        i64 lanes = MIN(V_LANES, p->channels - c);
        vf  sum   = v_zero();
        for (i64 y = ys.first; y < ys.end; y++)
            for (i64 x = xs.first; x < xs.end; x++)
                sum += get(from + (y * wide + x) * p->channels + c, lanes);
        put(to + c, sum * factor, lanes);
    }
}

static void mean_row(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct pooling *p    = context;
    const f32            *from = p->from + block / p->rows * p->h * p->w * p->channels;
    struct range          ys   = pixels_of(p, block % p->rows, p->h);
    for (i64 x = 0; x < p->cols; x++)
        mean_of(p, from, p->w, ys, pixels_of(p, x, p->w),
                p->to + (block * p->cols + x) * p->channels);
}

static void mean_grad_row(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct pooling *p    = context;
    const f32            *from = p->from + block / p->h * p->rows * p->cols * p->channels;
    struct range          ys   = windows_of(p, block % p->h, p->rows);
    for (i64 x = 0; x < p->w; x++)
        mean_of(p, from, p->cols, ys, windows_of(p, x, p->cols),
                p->to + (block * p->w + x) * p->channels);
}

static void avgpool(const struct call *c)
{
    struct pooling p = pooling_of(c, &c->in[0], &c->out[0]);
    pool_run(c->pool, c->in[0].type.shape.dim[0] * p.rows, mean_row, &p);
}

static void avgpool_grad(const struct call *c)
{
    struct pooling p = pooling_of(c, &c->out[0], &c->in[0]);
    pool_run(c->pool, c->out[0].type.shape.dim[0] * p.h, mean_grad_row, &p);
}

const struct kernel ISA_FN(kernels_pool)[] = {
    { OP_MAXPOOL, ISA_NAME, ISA_HERE, takes, maxpool, NULL },
    { OP_MAXPOOL_GRAD, ISA_NAME, ISA_HERE, takes, maxpool_grad, NULL },
    { OP_AVGPOOL, ISA_NAME, ISA_HERE, takes, avgpool, NULL },
    { OP_AVGPOOL_GRAD, ISA_NAME, ISA_HERE, takes, avgpool_grad, NULL },
};
const i32 ISA_COUNT(kernels_pool) = (i32)COUNT_OF(ISA_FN(kernels_pool));
