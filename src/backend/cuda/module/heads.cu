/* heads.cu - what is done to query and key heads before attention: rotary positions and norms. x is
 * [B, T, heads of D numbers]; only the first `heads` of them are changed. */
#include "backend/cuda/module/early.cuh"
#include "ir/rope.h"

enum { WARPS = 8, THREADS = 32 * WARPS };

struct heads {
    i64 total, all, changed, D, T; /* heads in the tensor, in one position; changed; sizes */
};

static struct heads heads_of(const struct gpu_call *c, const struct tensor *x)
{
    i64 D = c->at->head_dim;
    return { x->count / D, x->type.shape.dim[2] / D, c->at->heads, D, x->type.shape.dim[1] };
}

struct turn {
    f64                 log_base;
    struct rope_scaling scaling;
};

static struct turn turn_by(const struct attrs *at)
{
    return { log2(at->base), { at->stretch, at->low, at->high } };
}

/* The angle t base^(-2i/D) is taken in f64: t is large, and f32 would be off by the whole of its
 * rounding times t. */
__device__ inline void turn_of(i64 t, i64 i, i64 D, struct turn by, f32 *co, f32 *si)
{
    f64 angle = (f64)t * rope_scaled(exp2(-2.0 * (f64)i / (f64)D * by.log_base), by.scaling);
    angle -= floor(angle * 0.15915494309189535) * 6.283185307179586;
    sincosf((f32)angle, si, co);
}

/* --- heads of 16, 32, 64, .. numbers: a thread has a run of RUN in either half of its head, so that
 * pairs meet in one thread and the D/16 threads of a head in one warp --- */

enum { RUN = 8, TURN_MAX = 256 };

static __host__ __device__ inline i32 lanes_of(i64 D) { return (i32)(D / (2 * RUN)); }

struct pair {
    f32                           lo[RUN], hi[RUN];
    template <class T> __device__ pair(const T *head, i64 half, i32 lane)
    {
        load_f32<RUN>(lo, head + lane * RUN);
        load_f32<RUN>(hi, head + half + lane * RUN);
    }
    template <class T> __device__ void store(T *head, i64 half, i32 lane) const
    {
        store_f32<RUN>(head + lane * RUN, lo);
        store_f32<RUN>(head + half + lane * RUN, hi);
    }
};

__device__ inline f32 lanes_sum(f32 x, i32 lanes)
{
    for (i32 d = lanes / 2; d; d >>= 1) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

/* A block has one row of several sequences, whose angles are taken once; where rows have positions of
 * their own (`at`), of one sequence. */
template <class T>
__global__ void rope_runs(T *y, const T *x, const i32 *at, struct heads s, i64 batch,
                          struct turn by, f32 sign)
{
    __shared__ f32 cosines[TURN_MAX], sines[TURN_MAX];
    i64            half = s.D / 2, t = blockIdx.x;
    i32            lanes = lanes_of(s.D), lane = (i32)threadIdx.x % lanes;
    f32            co[RUN], si[RUN];
    early_go();
    early_wait();
    i64 place = at ? at[blockIdx.y * s.T + t] : t;
    for (i64 i = threadIdx.x; i < half; i += blockDim.x) {
        turn_of(place, i, s.D, by, &cosines[i], &sines[i]);
        sines[i] *= sign;
    }
    __syncthreads();
    load_f32<RUN>(co, cosines + lane * RUN);
    load_f32<RUN>(si, sines + lane * RUN);
    i64 heads = y == x ? s.changed : s.all, step = blockDim.x / lanes;
    for (i64 b = blockIdx.y; b < batch; b += gridDim.y) {
        for (i64 head = threadIdx.x / lanes; head < heads; head += step) {
            i64         here = ((b * s.T + t) * s.all + head) * s.D;
            struct pair p(x + here, half, lane), q = p;
#pragma unroll
            for (int k = 0; k < RUN && head < s.changed; k++) {
                q.lo[k] = p.lo[k] * co[k] - p.hi[k] * si[k];
                q.hi[k] = p.hi[k] * co[k] + p.lo[k] * si[k];
            }
            q.store(y + here, half, lane);
        }
    }
}

/* Head number `unit` of those to be written, counted over all positions. */
struct place {
    i64  at, rstd;
    bool norm;
};
__device__ inline struct place place_of(const struct heads &s, i64 unit, bool in_place)
{
    i64 heads = in_place ? s.changed : s.all, row = unit / heads, head = unit % heads;
    return { (row * s.all + head) * s.D, row * s.changed + head, head < s.changed };
}

/* Every lane of a warp comes to the sums, those past the end too. */
template <class T>
__global__ void qknorm_runs(T *y, f32 *rstds, const T *x, struct heads s, i64 units, f32 eps)
{
    i32          lanes = lanes_of(s.D), lane = (i32)threadIdx.x % lanes;
    i64          unit   = ((i64)blockIdx.x * THREADS + threadIdx.x) / lanes;
    bool         inside = unit < units;
    struct place w      = place_of(s, inside ? unit : 0, y == x);
    struct pair  p(x + w.at, s.D / 2, lane);
    f32          sum = 0;
#pragma unroll
    for (int k = 0; k < RUN; k++) sum += p.lo[k] * p.lo[k] + p.hi[k] * p.hi[k];
    sum      = lanes_sum(sum, lanes);
    f32 rstd = w.norm ? 1 / sqrtf(sum / (f32)s.D + eps) : 1;
#pragma unroll
    for (int k = 0; k < RUN; k++) {
        p.lo[k] *= rstd;
        p.hi[k] *= rstd;
    }
    if (!inside) return;
    p.store(y + w.at, s.D / 2, lane);
    if (w.norm && !lane) rstds[w.rstd] = rstd;
}

template <class T>
__global__ void qknorm_grad_runs(T *dx, const T *dy, const T *x, const f32 *rstds, struct heads s,
                                 i64 units)
{
    i32          lanes = lanes_of(s.D), lane = (i32)threadIdx.x % lanes;
    i64          unit   = ((i64)blockIdx.x * THREADS + threadIdx.x) / lanes;
    bool         inside = unit < units;
    struct place w      = place_of(s, inside ? unit : 0, dx == dy);
    struct pair  d(dy + w.at, s.D / 2, lane), v(x + w.at, s.D / 2, lane);
    f32          rstd = w.norm ? rstds[w.rstd] : 1, sum = 0;
#pragma unroll
    for (int k = 0; k < RUN; k++) sum += d.lo[k] * v.lo[k] + d.hi[k] * v.hi[k];
    sum      = lanes_sum(sum, lanes);
    f32 mean = w.norm ? sum * rstd / (f32)s.D : 0;
#pragma unroll
    for (int k = 0; k < RUN; k++) {
        d.lo[k] = rstd * (d.lo[k] - v.lo[k] * rstd * mean);
        d.hi[k] = rstd * (d.hi[k] - v.hi[k] * rstd * mean);
    }
    if (inside) d.store(dx + w.at, s.D / 2, lane);
}

static bool takes_runs(const struct gpu_call *c)
{
    i64 D = c->at->head_dim, lanes = D / (2 * RUN);
    return D % (2 * RUN) == 0 && D / 2 <= TURN_MAX && !(lanes & (lanes - 1));
}

enum { GRID_Y_MAX = 65535 };

static bool takes_rope_runs(const struct gpu_call *c)
{
    return takes_runs(c) && (c->in_count == 1 || c->in[0].type.shape.dim[0] <= GRID_Y_MAX);
}

static void run_ROPE_runs(const struct gpu_call *c)
{
    struct heads s = heads_of(c, &c->in[0]);
    if (!s.total) return;
    i64  batch = c->in[0].type.shape.dim[0], lanes = lanes_of(s.D);
    i64  threads = MIN(div_up(s.changed * lanes, 32) * 32, 512); /* whole warps of whole heads */
    i64  rows    = c->in_count == 2 ? batch : MIN(batch, div_up(4096, s.T));
    dim3 grid((unsigned)s.T, (unsigned)rows);
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        launch_rows(c->gpu, s.T * batch, rope_runs<T>, grid, (unsigned)threads,
                    data_of<T>(c->out[0]), data_of<T>(c->in[0]),
                    c->in_count == 2 ? data_of<i32>(c->in[1]) : (i32 *)NULL, s, batch,
                    turn_by(c->at), c->at->inverse ? -1.f : 1.f);
    });
}

