/* loading.h - weights from files to the device by many threads. */
#ifndef BACKEND_CUDA_MODULE_LOADING_H
#define BACKEND_CUDA_MODULE_LOADING_H
#include "backend/backend.h"
#include <cuda_runtime_api.h>

/* The backend's `load`. What was asked for on other streams before must be done. */
cudaError_t loading_run(u8 *arena, const struct backend_part *parts, i64 count, struct pool *pool,
                        backend_fill *fill, void *context);

#endif
