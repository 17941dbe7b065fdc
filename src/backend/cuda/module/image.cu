/* image.cu - convolution and pooling of images [N,H,W,C], a thread a result or a run of channels.
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
    return { x.dim[0], x.dim[1], x.dim[2], x.dim[3],      y.dim[1],  y.dim[2],
             y.dim[3], w.dim[1], w.dim[2], c->at->stride, c->at->pad };
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
    return { x.dim[0], x.dim[1],      x.dim[2],      x.dim[3],      y.dim[1],  y.dim[2],
             y.dim[3], c->at->kernel, c->at->kernel, c->at->stride, c->at->pad };
}

/* A block has runs of N neighbouring channels along one row of pixels: rows in grid.x, which alone may be large. */
template <int N> struct place {
    int        row, column, channel; /* the row is that of all samples' pixels */
    bool       inside;
    __device__ place(int columns, int channels)
    {
        int runs = channels / N, i = (int)(blockIdx.y * THREADS + threadIdx.x);
        row     = (int)blockIdx.x;
        column  = i / runs;
        channel = i % runs * N;
        inside  = column < columns;
    }
};

static dim3 places(i64 rows, i64 columns, i64 runs)
{
    return dim3((unsigned)rows, (unsigned)div_up(columns * runs, THREADS));
}

template <int N, class T, bool MAXIMUM>
__global__ void pool(T *y, i32 *index, const T *x, struct sizes s)
{
    place<N> p((int)s.OW, (int)s.C);
    if (!p.inside) return;
    int oh = p.row % (int)s.OH, top = oh * (int)s.stride - (int)s.pad,
        left = p.column * (int)s.stride - (int)s.pad;
    i32 best[N];
    f32 most[N] = {}, sum[N] = {};
#pragma unroll
    for (int k = 0; k < N; k++) best[k] = -1;
    x += (i64)(p.row / (int)s.OH) * s.H * s.W * s.C;
    for (int h = max(top, 0); h < min(top + (int)s.KH, (int)s.H); h++) {
        for (int w = max(left, 0); w < min(left + (int)s.KW, (int)s.W); w++) {
            i64         at = ((i64)h * s.W + w) * s.C + p.channel;
            chunk<N, T> v;
            v.load(x + at);
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (!MAXIMUM) sum[k] += v[k];
                else if (best[k] < 0 || v[k] > most[k]) most[k] = v[k], best[k] = (i32)at + k;
            }
        }
    }
    i64 to = ((i64)p.row * s.OW + p.column) * s.C + p.channel;
#pragma unroll
    for (int k = 0; k < N; k++) sum[k] /= (f32)(s.KH * s.KW);
    store_f32<N>(y + to, MAXIMUM ? most : sum);
    if constexpr (MAXIMUM) {
        u32 w[N];
        memcpy(w, best, sizeof w);
        store_words<N>((u32 *)index + to, w);
    }
}

/* First and last window that holds coordinate x; none if first > last. */
__device__ inline int first_window(const struct sizes &s, int x)
{
    int past = x + (int)(s.pad - s.KH); /* windows that begin here or before end too early */
    return past < 0 ? 0 : past / (int)s.stride + 1;
}
__device__ inline int last_window(const struct sizes &s, int x, i64 count)
{
    return min((int)count - 1, (x + (int)s.pad) / (int)s.stride);
}

/* Every window that holds the pixel is asked whether it chose it: no two threads write one place. Without an index
 * all of them have their share. */
template <int N, class T, bool MAXIMUM>
__global__ void pool_grad(T *dx, const T *dy, const i32 *index, struct sizes s)
{
    place<N> p((int)s.W, (int)s.C);
    if (!p.inside) return;
    int h = p.row % (int)s.H, n = p.row / (int)s.H;
    i32 inside = (i32)(((i64)h * s.W + p.column) * s.C) + p.channel;
    f32 sum[N] = {};
    for (int oh = first_window(s, h); oh <= last_window(s, h, s.OH); oh++) {
        for (int ow = first_window(s, p.column); ow <= last_window(s, p.column, s.OW); ow++) {
            i64           at = (((i64)n * s.OH + oh) * s.OW + ow) * s.C + p.channel;
            chunk<N, T>   d;
            chunk<N, i32> chosen;
            d.load(dy + at);
            if (MAXIMUM) chosen.load(index + at);
#pragma unroll
            for (int k = 0; k < N; k++)
                if (!MAXIMUM || chosen.v[k] == inside + k) sum[k] += d[k];
        }
    }
#pragma unroll
    for (int k = 0; k < N; k++) sum[k] /= MAXIMUM ? 1 : (f32)(s.KH * s.KW);
    store_f32<N>(dx + ((i64)p.row * s.W + p.column) * s.C + p.channel, sum);
}

/* Calls f(T(), N): as many channels at once as their count allows. */
template <class F> static void by_channels(const struct tensor &x, i64 channels, F f)
{
    with_type(x.type.dtype, [&](auto t) {
        constexpr int N = 16 / sizeof t;
        if (channels % N == 0) f(t, std::integral_constant<int, N>());
        else f(t, std::integral_constant<int, 1>());
    });
}

template <bool MAXIMUM> static void run_pool(const struct gpu_call *c)
{
    struct sizes s = pool_sizes(c, c->in[0].type.shape, c->out[0].type.shape);
    if (!c->out[0].count) return;
    by_channels(c->in[0], s.C, [&](auto t, auto n) {
        typedef decltype(t) T;
        constexpr int       N = decltype(n)::value;
        pool<N, T, MAXIMUM><<<places(s.N * s.OH, s.OW, s.C / N), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), MAXIMUM ? data_of<i32>(c->out[1]) : NULL, data_of<T>(c->in[0]),
            s);
    });
}

template <bool MAXIMUM> static void run_pool_grad(const struct gpu_call *c)
{
    struct sizes s = pool_sizes(c, c->out[0].type.shape, c->in[0].type.shape);
    if (!c->out[0].count) return;
    by_channels(c->in[0], s.C, [&](auto t, auto n) {
        typedef decltype(t) T;
        constexpr int       N = decltype(n)::value;
        pool_grad<N, T, MAXIMUM><<<places(s.N * s.H, s.W, s.C / N), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), MAXIMUM ? data_of<i32>(c->in[1]) : NULL,
            s);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_image[] = {
    { OP_CONV2D, "cuda_naive", NULL, run_CONV2D, NULL, NULL, 0 },
    { OP_CONV2D_GRAD_X, "cuda_naive", NULL, run_CONV2D_GRAD_X, NULL, NULL, 0 },
    { OP_CONV2D_GRAD_W, "cuda_naive", NULL, run_CONV2D_GRAD_W, NULL, NULL, 0 },
    { OP_MAXPOOL, "cuda", NULL, run_pool<true>, NULL, NULL, 0 },
    { OP_MAXPOOL_GRAD, "cuda", NULL, run_pool_grad<true>, NULL, NULL, 0 },
    { OP_AVGPOOL, "cuda", NULL, run_pool<false>, NULL, NULL, 0 },
    { OP_AVGPOOL_GRAD, "cuda", NULL, run_pool_grad<false>, NULL, NULL, 0 },
};
GPU_FAMILY(image)
