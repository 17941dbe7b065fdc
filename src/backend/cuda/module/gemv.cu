/* gemv.cu - products of a few rows with a matrix [N, K], which take as long as reading the matrix does: one new token of
 * each text that is continued.
 *
 * A warp has one column of the result, which is a row of the matrix, or shares it with others of its block, each
 * with a part of K, where there are too few for all processors. It reads it in packs of 16 bytes, several on their
 * way at a time; the few rows x come from the processor's own cache. Sums are f32, in an order that depends on
 * the shape alone.
 *
 * Of one row the kernel does more on the way, so that there are fewer kernels to a token (join.c): the norm that makes x, by
 * every block for itself, and swiglu of the result, for which a warp has a row of either half of the matrix. Numbers
 * between them are rounded as if they were stored. */
#include "backend/cuda/module/early.cuh"
#include "backend/cuda/module/join.h"
#include "backend/cuda/module/maps.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS };
enum {
    AHEAD = 4,
    EARLY = 8
};                     /* packs a lane has on their way; those it asks for before x is there */
enum { ROWS_MAX = 4 }; /* from 8 on cuBLASLt's tensor cores are faster */
enum { WARPS_A_PROCESSOR = 32 }; /* enough to keep the memory busy */
enum { HELD_MAX = 8192 };        /* numbers of a row that is normed: in shared memory */

struct few_rows {
    const void *x, *w, *bias;
    void       *y, *kept; /* kept: the result before the maps, or NULL */
    i64         N, K;
    i32         M, split; /* warps that share a row of the matrix */
    bool        wide_bias;
    const void *scale, *shift; /* of the norm, or NULL */
    bool        wide_norm, mean;
    f32         eps;
    int         early, each;
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

/* --- two to four rows --- */

/* Sums over this lane's packs of R rows of the matrix, from pack `first` on. */
template <int M, int R, class T>
__device__ inline void dots(f32 (*sum)[M], const struct few_rows &g, i64 row, int first, int step)
{
    constexpr int N = pack<T>::N;
    const T      *w = (const T *)g.w, *x = (const T *)g.x;
    int           packs = (int)(g.K / N);
    for (int at = first; at < packs; at += step * AHEAD) {
        pack<T> v[AHEAD][R];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
#pragma unroll
            for (int r = 0; r < R; r++)
                if (at + a * step < packs)
                    v[a][r] = load_once(w + min(row + r, g.N - 1) * g.K + (i64)(at + a * step) * N);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (at + a * step >= packs) continue;
#pragma unroll
            for (int m = 0; m < M; m++) {
                f32 with[N];
                load_f32<N>(with, x + min(m, g.M - 1) * g.K + (i64)(at + a * step) * N);
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
}

template <int M, int R, class T, class Y>
__global__ void __launch_bounds__(THREADS)
    few_rows_product(const __grid_constant__ struct few_rows g,
                     const __grid_constant__ struct maps     maps)
{
    __shared__ f32 part[WARPS][R * M];
    int            warp = threadIdx.x / 32, lane = threadIdx.x % 32, step = 32 * g.split;
    int            first     = warp % g.split * 32 + lane;
    i64            row       = ((i64)blockIdx.x * (WARPS / g.split) + warp / g.split) * R;
    f32            sum[R][M] = {}, mine = 0;
    early_go();
    early_wait();
    dots<M, R, T>(sum, g, row, first, step);
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
        if (warp % g.split || lane >= R * M) return;
        mine = 0;
        for (int s = 0; s < g.split; s++) mine += part[warp + s][lane];
    }
    int r = lane / M, m = lane % M;
    if (lane < R * M && row + r < g.N && m < g.M) finish<T, Y>(g, maps, m, row + r, mine);
}

/* --- one row: a block goes on to its next rows of the matrix, whose first packs are on their way by then --- */

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
        for (int k = 0; k < N; k++)
            v[k] =
                (v[k] - mean) * rstd * (g.scale ? either<T>(g.scale, g.wide_norm, i * N + k) : 1) +
                (g.shift ? either<T>(g.shift, g.wide_norm, i * N + k) : 0);
        store_f32<N>(held + i * N, v);
    }
    __syncthreads();
}

