/* loss.cu - softmax of each row, its gradient, and the losses that rest on it. A block a row. */
#include "backend/cuda/module/device.cuh"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

enum { THREADS = 256 };

/* Log of the sum of exp over a row, from the largest element down: never overflows. One pass: each
 * thread carries its own maximum and sum along, and looks at the maximum once for N numbers. */
template <int N> struct running {
    f32             top = -INFINITY, sum = 0;
    __device__ void take(const f32 *v)
    {
        f32 most = v[0];
#pragma unroll
        for (int k = 1; k < N; k++) most = fmaxf(most, v[k]);
        if (most > top) {
            sum *= expf(top - most);
            top = most;
        }
#pragma unroll
        for (int k = 0; k < N; k++) sum += expf(v[k] - top);
    }
};

template <int N, class T> __device__ inline f32 row_lse_by(const T *x, i64 width)
{
    struct running<N> r;
    for (i64 i = (i64)threadIdx.x * N; i < width; i += THREADS * N) {
        f32 v[N];
        load_f32<N>(v, x + i);
        r.take(v);
    }
    f32 all = block_max(r.top);
    return all + logf(block_sum(r.top == -INFINITY ? 0 : r.sum * expf(r.top - all)));
}

template <class T> __device__ inline f32 row_lse(const T *x, i64 width)
{
    constexpr int N = pack<T>::N;
    return width % N == 0 ? row_lse_by<N>(x, width) : row_lse_by<1>(x, width);
}

template <class T> __global__ void softmax(T *y, const T *x, i64 width)
{
    x += blockIdx.x * width;
    y += blockIdx.x * width;
    f32 lse = row_lse(x, width);
    for (i64 i = threadIdx.x; i < width; i += THREADS) y[i] = from_f32<T>(expf(to_f32(x[i]) - lse));
}

template <class T> __global__ void softmax_grad(T *dx, const T *dy, const T *y, i64 width)
{
    f32 dot = 0;
    dx += blockIdx.x * width;
    dy += blockIdx.x * width;
    y += blockIdx.x * width;
    for (i64 i = threadIdx.x; i < width; i += THREADS) dot += to_f32(dy[i]) * to_f32(y[i]);
    dot = block_sum(dot);
    for (i64 i = threadIdx.x; i < width; i += THREADS)
        dx[i] = from_f32<T>((to_f32(dy[i]) - dot) * to_f32(y[i]));
}

template <class T>
__global__ void xent(f32 *loss, f32 *lses, const T *x, const i32 *targets, i64 width, f32 smoothing)
{
    i64 row = blockIdx.x;
    x += row * width;
    f32 lse = row_lse(x, width), mean = 0;
    if (smoothing > 0) {
        for (i64 i = threadIdx.x; i < width; i += THREADS) mean += to_f32(x[i]);
        mean = block_sum(mean) / (f32)width;
    }
    if (threadIdx.x) return;
    i32 target = targets[row];
    lses[row]  = lse;
    loss[row] =
        target < 0 ? 0 : (1 - smoothing) * (lse - to_f32(x[target])) + smoothing * (lse - mean);
}

template <class T>
__global__ void xent_grad(T *dx, const f32 *dloss, const T *x, const i32 *targets, const f32 *lses,
                          i64 width, f32 smoothing)
{
    constexpr int N      = pack<T>::N;
    i64           row    = blockIdx.x;
    i32           target = targets[row];
    f32           lse = lses[row], d = target < 0 ? 0 : dloss[row], spread = smoothing / (f32)width;
    auto          grad = [&](f32 v, i64 i) {
        return (expf(v - lse) - spread - (i == target ? 1 - smoothing : 0)) * d;
    };
    x += row * width;
    dx += row * width;
    if (width % N == 0) {
        for (i64 i = (i64)threadIdx.x * N; i < width; i += THREADS * N) {
            pack<T> v = load_pack(x + i);
#pragma unroll
            for (int k = 0; k < N; k++) v.v[k] = from_f32<T>(grad(to_f32(v.v[k]), i + k));
            store_pack(dx + i, v);
        }
    } else {
        for (i64 i = threadIdx.x; i < width; i += THREADS)
            dx[i] = from_f32<T>(grad(to_f32(x[i]), i));
    }
}

/* Loss and gradient at once: a row is read once, into shared memory if it fits (HELD), and may be written
 * where it lay. With a cap, x stands for cap tanh(x / cap); of 16-bit x the card's own tanh is taken, which is off by
 * 2^-11: an eighth of what rounding x to bf16 did, and as much as f16's. */
