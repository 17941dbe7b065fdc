/* gemm.c - matrix products by cuBLASLt, each shape's kernel chosen by timing.
 *
 * The library thinks in columns: our row-major C = A . B is its C' = B' . A', so the operands change
 * places and nothing is copied. A bias [N] is then one number a row of C', which an epilogue adds.
 * Chains that the library can do on the way out are done there: a sum with another tensor, gelu
 * with its argument kept, the gradient of gelu. */
#include "backend/cuda/module/gemm.h"
#include "backend/cuda/module/launch.h"
#include "base/rng.h"
#include "ir/fp8.h"
#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

enum { CANDIDATES_MAX = 64, PLANS_MAX = 512 };
enum {
    WORK_SMALL = 4 << 20,
    WORK_LARGE = 32 << 20
}; /* 32 MiB: what cuBLAS itself takes on Hopper */

struct gemm_plan {
    struct product         key;
    cublasLtMatmulDesc_t   desc;
    cublasLtMatrixLayout_t a, b, c; /* of the library: a is our second operand */
    cublasLtMatmulAlgo_t   algo;
};

struct blas {
    cublasLtHandle_t handle;
    struct gemm_plan plans[PLANS_MAX];
    i32              count;
};

/* Inputs of op matmul: a, b, bias; of matmul_fp8: a, b, their factors, bias. */
static bool                 is_fp8(const struct gpu_call *c) { return c->op == OP_MATMUL_FP8; }
static const struct tensor *bias_of(const struct gpu_call *c)
{
    i32 index = is_fp8(c) ? 4 : 2;
    return c->in_count > index ? &c->in[index] : NULL;
}

/* The map of a chain of one that an epilogue does; -1: none. */
static i32 epilogue_of(const struct gpu_call *c)
{
    const struct chain *then = &c->at->then;
    bool                low  = c->out[0].type.dtype != DT_F32; /* the library's gelu needs it */
    if (then->count != 1) return -1;
    if (then->op[0] == OP_ADD && !then->keep) return OP_ADD;
    if (then->op[0] == OP_GELU && then->keep && low) return OP_GELU;
    return then->op[0] == OP_GELU_GRAD && !then->keep && low && !bias_of(c) ? OP_GELU_GRAD : -1;
}

static struct product product_of(const struct gpu_call *c)
{
    struct shape   s = c->in[1].type.shape;
    struct product p;
    memset(&p, 0, sizeof p); /* it is compared as bytes */
    p.ta    = !is_fp8(c) && c->at->ta;
    p.tb    = is_fp8(c) || c->at->tb;
    p.fp8   = is_fp8(c) ? 1 + c->at->format : 0;
    p.N     = s.dim[s.rank - (p.tb ? 2 : 1)];
    p.K     = s.dim[s.rank - (p.tb ? 1 : 2)];
    p.batch = shape_span(s, 0, s.rank - 2);
    p.M     = shape_count(c->out[0].type.shape) / MAX(1, p.batch * p.N);
    p.in    = c->in[0].type.dtype;
    p.out   = c->out[0].type.dtype;
    p.bias  = bias_of(c) ? bias_of(c)->type.dtype : DT_COUNT;
    p.then  = epilogue_of(c);
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

i64 gemm_work(const struct product *p)
{
    return (f64)p->M * (f64)p->N * (f64)p->K * (f64)p->batch < 1e8 ? WORK_SMALL : WORK_LARGE;
}

static i64 work(const struct gpu_call *c)
{
    struct product p = product_of(c);
    return bias_bytes(&p) + gemm_work(&p);
}

static struct blas *blas_of(struct gpu *gpu, struct arena *perm)
{
    if (gpu->blas) return gpu->blas;
    struct blas *b = NEW(perm, struct blas, 1);
    if (cublasLtCreate(&b->handle) != CUBLAS_STATUS_SUCCESS) return NULL;
    return gpu->blas = b;
}

/* Of our first operand, or our second. */
static cudaDataType_t operand_type(const struct product *p, bool second)
{
    if (!p->fp8) return type_of_dtype(p->in);
    return (p->fp8 - 1) >> second & 1 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
}

/* rows x columns as the library sees them, `step` elements from one matrix of a batch to the next. */
static cublasLtMatrixLayout_t layout(cudaDataType_t t, i64 rows, i64 columns, i64 batch)
{
    cublasLtMatrixLayout_t l     = NULL;
    int32_t                count = (int32_t)batch;
    int64_t                step  = rows * columns;
    cublasLtMatrixLayoutCreate(&l, t, (u64)rows, (u64)columns, rows);
    if (batch > 1) {
        cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof count);
        cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                         sizeof step);
    }
    return l;
}

