/* muon_impl.h - one matrix of Muon: the momentum, its orthogonalisation and the step.
 *
 * The work is in the fifteen products, which are those of op matmul. a X joins them as a on the
 * diagonal of the polynomial, so that a step of Newton and Schulz passes over X only there. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/product.h"
#include "backend/cpu/fast/simd.h"
#include "ir/muon.h"

enum { MUON_ITEMS = 16 * 1024, WORK_ALIGN = 16 }; /* in a block; floats of a cache line */

struct muon {
    const f32        *g;
    f32              *p, *mom;
    i64               count;
    struct muon_sizes z;
    f32              *x, *next;               /* [rows, columns] */
    f32              *gram, *square;          /* [gram, gram] */
    f64              *sums;                   /* of squares of x, one a block */
    void             *work;                   /* of the products */
    f32               factor, momentum, rest; /* rest = 1 - momentum */
    f32               keep, rate;             /* what is left of p; lr for this shape */
    f32               scale;                  /* that gives x norm 1 */
    bool              nesterov;
};

static i64 padded(i64 floats) { return fast_div_up(floats, WORK_ALIGN) * WORK_ALIGN; }

/* Pieces of the workspace; returns where that of the products begins, in floats. */
static i64 muon_lay_out(struct muon *m, f32 *work)
{
    i64 n = padded(m->count), g = padded(m->z.gram * m->z.gram);
    if (work) {
        m->x      = work;
        m->next   = m->x + n;
        m->gram   = m->next + n;
        m->square = m->gram + g;
        m->sums   = (f64 *)(void *)(m->square + g);
        m->work   = m->square + g + padded(2 * fast_div_up(m->count, MUON_ITEMS));
    }
    return 2 * (n + g) + padded(2 * fast_div_up(m->count, MUON_ITEMS));
}

/* ---- the three products of a step */

static struct product gram_of(const struct muon *m)
{
    struct shape s = shape_2(m->z.rows, m->z.columns);
    return (struct product){ m->gram, m->x, m->x, s, s, m->z.tall, !m->z.tall };
}

static struct product square_of(const struct muon *m)
{
    struct shape s = shape_2(m->z.gram, m->z.gram);
    return (struct product){ m->square, m->gram, m->gram, s, s, false, false };
}

static struct product next_of(const struct muon *m)
{
    struct shape x = shape_2(m->z.rows, m->z.columns), s = shape_2(m->z.gram, m->z.gram);
    if (m->z.tall) return (struct product){ m->next, m->x, m->square, x, s, false, false };
    return (struct product){ m->next, m->square, m->x, s, x, false, false };
}

/* ---- what is done once an element */

static void momentum_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct muon *m = context;
    i64                i = block * MUON_ITEMS, end = MIN(i + MUON_ITEMS, m->count);
    f64                sum = 0;
    while (i < end) {
        vf  squares = { 0 };
        i64 stop    = MIN(i + 64 * V_LANES, end); /* f32 lanes for 64 rounds, f64 from there on */
        for (; i < stop; i += V_LANES) {
            i64 n   = MIN(stop - i, V_LANES);
            vf  g   = v_set(m->factor) * v_load_n(m->g + i, n);
            vf  mom = v_fma(v_set(m->momentum), v_load_n(m->mom + i, n), v_set(m->rest) * g);
            vf  x   = m->nesterov ? v_fma(v_set(m->momentum), mom, v_set(m->rest) * g) : mom;
            squares = v_fma(x, x, squares);
            v_store_n(m->mom + i, mom, n);
            v_store_n(m->x + i, x, n);
        }
        i = stop;
        sum += (f64)v_sum(squares);
    }
    m->sums[block] = sum;
}

static void scale_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct muon *m = context;
    i64                i = block * MUON_ITEMS, end = MIN(i + MUON_ITEMS, m->count);
    for (; i < end; i++) m->x[i] *= m->scale;
}

static void step_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct muon *m = context;
    i64                i = block * MUON_ITEMS, end = MIN(i + MUON_ITEMS, m->count);
    for (; i < end; i++) m->p[i] = m->p[i] * m->keep - m->rate * m->x[i];
}

/* Line `block` of a I + b A + c A^2, in the place of A^2. */
static void polynomial_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct muon *m    = context;
    i64                n    = m->z.gram;
    const f32         *gram = m->gram + block * n;
    f32               *to   = m->square + block * n;
    for (i64 i = 0; i < n; i++) to[i] = (f32)MUON_B * gram[i] + (f32)MUON_C * to[i];
    to[block] += (f32)MUON_A;
}

/* ---- the kernel */

static struct muon muon_of(const struct call *c)
{
    struct muon m = { .g     = c->in[1].data,
                      .p     = c->in[0].data,
                      .mom   = c->in[2].data,
                      .count = shape_count(c->in[0].type.shape),
                      .z     = muon_sizes(c->in[0].type.shape) };
    muon_lay_out(&m, c->work);
    return m;
}

static i64 muon_work(const struct call *c)
{
    struct muon    m          = muon_of(c);
    struct product products[] = { gram_of(&m), square_of(&m), next_of(&m) };
    i64            most       = 0;
    for (i32 i = 0; i < COUNT_OF(products); i++) most = MAX(most, product_work(&products[i]));
    return muon_lay_out(&m, NULL) * (i64)sizeof(f32) + most;
}

static void newton_schulz(struct muon *m, struct pool *pool)
{
    struct product gram = gram_of(m), square = square_of(m), next = next_of(m);
    product_run(&gram, pool, m->work);
    product_run(&square, pool, m->work);
    pool_run(pool, m->z.gram, polynomial_block, m);
    product_run(&next, pool, m->work);
    f32 *from = m->x;
    m->x      = m->next;
    m->next   = from;
}

static void muon(const struct call *c)
{
    const f32  *hyper = c->in[3].data, *factor = c->in[4].data;
    struct muon m      = muon_of(c);
    i64         blocks = fast_div_up(m.count, MUON_ITEMS);
    f64         norm = 0, lr = (f64)hyper[0];
    m.factor   = factor[0];
    m.momentum = hyper[1];
    m.rest     = (f32)(1 - (f64)hyper[1]);
    m.keep     = (f32)(1 - lr * c->at->decay);
    m.rate     = (f32)(lr * c->at->scale);
    m.nesterov = c->at->nesterov != 0;
    if (hyper[3] == 0) return;

    pool_run(c->pool, blocks, momentum_block, &m);
    for (i64 i = 0; i < blocks; i++) norm += m.sums[i];
    m.scale = (f32)(1 / fmax(sqrt(norm), MUON_NORM_MIN));
    pool_run(c->pool, blocks, scale_block, &m);
    for (i32 i = 0; i < MUON_STEPS; i++) newton_schulz(&m, c->pool);
    pool_run(c->pool, blocks, step_block, &m);
}

static bool muon_takes(const struct call *c)
{
    return fast_all_f32(c) && shape_count(c->in[0].type.shape) > 0;
}

const struct kernel ISA_FN(kernels_muon)[] = {
    { OP_MUON, "muon_" ISA_NAME, ISA_HERE, muon_takes, muon, muon_work },
};
const i32 ISA_COUNT(kernels_muon) = (i32)COUNT_OF(ISA_FN(kernels_muon));
