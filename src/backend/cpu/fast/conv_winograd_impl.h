/* conv_winograd_impl.h - 3x3 convolution of stride 1 with 16 products in place of 36.
 *
 * Winograd's F(2x2, 3x3) (Lavin and Gray, CVPR 2016, section 4.1). Results are made in tiles of
 * 2x2 pixels; a tile reads 4x4 pixels d of the image. With the weights g of one pair of channels,
 *
 *     results = A' [ (G g G') . (B' d B) ] A        . element by element, 16 products
 *
 *         1  0 -1  0            1   0   0           1  0
 *     B'= 0  1  1  0        G = .5  .5  .5      A = 1  1
 *         0 -1  1  0            .5 -.5  .5          1 -1
 *         0  1  0 -1            0   0   1           0 -1
 *
 * Summed over in-channels that is one matrix product for each of the 16 positions: so we transform
 * the weights (once a call), then for each block of tiles the image, multiply, and transform back,
 * all in cache. B and A hold only 0 and +-1, so little accuracy is lost; the larger F(4x4, 3x3)
 * would need fewer products still, but loses about two digits.
 *
 * The gradient by x is the same on turned weights (conv.h). The gradient by the weights is the
 * transpose: dg = G' [ sum over tiles of (B' d B) . (A dy A') ] G. */
#include "backend/cpu/fast/conv.h"
#include "backend/cpu/fast/conv_tile.h"

enum {
    POSITIONS    = 16,
    TILES_MAX    = 32, /* in one block of results */
    TILES_MIN    = 8,
    CHANNELS_MAX = 512,
    IMAGE_FLOATS = POSITIONS * TILES_MIN * CHANNELS_MAX, /* of a block's transformed image */
    NEAR_FLOATS  = 1024,        /* of one position of a block that we like to hold */
    PAIR         = 2 * V_LANES, /* out-channels multiplied at a time */
    SKEW         = 16, /* floats between positions, so that they do not all meet in one cache set */
};

static const f32 zeros[CHANNELS_MAX];

struct grid {
    i64 rows, cols, tiles; /* of tiles: in an image, in an image, in all images */
};

static struct grid grid_of(const struct conv *v)
{
    i64 rows = div_up(v->rows, 2), cols = div_up(v->cols, 2);
    return (struct grid){ rows, cols, v->count * rows * cols };
}

/* Neighbouring tiles of one row, from the result (y, x) of an image on. */
struct strip {
    i64 image, y, x, tiles;
};

/* The tiles from `tile` on, up to the end of their row or `most`. */
static struct strip strip_at(const struct grid *g, i64 tile, i64 most)
{
    i64 row = tile / g->cols, col = tile % g->cols;
    return (struct strip){ row / g->rows, row % g->rows * 2, col * 2, MIN(most, g->cols - col) };
}

/* ---- the small transforms, of vectors ---- */

/* One row or column: elements `step` apart. */
V_INLINE void times_B(vf *d, int step)
{
    vf a = d[0], b = d[step], c = d[2 * step], e = d[3 * step];
    d[0]        = a - c;
    d[step]     = b + c;
    d[2 * step] = c - b;
    d[3 * step] = b - e;
}

V_INLINE void times_A(vf *m, int step) /* 4 -> 2 */
{
    vf a = m[0], b = m[step], c = m[2 * step], e = m[3 * step];
    m[0]    = a + b + c;
    m[step] = b - c - e;
}

V_INLINE void times_A_up(vf *y, int step) /* 2 -> 4 */
{
    vf a = y[0], b = y[step];
    y[step]     = a + b;
    y[2 * step] = a - b;
    y[3 * step] = -b;
}

V_INLINE void times_G(vf *g, int step) /* 3 -> 4 */
{
    vf half = v_set(0.5f), a = g[0], b = g[step], c = g[2 * step];
    g[step]     = (a + c + b) * half;
    g[2 * step] = (a + c - b) * half;
    g[3 * step] = c;
}

V_INLINE void times_G_down(vf *u, int step) /* 4 -> 3 */
{
    vf half = v_set(0.5f), a = u[0], b = u[step], c = u[2 * step], e = u[3 * step];
    u[0]        = a + (b + c) * half;
    u[step]     = (b - c) * half;
    u[2 * step] = e + (b + c) * half;
}

struct pictures { /* the images, or dy */
    const f32 *data;
    i64        h, w, c;
};