static cublasLtEpilogue_t epilogue(const struct product *k)
{
    bool bias = k->bias != DT_COUNT;
    if (k->then == OP_GELU_GRAD) return CUBLASLT_EPILOGUE_DGELU;
    if (k->then == OP_GELU)
        return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* Sums of gradients are kept in f32 all along; forward, the units' own fewer bits do (as torch's users and
 * Transformer Engine have it). */
static void describe_fp8(struct gemm_plan *p, const struct gemm_operands *o)
{
    int8_t fast = p->key.fp8 == 1;
    cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &o->b_factor,
                                   sizeof o->b_factor);
    cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &o->a_factor,
                                   sizeof o->a_factor);
    cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
}

static void describe(struct gemm_plan *p, const struct gemm_operands *o)
{
    const struct product *k = &p->key;
    cublasOperation_t     t = CUBLAS_OP_T;
    cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (k->tb) cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t);
    if (k->ta) cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &t, sizeof t);
    cublasLtEpilogue_t e = epilogue(k);
    cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e);
    if (k->bias != DT_COUNT) {
        const void *bias = o->bias;
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                       sizeof bias);
    }
    if (k->then == OP_GELU || k->then == OP_GELU_GRAD) {
        void   *aux = o->aux;
        int64_t row = k->N;
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux,
                                       sizeof aux);
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &row,
                                       sizeof row);
    }
    if (k->fp8) describe_fp8(p, o);
    cudaDataType_t a = operand_type(k, true), b = operand_type(k, false); /* they change places */
    p->a = k->tb ? layout(a, k->K, k->N, k->batch) : layout(a, k->N, k->K, k->batch);
    p->b = k->ta ? layout(b, k->M, k->K, k->batch) : layout(b, k->K, k->M, k->batch);
    p->c = layout(type_of_dtype(k->out), k->N, k->M, k->batch);
}

static cublasStatus_t multiply(struct gpu *gpu, const struct gemm_plan *p,
                               const struct gemm_operands *o, const cublasLtMatmulAlgo_t *algo)
{
    struct blas *b = gpu->blas;
    return cublasLtMatmul(b->handle, p->desc, &o->alpha, o->b, p->a, o->a, p->b, &o->beta,
                          o->beta != 0 ? o->c : o->d, p->c, o->d, p->c, algo, o->work,
                          (size_t)gemm_work(&p->key), gpu->stream);
}

struct attempt {
    struct gpu                 *gpu;
    const struct gemm_plan     *plan;
    const struct gemm_operands *operands;
    const cublasLtMatmulAlgo_t *algo;
};

static bool try_once(void *context)
{
    const struct attempt *a = context;
    return multiply(a->gpu, a->plan, a->operands, a->algo) == CUBLAS_STATUS_SUCCESS;
}

/* Sums that are split are added up in f32, in the workspace: in order, and rounded once. */
static cublasLtMatmulPreference_t preference(const struct product *k)
{
    cublasLtMatmulPreference_t p       = NULL;
    size_t                     bytes   = (size_t)gemm_work(k);
    uint32_t                   schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreferenceCreate(&p);
    cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                         sizeof bytes);
    cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                         sizeof schemes);
    return p;
}

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == ALGO_WORDS * sizeof(u64), "tuning.h keeps it whole");

/* A kept choice, if the library still takes it with this workspace. */
static bool recall(struct gpu *gpu, struct gemm_plan *p)
{
    struct blas                    *b     = gpu->blas;
    struct tuned                   *known = tuning_find(gpu->tuning, &p->key, gpu->tries);
    cublasLtMatmulHeuristicResult_t checked;
    if (!known) return false;
    memcpy(&p->algo, known->algo, sizeof p->algo);
    known->used = cublasLtMatmulAlgoCheck(b->handle, p->desc, p->a, p->b, p->c, p->c, &p->algo,
                                          &checked) == CUBLAS_STATUS_SUCCESS &&
                  checked.workspaceSize <= (size_t)gemm_work(&p->key);
    return known->used;
}

/* --- under load: at its limit of power a GPU slows down by what a kernel draws, and that depends
 * on the numbers too --- */

enum { LOADED_MS = 60, LOADED_TRIES = 8, NOISE = 1 << 14 };

/* Normal numbers all over an operand: what lies there before the first step is the same byte
 * everywhere. Weights are f32, and stay. */
