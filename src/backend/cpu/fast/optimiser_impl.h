/* optimiser_impl.h - the sweeps over all parameters: each number is read and written once.
 *
 * They are bound by memory but for small models, where everything lies in the second cache and
 * Adam's root and quotient count. Stores that bypass the cache were tried and lose: what is
 * written was read just before. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/simd.h"

enum {
    SWEEP_ITEMS = 8 * 1024, /* in a block: four streams of 32 KiB */
    SUMSQ_ITEMS = 64 * 1024,
};

struct sweep {
    f32       *p, *m, *v; /* sgd: m is the momentum */
    const f32 *g;
    i64        count;
    /* Constants of this step, worked out in f64. */
    f32  factor, decay, keep; /* keep: what adamw leaves of p */
    f32  beta1, rest1;        /* rest = 1 - beta */
    f32  beta2, rest2;
    f32  rate;         /* lr, for adam over the correction of m */
    f32  v_scale, eps; /* 1 over the correction of v */
    bool nesterov, first;
};

static struct sweep sweep_of(const struct call *c, i32 states)
{
    const f32   *hyper = c->in[2 + states].data, *factor = c->in[3 + states].data;
    f64          lr = (f64)hyper[0], beta1 = (f64)hyper[1], beta2 = (f64)hyper[2];
    f64          step = (f64)hyper[3];
    struct sweep s    = { .p = c->in[0].data, .g = c->in[1].data, .m = c->in[2].data };
    s.v               = states == 2 ? c->in[3].data : NULL;
    s.count           = step > 0 ? c->in[0].count : 0;
    s.factor          = factor[0];
    s.decay           = (f32)c->at->decay;
    s.keep            = (f32)(1 - lr * c->at->decay);
    s.beta1           = hyper[1];
    s.rest1           = (f32)(1 - beta1);
    s.beta2           = hyper[2];
    s.rest2           = (f32)(1 - beta2);
    s.rate            = (f32)(states == 2 ? lr / (1 - pow(beta1, step)) : lr);
    s.v_scale         = states == 2 ? (f32)(1 / (1 - pow(beta2, step))) : 0;
    s.eps             = (f32)c->at->eps;
    s.nesterov        = c->at->nesterov != 0;
    s.first           = hyper[3] == 1;
    return s;
}

/* ---- adam, adamw */

struct adam { /* one vector of each */
    vf p, m, v;
};

V_INLINE struct adam adam_step(const struct sweep *s, vf p, vf g, vf m, vf v, const bool decoupled)
{
    g = g * v_set(s->factor);
    if (decoupled) p = p * v_set(s->keep);
    else g = v_fma(v_set(s->decay), p, g);
    m       = v_fma(v_set(s->beta1), m, v_set(s->rest1) * g);
    v       = v_fma(v_set(s->beta2), v, v_set(s->rest2) * g * g);
    vf root = v_sqrt(v * v_set(s->v_scale)) + v_set(s->eps);
    return (struct adam){ p - v_set(s->rate) * m / root, m, v };
}

V_INLINE void adam_range(const struct sweep *s, i64 i, i64 end, const bool decoupled)
{
    for (; i + V_LANES <= end; i += V_LANES) {
        struct adam a = adam_step(s, v_load(s->p + i), v_load(s->g + i), v_load(s->m + i),
                                  v_load(s->v + i), decoupled);
        v_store(s->p + i, a.p);
        v_store(s->m + i, a.m);
        v_store(s->v + i, a.v);
    }
    if (i == end) return;
    vm          rest = v_first(end - i);
    struct adam a    = adam_step(s, v_load_m(s->p + i, rest), v_load_m(s->g + i, rest),
                                 v_load_m(s->m + i, rest), v_load_m(s->v + i, rest), decoupled);
    v_store_m(s->p + i, a.p, rest);
    v_store_m(s->m + i, a.m, rest);
    v_store_m(s->v + i, a.v, rest);
}

static void adam_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct sweep *s = context;
    adam_range(s, block * SWEEP_ITEMS, MIN((block + 1) * SWEEP_ITEMS, s->count), false);
}

static void adamw_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct sweep *s = context;
    adam_range(s, block * SWEEP_ITEMS, MIN((block + 1) * SWEEP_ITEMS, s->count), true);
}

static void adam(const struct call *c)
{
    struct sweep s = sweep_of(c, 2);
    pool_run(c->pool, fast_div_up(s.count, SWEEP_ITEMS), adam_block, &s);
}

static void adamw(const struct call *c)
{
    struct sweep s = sweep_of(c, 2);
    pool_run(c->pool, fast_div_up(s.count, SWEEP_ITEMS), adamw_block, &s);
}

/* ---- sgd */