/* Packs at, at + step, … of R rows of the matrix. */
template <int R, int AHEAD, class T> struct run_of {
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
    __device__ void dot(f32 *sum, const T *x, int at, int step, int packs)
    {
        constexpr int N = pack<T>::N;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (at + a * step >= packs) continue;
            f32 with[N];
            load_f32<N>(with, x + (i64)(at + a * step) * N);
#pragma unroll
            for (int r = 0; r < R; r++) {
                chunk<N, T> u;
                memcpy(&u, &v[a][r], sizeof u);
#pragma unroll
                for (int k = 0; k < N; k++) sum[r] += u[k] * with[k];
            }
        }
    }
};

/* Both halves of a gate, each rounded as a product's result is. */
template <class T> __device__ inline void finish_gate(const struct few_rows &g, i64 i, f32 a, f32 b)
{
    if (g.bias) a += either<T>(g.bias, g.wide_bias, i);
    if (g.bias) b += either<T>(g.bias, g.wide_bias, i + g.N / 2);
    a = to_f32(from_f32<T>(a)), b = to_f32(from_f32<T>(b));
    ((T *)g.y)[i] = from_f32<T>(a * sigmoid(a) * b);
}

template <bool NORM, bool GATE, int AHEAD, class T, class Y>
__global__ void __launch_bounds__(THREADS)
    one_row_product(const __grid_constant__ struct few_rows g,
                    const __grid_constant__ struct maps     maps)
{
    constexpr int            N = pack<T>::N, R = GATE ? 2 : 1;
    __shared__ f32           part[2][WARPS][R];
    __shared__ alignas(16) T held[NORM ? HELD_MAX : N];
    int      warp = threadIdx.x / 32, lane = threadIdx.x % 32, step = 32 * g.split, turn = 0;
    int      first = warp % g.split * 32 + lane, packs = (int)(g.K / N), group = WARPS / g.split;
    i64      rows = g.N / R, stride = (i64)gridDim.x * group, base = (i64)blockIdx.x * group;
    i64      row = base + warp / g.split;
    const T *x   = (const T *)g.x, *w[R];
    for (int r = 0; r < R; r++) w[r] = (const T *)g.w + (min(row, rows - 1) + r * rows) * g.K;
    early_go();
    for (int a = 0; a < g.early; a++) {
        int i = first + a * step;
        for (int r = 0; r < R; r++)
            if (lane % 8 == 0 && i < packs) prefetch(w[r] + (i64)i * N);
    }
    early_wait();
    run_of<R, AHEAD, T> now, next;
    now.load(w, first, step, packs);
    if (NORM) {
        hold_norm(held, g);
        x = held;
    }
    for (; base < rows; base += stride, row += stride) {
        f32 sum[R] = {}, mine[R] = {};
        for (int at = first - lane; at < packs; at += step * AHEAD) { /* as often in all lanes */
            bool last = at + step * AHEAD >= packs;
            if (last)
                for (int r = 0; r < R; r++)
                    w[r] = (const T *)g.w + (min(row + stride, rows - 1) + r * rows) * g.K;
            if (!last || base + stride < rows)
                next.load(w, last ? first : at + lane + step * AHEAD, step, packs);
            now.dot(sum, x, at + lane, step, packs);
            now = next;
        }
#pragma unroll
        for (int r = 0; r < R; r++) mine[r] = warp_sum(sum[r]);
        if (g.split > 1) {
#pragma unroll
            for (int r = 0; r < R; r++)
                if (!lane) part[turn][warp][r] = mine[r];
            __syncthreads();
#pragma unroll
            for (int r = 0; r < R; r++) {
                mine[r] = 0;
                for (int s = 0; s < g.split; s++)
                    mine[r] += part[turn][warp / g.split * g.split + s][r];
            }
            turn ^= 1;
        }
        if (lane || row >= rows || warp % g.split) continue;
        if constexpr (GATE) finish_gate<T>(g, row, mine[0], mine[1]);
        else finish<T, Y>(g, maps, 0, row, mine[0]);
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
           norm->in[0].count == c->in[0].count && norm->in[0].type.dtype == c->in[0].type.dtype &&
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

template <int M, int R, class T, class Y>
static void launch_few(const struct gpu_call *c, struct few_rows g, const struct maps &maps)
{
    g.split    = split_of(c, g.N / R, g.K / pack<T>::N);
    i64 blocks = div_up(g.N, (i64)WARPS / g.split * R);
    launch_early(c->gpu, few_rows_product<M, R, T, Y>, dim3((unsigned)blocks), THREADS, 1, g, maps);
}

template <bool NORM, bool GATE, int AHEAD, class T, class Y>
static void launch_one(const struct gpu_call *c, struct few_rows g, const struct maps &maps)
{
    i64 rows = g.N / (GATE ? 2 : 1), each = g.each ? g.each : GATE ? 5 : AHEAD > 4 ? 5 : 8;
    g.split    = split_of(c, rows, g.K / pack<T>::N);
    i64 blocks = MIN(div_up(rows, WARPS / g.split), each * c->gpu->processors);
    launch_early(c->gpu, one_row_product<NORM, GATE, AHEAD, T, Y>, dim3((unsigned)blocks), THREADS,
                 1, g, maps);
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

template <int AHEAD, int EARLY, int EACH> static void run(const struct gpu_call *c)
{
    struct few_rows g       = few_rows_of(c);
    struct maps     maps    = {};
    i32             operand = c->in_count;
    g.early = EARLY, g.each = EACH;
    maps.mul = (f32)c->at->mul, maps.add = (f32)c->at->add, maps.cap = (f32)c->at->cap;
    for (i32 i = 0; i < c->at->then.count; i++) add_map(&maps, c, c->at->then.op[i], &operand);
    with_types(c->in[0].type.dtype, c->out[0].type.dtype, [&](auto t, auto y) {
        typedef decltype(t) T;
        typedef decltype(y) Y;
        if (g.M == 2) launch_few<2, 2, T, Y>(c, g, maps);
        else if (g.M > 2) launch_few<ROWS_MAX, 2, T, Y>(c, g, maps);
        else if (c->gate && c->before) launch_one<true, true, AHEAD, T, T>(c, g, maps);
        else if (c->gate) launch_one<false, true, AHEAD, T, T>(c, g, maps);
        else if (c->before) launch_one<true, false, AHEAD, T, Y>(c, g, maps);
        else launch_one<false, false, AHEAD, T, Y>(c, g, maps);
    });
}

static bool takes_trial(const struct gpu_call *c)
{
    return takes(c) && rows_of(c) == 1 && c->in[0].type.dtype == DT_BF16;
}
#define D DOES_CHAIN | DOES_NORM | DOES_GATE
extern "C" const struct gpu_kernel gpu_kernels_gemv[] = {
    { OP_MATMUL, "gemv_a", takes_trial, run<4, 8, 0>, NULL, NULL, D },
    { OP_MATMUL, "gemv_b", takes_trial, run<4, 0, 0>, NULL, NULL, D },
    { OP_MATMUL, "gemv_c", takes_trial, run<4, 8, 100000>, NULL, NULL, D },
    { OP_MATMUL, "gemv_d", takes_trial, run<8, 8, 0>, NULL, NULL, D },
    { OP_MATMUL, "gemv_e", takes_trial, run<4, 16, 0>, NULL, NULL, D },
    { OP_MATMUL, "gemv_f", takes_trial, run<4, 0, 100000>, NULL, NULL, D },
    { OP_MATMUL, "gemv", takes, run<4, 8, 0>, NULL, NULL, D },
};
GPU_FAMILY(gemv)
