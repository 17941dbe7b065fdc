/* image.cu - convolution and pooling of images [N,H,W,C], a thread a result.
 *
 * The convolutions are right for every shape and slow: they stand behind conv.c. Pooling is as fast as
 * memory this way; the library's would give another index than our op has.
 *
 * Result pixel (oh, ow) and tap (kh, kw) meet image pixel (oh stride - pad + kh, ow stride - pad
 * + kw). Each kernel fixes two of the three and sums over the rest. */
#include "backend/cuda/module/device.cuh"

enum { THREADS = 128 };

struct sizes { /* image, result, weight */
    i64 N, H, W, C, OH, OW, O, KH, KW, stride, pad;
};

static struct sizes conv_sizes(const struct gpu_call *c, struct shape x, struct shape w,
                               struct shape y)
{
    return { x.dim[0], x.dim[1], x.dim[2], x.dim[3], y.dim[1], y.dim[2], y.dim[3],
             w.dim[1], w.dim[2], c->at->stride, c->at->pad };
}

template <class T, class R, class B>
__global__ void conv2d(R *y, const T *x, const T *w, const B *bias, struct sizes s, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    i64 o = i % s.O, ow = i / s.O % s.OW, oh = i / s.O / s.OW % s.OH, n = i / s.O / s.OW / s.OH;
    f32 sum = bias ? to_f32(bias[o]) : 0;
    for (i64 kh = 0; kh < s.KH; kh++) {
        i64 h = oh * s.stride - s.pad + kh;
        if (h < 0 || h >= s.H) continue;
        for (i64 kw = 0; kw < s.KW; kw++) {
            i64 v = ow * s.stride - s.pad + kw;
            if (v < 0 || v >= s.W) continue;
            const T *px = x + ((n * s.H + h) * s.W + v) * s.C;
            const T *pw = w + ((o * s.KH + kh) * s.KW + kw) * s.C;
            for (i64 k = 0; k < s.C; k++) sum += to_f32(px[k]) * to_f32(pw[k]);
        }
    }
    y[i] = from_f32<R>(sum);
}

template <class T>
__global__ void conv2d_grad_x(T *dx, const T *dy, const T *w, struct sizes s, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    i64 k = i % s.C, v = i / s.C % s.W, h = i / s.C / s.W % s.H, n = i / s.C / s.W / s.H;
    f32 sum = 0;
    for (i64 kh = 0; kh < s.KH; kh++) {
        i64 a = h + s.pad - kh;
        if (a < 0 || a % s.stride || a / s.stride >= s.OH) continue;
        for (i64 kw = 0; kw < s.KW; kw++) {
            i64 b = v + s.pad - kw;
            if (b < 0 || b % s.stride || b / s.stride >= s.OW) continue;
            const T *py = dy + ((n * s.OH + a / s.stride) * s.OW + b / s.stride) * s.O;
            for (i64 o = 0; o < s.O; o++)
                sum += to_f32(py[o]) * to_f32(w[((o * s.KH + kh) * s.KW + kw) * s.C + k]);
        }
    }
    dx[i] = from_f32<T>(sum);
}

/* A block a weight: its threads take the pixels in turn. */
template <class T, class R>
__global__ void conv2d_grad_w(R *dw, const T *dy, const T *x, struct sizes s)
{
    i64 i = blockIdx.x;
    i64 k = i % s.C, kw = i / s.C % s.KW, kh = i / s.C / s.KW % s.KH, o = i / s.C / s.KW / s.KH;
    f32 sum = 0;
    for (i64 pixel = threadIdx.x; pixel < s.N * s.OH * s.OW; pixel += THREADS) {
        i64 ow = pixel % s.OW, oh = pixel / s.OW % s.OH, n = pixel / s.OW / s.OH;
        i64 h = oh * s.stride - s.pad + kh, v = ow * s.stride - s.pad + kw;
        if (h < 0 || h >= s.H || v < 0 || v >= s.W) continue;
        sum += to_f32(dy[pixel * s.O + o]) * to_f32(x[((n * s.H + h) * s.W + v) * s.C + k]);
    }
    sum = block_sum(sum);
    if (!threadIdx.x) dw[i] = from_f32<R>(sum);
}

static unsigned blocks_of(i64 count) { return (unsigned)div_up(count, THREADS); }

static void run_CONV2D(const struct gpu_call *c)
{
    struct sizes s = conv_sizes(c, c->in[0].type.shape, c->in[1].type.shape, c->out[0].type.shape);
    i64          count = c->out[0].count;
    if (!count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        with_type(c->out[0].type.dtype, [&](auto r) {
            with_type(c->in_count == 3 ? c->in[2].type.dtype : DT_F32, [&](auto b) {
                typedef decltype(t) T;
                typedef decltype(r) R;
                typedef decltype(b) B;
                conv2d<T, R, B><<<blocks_of(count), THREADS, 0, c->gpu->stream>>>(
                    data_of<R>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]),
                    c->in_count == 3 ? data_of<B>(c->in[2]) : NULL, s, count);
            });
        });
    });
}

static void run_CONV2D_GRAD_X(const struct gpu_call *c)
{
    struct sizes s = conv_sizes(c, c->out[0].type.shape, c->in[1].type.shape, c->in[0].type.shape);
    i64          count = c->out[0].count;
    if (!count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        conv2d_grad_x<T><<<blocks_of(count), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]), s, count);
    });
}

static void run_CONV2D_GRAD_W(const struct gpu_call *c)
{
    struct sizes s = conv_sizes(c, c->in[1].type.shape, c->out[0].type.shape, c->in[0].type.shape);
    if (!c->out[0].count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        with_type(c->out[0].type.dtype, [&](auto r) {
            typedef decltype(t) T;
            typedef decltype(r) R;
            conv2d_grad_w<T, R><<<(unsigned)c->out[0].count, THREADS, 0, c->gpu->stream>>>(
                data_of<R>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]), s);
        });
    });
}

