/* norm_impl.h - layer norm and RMS norm of rows, and their gradients.
 *
 * With xhat = (x - mean) rstd and g = dy w, all have (m: mean over the row)
 *     dx = rstd (g - m(g) - xhat m(g xhat))
 * where RMS norm, which subtracts no mean, lacks the second term. A row stays in the first cache
 * while it is passed two or three times. dw and db are sums over all rows: each block of rows sums
 * its own, and the blocks' sums are added in order. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/rows.h"
#include "backend/cpu/fast/then.h"

enum {
    NORM_ITEMS = 16 * 1024, /* in a block */
    PARTS_MAX  = 32,        /* blocks that sum dw and db */
};

struct norm {
    const struct call *call;

    const void *dy, *x;
    const void *add[2]; /* of add_norm: their sum is x */
    const f32  *w, *b;
    void       *y; /* or dx */
    f32        *mean, *rstd;
    f32        *parts; /* [blocks][2][width]: dw, db */
    i64         rows, width, each;
    f64         eps;
};

static struct norm norm_of(const struct tensor *x)
{
    struct norm n = { .x = x->data, .width = shape_last(x->type.shape) };
    n.rows        = shape_rows(x->type.shape);
    n.each        = fast_items(n.rows, n.width, NORM_ITEMS);
    return n;
}

static i64 norm_blocks(const struct norm *n) { return fast_div_up(n->rows, n->each); }

/* ---- forward */

/* Row of x: its place and, where it is a sum, its numbers. */
V_INLINE const void *row_of(const struct norm *n, i64 row, const enum dtype t)
{
    void *x = v_at(n->x, row * n->width, t);
    for (i64 i = 0; n->add[0] && i < n->width; i += V_LANES) {
        vm  m  = v_first(MIN(n->width - i, V_LANES));
        i64 at = row * n->width + i;
        v_put(x, i, v_get(n->add[0], at, m, t) + v_get(n->add[1], at, m, t), m, t);
    }
    return x;
}

/* y = (x - mean) rstd w + b; w, b may be NULL. */
V_INLINE void row_apply(const struct norm *n, i64 row, f32 mean, f32 rstd, const enum dtype t)
{
    const void *x     = v_at(n->x, row * n->width, t);
    void       *y     = v_at(n->y, row * n->width, t);
    vf          shift = v_set(mean), scale = v_set(rstd);
    for (i64 i = 0; i < n->width; i += V_LANES) {
        vm m = v_first(MIN(n->width - i, V_LANES));
        vf v = (v_get(x, i, m, t) - shift) * scale;
        if (n->w) v = v * v_load_m(n->w + i, m);
        if (n->b) v = v + v_load_m(n->b + i, m);
        v_put(y, i, v, m, t);
    }
}

static f32 rstd_of(f32 sum_squares, i64 width, f64 eps)
{
    return (f32)(1 / sqrt((f64)sum_squares / (f64)width + eps));
}

V_INLINE void layernorm_block(const struct norm *n, i64 block, const enum dtype t)
{
    i64 row = block * n->each, end = MIN(row + n->each, n->rows);
    for (; row < end; row++) {
        const void *x    = row_of(n, row, t);
        f32         mean = (f32)((f64)row_sum(x, n->width, t) / (f64)n->width);
        f32         rstd = rstd_of(row_sum_squares(x, n->width, mean, t), n->width, n->eps);
        row_apply(n, row, mean, rstd, t);
        n->mean[row] = mean;
        n->rstd[row] = rstd;
    }
}

V_INLINE void rmsnorm_block(const struct norm *n, i64 block, const enum dtype t)
{
    i64 row = block * n->each, end = MIN(row + n->each, n->rows);
    for (; row < end; row++) {
        const void *x    = row_of(n, row, t);
        f32         rstd = rstd_of(row_sum_squares(x, n->width, 0, t), n->width, n->eps);
        row_apply(n, row, 0, rstd, t);
        n->rstd[row] = rstd;
    }
}

BY_STORAGE(layernorm_block)
BY_STORAGE(rmsnorm_block)

/* x (, x), weight, bias -> y, `stats` statistics (, the sum). */
static struct norm forward_of(const struct call *c, i32 stats)
{
    i32         summands = c->op == OP_ADD_LAYERNORM || c->op == OP_ADD_RMSNORM ? 2 : 1;
    struct norm n        = norm_of(&c->in[0]);
    if (summands == 2) {
        n.add[0] = c->in[0].data;
        n.add[1] = c->in[1].data;
        n.x      = c->out[1 + stats].data;
    }
    n.w    = c->in_count > summands ? c->in[summands].data : NULL;
    n.b    = c->in_count > summands + 1 ? c->in[summands + 1].data : NULL;
    n.y    = c->out[0].data;
    n.mean = c->out[1].data;
    n.rstd = c->out[stats].data;
    n.eps  = c->at->eps;
    return n;
}

static void layernorm(const struct call *c)
{
    struct norm n = forward_of(c, 2);
    pool_run(c->pool, norm_blocks(&n), layernorm_block_by[fast_storage(c)], &n);
}

static void rmsnorm(const struct call *c)
{
    struct norm n = forward_of(c, 1);
    pool_run(c->pool, norm_blocks(&n), rmsnorm_block_by[fast_storage(c)], &n);
}

/* ---- backward */

struct sums { /* over a row */
    vf g, gx;
};

