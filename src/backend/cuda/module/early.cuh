/* early.cuh - kernels that begin while the one before them still runs (programmatic dependent launch, from Hopper on).
 *
 * A program for one new token is some hundred kernels of a few microseconds, and most of their time would be the way
 * from the end of one to the beginning of the next. A kernel launched by launch_early may have its blocks placed as
 * soon as all blocks of the one before it have called early_go or ended. Until early_wait returns it must neither
 * write nor read what another kernel of the program writes; after it all kernels before it are done, since each of
 * those waited, too. */
#ifndef BACKEND_CUDA_MODULE_EARLY_CUH
#define BACKEND_CUDA_MODULE_EARLY_CUH
#include "backend/cuda/module/device.cuh"

__device__ inline void early_go()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void early_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* cluster: blocks that share their memory; 1: none do. */
template <class... P, class... A>
static inline void launch_early(const struct gpu *gpu, void (*kernel)(P...), dim3 grid,
                                unsigned threads, unsigned cluster, A... arguments)
{
    cudaLaunchAttribute list[2] = {};
    cudaLaunchConfig_t  how     = {};
    how.gridDim                 = grid;
    how.blockDim                = dim3(threads);
    how.stream                  = gpu->stream;
    how.attrs                   = list;
    if (gpu->code >= 90) {
        list[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        list[0].val.programmaticStreamSerializationAllowed = 1;
        how.numAttrs                                       = 1;
    }
    if (cluster > 1) {
        list[how.numAttrs].id               = cudaLaunchAttributeClusterDimension;
        list[how.numAttrs].val.clusterDim.x = cluster;
        list[how.numAttrs].val.clusterDim.y = list[how.numAttrs].val.clusterDim.z = 1;
        how.numAttrs++;
    }
    cudaLaunchKernelEx(&how, kernel, P(arguments)...);
}

/* Early where there are few rows, so that the launch is much of its time; else as ever. */
enum { EARLY_ROWS = 64 };
template <class... P, class... A>
static inline void launch_rows(const struct gpu *gpu, i64 rows, void (*kernel)(P...), dim3 grid,
                               unsigned threads, A... arguments)
{
    if (rows <= EARLY_ROWS) launch_early(gpu, kernel, grid, threads, 1, arguments...);
    else kernel<<<grid, threads, 0, gpu->stream>>>(arguments...);
}

#endif
