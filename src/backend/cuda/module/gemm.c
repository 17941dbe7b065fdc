/* gemm.c - matrix products by cuBLASLt, each shape's kernel chosen by timing.
 *
 * The library thinks in columns: our row-major C = A . B is its C' = B' . A', so the operands change
 * places and nothing is copied. A bias [N] is then one number a row of C', which an epilogue adds. */
#include "backend/cuda/module/gpu.h"
#include "backend/cuda/module/launch.h"
#include <cublasLt.h>
#include <string.h>

enum { CANDIDATES = 8, TRIES = 3, PLANS_MAX = 512 };
enum { WORK_SMALL = 4 << 20, WORK_LARGE = 32 << 20 }; /* 32 MiB: what cuBLAS itself takes on Hopper */

struct product { /* what a choice depends on: no pointers */
    i64        M, N, K, batch;
    i64        ta, tb;
    enum dtype in, out, bias; /* bias DT_COUNT: none */
};

struct plan {
    struct product         key;
    cublasLtMatmulDesc_t   desc;
    cublasLtMatrixLayout_t a, b, c; /* of the library: a is our second operand */
    cublasLtMatmulAlgo_t   algo;
};

struct blas {
    cublasLtHandle_t handle;
    struct plan      plans[PLANS_MAX];
    i32              count;
};

static struct product product_of(const struct gpu_call *c)
{
    struct shape   s = c->in[1].type.shape;
    struct product p;
    memset(&p, 0, sizeof p); /* it is compared as bytes */
    p.ta    = c->at->ta;
    p.tb    = c->at->tb;
    p.N     = s.dim[s.rank - (p.tb ? 2 : 1)];
    p.K     = s.dim[s.rank - (p.tb ? 1 : 2)];
    p.batch = shape_span(s, 0, s.rank - 2);
    p.M     = shape_count(c->out[0].type.shape) / MAX(1, p.batch * p.N);
    p.in    = c->in[0].type.dtype;
    p.out   = c->out[0].type.dtype;
    p.bias  = c->in_count == 3 ? c->in[2].type.dtype : DT_COUNT;
    return p;
}

static cudaDataType_t type_of_dtype(enum dtype t)
{
    return t == DT_BF16 ? CUDA_R_16BF : t == DT_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* The library adds a bias of the result's type only: another is cast first, into the workspace. */
static bool casts_bias(const struct product *p) { return p->bias != DT_COUNT && p->bias != p->out; }

static i64 bias_bytes(const struct product *p)
{
    return casts_bias(p) ? (p->N * dtype_bytes(p->out) + 255) / 256 * 256 : 0;
}

static i64 library_bytes(const struct product *p)
{
    return (f64)p->M * (f64)p->N * (f64)p->K * (f64)p->batch < 1e8 ? WORK_SMALL : WORK_LARGE;
}

static i64 work(const struct gpu_call *c)
{
    struct product p = product_of(c);
    return bias_bytes(&p) + library_bytes(&p);
}

static struct blas *blas_of(struct gpu *gpu, struct arena *perm)
{
    if (gpu->blas) return gpu->blas;
    struct blas *b = NEW(perm, struct blas, 1);
    if (cublasLtCreate(&b->handle) != CUBLAS_STATUS_SUCCESS) return NULL;
    return gpu->blas = b;
}

/* rows x columns as the library sees them, `step` elements from one matrix of a batch to the next. */
static cublasLtMatrixLayout_t layout(enum dtype t, i64 rows, i64 columns, i64 batch)
{
    cublasLtMatrixLayout_t l     = NULL;
    int32_t                count = (int32_t)batch;
    int64_t                step  = rows * columns;
    cublasLtMatrixLayoutCreate(&l, type_of_dtype(t), (u64)rows, (u64)columns, rows);
    if (batch > 1) {
        cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
        cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                         sizeof step);
    }
    return l;
}

static const void *bias_of(const struct gpu_call *c, const struct product *p)
{
    return casts_bias(p) ? c->work : c->in[2].data;
}

static void describe(struct plan *p, const struct gpu_call *c)
{
    const struct product *k = &p->key;
    cublasOperation_t     t = CUBLAS_OP_T;
    cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (k->tb) cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t);
    if (k->ta) cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &t, sizeof t);
    if (k->bias != DT_COUNT) {
        cublasLtEpilogue_t e    = CUBLASLT_EPILOGUE_BIAS;
        const void        *bias = bias_of(c, k);
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e);
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                       sizeof bias);
    }
    p->a = k->tb ? layout(k->in, k->K, k->N, k->batch) : layout(k->in, k->N, k->K, k->batch);
    p->b = k->ta ? layout(k->in, k->M, k->K, k->batch) : layout(k->in, k->K, k->M, k->batch);
    p->c = layout(k->out, k->N, k->M, k->batch);
}

