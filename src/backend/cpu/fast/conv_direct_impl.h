/* conv_direct_impl.h - convolution of any shape without unfolding the image.
 *
 * Out-channels lie in the lanes of vectors; a tile of neighbouring results of one row stays in
 * registers while we run over the taps. Because images are NHWC, the taps of one kernel row and
 * all their channels are one contiguous run of K = taps_x * in_c floats of the image, whatever the
 * stride; so the whole convolution is taps_y runs of
 *
 *     result[p] += x[p*S + k] * w[k]      k < K, S = step * in_c, w[k] a vector
 *
 * Weights are packed as [block of V_LANES out-channels][taps_y][K][V_LANES], zeros after the last
 * channel. A block of work is a few rows and columns of results of one image: the pixels it reads are
 * copied, with the padding as zeros, into a buffer that stays in the nearest cache; where none is
 * padding they are read in place.
 *
 * The gradient by the weights is the transpose: vectors are dy, and a tile of neighbouring k stays
 * in registers while we run over the pixels. Each of a fixed number of parts sums its share of the
 * rows in its own copy of dw, and the copies are added in order. */
#include "backend/cpu/fast/conv.h"
#include "backend/cpu/fast/conv_tile.h"

enum {
    NEAR_FLOATS   = 6 * 1024, /* of the image that we like to hold: 24 KiB of 32 of a first cache */
    BUFFER_FLOATS = 64 * 1024,   /* that we can hold, on the stack */
    GROUP         = 2 * V_LANES, /* out-channels in one sweep over the image */
    BLOCKS_MIN    = 16, /* into which dw's work is cut: enough to share out, few copies to add */
};

struct window { /* a part of an image, padded if need be */
    const f32 *at;
    i64        row, pixel; /* floats from one to the next */
};

/* How results are grouped into blocks of work: by shape only. */
struct cut {
    i64 rows, cols;             /* of results, in one block at most */
    i64 row_blocks, col_blocks; /* of one image */
    i64 blocks;                 /* of all images */
};

/* Of the image, or of dy, that so many results need. */
static i64 buffer_floats(const struct conv *v, i64 rows, i64 cols)
{
    i64 high = (rows - 1) * v->step + v->taps_y, wide = (cols - 1) * v->step + v->taps_x;
    return MAX(high * wide * v->in_c, rows * cols * GROUP);
}

static struct cut cut_of(const struct conv *v)
{
    struct cut t = { .rows = v->rows, .cols = v->cols };
    while (t.rows > 1 && buffer_floats(v, t.rows, t.cols) > NEAR_FLOATS) t.rows = div_up(t.rows, 2);
    while (t.cols > 1 && buffer_floats(v, t.rows, t.cols) > BUFFER_FLOATS)
        t.cols = div_up(t.cols, 2);
    t.row_blocks = div_up(v->rows, t.rows);
    t.col_blocks = div_up(v->cols, t.cols);
    t.blocks     = v->count * t.row_blocks * t.col_blocks;
    return t;
}

struct place { /* of one block of results */
    i64 image, y, x, rows, cols;
};

static struct place place_of(const struct conv *v, const struct cut *t, i64 block)
{
    struct place p;
    p.image = block / (t->row_blocks * t->col_blocks);
    p.y     = block / t->col_blocks % t->row_blocks * t->rows;
    p.x     = block % t->col_blocks * t->cols;
    p.rows  = MIN(t->rows, v->rows - p.y);
    p.cols  = MIN(t->cols, v->cols - p.x);
    return p;
}

static struct window window_of(const struct conv *v, const struct place *p, f32 *buffer)
{
    const f32 *image = v->in + p->image * v->in_h * v->in_w * v->in_c;
    i64        top = p->y * v->step - v->pad_y, high = (p->rows - 1) * v->step + v->taps_y;
    i64        left = p->x * v->step - v->pad_x, wide = (p->cols - 1) * v->step + v->taps_x;
    if (top >= 0 && left >= 0 && top + high <= v->in_h && left + wide <= v->in_w)
        return (struct window){ image + (top * v->in_w + left) * v->in_c, v->in_w * v->in_c,
                                v->in_c };

    i64  first = MIN(MAX(-left, 0), wide);              /* columns before the image */
    i64  last  = MAX(MIN(v->in_w - left, wide), first); /* and up to its end */
    f32 *to    = buffer;
    for (i64 y = top; y < top + high; y++, to += wide * v->in_c) {
        bool inside = y >= 0 && y < v->in_h;
        i64  a = inside ? first * v->in_c : wide * v->in_c, b = inside ? last * v->in_c : a;
        memset(to, 0, (size_t)a * sizeof *to);
        if (b > a)
            memcpy(to + a, image + (y * v->in_w + left + first) * v->in_c,
                   (size_t)(b - a) * sizeof *to);
        memset(to + b, 0, (size_t)(wide * v->in_c - b) * sizeof *to);
    }
    return (struct window){ buffer, wide * v->in_c, v->in_c };
}

/* ---- results ---- */

struct direct {
    struct conv conv;
    struct cut  cut;
    f32        *packed;
};

