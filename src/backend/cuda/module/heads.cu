/* heads.cu - what is done to query and key heads before attention: rotary positions and norms. x is
 * [B, T, heads of D numbers]; only the first `heads` of them are changed. */
#include "backend/cuda/module/device.cuh"

enum { WARPS = 8, THREADS = 32 * WARPS };

struct heads {
    i64 total, all, changed, D, T; /* heads in the tensor, in one position; changed; sizes */
};

static struct heads heads_of(const struct gpu_call *c, const struct tensor *x)
{
    i64 D = c->at->head_dim;
    return { x->count / D, x->type.shape.dim[2] / D, c->at->heads, D, x->type.shape.dim[1] };
}

/* A warp a head. The angle t base^(-2i/D) is taken in f64: t is large, and f32 would be off by the
 * whole of its rounding times t. */
template <class T> __global__ void rope(T *y, const T *x, struct heads s, f64 base, f32 sign)
{
    i64 head = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (head >= s.total) return;
    i64 t = head / s.all % s.T, half = s.D / 2;
    x += head * s.D;
    y += head * s.D;
    bool turn = head % s.all < s.changed;
    for (i64 i = threadIdx.x % 32; i < half; i += 32) {
        f32 a = to_f32(x[i]), b = to_f32(x[i + half]), co = 1, si = 0;
        if (turn) {
            f64 angle = (f64)t * exp2(-2.0 * (f64)i / (f64)s.D * base);
            angle -= floor(angle * 0.15915494309189535) * 6.283185307179586;
            sincosf((f32)angle, &si, &co);
        }
        si *= sign;
        y[i]        = from_f32<T>(a * co - b * si);
        y[i + half] = from_f32<T>(b * co + a * si);
    }
    if (s.D % 2 && !(threadIdx.x % 32)) y[s.D - 1] = x[s.D - 1];
}

template <class T> __global__ void qknorm(T *y, f32 *rstds, const T *x, struct heads s, f32 eps)
{
    i64 head = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (head >= s.total) return;
    bool norm = head % s.all < s.changed;
    f32  sum  = 0;
    x += head * s.D;
    y += head * s.D;
    for (i64 i = threadIdx.x % 32; norm && i < s.D; i += 32) sum += to_f32(x[i]) * to_f32(x[i]);
    f32 rstd = norm ? 1 / sqrtf(warp_sum(sum) / (f32)s.D + eps) : 1;
    for (i64 i = threadIdx.x % 32; i < s.D; i += 32) y[i] = from_f32<T>(to_f32(x[i]) * rstd);
    if (norm && !(threadIdx.x % 32)) rstds[head / s.all * s.changed + head % s.all] = rstd;
}

/* dx = rstd (dy - xhat mean(dy xhat)), xhat = x rstd */
template <class T>
__global__ void qknorm_grad(T *dx, const T *dy, const T *x, const f32 *rstds, struct heads s)
{
    i64 head = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (head >= s.total) return;
    bool norm = head % s.all < s.changed;
    f32  rstd = norm ? rstds[head / s.all * s.changed + head % s.all] : 1, sum = 0;
    x += head * s.D;
    dy += head * s.D;
    dx += head * s.D;
    for (i64 i = threadIdx.x % 32; norm && i < s.D; i += 32) sum += to_f32(dy[i]) * to_f32(x[i]) * rstd;
    f32 mean = norm ? warp_sum(sum) / (f32)s.D : 0;
    for (i64 i = threadIdx.x % 32; i < s.D; i += 32)
        dx[i] = from_f32<T>(rstd * (to_f32(dy[i]) - to_f32(x[i]) * rstd * mean));
}

static unsigned blocks_of(struct heads s) { return (unsigned)div_up(s.total, WARPS); }

static void run_ROPE(const struct gpu_call *c)
{
    struct heads s = heads_of(c, &c->in[0]);
    if (!s.total) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        rope<T><<<blocks_of(s), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), s, log2(c->at->base),
            c->at->inverse ? -1.f : 1.f);
    });
}

static void run_QKNORM(const struct gpu_call *c)
{
    struct heads s = heads_of(c, &c->in[0]);
    if (!s.total) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        qknorm<T><<<blocks_of(s), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<f32>(c->out[1]), data_of<T>(c->in[0]), s,
            (f32)c->at->eps);
    });
}

static void run_QKNORM_GRAD(const struct gpu_call *c)
{
    struct heads s = heads_of(c, &c->in[1]);
    if (!s.total) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        qknorm_grad<T><<<blocks_of(s), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]),
            data_of<f32>(c->in[2]), s);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_heads[] = {
    { OP_ROPE, "cuda", NULL, run_ROPE, NULL, NULL, false },
    { OP_QKNORM, "cuda", NULL, run_QKNORM, NULL, NULL, false },
    { OP_QKNORM_GRAD, "cuda", NULL, run_QKNORM_GRAD, NULL, NULL, false },
};
GPU_FAMILY(heads)
