/* rope.cuh - the angles of rotary positions, for heads.cu and for attention that turns heads itself. */
#ifndef BACKEND_CUDA_MODULE_ROPE_CUH
#define BACKEND_CUDA_MODULE_ROPE_CUH
#include "backend/cuda/module/device.cuh"
#include "ir/rope.h"
#include <math.h>

struct turn {
    f64                 log_base;
    struct rope_scaling scaling;
};

static struct turn turn_by(const struct attrs *at)
{
    return { log2(at->base), { at->stretch, at->low, at->high } };
}

/* The angle t base^(-2i/D) is taken in f64: t is large, and f32 would be off by the whole of its
 * rounding times t. */
__device__ inline void turn_of(i64 t, i64 i, i64 D, struct turn by, f32 *co, f32 *si)
{
    f64 angle = (f64)t * rope_scaled(exp2(-2.0 * (f64)i / (f64)D * by.log_base), by.scaling);
    angle -= floor(angle * 0.15915494309189535) * 6.283185307179586;
    sincosf((f32)angle, si, co);
}

#endif