/* --- pooling --- */

static struct sizes pool_sizes(const struct gpu_call *c, struct shape x, struct shape y)
{
    return { x.dim[0], x.dim[1], x.dim[2], x.dim[3], y.dim[1], y.dim[2], y.dim[3],
             c->at->kernel, c->at->kernel, c->at->stride, c->at->pad };
}

template <class T, bool MAXIMUM>
__global__ void pool(T *y, i32 *index, const T *x, struct sizes s, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    i64 k = i % s.C, ow = i / s.C % s.OW, oh = i / s.C / s.OW % s.OH, n = i / s.C / s.OW / s.OH;
    i64 best = -1;
    f32 top = 0, sum = 0;
    x += n * s.H * s.W * s.C;
    for (i64 kh = 0; kh < s.KH; kh++) {
        i64 h = oh * s.stride - s.pad + kh;
        if (h < 0 || h >= s.H) continue;
        for (i64 kw = 0; kw < s.KW; kw++) {
            i64 v = ow * s.stride - s.pad + kw, at = (h * s.W + v) * s.C + k;
            if (v < 0 || v >= s.W) continue;
            f32 value = to_f32(x[at]);
            sum += value;
            if (best < 0 || value > top) top = value, best = at;
        }
    }
    y[i] = from_f32<T>(MAXIMUM ? top : sum / (f32)(s.KH * s.KW));
    if (MAXIMUM) index[i] = (i32)best;
}

/* First and last window that holds coordinate x; none if first > last. */
__device__ inline i64 first_window(const struct sizes &s, i64 x)
{
    i64 past = x + s.pad - s.KH; /* windows that begin here or before end too early */
    return past < 0 ? 0 : past / s.stride + 1;
}
__device__ inline i64 last_window(const struct sizes &s, i64 x, i64 count)
{
    return min(count - 1, (x + s.pad) / s.stride);
}

/* Every window that holds the pixel is asked whether it chose it: no two threads write one place. */
template <class T>
__global__ void maxpool_grad(T *dx, const T *dy, const i32 *index, struct sizes s, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    i64 k = i % s.C, w = i / s.C % s.W, h = i / s.C / s.W % s.H, n = i / s.C / s.W / s.H;
    i64 inside = (h * s.W + w) * s.C + k;
    f32 sum    = 0;
    for (i64 oh = first_window(s, h); oh <= last_window(s, h, s.OH); oh++) {
        for (i64 ow = first_window(s, w); ow <= last_window(s, w, s.OW); ow++) {
            i64 at = ((n * s.OH + oh) * s.OW + ow) * s.C + k;
            if (index[at] == inside) sum += to_f32(dy[at]);
        }
    }
    dx[i] = from_f32<T>(sum);
}

template <class T> __global__ void avgpool_grad(T *dx, const T *dy, struct sizes s, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    i64 k = i % s.C, w = i / s.C % s.W, h = i / s.C / s.W % s.H, n = i / s.C / s.W / s.H;
    f32 sum = 0;
    for (i64 oh = first_window(s, h); oh <= last_window(s, h, s.OH); oh++) {
        for (i64 ow = first_window(s, w); ow <= last_window(s, w, s.OW); ow++)
            sum += to_f32(dy[((n * s.OH + oh) * s.OW + ow) * s.C + k]);
    }
    dx[i] = from_f32<T>(sum / (f32)(s.KH * s.KW));
}

template <bool MAXIMUM> static void run_pool(const struct gpu_call *c)
{
    struct sizes s     = pool_sizes(c, c->in[0].type.shape, c->out[0].type.shape);
    i64          count = c->out[0].count;
    if (!count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        pool<T, MAXIMUM><<<blocks_of(count), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), MAXIMUM ? data_of<i32>(c->out[1]) : NULL, data_of<T>(c->in[0]),
            s, count);
    });
}

static void run_MAXPOOL_GRAD(const struct gpu_call *c)
{
    struct sizes s     = pool_sizes(c, c->out[0].type.shape, c->in[0].type.shape);
    i64          count = c->out[0].count;
    if (!count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        maxpool_grad<T><<<blocks_of(count), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<i32>(c->in[1]), s, count);
    });
}

static void run_AVGPOOL_GRAD(const struct gpu_call *c)
{
    struct sizes s     = pool_sizes(c, c->out[0].type.shape, c->in[0].type.shape);
    i64          count = c->out[0].count;
    if (!count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        avgpool_grad<T><<<blocks_of(count), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), s, count);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_image[] = {
    { OP_CONV2D, "cuda_naive", NULL, run_CONV2D, NULL, NULL, 0 },
    { OP_CONV2D_GRAD_X, "cuda_naive", NULL, run_CONV2D_GRAD_X, NULL, NULL, 0 },
    { OP_CONV2D_GRAD_W, "cuda_naive", NULL, run_CONV2D_GRAD_W, NULL, NULL, 0 },
    { OP_MAXPOOL, "cuda", NULL, run_pool<true>, NULL, NULL, 0 },
    { OP_MAXPOOL_GRAD, "cuda", NULL, run_MAXPOOL_GRAD, NULL, NULL, 0 },
    { OP_AVGPOOL, "cuda", NULL, run_pool<false>, NULL, NULL, 0 },
    { OP_AVGPOOL_GRAD, "cuda", NULL, run_AVGPOOL_GRAD, NULL, NULL, 0 },
};
GPU_FAMILY(image)
