/* rope.h - rotary positions of a context longer than the one that a model was trained on first: frequencies are
 * lowered, so that positions far apart turn as nearer ones did. For the op rope and its kernels.
 *
 *     linear    f / stretch                                  (Chen et al. 2023, arXiv 2306.15595)
 *     llama3    f / stretch up to `low`, f from `high` on, between them the mean weighted by where f lies
 *               (Llama Team 2024, arXiv 2407.21783; transformers, modeling_rope_utils.py) */
#ifndef IR_ROPE_H
#define IR_ROPE_H
#include "base/types.h"

#ifdef __CUDACC__
#define ROPE_FN __host__ __device__ static inline
#else
#define ROPE_FN static inline
#endif

/* The attributes of the op: in radians a position. All 0: frequencies stay as they are. */
struct rope_scaling {
    f64 stretch, low, high;
};

ROPE_FN f64 rope_scaled(f64 frequency, struct rope_scaling s)
{
    if (!(s.stretch > 0)) return frequency;
    f64 keep = s.high > 0 ? (frequency - s.low) / (s.high - s.low) : 0;
    keep     = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return frequency * (keep + (1 - keep) / s.stretch);
}

#endif
