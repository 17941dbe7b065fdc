/* gemv.cu - products of a few rows with a matrix [N, K], which take as long as reading the matrix does: one new token
 * of each text that is continued.
 *
 * A warp has two columns of the result, which are rows of the matrix, or shares them with others of its block, each
 * with a part of K, where there are too few for all processors. It reads them in packs of 16 bytes, AHEAD of each on
 * their way at a time; the few rows x come from the processor's own cache. Sums are f32, in an order that depends on
 * the shape alone. Asking for the first packs before x is there, and blocks that go on to further rows, were slower.
 *
 * Of one row the kernel does more on the way, so that there are fewer kernels to a token (join.c): swiglu of the
 * result, for which the warp's two rows are one of either half of the matrix, and, where the matrix is small, the norm
 * that makes x, by every block for itself. Numbers between them are rounded as if they were stored. */
#include "backend/cuda/module/early.cuh"
#include "backend/cuda/module/join.h"
#include "backend/cuda/module/maps.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS };
enum { AHEAD = 4, R = 2 }; /* packs that a lane has on their way of each of R rows of the matrix */
enum { ROWS_MAX = 4 };     /* from 8 on cuBLASLt's tensor cores are faster */
enum { WARPS_A_PROCESSOR = 32 }; /* enough to keep the memory busy */
enum { HELD_MAX = 4096 };        /* numbers of a row that is normed: in shared memory */
enum {
    NORMED_BYTES = 16 << 20
}; /* of a matrix whose x is normed by every block: larger ones have too many */

struct few_rows {
    const void *x, *w, *bias;
    void       *y, *kept; /* kept: the result before the maps, or NULL */
    i64         N, K;
    i32         M, split; /* warps that share a row of the matrix */
    bool        wide_bias;
    const void *scale, *shift; /* of the norm, or NULL */
    bool        wide_norm, mean;
    f32         eps;
};

/* A pack that nobody reads again. */
template <class T> __device__ inline pack<T> load_once(const T *p)
{
    union {
        uint4   bits;
        pack<T> v;
    } u;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(u.bits.x), "=r"(u.bits.y), "=r"(u.bits.z), "=r"(u.bits.w)
                 : "l"(p));
    return u.v;
}

template <class T> __device__ inline f32 either(const void *p, bool wide, i64 i)
{
    return wide ? ((const f32 *)p)[i] : to_f32(((const T *)p)[i]);
}

/* Number i of row m of the result, from its sum. */
template <class T, class Y>
__device__ inline void finish(const struct few_rows &g, const struct maps &maps, i64 m, i64 i,
                              f32 sum)
{
    i64 at = m * g.N + i;
    if (g.bias) sum += either<T>(g.bias, g.wide_bias, i);
    Y v = from_f32<Y>(sum);
    if (g.kept) ((Y *)g.kept)[at] = v;
    for (int k = 0; k < maps.count; k++)
        apply<1>(maps, maps.op[k], &v, maps.operand[k] ? (const Y *)maps.operand[k] + at : &v);
    ((Y *)g.y)[at] = v;
}

/* Packs at, at + step, … of R rows of the matrix. */
template <class T> struct packs_of {
    pack<T> v[AHEAD][R];

    __device__ void load(const T *const *w, int at, int step, int packs)
    {
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
#pragma unroll
            for (int r = 0; r < R; r++)
                if (at + a * step < packs)
                    v[a][r] = load_once(w[r] + (i64)(at + a * step) * pack<T>::N);
        }
    }
    /* Of the M rows of x there are m. */
    template <int M>
    __device__ void dot(f32 (*sum)[M], const T *x, int m_count, i64 K, int at, int step, int packs)
    {
        constexpr int N = pack<T>::N;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (at + a * step >= packs) continue;
#pragma unroll
            for (int m = 0; m < M; m++) {
                f32 with[N];
                load_f32<N>(with, x + min(m, m_count - 1) * K + (i64)(at + a * step) * N);
#pragma unroll
                for (int r = 0; r < R; r++) {
                    chunk<N, T> u;
                    memcpy(&u, &v[a][r], sizeof u);
#pragma unroll
                    for (int k = 0; k < N; k++) sum[r][m] += u[k] * with[k];
                }
            }
        }
    }
};

