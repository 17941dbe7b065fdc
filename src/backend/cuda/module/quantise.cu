/* quantise.cu - casts to fp8, each tensor read once and written twice: as it lies and transposed.
 *
 * A block takes a tile of 64 x 64, whose codes meet in shared memory on their way to the transposed copy. The
 * largest number goes along by an atomic maximum of bits, which any order gives alike. Where no step was
 * before, a first kernel finds the tensor's own maximum; else it returns at once. */
#include "backend/cuda/module/device.cuh"
#include <cuda_fp8.h>
extern "C" {
#include "ir/fp8.h"
}

enum { TILE = 64, THREADS = 256, EACH = 8, PITCH = TILE + 4, AMAX_BLOCKS = 132 };

/* |x| as bits, which compare as the numbers do, a NaN above all. */
__device__ inline u32 size_bits(f32 x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

/* The largest of a block's joins the row. A barrier for the block. */
__device__ inline void join(f32 *row, u32 bits)
{
    __shared__ u32 part[THREADS / 32];
    bits = __reduce_max_sync(~0u, bits);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = bits;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 0; i < THREADS / 32; i++) bits = max(bits, part[i]);
    atomicMax((u32 *)&row[FP8_NOW], bits);
}

template <class T> __global__ void first_amax(f32 *row, const T *x, i64 count)
{
    u32 most = 0;
    if (row[FP8_USED] > 0) return;
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < count; i += (i64)gridDim.x * THREADS)
        most = max(most, size_bits(to_f32(x[i])));
    join(row, most);
}

/* fp8_exponent of base/fp8.h */
__device__ inline int exponent_of(f32 amax, bool e5m2)
{
    int own = 0;
    if (!(amax > 0) || amax > 3.4028235e38f) return 0;
    f32 part = frexpf(amax, &own);
    return max(-100, min((e5m2 ? 16 : 9) - own - (part > 0.875f), 100));
}

template <class T>
__global__ void quantise(u8 *q, u8 *turned, f32 *factor, f32 *row, const T *x, i64 rows, i64 C,
                         bool e5m2, bool again)
{
    __shared__ __align__(16) u8 tile[TILE][PITCH];
    i64                         r0 = (i64)blockIdx.y * TILE, c0 = (i64)blockIdx.x * TILE;
    int  exponent = exponent_of(row[FP8_USED] > 0 ? row[FP8_USED] : row[FP8_NOW], e5m2);
    f32  scale    = ldexpf(1, exponent);
    u32  most     = 0;
    auto kind     = e5m2 ? __NV_E5M2 : __NV_E4M3;
    int  column   = threadIdx.x % (TILE / EACH) * EACH;
    for (int r = threadIdx.x / (TILE / EACH); r < TILE; r += THREADS / (TILE / EACH)) {
        f32 v[EACH];
        union {
            __nv_fp8x2_storage_t pair[EACH / 2];
            uint2                all;
        } out;
        if (r0 + r >= rows || c0 + column >= C) continue; /* C is a multiple of 16 */
        load_f32<EACH>(v, x + (r0 + r) * C + c0 + column);
#pragma unroll
        for (int k = 0; k < EACH; k += 2) {
            most            = max(most, max(size_bits(v[k]), size_bits(v[k + 1])));
            float2 two      = { v[k] * scale, v[k + 1] * scale };
            out.pair[k / 2] = __nv_cvt_float2_to_fp8x2(two, __NV_SATFINITE, kind);
        }
        *(uint2 *)(q + (r0 + r) * C + c0 + column) = out.all;
        *(u32 *)&tile[r][column]                   = out.all.x;
        *(u32 *)&tile[r][column + 4]               = out.all.y;
    }
    if (again) __syncthreads();
    else join(row, most);
    /* the tile is whole */
    if (!threadIdx.x && !blockIdx.x && !blockIdx.y) *factor = ldexpf(1, -exponent);
    /* 16 rows of one column a thread */
    int k = threadIdx.x / 4, part = threadIdx.x % 4 * 16;
    if (c0 + k >= C || r0 + part >= rows) return; /* rows are a multiple of 16 */
    union {
        u8    code[16];
        uint4 all;
    } out;
#pragma unroll
    for (int i = 0; i < 16; i++) out.code[i] = tile[part + i][k];
    *(uint4 *)(turned + (c0 + k) * rows + r0 + part) = out.all;
}

