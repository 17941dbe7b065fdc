/* optimiser.cu - the norm of the gradients, clipping by it, and the steps of torch.optim. */
#include "backend/cuda/module/device.cuh"
#include "backend/cuda/module/launch.h"
extern "C" {
#include "ir/muon.h"
}

enum { THREADS = 512, PARTS = 1024 };

template <class T> __global__ void sumsq_part(f32 *part, const T *x, i64 count)
{
    constexpr int N     = pack<T>::N;
    f32           sum   = 0;
    i64           packs = count / N, step = (i64)gridDim.x * THREADS;
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < packs; i += step) {
        pack<T> v = load_pack(x + i * N);
#pragma unroll
        for (int k = 0; k < N; k++) sum += to_f32(v.v[k]) * to_f32(v.v[k]);
    }
    i64 rest = packs * N + (i64)blockIdx.x * THREADS + threadIdx.x;
    if (rest < count) sum += to_f32(x[rest]) * to_f32(x[rest]);
    sum = block_sum(sum);
    if (!threadIdx.x) part[blockIdx.x] = sum;
}

__global__ void sumsq_end(f32 *y, const f32 *part)
{
    f32 sum = block_sum(part[threadIdx.x]);
    if (!threadIdx.x) *y = sum;
}

static i64 work_SUMSQ(const struct gpu_call *c)
{
    (void)c;
    return PARTS * (i64)sizeof(f32);
}

static void run_SUMSQ(const struct gpu_call *c)
{
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        sumsq_part<T><<<PARTS, THREADS, 0, c->gpu->stream>>>((f32 *)c->work, data_of<T>(c->in[0]),
                                                             c->in[0].count);
    });
    sumsq_end<<<1, PARTS, 0, c->gpu->stream>>>(data_of<f32>(c->out[0]), (f32 *)c->work);
}

/* A norm that is no number gives a factor that is none either, as in torch. */
__global__ void clip(f32 *factor, f32 *norm, const f32 *sumsq, f32 limit)
{
    f32 n = sqrtf(*sumsq), f = limit > 0 ? limit / (n + 1e-6f) : 1;
    *factor = f > 1 ? 1 : f;
    *norm   = n;
}

static void run_CLIP(const struct gpu_call *c)
{
    clip<<<1, 1, 0, c->gpu->stream>>>(data_of<f32>(c->out[0]), data_of<f32>(c->out[1]),
                                      data_of<f32>(c->in[0]), (f32)c->at->limit);
}

struct scaler {
    f32 count, growth, backoff;
};

__global__ void unscale(f32 *step, f32 *inverse, f32 *true_sum, f32 *scale, f32 *counts,
                        const f32 *sumsq, struct scaler s)
{
    f32  sum = *sumsq, now = *scale, next = now, good = counts[2];
    bool finite = isfinite(sum), grow = false;
    if (finite) {
        counts[2] = ++good;
        grow      = counts[0] + 1 == s.count;
        counts[0] = grow ? 0 : counts[0] + 1;
        if (grow) next = now * s.growth;
    } else {
        counts[0] = 0;
        counts[1] += 1;
        next = now * s.backoff;
    }
    *step     = finite ? good : 0;
    *inverse  = 1 / now;
    *true_sum = (f32)((f64)sum / now / now);
    if (isfinite(next)) *scale = next;
}

static void run_UNSCALE(const struct gpu_call *c)
{
    struct scaler s = { (f32)c->at->count, (f32)c->at->growth, (f32)c->at->backoff };
    unscale<<<1, 1, 0, c->gpu->stream>>>(data_of<f32>(c->out[0]), data_of<f32>(c->out[1]),
                                         data_of<f32>(c->out[2]), data_of<f32>(c->in[0]),
                                         data_of<f32>(c->in[1]), data_of<f32>(c->in[2]), s);
}

template <class T, class S> __global__ void accumulate(T *sum, const S *x, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) sum[i] = from_f32<T>(to_f32(sum[i]) + to_f32(x[i]));
}

