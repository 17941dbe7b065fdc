/* pool_impl.h - the largest and the mean of windows of an image, and their gradients. Channels lie
 * in vectors; a block of work is one row of results (of one image, for maxpool's gradient: there
 * the index may point anywhere in it). */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/storage.h"

enum { SHARES_MAX = 32 }; /* of the images, for maxpool's gradient below f32 */

struct pooling {
    i64         kernel, stride, pad;
    i64         channels;
    i64         images, h, w; /* how many, and their sizes */
    i64         rows, cols;   /* of the results: windows */
    const void *from;
    const i32  *index;
    void       *to;
    i32        *to_index;
    f32        *sums; /* [shares][h][w][channels]: an image that is being summed */
    i64         shares;
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
                             .images   = image[0],
                             .h        = image[1],
                             .w        = image[2],
                             .rows     = windows[1],
                             .cols     = windows[2],
                             .from     = c->in[0].data,
                             .to       = c->out[0].data };
}

static void pooling_run(const struct call *c, i64 blocks, pool_fn *const *fn, struct pooling *p)
{
    pool_run(c->pool, blocks, fn[fast_storage(c)], p);
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

/* ---- the largest ---- */

V_INLINE void max_window(const struct pooling *p, i64 image, struct range ys, struct range xs,
                         i64 out, const enum dtype t)
{
    vi          steps;
    const void *from = v_at(p->from, image * p->h * p->w * p->channels, t);
    for (i32 i = 0; i < V_LANES; i++) steps[i] = i;
    for (i64 c = 0; c < p->channels; c += V_LANES) {
        vm  m     = v_first(MIN(V_LANES, p->channels - c));
        i64 first = (ys.first * p->w + xs.first) * p->channels + c;
        vf  best  = v_get(from, first, m, t);
        vi  index = v_set_i((i32)first);
        for (i64 y = ys.first; y < ys.end; y++)
            for (i64 x = xs.first; x < xs.end; x++) {
                i64 at     = (y * p->w + x) * p->channels + c;
                vf  v      = v_get(from, at, m, t);
                vi  larger = v > best;
                best       = v_select(larger, v, best);
                index      = (larger & v_set_i((i32)at)) | (~larger & index);
            }
        index += steps;
        v_put(p->to, out + c, best, m, t);
        memcpy(p->to_index + out + c, &index, (size_t)m.lanes * sizeof(i32));
    }
}

V_INLINE void max_row(const struct pooling *p, i64 block, const enum dtype t)
{
    struct range ys = pixels_of(p, block % p->rows, p->h);
    for (i64 x = 0; x < p->cols; x++)
        max_window(p, block / p->rows, ys, pixels_of(p, x, p->w),
                   (block * p->cols + x) * p->channels, t);
}

BY_STORAGE(max_row)

static void maxpool(const struct call *c)
{
    struct pooling p = pooling_of(c, &c->in[0], &c->out[0]);
    p.to_index       = c->out[1].data;
    pooling_run(c, p.images * p.rows, max_row_by, &p);
}

/* to[0 .. pixels) = the sums of what the windows of one image give them. */
V_INLINE void max_grad_image(const struct pooling *p, i64 image, f32 *to, i64 pixels,
                             const enum dtype t)
{
    i64 windows = p->rows * p->cols * p->channels, i = image * windows, end = i + windows;
    memset(to, 0, (size_t)pixels * sizeof *to);
    for (; i < end; i += V_LANES) {
        vm  m = v_first(MIN(end - i, V_LANES));
        f32 d[V_LANES];
        v_store(d, v_get(p->from, i, m, t));
        for (i64 k = 0; k < m.lanes; k++) {
            ASSERT(p->index[i + k] >= 0);
            ASSERT(p->index[i + k] < pixels);
            to[p->index[i + k]] += d[k];
        }
    }
}

/* Every shares-th image. Windows may overlap: below f32 the sums are kept in f32 until they are rounded. */
V_INLINE void max_grad_share(const struct pooling *p, i64 share, const enum dtype t)
{
    i64 pixels = p->h * p->w * p->channels;
    for (i64 image = share; image < p->images; image += p->shares) {
        i64  at = image * pixels;
        f32 *to = t == DT_F32 ? (f32 *)p->to + at : p->sums + share * pixels;
        max_grad_image(p, image, to, pixels, t);
        for (i64 i = 0; t != DT_F32 && i < pixels; i += V_LANES) {
            vm m = v_first(MIN(pixels - i, V_LANES));
            v_put(p->to, at + i, v_load_m(to + i, m), m, t);
        }
    }
}

BY_STORAGE(max_grad_share)

static struct pooling max_grad_of(const struct call *c)
{
    struct pooling p = pooling_of(c, &c->out[0], &c->in[0]);
    p.index          = c->in[1].data;
    p.sums           = c->work;
    p.shares         = c->in[0].type.dtype == DT_F32 ? p.images : MIN(p.images, SHARES_MAX);
    return p;
}

static i64 maxpool_grad_work(const struct call *c)
{
    struct pooling p = max_grad_of(c);
    if (c->in[0].type.dtype == DT_F32) return 0;
    return p.shares * p.h * p.w * p.channels * (i64)sizeof(f32);
}

static void maxpool_grad(const struct call *c)
{
    struct pooling p = max_grad_of(c);
    pooling_run(c, p.shares, max_grad_share_by, &p);
}

/* ---- the mean ---- */

/* to[at .. at + channels) = factor * the sum over a rectangle of `from`, an image `wide` wide. */
V_INLINE void mean_of(const struct pooling *p, const void *from, i64 wide, struct range ys,
                      struct range xs, i64 at, const enum dtype t)
{
    vf factor = v_set(1 / (f32)(p->kernel * p->kernel));
    for (i64 c = 0; c < p->channels; c += V_LANES) {
        vm m   = v_first(MIN(V_LANES, p->channels - c));
        vf sum = v_zero();
        for (i64 y = ys.first; y < ys.end; y++)
            for (i64 x = xs.first; x < xs.end; x++)
                sum += v_get(from, (y * wide + x) * p->channels + c, m, t);
        v_put(p->to, at + c, sum * factor, m, t);
    }
}

V_INLINE void mean_row(const struct pooling *p, i64 block, const enum dtype t)
{
    const void  *from = v_at(p->from, block / p->rows * p->h * p->w * p->channels, t);
    struct range ys   = pixels_of(p, block % p->rows, p->h);
    for (i64 x = 0; x < p->cols; x++)
        mean_of(p, from, p->w, ys, pixels_of(p, x, p->w), (block * p->cols + x) * p->channels, t);
}

V_INLINE void mean_grad_row(const struct pooling *p, i64 block, const enum dtype t)
{
    const void  *from = v_at(p->from, block / p->h * p->rows * p->cols * p->channels, t);
    struct range ys   = windows_of(p, block % p->h, p->rows);
    for (i64 x = 0; x < p->w; x++)
        mean_of(p, from, p->cols, ys, windows_of(p, x, p->cols), (block * p->w + x) * p->channels,
                t);
}

BY_STORAGE(mean_row)
BY_STORAGE(mean_grad_row)

static void avgpool(const struct call *c)
{
    struct pooling p = pooling_of(c, &c->in[0], &c->out[0]);
    pooling_run(c, p.images * p.rows, mean_row_by, &p);
}

static void avgpool_grad(const struct call *c)
{
    struct pooling p = pooling_of(c, &c->out[0], &c->in[0]);
    pooling_run(c, p.images * p.h, mean_grad_row_by, &p);
}

const struct kernel ISA_FN(kernels_pool)[] = {
    { OP_MAXPOOL, ISA_NAME, ISA_HERE, stored, maxpool, NULL },
    { OP_MAXPOOL_GRAD, ISA_NAME, ISA_HERE, stored, maxpool_grad, maxpool_grad_work },
    { OP_AVGPOOL, ISA_NAME, ISA_HERE, stored, avgpool, NULL },
    { OP_AVGPOOL_GRAD, ISA_NAME, ISA_HERE, stored, avgpool_grad, NULL },
};
const i32 ISA_COUNT(kernels_pool) = (i32)COUNT_OF(ISA_FN(kernels_pool));
