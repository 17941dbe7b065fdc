/* cached_attention.cu - attention of new rows over a cache of keys and values, for one token at a time.
 *
 * A new row reads all keys before it once: it takes as long as reading them does, so what matters is that all of the
 * memory is asked at once. Eight lanes take a key, each with a stretch of the head's numbers, and keep the softmax's
 * top and sum of the keys they had, so that nothing is exchanged on the way:
 *
 *     s = (scale q) . k    top' = max(top, s)    o = o 2^(top - top') + 2^(s - top') v
 *
 * The keys of one head go round all eights of a block and, on Hopper, of a cluster of blocks, whose results meet at
 * the end in an order that depends on shapes and lengths alone. Q query heads that share a key head are taken
 * together. */
#include "backend/cuda/module/early.cuh"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

enum { WARPS = 8, THREADS = 32 * WARPS, EIGHT = 8, EIGHTS = THREADS / EIGHT };
enum { HEAD_MAX = 128, CLUSTER = 8, GRID_MAX = 65535 };

struct cached {
    i64        rows, L, H, G, D, window;
    f32        scale;
    bool       keeps; /* one row: the kernel that attends keeps its key and value, too */
    const i32 *sequence, *place;
};

__device__ inline i64 cached_at(const struct cached &a, i64 r, i64 place, i64 g)
{
    return ((a.sequence[r] * a.L + place) * 2 * a.G + g) * a.D;
}

/* What some keys leave: a lane has numbers 32 i + 4 lane of the head, four each. */
template <int Q, int V> struct seen {
    f32 top[Q], sum[Q], o[Q][4 * V];

    __device__ void clear()
    {
#pragma unroll
        for (int h = 0; h < Q; h++) {
            top[h] = -INFINITY;
            sum[h] = 0;
#pragma unroll
            for (int i = 0; i < 4 * V; i++) o[h][i] = 0;
        }
    }
    __device__ void key(const f32 (*q)[4 * V], const f32 *k, const f32 *v, u32 lanes)
    {
#pragma unroll
        for (int h = 0; h < Q; h++) {
            f32 score = 0;
#pragma unroll
            for (int i = 0; i < 4 * V; i++) score += q[h][i] * k[i];
#pragma unroll
            for (int d = EIGHT / 2; d; d >>= 1) score += __shfl_xor_sync(lanes, score, d);
            f32 next = fmaxf(top[h], score), old = exp2f(top[h] - next), p = exp2f(score - next);
            top[h] = next;
            sum[h] = sum[h] * old + p;
#pragma unroll
            for (int i = 0; i < 4 * V; i++) o[h][i] = o[h][i] * old + p * v[i];
        }
    }
    /* With what the lanes `d` apart have. */
    __device__ void join(int d)
    {
#pragma unroll
        for (int h = 0; h < Q; h++) {
            f32 other = __shfl_xor_sync(~0u, top[h], d), next = fmaxf(top[h], other);
            f32 mine = top[h] == -INFINITY ? 0 : exp2f(top[h] - next);
            top[h]   = next;
            sum[h] *= mine;
            sum[h] += __shfl_xor_sync(~0u, sum[h], d);
#pragma unroll
            for (int i = 0; i < 4 * V; i++) {
                o[h][i] *= mine;
                o[h][i] += __shfl_xor_sync(~0u, o[h][i], d);
            }
        }
    }
};

template <int V, class T> __device__ inline void load_eighth(f32 *to, const T *head)
{
#pragma unroll
    for (int i = 0; i < V; i++) load_f32<4>(to + 4 * i, head + 32 * i + 4 * (threadIdx.x % EIGHT));
}

/* Of a block: what each warp has seen, then the whole. */
template <int Q, int V> struct meeting {
    f32 top[WARPS][Q], sum[WARPS][Q], o[WARPS][Q][32 * V];
    f32 all_top[Q], all_sum[Q], all_o[Q][32 * V];
};

template <int Q, int V> __device__ inline void meet(struct meeting<Q, V> &m, struct seen<Q, V> &s)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    s.join(8);
    s.join(16);