/* Four rows of an image, or two of dy, from one channel on. */
struct source {
    const f32 *row[4];
    i64        pixel[4]; /* floats from one pixel to the next; 0 in a row of zeros */
    i64        w;        /* columns outside [0, w) are zeros */
};

static struct source source_at(const struct pictures *p, i64 image, i64 y, i64 rows, i64 c)
{
    struct source s = { .w = p->w };
    for (i64 i = 0; i < rows; i++) {
        bool inside = y + i >= 0 && y + i < p->h;
        s.row[i]    = inside ? p->data + (image * p->h + y + i) * p->w * p->c + c : zeros;
        s.pixel[i]  = inside ? p->c : 0;
    }
    return s;
}

/* One column, all rows, of one vector of channels. */
V_INLINE void column(const struct source *s, i64 x, i64 c, const int rows, vf *to)
{
    bool inside = x >= 0 && x < s->w;
    for (int i = 0; i < rows; i++)
        to[i] = inside ? v_load(s->row[i] + x * s->pixel[i] + c) : v_zero();
}

/* to[position][tile][channel] = B' d B for the tiles of a strip that begins at column x of s.
 * Neighbours share two columns, so each column is loaded and transformed once. */
static void image_transform(const struct source *s, i64 x, i64 tiles, i64 channels, f32 *to,
                            i64 plane)
{
    for (i64 c = 0; c < channels; c += V_LANES) {
        vf d[4][4]; /* [column][row] */
        column(s, x, c, 4, d[0]);
        column(s, x + 1, c, 4, d[1]);
        times_B(d[0], 1);
        times_B(d[1], 1);
        for (i64 t = 0; t < tiles; t++) {
            f32 *q = to + t * channels + c;
            column(s, x + 2 * t + 2, c, 4, d[2]);
            column(s, x + 2 * t + 3, c, 4, d[3]);
            times_B(d[2], 1);
            times_B(d[3], 1);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++, q += 4 * plane) {
                v_store(q, d[0][i] - d[2][i]);
                v_store(q + plane, d[1][i] + d[2][i]);
                v_store(q + 2 * plane, d[2][i] - d[1][i]);
                v_store(q + 3 * plane, d[1][i] - d[3][i]);
                d[0][i] = d[2][i];
                d[1][i] = d[3][i];
            }
        }
    }
}

/* to[position][tile][channel] = A dy A' for the tiles of a strip that begins at column x of s. */
static void dy_transform(const struct source *s, i64 x, i64 tiles, i64 channels, f32 *to, i64 plane)
{
    for (i64 c = 0; c < channels; c += V_LANES)
        for (i64 t = 0; t < tiles; t++) {
            vf   d[2][4];
            f32 *q = to + t * channels + c;
            column(s, x + 2 * t, c, 2, d[0]);
            column(s, x + 2 * t + 1, c, 2, d[1]);
            times_A_up(d[0], 1);
            times_A_up(d[1], 1);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++, q += 4 * plane) {
                v_store(q, d[0][i]);
                v_store(q + plane, d[0][i] + d[1][i]);
                v_store(q + 2 * plane, d[0][i] - d[1][i]);
                v_store(q + 3 * plane, -d[1][i]);
            }
        }
}

/* ---- results ---- */

struct winograd {
    struct conv conv;
    struct grid grid;
    i64         block_tiles;
    f32        *weights; /* [vector of out-channels][POSITIONS][in_c][V_LANES] */
};

/* G g G' of one vector of out-channels and all in-channels. */
static void weights_transform(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct winograd *w    = context;
    const struct conv     *v    = &w->conv;
    const f32             *from = v->weight + v->weight_first + block * V_LANES * v->weight_o;
    f32                   *to   = w->weights + block * POSITIONS * v->in_c * V_LANES;
    for (i64 c = 0; c < v->in_c; c++) {
        vf g[16];
        for (int i = 0; i < 9; i++) {
            f32        lanes[V_LANES];
            const f32 *tap = from + i / 3 * v->weight_y + i % 3 * v->weight_x + c * v->weight_c;
            for (i64 o = 0; o < V_LANES; o++) lanes[o] = tap[o * v->weight_o];
            g[i / 3 * 4 + i % 3] = v_load(lanes);
        }
        for (int i = 0; i < 3; i++) times_G(g + i, 4);
        for (int i = 0; i < 4; i++) times_G(g + 4 * i, 1);
        for (int i = 0; i < 16; i++) v_store(to + (i * v->in_c + c) * V_LANES, g[i]);
    }
}

