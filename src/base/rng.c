/* rng.c - Philox4x32-10, what is derived from it, and the shuffled order of the samples. */
#include "base/rng.h"
#include <math.h>
#include <string.h>

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

/* --- normal numbers: Box and Muller's, by series of our own, which the compiler turns into vectors
 * (hence inlined and without branches) and which give the same bits whatever the C library. Both
 * end where the next term is below 1e-16 of the result. --- */

static u64 bits_of(f64 x)
{
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static f64 f64_of_bits(u64 bits)
{
    f64 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Exact; old processors have vectors of conversions from signed numbers only. */
static f64 f64_of(u32 word) { return (f64)(i32)(word ^ 1u << 31) + 0x1p31; }

/* sqrt(-2 log x), x = (word + 1/2) / 2^32, never 0. With x = 2^e m, m about 1 and s = (m - 1) / (m + 1):
 * log x = e log 2 + 2 (s + s^3 / 3 + s^5 / 5 + …). */
__attribute__((always_inline)) static inline f64 radius_of(u32 word)
{
    static const u64 least = 0x3FE6A09E667F3BCD,
                     one   = 0x3FF0000000000000; /* bits of sqrt(1/2), the least m, and of 1 */
    u64 bits               = bits_of((f64_of(word) + 0.5) * 0x1p-32) + (one - least);
    f64 e                  = f64_of_bits(bits >> 52 | 0x433ull << 52) - (0x1p52 + 1023);
    f64 m                  = f64_of_bits((bits & ((1ull << 52) - 1)) + least);
    f64 s = (m - 1) / (m + 1), z = s * s, sum = 0;
#pragma GCC unroll 16
    for (int k = 21; k > 0; k -= 2) sum = sum * z + 1.0 / k;
    return sqrt(-2 * (e * 0.69314718055994530942 + 2 * s * sum));
}

/* Cosine and sine of 2 pi word / 2^32: by the nearest quarter of a turn, and what is left of it. */
__attribute__((always_inline)) static inline void turn_of(u32 word, f64 *cosine, f64 *sine)
{
    static const f64 step    = 6.283185307179586477 * 0x1p-32;
    u32              nearest = (word + (1u << 29)) >> 30;
    f64              t = (f64)(i32)(word - (nearest << 30)) * step, z = t * t, c = 1, s = 1;
#pragma GCC unroll 16
    for (int k = 16; k > 0; k -= 2) {
        c = 1 - c * z * (1.0 / (k * (k - 1)));
        s = 1 - s * z * (1.0 / (k * (k + 1)));
    }
    u64 quarter = nearest, along = bits_of(c), across = bits_of(s * t);
    u64 swap = (along ^ across) & (0 - (quarter & 1)); /* odd quarters: the one for the other */
    *cosine  = f64_of_bits(along ^ swap ^ ((quarter + 1) & 2) << 62); /* bit 63 is the sign */
    *sine    = f64_of_bits(across ^ swap ^ (quarter & 2) << 62);
}

/* Blocks of four words, each the radius and the angle of two pairs. */
enum {
    BLOCKS_AT_ONCE = 64,
    PAIRS_AT_ONCE  = 2 * BLOCKS_AT_ONCE,
    WORDS_AT_ONCE  = 4 * BLOCKS_AT_ONCE
};

static void fill_words(struct rng_key key, u64 block, u32 *words)
{
    u64 k = rng_philox_key(key);
    for (int i = 0; i < BLOCKS_AT_ONCE; i++) {
        u64 at         = block + (u64)i;
        u32 counter[4] = { (u32)at, (u32)(at >> 32), (u32)key.sample, (u32)key.step };
        rng_philox(counter, (u32[2]){ (u32)k, (u32)(k >> 32) }, words + 4 * i);
    }
}

static void fill_pairs(struct rng_key key, u64 block, f64 *out)
{
    u32 words[WORDS_AT_ONCE];
    f64 radius[PAIRS_AT_ONCE], cosine[PAIRS_AT_ONCE], sine[PAIRS_AT_ONCE];
    fill_words(key, block, words);
    for (int i = 0; i < PAIRS_AT_ONCE; i++) radius[i] = radius_of(words[2 * i]);
    for (int i = 0; i < PAIRS_AT_ONCE; i++) turn_of(words[2 * i + 1], &cosine[i], &sine[i]);
    for (int i = 0; i < PAIRS_AT_ONCE; i++) {
        out[2 * i]     = radius[i] * cosine[i];
        out[2 * i + 1] = radius[i] * sine[i];
    }
}

f64 rng_normal(struct rng_key key, u64 element)
{
    u32 words[4];
    f64 cosine, sine;
    rng_block(key, element / 4, words);
    const u32 *pair = words + (element % 4 & 2);
    turn_of(pair[1], &cosine, &sine);
    return radius_of(pair[0]) * (element & 1 ? sine : cosine);
}

void rng_fill_normal(struct rng_key key, u64 first_element, i64 count, f64 scale, f32 *out)
{
    f64 many[2 * PAIRS_AT_ONCE];
    i64 at = -(i64)(first_element % 4); /* where the block's first number would go */
    for (u64 block = first_element / 4; at < count; at += COUNT_OF(many), block += BLOCKS_AT_ONCE) {
        fill_pairs(key, block, many);
        for (i64 i = MAX(0, -at); i < MIN(COUNT_OF(many), count - at); i++)
            out[at + i] = (f32)(scale * many[i]);
    }
}

void rng_fill_around_zero(struct rng_key key, u64 first_element, i64 count, f64 scale, f32 *out)
{
    u32 words[WORDS_AT_ONCE];
    i64 at = -(i64)(first_element % 4);
    for (u64 block = first_element / 4; at < count; at += WORDS_AT_ONCE, block += BLOCKS_AT_ONCE) {
        fill_words(key, block, words);
        for (i64 i = MAX(0, -at); i < MIN(WORDS_AT_ONCE, count - at); i++)
            out[at + i] = (f32)(scale * (2 * (words[i] * 0x1p-32) - 1));
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
