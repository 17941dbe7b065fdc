/* conv.c - the three convolution ops as struct conv. */
#include "backend/cpu/fast/conv.h"

bool conv_is_f32(const struct call *c)
{
    for (i32 i = 0; i < c->in_count; i++)
        if (c->in[i].type.dtype != DT_F32) return false;
    return c->out[0].type.dtype == DT_F32;
}

/* x: the image, y: what the forward pass makes of it. */
static struct conv whole(const struct call *c, const struct tensor *x, const struct tensor *y,
                         struct shape w)
{
    const i64 *in = x->type.shape.dim, *out = y->type.shape.dim;
    return (struct conv){
        .in       = x->data,
        .out      = y->data,
        .count    = in[0],
        .in_h     = in[1],
        .in_w     = in[2],
        .in_c     = in[3],
        .out_h    = out[1],
        .out_w    = out[2],
        .out_c    = out[3],
        .rows     = out[1],
        .cols     = out[2],
        .taps_y   = w.dim[1],
        .taps_x   = w.dim[2],
        .step     = c->at->stride,
        .pad_y    = c->at->pad,
        .pad_x    = c->at->pad,
        .out_step = 1,
        .weight_o = w.dim[1] * w.dim[2] * w.dim[3],
        .weight_y = w.dim[2] * w.dim[3],
        .weight_x = w.dim[3],
        .weight_c = 1,
    };
}

struct conv conv_forward(const struct call *c)
{
    struct conv v = whole(c, &c->in[0], &c->out[0], c->in[1].type.shape);
    v.weight      = c->in[1].data;
    v.bias        = c->in_count == 3 ? c->in[2].data : NULL;
    return v;
}

struct conv conv_weights(const struct call *c)
{
    return whole(c, &c->in[1], &c->in[0], c->out[0].type.shape);
}

/* Along one axis, x[s*q + phase] meets the taps k = first + s*j with first = (phase + pad) mod s, and
 * the results dy[(phase + pad) / s + q - j]. Counting j from its end gives the form of conv.h. */
struct axis {
    i64 first, taps, pad, grid;
};

static struct axis axis_of(i64 size, i64 kernel, i64 stride, i64 pad, i64 phase)
{
    i64 first = (phase + pad) % stride;
    i64 taps  = first < kernel ? (kernel - first - 1) / stride + 1 : 0;
    return (struct axis){ first, taps, taps - 1 - (phase + pad) / stride,
                          phase < size ? (size - phase - 1) / stride + 1 : 0 };
}

struct conv conv_backward(const struct call *c, i64 phase_y, i64 phase_x)
{
    i64          s = c->at->stride, pad = c->at->pad;
    struct shape w = c->in[1].type.shape, dx = c->out[0].type.shape, dy = c->in[0].type.shape;
    struct axis  a = axis_of(dx.dim[1], w.dim[1], s, pad, phase_y);
    struct axis  b = axis_of(dx.dim[2], w.dim[2], s, pad, phase_x);
    i64          y = w.dim[2] * w.dim[3], x = w.dim[3]; /* strides of the weight's taps */
    i64          last = (a.first + s * (a.taps - 1)) * y + (b.first + s * (b.taps - 1)) * x;
    bool         any  = a.taps > 0 && b.taps > 0;
    return (struct conv){
        .in           = c->in[0].data,
        .weight       = c->in[1].data,
        .out          = c->out[0].data,
        .count        = dy.dim[0],
        .in_h         = dy.dim[1],
        .in_w         = dy.dim[2],
        .in_c         = dy.dim[3],
        .out_h        = dx.dim[1],
        .out_w        = dx.dim[2],
        .out_c        = dx.dim[3],
        .rows         = a.grid,
        .cols         = b.grid,
        .taps_y       = any ? a.taps : 0,
        .taps_x       = any ? b.taps : 0,
        .step         = 1,
        .pad_y        = a.pad,
        .pad_x        = b.pad,
        .out_step     = s,
        .out_y        = phase_y,
        .out_x        = phase_x,
        .weight_first = last,
        .weight_o     = 1,
        .weight_y     = -s * y,
        .weight_x     = -s * x,
        .weight_c     = w.dim[1] * y,
    };
}