static void fill_noise(struct gpu *gpu, const void *operand, i64 count, enum dtype type)
{
    f32 numbers[NOISE];
    u16 low[NOISE];
    u8 *to    = (u8 *)(uintptr_t)operand;
    i64 bytes = count * dtype_bytes(type), done = MIN(bytes, (i64)sizeof low);
    if (type != DT_BF16) return;
    rng_fill_normal((struct rng_key){ .seed = 1 }, 0, NOISE, 1, numbers);
    for (i32 i = 0; i < NOISE; i++) {
        u32 bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        low[i] = (u16)(bits >> 16);
    }
    cudaMemcpyAsync(to, low, (size_t)done, cudaMemcpyHostToDevice, gpu->stream);
    for (; done < bytes; done += MIN(done, bytes - done))
        cudaMemcpyAsync(to + done, to, (size_t)MIN(done, bytes - done), cudaMemcpyDeviceToDevice,
                        gpu->stream);
}

struct repeated {
    struct attempt attempt;
    i32            times;
};

static bool try_often(void *context)
{
    struct repeated *r  = context;
    bool             ok = true;
    for (i32 i = 0; ok && i < r->times; i++) ok = try_once(&r->attempt);
    return ok;
}

/* Of the candidates that were fastest one by one (ms, below 0: failed), the fastest when it goes on and on. */
static int best_loaded(struct gpu *gpu, const struct gemm_plan *p, const struct gemm_operands *o,
                       const cublasLtMatmulHeuristicResult_t *found, const f32 *ms, int count)
{
    bool tried[CANDIDATES_MAX] = { false };
    int  best                  = -1;
    f32  least                 = -1;
    fill_noise(gpu, o->a, p->key.batch * p->key.M * p->key.K, p->key.in);
    fill_noise(gpu, o->b, p->key.batch * p->key.N * p->key.K, p->key.in);
    for (int n = 0; n < LOADED_TRIES; n++) {
        int next = -1;
        for (int i = 0; i < count; i++) {
            if (ms[i] >= 0 && !tried[i] && (next < 0 || ms[i] < ms[next])) next = i;
        }
        if (next < 0) break;
        struct repeated r    = { { gpu, p, o, &found[next].algo },
                                 MAX(1, (i32)(LOADED_MS / ms[next])) };
        f32             took = gpu_time_ms(gpu, try_often, &r) / (f32)r.times;
        if (took >= 0 && (best < 0 || took < least)) {
            least = took;
            best  = next;
        }
        tried[next] = true;
    }
    return best;
}

/* The library's own ranking, then the clock over the first few: a candidate that fails is skipped. */
static bool choose(struct gpu *gpu, struct gemm_plan *p, const struct gemm_operands *o)
{
    struct blas                    *b    = gpu->blas;
    cublasLtMatmulPreference_t      pref = preference(&p->key);
    cublasLtMatmulHeuristicResult_t found[CANDIDATES_MAX];
    int count = 0, tries = (int)MIN(gpu->tries, CANDIDATES_MAX), best = -1;
    f32 ms[CANDIDATES_MAX], least = -1;
    cublasLtMatmulAlgoGetHeuristic(b->handle, p->desc, p->a, p->b, p->c, p->c, pref, tries, found,
                                   &count);
    for (int i = 0; i < count; i++) {
        struct attempt a = { gpu, p, o, &found[i].algo };
        ms[i]            = gpu_time_ms(gpu, try_once, &a);
        if (ms[i] < 0 || (best >= 0 && ms[i] >= least)) continue;
        least = ms[i];
        best  = i;
    }
    cublasLtMatmulPreferenceDestroy(pref);
    int loaded = gpu->under_load ? best_loaded(gpu, p, o, found, ms, count) : -1;
    if (loaded >= 0) best = loaded;
    if (best < 0) return false;
    p->algo             = found[best].algo;
    struct tuned choice = {
        .product = p->key, .tried = gpu->tries, .us = (f64)ms[best] * 1e3, .used = true
    };
    memcpy(choice.algo, &p->algo, sizeof choice.algo);
    tuning_add(gpu->tuning, choice);
    return true;
}

/* One choice a shape; a bias, factor or kept argument has its address in the descriptor: those have one each. */
const struct gemm_plan *gemm_plan(struct gpu *gpu, struct product key,
                                  const struct gemm_operands *o, struct arena *perm)
{
    struct blas            *b    = blas_of(gpu, perm);
    const struct gemm_plan *same = NULL;
    if (!b) return NULL;
    for (i32 i = 0; i < b->count && !same; i++) {
        if (!memcmp(&b->plans[i].key, &key, sizeof key)) same = &b->plans[i];
    }
    bool addressed =
        key.fp8 || key.bias != DT_COUNT || key.then == OP_GELU || key.then == OP_GELU_GRAD;
    if (same && !addressed) return same;
    struct gemm_plan *p = NEW(perm, struct gemm_plan, 1);
    p->key              = key;
    describe(p, o);
    if (same) p->algo = same->algo;
    else if (!recall(gpu, p) && !choose(gpu, p, o)) return NULL;
    if (!same && b->count < PLANS_MAX) b->plans[b->count++] = *p;
    return p;
}