V_INLINE vf sgd_step(const struct sweep *s, vf p, vf g, vf *m)
{
    g       = v_fma(v_set(s->decay), p, g * v_set(s->factor));
    *m      = s->first ? g : v_fma(v_set(s->beta1), *m, g);
    vf step = s->nesterov ? v_fma(v_set(s->beta1), *m, g) : *m;
    return p - v_set(s->rate) * step;
}

static void sgd_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct sweep *s = context;
    i64                 i = block * SWEEP_ITEMS, end = MIN(i + SWEEP_ITEMS, s->count);
    for (; i + V_LANES <= end; i += V_LANES) {
        vf m = v_load(s->m + i);
        v_store(s->p + i, sgd_step(s, v_load(s->p + i), v_load(s->g + i), &m));
        v_store(s->m + i, m);
    }
    if (i == end) return;
    vm rest = v_first(end - i);
    vf m    = v_load_m(s->m + i, rest);
    vf p    = sgd_step(s, v_load_m(s->p + i, rest), v_load_m(s->g + i, rest), &m);
    v_store_m(s->p + i, p, rest);
    v_store_m(s->m + i, m, rest);
}

static void sgd(const struct call *c)
{
    struct sweep s = sweep_of(c, 1);
    pool_run(c->pool, fast_div_up(s.count, SWEEP_ITEMS), sgd_block, &s);
}

/* ---- gradients of later micro-batches */

static void accumulate_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct sweep *s = context;
    i64                 i = block * SWEEP_ITEMS, end = MIN(i + SWEEP_ITEMS, s->count);
    for (; i + V_LANES <= end; i += V_LANES) v_store(s->p + i, v_load(s->p + i) + v_load(s->g + i));
    if (i == end) return;
    vm rest = v_first(end - i);
    v_store_m(s->p + i, v_load_m(s->p + i, rest) + v_load_m(s->g + i, rest), rest);
}

static void accumulate(const struct call *c)
{
    struct sweep s = { .p = c->in[0].data, .g = c->in[1].data, .count = c->in[0].count };
    pool_run(c->pool, fast_div_up(s.count, SWEEP_ITEMS), accumulate_block, &s);
}

/* ---- the norm */

struct squares {
    const f32 *x;
    i64        count;
    f64       *sum; /* of each block */
};

/* f32 lanes for 64 rounds of four vectors, f64 from there on. */
static void sumsq_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    struct squares *s = context;
    i64             i = block * SUMSQ_ITEMS, end = MIN(i + SUMSQ_ITEMS, s->count);
    f64             sum = 0;
    while (i < end) {
        vf  lanes[4] = { 0 };
        i64 stop     = MIN(i + 256 * V_LANES, end);
        for (; i + 4 * V_LANES <= stop; i += 4 * V_LANES)
            for (int j = 0; j < 4; j++) {
                vf x     = v_load(s->x + i + j * V_LANES);
                lanes[j] = v_fma(x, x, lanes[j]);
            }
        for (; i < stop; i += V_LANES) {
            vf x     = v_load_n(s->x + i, MIN(stop - i, V_LANES));
            lanes[0] = v_fma(x, x, lanes[0]);
        }
        i = stop;
        sum += (f64)v_sum(lanes[0] + lanes[1] + (lanes[2] + lanes[3]));
    }
    s->sum[block] = sum;
}

static i64 sumsq_work(const struct call *c)
{
    return fast_div_up(shape_count(c->in[0].type.shape), SUMSQ_ITEMS) * (i64)sizeof(f64);
}

static void sumsq(const struct call *c)
{
    struct squares s      = { c->in[0].data, c->in[0].count, c->work };
    i64            blocks = fast_div_up(s.count, SUMSQ_ITEMS);
    f64            sum    = 0;
    pool_run(c->pool, blocks, sumsq_block, &s);
    for (i64 i = 0; i < blocks; i++) sum += s.sum[i];
    *(f32 *)c->out[0].data = (f32)sum;
}

const struct kernel ISA_FN(kernels_optimiser)[] = {
    { OP_ADAM, "adam_" ISA_NAME, ISA_HERE, fast_all_f32, adam, NULL },
    { OP_ADAMW, "adamw_" ISA_NAME, ISA_HERE, fast_all_f32, adamw, NULL },
    { OP_SGD, "sgd_" ISA_NAME, ISA_HERE, fast_all_f32, sgd, NULL },
    { OP_ACCUMULATE, "accumulate_" ISA_NAME, ISA_HERE, fast_all_f32, accumulate, NULL },
    { OP_SUMSQ, "sumsq_" ISA_NAME, ISA_HERE, fast_all_f32, sumsq, sumsq_work },
};
const i32 ISA_COUNT(kernels_optimiser) = (i32)COUNT_OF(ISA_FN(kernels_optimiser));