/* First pass over a row: its sums, and its part of dw and db. */
V_INLINE struct sums row_grad_sums(const struct norm *n, i64 row, f32 mean, f32 *dw, f32 *db,
                                   const enum dtype t)
{
    const void *x = v_at(n->x, row * n->width, t), *dy = v_at(n->dy, row * n->width, t);
    vf          shift = v_set(mean), scale = v_set(n->rstd[row]);
    struct sums s = { v_zero(), v_zero() };
    for (i64 i = 0; i < n->width; i += V_LANES) {
        vm m    = v_first(MIN(n->width - i, V_LANES));
        vf d    = v_get(dy, i, m, t); /* 0 beyond the row, and so are all products with it */
        vf xhat = (v_get(x, i, m, t) - shift) * scale;
        vf g    = n->w ? d * v_load_m(n->w + i, m) : d;
        s.g     = s.g + g;
        s.gx    = v_fma(g, xhat, s.gx);
        v_store_m(dw + i, v_fma(d, xhat, v_load_m(dw + i, m)), m);
        if (db) v_store_m(db + i, d + v_load_m(db + i, m), m);
    }
    return s;
}

V_INLINE void row_grad_apply(const struct norm *n, i64 row, f32 mean, f32 mean_g, f32 mean_gx,
                             const enum dtype t)
{
    const void *x = v_at(n->x, row * n->width, t), *dy = v_at(n->dy, row * n->width, t);
    void       *dx    = v_at(n->y, row * n->width, t);
    vf          shift = v_set(mean), scale = v_set(n->rstd[row]);
    for (i64 i = 0; i < n->width; i += V_LANES) {
        vm m    = v_first(MIN(n->width - i, V_LANES));
        vf xhat = (v_get(x, i, m, t) - shift) * scale;
        vf g    = v_get(dy, i, m, t);
        if (n->w) g = g * v_load_m(n->w + i, m);
        v_put(dx, i, scale * (g - v_set(mean_g) - xhat * v_set(mean_gx)), m, t);
    }
}

V_INLINE void grad_block(const struct norm *n, i64 block, const enum dtype t)
{
    f32 *dw = n->parts + block * 2 * n->width, *db = n->mean ? dw + n->width : NULL;
    i64  first = block * n->each, end = MIN(first + n->each, n->rows);
    memset(dw, 0, (size_t)(2 * n->width) * sizeof *dw);
    for (i64 row = first; row < end; row++) {
        f32         mean   = n->mean ? n->mean[row] : 0;
        struct sums s      = row_grad_sums(n, row, mean, dw, db, t);
        f32         mean_g = n->mean ? v_sum(s.g) / (f32)n->width : 0;
        row_grad_apply(n, row, mean, mean_g, v_sum(s.gx) / (f32)n->width, t);
    }
    struct then_part rows = { first * n->width, n->width, end - first, n->width };
    ISA_FN(then_apply)(n->call, rows);
}

BY_STORAGE(grad_block)

/* Operands in their order: dy, x, w, mean, rstd or dy, x, rstd (, w). */
static struct norm grad_of(const struct call *c)
{
    struct norm n = norm_of(&c->in[1]);
    n.call        = c;
    n.dy          = c->in[0].data;
    n.y           = then_target(c);
    n.parts       = c->work;
    n.each        = MAX(n.each, fast_div_up(n.rows, PARTS_MAX));
    if (c->op == OP_LAYERNORM_GRAD) {
        n.w    = c->in[2].data;
        n.mean = c->in[3].data;
        n.rstd = c->in[4].data;
    } else {
        n.rstd = c->in[2].data;
        n.w    = c->in_count == 4 ? c->in[3].data : NULL;
    }
    return n;
}

static i64 grad_work(const struct call *c)
{
    struct norm n = grad_of(c);
    return norm_blocks(&n) * 2 * n.width * (i64)sizeof(f32);
}

static void norm_grad(const struct call *c)
{
    struct norm n  = grad_of(c);
    f32        *dw = c->out[1].data, *db = n.mean ? c->out[2].data : NULL;
    i64         blocks = norm_blocks(&n), step = 2 * n.width;
    pool_run(c->pool, blocks, grad_block_by[fast_storage(c)], &n);
    rows_add(dw, n.parts, blocks, step, n.width, DT_F32);
    if (db) rows_add(db, n.parts + n.width, blocks, step, n.width, DT_F32);
}

const struct kernel ISA_FN(kernels_norm)[] = {
    { OP_LAYERNORM, "norm_" ISA_NAME, ISA_HERE, stored, layernorm, NULL },
    { OP_RMSNORM, "norm_" ISA_NAME, ISA_HERE, stored, rmsnorm, NULL },
    { OP_ADD_LAYERNORM, "norm_" ISA_NAME, ISA_HERE, stored, layernorm, NULL },
    { OP_ADD_RMSNORM, "norm_" ISA_NAME, ISA_HERE, stored, rmsnorm, NULL },
    { OP_LAYERNORM_GRAD, "norm_" ISA_NAME, ISA_HERE, stored, norm_grad, grad_work },
    { OP_RMSNORM_GRAD, "norm_" ISA_NAME, ISA_HERE, stored, norm_grad, grad_work },
};
const i32 ISA_COUNT(kernels_norm) = (i32)COUNT_OF(ISA_FN(kernels_norm));
