/* gemm.h - matrix products for whoever needs one: op matmul, and the kernels made of products.
 *
 * d = alpha a . b + beta c, row-major; ta and tb transpose. The kernel is chosen by timing when a
 * product of that kind is planned first, on the operands given, which are overwritten. */
#ifndef BACKEND_CUDA_MODULE_GEMM_H
#define BACKEND_CUDA_MODULE_GEMM_H
#include "backend/cuda/module/gpu.h"
#include "backend/cuda/tuning.h"

struct gemm_operands {
    f32         alpha, beta;
    const void *a, *b, *c; /* c is read where beta is not 0 */
    void       *d;
    const void *bias;
    const void *a_factor, *b_factor; /* of fp8: f32[1] each, on the device */
    void       *aux;                 /* gelu: its argument goes here; gelu_grad: comes from here */
    void       *work;                /* gemm_work bytes */
};

struct gemm_plan;

/* The algorithm that runs op matmul, "cublaslt:ID/TILE/STAGES/SPLIT" in the library's numbers; NULL: not
 * chosen yet. Lives as long as the GPU is open. */
const char *gemm_choice(const struct gpu_call *c);
f64         gemm_known_s(const struct gpu_call *c); /* what that took; 0: not chosen yet */

i64                     gemm_work(const struct product *p);
const struct gemm_plan *gemm_plan(struct gpu *gpu, struct product key,
                                  const struct gemm_operands *o, struct arena *perm);
void gemm_run(struct gpu *gpu, const struct gemm_plan *p, const struct gemm_operands *o);

#endif
