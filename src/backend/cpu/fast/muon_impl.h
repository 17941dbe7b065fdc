/* muon_impl.h - one matrix of Muon: the momentum, its orthogonalisation and the step.
 *
 * The work is in the fifteen products, which are those of op matmul. a X joins them as a on the
 * diagonal of the polynomial, so that a step of Newton and Schulz passes over X only there. In low
 * precision X and A are stored low, as torch.optim.Muon does it, and the products are the fast ones. */
#include "backend/cpu/fast/product.h"
#include "backend/cpu/fast/storage.h"
#include "ir/muon.h"

enum { MUON_ITEMS = 16 * 1024, WORK_ALIGN = 16 }; /* in a block; floats of a cache line */

struct muon {
    const f32        *g;
    f32              *p, *mom;
    i64               count;
    struct muon_sizes z;
    enum dtype        dtype;                  /* of what the next four hold */
    void             *x, *next;               /* [rows, columns] */
    void             *gram, *square;          /* [gram, gram] */
    f64              *sums;                   /* of squares of x, one a block */
    void             *work;                   /* of the products */
    f32               factor, momentum, rest; /* rest = 1 - momentum */
    f32               keep, rate;             /* what is left of p; lr for this shape */
    f32               scale;                  /* that gives x norm 1 */
    bool              nesterov;
};

static i64 padded(i64 floats) { return fast_div_up(floats, WORK_ALIGN) * WORK_ALIGN; }

/* Pieces of the workspace, wide enough for f32; returns where that of the products begins, in floats. */
static i64 muon_lay_out(struct muon *m, f32 *work)
{
    i64 n = padded(m->count), g = padded(m->z.gram * m->z.gram), end = 2 * (n + g);
    if (work) {
        m->x      = work;
        m->next   = work + n;
        m->gram   = work + 2 * n;
        m->square = work + 2 * n + g;
        m->sums   = (f64 *)(void *)(work + end);
        m->work   = work + end + padded(2 * fast_div_up(m->count, MUON_ITEMS));
    }
    return end + padded(2 * fast_div_up(m->count, MUON_ITEMS));
}

/* ---- the three products of a step */

static struct product gram_of(const struct muon *m)
{
    struct shape s = shape_2(m->z.rows, m->z.columns);
    return (struct product){ m->gram, m->x, m->x, s, s, m->z.tall, !m->z.tall, m->dtype };
}

static struct product square_of(const struct muon *m)
{
    struct shape s = shape_2(m->z.gram, m->z.gram);
    return (struct product){ m->square, m->gram, m->gram, s, s, false, false, m->dtype };
}

static struct product next_of(const struct muon *m)
{
    struct shape x = shape_2(m->z.rows, m->z.columns), s = shape_2(m->z.gram, m->z.gram);
    if (m->z.tall)
        return (struct product){ m->next, m->x, m->square, x, s, false, false, m->dtype };
    return (struct product){ m->next, m->square, m->x, s, x, false, false, m->dtype };
}

/* ---- what is done once an element */

/* Into `next`, in f32: the norm is not known yet. */
static void momentum_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct muon *m  = context;
    f32               *to = m->next;
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
            v_store_n(to + i, x, n);
        }
        i = stop;
        sum += (f64)v_sum(squares);
    }
    m->sums[block] = sum;
}

V_INLINE void scale_items(const struct muon *m, i64 block, const enum dtype t)
{
    i64 end = MIN((block + 1) * MUON_ITEMS, m->count);
    for (i64 i = block * MUON_ITEMS; i < end; i += V_LANES) {
        vm here = v_first(MIN(end - i, V_LANES));
        v_put(m->x, i, v_load_m((const f32 *)m->next + i, here) * v_set(m->scale), here, t);
    }
}
BY_STORAGE(scale_items)

V_INLINE void step_items(const struct muon *m, i64 block, const enum dtype t)
{
    i64 end = MIN((block + 1) * MUON_ITEMS, m->count);
    for (i64 i = block * MUON_ITEMS; i < end; i += V_LANES) {
        vm here = v_first(MIN(end - i, V_LANES));
        vf p    = v_load_m(m->p + i, here) * v_set(m->keep);
        v_store_m(m->p + i, p - v_set(m->rate) * v_get(m->x, i, here, t), here);
    }
}
BY_STORAGE(step_items)

/* Line `line` of a I + b A + c A^2, in the place of A^2. */
V_INLINE void polynomial_line(const struct muon *m, i64 line, const enum dtype t)
{
    i64 begin = line * m->z.gram, end = begin + m->z.gram, diagonal = begin + line;
    f32 a =
        (f32)MUON_B * v_get_1(m->gram, diagonal, t) + (f32)MUON_C * v_get_1(m->square, diagonal, t);
    for (i64 i = begin; i < end; i += V_LANES) {
        vm here = v_first(MIN(end - i, V_LANES));
        vf x = v_get(m->gram, i, here, t), y = v_get(m->square, i, here, t);
        v_put(m->square, i, v_set((f32)MUON_B) * x + v_set((f32)MUON_C) * y, here, t);
    }
    v_put_1(m->square, diagonal, a + (f32)MUON_A, t);
}
BY_STORAGE(polynomial_line)

/* ---- the kernel */

static struct muon muon_of(const struct call *c)
{
    struct muon m = { .g     = c->in[1].data,
                      .p     = c->in[0].data,
                      .mom   = c->in[2].data,
                      .count = shape_count(c->in[0].type.shape),
                      .z     = muon_sizes(c->in[0].type.shape),
                      .dtype = c->at->dtype };
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
    pool_run(pool, m->z.gram, polynomial_line_by[m->dtype], m);
    product_run(&next, pool, m->work);
    void *from = m->x;
    m->x       = m->next;
    m->next    = from;
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
    pool_run(c->pool, blocks, scale_items_by[m.dtype], &m);
    for (i32 i = 0; i < MUON_STEPS; i++) newton_schulz(&m, c->pool);
    pool_run(c->pool, blocks, step_items_by[m.dtype], &m);
}

static bool muon_takes(const struct call *c)
{
    bool known = c->at->dtype == DT_F32 || c->at->dtype == DT_BF16 || c->at->dtype == DT_F16;
    return known && fast_all_f32(c) && shape_count(c->in[0].type.shape) > 0;
}

const struct kernel ISA_FN(kernels_muon)[] = {
    { OP_MUON, "muon_" ISA_NAME, ISA_HERE, muon_takes, muon, muon_work },
};
const i32 ISA_COUNT(kernels_muon) = (i32)COUNT_OF(ISA_FN(kernels_muon));
