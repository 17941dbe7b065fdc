/* conv_bf16_impl.h - convolution of bf16 numbers as a matrix product that is never written out.
 *
 * A result is the product of the numbers that its taps see, K = taps_y * taps_x * in_c of them, and
 * the weights. For 64 results at a time these rows are gathered into a worker's buffer, zeros where
 * the taps lie outside the image: what unfolding the image would write to memory (nine times the
 * image for 3x3) stays in the cache. The gradient by x is the same with weights turned round
 * (conv.h).
 *
 * The gradient by the weights is dy^T . rows, over all pixels: each of a fixed number of parts sums
 * its share of them, 256 at a time, in its own copy of dw, and the copies are added in order. */
#include "backend/cpu/fast/bf16_tile.h"
#include "backend/cpu/fast/conv.h"
#include "backend/cpu/fast/fast.h"

enum {
    PIXELS       = 64,              /* results in a block of work */
    CHUNK        = 256,             /* gradient by the weights: pixels multiplied at a time */
    PARTS_MAX    = 32,              /* of its work */
    PARTS_FLOATS = 8 * 1024 * 1024, /* of all their copies of dw, unless one is larger */
    WORK_ALIGN   = 32,              /* numbers: a cache line */
};

struct images {
    struct conv v; /* its data are not read: they are below */
    const u16  *in;
    i64         K, row; /* numbers a result is made of; from one gathered row to the next */
    i64         pixels; /* results in all */
};

static struct images images_of(struct conv v, const void *in)
{
    i64 K = v.taps_y * v.taps_x * v.in_c, row = round_up(K, STEPS);
    if (row * 2 % 4096 == 0) row += STEPS; /* rows do not all meet in one set of the cache */
    return (struct images){ v, in, K, row, v.count * v.rows * v.cols };
}

struct place { /* of a result */
    i64 image, y, x;
};

static struct place place_of(const struct conv *v, i64 pixel)
{
    return (struct place){ pixel / (v->rows * v->cols), pixel / v->cols % v->rows,
                           pixel % v->cols };
}

static void place_next(const struct conv *v, struct place *p)
{
    if (++p->x < v->cols) return;
    p->x = 0;
    if (++p->y < v->rows) return;
    p->y = 0;
    p->image++;
}

/* Numbers in a buffer of `rows` gathered rows: the last may be overrun by less than a tile. */
static i64 gathered_numbers(const struct images *m, i64 rows) { return rows * m->row + STEPS; }

/* Which of the numbers of one tile lie in [low, high). */
static __mmask32 range_mask(i64 low, i64 high)
{
    u64 below_high = ((u64)1 << MAX(0, MIN(high, STEPS))) - 1;
    u64 below_low  = ((u64)1 << MAX(0, MIN(low, STEPS))) - 1;
    return (__mmask32)(below_high & ~below_low);
}

/* What the taps of one result see. Stores are whole vectors: what is too much is written again by
 * the next row of taps. */
V_INLINE void gather_row(const struct images *m, struct place p, u16 *to)
{
    const struct conv *v = &m->v;
    i64 x = p.x * v->step - v->pad_x, y = p.y * v->step - v->pad_y, run = v->taps_x * v->in_c;
    i64 low = MAX(0, -x) * v->in_c, high = MIN(v->taps_x, v->in_w - x) * v->in_c;
    const u16 *from = m->in + ((p.image * v->in_h + y) * v->in_w + x) * v->in_c;
    for (i64 i = 0; i < v->taps_y; i++, to += run, from += v->in_w * v->in_c) {
        bool inside = y + i >= 0 && y + i < v->in_h;
        for (i64 k = 0; k < run; k += STEPS) {
            __mmask32 mask = inside ? range_mask(low - k, high - k) : 0;
            _mm512_storeu_si512(to + k, _mm512_maskz_loadu_epi16(mask, from + k));
        }
    }
}

/* Rows of `count` results, 0 from K on. */
static void gather(const struct images *m, struct place p, i64 count, u16 *to)
{
    i64 begun = round_up(m->K, STEPS) - STEPS; /* of the last tile, where zeros follow */
    for (i64 i = 0; i < count; i++, place_next(&m->v, &p), to += m->row) {
        if (begun >= 0) _mm512_storeu_si512(to + begun, _mm512_setzero_si512());
        gather_row(m, p, to);
    }
}

/* ---- results */

struct results {
    struct images m;
    struct tensor out, bias; /* bias without data: none */
    const u16    *weight;
    u16          *turned; /* [K][out_c] */
    u16          *packed;
    u16          *gathered; /* a buffer for each worker */
};

static void turn_block(void *context, i64 tap, i32 worker)
{
    (void)worker;
    const struct results *r = context;
    const struct conv    *v = &r->m.v;
    i64                   y = tap / v->taps_x, x = tap % v->taps_x;
    const u16            *from = r->weight + v->weight_first + y * v->weight_y + x * v->weight_x;
    u16                  *to   = r->turned + tap * v->in_c * v->out_c;
    for (i64 c = 0; c < v->in_c; c++)
        for (i64 o = 0; o < v->out_c; o++)
            to[c * v->out_c + o] = from[c * v->weight_c + o * v->weight_o];
}

