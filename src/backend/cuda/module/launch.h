/* launch.h - kernels that other kernels' C code launches. */
#ifndef BACKEND_CUDA_MODULE_LAUNCH_H
#define BACKEND_CUDA_MODULE_LAUNCH_H
#include "backend/cuda/module/gpu.h"
#ifdef __cplusplus
extern "C" {
#endif

void launch_cast(void *to, enum dtype to_type, const void *from, enum dtype from_type, i64 count,
                 cudaStream_t stream);

/* y = a + b, all of one type. */
void launch_add(void *y, const void *a, const void *b, enum dtype type, i64 count,
                cudaStream_t stream);

/* muon: x becomes the momentum looked ahead along, of norm 1, in bf16; and the update by it. `part`
 * has MUON_PARTS numbers. */
enum { MUON_PARTS = 1025 };
void launch_muon_begin(const struct gpu_call *c, void *x, f32 *part);
void launch_muon_end(const struct gpu_call *c, const void *x);

#ifdef __cplusplus
}
#endif
#endif
