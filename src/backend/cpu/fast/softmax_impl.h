/* softmax_impl.h - softmax of rows, its gradient, and the losses that rest on it. A row is passed
 * two or three times while it lies in the cache. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/rows_exp.h"

enum { SOFTMAX_ITEMS = 8 * 1024 }; /* in a block */

struct rows {
    const struct call *c;
    i64                count, width, each;
};

static struct rows rows_of(const struct call *c, const struct tensor *x)
{
    struct rows r = { .c = c, .width = shape_last(x->type.shape) };
    r.count       = shape_rows(x->type.shape);
    r.each        = fast_items(r.count, r.width, SOFTMAX_ITEMS);
    return r;
}

static void rows_run(const struct call *c, const struct tensor *x, pool_fn *fn)
{
    struct rows r = rows_of(c, x);
    pool_run(c->pool, fast_div_up(r.count, r.each), fn, &r);
}

static void softmax_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct rows *r   = context;
    i64                row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++) {
        const f32 *x     = (const f32 *)r->c->in[0].data + row * r->width;
        f32       *y     = (f32 *)r->c->out[0].data + row * r->width;
        vf         scale = v_set(1 / row_exp(y, x, r->width, row_top(x, r->width)));
        for (i64 i = 0; i < r->width; i += V_LANES) {
            vm m = v_first(MIN(r->width - i, V_LANES));
            v_store_m(y + i, v_load_m(y + i, m) * scale, m);
        }
    }
}

static void softmax_grad_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct rows *r   = context;
    i64                row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++) {
        const f32 *dy  = (const f32 *)r->c->in[0].data + row * r->width;
        const f32 *y   = (const f32 *)r->c->in[1].data + row * r->width;
        f32       *dx  = (f32 *)r->c->out[0].data + row * r->width;
        vf         dot = v_set(row_dot(dy, y, r->width));
        for (i64 i = 0; i < r->width; i += V_LANES) {
            vm m = v_first(MIN(r->width - i, V_LANES));
            v_store_m(dx + i, (v_load_m(dy + i, m) - dot) * v_load_m(y + i, m), m);
        }
    }
}

static void xent_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct rows *r       = context;
    const i32         *targets = r->c->in[1].data;
    f32               *loss = r->c->out[0].data, *lse = r->c->out[1].data;
    f64                s   = r->c->at->smoothing;
    i64                row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++) {
        const f32 *x    = (const f32 *)r->c->in[0].data + row * r->width;
        f32        top  = row_top(x, r->width);
        f64        l    = (f64)top + log((f64)row_exp(NULL, x, r->width, top));
        f64        mean = s > 0 ? (f64)row_sum(x, r->width) / (f64)r->width : 0;
        ASSERT(targets[row] < r->width);
        lse[row] = (f32)l;
        loss[row] =
            targets[row] < 0 ? 0 : (f32)((1 - s) * (l - (f64)x[targets[row]]) + s * (l - mean));
    }
}

static void xent_grad_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct rows *r     = context;
    const f32         *dloss = r->c->in[0].data, *lse = r->c->in[3].data;
    const i32         *targets = r->c->in[2].data;
    f64                s       = r->c->at->smoothing;
    i64                row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++) {
        const f32 *x  = (const f32 *)r->c->in[1].data + row * r->width;
        f32       *dx = (f32 *)r->c->out[0].data + row * r->width;
        if (targets[row] < 0) {
            memset(dx, 0, (size_t)r->width * sizeof *dx);
            continue;
        }
        vf  shift = v_set(lse[row]), d = v_set(dloss[row]);
        f64 share = s / (f64)r->width; /* of the target's one that every class has */
        vf  other = v_set((f32)share);
        /* At the target, whose logit dx may be about to take the place of. */
        f32 hit = expf(x[targets[row]] - lse[row]) - (f32)(share + 1 - s);
        for (i64 i = 0; i < r->width; i += V_LANES) {
            vm m = v_first(MIN(r->width - i, V_LANES));
            v_store_m(dx + i, (v_exp(v_load_m(x + i, m) - shift) - other) * d, m);
        }
        dx[targets[row]] = hit * dloss[row];
    }
}

/* The first of the largest, compared as the reference does. */
static i64 row_best(const f32 *x, i64 width)
{
    f32 top = row_top(x, width);
    for (i64 i = 0; i < width; i++)
        if (x[i] == top) return x[0] == x[0] ? i : 0; /* nothing is above NaN in front */
    return 0;
}

static void hits_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct rows *r       = context;
    const f32         *x       = r->c->in[0].data;
    const i32         *targets = r->c->in[1].data;
    f32               *y       = r->c->out[0].data;
    i64                row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++)
        y[row] = row_best(x + row * r->width, r->width) == targets[row] ? 1 : 0;
}

static void softmax(const struct call *c) { rows_run(c, &c->in[0], softmax_block); }
static void softmax_grad(const struct call *c) { rows_run(c, &c->in[1], softmax_grad_block); }
static void xent(const struct call *c) { rows_run(c, &c->in[0], xent_block); }
static void xent_grad(const struct call *c) { rows_run(c, &c->in[1], xent_grad_block); }
static void hits(const struct call *c) { rows_run(c, &c->in[0], hits_block); }

static bool takes_1(const struct call *c) { return fast_ids_at(c, 1); }
static bool takes_2(const struct call *c) { return fast_ids_at(c, 2); }

const struct kernel ISA_FN(kernels_softmax)[] = {
    { OP_SOFTMAX, "softmax_" ISA_NAME, ISA_HERE, fast_all_f32, softmax, NULL },
    { OP_SOFTMAX_GRAD, "softmax_" ISA_NAME, ISA_HERE, fast_all_f32, softmax_grad, NULL },
    { OP_XENT, "softmax_" ISA_NAME, ISA_HERE, takes_1, xent, NULL },
    { OP_XENT_GRAD, "softmax_" ISA_NAME, ISA_HERE, takes_2, xent_grad, NULL },
    { OP_HITS, "softmax_" ISA_NAME, ISA_HERE, takes_1, hits, NULL },
};
const i32 ISA_COUNT(kernels_softmax) = (i32)COUNT_OF(ISA_FN(kernels_softmax));