static void pack_block(void *context, i64 panel, i32 worker)
{
    (void)worker;
    const struct results *r = context;
    i64                   O = r->m.v.out_c, n = panel * NR;
    struct lines          all = { r->turned + n, 1, O, MIN(O - n, NR), r->m.K };
    pack_b(r->packed + n * round_up(r->m.K, STEPS), all);
}

static i64 lanes(i64 left) { return MAX(0, MIN(left, V_LANES)); }

/* `rows` results from place p on, their channels from n on. */
static void put(const struct results *r, const f32 *sums, struct place p, i64 rows, i64 n,
                i64 columns)
{
    const struct conv *v = &r->m.v;
    vf                 begin[NV];
    for (i64 j = 0; j < NV; j++) {
        vm m = v_first(lanes(columns - j * V_LANES));
        begin[j] =
            r->bias.data ? v_get(r->bias.data, n + j * V_LANES, m, r->bias.type.dtype) : v_zero();
    }
    for (i64 i = 0; i < rows; i++, place_next(v, &p)) {
        i64 y = p.y * v->out_step + v->out_y, x = p.x * v->out_step + v->out_x;
        i64 at = ((p.image * v->out_h + y) * v->out_w + x) * v->out_c + n;
        for (i64 j = 0; j * V_LANES < columns; j++)
            v_put(r->out.data, at + j * V_LANES, v_load(sums + i * NR + j * V_LANES) + begin[j],
                  v_first(lanes(columns - j * V_LANES)), r->out.type.dtype);
    }
}

static void results_block(void *context, i64 block, i32 worker)
{
    _Alignas(64) f32      sums[ROWS * NR];
    const struct results *r = context;
    const struct images  *m = &r->m;
    i64  first = block * PIXELS, count = MIN(PIXELS, m->pixels - first), O = m->v.out_c;
    u16 *rows          = r->gathered + worker * round_up(gathered_numbers(m, PIXELS), WORK_ALIGN);
    struct bf16_tile t = { .tiles   = tiles_of(m->K),
                           .a_row   = m->row,
                           .a_tile  = STEPS,
                           .a_panel = PANEL * m->row,
                           .c       = sums,
                           .c_row   = NR };
    products_begin();
    gather(m, place_of(&m->v, first), count, rows);
    for (i64 n = 0; n < O; n += NR) {
        i64 columns = MIN(NR, O - n);
        t.b         = r->packed + n * round_up(m->K, STEPS);
        for (i64 i = 0; i < count; i += ROWS) {
            i64 left = MIN(ROWS, count - i);
            t.a      = rows + i * m->row;
            product(&t, fast_div_up(left, PANEL), fast_div_up(columns, V_LANES));
            put(r, sums, place_of(&m->v, first + i), left, n, columns);
        }
    }
    products_end();
}

static void run_results(const struct call *c, struct conv v)
{
    struct results r = { .m      = images_of(v, c->in[0].data),
                         .out    = c->out[0],
                         .weight = c->in[1].data,
                         .turned = c->work };
    if (c->in_count == 3) r.bias = c->in[2];
    r.packed   = r.turned + round_up(r.m.K * v.out_c, WORK_ALIGN);
    r.gathered = r.packed + b_numbers(v.out_c, r.m.K);
    pool_run(c->pool, v.taps_y * v.taps_x, turn_block, &r);
    pool_run(c->pool, fast_div_up(v.out_c, NR), pack_block, &r);
    pool_run(c->pool, fast_div_up(r.m.pixels, PIXELS), results_block, &r);
}

static i64 results_bytes(const struct call *c, struct conv v)
{
    struct images m       = images_of(v, NULL);
    i64           numbers = round_up(m.K * v.out_c, WORK_ALIGN) + b_numbers(v.out_c, m.K) +
                  pool_threads(c->pool) * round_up(gathered_numbers(&m, PIXELS), WORK_ALIGN);
    return numbers * (i64)sizeof(u16);
}

/* bf16 in, bf16 or f32 out, a bias of either. */
static bool takes(const struct call *c)
{
    enum dtype d = c->out[0].type.dtype;
    for (i32 i = 0; i < 2; i++)
        if (c->in[i].type.dtype != DT_BF16 || shape_count(c->in[i].type.shape) == 0) return false;
    if (c->in_count == 3 && c->in[2].type.dtype != DT_BF16 && c->in[2].type.dtype != DT_F32)
        return false;
    return (d == DT_BF16 || d == DT_F32) && shape_count(c->out[0].type.shape) > 0;
}

static i64 forward_work(const struct call *c) { return results_bytes(c, conv_forward(c)); }

static void forward(const struct call *c) { run_results(c, conv_forward(c)); }

static i64 grad_x_work(const struct call *c)
{
    i64 most = 0;
    for (i64 y = 0; y < c->at->stride; y++)
        for (i64 x = 0; x < c->at->stride; x++)
            most = MAX(most, results_bytes(c, conv_backward(c, y, x)));
    return most;
}