static void direct_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    _Alignas(64) f32     buffer[BUFFER_FLOATS];
    const struct direct *d   = context;
    const struct conv   *v   = &d->conv;
    struct place         p   = place_of(v, &d->cut, block);
    i64                  run = v->taps_x * v->in_c, w_block = v->taps_y * run * V_LANES;
    struct window        in = { 0 };
    if (run) in = window_of(v, &p, buffer);
    for (i64 o = 0, vectors; o < v->out_c; o += vectors * V_LANES) {
        vectors  = MIN(2, lane_blocks(v->out_c - o));
        i64 size = dots_size(p.cols, vectors);
        for (i64 y = 0; y < p.rows; y++) {
            i64 out_y = (p.y + y) * v->out_step + v->out_y, out_x = p.x * v->out_step + v->out_x;
            struct dots t = {
                .x      = in.at + y * v->step * in.row,
                .w      = d->packed + o / V_LANES * w_block,
                .bias   = v->bias ? v->bias + o : NULL,
                .out    = v->out + ((p.image * v->out_h + out_y) * v->out_w + out_x) * v->out_c + o,
                .rows   = v->taps_y,
                .run    = run,
                .x_row  = in.row,
                .x_step = v->step * in.pixel,
                .w_block  = w_block,
                .out_step = v->out_step * v->out_c,
                .lanes    = MIN(v->out_c - o, vectors * V_LANES) - (vectors - 1) * V_LANES,
            };
            dots_run(t, p.cols, size, vectors);
        }
    }
}

/* One row of taps of one block of out-channels. */
static void pack_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct direct *d = context;
    const struct conv   *v = &d->conv;
    i64                  o = block / v->taps_y * V_LANES, y = block % v->taps_y;
    const f32           *from = v->weight + v->weight_first + o * v->weight_o + y * v->weight_y;
    f32                 *to   = d->packed + block * v->taps_x * v->in_c * V_LANES;
    i64                  full = MIN(V_LANES, v->out_c - o);
    for (i64 x = 0; x < v->taps_x; x++)
        for (i64 c = 0; c < v->in_c; c++, to += V_LANES)
            for (i64 i = 0; i < V_LANES; i++)
                to[i] = i < full ? from[i * v->weight_o + x * v->weight_x + c * v->weight_c] : 0;
}

static void direct_run(const struct call *c, const struct conv *v)
{
    struct direct d = { *v, cut_of(v), c->work };
    pool_run(c->pool, lane_blocks(v->out_c) * v->taps_y, pack_block, &d);
    pool_run(c->pool, d.cut.blocks, direct_block, &d);
}

static bool fits(const struct conv *v) { return buffer_floats(v, 1, 1) <= BUFFER_FLOATS; }

static i64 packed_bytes(const struct conv *v)
{
    return lane_blocks(v->out_c) * V_LANES * v->taps_y * v->taps_x * v->in_c * (i64)sizeof(f32);
}

static bool forward_takes(const struct call *c)
{
    struct conv v = conv_forward(c);
    return conv_is_f32(c) && fits(&v);
}

static i64 forward_work(const struct call *c)
{
    struct conv v = conv_forward(c);
    return packed_bytes(&v);
}

static void forward(const struct call *c)
{
    struct conv v = conv_forward(c);
    direct_run(c, &v);
}

/* ---- gradient by the image ---- */

static bool grad_x_takes(const struct call *c)
{
    struct conv v = conv_backward(c, 0, 0);
    v.taps_y      = c->in[1].type.shape.dim[1]; /* no phase has more */
    v.taps_x      = c->in[1].type.shape.dim[2];
    return conv_is_f32(c) && fits(&v);
}

static i64 grad_x_work(const struct call *c)
{
    i64 most = 0;
    for (i64 y = 0; y < c->at->stride; y++)
        for (i64 x = 0; x < c->at->stride; x++) {
            struct conv v = conv_backward(c, y, x);
            most          = MAX(most, packed_bytes(&v));
        }
    return most;
}

static void grad_x(const struct call *c)
{
    for (i64 y = 0; y < c->at->stride; y++)
        for (i64 x = 0; x < c->at->stride; x++) {
            struct conv v = conv_backward(c, y, x);
            if (v.rows > 0 && v.cols > 0) direct_run(c, &v);
        }
}

/* ---- gradient by the weights ---- */

/* A block of work is one part of the results and one or two vectors of out-channels. */
struct weights {
    struct conv conv;
    struct cut  cut;
    i64         groups; /* of out-channels: pairs of vectors */
    i64         parts, part_floats;
    f32        *sums; /* [parts][vector of out-channels][taps_y][K][V_LANES] */
    f32        *dw;
};

/* The vectors of dy of one block of results; where the channels do not fill the last one, a copy
 * with zeros. */
