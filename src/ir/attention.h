/* attention.h - dropout on attention's weights: for the ops attention, attention_packed, their gradients and kernels.
 *
 * Where p > 0 the last operand is rng, as dropout's. The address of a weight does not depend on how long the sequence
 * is or whether it is packed. Four keys of a query, the first a multiple of 4, share a block of the generator. */
#ifndef IR_ATTENTION_H
#define IR_ATTENTION_H
#include "base/types.h"

#ifdef __CUDACC__
#define ATTENTION_FN __host__ __device__ static inline
#else
#define ATTENTION_FN static inline
#endif

enum { ATTENTION_PLACE_BITS = 24 }; /* a sequence that drops weights has at most 2^24 positions */

/* The element of its sample that the weight of key s for query t in head h is. */
ATTENTION_FN u64 attention_weight(i64 h, i64 t, i64 s)
{
    return ((u64)h << ATTENTION_PLACE_BITS | (u64)t) << ATTENTION_PLACE_BITS | (u64)s;
}

#endif