__device__ inline f32                    exp_for(f32, f32 x) { return expf(x); }
template <class T> __device__ inline f32 exp_for(T, f32 x) { return __expf(x); }
__device__ inline f32                    tanh_for(f32, f32 x) { return tanhf(x); }
template <class T> __device__ inline f32 tanh_for(T, f32 x)
{
    f32 y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

struct both {
    i64 width;
    f32 smoothing, cap, per_cap; /* 1 / cap; 0: there is none */
};

enum {
    BOTH_THREADS = 512,
    AT_ONCE      = 4
}; /* runs that a thread asks for before it needs the first */

template <class T, bool CAP> __device__ inline f32 capped(f32 v, const struct both &s)
{
    return CAP ? s.cap * tanh_for(T(), v * s.per_cap) : v;
}

/* The log of the sum of exp over the row, and its mean; the row goes into `row` on the way. */
template <int N, class T, bool HELD, bool CAP>
__device__ inline f32 read_row(const T *x, T *row, const struct both &s, f32 *mean)
{
    struct running<N> all;
    f32               sum = 0;
    for (i64 from = (i64)threadIdx.x * N; from < s.width; from += AT_ONCE * BOTH_THREADS * N) {
        chunk<N, T> c[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            i64 i = from + k * BOTH_THREADS * N;
            if (i < s.width) c[k].load(x + i);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            i64 i = from + k * BOTH_THREADS * N;
            if (i >= s.width) break;
            f32 v[N];
            if (HELD) *reinterpret_cast<chunk<N, T> *>(row + i) = c[k];
#pragma unroll
            for (int n = 0; n < N; n++) sum += v[n] = capped<T, CAP>(c[k][n], s);
            all.take(v);
        }
    }
    f32 top = block_max(all.top);
    *mean   = s.smoothing > 0 ? block_sum(sum) / (f32)s.width : 0;
    return top + logf(block_sum(all.top == -INFINITY ? 0 : all.sum * expf(all.top - top)));
}

template <int N, class T, bool HELD, bool CAP>
__global__ void __launch_bounds__(BOTH_THREADS)
    xent_both(T *dx, f32 *loss, const T *x, const i32 *targets, const f32 *dloss, struct both s)
{
    extern __shared__ __align__(16) u8 row_bytes[];
    T                                 *row    = reinterpret_cast<T *>(row_bytes);
    i64                                r      = blockIdx.x;
    i32                                target = targets[r];
    f32 d = target < 0 ? 0 : dloss[r], spread = s.smoothing / (f32)s.width, mean;
    x += r * s.width;
    dx += r * s.width;
    f32 lse = read_row<N, T, HELD, CAP>(x, row, s, &mean);
    if (!threadIdx.x)
        loss[r] = target < 0 ? 0
                             : (1 - s.smoothing) * (lse - capped<T, CAP>(to_f32(x[target]), s)) +
                                   s.smoothing * (lse - mean);
    __syncthreads(); /* thread 0 has read its target before anybody writes */
    for (i64 i = (i64)threadIdx.x * N; i < s.width; i += BOTH_THREADS * N) {
        chunk<N, T> c;
        f32         v[N];
        c.load((HELD ? row : x) + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            f32 y = capped<T, CAP>(c[k], s), part = y * s.per_cap;
            v[k] = (exp_for(T(), y - lse) - spread) * d;
            if (CAP) v[k] *= 1 - part * part;
        }
        i64 here = target - i;
#pragma unroll
        for (int k = 0; here >= 0 && here < N && k < N; k++) { /* the target's own */
            f32 part = capped<T, CAP>(c[k], s) * s.per_cap;
            if (k == here) v[k] -= (1 - s.smoothing) * d * (1 - part * part);
        }
        store_f32<N>(dx + i, v);
    }
}

/* --- the same of 16-bit rows, with the next ones on their way --- */

/* A block goes from row to row and reads each once: a thread keeps its part in registers, asks for
 * its part of the row after the next, and meets the others once, for the row's sum. A row that is too long
 * for one block is shared by a cluster of them. Powers are of 2, which is what the card computes. */
enum { STREAM_THREADS = 1024, STREAM_RUNS = 7, AHEAD = 2, SHARERS_MAX = 8 };
#define LOG2_E 1.442695041f
#define LN_2 0.6931471806f

template <class T> struct two; /* numbers in a word */
template <> struct two<bf16> {
    typedef __nv_bfloat162   type;
    static __device__ float2 wide(type x) { return __bfloat1622float2(x); }
    static __device__ type   low(f32 x, f32 y) { return __floats2bfloat162_rn(x, y); }
};
template <> struct two<f16> {
    typedef __half2          type;
    static __device__ float2 wide(type x) { return __half22float2(x); }
    static __device__ type   low(f32 x, f32 y) { return __floats2half2_rn(x, y); }
};

__device__ inline f32 exp2_fast(f32 x)
{
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2 of the sum over the block of 2^top sum. By turns, so that one barrier is enough. */
__device__ inline f32 block_log2_sum(f32 top, f32 sum, int turn)
{
    __shared__ f32 tops[2][STREAM_THREADS / 32], sums[2][STREAM_THREADS / 32];
    int            lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    f32            all = warp_max(top);
    sum                = warp_sum(sum * exp2_fast(top - all));
    if (!lane) tops[turn][warp] = all, sums[turn][warp] = sum;
    __syncthreads();
    top = tops[turn][lane];
    all = warp_max(top);
    return all + log2f(warp_sum(sums[turn][lane] * exp2_fast(top - all)));
}

/* Until every block of the cluster has its memory. */
__device__ inline void cluster_begins()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cg::this_cluster().sync();
#endif
}

/* The same of all blocks of a cluster, each of which has the log2 of its own sum; by turns as well. */
__device__ inline f32 cluster_log2_sum(f32 own, int turn, int blocks)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    __shared__ f32    parts[2][SHARERS_MAX];
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x < (unsigned)blocks)
        *cluster.map_shared_rank(&parts[turn][cluster.block_rank()], threadIdx.x) = own;
    cluster.sync();
    f32 top = parts[turn][0], sum = 0;
    for (int i = 1; i < blocks; i++) top = fmaxf(top, parts[turn][i]);
    for (int i = 0; i < blocks; i++) sum += exp2_fast(parts[turn][i] - top);
    return top + log2f(sum);