static void grad_x(const struct call *c)
{
    for (i64 y = 0; y < c->at->stride; y++)
        for (i64 x = 0; x < c->at->stride; x++) {
            struct conv v = conv_backward(c, y, x);
            if (v.rows > 0 && v.cols > 0) run_results(c, v);
        }
}

/* ---- gradient by the weights */

struct weights {
    struct images m;
    const u16    *dy;
    struct tensor dw;
    i64           parts, part_floats, row; /* row: of one out-channel, in a part */
    f32          *sums;                    /* [parts][out_c in whole ROWS][row] */
    u16          *buffers;                 /* for each worker: gathered, then packed rows and dy */
    i64           buffer_numbers;
};

static struct weights weights_of(const struct call *c)
{
    struct weights w = { .m    = images_of(conv_weights(c), c->in[1].data),
                         .dy   = c->in[0].data,
                         .dw   = c->out[0],
                         .sums = c->work };
    i64            O = w.m.v.out_c;
    w.row            = round_up(w.m.K, V_LANES);
    w.part_floats    = round_up(O, ROWS) * w.row;
    w.parts          = MIN(PARTS_MAX, MAX(1, PARTS_FLOATS / w.part_floats));
    w.parts          = MIN(w.parts, fast_div_up(w.m.pixels, CHUNK));
    if (w.sums) w.buffers = (u16 *)(w.sums + w.parts * w.part_floats);
    w.buffer_numbers = round_up(gathered_numbers(&w.m, CHUNK), WORK_ALIGN) +
                       b_numbers(w.m.K, CHUNK) + a_numbers(O, CHUNK);
    return w;
}

static void weights_part(void *context, i64 part, i32 worker)
{
    const struct weights *w = context;
    i64                   O = w->m.v.out_c, K = w->m.K;
    u16                  *rows   = w->buffers + worker * w->buffer_numbers;
    u16                  *b      = rows + round_up(gathered_numbers(&w->m, CHUNK), WORK_ALIGN);
    u16                  *a      = b + b_numbers(K, CHUNK);
    i64                   chunks = fast_div_up(w->m.pixels, CHUNK);
    i64                   begin = part * chunks / w->parts, end = (part + 1) * chunks / w->parts;
    products_begin();
    for (i64 chunk = begin; chunk < end; chunk++) {
        i64 first = chunk * CHUNK, count = MIN(CHUNK, w->m.pixels - first), tiles = tiles_of(count);
        gather(&w->m, place_of(&w->m.v, first), count, rows);
        pack_b(b, (struct lines){ rows, 1, w->m.row, K, count });
        pack_a(a, (struct lines){ w->dy + first * O, 1, O, O, count });
        for (i64 o = 0; o < O; o += ROWS) {
            struct bf16_tile t = { .tiles   = tiles,
                                   .a       = a + o * tiles * STEPS,
                                   .a_row   = STEPS,
                                   .a_tile  = A_TILE,
                                   .a_panel = tiles * A_TILE,
                                   .b       = b,
                                   .c       = w->sums + part * w->part_floats + o * w->row,
                                   .c_row   = w->row,
                                   .adds    = chunk > begin };
            product_rows(t, fast_div_up(MIN(ROWS, O - o), PANEL), K, tiles * B_TILE);
        }
    }
    products_end();
}

/* Adds the parts of one out-channel, in order. */
static void weights_sum(void *context, i64 o, i32 worker)
{
    (void)worker;
    const struct weights *w = context;
    for (i64 k = 0; k < w->m.K; k += V_LANES) {
        const f32 *from = w->sums + o * w->row + k;
        vf         sum  = v_load(from);
        for (i64 part = 1; part < w->parts; part++) sum += v_load(from + part * w->part_floats);
        v_put(w->dw.data, o * w->m.K + k, sum, v_first(MIN(w->m.K - k, V_LANES)), w->dw.type.dtype);
    }
}

static i64 grad_w_work(const struct call *c)
{
    struct weights w = weights_of(c);
    return w.parts * w.part_floats * (i64)sizeof(f32) +
           pool_threads(c->pool) * w.buffer_numbers * (i64)sizeof(u16);
}

static void grad_w(const struct call *c)
{
    struct weights w = weights_of(c);
    pool_run(c->pool, w.parts, weights_part, &w);
    pool_run(c->pool, w.m.v.out_c, weights_sum, &w);
}

const struct kernel ISA_FN(kernels_conv_bf16)[] = {
    { OP_CONV2D, "bf16_" ISA_NAME, ISA_HERE, takes, forward, forward_work },
    { OP_CONV2D_GRAD_X, "bf16_" ISA_NAME, ISA_HERE, takes, grad_x, grad_x_work },
    { OP_CONV2D_GRAD_W, "bf16_" ISA_NAME, ISA_HERE, takes, grad_w, grad_w_work },
};
const i32 ISA_COUNT(kernels_conv_bf16) = (i32)COUNT_OF(ISA_FN(kernels_conv_bf16));
