/* move.c - values change their place or are repeated: whole runs are copied, so one source serves
 * every processor. Around an axis (or several neighbours) a tensor is [outer, middle, inner]. */
#include "backend/cpu/fast/fast.h"
#include <string.h>

enum { COPY_ITEMS = 32 * 1024 }; /* floats in a block */

struct around {
    i64 outer, middle, inner;
};

static struct around around_axes(struct shape s, i64 axis, i64 count)
{
    i32 from = (i32)axis, to = (i32)(axis + count);
    return (struct around){ shape_span(s, 0, from), shape_span(s, from, to),
                            shape_span(s, to, s.rank) };
}

static void copy(f32 *to, const f32 *from, i64 count)
{
    memcpy(to, from, (size_t)count * sizeof *to);
}

/* ---- concat, slice, slice_grad: rows of one width become parts of rows of another */

struct strips {
    const f32 *from;
    f32       *to;
    i64        rows, width;      /* of a strip */
    i64        from_row, to_row; /* distance from strip to strip */
    i64        start;            /* slice_grad: zeros before the strip */
    i64        rows_in_block;
};

static void strips_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct strips *s   = context;
    i64                  row = block * s->rows_in_block, end = MIN(row + s->rows_in_block, s->rows);
    for (; row < end; row++) copy(s->to + row * s->to_row, s->from + row * s->from_row, s->width);
}

static void strips_run(const struct call *c, struct strips s)
{
    s.rows_in_block = fast_items(s.rows, s.width, COPY_ITEMS);
    pool_run(c->pool, fast_div_up(s.rows, s.rows_in_block), strips_block, &s);
}

static void concat(const struct call *c)
{
    struct around whole = around_axes(c->out[0].type.shape, c->at->axis, 1);
    f32          *to    = c->out[0].data;
    for (i32 i = 0; i < c->in_count; i++) {
        struct around part  = around_axes(c->in[i].type.shape, c->at->axis, 1);
        i64           width = part.middle * part.inner;
        strips_run(c, (struct strips){ .from     = c->in[i].data,
                                       .to       = to,
                                       .rows     = whole.outer,
                                       .width    = width,
                                       .from_row = width,
                                       .to_row   = whole.middle * whole.inner });
        to += width;
    }
}

static void slice(const struct call *c)
{
    struct around whole = around_axes(c->in[0].type.shape, c->at->axis, 1);
    struct around part  = around_axes(c->out[0].type.shape, c->at->axis, 1);
    i64           width = part.middle * part.inner;
    const f32    *from  = (const f32 *)c->in[0].data + c->at->start * whole.inner;
    strips_run(c, (struct strips){ .from     = from,
                                   .to       = c->out[0].data,
                                   .rows     = whole.outer,
                                   .width    = width,
                                   .from_row = whole.middle * whole.inner,
                                   .to_row   = width });
}

/* Rows of the whole: zeros, the part, zeros. */
static void slice_grad_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct strips *s   = context;
    i64                  row = block * s->rows_in_block, end = MIN(row + s->rows_in_block, s->rows);
    for (; row < end; row++) {
        f32 *to   = s->to + row * s->to_row;
        i64  rest = s->to_row - s->start - s->width;
        memset(to, 0, (size_t)s->start * sizeof *to);
        copy(to + s->start, s->from + row * s->from_row, s->width);
        memset(to + s->start + s->width, 0, (size_t)rest * sizeof *to);
    }
}

static void slice_grad(const struct call *c)
{
    struct around whole = around_axes(c->out[0].type.shape, c->at->axis, 1);
    struct strips s     = { .from = c->in[0].data, .to = c->out[0].data, .rows = whole.outer };
    s.width = s.from_row = c->in[0].count / MAX(1, whole.outer);
    s.start              = c->at->start * whole.inner;
    s.to_row             = whole.middle * whole.inner;
    s.rows_in_block      = fast_items(s.rows, s.to_row, COPY_ITEMS);
    pool_run(c->pool, fast_div_up(s.rows, s.rows_in_block), slice_grad_block, &s);
}

/* ---- broadcast: [outer, inner] -> [outer, middle, inner] */

struct repeat {
    const f32 *from;
    f32       *to;
    i64        count, middle, inner;
};

static void broadcast_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct repeat *r = context;
    i64                  i = block * COPY_ITEMS, end = MIN(i + COPY_ITEMS, r->count), run;
    for (; i < end; i += run) {
        i64        outer = i / (r->middle * r->inner), at = i % r->inner;
        const f32 *from = r->from + outer * r->inner + at;
        if (r->inner > 1) {
            run = MIN(r->inner - at, end - i);
            copy(r->to + i, from, run);
        } else {
            run = MIN((outer + 1) * r->middle, end) - i;
            for (i64 k = 0; k < run; k++) r->to[i + k] = *from;
        }
    }
}

static void broadcast(const struct call *c)
{
    struct shape  x = c->in[0].type.shape;
    struct repeat r = { c->in[0].data, c->out[0].data, c->out[0].count, shape_count(c->at->dims),
                        shape_span(x, (i32)c->at->axis, x.rank) };
    pool_run(c->pool, fast_div_up(r.count, COPY_ITEMS), broadcast_block, &r);
}