/* A' m A of the tiles of a strip, for one vector of channels from o on, to the pixels that exist. */
static void results_transform(const struct conv *v, const struct strip *s, i64 o, const f32 *from,
                              i64 step, i64 plane)
{
    vf   bias  = v->bias ? v_load(v->bias + o) : v_zero();
    i64  row   = v->out_w * v->out_c;
    bool below = s->y + 1 < v->rows;
    f32 *to    = v->out + ((s->image * v->out_h + s->y) * v->out_w + s->x) * v->out_c + o;
    for (i64 t = 0; t < s->tiles; t++, to += 2 * v->out_c, from += step) {
        vf         m[16];
        const f32 *q = from;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++, q += plane) m[i] = v_load(q);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) times_A(m + i, 4);
        times_A(m, 1);
        times_A(m + 4, 1);
        bool right = s->x + 2 * t + 1 < v->cols;
        v_store(to, m[0] + bias);
        if (right) v_store(to + v->out_c, m[1] + bias);
        if (below) v_store(to + row, m[4] + bias);
        if (right && below) v_store(to + row + v->out_c, m[5] + bias);
    }
}

/* The transformed image of `tiles` tiles from `first` on, channels [c, c + channels). */
static void image_block(const struct conv *v, const struct grid *g, i64 first, i64 tiles, i64 c,
                        i64 channels, f32 *to, i64 plane)
{
    struct pictures p = { v->in, v->in_h, v->in_w, v->in_c };
    for (i64 t = 0; t < tiles;) {
        struct strip  s = strip_at(g, first + t, tiles - t);
        struct source d = source_at(&p, s.image, s.y - v->pad_y, 4, c);
        image_transform(&d, s.x - v->pad_x, s.tiles, channels, to + t * channels, plane);
        t += s.tiles;
    }
}

static void results_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    _Alignas(64) f32       image[IMAGE_FLOATS + POSITIONS * SKEW];
    _Alignas(64) f32       product[POSITIONS * (TILES_MAX * PAIR + SKEW)];
    const struct winograd *w     = context;
    const struct conv     *v     = &w->conv;
    i64                    first = block * w->block_tiles;
    i64                    tiles = MIN(w->block_tiles, w->grid.tiles - first);
    i64                    plane = tiles * v->in_c + SKEW;
    image_block(v, &w->grid, first, tiles, 0, v->in_c, image, plane);
    for (i64 o = 0; o < v->out_c; o += PAIR) {
        i64 vectors = MIN(2, (v->out_c - o) / V_LANES), wide = vectors * V_LANES;
        i64 out_plane = tiles * wide + SKEW, size = dots_size(tiles, vectors);
        for (i64 i = 0; i < POSITIONS; i++) {
            struct dots t = {
                .x        = image + i * plane,
                .w        = w->weights + (o / V_LANES * POSITIONS + i) * v->in_c * V_LANES,
                .out      = product + i * out_plane,
                .rows     = 1,
                .run      = v->in_c,
                .x_step   = v->in_c,
                .out_step = wide,
                .w_block  = POSITIONS * v->in_c * V_LANES,
                .lanes    = V_LANES,
            };
            dots_run(t, tiles, size, vectors);
        }
        for (i64 t = 0; t < tiles;) {
            struct strip s = strip_at(&w->grid, first + t, tiles - t);
            for (i64 k = 0; k < wide; k += V_LANES)
                results_transform(v, &s, o + k, product + t * wide + k, wide, out_plane);
            t += s.tiles;
        }
    }
}

/* Where it can be used, and is expected to win: tiles hang over the edges of small images, so at
 * least a quarter of the products must be saved. */
static bool suits(const struct conv *v)
{
    struct grid g      = grid_of(v);
    bool        kernel = v->taps_y == 3 && v->taps_x == 3 && v->step == 1 && v->out_step == 1;
    bool        pads   = v->pad_y >= 0 && v->pad_y < 3 && v->pad_x >= 0 && v->pad_x < 3;
    bool        lanes  = v->in_c % V_LANES == 0 && v->out_c % V_LANES == 0;
    bool        fits   = v->in_c <= CHANNELS_MAX && v->out_c <= CHANNELS_MAX;
    bool        wins   = 4 * POSITIONS * g.rows * g.cols <= 3 * 9 * v->rows * v->cols;
    return kernel && pads && lanes && fits && wins;
}

