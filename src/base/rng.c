/* rng.c - Philox4x32-10, what is derived from it, and the shuffled order of the samples. */
#include "base/rng.h"
#include <math.h>

/* Multipliers and Weyl increments: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11, table 2 and section 4.3; the same as Random123's philox.h. */
static const u32 multiplier_0 = 0xD2511F53u, multiplier_1 = 0xCD9E8D57u;
static const u32 weyl_0 = 0x9E3779B9u, weyl_1 = 0xBB67AE85u;

u64 rng_mix(u64 x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

u64 rng_philox_key(struct rng_key key)
{
    u64 upper = (key.step >> 32) << 32 | key.sample >> 32;
    u64 k     = rng_mix(key.seed + 0x9E3779B97F4A7C15u); /* so that seed 0 does not stay 0 */
    return rng_mix(rng_mix(k ^ key.name) ^ upper);
}

void rng_philox(const u32 counter[4], const u32 key[2], u32 out[4])
{
    u32 c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    u32 k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)multiplier_0 * c0;
        u64 p1 = (u64)multiplier_1 * c2;
        c0     = (u32)(p1 >> 32) ^ c1 ^ k0;
        c2     = (u32)(p0 >> 32) ^ c3 ^ k1;
        c1     = (u32)p1;
        c3     = (u32)p0;
        k0 += weyl_0;
        k1 += weyl_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void rng_block(struct rng_key key, u64 block, u32 out[4])
{
    u64 k          = rng_philox_key(key);
    u32 counter[4] = { (u32)block, (u32)(block >> 32), (u32)key.sample, (u32)key.step };
    rng_philox(counter, (u32[2]){ (u32)k, (u32)(k >> 32) }, out);
}

u32 rng_u32(struct rng_key key, u64 element)
{
    u32 words[4];
    rng_block(key, element / 4, words);
    return words[element % 4];
}

f64 rng_uniform(struct rng_key key, u64 element) { return rng_u32(key, element) * 0x1p-32; }

static f64 radius_of(u32 word) { return sqrt(-2.0 * log((word + 0.5) * 0x1p-32)); } /* never log(0) */
static f64 angle_of(u32 word) { return 6.283185307179586477 * (word * 0x1p-32); }

f64 rng_normal(struct rng_key key, u64 element)
{
    u32 words[4];
    rng_block(key, element / 4, words);
    const u32 *pair  = words + (element % 4 & 2);
    f64        angle = angle_of(pair[1]);
    return radius_of(pair[0]) * (element & 1 ? sin(angle) : cos(angle));
}

/* A block of words at a time, and each radius for two numbers. */
void rng_fill_normal(struct rng_key key, u64 first_element, i64 count, f64 scale, f32 *out)
{
    i64 at = -(i64)(first_element % 4); /* where the block's first number would go */
    for (u64 block = first_element / 4; at < count; at += 4, block++) {
        u32 words[4];
        f64 four[4];
        rng_block(key, block, words);
        for (int i = 0; i < 4; i += 2) {
            f64 radius = radius_of(words[i]), angle = angle_of(words[i + 1]);
            four[i]     = radius * cos(angle);
            four[i + 1] = radius * sin(angle);
        }
        for (i64 i = MAX(0, -at); i < MIN(4, count - at); i++) out[at + i] = (f32)(scale * four[i]);
    }
}

static f32 f32_of(u32 word) { return (f32)(i32)(word >> 8) * 0x1p-24f; } /* exact */

/* Plain on purpose: two nanoseconds an element; lanes written for vectors gained nothing that a
 * step would notice. */
void rng_fill_uniform(struct rng_key key, u64 first_element, i64 count, f32 *out)
{
    ASSERT(count >= 0);
    u64 k     = rng_philox_key(key);
    u64 block = first_element / 4;
    i64 at    = -(i64)(first_element % 4); /* where the block's first word would go */
    for (; at < count; at += 4, block++) {
        u32 words[4];
        u32 counter[4] = { (u32)block, (u32)(block >> 32), (u32)key.sample, (u32)key.step };
        rng_philox(counter, (u32[2]){ (u32)k, (u32)(k >> 32) }, words);
        if (at >= 0 && at + 4 <= count) {
            for (int i = 0; i < 4; i++) out[at + i] = f32_of(words[i]);
        } else { /* the first or last block, of which only a part is wanted */
            for (i64 i = MAX(0, -at); i < MIN(4, count - at); i++) out[at + i] = f32_of(words[i]);
        }
    }
}

/* A Feistel network over the smallest power of two that holds `count`, its two halves of about
 * equal width changed in turn; a result outside [0, count) is sent through again, which walks
 * the cycle back inside, on average after fewer than two turns. Eight rounds, because the halves
 * of a small count are only a few bits wide. */
i64 rng_permute(u64 seed, u64 epoch, i64 index, i64 count)
{
    ASSERT(count >= 1);
    ASSERT(index >= 0 && index < count);
    int bits     = count == 1 ? 0 : 64 - __builtin_clzll((u64)count - 1);
    int low      = bits / 2;
    u64 low_mask = ((u64)1 << low) - 1, high_mask = ((u64)1 << (bits - low)) - 1;
    u64 key = rng_mix(rng_mix(seed + 0x9E3779B97F4A7C15u) ^ epoch);
    u64 x   = (u64)index;
    do {
        u64 a = x & low_mask, b = x >> low;
        for (u64 round = 0; round < 8; round += 2) {
            b ^= rng_mix(key + (round << 56) + a) & high_mask;
            a ^= rng_mix(key + ((round + 1) << 56) + b) & low_mask;
        }
        x = b << low | a;
    } while (x >= (u64)count);
    return (i64)x;
}
