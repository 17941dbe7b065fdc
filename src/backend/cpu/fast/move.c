/* move.c - values change their place or are repeated: whole runs are copied, so one source serves
 * every processor and every type. Around an axis (or several neighbours) a tensor is
 * [outer, middle, inner], where inner and all distances are in bytes. */
#include "backend/cpu/fast/fast.h"
#include <string.h>

enum { COPY_BYTES = 128 * 1024 }; /* in a block */

struct around {
    i64 outer, middle, inner; /* inner: bytes */
};

static struct around around_axis(const struct tensor *t, i64 axis)
{
    struct shape s = t->type.shape;
    i32          i = (i32)axis;
    return (struct around){ shape_span(s, 0, i), s.dim[i],
                            shape_span(s, i + 1, s.rank) * dtype_bytes(t->type.dtype) };
}

static void copy(u8 *to, const u8 *from, i64 bytes) { memcpy(to, from, (size_t)bytes); }

static bool takes(const struct call *c) /* any type, if only one */
{
    for (i32 i = 0; i < c->in_count; i++)
        if (c->in[i].type.dtype != c->out[0].type.dtype) return false;
    return true;
}

/* ---- concat, slice, slice_grad: rows of one width become parts of rows of another */

struct strips {
    const u8 *from;
    u8       *to;
    i64       rows, width;      /* of a strip */
    i64       from_row, to_row; /* distance from strip to strip */
    i64       start;            /* slice_grad: zeros before the strip */
    i64       rows_in_block;
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
    s.rows_in_block = fast_items(s.rows, s.width, COPY_BYTES);
    pool_run(c->pool, fast_div_up(s.rows, s.rows_in_block), strips_block, &s);
}

static void concat(const struct call *c)
{
    struct around whole = around_axis(&c->out[0], c->at->axis);
    u8           *to    = c->out[0].data;
    for (i32 i = 0; i < c->in_count; i++) {
        struct around part  = around_axis(&c->in[i], c->at->axis);
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
    struct around whole = around_axis(&c->in[0], c->at->axis);
    struct around part  = around_axis(&c->out[0], c->at->axis);
    i64           width = part.middle * part.inner;
    const u8     *from  = (const u8 *)c->in[0].data + c->at->start * whole.inner;
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
        u8 *to   = s->to + row * s->to_row;
        i64 rest = s->to_row - s->start - s->width;
        memset(to, 0, (size_t)s->start);
        copy(to + s->start, s->from + row * s->from_row, s->width);
        memset(to + s->start + s->width, 0, (size_t)rest);
    }
}

static void slice_grad(const struct call *c)
{
    struct around whole = around_axis(&c->out[0], c->at->axis);
    struct strips s     = { .from = c->in[0].data, .to = c->out[0].data, .rows = whole.outer };
    s.width = s.from_row = type_bytes(c->in[0].type) / MAX(1, whole.outer);
    s.start              = c->at->start * whole.inner;
    s.to_row             = whole.middle * whole.inner;
    s.rows_in_block      = fast_items(s.rows, s.to_row, COPY_BYTES);
    pool_run(c->pool, fast_div_up(s.rows, s.rows_in_block), slice_grad_block, &s);
}

/* ---- broadcast: [outer, inner] -> [outer, middle, inner] */

struct repeat {
    const u8 *from;
    u8       *to;
    i64       bytes, middle, inner, element; /* bytes but for middle */
};

/* to[0 .. bytes) = one element again and again: copies of all that is there already. */
static void repeat(u8 *to, const u8 *from, i64 bytes, i64 element)
{
    copy(to, from, element);
    for (i64 done = element; done < bytes; done *= 2) copy(to + done, to, MIN(done, bytes - done));
}

static void broadcast_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct repeat *r = context;
    i64                  i = block * COPY_BYTES, end = MIN(i + COPY_BYTES, r->bytes), run;
    for (; i < end; i += run) {
        i64       outer = i / (r->middle * r->inner), at = i % r->inner;
        const u8 *from = r->from + outer * r->inner + at;
        if (r->inner > r->element) {
            run = MIN(r->inner - at, end - i);
            copy(r->to + i, from, run);
        } else {
            run = MIN((outer + 1) * r->middle * r->inner, end) - i;
            repeat(r->to + i, from, run, r->element);
        }
    }
}

