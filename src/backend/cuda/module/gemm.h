/* gemm.h - matrix products for whoever needs one: op matmul, and the kernels made of products.
 *
 * d = alpha a . b + beta c, row-major; ta and tb transpose. The kernel is chosen by timing when a
 * product of that kind is planned first, on the operands given, which are overwritten. */
#ifndef BACKEND_CUDA_MODULE_GEMM_H
#define BACKEND_CUDA_MODULE_GEMM_H
#include "backend/cuda/module/gpu.h"

struct product { /* what a choice depends on; made from zeroed memory, compared as bytes */
    i64        M, N, K, batch;
    i64        ta, tb;
    enum dtype in, out, bias; /* bias DT_COUNT: none */
    i64        then;          /* the map done inside: OP_ADD, OP_GELU, OP_GELU_GRAD; -1: none */
};

struct gemm_operands {
    f32         alpha, beta;
    const void *a, *b, *c; /* c is read where beta is not 0 */
    void       *d;
    const void *bias;
    void       *aux;  /* gelu: its argument goes here; gelu_grad: comes from here */
    void       *work; /* gemm_work bytes */
};

struct gemm_plan;

i64                     gemm_work(const struct product *p);
const struct gemm_plan *gemm_plan(struct gpu *gpu, struct product key,
                                  const struct gemm_operands *o, struct arena *perm);
void gemm_run(struct gpu *gpu, const struct gemm_plan *p, const struct gemm_operands *o);

#endif