static void run_ACCUMULATE(const struct gpu_call *c)
{
    i64 count = c->in[0].count;
    if (!count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        with_type(c->in[1].type.dtype, [&](auto s) {
            typedef decltype(t) T;
            typedef decltype(s) S;
            accumulate<T, S><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->in[0]), data_of<S>(c->in[1]), count);
        });
    });
}

/* What products read of p, N of its numbers; NULL: they cast it themselves. */
template <int N> __device__ inline void copy_numbers(bf16 *copy, i64 i, const f32 (&p)[N])
{
    if (copy) store_f32<N>(copy + i, p);
}

/* p, g and up to two states, four numbers a thread: f(p, g, m, v) changes p, m and v. */
template <class F>
__global__ void sweep(f32 *p, const f32 *g, f32 *m, f32 *v, bf16 *copy, i64 count, const f32 *hyper,
                      const f32 *factor, F f)
{
    i64 i = ((i64)blockIdx.x * THREADS + threadIdx.x) * 4;
    if (hyper[3] == 0) { /* a bad step: nothing changes */
        for (i64 k = i; copy && k < min(count, i + 4); k++) copy[k] = from_f32<bf16>(p[k]);
        return;
    }
    f.begin(hyper, factor);
    if (i + 4 <= count) {
        float4 p4 = *(float4 *)(p + i), g4 = *(const float4 *)(g + i), m4 = *(float4 *)(m + i);
        float4 v4 = v ? *(float4 *)(v + i) : float4();
        f.step(p4.x, g4.x, m4.x, v4.x);
        f.step(p4.y, g4.y, m4.y, v4.y);
        f.step(p4.z, g4.z, m4.z, v4.z);
        f.step(p4.w, g4.w, m4.w, v4.w);
        *(float4 *)(p + i) = p4;
        *(float4 *)(m + i) = m4;
        if (v) *(float4 *)(v + i) = v4;
        copy_numbers<4>(copy, i, { p4.x, p4.y, p4.z, p4.w });
    } else {
        for (f32 none = 0; i < count; i++) {
            f.step(p[i], g[i], m[i], v ? v[i] : none);
            copy_numbers<1>(copy, i, { p[i] });
        }
    }
}

struct sgd {
    f32             decay;
    bool            nesterov;
    f32             lr, momentum, factor;
    bool            first;
    __device__ void begin(const f32 *h, const f32 *clip)
    {
        lr       = h[0];
        momentum = h[1];
        first    = h[3] == 1;
        factor   = *clip;
    }
    __device__ void step(f32 &p, f32 g, f32 &m, f32 &) const
    {
        g = factor * g + decay * p;
        m = first ? g : momentum * m + g;
        p -= lr * (nesterov ? g + momentum * m : m);
    }
};

template <bool DECOUPLED> struct adam {
    f32             eps, decay;
    f32             lr, beta1, beta2, factor, correct1, correct2;
    __device__ void begin(const f32 *h, const f32 *clip)
    {
        lr       = h[0];
        beta1    = h[1];
        beta2    = h[2];
        correct1 = 1 / (1 - powf(beta1, h[3]));
        correct2 = 1 / (1 - powf(beta2, h[3]));
        factor   = *clip;
    }
    __device__ void step(f32 &p, f32 g, f32 &m, f32 &v) const
    {
        g *= factor;
        if (DECOUPLED) p *= 1 - lr * decay;
        else g += decay * p;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        p -= lr * (m * correct1) / (sqrtf(v * correct2) + eps);
    }
};

/* Inputs: p, g, one state or two, hyper, factor, and a copy of p in bf16 or none. */
template <class F> static void run_sweep(const struct gpu_call *c, i32 states, F f)
{
    i64 count = c->in[0].count;
    if (!count) return;
    sweep<F><<<(unsigned)div_up(count, THREADS * 4), THREADS, 0, c->gpu->stream>>>(
        data_of<f32>(c->in[0]), data_of<f32>(c->in[1]), data_of<f32>(c->in[2]),
        states == 2 ? data_of<f32>(c->in[3]) : NULL,
        c->in_count > 4 + states ? data_of<bf16>(c->in[4 + states]) : NULL, count,
        data_of<f32>(c->in[2 + states]), data_of<f32>(c->in[3 + states]), f);
}

