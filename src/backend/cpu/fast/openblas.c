/* openblas.c - the matrix product by OpenBLAS, for processors we have no tile for.
 *
 * Our own is as fast or faster where there is AVX2 or AVX-512 (bench/results/gemm.md), so this one
 * stands behind those. The library is loaded when the first product asks for it, and called with
 * one thread from blocks of our pool; its prototypes are written down here, so that nothing of it
 * is needed to build or to start. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/gemm.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef FRUGAL_HAVE_OPENBLAS
#define SONAME FRUGAL_OPENBLAS_SONAME
#else
#define SONAME NULL /* built without */
#endif

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 }; /* cblas.h */
enum { SLAB_MIN = 64, SLABS_MAX = 16 };                     /* rows of C in one call; calls */

typedef void cblas_sgemm_fn(int order, int ta, int tb, int M, int N, int K, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c,
                            int ldc);
typedef void set_threads_fn(int threads);

static cblas_sgemm_fn *sgemm; /* NULL: not there */
static pthread_once_t  once = PTHREAD_ONCE_INIT;

static void load(void)
{
    const char *name = SONAME;
    if (!name) return;
    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* else it starts its own while it loads */
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    set_threads_fn *set_threads;
    void           *symbol = dlsym(library, "openblas_set_num_threads");
    memcpy(&set_threads, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */
    if (set_threads) set_threads(1);
    symbol = dlsym(library, "cblas_sgemm");
    memcpy(&sgemm, &symbol, sizeof symbol);
}

static bool takes(const struct call *c)
{
    struct gemm g = gemm_of(c);
    if (!gemm_takes(c) || MAX(g.M, MAX(g.N, g.K)) > INT32_MAX) return false;
    pthread_once(&once, load);
    return sgemm != NULL;
}

struct slabs {
    struct gemm g;
    i64         rows, count; /* of a slab; slabs of one product */
};

/* How the library wants an operand: its transposition and the distance of its rows, which may not
 * be less than a row even where there is only one. */
struct operand {
    int trans, row;
};

static struct operand operand_of(const struct gemm_matrix *m, i64 columns)
{
    if (m->col != 1) return (struct operand){ TRANSPOSED, (int)m->col };
    return (struct operand){ AS_IT_IS, (int)MAX(m->row, columns) };
}

static void slab(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct slabs *s = context;
    const struct gemm  *g = &s->g;
    i64 batch = block / s->count, m = block % s->count * s->rows, rows = MIN(s->rows, g->M - m);
    struct operand a = operand_of(&g->a, g->K), b = operand_of(&g->b, g->N);
    f32           *c = g->c + (batch * g->M + m) * g->N;
    for (i64 r = 0; g->bias && r < rows; r++)
        memcpy(c + r * g->N, g->bias, (size_t)g->N * sizeof *c);
    sgemm(ROW_MAJOR, a.trans, b.trans, (int)rows, (int)g->N, (int)g->K, 1,
          g->a.data + batch * g->a.step + m * g->a.row, a.row, g->b.data + batch * g->b.step, b.row,
          g->bias ? 1 : 0, c, (int)g->N);
}

static void run(const struct call *c)
{
    struct slabs s = { .g = gemm_of(c) };
    s.rows         = MAX(SLAB_MIN, fast_div_up(s.g.M, SLABS_MAX));
    s.count        = fast_div_up(s.g.M, s.rows);
    pool_run(c->pool, s.g.batch * s.count, slab, &s);
}

const struct kernel kernels_openblas[] = {
    { OP_MATMUL, "openblas", ISA_ANY, takes, run, NULL },
};
const i32 kernels_openblas_count = (i32)COUNT_OF(kernels_openblas);
