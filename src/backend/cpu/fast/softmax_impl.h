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

static void rows_run(const struct call *c, const struct tensor *x, pool_fn *const *fn)
{
    struct rows r = rows_of(c, x);
    pool_run(c->pool, fast_div_up(r.count, r.each), fn[fast_storage(c)], &r);
}

/* The exponentials wait in the result where it is f32; else they are worked out again, so that
 * only the quotient is rounded. */
V_INLINE void softmax_block(const struct rows *r, i64 block, const enum dtype t)
{
    i64 row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++) {
        const void *x     = v_at(r->c->in[0].data, row * r->width, t);
        void       *y     = v_at(r->c->out[0].data, row * r->width, t);
        f32         top   = row_top(x, r->width, t);
        vf          scale = v_set(1 / row_exp(t == DT_F32 ? y : NULL, x, r->width, top, t));
        for (i64 i = 0; i < r->width; i += V_LANES) {
            vm m = v_first(MIN(r->width - i, V_LANES));
            vf e = t == DT_F32 ? v_get(y, i, m, t) : v_exp(v_get(x, i, m, t) - v_set(top));
            v_put(y, i, e * scale, m, t);
        }
    }
}

V_INLINE void softmax_grad_block(const struct rows *r, i64 block, const enum dtype t)
{
    i64 row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++) {
        const void *dy  = v_at(r->c->in[0].data, row * r->width, t);
        const void *y   = v_at(r->c->in[1].data, row * r->width, t);
        void       *dx  = v_at(r->c->out[0].data, row * r->width, t);
        vf          dot = v_set(row_dot(dy, y, r->width, t));
        for (i64 i = 0; i < r->width; i += V_LANES) {
            vm m = v_first(MIN(r->width - i, V_LANES));
            v_put(dx, i, (v_get(dy, i, m, t) - dot) * v_get(y, i, m, t), m, t);
        }
    }
}

V_INLINE void xent_block(const struct rows *r, i64 block, const enum dtype t)
{
    const i32 *targets = r->c->in[1].data;
    f32       *loss = r->c->out[0].data, *lse = r->c->out[1].data;
    f64        s   = r->c->at->smoothing;
    i64        row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++) {
        const void *x    = v_at(r->c->in[0].data, row * r->width, t);
        f32         top  = row_top(x, r->width, t);
        f64         l    = (f64)top + log((f64)row_exp(NULL, x, r->width, top, t));
        f64         mean = s > 0 ? (f64)row_sum(x, r->width, t) / (f64)r->width : 0;
        ASSERT(targets[row] < r->width);
        lse[row]  = (f32)l;
        loss[row] = 0;
        if (targets[row] < 0) continue;
        f64 hit   = (f64)v_get_1(x, targets[row], t);
        loss[row] = (f32)((1 - s) * (l - hit) + s * (l - mean));
    }
}

V_INLINE void xent_grad_block(const struct rows *r, i64 block, const enum dtype t)
{
    const f32 *dloss = r->c->in[0].data, *lse = r->c->in[3].data;
    const i32 *targets = r->c->in[2].data;
    f64        s       = r->c->at->smoothing;
    i64        row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++) {
        const void *x  = v_at(r->c->in[1].data, row * r->width, t);
        void       *dx = v_at(r->c->out[0].data, row * r->width, t);
        if (targets[row] < 0) {
            memset(dx, 0, (size_t)(r->width * v_size(t)));
            continue;
        }
        vf  shift = v_set(lse[row]), d = v_set(dloss[row]);
        f64 share = s / (f64)r->width; /* of the target's one that every class has */
        vf  other = v_set((f32)share);
        /* At the target, whose logit dx may be about to take the place of. */
        f32 hit = expf(v_get_1(x, targets[row], t) - lse[row]) - (f32)(share + 1 - s);
        for (i64 i = 0; i < r->width; i += V_LANES) {
            vm m = v_first(MIN(r->width - i, V_LANES));
            v_put(dx, i, (v_exp(v_get(x, i, m, t) - shift) - other) * d, m, t);
        }
        v_put_1(dx, targets[row], hit * dloss[row], t);
    }
}

/* The first of the largest, compared as the reference does. */
V_INLINE i64 row_best(const void *x, i64 width, const enum dtype t)
{
    f32 top = row_top(x, width, t), front = v_get_1(x, 0, t);
    for (i64 i = 0; i < width; i++)
        if (v_get_1(x, i, t) == top)
            return front == front ? i : 0; /* nothing is above NaN in front */
    return 0;
}

V_INLINE void hits_block(const struct rows *r, i64 block, const enum dtype t)
{
    const void *x       = r->c->in[0].data;
    const i32  *targets = r->c->in[1].data;
    f32        *y       = r->c->out[0].data;
    i64         row = block * r->each, end = MIN(row + r->each, r->count);
    for (; row < end; row++)
        y[row] = row_best(v_at(x, row * r->width, t), r->width, t) == targets[row] ? 1 : 0;
}

BY_STORAGE(softmax_block)
BY_STORAGE(softmax_grad_block)
BY_STORAGE(xent_block)
BY_STORAGE(xent_grad_block)
BY_STORAGE(hits_block)

static void softmax(const struct call *c) { rows_run(c, &c->in[0], softmax_block_by); }
static void softmax_grad(const struct call *c) { rows_run(c, &c->in[1], softmax_grad_block_by); }
static void xent(const struct call *c) { rows_run(c, &c->in[0], xent_block_by); }
static void xent_grad(const struct call *c) { rows_run(c, &c->in[1], xent_grad_block_by); }
static void hits(const struct call *c) { rows_run(c, &c->in[0], hits_block_by); }

const struct kernel ISA_FN(kernels_softmax)[] = {
    { OP_SOFTMAX, "softmax_" ISA_NAME, ISA_HERE, stored, softmax, NULL },
    { OP_SOFTMAX_GRAD, "softmax_" ISA_NAME, ISA_HERE, stored, softmax_grad, NULL },
    { OP_XENT, "softmax_" ISA_NAME, ISA_HERE, stored, xent, NULL },
    { OP_XENT_GRAD, "softmax_" ISA_NAME, ISA_HERE, stored, xent_grad, NULL },
    { OP_HITS, "softmax_" ISA_NAME, ISA_HERE, stored, hits, NULL },
};
const i32 ISA_COUNT(kernels_softmax) = (i32)COUNT_OF(ISA_FN(kernels_softmax));