void gemm_run(struct gpu *gpu, const struct gemm_plan *p, const struct gemm_operands *o)
{
    cublasStatus_t s = multiply(gpu, p, o, &p->algo);
    if (s != CUBLAS_STATUS_SUCCESS) assert_failed(cublasLtGetStatusString(s), __FILE__, __LINE__);
}

/* --- op matmul --- */

static struct gemm_operands operands_of(const struct gpu_call *c, const struct product *p)
{
    struct gemm_operands o = {
        .alpha = 1, .a = c->in[0].data, .b = c->in[1].data, .d = c->out[0].data
    };
    const struct tensor *operand = &c->in[c->in_count];
    if (p->bias != DT_COUNT) o.bias = casts_bias(p) ? c->work : bias_of(c)->data;
    if (p->fp8) o.a_factor = c->in[2].data, o.b_factor = c->in[3].data;
    if (p->then == OP_ADD) o.beta = 1, o.c = operand->data;
    if (p->then == OP_GELU) o.aux = c->out[1].data;
    if (p->then == OP_GELU_GRAD) o.aux = operand->data;
    o.work = (u8 *)c->work + bias_bytes(p);
    return o;
}

static void *plan(const struct gpu_call *c, struct arena *perm)
{
    struct product       p = product_of(c);
    struct gemm_operands o = operands_of(c, &p);
    return (void *)(uintptr_t)gemm_plan(c->gpu, p, &o, perm);
}

static void run(const struct gpu_call *c)
{
    struct product       p = product_of(c);
    struct gemm_operands o = operands_of(c, &p);
    if (casts_bias(&p)) launch_cast(c->work, p.out, bias_of(c)->data, p.bias, p.N, c->gpu->stream);
    gemm_run(c->gpu, c->plan, &o);
}

static bool takes(const struct gpu_call *c)
{
    struct product p    = product_of(c);
    bool           fits = !p.fp8 || (c->gpu->capability >= 89 && p.M % FP8_ALIGN == 0 &&
                           p.N % FP8_ALIGN == 0 && p.K % FP8_ALIGN == 0);
    if (p.fp8 && p.out == DT_F32 && p.bias != DT_COUNT)
        return false; /* it takes 16-bit biases only there */
    return fits && p.M > 0 && p.N > 0 && p.K > 0 && p.batch > 0;
}

static i32 configured(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t what)
{
    i32    value = -1;
    size_t bytes;
    cublasLtMatmulAlgoConfigGetAttribute(algo, what, &value, sizeof value, &bytes);
    return value;
}

const char *gemm_choice(const struct gpu_call *c)
{
    static char          names[TUNED_MAX][48]; /* by place in the table: it never moves */
    struct product       p     = product_of(c);
    const struct tuned  *known = tuning_find(c->gpu->tuning, &p, 1);
    cublasLtMatmulAlgo_t algo;
    if (!known) return NULL;
    char *name = names[known - c->gpu->tuning->list];
    memcpy(&algo, known->algo, sizeof algo);
    snprintf(name, sizeof names[0], "cublaslt:%d/%d/%d/%d",
             configured(&algo, CUBLASLT_ALGO_CONFIG_ID),
             configured(&algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
             configured(&algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
             configured(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
    return name;
}

f64 gemm_known_s(const struct gpu_call *c)
{
    struct product      p     = product_of(c);
    const struct tuned *known = tuning_find(c->gpu->tuning, &p, 1);
    return known ? known->us * 1e-6 : 0;
}

/* The kernel that does the chain stands first; the other leaves it to the backend. */
static bool takes_chain(const struct gpu_call *c) { return takes(c) && epilogue_of(c) >= 0; }

extern const struct gpu_kernel gpu_kernels_gemm[];
const struct gpu_kernel        gpu_kernels_gemm[] = {
           { OP_MATMUL, "cublaslt", takes_chain, run, work, plan, DOES_CHAIN },
           { OP_MATMUL, "cublaslt", takes, run, work, plan, 0 },
           { OP_MATMUL_FP8, "cublaslt", takes_chain, run, work, plan, DOES_CHAIN },
           { OP_MATMUL_FP8, "cublaslt", takes, run, work, plan, 0 },
};
extern const i32 gpu_kernels_gemm_count;
const i32        gpu_kernels_gemm_count = (i32)COUNT_OF(gpu_kernels_gemm);
