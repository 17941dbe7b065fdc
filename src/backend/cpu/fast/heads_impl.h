/* heads_impl.h - what is done to query and key heads before attention: rotary positions and norms.
 *
 * x is [B, T, heads of D numbers]; only the first `heads` of them are changed, the others pass
 * through. A block of work is a few positions.
 *
 * rope's table of cosines and sines is made anew by each call, in the workspace, a row for each position
 * on axis 1, or where positions are given for each row of x: every TURN-th position by libm in f64, those
 * between by turning the one before. So a position has the same bits wherever it stands. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/rows.h"
#include "ir/rope.h"

enum {
    HEADS_ITEMS = 16 * 1024, /* in a block */
    TURN        = 32,        /* positions: errors of so many turns stay near 2^-50 */
};

struct heads {
    const void         *dy, *x;
    void               *y;
    f32                *rstd;
    f32                *table; /* [turns][2][D/2]: cosines, sines */
    const i32          *at;    /* position of each row; NULL: its index on axis 1 */
    i64                 turns; /* rows of the table */
    i64                 positions, T, all, heads, D, each;
    f64                 base, eps;
    struct rope_scaling scaling;
    bool                inverse;
};

static struct heads heads_of(const struct call *c, const struct tensor *x)
{
    struct heads h = { .x = x->data, .y = c->out[0].data, .D = c->at->head_dim };
    h.T            = x->type.shape.dim[1];
    h.positions    = x->type.shape.dim[0] * h.T;
    h.all          = x->type.shape.dim[2] / h.D;
    h.heads        = c->at->heads;
    h.each         = fast_items(h.positions, h.all * h.D, HEADS_ITEMS);
    h.base         = c->at->base;
    h.scaling      = (struct rope_scaling){ c->at->stretch, c->at->low, c->at->high };
    h.eps          = c->at->eps;
    h.inverse      = c->at->inverse != 0;
    return h;
}

static void heads_run(const struct call *c, struct heads *h, pool_fn *const *fn)
{
    pool_run(c->pool, fast_div_up(h->positions, h->each), fn[fast_storage(c)], h);
}

V_INLINE void pass_through(const struct heads *h, const void *from, i64 position,
                           const enum dtype t)
{
    i64 at = (position * h->all + h->heads) * h->D, count = (h->all - h->heads) * h->D;
    if (from == h->y) return;
    memcpy(v_at(h->y, at, t), v_at(from, at, t), (size_t)(count * v_size(t)));
}

/* ---- rope */

/* A pair's turn at a position, which is reached from the multiple of TURN before it. */
struct turning {
    f64 step, co, si, turn_co, turn_si;
    i64 at;
};

static void turn_to(struct turning *w, i64 at)
{
    if (at == w->at) return;
    if (at != w->at + 1 || at % TURN == 0) {
        w->at = at / TURN * TURN;
        w->co = cos((f64)w->at * w->step);
        w->si = sin((f64)w->at * w->step);
    }
    for (; w->at < at; w->at++) {
        f64 next = w->co * w->turn_co - w->si * w->turn_si;
        w->si    = w->si * w->turn_co + w->co * w->turn_si;
        w->co    = next;
    }
}

static void table_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct heads *h    = context;
    i64                 half = h->D / 2, first = block * TURN, end = MIN(first + TURN, h->turns);
    for (i64 i = 0; i < half; i++) {
        f64            step = rope_scaled(pow(h->base, -2.0 * (f64)i / (f64)h->D), h->scaling);
        f64            sign = h->inverse ? -1 : 1;
        struct turning w    = { step, 0, 0, cos(step), sin(step), -1 };
        for (i64 r = first; r < end; r++) {
            turn_to(&w, h->at ? h->at[r] : r);
            h->table[2 * r * half + i]       = (f32)w.co;
            h->table[(2 * r + 1) * half + i] = (f32)(sign * w.si);
        }
    }
}

V_INLINE void rope_block(const struct heads *h, i64 block, const enum dtype t)
{
    i64 p = block * h->each, end = MIN(p + h->each, h->positions), half = h->D / 2;
    for (; p < end; p++) {
        i64        turn = h->at ? p : p % h->T;
        const f32 *co = h->table + 2 * turn * half, *si = co + half;
        for (i64 head = 0; head < h->heads; head++) {
            const void *x = v_at(h->x, (p * h->all + head) * h->D, t);
            void       *y = v_at(h->y, (p * h->all + head) * h->D, t);
            for (i64 i = 0; i < half; i += V_LANES) {
                vm m = v_first(MIN(half - i, V_LANES));
                vf a = v_get(x, i, m, t), b = v_get(x, half + i, m, t);
                vf c = v_load_m(co + i, m), s = v_load_m(si + i, m);
                v_put(y, i, a * c - b * s, m, t);
                v_put(y, half + i, b * c + a * s, m, t);
            }
        }
        pass_through(h, h->x, p, t);
    }
}

