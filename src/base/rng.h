/* rng.h - randomness addressed, not drawn: Philox4x32-10 (Salmon et al., SC'11).
 *
 * A random number is a pure function of where it is used, so any micro-batch, rank count, fusion,
 * recomputation or restart gives the same bits. Activations are addressed by
 * (seed, step, name of the op, sample in the global batch, element in the sample); weights by
 * (seed, step, tensor name, 0, element of the unsharded tensor). */
#ifndef BASE_RNG_H
#define BASE_RNG_H
#include "base/types.h"

struct rng_key {
    u64 seed;
    u64 name; /* str_hash of the op's or tensor's stable name */
    u64 step;
    u64 sample;
};

/* Four 32-bit words for block `block` (elements 4*block .. 4*block+3) of that address. */
void rng_block(struct rng_key key, u64 block, u32 out[4]);
u32  rng_u32(struct rng_key key, u64 element);
f64  rng_uniform(struct rng_key key, u64 element); /* [0, 1), 32 bits */
f64  rng_normal(struct rng_key key, u64 element);  /* Box-Muller on the element's own block */

/* A permutation of [0, count) as a pure function of (seed, epoch): where sample `index` of the
 * epoch lies in the data set. Feistel network with cycle walking; count >= 1. */
i64 rng_permute(u64 seed, u64 epoch, i64 index, i64 count);

#endif