/* The norm of x in shared memory. Each thread has its packs three times: they are near. */
template <class T> __device__ inline void hold_norm(T *held, const struct few_rows &g)
{
    constexpr int N   = pack<T>::N;
    const T      *x   = (const T *)g.x;
    f32           sum = 0, v[N], mean = 0;
    int           packs = (int)(g.K / N);
    for (int i = threadIdx.x; g.mean && i < packs; i += THREADS) {
        load_f32<N>(v, x + i * N);
#pragma unroll
        for (int k = 0; k < N; k++) sum += v[k];
    }
    if (g.mean) mean = block_sum(sum) / (f32)g.K;
    sum = 0;
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        load_f32<N>(v, x + i * N);
#pragma unroll
        for (int k = 0; k < N; k++) sum += (v[k] - mean) * (v[k] - mean);
    }
    f32 rstd = 1 / sqrtf(block_sum(sum) / (f32)g.K + g.eps);
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        load_f32<N>(v, x + i * N);
#pragma unroll
        for (int k = 0; k < N; k++) {
            i64 at = (i64)i * N + k;
            v[k]   = (v[k] - mean) * rstd * (g.scale ? either<T>(g.scale, g.wide_norm, at) : 1) +
                   (g.shift ? either<T>(g.shift, g.wide_norm, at) : 0);
        }
        store_f32<N>(held + i * N, v);
    }
    __syncthreads();
}

/* Both halves of a gate, each rounded as a product's result is. */
template <class T> __device__ inline void finish_gate(const struct few_rows &g, i64 i, f32 a, f32 b)
{
    if (g.bias) a += either<T>(g.bias, g.wide_bias, i);
    if (g.bias) b += either<T>(g.bias, g.wide_bias, i + g.N / 2);
    a = to_f32(from_f32<T>(a)), b = to_f32(from_f32<T>(b));
    ((T *)g.y)[i] = from_f32<T>(a * sigmoid(a) * b);
}

/* What a kernel does besides, of one row of x; those with a norm are odd. */
enum more { PLAIN, NORM, GATE, NORM_GATE };

/* M: rows of x, at most. */
template <int M, int MORE, class T, class Y>
__global__ void __launch_bounds__(THREADS, M == 1 && MORE % 2 == 0 ? 8 : 4)
    few_rows_product(const __grid_constant__ struct few_rows g,
                     const __grid_constant__ struct maps     maps)
{
    constexpr int            N    = pack<T>::N;
    constexpr bool           norm = MORE == NORM || MORE == NORM_GATE, gate = MORE >= GATE;
    __shared__ f32           part[WARPS][R * M];
    __shared__ alignas(16) T held[norm ? HELD_MAX : N];
    int                      warp = threadIdx.x / 32, lane = threadIdx.x % 32, step = 32 * g.split;
    int                      first = warp % g.split * 32 + lane, packs = (int)(g.K / N);
    i64                      group     = (i64)blockIdx.x * (WARPS / g.split) + warp / g.split;
    f32                      sum[R][M] = {}, mine = 0;
    const T                 *x = (const T *)g.x, *w[R];
    i64                      row[R];
    for (int r = 0; r < R; r++) {
        row[r] = gate ? group + r * (g.N / 2) : group * R + r;
        w[r]   = (const T *)g.w + min(row[r], g.N - 1) * g.K;
    }
    early_go();
    early_wait();
    struct packs_of<T> now;
    now.load(w, first, step, packs);
    if (norm) {
        hold_norm(held, g);
        x = held;
    }
    for (int at = first; at < packs; at += step * AHEAD) {
        if (at != first) now.load(w, at, step, packs);
        now.template dot<M>(sum, x, g.M, g.K, at, step, packs);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int m = 0; m < M; m++) {
            f32 all = warp_sum(sum[r][m]);
            if (lane == r * M + m) mine = all;
        }
    }
    if (g.split > 1) {
        if (lane < R * M) part[warp][lane] = mine;
        __syncthreads();
        if (warp % g.split) return;
        mine = 0;
        for (int s = 0; s < g.split && lane < R * M; s++) mine += part[warp + s][lane];
    }
    if constexpr (gate) {
        f32 other = __shfl_down_sync(~0u, mine, M);
        if (!lane && group < g.N / 2) finish_gate<T>(g, group, mine, other);
    } else {
        int r = lane / M, m = lane % M;
        if (lane < R * M && m < g.M && group * R + r < g.N)
            finish<T, Y>(g, maps, m, group * R + r, mine);
    }
}

/* --- the row of the table --- */

static i64 rows_of(const struct gpu_call *c) { return shape_rows(c->out[0].type.shape); }

