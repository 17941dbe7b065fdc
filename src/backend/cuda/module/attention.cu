/* attention.cu - softmax(q . k) v and its gradient, a warp a query or a key: right for every shape
 * and mask, and behind those of cuDNN and of Hopper's tensor cores where these have a kernel.
 *
 * qkv is [B, T, H + 2G, D]: H query heads, G key heads, G value heads; packed it is [rows, H + 2G, D], and
 * `offsets` says where each sequence begins. With p = exp(s - lse) and delta = do . o, the gradient of a
 * score is ds = p (do . v - delta). Where weights are dropped, p counts as often as it is kept in o and dv, and do . v
 * in ds. */
#include "backend/cuda/module/attention.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, LANE_MAX = HEAD_DIM_MAX / 32 };

/* A head's numbers are spread over the lanes: lane l has l, l + 32, … */
template <int L, class T> __device__ inline void load_head(f32 *v, const T *p, i64 D)
{
#pragma unroll
    for (int k = 0; k < L; k++) {
        i64 i = threadIdx.x % 32 + 32 * k;
        v[k]  = i < D ? to_f32(p[i]) : 0;
    }
}
template <int L, class T> __device__ inline void store_head(T *p, const f32 *v, f32 factor, i64 D)
{
#pragma unroll
    for (int k = 0; k < L; k++) {
        i64 i = threadIdx.x % 32 + 32 * k;
        if (i < D) p[i] = from_f32<T>(factor * v[k]);
    }
}
template <int L> __device__ inline f32 dot(const f32 *a, const f32 *b)
{
    f32 sum = 0;
#pragma unroll
    for (int k = 0; k < L; k++) sum += a[k] * b[k];
    return warp_sum(sum);
}

template <int L, class T> __global__ void attend(T *o, f32 *lse, const T *qkv, struct attention a)
{
    i64 i = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (i >= a.B * a.H * a.T) return;
    i64 t = i % a.T, h = i / a.T % a.H, b = i / a.T / a.H, g = h * a.G / a.H;
    if (t >= rows_end(a, b)) return;
    i64 end = keys_end(a, b, t);
    f32 q[L], k[L], v[L], sum[L] = {}, top = -INFINITY, all = 0;
    load_head<L>(q, qkv + head_at(a, b, t, h), a.D);
    for (i64 s = keys_begin(a, b, t); s < end; s++) {
        load_head<L>(k, qkv + head_at(a, b, s, a.H + g), a.D);
        load_head<L>(v, qkv + head_at(a, b, s, a.H + a.G + g), a.D);
        f32 score = a.scale * dot<L>(q, k), next = fmaxf(top, score);
        f32 old = expf(top - next), p = expf(score - next);
        all = all * old + p;
        p *= kept_at(a, b, h, t, s);
#pragma unroll
        for (int n = 0; n < L; n++) sum[n] = sum[n] * old + p * v[n];
        top = next;
    }
    store_head<L>(o + o_at(a, b, t, h), sum, end ? 1 / all : 0, a.D);
    if (!(threadIdx.x % 32)) lse[lse_at(a, b, t, h)] = end ? top + logf(all) : 0;
}

template <int L, class T>
__global__ void attend_dq(T *dqkv, const T *d_o, const T *qkv, const T *o, const f32 *lse,
                          struct attention a)
{
    i64 i = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (i >= a.B * a.H * a.T) return;
    i64 t = i % a.T, h = i / a.T % a.H, b = i / a.T / a.H, g = h * a.G / a.H;
    if (t >= rows_end(a, b)) return;
    f32 q[L], k[L], v[L], d[L], out[L], sum[L] = {};
    load_head<L>(q, qkv + head_at(a, b, t, h), a.D);
    load_head<L>(d, d_o + o_at(a, b, t, h), a.D);
    load_head<L>(out, o + o_at(a, b, t, h), a.D);
    f32 delta = dot<L>(d, out);
    for (i64 s = keys_begin(a, b, t); s < keys_end(a, b, t); s++) {
        load_head<L>(k, qkv + head_at(a, b, s, a.H + g), a.D);
        load_head<L>(v, qkv + head_at(a, b, s, a.H + a.G + g), a.D);
        f32 p  = expf(a.scale * dot<L>(q, k) - lse[lse_at(a, b, t, h)]);
        f32 ds = p * (dot<L>(d, v) * kept_at(a, b, h, t, s) - delta);
#pragma unroll
        for (int n = 0; n < L; n++) sum[n] += ds * k[n];
    }
    store_head<L>(dqkv + head_at(a, b, t, h), sum, a.scale, a.D);
}