static cublasStatus_t multiply(const struct gpu_call *c, const struct plan *p,
                               const cublasLtMatmulAlgo_t *algo)
{
    static const f32 one = 1, zero = 0;
    struct blas     *b    = c->gpu->blas;
    u8              *work = (u8 *)c->work + bias_bytes(&p->key);
    return cublasLtMatmul(b->handle, p->desc, &one, c->in[1].data, p->a, c->in[0].data, p->b, &zero,
                          c->out[0].data, p->c, c->out[0].data, p->c, algo, work,
                          (size_t)library_bytes(&p->key), c->gpu->stream);
}

/* Milliseconds of the best of a few tries; below 0: it failed. */
static f32 time_of(const struct gpu_call *c, const struct plan *p, const cublasLtMatmulAlgo_t *algo)
{
    cudaEvent_t from, to;
    f32         best = -1;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    for (i32 i = 0; i < TRIES; i++) {
        f32 ms = 0;
        cudaEventRecord(from, c->gpu->stream);
        if (multiply(c, p, algo) != CUBLAS_STATUS_SUCCESS) break;
        cudaEventRecord(to, c->gpu->stream);
        if (cudaEventSynchronize(to) != cudaSuccess || cudaEventElapsedTime(&ms, from, to)) break;
        if (i > 0 && (best < 0 || ms < best)) best = ms; /* the first one loads the kernel */
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    return best;
}

/* The library's own ranking, then the clock over the first few: a candidate that fails is skipped. */
static bool choose(const struct gpu_call *c, struct plan *p)
{
    struct blas                    *b = c->gpu->blas;
    cublasLtMatmulPreference_t      preference;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int                             count = 0;
    size_t                          bytes = (size_t)library_bytes(&p->key);
    f32                             best  = -1;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof bytes);
    cublasLtMatmulAlgoGetHeuristic(b->handle, p->desc, p->a, p->b, p->c, p->c, preference,
                                   CANDIDATES, found, &count);
    for (int i = 0; i < count; i++) {
        f32 ms = time_of(c, p, &found[i].algo);
        if (ms < 0 || (best >= 0 && ms >= best)) continue;
        best    = ms;
        p->algo = found[i].algo;
    }
    cublasLtMatmulPreferenceDestroy(preference);
    return best >= 0;
}

/* One choice a shape; a bias has its address in the descriptor, so those have one each. */
static void *plan(const struct gpu_call *c, struct arena *perm)
{
    struct blas   *b   = blas_of(c->gpu, perm);
    struct product key = product_of(c);
    if (!b) return NULL;
    const struct plan *same = NULL;
    for (i32 i = 0; i < b->count && !same; i++) {
        if (!memcmp(&b->plans[i].key, &key, sizeof key)) same = &b->plans[i];
    }
    if (same && key.bias == DT_COUNT) return (void *)(uintptr_t)same;
    struct plan *p = NEW(perm, struct plan, 1);
    p->key         = key;
    describe(p, c);
    if (same) p->algo = same->algo;
    else if (!choose(c, p)) return NULL;
    if (!same && b->count < PLANS_MAX) b->plans[b->count++] = *p;
    return p;
}

static void run(const struct gpu_call *c)
{
    const struct plan *p = c->plan;
    if (casts_bias(&p->key))
        launch_cast(c->work, p->key.out, c->in[2].data, p->key.bias, p->key.N, c->gpu->stream);
    cublasStatus_t s = multiply(c, p, &p->algo);
    if (s != CUBLAS_STATUS_SUCCESS) assert_failed(cublasLtGetStatusString(s), __FILE__, __LINE__);
}

static bool takes(const struct gpu_call *c)
{
    struct product p = product_of(c);
    return p.M > 0 && p.N > 0 && p.K > 0 && p.batch > 0;
}

extern const struct gpu_kernel gpu_kernels_gemm[];
const struct gpu_kernel        gpu_kernels_gemm[] = {
    { OP_MATMUL, "cublaslt", takes, run, work, plan, false },
};
extern const i32 gpu_kernels_gemm_count;
const i32        gpu_kernels_gemm_count = (i32)COUNT_OF(gpu_kernels_gemm);