#pragma unroll
    for (int h = 0; h < Q; h++) {
        if (!lane) m.top[warp][h] = s.top[h], m.sum[warp][h] = s.sum[h];
#pragma unroll
        for (int i = 0; i < V; i++)
            if (lane < EIGHT) meet_f32<4>(&m.o[warp][h][32 * i + 4 * lane], s.o[h] + 4 * i);
    }
    __syncthreads();
    for (int n = threadIdx.x; n < Q * 32 * V; n += THREADS) {
        int h = n / (32 * V), i = n % (32 * V);
        f32 top = -INFINITY, sum = 0, o = 0;
        for (int w = 0; w < WARPS; w++) top = fmaxf(top, m.top[w][h]);
        for (int w = 0; w < WARPS; w++) {
            f32 by = m.top[w][h] == -INFINITY ? 0 : exp2f(m.top[w][h] - top);
            sum += by * m.sum[w][h];
            o += by * m.o[w][h][i];
        }
        m.all_o[h][i] = o;
        if (!i) m.all_top[h] = top, m.all_sum[h] = sum;
    }
}

/* The results of all blocks of the cluster; each block stores a part of the numbers. */
template <int Q, int V, class T>
__device__ inline void store_all(T *to, struct meeting<Q, V> &m, i64 D, int rank, int ranks)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cg::cluster_group cluster = cg::this_cluster();
    if (ranks > 1) cluster.sync();
    else __syncthreads();
#define OF(rank) (ranks > 1 ? cluster.map_shared_rank(&m, rank) : &m)
#else
    __syncthreads();
#define OF(rank) (&m)
#endif
    for (int n = (int)threadIdx.x + rank * THREADS; n < Q * 32 * V; n += THREADS * ranks) {
        int h = n / (32 * V), i = n % (32 * V);
        f32 top = -INFINITY, sum = 0, o = 0;
        for (int r = 0; r < ranks; r++) top = fmaxf(top, OF(r)->all_top[h]);
        for (int r = 0; r < ranks; r++) {
            struct meeting<Q, V> *other = OF(r);
            f32 by = other->all_top[h] == -INFINITY ? 0 : exp2f(other->all_top[h] - top);
            sum += by * other->all_sum[h];
            o += by * other->all_o[h][i];
        }
        to[h * D + i] = from_f32<T>(sum > 0 ? o / sum : 0);
    }
#undef OF
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (ranks > 1) cluster.sync(); /* or a block's memory is gone while another reads it */
#endif
}

/* Grid: ranks of a cluster, Q query heads each, rows. */
template <int Q, int V, class T>
__global__ void __launch_bounds__(THREADS)
    attend_eights(T *o, const T *qkv, f32 *cache, const __grid_constant__ struct cached a)
{
    __shared__ struct meeting<Q, V> m;
    int rank = (int)blockIdx.x, ranks = (int)gridDim.x, mine = (int)threadIdx.x / EIGHT;
    u32 lanes = 0xFFu << (threadIdx.x % 32 / EIGHT * EIGHT);
    i64 h = (i64)blockIdx.y * Q, r = blockIdx.z, g = h * a.G / a.H;
    f32 q[Q][4 * V], k[4 * V], v[4 * V];
    struct seen<Q, V> s;
    early_go();
    early_wait();
    i64      end = a.sequence[r] < 0 ? 0 : a.place[r] + 1, begin = 0;
    const T *row = qkv + r * (a.H + 2 * a.G) * a.D;
    if (a.window) begin = max((i64)0, end - a.window);
    s.clear();
#pragma unroll
    for (int n = 0; n < Q; n++) {
        load_eighth<V>(q[n], row + (h + n) * a.D);
#pragma unroll
        for (int i = 0; i < 4 * V; i++) q[n][i] *= a.scale * 1.44269504f; /* log2 e */
    }
    i64 cached = a.keeps && end ? end - 1 : end;
    for (i64 at = begin + rank * EIGHTS + mine; at < cached; at += ranks * EIGHTS) {
        const f32 *key = cache + cached_at(a, r, at, g);
        load_eighth<V>(k, key);
        load_eighth<V>(v, key + a.G * a.D);
        s.key(q, k, v, lanes);
    }
    if (cached < end && !rank && !mine) { /* the new row's own */
        load_eighth<V>(k, row + (a.H + g) * a.D);
        load_eighth<V>(v, row + (a.H + a.G + g) * a.D);
        s.key(q, k, v, lanes);
        f32 *to = cache + cached_at(a, r, end - 1, g);
#pragma unroll
        for (int i = 0; i < V; i++) {
            i64 n = 32 * i + 4 * (threadIdx.x % EIGHT);
            store_f32<4>(to + n, k + 4 * i);
            store_f32<4>(to + a.G * a.D + n, v + 4 * i);
        }
    }
    meet(m, s);
    store_all<Q, V>(o + (r * a.H + h) * a.D, m, a.D, rank, ranks);
}