static struct window dy_of(const struct conv *v, const struct place *p, i64 o, f32 *buffer)
{
    i64        row = v->out_w * v->out_c, full = MIN(GROUP, v->out_c - o);
    const f32 *dy = v->out + (p->image * v->out_h + p->y) * row + p->x * v->out_c + o;
    if (full % V_LANES == 0) return (struct window){ dy, row, v->out_c };
    for (i64 y = 0; y < p->rows; y++)
        for (i64 x = 0; x < p->cols; x++) {
            f32 *to = buffer + (y * p->cols + x) * GROUP;
            memcpy(to, dy + y * row + x * v->out_c, (size_t)full * sizeof *to);
            memset(to + full, 0, (size_t)(GROUP - full) * sizeof *to);
        }
    return (struct window){ buffer, p->cols * GROUP, GROUP };
}

/* Adds one block of results to the sums of one group of channels. */
static void weights_add(const struct weights *g, i64 block, i64 group, f32 *sums, f32 *x_buffer,
                        f32 *dy_buffer)
{
    const struct conv *v  = &g->conv;
    struct place       p  = place_of(v, &g->cut, block);
    struct window      in = window_of(v, &p, x_buffer), dy = dy_of(v, &p, group * GROUP, dy_buffer);
    i64 run = v->taps_x * v->in_c, vectors = MIN(2, lane_blocks(v->out_c - group * GROUP));
    for (i64 y = 0; y < v->taps_y; y++) {
        struct outers t = {
            .x         = in.at + y * in.row,
            .dy        = dy.at,
            .sum       = sums + y * run * V_LANES,
            .rows      = p.rows,
            .cols      = p.cols,
            .x_row     = v->step * in.row,
            .x_step    = v->step * in.pixel,
            .dy_row    = dy.row,
            .dy_step   = dy.pixel,
            .sum_block = v->taps_y * run * V_LANES,
        };
        outers_run(t, run, outers_size(run, vectors), vectors);
    }
}

static void weights_part(void *context, i64 block, i32 worker)
{
    (void)worker;
    _Alignas(64) f32      x_buffer[BUFFER_FLOATS], dy_buffer[BUFFER_FLOATS];
    const struct weights *g    = context;
    const struct conv    *v    = &g->conv;
    i64                   part = block / g->groups, group = block % g->groups;
    i64                   k    = v->taps_y * v->taps_x * v->in_c;
    f32                  *sums = g->sums + part * g->part_floats + group * GROUP * k;
    i64                   wide = MIN(GROUP, lane_blocks(v->out_c) * V_LANES - group * GROUP);
    memset(sums, 0, (size_t)(wide * k) * sizeof *sums);
    i64 end = (part + 1) * g->cut.blocks / g->parts;
    for (i64 b = part * g->cut.blocks / g->parts; b < end; b++)
        weights_add(g, b, group, sums, x_buffer, dy_buffer);
}

/* Adds the parts of one row of taps of one vector of channels, in order, and turns it to OHWI. */
static void weights_sum(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct weights *g   = context;
    const struct conv    *v   = &g->conv;
    i64                   run = v->taps_x * v->in_c, o = block / v->taps_y * V_LANES;
    i64                   full = MIN(V_LANES, v->out_c - o);
    f32                  *to   = g->dw + o * v->weight_o + block % v->taps_y * run;
    for (i64 k = 0; k < run; k++) {
        const f32 *from = g->sums + (block * run + k) * V_LANES;
        vf         sum  = v_load(from);
        for (i64 part = 1; part < g->parts; part++) sum += v_load(from + part * g->part_floats);
        f32 lanes[V_LANES];
        v_store(lanes, sum);
        for (i64 i = 0; i < full; i++) to[i * v->weight_o + k] = lanes[i];
    }
}

static struct weights weights_of(const struct call *c)
{
    struct weights g = { .conv = conv_weights(c), .sums = c->work, .dw = c->out[0].data };
    g.cut            = cut_of(&g.conv);
    g.groups         = div_up(g.conv.out_c, GROUP);
    g.parts          = MIN(g.cut.blocks, MAX(1, BLOCKS_MIN / g.groups));
    g.part_floats    = packed_bytes(&g.conv) / (i64)sizeof(f32);
    return g;
}

static bool grad_w_takes(const struct call *c)
{
    struct conv v = conv_weights(c);
    return conv_is_f32(c) && fits(&v);
}

static i64 grad_w_work(const struct call *c)
{
    struct weights g = weights_of(c);
    return g.parts * g.part_floats * (i64)sizeof(f32);
}

static void grad_w(const struct call *c)
{
    struct weights g = weights_of(c);
    pool_run(c->pool, g.parts * g.groups, weights_part, &g);
    pool_run(c->pool, lane_blocks(g.conv.out_c) * g.conv.taps_y, weights_sum, &g);
}

const struct kernel ISA_FN(kernels_conv_direct)[] = {
    { OP_CONV2D, "direct_" ISA_NAME, ISA_HERE, forward_takes, forward, forward_work },
    { OP_CONV2D_GRAD_X, "direct_" ISA_NAME, ISA_HERE, grad_x_takes, grad_x, grad_x_work },
    { OP_CONV2D_GRAD_W, "direct_" ISA_NAME, ISA_HERE, grad_w_takes, grad_w, grad_w_work },
};
const i32 ISA_COUNT(kernels_conv_direct) = (i32)COUNT_OF(ISA_FN(kernels_conv_direct));
