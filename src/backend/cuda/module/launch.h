/* launch.h - kernels that other kernels' C code launches. */
#ifndef BACKEND_CUDA_MODULE_LAUNCH_H
#define BACKEND_CUDA_MODULE_LAUNCH_H
#include "backend/cuda/module/gpu.h"
#ifdef __cplusplus
extern "C" {
#endif

void launch_cast(void *to, enum dtype to_type, const void *from, enum dtype from_type, i64 count,
                 cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
