/* rounding.cu - op cast where it is stochastic: |x| becomes floor(|x| / ulp + f) ulp, f a random number
 * of 16 bits. On bits: a random part of what is cut off is added before it is cut. */
#include "backend/cuda/module/device.cuh"
#include "backend/cuda/module/random.cuh"

enum { THREADS = 256, EACH = 4 }; /* one call of the generator gives four words */

template <class T>
__global__ void cast_at_random(T *y, const f32 *x, i64 count, const i32 *rng, u64 name)
{
    i64 block = (i64)blockIdx.x * THREADS + threadIdx.x, i = block * EACH;
    u32 word[EACH];
    if (i >= count) return;
    random_block(word, rng, name, 0, (u64)block);
    for (i64 k = 0; k < EACH && i + k < count; k++)
        y[i + k] = round_at_random(T(), x[i + k], word[k] >> 16);
}

static bool takes(const struct gpu_call *c)
{
    enum dtype to = c->out[0].type.dtype;
    return c->at->stochastic && c->in[0].type.dtype == DT_F32 && (to == DT_BF16 || to == DT_F16);
}

template <class T> static void run_as(const struct gpu_call *c)
{
    i64 count = c->out[0].count;
    cast_at_random<T><<<(unsigned)div_up(count, THREADS * EACH), THREADS, 0, c->gpu->stream>>>(
        data_of<T>(c->out[0]), data_of<f32>(c->in[0]), count, data_of<i32>(c->in[1]),
        (u64)c->at->key);
}

static void run(const struct gpu_call *c)
{
    if (!c->out[0].count) return;
    if (c->out[0].type.dtype == DT_BF16) run_as<bf16>(c);
    else run_as<f16>(c);
}

extern "C" const struct gpu_kernel gpu_kernels_rounding[] = {
    { OP_CAST, "cuda_random", takes, run, NULL, NULL, 0 },
};
GPU_FAMILY(rounding)