static void broadcast(const struct call *c)
{
    struct shape  x       = c->in[0].type.shape;
    i64           element = dtype_bytes(c->in[0].type.dtype);
    struct repeat r       = { .from    = c->in[0].data,
                              .to      = c->out[0].data,
                              .bytes   = type_bytes(c->out[0].type),
                              .middle  = shape_count(c->at->dims),
                              .inner   = shape_span(x, (i32)c->at->axis, x.rank) * element,
                              .element = element };
    pool_run(c->pool, fast_div_up(r.bytes, COPY_BYTES), broadcast_block, &r);
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
    const u8   *from;
    u8         *to;
    i64         element; /* its bytes */
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
    t.element      = dtype_bytes(c->in[0].type.dtype);
    for (i32 i = 0; i < y.rank; i++) {
        i32         was = (i32)c->at->dims.dim[i];
        struct axis a   = { y.dim[i], shape_span(x, was + 1, x.rank) * t.element,
                            shape_span(y, i + 1, y.rank) * t.element };
        if (i == y.rank - 1) t.near = a;
        else if (was == x.rank - 1) t.far = a;
        else t.other[t.others++] = a;
    }
    for (i32 i = 0; i < t.others; i++) t.blocks *= t.other[i].size;
    t.squares = fast_div_up(t.far.size, SQUARE);
    t.blocks *= t.squares;
    return t;
}

/* Squares along near. `element` is a constant at each call. */
static inline __attribute__((always_inline)) void turn_squares(const struct turn *t, const u8 *from,
                                                               u8 *to, i64 far, const i64 element)
{
    i64 far_end = MIN(far + SQUARE, t->far.size), far_to = t->far.to, near_from = t->near.from;
    i64 near_count = t->near.size;
    for (i64 near = 0; near < near_count; near += SQUARE) {
        i64 near_end = MIN(near + SQUARE, near_count);
        for (i64 f = far; f < far_end; f++)
            for (i64 n = near; n < near_end; n++)
                memcpy(to + f * far_to + n * element, from + f * element + n * near_from,
                       (size_t)element);
    }
}

static void turn_block(const struct turn *t, i64 block)
{
    i64       far  = block % t->squares * SQUARE;
    const u8 *from = t->from;
    u8       *to   = t->to;
    block /= t->squares;
    for (i32 i = t->others - 1; i >= 0; i--) {
        from += block % t->other[i].size * t->other[i].from;
        to += block % t->other[i].size * t->other[i].to;
        block /= t->other[i].size;
    }
    switch (t->element) {
    case 1: turn_squares(t, from, to, far, 1); break;
    case 2: turn_squares(t, from, to, far, 2); break;
    case 4: turn_squares(t, from, to, far, 4); break;
    case 8: turn_squares(t, from, to, far, 8); break;
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
    i64          bytes = MIN(t.turn.far.size, SQUARE) * t.turn.near.size * t.turn.element;
    t.each             = fast_items(t.turn.blocks, bytes, COPY_BYTES);
    pool_run(c->pool, fast_div_up(t.turn.blocks, t.each), turns_block, &t);
}

/* ---- embedding: a row of the table for each id */

enum { LOOKUP_AHEAD = 32 }; /* rows asked for before their turn: a large table is in no cache */

struct lookup {
    const u8  *table;
    const i32 *ids;
    u8        *to;
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
    l.width         = c->in[0].type.shape.dim[1] * dtype_bytes(c->in[0].type.dtype);
    l.ids_in_block  = fast_items(l.count, l.width, COPY_BYTES);
    pool_run(c->pool, fast_div_up(l.count, l.ids_in_block), embedding_block, &l);
}

const struct kernel kernels_move[] = {
    { OP_CONCAT, "move", ISA_ANY, takes, concat, NULL },
    { OP_SLICE, "move", ISA_ANY, takes, slice, NULL },
    { OP_SLICE_GRAD, "move", ISA_ANY, takes, slice_grad, NULL },
    { OP_BROADCAST, "move", ISA_ANY, takes, broadcast, NULL },
    { OP_TRANSPOSE, "move", ISA_ANY, takes, transpose, NULL },
    { OP_EMBEDDING, "move", ISA_ANY, NULL, embedding, NULL },
};
const i32 kernels_move_count = (i32)COUNT_OF(kernels_move);
