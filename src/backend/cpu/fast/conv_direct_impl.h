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
#include "backend/cpu/fast/simd.h"

enum {
    NEAR_FLOATS   = 6 * 1024, /* of the image that we like to hold: 24 KiB of 32 of a first cache */
    BUFFER_FLOATS = 64 * 1024, /* that we can hold, on the stack */
    PARTS_MAX     = 16,        /* copies of dw: enough to share out, cheap to add */
    /* Results in one tile with one and with two vectors of channels. */
    TILE_1 = V_REGISTERS == 32 ? 16 : 8,
    TILE_2 = V_REGISTERS == 32 ? 12 : 6,
};

/* A part of the image, padded if need be; results of row y begin at `at + y*step*pitch`. */
struct window {
    const f32 *at;
    i64        pitch; /* floats from one row to the next */
};

/* How results are grouped into blocks of work: by shape only. */
struct cut {
    i64 rows, cols;             /* of results, in one block at most */
    i64 row_blocks, col_blocks; /* of one image */
    i64 blocks;                 /* of all images */
};

static i64 div_up(i64 a, i64 b) { return (a + b - 1) / b; }
static i64 lane_blocks(i64 channels) { return div_up(channels, V_LANES); }

static i64 window_floats(const struct conv *v, i64 rows, i64 cols)
{
    return ((rows - 1) * v->step + v->taps_y) * ((cols - 1) * v->step + v->taps_x) * v->in_c;
}

static struct cut cut_of(const struct conv *v)
{
    struct cut t = { v->rows, v->cols, 0, 0, 0 };
    while (t.rows > 1 && window_floats(v, t.rows, t.cols) > NEAR_FLOATS) t.rows = div_up(t.rows, 2);
    while (t.cols > 1 && window_floats(v, t.rows, t.cols) > BUFFER_FLOATS)
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
        return (struct window){ image + (top * v->in_w + left) * v->in_c, v->in_w * v->in_c };

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
    return (struct window){ buffer, wide * v->in_c };
}

/* The next tile of `left` things, at most `most`, so that all tiles are about as large. */
static i64 tile_of(i64 left, i64 most) { return div_up(left, div_up(left, most)); }

/* The body of a switch over n in 1..most that runs call(n) with a constant in place of n. */
#define CASE(n, call)                                                                              \
    case n:                                                                                        \
        call(n);                                                                                   \
        break;
#define CASES_6(call)                                                                              \
    CASE(1, call) CASE(2, call) CASE(3, call) CASE(4, call) CASE(5, call) CASE(6, call)
#define CASES_8(call) CASES_6(call) CASE(7, call) CASE(8, call)
#define CASES_12(call) CASES_8(call) CASE(9, call) CASE(10, call) CASE(11, call) CASE(12, call)
#define CASES_16(call) CASES_12(call) CASE(13, call) CASE(14, call) CASE(15, call) CASE(16, call)
#if V_REGISTERS == 32
#define CASES_TILE_1 CASES_16
#define CASES_TILE_2 CASES_12
#else
#define CASES_TILE_1 CASES_8
#define CASES_TILE_2 CASES_6
#endif

/* ---- results ---- */

struct direct {
    struct conv conv;
    struct cut  cut;
    f32        *packed;
};

/* Everything one tile needs; the same for all tiles of a row but x and out. */
struct tile {
    const f32 *x, *w, *bias;
    f32       *out;
    i64        taps, run, pitch; /* kernel rows; K; from one row of x to the next */
    i64        x_step, w_block, out_step;
    i64        lanes; /* channels in the last vector */
};

V_INLINE void tile_run(const struct tile *t, const int count, const int vectors)
{
    vf sum[TILE_1][2];
#pragma GCC unroll 16
    for (int p = 0; p < count; p++)
        for (int v = 0; v < vectors; v++) {
            i64 n     = v == vectors - 1 ? t->lanes : V_LANES;
            sum[p][v] = t->bias ? v_load_n(t->bias + v * V_LANES, n) : v_zero();
        }
    const f32 *w = t->w;
    for (i64 y = 0; y < t->taps; y++) {
        const f32 *x = t->x + y * t->pitch;
        for (i64 k = 0; k < t->run; k++, w += V_LANES) {
            vf a = v_load(w), b = vectors == 2 ? v_load(w + t->w_block) : a;
#pragma GCC unroll 16
            for (int p = 0; p < count; p++) {
                vf s      = v_set(x[p * t->x_step + k]);
                sum[p][0] = v_fma(s, a, sum[p][0]);
                if (vectors == 2) sum[p][1] = v_fma(s, b, sum[p][1]);
            }
        }
    }
#pragma GCC unroll 16
    for (int p = 0; p < count; p++)
        for (int v = 0; v < vectors; v++) {
            f32 *to = t->out + p * t->out_step + v * V_LANES;
            if (v < vectors - 1 || t->lanes == V_LANES) v_store(to, sum[p][v]);
            else v_store_n(to, sum[p][v], t->lanes);
        }
}

