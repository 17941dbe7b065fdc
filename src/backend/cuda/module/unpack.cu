/* unpack.cu - frozen matrices from fewer bits, right before the product that reads them: 16 numbers a thread, half a
 * byte each (or one) read for two written. The rounding is the reference's, step by step. */
#include "backend/cuda/module/device.cuh"
#include <cuda_fp8.h>
extern "C" {
#include "base/nf4.h"
}

enum { THREADS = 256, EACH = 16, BLOCKS_MAX = 132 * 16 };

__constant__ f32 numbers[16] = {
#define NF4(v) v,
#define SIZE(v)
#include "base/nf4.def"
#undef NF4
#undef SIZE
};
__constant__ f32 block_sizes[256] = {
#define NF4(v)
#define SIZE(v) v,
#include "base/nf4.def"
#undef NF4
#undef SIZE
};

template <class T>
__global__ void unpack_nf4(T *y, const u8 *codes, const u8 *sizes, const f32 *scales, i64 count)
{
    __shared__ f32 number[16], size_of[256];
    size_of[threadIdx.x] = block_sizes[threadIdx.x];
    if (threadIdx.x < 16) number[threadIdx.x] = numbers[threadIdx.x];
    __syncthreads();
    for (i64 i = ((i64)blockIdx.x * THREADS + threadIdx.x) * EACH; i < count;
         i += (i64)gridDim.x * THREADS * EACH) {
        uint2      c = *(const uint2 *)(codes + i / 2);
        const f32 *s = scales + i / NF4_GROUP * NF4_SCALES;
        f32        v[EACH], size = __fadd_rn(__fmul_rn(size_of[sizes[i / NF4_BLOCK]], s[0]), s[1]);
#pragma unroll
        for (int k = 0; k < EACH / 2; k++) {
            u32 two      = (k < 4 ? c.x : c.y) >> (k % 4 * 8);
            v[2 * k]     = number[two >> 4 & 15] * size;
            v[2 * k + 1] = number[two & 15] * size;
        }
        store_f32<EACH / 2>(y + i, v);
        store_f32<EACH / 2>(y + i + EACH / 2, v + EACH / 2);
    }
}

template <class T>
__global__ void unpack_e4m3(T *y, const u8 *codes, const f32 *scales, i64 count, i64 K)
{
    for (i64 i = ((i64)blockIdx.x * THREADS + threadIdx.x) * 4; i < count;
         i += (i64)gridDim.x * THREADS * 4) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (i + k >= count) break;
            f32 number = __half2float(__half(__nv_cvt_fp8_to_halfraw(codes[i + k], __NV_E4M3)));
            y[i + k]   = from_f32<T>(number * scales[(i + k) / K]);
        }
    }
}

static void run_UNPACK(const struct gpu_call *c)
{
    i64      count = c->out[0].count, K = c->out[0].type.shape.dim[1];
    i64      each   = c->at->format ? 4 : (i64)EACH;
    unsigned blocks = (unsigned)MIN(div_up(count, THREADS * each), (i64)BLOCKS_MAX);
    if (!count) return;
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        if (c->at->format)
            unpack_e4m3<T><<<blocks, THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), data_of<u8>(c->in[0]), data_of<f32>(c->in[1]), count, K);
        else
            unpack_nf4<T><<<blocks, THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), data_of<u8>(c->in[0]), data_of<u8>(c->in[1]),
                data_of<f32>(c->in[2]), count);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_unpack[] = {
    { OP_UNPACK, "cuda", NULL, run_UNPACK, NULL, NULL, 0 },
};
GPU_FAMILY(unpack)
