/* muon.c - op muon: Newton and Schulz's iteration as products of bf16, as the public recipe has it.
 *
 * A step is A = X X^T (or X^T X, whichever is smaller), B = b A + c A^2, X <- a X + B X (or X B). */
#include "ir/muon.h"
#include "backend/cuda/module/gemm.h"
#include "backend/cuda/module/launch.h"
#include <string.h>

struct muon {
    struct muon_sizes       z;
    u8                     *x, *next, *a, *b, *work;
    f32                    *part;
    const struct gemm_plan *gram, *square, *step;
};

static struct product product(i64 M, i64 N, i64 K)
{
    struct product p;
    memset(&p, 0, sizeof p);
    p.M = M, p.N = N, p.K = K, p.batch = 1;
    p.in = p.out = DT_BF16;
    p.bias       = DT_COUNT;
    p.then       = -1;
    return p;
}

static struct product gram_product(const struct muon_sizes *z)
{
    struct product p = product(z->gram, z->gram, z->tall ? z->rows : z->columns);
    if (z->tall) p.ta = 1;
    else p.tb = 1;
    return p;
}

static struct product square_product(const struct muon_sizes *z)
{
    struct product p = product(z->gram, z->gram, z->gram);
    p.then           = OP_ADD;
    return p;
}

static struct product step_product(const struct muon_sizes *z)
{
    struct product p = product(z->rows, z->columns, z->gram);
    p.then           = OP_ADD;
    return p;
}

static i64 room(i64 bytes) { return (bytes + 255) / 256 * 256; }

static i64 work(const struct gpu_call *c)
{
    struct muon_sizes z = muon_sizes(c->in[0].type.shape);
    struct product    g = gram_product(&z), s = square_product(&z), t = step_product(&z);
    i64               library = MAX(gemm_work(&g), MAX(gemm_work(&s), gemm_work(&t)));
    return 2 * room(2 * c->in[0].count) + 2 * room(2 * z.gram * z.gram) +
           room(MUON_PARTS * (i64)sizeof(f32)) + library;
}

static struct muon muon_of(const struct gpu_call *c)
{
    struct muon m = { .z = muon_sizes(c->in[0].type.shape), .x = c->work };
    m.next        = m.x + room(2 * c->in[0].count);
    m.a           = m.next + room(2 * c->in[0].count);
    m.b           = m.a + room(2 * m.z.gram * m.z.gram);
    m.part        = (f32 *)(void *)(m.b + room(2 * m.z.gram * m.z.gram));
    m.work        = (u8 *)m.part + room(MUON_PARTS * (i64)sizeof(f32));
    return m;
}

static struct gemm_operands gram_operands(const struct muon *m)
{
    return (struct gemm_operands){ .alpha = 1, .a = m->x, .b = m->x, .d = m->a, .work = m->work };
}

static struct gemm_operands square_operands(const struct muon *m)
{
    return (struct gemm_operands){ .alpha = (f32)MUON_C,
                                   .beta  = (f32)MUON_B,
                                   .a     = m->a,
                                   .b     = m->a,
                                   .c     = m->a,
                                   .d     = m->b,
                                   .work  = m->work };
}

static struct gemm_operands step_operands(const struct muon *m)
{
    return (struct gemm_operands){ .alpha = 1,
                                   .beta  = (f32)MUON_A,
                                   .a     = m->z.tall ? m->x : m->b,
                                   .b     = m->z.tall ? m->b : m->x,
                                   .c     = m->x,
                                   .d     = m->next,
                                   .work  = m->work };
}

static void *plan(const struct gpu_call *c, struct arena *perm)
{
    struct muon *m         = NEW(perm, struct muon, 1);
    *m                     = muon_of(c);
    struct gemm_operands g = gram_operands(m), s = square_operands(m), t = step_operands(m);
    m->gram   = gemm_plan(c->gpu, gram_product(&m->z), &g, perm);
    m->square = gemm_plan(c->gpu, square_product(&m->z), &s, perm);
    m->step   = gemm_plan(c->gpu, step_product(&m->z), &t, perm);
    return m->gram && m->square && m->step ? m : NULL;
}

static void run(const struct gpu_call *c)
{
    struct muon m = *(const struct muon *)c->plan;
    launch_muon_begin(c, m.x, m.part);
    for (i32 i = 0; i < MUON_STEPS; i++) {
        struct gemm_operands g = gram_operands(&m), s = square_operands(&m), t = step_operands(&m);
        gemm_run(c->gpu, m.gram, &g);
        gemm_run(c->gpu, m.square, &s);
        gemm_run(c->gpu, m.step, &t);
        u8 *from = m.x;
        m.x      = m.next;
        m.next   = from;
    }
    launch_muon_end(c, m.x);
}

static bool takes(const struct gpu_call *c)
{
    for (i32 i = 0; i < c->in_count; i++) {
        if (c->in[i].type.dtype != DT_F32) return false;
    }
    return c->in[0].count > 0;
}

extern const struct gpu_kernel gpu_kernels_muon[];
const struct gpu_kernel        gpu_kernels_muon[] = {
           { OP_MUON, "cublaslt_bf16", takes, run, work, plan, 0 },
};
extern const i32 gpu_kernels_muon_count;
const i32        gpu_kernels_muon_count = (i32)COUNT_OF(gpu_kernels_muon);