__device__ inline f32 decoded(u8 code, bool e5m2)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, e5m2 ? __NV_E5M2 : __NV_E4M3)));
}

/* A thread a result: for what cuBLASLt refuses. */
template <class R, class B>
__global__ void matmul_naive(R *y, const u8 *a, const u8 *b, const f32 *a_factor,
                             const f32 *b_factor, const B *bias, i64 count, i64 N, i64 K,
                             int format)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    f32 sum = 0;
    a += i / N * K;
    b += i % N * K;
    for (i64 k = 0; k < K; k++) sum += decoded(a[k], format & 1) * decoded(b[k], format >> 1 & 1);
    y[i] = from_f32<R>(sum * *a_factor * *b_factor + (bias ? to_f32(bias[i % N]) : 0));
}

/* One row a thread: ref_FP8_ADVANCE. */
__global__ void advance(f32 *state, i64 rows)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows) return;
    f32 *row = state + i * FP8_STATE, now = row[FP8_NOW], most = now;
    row[FP8_NOW] = 0;
    if (!isfinite(now)) return;
    for (int k = FP8_STATE - 1; k > FP8_PAST; k--) {
        row[k] = row[k - 1];
        most   = fmaxf(most, row[k]);
    }
    row[FP8_PAST] = now;
    row[FP8_USED] = most;
}

static bool takes(const struct gpu_call *c)
{
    struct shape s = c->out[0].type.shape;
    return s.dim[0] % FP8_ALIGN == 0 && s.dim[1] % FP8_ALIGN == 0;
}

static void run_QUANTISE(const struct gpu_call *c)
{
    i64  rows = c->out[0].type.shape.dim[0], C = c->out[0].type.shape.dim[1];
    f32 *row = data_of<f32>(c->in[1]) + c->at->start * FP8_STATE;
    dim3 tiles((unsigned)div_up(C, TILE), (unsigned)div_up(rows, TILE));
    if (!c->in[0].count) return;
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        if (!(c->at->format & FP8_AGAIN))
            first_amax<T><<<AMAX_BLOCKS, THREADS, 0, c->gpu->stream>>>(row, data_of<T>(c->in[0]),
                                                                       c->in[0].count);
        quantise<T><<<tiles, THREADS, 0, c->gpu->stream>>>(
            data_of<u8>(c->out[0]), data_of<u8>(c->out[1]), data_of<f32>(c->out[2]), row,
            data_of<T>(c->in[0]), rows, C, c->at->format & 1, c->at->format & FP8_AGAIN);
    });
}

static void run_MATMUL_FP8(const struct gpu_call *c)
{
    i64  count = c->out[0].count, N = c->in[1].type.shape.dim[0], K = c->in[1].type.shape.dim[1];
    bool biased = c->in_count == 5;
    if (!count) return;
    with_type(c->out[0].type.dtype, [&](auto r) {
        with_type(biased ? c->in[4].type.dtype : DT_F32, [&](auto b) {
            typedef decltype(r) R;
            typedef decltype(b) B;
            matmul_naive<R, B><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
                data_of<R>(c->out[0]), data_of<u8>(c->in[0]), data_of<u8>(c->in[1]),
                data_of<f32>(c->in[2]), data_of<f32>(c->in[3]),
                biased ? data_of<B>(c->in[4]) : NULL, count, N, K, (int)c->at->format);
        });
    });
}

static void run_FP8_ADVANCE(const struct gpu_call *c)
{
    i64 rows = c->in[0].type.shape.dim[0];
    if (!rows) return;
    advance<<<(unsigned)div_up(rows, THREADS), THREADS, 0, c->gpu->stream>>>(data_of<f32>(c->in[0]),
                                                                             rows);
}

extern "C" const struct gpu_kernel gpu_kernels_quantise[] = {
    { OP_QUANTISE, "cuda", takes, run_QUANTISE, NULL, NULL, 0 },
    { OP_MATMUL_FP8, "cuda_naive", NULL, run_MATMUL_FP8, NULL, NULL, 0 },
    { OP_FP8_ADVANCE, "cuda", NULL, run_FP8_ADVANCE, NULL, NULL, 0 },
};
GPU_FAMILY(quantise)