template <int L, class T>
__global__ void attend_dkv(T *dqkv, const T *d_o, const T *qkv, const T *o, const f32 *lse,
                           struct attention a)
{
    i64 i = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (i >= a.B * a.G * a.T) return;
    i64 s = i % a.T, g = i / a.T % a.G, b = i / a.T / a.G;
    if (s >= rows_end(a, b)) return;
    f32 q[L], k[L], v[L], d[L], out[L], dk[L] = {}, dv[L] = {};
    load_head<L>(k, qkv + head_at(a, b, s, a.H + g), a.D);
    load_head<L>(v, qkv + head_at(a, b, s, a.H + a.G + g), a.D);
    for (i64 h = 0; h < a.H; h++) {
        if (h * a.G / a.H != g) continue;
        for (i64 t = a.causal ? s : 0; t < rows_end(a, b); t++) {
            if (s < keys_begin(a, b, t)) break; /* nor does any behind it */
            if (s >= keys_end(a, b, t)) continue;
            load_head<L>(q, qkv + head_at(a, b, t, h), a.D);
            load_head<L>(d, d_o + o_at(a, b, t, h), a.D);
            load_head<L>(out, o + o_at(a, b, t, h), a.D);
            f32 p    = expf(a.scale * dot<L>(q, k) - lse[lse_at(a, b, t, h)]);
            f32 keep = kept_at(a, b, h, t, s);
            f32 ds   = p * (dot<L>(d, v) * keep - dot<L>(d, out));
            p *= keep;
#pragma unroll
            for (int n = 0; n < L; n++) {
                dk[n] += ds * q[n];
                dv[n] += p * d[n];
            }
        }
    }
    store_head<L>(dqkv + head_at(a, b, s, a.H + g), dk, a.scale, a.D);
    store_head<L>(dqkv + head_at(a, b, s, a.H + a.G + g), dv, 1, a.D);
}

/* Calls f(L, T()): numbers of a head in a lane. */
template <class F> static void by_head(enum dtype t, i64 D, F f)
{
    with_type(t, [&](auto v) {
        if (D <= 64) f(std::integral_constant<int, 2>(), v);
        else if (D <= 128) f(std::integral_constant<int, 4>(), v);
        else f(std::integral_constant<int, LANE_MAX>(), v);
    });
}

static void run_ATTENTION(const struct gpu_call *c)
{
    struct attention a = attention_of(c, &c->in[0], 1);
    if (!c->out[0].count) return;
    by_head(c->in[0].type.dtype, a.D, [&](auto l, auto t) {
        typedef decltype(t) T;
        attend<decltype(l)::value, T>
            <<<(unsigned)div_up(a.B * a.H * a.T, WARPS), THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), data_of<f32>(c->out[1]), data_of<T>(c->in[0]), a);
        clear(c, a, data_of<T>(c->out[0]), data_of<f32>(c->out[1]));
    });
}

static void run_ATTENTION_GRAD(const struct gpu_call *c)
{
    struct attention a = attention_of(c, &c->in[1], 4);
    if (!c->out[0].count) return;
    by_head(c->in[1].type.dtype, a.D, [&](auto l, auto t) {
        typedef decltype(t) T;
        T                  *dqkv = data_of<T>(c->out[0]);
        const T *d_o = data_of<T>(c->in[0]), *qkv = data_of<T>(c->in[1]), *o = data_of<T>(c->in[2]);
        const f32 *lse = data_of<f32>(c->in[3]);
        attend_dq<decltype(l)::value, T>
            <<<(unsigned)div_up(a.B * a.H * a.T, WARPS), THREADS, 0, c->gpu->stream>>>(
                dqkv, d_o, qkv, o, lse, a);
        attend_dkv<decltype(l)::value, T>
            <<<(unsigned)div_up(a.B * a.G * a.T, WARPS), THREADS, 0, c->gpu->stream>>>(
                dqkv, d_o, qkv, o, lse, a);
        clear(c, a, dqkv, (f32 *)NULL);
    });
}

