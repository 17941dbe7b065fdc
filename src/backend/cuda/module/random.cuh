/* random.cuh - base/rng.h on the device: the same words for the same address. */
#ifndef BACKEND_CUDA_MODULE_RANDOM_CUH
#define BACKEND_CUDA_MODULE_RANDOM_CUH
#include "backend/cuda/module/device.cuh"

__device__ inline u64 random_mix(u64 x) /* rng_mix */
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

__device__ inline void philox(u32 *ctr, u64 key) /* rng_philox */
{
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53u * ctr[0], p1 = (u64)0xCD9E8D57u * ctr[2];
        ctr[0] = (u32)(p1 >> 32) ^ ctr[1] ^ k0;
        ctr[2] = (u32)(p0 >> 32) ^ ctr[3] ^ k1;
        ctr[1] = (u32)p1;
        ctr[3] = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* rng_philox_key. rng is the program's tensor {seed low, seed high, step, ..}. */
__device__ inline u64 random_key(const i32 *rng, u64 name, u64 sample)
{
    u64 seed = (u64)(u32)rng[1] << 32 | (u32)rng[0];
    return random_mix(random_mix(random_mix(seed + 0x9E3779B97F4A7C15u) ^ name) ^ sample >> 32);
}

/* rng_block: four words. */
__device__ inline void random_words(u32 *word, u64 key, u32 sample, u32 step, u64 block)
{
    word[0] = (u32)block, word[1] = (u32)(block >> 32), word[2] = sample, word[3] = step;
    philox(word, key);
}

__device__ inline void random_block(u32 *word, const i32 *rng, u64 name, u64 sample, u64 block)
{
    random_words(word, random_key(rng, name, sample), (u32)sample, (u32)rng[2], block);
}

/* word in [0, 2^16) */
__device__ inline bf16 round_at_random(bf16, f32 x, u32 word)
{
    u32 bits = __float_as_uint(x), sign = bits & 0x80000000u, size = bits ^ sign;
    if (size >= 0x7F800000u) return from_f32<bf16>(x);
    return from_f32<bf16>(__uint_as_float(((size + word) & ~0xFFFFu) | sign));
}

__device__ inline f16 round_at_random(f16, f32 x, u32 word)
{
    u32 bits = __float_as_uint(x), sign = bits & 0x80000000u, size = bits ^ sign;
    if (size >= 0x7F800000u) return from_f32<f16>(x);
    f32 cut = __uint_as_float((size + word / 8) & ~0x1FFFu);
    if (__uint_as_float(size) <
        0x1p-14f) { /* an ulp is 2^-24: n of them and a rest, which is exact */
        f32 q = __uint_as_float(size) * 0x1p24f, n = truncf(q);
        cut = (n + (q - n >= 1 - (f32)word * 0x1p-16f ? 1 : 0)) * 0x1p-24f;
    }
    return from_f32<f16>(copysignf(cut, x));
}

#endif