BY_STORAGE(rope_block)

static i64 rope_turns(const struct call *c)
{
    struct shape s = c->in[0].type.shape;
    return c->in_count == 2 ? s.dim[0] * s.dim[1] : s.dim[1];
}

static i64 rope_work(const struct call *c)
{
    return rope_turns(c) * c->at->head_dim * (i64)sizeof(f32);
}

static void rope(const struct call *c)
{
    struct heads h = heads_of(c, &c->in[0]);
    h.table        = c->work;
    h.turns        = rope_turns(c);
    h.at           = c->in_count == 2 ? c->in[1].data : NULL;
    pool_run(c->pool, fast_div_up(h.turns, TURN), table_block, &h);
    heads_run(c, &h, rope_block_by);
}

/* ---- qknorm */

V_INLINE void qknorm_block(const struct heads *h, i64 block, const enum dtype t)
{
    i64 p = block * h->each, end = MIN(p + h->each, h->positions);
    for (; p < end; p++) {
        for (i64 head = 0; head < h->heads; head++) {
            const void *x    = v_at(h->x, (p * h->all + head) * h->D, t);
            void       *y    = v_at(h->y, (p * h->all + head) * h->D, t);
            f64         mean = (f64)row_sum_squares(x, h->D, 0, t) / (f64)h->D;
            f32         rstd = (f32)(1 / sqrt(mean + h->eps));
            for (i64 i = 0; i < h->D; i += V_LANES) {
                vm m = v_first(MIN(h->D - i, V_LANES));
                v_put(y, i, v_get(x, i, m, t) * v_set(rstd), m, t);
            }
            h->rstd[p * h->heads + head] = rstd;
        }
        pass_through(h, h->x, p, t);
    }
}

/* dx = rstd (dy - xhat mean(dy xhat)), xhat = x rstd */
V_INLINE void qknorm_grad_block(const struct heads *h, i64 block, const enum dtype t)
{
    i64 p = block * h->each, end = MIN(p + h->each, h->positions);
    for (; p < end; p++) {
        for (i64 head = 0; head < h->heads; head++) {
            i64         at = (p * h->all + head) * h->D;
            const void *x = v_at(h->x, at, t), *dy = v_at(h->dy, at, t);
            void       *dx    = v_at(h->y, at, t);
            f32         rstd  = h->rstd[p * h->heads + head];
            vf          scale = v_set(rstd);
            vf          mean  = v_set(row_dot(dy, x, h->D, t) * rstd * rstd / (f32)h->D);
            for (i64 i = 0; i < h->D; i += V_LANES) {
                vm m = v_first(MIN(h->D - i, V_LANES));
                v_put(dx, i, scale * (v_get(dy, i, m, t) - v_get(x, i, m, t) * mean), m, t);
            }
        }
        pass_through(h, h->dy, p, t);
    }
}

BY_STORAGE(qknorm_block)
BY_STORAGE(qknorm_grad_block)

static void qknorm(const struct call *c)
{
    struct heads h = heads_of(c, &c->in[0]);
    h.rstd         = c->out[1].data;
    heads_run(c, &h, qknorm_block_by);
}

static void qknorm_grad(const struct call *c)
{
    struct heads h = heads_of(c, &c->in[1]);
    h.dy           = c->in[0].data;
    h.rstd         = c->in[2].data;
    heads_run(c, &h, qknorm_grad_block_by);
}

const struct kernel ISA_FN(kernels_heads)[] = {
    { OP_ROPE, "heads_" ISA_NAME, ISA_HERE, stored, rope, rope_work },
    { OP_QKNORM, "heads_" ISA_NAME, ISA_HERE, stored, qknorm, NULL },
    { OP_QKNORM_GRAD, "heads_" ISA_NAME, ISA_HERE, stored, qknorm_grad, NULL },
};
const i32 ISA_COUNT(kernels_heads) = (i32)COUNT_OF(ISA_FN(kernels_heads));