static bool takes(const struct gpu_call *c)
{
    const struct tensor *x = &c->in[0], *w = &c->in[1], *bias = &c->in[2];
    i64                  rows = rows_of(c), n = 16 / dtype_bytes(x->type.dtype);
    if (c->at->ta || !c->at->tb || w->type.shape.rank != 2 || x->type.dtype != w->type.dtype)
        return false;
    if (c->in_count > 2 && bias->type.dtype != DT_F32 && bias->type.dtype != x->type.dtype)
        return false;
    i64 N = w->type.shape.dim[0], K = w->type.shape.dim[1];
    return rows >= 1 && rows <= ROWS_MAX && N > 0 && K > 0 && K % n == 0 && N < INT32_MAX &&
           K < INT32_MAX;
}

bool gemv_takes_norm(const struct gpu_call *c, const struct gpu_call *norm)
{
    enum dtype weight = norm->in_count > 1 ? norm->in[1].type.dtype : DT_F32;
    return rows_of(c) == 1 && c->in[1].type.shape.dim[1] <= HELD_MAX &&
           type_bytes(c->in[1].type) <= NORMED_BYTES && norm->in[0].count == c->in[0].count &&
           norm->in[0].type.dtype == c->in[0].type.dtype &&
           (weight == DT_F32 || weight == c->in[0].type.dtype);
}

bool gemv_takes_gate(const struct gpu_call *c)
{
    return rows_of(c) == 1 && !c->at->then.count && c->in[1].type.shape.dim[0] % 2 == 0 &&
           c->in[0].type.dtype == c->out[0].type.dtype;
}

/* Warps of a block share rows where there are too few for all processors. */
static i32 split_of(const struct gpu_call *c, i64 rows, i64 packs)
{
    i32 split = 1;
    while (split < WARPS && rows * split < (i64)WARPS_A_PROCESSOR * c->gpu->processors &&
           packs >= 64 * 2 * split)
        split *= 2;
    return split;
}

template <int M, int MORE, class T, class Y>
static void launch(const struct gpu_call *c, struct few_rows g, const struct maps &maps)
{
    i64 pairs  = div_up(g.N, R);
    g.split    = split_of(c, pairs, g.K / pack<T>::N);
    i64 blocks = div_up(pairs, WARPS / g.split);
    launch_early(c->gpu, few_rows_product<M, MORE, T, Y>, dim3((unsigned)blocks), THREADS, 1, g,
                 maps);
}

static struct few_rows few_rows_of(const struct gpu_call *c)
{
    struct few_rows        g    = {};
    const struct gpu_call *norm = c->before;
    g.x                         = norm ? norm->in[0].data : c->in[0].data;
    g.w                         = c->in[1].data;
    g.bias                      = c->in_count > 2 ? c->in[2].data : NULL;
    g.wide_bias                 = c->in_count > 2 && c->in[2].type.dtype == DT_F32;
    g.y                         = c->gate ? c->gate->data : c->out[0].data;
    g.kept                      = c->at->then.keep ? c->out[1].data : NULL;
    g.N                         = c->in[1].type.shape.dim[0];
    g.K                         = c->in[1].type.shape.dim[1];
    g.M                         = (i32)rows_of(c);
    if (!norm) return g;
    g.scale     = norm->in_count > 1 ? norm->in[1].data : NULL;
    g.shift     = norm->in_count > 2 ? norm->in[2].data : NULL;
    g.wide_norm = norm->in_count > 1 && norm->in[1].type.dtype == DT_F32;
    g.mean      = norm->op == OP_LAYERNORM;
    g.eps       = (f32)norm->at->eps;
    return g;
}

static void run(const struct gpu_call *c)
{
    struct few_rows g       = few_rows_of(c);
    struct maps     maps    = {};
    i32             operand = c->in_count;
    maps.mul = (f32)c->at->mul, maps.add = (f32)c->at->add, maps.cap = (f32)c->at->cap;
    for (i32 i = 0; i < c->at->then.count; i++) add_map(&maps, c, c->at->then.op[i], &operand);
    with_types(c->in[0].type.dtype, c->out[0].type.dtype, [&](auto t, auto y) {
        typedef decltype(t) T;
        typedef decltype(y) Y;
        if (g.M > 2) launch<ROWS_MAX, PLAIN, T, Y>(c, g, maps);
        else if (g.M == 2) launch<2, PLAIN, T, Y>(c, g, maps);
        else if (c->gate && c->before) launch<1, NORM_GATE, T, T>(c, g, maps);
        else if (c->gate) launch<1, GATE, T, T>(c, g, maps);
        else if (c->before) launch<1, NORM, T, Y>(c, g, maps);
        else launch<1, PLAIN, T, Y>(c, g, maps);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_gemv[] = {
    { OP_MATMUL, "gemv", takes, run, NULL, NULL, DOES_CHAIN | DOES_NORM | DOES_GATE },
};
GPU_FAMILY(gemv)