/* ---- transpose: any order of axes.
 *
 * Two axes matter: `near` is the last of the result (neighbours in what we write), `far` the one
 * that was last (neighbours in what we read). Squares over both keep either side in the cache; the
 * other axes are walked outside. */

enum { SQUARE = 16 };

struct axis {
    i64 size, from, to; /* distance of neighbours in the operand and in the result */
};

struct turn {
    const f32  *from;
    f32        *to;
    struct axis near, far, other[RANK_MAX];
    i32         others;
    i64         squares; /* along far */
    i64         blocks;
};

static struct turn turn_of(const struct call *c)
{
    struct shape x = c->in[0].type.shape, y = c->out[0].type.shape;
    struct turn  t = { .from = c->in[0].data, .to = c->out[0].data, .blocks = 1 };
    t.near = t.far = (struct axis){ 1, 0, 0 };
    for (i32 i = 0; i < y.rank; i++) {
        i32         was = (i32)c->at->dims.dim[i];
        struct axis a = { y.dim[i], shape_span(x, was + 1, x.rank), shape_span(y, i + 1, y.rank) };
        if (i == y.rank - 1) t.near = a;
        else if (was == x.rank - 1) t.far = a;
        else t.other[t.others++] = a;
    }
    for (i32 i = 0; i < t.others; i++) t.blocks *= t.other[i].size;
    t.squares = fast_div_up(t.far.size, SQUARE);
    t.blocks *= t.squares;
    return t;
}

static void turn_block(const struct turn *t, i64 block)
{
    i64        far = block % t->squares * SQUARE, far_end = MIN(far + SQUARE, t->far.size);
    const f32 *from = t->from;
    f32       *to   = t->to;
    block /= t->squares;
    for (i32 i = t->others - 1; i >= 0; i--) {
        from += block % t->other[i].size * t->other[i].from;
        to += block % t->other[i].size * t->other[i].to;
        block /= t->other[i].size;
    }
    for (i64 near = 0; near < t->near.size; near += SQUARE) {
        i64 near_end = MIN(near + SQUARE, t->near.size);
        for (i64 f = far; f < far_end; f++)
            for (i64 n = near; n < near_end; n++)
                to[f * t->far.to + n * t->near.to] = from[f * t->far.from + n * t->near.from];
    }
}

struct turns {
    struct turn turn;
    i64         each; /* blocks of the turn in one of the pool's */
};

static void turns_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct turns *t = context;
    i64                 i = block * t->each, end = MIN(i + t->each, t->turn.blocks);
    for (; i < end; i++) turn_block(&t->turn, i);
}

static void transpose(const struct call *c)
{
    struct turns t     = { .turn = turn_of(c) };
    i64          items = MIN(t.turn.far.size, SQUARE) * t.turn.near.size;
    t.each             = fast_items(t.turn.blocks, items, COPY_ITEMS);
    pool_run(c->pool, fast_div_up(t.turn.blocks, t.each), turns_block, &t);
}

/* ---- embedding: a row of the table for each id */

enum { LOOKUP_AHEAD = 32 }; /* rows asked for before their turn: a large table is in no cache */

struct lookup {
    const f32 *table;
    const i32 *ids;
    f32       *to;
    i64        count, rows, width, ids_in_block;
};

static void embedding_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct lookup *l = context;
    i64                  i = block * l->ids_in_block, end = MIN(i + l->ids_in_block, l->count);
    for (; i < end; i++) {
        if (i + LOOKUP_AHEAD < end)
            __builtin_prefetch(l->table + l->ids[i + LOOKUP_AHEAD] * l->width);
        ASSERT(l->ids[i] >= 0 && l->ids[i] < l->rows);
        copy(l->to + i * l->width, l->table + l->ids[i] * l->width, l->width);
    }
}

static void embedding(const struct call *c)
{
    struct lookup l = { .table = c->in[0].data, .ids = c->in[1].data, .to = c->out[0].data };
    l.count         = c->in[1].count;
    l.rows          = c->in[0].type.shape.dim[0];
    l.width         = c->in[0].type.shape.dim[1];
    l.ids_in_block  = fast_items(l.count, l.width, COPY_ITEMS);
    pool_run(c->pool, fast_div_up(l.count, l.ids_in_block), embedding_block, &l);
}

static bool embedding_takes(const struct call *c) { return fast_ids_at(c, 1); }

const struct kernel kernels_move[] = {
    { OP_CONCAT, "move", ISA_ANY, fast_all_f32, concat, NULL },
    { OP_SLICE, "move", ISA_ANY, fast_all_f32, slice, NULL },
    { OP_SLICE_GRAD, "move", ISA_ANY, fast_all_f32, slice_grad, NULL },
    { OP_BROADCAST, "move", ISA_ANY, fast_all_f32, broadcast, NULL },
    { OP_TRANSPOSE, "move", ISA_ANY, fast_all_f32, transpose, NULL },
    { OP_EMBEDDING, "move", ISA_ANY, embedding_takes, embedding, NULL },
};
const i32 kernels_move_count = (i32)COUNT_OF(kernels_move);