static i64 weights_bytes(const struct conv *v)
{
    return POSITIONS * v->in_c * v->out_c * (i64)sizeof(f32);
}

static void results_run(const struct call *c, const struct conv *v)
{
    struct winograd w = { *v, grid_of(v), 0, c->work };
    w.block_tiles     = MIN(MAX(TILES_MIN, NEAR_FLOATS / v->in_c), TILES_MAX);
    pool_run(c->pool, v->out_c / V_LANES, weights_transform, &w);
    pool_run(c->pool, div_up(w.grid.tiles, w.block_tiles), results_block, &w);
}

static bool forward_takes(const struct call *c)
{
    struct conv v = conv_forward(c);
    return conv_is_f32(c) && suits(&v);
}

static i64 forward_work(const struct call *c)
{
    struct conv v = conv_forward(c);
    return weights_bytes(&v);
}

static void forward(const struct call *c)
{
    struct conv v = conv_forward(c);
    results_run(c, &v);
}

static bool grad_x_takes(const struct call *c)
{
    struct conv v = conv_backward(c, 0, 0);
    return conv_is_f32(c) && suits(&v);
}

static i64 grad_x_work(const struct call *c)
{
    struct conv v = conv_backward(c, 0, 0);
    return weights_bytes(&v);
}

static void grad_x(const struct call *c)
{
    struct conv v = conv_backward(c, 0, 0);
    results_run(c, &v);
}

/* ---- gradient by the weights ---- */

enum {
    CHUNK        = 64,         /* channels, in and out, whose sums stay in the second cache */
    CHUNK_FLOATS = 32 * 1024,  /* of a chunk's transformed image, and of dy */
    BLOCKS       = 16,         /* into which the work is cut, if that takes no more */
    SUMS_FLOATS  = 512 * 1024, /* than these, which must be added in the end */
};

/* A block of work is one part of the tiles and one chunk of out- and in-channels. */
struct weights {
    struct conv conv;
    struct grid grid;
    i64         block_tiles, blocks; /* tiles transformed at a time */
    i64         out_chunks, in_chunks;
    i64         parts, part_floats;
    f32        *sums; /* [parts][vector of out-channels][POSITIONS][in_c][V_LANES] */
    f32        *dw;
};

struct chunk {
    i64 o, c, out_c, in_c;
};

/* The transformed dy of `tiles` tiles from `first` on, channels [o, o + channels). */
static void dy_block(const struct conv *v, const struct grid *g, i64 first, i64 tiles, i64 o,
                     i64 channels, f32 *to, i64 plane)
{
    struct pictures p = { v->out, v->out_h, v->out_w, v->out_c };
    for (i64 t = 0; t < tiles;) {
        struct strip  s = strip_at(g, first + t, tiles - t);
        struct source d = source_at(&p, s.image, s.y, 2, o);
        dy_transform(&d, s.x, s.tiles, channels, to + t * channels, plane);
        t += s.tiles;
    }
}

/* Adds one block of tiles to the sums of one chunk. */
static void weights_add(const struct weights *w, const struct chunk *k, i64 block, f32 *sums,
                        f32 *image, f32 *dy)
{
    const struct conv *v        = &w->conv;
    i64                first    = block * w->block_tiles;
    i64                tiles    = MIN(w->block_tiles, w->grid.tiles - first);
    i64                in_plane = tiles * k->in_c + SKEW, out_plane = tiles * k->out_c + SKEW;
    image_block(v, &w->grid, first, tiles, k->c, k->in_c, image, in_plane);
    dy_block(v, &w->grid, first, tiles, k->o, k->out_c, dy, out_plane);
    for (i64 o = 0; o < k->out_c; o += PAIR) {
        i64 vectors = MIN(2, (k->out_c - o) / V_LANES), size = outers_size(k->in_c, vectors);
        for (i64 i = 0; i < POSITIONS; i++) {
            struct outers t = {
                .x         = image + i * in_plane,
                .dy        = dy + i * out_plane + o,
                .sum       = sums + (o / V_LANES * POSITIONS + i) * v->in_c * V_LANES,
                .rows      = 1,
                .cols      = tiles,
                .x_step    = k->in_c,
                .dy_step   = k->out_c,
                .sum_block = POSITIONS * v->in_c * V_LANES,
            };
            outers_run(t, k->in_c, size, vectors);
        }
    }
}

