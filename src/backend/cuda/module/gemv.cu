/* gemv.cu - products of a few rows with a matrix [N, K], which take as long as reading the matrix does: one new token
 * of each text that is continued.
 *
 * A warp has two columns of the result, which are rows of the matrix, or shares them with others of its block, each
 * with a part of K, where there are too few for all processors. It reads them in packs of 16 bytes, AHEAD of each on
 * their way at a time; the few rows x come from the processor's own cache. Sums are f32, in an order that depends on
 * the shape alone. Asking for the first packs before x is there, and blocks that go on to further rows, were slower. */
#include "backend/cuda/module/early.cuh"
#include "backend/cuda/module/maps.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS };
enum { AHEAD = 4, R = 2 }; /* packs that a lane has on their way of each of R rows of the matrix */
enum { ROWS_MAX = 4 };     /* from 8 on cuBLASLt's tensor cores are faster */
enum { WARPS_A_PROCESSOR = 32 }; /* enough to keep the memory busy */

struct few_rows {
    const void *x, *w, *bias;
    void       *y, *kept; /* kept: the result before the maps, or NULL */
    i64         N, K;
    i32         M, split; /* warps that share a row of the matrix */
    bool        wide_bias;
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

/* Number i of row m of the result, from its sum. */
template <class T, class Y>
__device__ inline void finish(const struct few_rows &g, const struct maps &maps, i64 m, i64 i,
                              f32 sum)
{
    i64 at = m * g.N + i;
    if (g.bias) sum += g.wide_bias ? ((const f32 *)g.bias)[i] : to_f32(((const T *)g.bias)[i]);
    Y v = from_f32<Y>(sum);
    if (g.kept) ((Y *)g.kept)[at] = v;
    for (int k = 0; k < maps.count; k++)
        apply<1>(maps, maps.op[k], &v, maps.operand[k] ? (const Y *)maps.operand[k] + at : &v);
    ((Y *)g.y)[at] = v;
}

/* Sums over this lane's packs of R rows of the matrix, from pack `first` on. */
template <int M, class T>
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

/* M: rows of x, at most. */
template <int M, class T, class Y>
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
    dots<M, T>(sum, g, row, first, step);
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

/* Warps of a block share rows where there are too few for all processors. */
static i32 split_of(const struct gpu_call *c, i64 rows, i64 packs)
{
    i32 split = 1;
    while (split < WARPS && rows * split < (i64)WARPS_A_PROCESSOR * c->gpu->processors &&
           packs >= 64 * 2 * split)
        split *= 2;
    return split;
}

template <int M, class T, class Y>
static void launch(const struct gpu_call *c, struct few_rows g, const struct maps &maps)
{
    i64 pairs  = div_up(g.N, R);
    g.split    = split_of(c, pairs, g.K / pack<T>::N);
    i64 blocks = div_up(pairs, WARPS / g.split);
    launch_early(c->gpu, few_rows_product<M, T, Y>, dim3((unsigned)blocks), THREADS, 1, g, maps);
}

static void run(const struct gpu_call *c)
{
    struct few_rows g       = {};
    struct maps     maps    = {};
    i32             operand = c->in_count;
    g.x                     = c->in[0].data;
    g.w                     = c->in[1].data;
    g.bias                  = c->in_count > 2 ? c->in[2].data : NULL;
    g.wide_bias             = c->in_count > 2 && c->in[2].type.dtype == DT_F32;
    g.y                     = c->out[0].data;
    g.kept                  = c->at->then.keep ? c->out[1].data : NULL;
    g.N                     = c->in[1].type.shape.dim[0];
    g.K                     = c->in[1].type.shape.dim[1];
    g.M                     = (i32)rows_of(c);
    maps.mul = (f32)c->at->mul, maps.add = (f32)c->at->add, maps.cap = (f32)c->at->cap;
    for (i32 i = 0; i < c->at->then.count; i++) add_map(&maps, c, c->at->then.op[i], &operand);
    with_types(c->in[0].type.dtype, c->out[0].type.dtype, [&](auto t, auto y) {
        typedef decltype(t) T;
        typedef decltype(y) Y;
        if (g.M == 1) launch<1, T, Y>(c, g, maps);
        else if (g.M == 2) launch<2, T, Y>(c, g, maps);
        else launch<ROWS_MAX, T, Y>(c, g, maps);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_gemv[] = {
    { OP_MATMUL, "gemv", takes, run, NULL, NULL, DOES_CHAIN },
};
GPU_FAMILY(gemv)
