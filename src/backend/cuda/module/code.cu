/* code.cu - which compute capability the kernels were compiled for. A driver compiles PTX of an older one for a newer
 * GPU; what kernels leave out there (clusters, launches that begin early) is missing then, whatever the GPU can do. */
#include "backend/cuda/module/gpu.h"

__global__ void any_kernel() {}

extern "C" i32 gpu_code(void)
{
    cudaFuncAttributes a = {};
    if (cudaFuncGetAttributes(&a, any_kernel) == cudaSuccess) return (i32)a.ptxVersion;
    (void)cudaGetLastError(); /* what all kernels do without will do */
    return 0;
}