static void weights_part(void *context, i64 block, i32 worker)
{
    (void)worker;
    _Alignas(64) f32 image[CHUNK_FLOATS + POSITIONS * SKEW], dy[CHUNK_FLOATS + POSITIONS * SKEW];
    const struct weights *w    = context;
    const struct conv    *v    = &w->conv;
    i64                   part = block / (w->out_chunks * w->in_chunks);
    struct chunk          k    = { .o = block / w->in_chunks % w->out_chunks * CHUNK,
                                   .c = block % w->in_chunks * CHUNK };
    k.out_c                    = MIN(CHUNK, v->out_c - k.o);
    k.in_c                     = MIN(CHUNK, v->in_c - k.c);
    f32 *sums = w->sums + part * w->part_floats + (k.o * POSITIONS * v->in_c + k.c * V_LANES);
    for (i64 i = 0; i < k.out_c / V_LANES * POSITIONS; i++)
        memset(sums + i * v->in_c * V_LANES, 0, (size_t)(k.in_c * V_LANES) * sizeof *sums);
    i64 end = (part + 1) * w->blocks / w->parts;
    for (i64 b = part * w->blocks / w->parts; b < end; b++) weights_add(w, &k, b, sums, image, dy);
}

/* Adds the parts of one vector of out-channels in order; then G' u G, turned to OHWI. */
static void weights_sum(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct weights *w  = context;
    const struct conv    *v  = &w->conv;
    f32                  *to = w->dw + block * V_LANES * v->weight_o;
    for (i64 c = 0; c < v->in_c; c++) {
        vf u[16];
        for (int i = 0; i < 16; i++) {
            const f32 *from = w->sums + ((block * POSITIONS + i) * v->in_c + c) * V_LANES;
            u[i]            = v_load(from);
            for (i64 part = 1; part < w->parts; part++)
                u[i] += v_load(from + part * w->part_floats);
        }
        for (int i = 0; i < 4; i++) times_G_down(u + i, 4);
        for (int i = 0; i < 3; i++) times_G_down(u + 4 * i, 1);
        for (int i = 0; i < 9; i++)
            for (i64 o = 0; o < V_LANES; o++)
                to[o * v->weight_o + i * v->in_c + c] = u[i / 3 * 4 + i % 3][o];
    }
}

static struct weights weights_of(const struct call *c)
{
    struct weights w = { .conv = conv_weights(c), .sums = c->work, .dw = c->out[0].data };
    struct conv   *v = &w.conv;
    w.grid           = grid_of(v);
    w.block_tiles    = CHUNK_FLOATS / POSITIONS / MIN(CHUNK, MAX(v->in_c, v->out_c));
    w.blocks         = div_up(w.grid.tiles, w.block_tiles);
    w.out_chunks     = div_up(v->out_c, CHUNK);
    w.in_chunks      = div_up(v->in_c, CHUNK);
    w.part_floats    = POSITIONS * v->in_c * v->out_c;
    w.parts          = MIN(BLOCKS / (w.out_chunks * w.in_chunks), SUMS_FLOATS / w.part_floats);
    w.parts          = MIN(w.blocks, MAX(1, w.parts));
    return w;
}

static bool grad_w_takes(const struct call *c)
{
    struct conv v = conv_weights(c);
    return conv_is_f32(c) && suits(&v);
}

static i64 grad_w_work(const struct call *c)
{
    struct weights w = weights_of(c);
    return w.parts * w.part_floats * (i64)sizeof(f32);
}

static void grad_w(const struct call *c)
{
    struct weights w = weights_of(c);
    pool_run(c->pool, w.parts * w.out_chunks * w.in_chunks, weights_part, &w);
    pool_run(c->pool, w.conv.out_c / V_LANES, weights_sum, &w);
}

const struct kernel ISA_FN(kernels_conv_winograd)[] = {
    { OP_CONV2D, "winograd_" ISA_NAME, ISA_HERE, forward_takes, forward, forward_work },
    { OP_CONV2D_GRAD_X, "winograd_" ISA_NAME, ISA_HERE, grad_x_takes, grad_x, grad_x_work },
    { OP_CONV2D_GRAD_W, "winograd_" ISA_NAME, ISA_HERE, grad_w_takes, grad_w, grad_w_work },
};
const i32 ISA_COUNT(kernels_conv_winograd) = (i32)COUNT_OF(ISA_FN(kernels_conv_winograd));