#else
    (void)turn, (void)blocks;
    return own;
#endif
}

/* A thread's part of a row: every STREAM_THREADSth run of 16 bytes, -inf behind the end. */
template <class T, bool CAP> struct row_part {
    typedef typename two<T>::type pair;
    alignas(16) pair v[STREAM_RUNS][4];

    __device__ void take(const uint4 *row, int runs)
    {
#pragma unroll
        for (int k = 0; k < STREAM_RUNS; k++) {
            int at = k * STREAM_THREADS + (int)threadIdx.x;
            if (at < runs) *reinterpret_cast<uint4 *>(v[k]) = row[at];
            else v[k][0] = v[k][1] = v[k][2] = v[k][3] = two<T>::low(-INFINITY, -INFINITY);
        }
    }
    __device__ f32 largest() const /* a cap keeps the order */
    {
        pair top = v[0][0];
#pragma unroll
        for (int i = 1; i < 4 * STREAM_RUNS; i++) top = __hmax2(top, v[i / 4][i % 4]);
        float2 both = two<T>::wide(top);
        return fmaxf(-1e30f, fmaxf(both.x, both.y));
    }
    __device__ f32 sum(int runs, f32 top2, const struct both &s) const
    {
        f32 sum = 0;
#pragma unroll
        for (int i = 0; i < 4 * STREAM_RUNS; i++) {
            if (CAP && i / 4 * STREAM_THREADS + (int)threadIdx.x >= runs)
                break; /* a cap makes a number of -inf */
            float2 x = two<T>::wide(v[i / 4][i % 4]);
            sum += exp2_fast(fmaf(capped<T, CAP>(x.x, s), LOG2_E, -top2)) +
                   exp2_fast(fmaf(capped<T, CAP>(x.y, s), LOG2_E, -top2));
        }
        return sum;
    }
    __device__ static f32 grad(f32 x, f32 lse2, f32 d, const struct both &s)
    {
        f32 y = capped<T, CAP>(x, s), part = y * s.per_cap,
            p = exp2_fast(fmaf(y, LOG2_E, -lse2)) * d;
        return CAP ? p * (1 - part * part) : p;
    }
    __device__ void put_grad(uint4 *to, int runs, f32 lse2, f32 d, const struct both &s) const
    {
#pragma unroll
        for (int k = 0; k < STREAM_RUNS; k++) {
            int              at = k * STREAM_THREADS + (int)threadIdx.x;
            alignas(16) pair out[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float2 x = two<T>::wide(v[k][i]);
                out[i]   = two<T>::low(grad(x.x, lse2, d, s), grad(x.y, lse2, d, s));
            }
            if (at < runs) to[at] = *reinterpret_cast<uint4 *>(out);
        }
    }
    /* What follows computes from 16 bits again: all in f32 at once has no room in registers. */
    __device__ void forget_f32()
    {
#pragma unroll
        for (int i = 0; i < 4 * STREAM_RUNS; i++)
            asm volatile("" : "+r"(*reinterpret_cast<u32 *>(&v[i / 4][i % 4])));
    }
};