/* --- over a cache, which is f32: a warp a head of a new row --- */

struct cached {
    i64        rows, L, H, G, D, window;
    f32        scale;
    const i32 *sequence, *place;
};

__device__ inline i64 cached_at(const struct cached &a, i64 r, i64 place, i64 g)
{
    return ((a.sequence[r] * a.L + place) * 2 * a.G + g) * a.D;
}

template <class T> __global__ void keep_rows(f32 *cache, const T *qkv, struct cached a)
{
    i64 r = blockIdx.x, width = 2 * a.G * a.D;
    if (a.sequence[r] < 0) return;
    const T *from = qkv + (r * (a.H + 2 * a.G) + a.H) * a.D;
    f32     *to   = cache + cached_at(a, r, a.place[r], 0);
    for (i64 i = threadIdx.x; i < width; i += THREADS) to[i] = to_f32(from[i]);
}

template <int L, class T>
__global__ void attend_cached(T *o, const T *qkv, const f32 *cache, struct cached a)
{
    i64 i = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (i >= a.rows * a.H) return;
    i64 h = i % a.H, r = i / a.H, g = h * a.G / a.H;
    i64 end   = a.sequence[r] < 0 ? 0 : a.place[r] + 1,
        begin = a.window ? max((i64)0, end - a.window) : 0;
    f32 q[L], k[L], v[L], sum[L] = {}, top = -INFINITY, all = 0;
    load_head<L>(q, qkv + (r * (a.H + 2 * a.G) + h) * a.D, a.D);
    for (i64 s = begin; s < end; s++) {
        const f32 *key = cache + cached_at(a, r, s, g);
        load_head<L>(k, key, a.D);
        load_head<L>(v, key + a.G * a.D, a.D);
        f32 score = a.scale * dot<L>(q, k), next = fmaxf(top, score);
        f32 old = expf(top - next), p = expf(score - next);
        all = all * old + p;
#pragma unroll
        for (int n = 0; n < L; n++) sum[n] = sum[n] * old + p * v[n];
        top = next;
    }
    store_head<L>(o + (r * a.H + h) * a.D, sum, end > begin ? 1 / all : 0, a.D);
}

static void run_ATTENTION_CACHED(const struct gpu_call *c)
{
    struct shape  x = c->in[0].type.shape;
    struct cached a = {};
    a.rows          = x.dim[0];
    a.L             = c->in[1].type.shape.dim[1];
    a.H             = c->at->heads;
    a.G             = c->at->kv_heads;
    a.D             = x.dim[1] / (a.H + 2 * a.G);
    a.window        = c->at->window;
    a.scale         = (f32)c->at->scale;
    a.sequence      = data_of<i32>(c->in[2]);
    a.place         = data_of<i32>(c->in[3]);
    if (!c->out[0].count) return;
    by_head(c->in[0].type.dtype, a.D, [&](auto l, auto t) {
        typedef decltype(t) T;
        keep_rows<T><<<(unsigned)a.rows, THREADS, 0, c->gpu->stream>>>(data_of<f32>(c->in[1]),
                                                                       data_of<T>(c->in[0]), a);
        attend_cached<decltype(l)::value, T>
            <<<(unsigned)div_up(a.rows * a.H, WARPS), THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<f32>(c->in[1]), a);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_attention[] = {
    { OP_ATTENTION_CACHED, "cuda", NULL, run_ATTENTION_CACHED, NULL, NULL, 0 },
    { OP_ATTENTION, "cuda", NULL, run_ATTENTION, NULL, NULL, 0 },
    { OP_ATTENTION_GRAD, "cuda", NULL, run_ATTENTION_GRAD, NULL, NULL, 0 },
    { OP_ATTENTION_PACKED, "cuda", NULL, run_ATTENTION, NULL, NULL, 0 },
    { OP_ATTENTION_PACKED_GRAD, "cuda", NULL, run_ATTENTION_GRAD, NULL, NULL, 0 },
};
GPU_FAMILY(attention)