static void run_SGD(const struct gpu_call *c)
{
    sgd f      = {};
    f.decay    = (f32)c->at->decay;
    f.nesterov = c->at->nesterov != 0;
    run_sweep(c, 1, f);
}

template <bool DECOUPLED> static void run_adam(const struct gpu_call *c)
{
    adam<DECOUPLED> f = {};
    f.eps             = (f32)c->at->eps;
    f.decay           = (f32)c->at->decay;
    run_sweep(c, 2, f);
}

/* --- what muon.c does around its products --- */

__global__ void muon_begin(bf16 *x, f32 *part, f32 *mom, const f32 *g, i64 count, const f32 *hyper,
                           const f32 *factor, bool nesterov)
{
    f32 beta = hyper[1], f = *factor, sum = 0;
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (i64)gridDim.x * THREADS) {
        f32 d = f * g[i], m = mom[i];
        if (hyper[3] != 0) mom[i] = m = beta * m + (1 - beta) * d;
        f32 v = nesterov ? (1 - beta) * d + beta * m : m;
        x[i]  = from_f32<bf16>(v);
        sum += v * v;
    }
    sum = block_sum(sum);
    if (!threadIdx.x) part[blockIdx.x] = sum;
}

__global__ void muon_normalise(bf16 *x, i64 count, const f32 *sumsq, f32 norm_min)
{
    f32 scale = 1 / fmaxf(sqrtf(*sumsq), norm_min);
    i64 i     = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) x[i] = from_f32<bf16>(to_f32(x[i]) * scale);
}

__global__ void muon_end(f32 *p, const bf16 *x, i64 count, const f32 *hyper, f32 decay, f32 scale)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count && hyper[3] != 0)
        p[i] = p[i] * (1 - hyper[0] * decay) - hyper[0] * scale * to_f32(x[i]);
}

void launch_muon_begin(const struct gpu_call *c, void *x, f32 *part)
{
    i64  count = c->in[0].count;
    auto s     = c->gpu->stream;
    muon_begin<<<PARTS, THREADS, 0, s>>>((bf16 *)x, part + 1, data_of<f32>(c->in[2]),
                                         data_of<f32>(c->in[1]), count, data_of<f32>(c->in[3]),
                                         data_of<f32>(c->in[4]), c->at->nesterov != 0);
    sumsq_end<<<1, PARTS, 0, s>>>(part, part + 1);
    muon_normalise<<<(unsigned)div_up(count, THREADS), THREADS, 0, s>>>((bf16 *)x, count, part,
                                                                        (f32)MUON_NORM_MIN);
}

void launch_muon_end(const struct gpu_call *c, const void *x)
{
    i64 count = c->in[0].count;
    muon_end<<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
        data_of<f32>(c->in[0]), (const bf16 *)x, count, data_of<f32>(c->in[3]), (f32)c->at->decay,
        (f32)c->at->scale);
}

static bool takes_f32(const struct gpu_call *c)
{
    for (i32 i = 0; i < c->in_count; i++) {
        if (c->in[i].type.dtype != (i == 6 ? DT_BF16 : DT_F32)) return false;
    }
    return true;
}

extern "C" const struct gpu_kernel gpu_kernels_optimiser[] = {
    { OP_SUMSQ, "cuda", NULL, run_SUMSQ, work_SUMSQ, NULL, 0 },
    { OP_CLIP, "cuda", NULL, run_CLIP, NULL, NULL, 0 },
    { OP_UNSCALE, "cuda", NULL, run_UNSCALE, NULL, NULL, 0 },
    { OP_ACCUMULATE, "cuda", NULL, run_ACCUMULATE, NULL, NULL, 0 },
    { OP_SGD, "cuda", takes_f32, run_SGD, NULL, NULL, 0 },
    { OP_ADAM, "cuda", takes_f32, run_adam<false>, NULL, NULL, 0 },
    { OP_ADAMW, "cuda", takes_f32, run_adam<true>, NULL, NULL, 0 },
};
GPU_FAMILY(optimiser)