template <class T> __global__ void keep_rows(f32 *cache, const T *qkv, struct cached a)
{
    i64 r = blockIdx.x, width = 2 * a.G * a.D;
    early_go();
    early_wait();
    if (a.sequence[r] < 0) return;
    const T *from = qkv + (r * (a.H + 2 * a.G) + a.H) * a.D;
    f32     *to   = cache + cached_at(a, r, a.place[r], 0);
    for (i64 i = threadIdx.x; i < width; i += THREADS) to[i] = to_f32(from[i]);
}

/* --- the row of the table --- */

static struct cached cached_of(const struct gpu_call *c)
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
    a.keeps         = a.rows == 1;
    a.sequence      = data_of<i32>(c->in[2]);
    a.place         = data_of<i32>(c->in[3]);
    return a;
}

static bool takes(const struct gpu_call *c)
{
    struct cached a = cached_of(c);
    return a.D % 32 == 0 && a.D <= HEAD_MAX && a.rows <= GRID_MAX && a.H <= GRID_MAX &&
           c->in[1].type.dtype == DT_F32;
}

/* As many as there are keys for, and processors. */
static unsigned ranks_of(const struct gpu_call *c, const struct cached &a, i64 blocks)
{
    unsigned ranks = 1;
    if (c->gpu->code < 90) return 1;
    while (ranks < CLUSTER && ranks * EIGHTS < a.L && 2 * ranks * blocks <= 2 * c->gpu->processors)
        ranks *= 2;
    return ranks;
}

template <int Q, int V, class T> static void launch(const struct gpu_call *c, struct cached a)
{
    i64      heads = a.H / Q;
    unsigned ranks = ranks_of(c, a, heads * a.rows);
    launch_early(c->gpu, attend_eights<Q, V, T>, dim3(ranks, (unsigned)heads, (unsigned)a.rows),
                 THREADS, ranks, data_of<T>(c->out[0]), data_of<T>(c->in[0]),
                 data_of<f32>(c->in[1]), a);
}

template <int V, class T> static void launch_heads(const struct gpu_call *c, struct cached a)
{
    i64 each = a.H / a.G; /* query heads of a key head */
    if (each % 4 == 0) launch<4, V, T>(c, a);
    else if (each % 2 == 0) launch<2, V, T>(c, a);
    else launch<1, V, T>(c, a);
}

static void run(const struct gpu_call *c)
{
    struct cached a = cached_of(c);
    if (!c->out[0].count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        if (!a.keeps)
            launch_early(c->gpu, keep_rows<T>, dim3((unsigned)a.rows), THREADS, 1,
                         data_of<f32>(c->in[1]), data_of<T>(c->in[0]), a);
        switch (a.D / 32) {
        case 1: launch_heads<1, T>(c, a); break;
        case 2: launch_heads<2, T>(c, a); break;
        case 3: launch_heads<3, T>(c, a); break;
        default: launch_heads<4, T>(c, a);
        }
    });
}

extern "C" const struct gpu_kernel gpu_kernels_cached_attention[] = {
    { OP_ATTENTION_CACHED, "eights", takes, run, NULL, NULL, 0 },
};
GPU_FAMILY(cached_attention)