/* Runs of 16 bytes: in a row, and at most in the part of one of the blocks that share it. */
struct sharing {
    int runs, part, blocks;
};

template <class T, bool CAP>
__global__ void __launch_bounds__(STREAM_THREADS, 1)
    xent_both_streamed(T *dx, f32 *loss, const T *x, const i32 *targets, const f32 *dloss,
                       struct both s, i64 rows, struct sharing by)
{
    extern __shared__ __align__(16) u8 rows_ahead[];
    uint4 *queue = reinterpret_cast<uint4 *>(rows_ahead); /* [turn][run] */
    int    first = (int)blockIdx.x % by.blocks * by.part, runs = min(by.part, by.runs - first);
    i64    step = gridDim.x / by.blocks, begin = blockIdx.x / by.blocks;
    int    turn = 0;
    x += first * 8;
    dx += first * 8;
    auto ask = [&](i64 row, int which) {
        for (int at = (int)threadIdx.x; row < rows && at < runs; at += STREAM_THREADS)
            async_copy(queue + which * by.part + at, x + row * s.width + at * 8);
        async_group();
    };
    for (int i = 0; i < AHEAD; i++) ask(begin + i * step, i);
    if (by.blocks > 1) cluster_begins();
    for (i64 row = begin; row < rows; row += step, turn ^= 1) {
        i32  target = targets[row], here = target - first * 8; /* of this block's numbers */
        f32  d = target < 0 ? 0 : dloss[row], own = 0;
        bool inside = target >= 0 && here >= 0 && here < runs * 8;
        bool mine   = target < 0 ? !first && !threadIdx.x
                                 : inside && here / 8 % STREAM_THREADS == (int)threadIdx.x;
        struct row_part<T, CAP> part;
        async_wait<AHEAD - 1>();
        part.take(queue + turn * by.part, runs);
        if (mine && inside)
            own = capped<T, CAP>(to_f32(reinterpret_cast<T *>(queue + turn * by.part)[here]), s);
        f32 top2 = capped<T, CAP>(part.largest(), s) * LOG2_E;
        ask(row + AHEAD * step, turn);
        f32 sum = part.sum(runs, top2, s);
        part.forget_f32();
        f32 lse2 = block_log2_sum(top2, sum, turn);
        if (by.blocks > 1) lse2 = cluster_log2_sum(lse2, turn, by.blocks);
        part.put_grad(reinterpret_cast<uint4 *>(dx + row * s.width), runs, lse2, d, s);
        if (!mine) continue;
        f32 slope = own * s.per_cap;
        loss[row] = target < 0 ? 0 : lse2 * LN_2 - own;
        if (inside)
            dx[row * s.width + here] =
                from_f32<T>((exp2_fast(fmaf(own, LOG2_E, -lse2)) - 1) * d * (1 - slope * slope));
    }
}

template <class T, class S> __global__ void bce(f32 *loss, const T *x, const S *t, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    f32 v   = to_f32(x[i]);
    loss[i] = (v < 0 ? 0 : v) - v * to_f32(t[i]) + log1pf(expf(-fabsf(v)));
}

template <class T, class S>
__global__ void bce_grad(T *dx, const f32 *dloss, const T *x, const S *t, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) dx[i] = from_f32<T>(dloss[i] * (1 / (1 + expf(-to_f32(x[i]))) - to_f32(t[i])));
}

