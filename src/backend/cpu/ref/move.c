/* move.c - values change their place, are repeated or added up along axes.
 *
 * Around an axis (or several neighbours) a tensor is [outer, middle, inner]. */
#include "backend/cpu/ref/ref_int.h"
#include <string.h>

struct around {
    i64 outer, middle, inner;
};

static struct around around_axes(struct shape s, i64 axis, i64 count)
{
    i32 from = (i32)axis, to = (i32)(axis + count);
    return (struct around){ shape_span(s, 0, from), shape_span(s, from, to),
                            shape_span(s, to, s.rank) };
}

void ref_RESHAPE(const struct call *c)
{
    memmove(c->out[0].data, c->in[0].data, (size_t)type_bytes(c->in[0].type));
}

void ref_TRANSPOSE(const struct call *c)
{
    struct shape x = c->in[0].type.shape, y = c->out[0].type.shape;
    for (i64 i = 0; i < c->out[0].count; i++) {
        i64 rest = i, from = 0;
        for (i32 axis = y.rank - 1; axis >= 0; axis--) {
            i32 x_axis = (i32)c->at->dims.dim[axis];
            from += rest % y.dim[axis] * shape_span(x, x_axis + 1, x.rank);
            rest /= y.dim[axis];
        }
        ref_store(&c->out[0], i, ref_load(&c->in[0], from));
    }
}

/* part is whole[.., start : start + size of part, ..] */
static i64 in_whole(struct around whole, struct around part, i64 start, i64 i)
{
    i64 outer = i / (part.middle * part.inner), rest = i % (part.middle * part.inner);
    return outer * whole.middle * whole.inner + start * whole.inner + rest;
}

void ref_CONCAT(const struct call *c)
{
    struct around whole = around_axes(c->out[0].type.shape, c->at->axis, 1);
    i64           start = 0;
    for (i32 k = 0; k < c->in_count; k++) {
        struct around part = around_axes(c->in[k].type.shape, c->at->axis, 1);
        for (i64 i = 0; i < c->in[k].count; i++)
            ref_store(&c->out[0], in_whole(whole, part, start, i), ref_load(&c->in[k], i));
        start += part.middle;
    }
}

void ref_SLICE(const struct call *c)
{
    struct around whole = around_axes(c->in[0].type.shape, c->at->axis, 1);
    struct around part  = around_axes(c->out[0].type.shape, c->at->axis, 1);
    for (i64 i = 0; i < c->out[0].count; i++) {
        f64 v = ref_load(&c->in[0], in_whole(whole, part, c->at->start, i));
        ref_store(&c->out[0], i, v);
    }
}

void ref_SLICE_GRAD(const struct call *c)
{
    struct around whole = around_axes(c->out[0].type.shape, c->at->axis, 1);
    struct around part  = around_axes(c->in[0].type.shape, c->at->axis, 1);
    for (i64 i = 0; i < c->out[0].count; i++) ref_store(&c->out[0], i, 0);
    for (i64 i = 0; i < c->in[0].count; i++) {
        i64 to = in_whole(whole, part, c->at->start, i);
        ref_store(&c->out[0], to, ref_load(&c->in[0], i));
    }
}

void ref_SUM(const struct call *c)
{
    struct around x = around_axes(c->in[0].type.shape, c->at->axis, c->at->count);
    for (i64 i = 0; i < x.outer * x.inner; i++) {
        i64 first = i / x.inner * x.middle * x.inner + i % x.inner;
        f64 sum   = 0;
        for (i64 k = 0; k < x.middle; k++) sum += ref_load(&c->in[0], first + k * x.inner);
        ref_store(&c->out[0], i, sum);
    }
}

void ref_BROADCAST(const struct call *c)
{
    i64 middle = shape_count(c->at->dims);
    i64 inner  = shape_span(c->in[0].type.shape, (i32)c->at->axis, c->in[0].type.shape.rank);
    for (i64 i = 0; i < c->out[0].count; i++) {
        i64 from = i / (middle * inner) * inner + i % inner;
        ref_store(&c->out[0], i, ref_load(&c->in[0], from));
    }
}