static void tile_1(const struct tile *t, i64 count)
{
#define RUN(n) tile_run(t, n, 1)
    switch (count) {
        CASES_TILE_1(RUN)
    }
#undef RUN
}

static void tile_2(const struct tile *t, i64 count)
{
#define RUN(n) tile_run(t, n, 2)
    switch (count) {
        CASES_TILE_2(RUN)
    }
#undef RUN
}

/* One row of one block: all its results of one or two vectors of channels. */
static void row_run(struct tile t, i64 cols, i64 vectors)
{
    for (i64 x = 0, n; x < cols; x += n) {
        n = tile_of(cols - x, vectors == 2 ? TILE_2 : TILE_1);
        if (vectors == 2) tile_2(&t, n);
        else tile_1(&t, n);
        t.x += n * t.x_step;
        t.out += n * t.out_step;
    }
}

static void direct_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    _Alignas(64) f32     buffer[BUFFER_FLOATS];
    const struct direct *d   = context;
    const struct conv   *v   = &d->conv;
    struct place         p   = place_of(v, &d->cut, block);
    i64                  run = v->taps_x * v->in_c, w_block = v->taps_y * run * V_LANES;
    struct window        in = { NULL, 0 };
    if (run) in = window_of(v, &p, buffer);
    for (i64 o = 0, vectors; o < v->out_c; o += vectors * V_LANES) {
        vectors = MIN(2, lane_blocks(v->out_c - o));
        for (i64 y = 0; y < p.rows; y++) {
            i64 out_y = (p.y + y) * v->out_step + v->out_y, out_x = p.x * v->out_step + v->out_x;
            struct tile t = {
                .x      = in.at + y * v->step * in.pitch,
                .w      = d->packed + o / V_LANES * w_block,
                .bias   = v->bias ? v->bias + o : NULL,
                .out    = v->out + ((p.image * v->out_h + out_y) * v->out_w + out_x) * v->out_c + o,
                .taps   = v->taps_y,
                .run    = run,
                .pitch  = in.pitch,
                .x_step = v->step * v->in_c,
                .w_block  = w_block,
                .out_step = v->out_step * v->out_c,
                .lanes    = MIN(v->out_c - o, vectors * V_LANES) - (vectors - 1) * V_LANES,
            };
            row_run(t, p.cols, vectors);
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

static bool fits(const struct conv *v) { return window_floats(v, 1, 1) <= BUFFER_FLOATS; }

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

struct weights {
    struct conv conv;
    struct cut  cut;
    i64         parts, part_floats;
    f32        *sums; /* [parts][block of out-channels][taps_y][K][V_LANES] */
    f32        *dw;
};

static i64 parts_of(const struct cut *t) { return MIN(t->blocks, PARTS_MAX); }

/* One tile of k; x and dy as of the first pixel. */
struct weights_tile {
    const f32 *x, *dy;
    f32       *sum;
    i64        rows, cols;
    i64        x_row, x_step, dy_row, dy_step, sum_block;
};

V_INLINE void weights_tile_run(const struct weights_tile *t, const int count, const int vectors)
{
    vf sum[TILE_1][2];
#pragma GCC unroll 16
    for (int k = 0; k < count; k++)
        for (int v = 0; v < vectors; v++)
            sum[k][v] = v_load(t->sum + k * V_LANES + v * t->sum_block);
    for (i64 y = 0; y < t->rows; y++) {
        const f32 *x = t->x + y * t->x_row, *dy = t->dy + y * t->dy_row;
        for (i64 p = 0; p < t->cols; p++, x += t->x_step, dy += t->dy_step) {
            vf a = v_load(dy), b = vectors == 2 ? v_load(dy + V_LANES) : a;
#pragma GCC unroll 16
            for (int k = 0; k < count; k++) {
                vf s      = v_set(x[k]);
                sum[k][0] = v_fma(s, a, sum[k][0]);
                if (vectors == 2) sum[k][1] = v_fma(s, b, sum[k][1]);
            }
        }
    }
#pragma GCC unroll 16
    for (int k = 0; k < count; k++)
        for (int v = 0; v < vectors; v++)
            v_store(t->sum + k * V_LANES + v * t->sum_block, sum[k][v]);
}

static void weights_tile_1(const struct weights_tile *t, i64 count)
{
#define RUN(n) weights_tile_run(t, n, 1)
    switch (count) {
        CASES_TILE_1(RUN)
    }
#undef RUN
}

static void weights_tile_2(const struct weights_tile *t, i64 count)
{
#define RUN(n) weights_tile_run(t, n, 2)
    switch (count) {
        CASES_TILE_2(RUN)
    }
#undef RUN
}

/* The vectors of dy of one block of results; where the channels do not fill the last one, a copy
 * with zeros. */
static struct window dy_of(const struct conv *v, const struct place *p, f32 *buffer)
{
    i64        pixel = v->out_c, row = v->out_w * pixel;
    const f32 *dy = v->out + (p->image * v->out_h + p->y) * row + p->x * pixel;
    if (pixel % V_LANES == 0) return (struct window){ dy, row };
    i64 wide = lane_blocks(pixel) * V_LANES;
    for (i64 y = 0; y < p->rows; y++)
        for (i64 x = 0; x < p->cols; x++) {
            f32 *to = buffer + (y * p->cols + x) * wide;
            memcpy(to, dy + y * row + x * pixel, (size_t)pixel * sizeof *to);
            memset(to + pixel, 0, (size_t)(wide - pixel) * sizeof *to);
        }
    return (struct window){ buffer, p->cols * wide };
}

/* Adds one block of results to the part's sums. */
static void weights_add(const struct weights *g, i64 block, f32 *sums, f32 *x_buffer,
                        f32 *dy_buffer)
{
    const struct conv *v  = &g->conv;
    struct place       p  = place_of(v, &g->cut, block);
    struct window      in = window_of(v, &p, x_buffer), dy = dy_of(v, &p, dy_buffer);
    i64                run = v->taps_x * v->in_c, blocks = lane_blocks(v->out_c),
        sum_block = v->taps_y * run * V_LANES;
    for (i64 o = 0, vectors; o < blocks; o += vectors) {
        vectors = MIN(2, blocks - o);
        for (i64 y = 0; y < v->taps_y; y++)
            for (i64 k = 0, n; k < run; k += n) {
                n                     = tile_of(run - k, vectors == 2 ? TILE_2 : TILE_1);
                struct weights_tile t = {
                    .x         = in.at + y * in.pitch + k,
                    .dy        = dy.at + o * V_LANES,
                    .sum       = sums + o * sum_block + (y * run + k) * V_LANES,
                    .rows      = p.rows,
                    .cols      = p.cols,
                    .x_row     = v->step * in.pitch,
                    .x_step    = v->step * v->in_c,
                    .dy_row    = dy.pitch,
                    .dy_step   = blocks * V_LANES,
                    .sum_block = sum_block,
                };
                if (vectors == 2) weights_tile_2(&t, n);
                else weights_tile_1(&t, n);
            }
    }
}

static void weights_part(void *context, i64 part, i32 worker)
{
    (void)worker;
    _Alignas(64) f32      x_buffer[BUFFER_FLOATS], dy_buffer[BUFFER_FLOATS];
    const struct weights *g    = context;
    f32                  *sums = g->sums + part * g->part_floats;
    memset(sums, 0, (size_t)g->part_floats * sizeof *sums);
    i64 end = (part + 1) * g->cut.blocks / g->parts;
    for (i64 b = part * g->cut.blocks / g->parts; b < end; b++)
        weights_add(g, b, sums, x_buffer, dy_buffer);
}

/* Adds the parts of one row of taps of one block of out-channels, in order, and turns it to OHWI. */
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

/* Blocks also small enough for dy_of's buffer. */
static struct cut weights_cut(const struct conv *v)
{
    struct cut t    = cut_of(v);
    i64        wide = lane_blocks(v->out_c) * V_LANES;
    while (t.rows > 1 && t.rows * t.cols * wide > BUFFER_FLOATS) t.rows = div_up(t.rows, 2);
    while (t.cols > 1 && t.rows * t.cols * wide > BUFFER_FLOATS) t.cols = div_up(t.cols, 2);
    t.row_blocks = div_up(v->rows, t.rows);
    t.col_blocks = div_up(v->cols, t.cols);
    t.blocks     = v->count * t.row_blocks * t.col_blocks;
    return t;
}

static bool grad_w_takes(const struct call *c)
{
    struct conv v = conv_weights(c);
    return conv_is_f32(c) && fits(&v) && lane_blocks(v.out_c) * V_LANES <= BUFFER_FLOATS;
}

static i64 grad_w_work(const struct call *c)
{
    struct conv v = conv_weights(c);
    struct cut  t = weights_cut(&v);
    return parts_of(&t) * packed_bytes(&v);
}

static void grad_w(const struct call *c)
{
    struct weights g = { .conv = conv_weights(c), .sums = c->work, .dw = c->out[0].data };
    g.cut            = weights_cut(&g.conv);
    g.parts          = parts_of(&g.cut);
    g.part_floats    = packed_bytes(&g.conv) / (i64)sizeof(f32);
    pool_run(c->pool, g.parts, weights_part, &g);
    pool_run(c->pool, lane_blocks(g.conv.out_c) * g.conv.taps_y, weights_sum, &g);
}

const struct kernel ISA_FN(kernels_conv_direct)[] = {
    { OP_CONV2D, "direct_" ISA_NAME, ISA_HERE, forward_takes, forward, forward_work },
    { OP_CONV2D_GRAD_X, "direct_" ISA_NAME, ISA_HERE, grad_x_takes, grad_x, grad_x_work },
    { OP_CONV2D_GRAD_W, "direct_" ISA_NAME, ISA_HERE, grad_w_takes, grad_w, grad_w_work },
};
const i32 ISA_COUNT(kernels_conv_direct) = (i32)COUNT_OF(ISA_FN(kernels_conv_direct));