/* 1 where the largest logit is the target's; of equal ones the first counts. */
template <class T> __global__ void hits(f32 *y, const T *x, const i32 *targets, i64 width)
{
    __shared__ f32 tops[THREADS];
    __shared__ i64 places[THREADS];
    f32            top   = -INFINITY;
    i64            place = -1;
    x += blockIdx.x * width;
    for (i64 i = threadIdx.x; i < width; i += THREADS) {
        f32 v = to_f32(x[i]);
        if (place < 0 || v > top) top = v, place = i;
    }
    tops[threadIdx.x]   = top;
    places[threadIdx.x] = place;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        int o = threadIdx.x + half;
        if (threadIdx.x < half && places[o] >= 0) {
            f32 a = tops[threadIdx.x], b = tops[o];
            if (places[threadIdx.x] < 0 || b > a || (b == a && places[o] < places[threadIdx.x])) {
                tops[threadIdx.x]   = b;
                places[threadIdx.x] = places[o];
            }
        }
        __syncthreads();
    }
    if (!threadIdx.x) y[blockIdx.x] = places[0] == targets[blockIdx.x];
}

static i64      width_of(const struct tensor &x) { return shape_last(x.type.shape); }
static unsigned rows_of(const struct tensor &x) { return (unsigned)shape_rows(x.type.shape); }

static void run_SOFTMAX(const struct gpu_call *c)
{
    if (!c->in[0].count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        softmax<T><<<rows_of(c->in[0]), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), width_of(c->in[0]));
    });
}

static void run_SOFTMAX_GRAD(const struct gpu_call *c)
{
    if (!c->in[0].count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        softmax_grad<T><<<rows_of(c->in[0]), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]), width_of(c->in[0]));
    });
}

static void run_XENT(const struct gpu_call *c)
{
    if (!c->in[0].count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        xent<T><<<rows_of(c->in[0]), THREADS, 0, c->gpu->stream>>>(
            data_of<f32>(c->out[0]), data_of<f32>(c->out[1]), data_of<T>(c->in[0]),
            data_of<i32>(c->in[1]), width_of(c->in[0]), (f32)c->at->smoothing);
    });
}

static void run_XENT_GRAD(const struct gpu_call *c)
{
    if (!c->in[1].count) return;
    with_type(c->in[1].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        xent_grad<T><<<rows_of(c->in[1]), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<f32>(c->in[0]), data_of<T>(c->in[1]),
            data_of<i32>(c->in[2]), data_of<f32>(c->in[3]), width_of(c->in[1]),
            (f32)c->at->smoothing);
    });
}

enum { HELD_BYTES_MAX = 110 << 10 }; /* so that two rows fit into an H100's processor */

template <int N, class T, bool HELD, bool CAP>
static void launch_both(const struct gpu_call *c, struct both s)
{
    i64  bytes = HELD ? s.width * (i64)sizeof(T) : 0;
    auto f     = xent_both<N, T, HELD, CAP>;
    if (HELD) cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, HELD_BYTES_MAX);
    f<<<rows_of(c->in[0]), BOTH_THREADS, (size_t)bytes, c->gpu->stream>>>(
        data_of<T>(c->out[0]), data_of<f32>(c->out[1]), data_of<T>(c->in[0]),
        data_of<i32>(c->in[1]), data_of<f32>(c->in[2]), s);
}

template <bool CAP> static void run_both(const struct gpu_call *c, struct both s)
{
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        constexpr int       N    = pack<T>::N;
        bool                held = s.width * (i64)sizeof(T) <= HELD_BYTES_MAX;
        if (s.width % N) launch_both<1, T, false, CAP>(c, s);
        else if (held) launch_both<N, T, true, CAP>(c, s);
        else launch_both<N, T, false, CAP>(c, s);
    });
}

static struct both both_of(const struct gpu_call *c)
{
    f32 cap = (f32)c->at->cap;
    return { width_of(c->in[0]), (f32)c->at->smoothing, cap, cap > 0 ? 1 / cap : 0 };
}

static void run_XENT_BOTH(const struct gpu_call *c)
{
    struct both s = both_of(c);
    if (!c->in[0].count) return;
    if (s.cap > 0) run_both<true>(c, s);
    else run_both<false>(c, s);
}

/* As few blocks as a row has room in, in registers and in shared memory; 0: there are no such. */
static struct sharing sharing_of(const struct gpu_call *c)
{
    i64 runs = width_of(c->in[0]) / 8, most = c->gpu->code >= 90 ? SHARERS_MAX : 1;
    for (i64 blocks = 1; blocks <= most; blocks++) {
        i64 part = div_up(runs, blocks);
        if (part <= STREAM_RUNS * STREAM_THREADS &&
            AHEAD * part * 16 + 1024 <= c->gpu->shared_bytes)
            return { (int)runs, (int)part, (int)blocks };
    }
    return {};
}

