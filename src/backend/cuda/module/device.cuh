/* device.cuh - what the CUDA kernels share: numbers of any float type as f32, packs of 16 bytes,
 * sums over a warp and a block. */
#ifndef BACKEND_CUDA_MODULE_DEVICE_CUH
#define BACKEND_CUDA_MODULE_DEVICE_CUH
#include "backend/cuda/module/gpu.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef __nv_bfloat16 bf16;
typedef __half        f16;

__device__ inline f32 to_f32(f32 x) { return x; }
__device__ inline f32 to_f32(bf16 x) { return __bfloat162float(x); }
__device__ inline f32 to_f32(f16 x) { return __half2float(x); }
__device__ inline f32 to_f32(i32 x) { return (f32)x; }
__device__ inline f32 to_f32(u8 x) { return (f32)x; }

template <class T> __device__ inline T from_f32(f32 x);
template <> __device__ inline f32      from_f32<f32>(f32 x) { return x; }
template <> __device__ inline bf16     from_f32<bf16>(f32 x) { return __float2bfloat16_rn(x); }
template <> __device__ inline f16      from_f32<f16>(f32 x) { return __float2half_rn(x); }
/* Towards zero and within bounds; a NaN is 0: as the reference does it. */
template <> __device__ inline i32 from_f32<i32>(f32 x) { return __float2int_rz(x); }
template <> __device__ inline u8  from_f32<u8>(f32 x)
{
    return (u8)__float2int_rz(fminf(fmaxf(x, 0), 255));
}

/* 16 bytes at a time. */
template <class T> struct alignas(16) pack {
    static constexpr int N = 16 / sizeof(T);
    T                    v[N];
};

template <class T> __device__ inline pack<T> load_pack(const T *p)
{
    return *reinterpret_cast<const pack<T> *>(p);
}
template <class T> __device__ inline void store_pack(T *p, const pack<T> &v)
{
    *reinterpret_cast<pack<T> *>(p) = v;
}
/* N numbers as they lie in memory: half the registers of their f32s where T is of 16 bits. */
template <int N, class T> struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) chunk {
    T               v[N];
    __device__ void load(const T *p) { *this = *reinterpret_cast<const chunk *>(p); }
    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = from_f32<T>(0);
    }
    __device__ void set(const f32 *from)
    {
        if constexpr (std::is_same_v<T, bf16> && N % 2 == 0) { /* two by one instruction */
#pragma unroll
            for (int i = 0; i < N; i += 2) {
                __nv_bfloat162 two = __floats2bfloat162_rn(from[i], from[i + 1]);
                memcpy(v + i, &two, sizeof two);
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) v[i] = from_f32<T>(from[i]);
        }
    }
    __device__ f32 operator[](int i) const
    {
        if constexpr (std::is_same_v<T, bf16> &&
                      N % 2 == 0) { /* by one instruction each, the upper of two as well */
            u32 two;
            memcpy(&two, v + i / 2 * 2, sizeof two);
            return __uint_as_float(i % 2 ? two & 0xFFFF0000u : two << 16);
        }
        return to_f32(v[i]);
    }
};

/* N numbers of any type as f32. */
template <int N, class T> __device__ inline void load_f32(f32 *to, const T *p)
{
    chunk<N, T> c;
    c.load(p);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = c[i];
}

/* Into shared memory, where a warp's stores meet anyway. */
template <int N, class T> __device__ inline void meet_f32(T *p, const f32 *from)
{
    chunk<N, T> c;
    c.set(from);
    *reinterpret_cast<chunk<N, T> *>(p) = c;
}

/* Into global memory by whole words, 16 bytes at a time where there are as many. It is said in so many words: of a
 * struct's assignment the compiler makes a store a number once two such stand side by side, and a kernel that should
 * wait for memory has two thirds of its pace. */