/* Heads to be written, and the blocks that takes. */
static i64 units_of(struct heads s, const void *to, const void *from)
{
    return s.total / s.all * (to == from ? s.changed : s.all);
}
static unsigned blocks_of_units(struct heads s, i64 units)
{
    return (unsigned)div_up(units * lanes_of(s.D), THREADS);
}

static void run_QKNORM_runs(const struct gpu_call *c)
{
    struct heads s     = heads_of(c, &c->in[0]);
    i64          units = units_of(s, c->out[0].data, c->in[0].data);
    if (!units) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        qknorm_runs<T><<<blocks_of_units(s, units), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<f32>(c->out[1]), data_of<T>(c->in[0]), s, units,
            (f32)c->at->eps);
    });
}

static void run_QKNORM_GRAD_runs(const struct gpu_call *c)
{
    struct heads s     = heads_of(c, &c->in[1]);
    i64          units = units_of(s, c->out[0].data, c->in[0].data);
    if (!units) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        qknorm_grad_runs<T><<<blocks_of_units(s, units), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]),
            data_of<f32>(c->in[2]), s, units);
    });
}

/* --- heads of any size: a warp a head --- */

template <class T>
__global__ void rope(T *y, const T *x, const i32 *at, struct heads s, struct turn by, f32 sign)
{
    i64 head = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (head >= s.total) return;
    i64 t = at ? at[head / s.all] : head / s.all % s.T, half = s.D / 2;
    x += head * s.D;
    y += head * s.D;
    bool turn = head % s.all < s.changed;
    for (i64 i = threadIdx.x % 32; i < half; i += 32) {
        f32 a = to_f32(x[i]), b = to_f32(x[i + half]), co = 1, si = 0;
        if (turn) turn_of(t, i, s.D, by, &co, &si);
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
    for (i64 i = threadIdx.x % 32; norm && i < s.D; i += 32)
        sum += to_f32(dy[i]) * to_f32(x[i]) * rstd;
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
            data_of<T>(c->out[0]), data_of<T>(c->in[0]),
            c->in_count == 2 ? data_of<i32>(c->in[1]) : NULL, s, turn_by(c->at),
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
    { OP_ROPE, "cuda_runs", takes_rope_runs, run_ROPE_runs, NULL, NULL, 0 },
    { OP_QKNORM, "cuda_runs", takes_runs, run_QKNORM_runs, NULL, NULL, 0 },
    { OP_QKNORM_GRAD, "cuda_runs", takes_runs, run_QKNORM_GRAD_runs, NULL, NULL, 0 },
    { OP_ROPE, "cuda", NULL, run_ROPE, NULL, NULL, 0 },
    { OP_QKNORM, "cuda", NULL, run_QKNORM, NULL, NULL, 0 },
    { OP_QKNORM_GRAD, "cuda", NULL, run_QKNORM_GRAD, NULL, NULL, 0 },
};
GPU_FAMILY(heads)
