/* rng.h - randomness addressed, not drawn: Philox4x32-10 (Salmon et al., SC'11).
 *
 * A random number is a pure function of where it is used, so any micro-batch, rank count, fusion,
 * recomputation or restart gives the same bits. Activations are addressed by
 * (seed, step, name of the op, sample in the global batch, element in the sample); weights by
 * (seed, step, tensor name, 0, element of the unsharded tensor).
 *
 * The packing, stable for ever and the same in every backend: Philox's counter holds, exact,
 * {block low, block high, sample low, step low} (32 bits each); its key is a 64-bit mix of seed,
 * name, and the upper halves of step and sample. So below 2^32 steps and samples two addresses
 * of one (seed, name) never meet, and two (seed, name) meet by a chance of 2^-64. */
#ifndef BASE_RNG_H
#define BASE_RNG_H
#include "base/types.h"

struct rng_key {
    u64 seed;
    u64 name; /* str_hash of the op's or tensor's stable name */
    u64 step;
    u64 sample;
};

/* A bijection that stirs all bits: the finaliser of SplitMix64 (Steele et al., OOPSLA'14). */
u64 rng_mix(u64 x);

/* The bare generator, as published: ten rounds over `counter` under `key`. */
void rng_philox(const u32 counter[4], const u32 key[2], u32 out[4]);
u64  rng_philox_key(struct rng_key key); /* the packed key, low word first: for other backends */

/* Four 32-bit words for block `block` (elements 4*block .. 4*block+3) of that address. */
void rng_block(struct rng_key key, u64 block, u32 out[4]);
u32  rng_u32(struct rng_key key, u64 element);
f64  rng_uniform(struct rng_key key, u64 element); /* [0, 1), 32 bits */
f64  rng_normal(struct rng_key key, u64 element);  /* Box-Muller: elements 2i, 2i+1 share a pair */

/* (f32)(scale * rng_normal) of elements first .. first+count-1, many times as fast. */
void rng_fill_normal(struct rng_key key, u64 first_element, i64 count, f64 scale, f32 *out);

/* (f32)(scale * (2 * rng_uniform - 1)) of the same elements. */
void rng_fill_around_zero(struct rng_key key, u64 first_element, i64 count, f64 scale, f32 *out);

/* Elements first .. first+count-1: rng_uniform cut (not rounded) to f32's 24 bits, so in [0, 1). */
void rng_fill_uniform(struct rng_key key, u64 first_element, i64 count, f32 *out);

/* A permutation of [0, count) as a pure function of (seed, epoch): where sample `index` of the
 * epoch lies in the data set. Feistel network with cycle walking; count >= 1. */
i64 rng_permute(u64 seed, u64 epoch, i64 index, i64 count);

#endif