/* A row that every thread has a part of, and that none has too much of. */
static bool takes_streamed(const struct gpu_call *c)
{
    i64 width = width_of(c->in[0]);
    return dtype_bytes(c->in[0].type.dtype) == 2 && c->at->smoothing == 0 && width % 8 == 0 &&
           width >= STREAM_THREADS * 8 && sharing_of(c).blocks > 0;
}

template <class T, bool CAP> static void launch_streamed(const struct gpu_call *c, struct both s)
{
    struct sharing      by   = sharing_of(c);
    i64                 rows = rows_of(c->in[0]), bytes = AHEAD * (i64)by.part * 16;
    auto                f       = xent_both_streamed<T, CAP>;
    int                 groups  = c->gpu->processors;
    cudaLaunchAttribute cluster = {};
    cudaLaunchConfig_t  how     = {};
    cluster.id                  = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim      = { (unsigned)by.blocks, 1, 1 };
    how.blockDim                = dim3(STREAM_THREADS);
    how.dynamicSmemBytes        = (size_t)bytes;
    how.stream                  = c->gpu->stream;
    how.attrs                   = &cluster;
    how.numAttrs                = by.blocks > 1;
    cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    how.gridDim = dim3((unsigned)by.blocks);
    if (by.blocks > 1 && cudaOccupancyMaxActiveClusters(&groups, f, &how) != cudaSuccess)
        groups = c->gpu->processors / (2 * by.blocks); /* some are short of neighbours */
    how.gridDim = dim3((unsigned)(MIN(rows, MAX(1, groups)) * by.blocks));
    cudaLaunchKernelEx(&how, f, data_of<T>(c->out[0]), data_of<f32>(c->out[1]),
                       (const T *)c->in[0].data, (const i32 *)c->in[1].data,
                       (const f32 *)c->in[2].data, s, rows, by);
}

static void run_streamed(const struct gpu_call *c)
{
    struct both s = both_of(c);
    if (!c->in[0].count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        if constexpr (sizeof(T) == 2) {
            if (s.cap > 0) launch_streamed<T, true>(c, s);
            else launch_streamed<T, false>(c, s);
        }
    });
}

static void run_BCE(const struct gpu_call *c)
{
    i64 count = c->in[0].count;
    if (!count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        with_type(c->in[1].type.dtype, [&](auto s) {
            typedef decltype(t) T;
            typedef decltype(s) S;
            bce<T, S><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
                data_of<f32>(c->out[0]), data_of<T>(c->in[0]), data_of<S>(c->in[1]), count);
        });
    });
}

static void run_BCE_GRAD(const struct gpu_call *c)
{
    i64 count = c->in[1].count;
    if (!count) return;
    with_type(c->in[1].type.dtype, [&](auto t) {
        with_type(c->in[2].type.dtype, [&](auto s) {
            typedef decltype(t) T;
            typedef decltype(s) S;
            bce_grad<T, S><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), data_of<f32>(c->in[0]), data_of<T>(c->in[1]),
                data_of<S>(c->in[2]), count);
        });
    });
}

static void run_HITS(const struct gpu_call *c)
{
    if (!c->in[0].count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        hits<T><<<rows_of(c->in[0]), THREADS, 0, c->gpu->stream>>>(
            data_of<f32>(c->out[0]), data_of<T>(c->in[0]), data_of<i32>(c->in[1]),
            width_of(c->in[0]));
    });
}

extern "C" const struct gpu_kernel gpu_kernels_loss[] = {
    { OP_SOFTMAX, "cuda", NULL, run_SOFTMAX, NULL, NULL, 0 },
    { OP_SOFTMAX_GRAD, "cuda", NULL, run_SOFTMAX_GRAD, NULL, NULL, 0 },
    { OP_XENT, "cuda", NULL, run_XENT, NULL, NULL, 0 },
    { OP_XENT_GRAD, "cuda", NULL, run_XENT_GRAD, NULL, NULL, 0 },
    { OP_XENT_BOTH, "cuda_streamed", takes_streamed, run_streamed, NULL, NULL, 0 },
    { OP_XENT_BOTH, "cuda", NULL, run_XENT_BOTH, NULL, NULL, 0 },
    { OP_BCE, "cuda", NULL, run_BCE, NULL, NULL, 0 },
    { OP_BCE_GRAD, "cuda", NULL, run_BCE_GRAD, NULL, NULL, 0 },
    { OP_HITS, "cuda", NULL, run_HITS, NULL, NULL, 0 },
};
GPU_FAMILY(loss)