template <int W> __device__ inline void store_words(u32 *p, const u32 *w)
{
#pragma unroll
    for (int i = 0; i < W / 4 * 4; i += 4)
        __stwb((uint4 *)(p + i), make_uint4(w[i], w[i + 1], w[i + 2], w[i + 3]));
    if constexpr (W % 4 == 2) __stwb((uint2 *)(p + W - 2), make_uint2(w[W - 2], w[W - 1]));
    if constexpr (W % 2 == 1) p[W - 1] = w[W - 1];
}
template <int N, class T> __device__ inline void store_f32(T *p, const f32 *from)
{
    constexpr int BYTES = N * (int)sizeof(T);
    if constexpr (BYTES % 4 == 0 && (BYTES % 16 == 0 || BYTES < 16)) {
        chunk<N, T> c;
        u32         w[BYTES / 4];
        c.set(from);
        memcpy(w, c.v, sizeof w);
        store_words<BYTES / 4>((u32 *)p, w);
    } else {
        meet_f32<N>(p, from);
    }
}

/* 16 bytes on their way into shared memory while the thread goes on. After async_wait<N> all but the last N
 * groups of its copies are there, for itself: others need a barrier. */
__device__ inline void async_copy(void *to, const void *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ inline void async_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ inline void async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ inline f32 warp_sum(f32 x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(~0u, x, d);
    return x;
}
__device__ inline f32 warp_max(f32 x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}
/* The same sum in every thread. The block has whole warps. */
__device__ inline f32 block_sum(f32 x)
{
    __shared__ f32 part[32];
    int            lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_sum(x);
    __syncthreads();
    if (!lane) part[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? part[lane] : 0);
}
__device__ inline f32 block_max(f32 x)
{
    __shared__ f32 part[32];
    int            lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_max(x);
    __syncthreads();
    if (!lane) part[warp] = x;
    __syncthreads();
    return warp_max(lane < warps ? part[lane] : -INFINITY);
}

/* Sums of `parts` rows of partial sums: a block, PART_THREADS, has PART_COLUMNS columns and loads the numbers of column
 * threadIdx.x, from part[0] on, step by step; warp threadIdx.y has the sum of column threadIdx.y. */
enum { PART_COLUMNS = 32 };
#define PART_THREADS dim3(PART_COLUMNS, 32)
__device__ inline f32 sum_parts(const f32 *part, i64 step, i64 parts, bool inside)
{
    constexpr int  AHEAD = 8;
    __shared__ f32 meet[32][PART_COLUMNS + 1];
    f32            sum = 0, v[AHEAD];
    for (i64 p = threadIdx.y; p < parts; p += 32 * AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            v[k] = inside && p + 32 * k < parts ? part[(p + 32 * k) * step] : 0;
#pragma unroll
        for (int k = 0; k < AHEAD; k++) sum += v[k];
    }
    meet[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    return warp_sum(meet[threadIdx.x][threadIdx.y]);
}

static inline i64 div_up(i64 a, i64 b) { return (a + b - 1) / b; }

/* with_type(dtype, f): f called with a number of that C type; f is a generic lambda. */
template <class F> static inline void with_type(enum dtype t, F f)
{
    if (t == DT_F32) f(f32());
    else if (t == DT_BF16) f(bf16());
    else if (t == DT_F16) f(f16());
    else ASSERT(!"a float type of the GPU");
}

/* with_types(x, w, f): f(T, W), the types of numbers and of the weights beside them: the same, or f32. */
template <class F> static inline void with_types(enum dtype x, enum dtype w, F f)
{
    with_type(x, [&](auto t) {
        if (w == DT_F32) f(t, f32());
        else f(t, t);
    });
}

template <class T> static inline T *data_of(const struct tensor &t) { return (T *)t.data; }

#define GPU_FAMILY(name)                                                                           \
    extern "C" const i32 gpu_kernels_##name##_count;                                               \
    extern "C" const i32 gpu_kernels_##name##_count = (i32)COUNT_OF(gpu_kernels_##name);

#endif
