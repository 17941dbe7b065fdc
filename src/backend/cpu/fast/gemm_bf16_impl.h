/* gemm_bf16_impl.h - the matrix product of bf16 operands, summed in f32, into bf16 or f32.
 *
 * B is packed into panels, and A too unless its rows can be read as they lie (bf16_tile.h has both
 * forms). C is cut into blocks, whatever the number of threads; its tiles run over all of K at
 * once, so that sums never leave f32. Where C is f32, as gradients of
 * parameters are, it can hold the sums itself: then long operands are packed a slice of K at a
 * time, before they leave the caches.
 *
 * M, N, K: C is [M,N], A [M,K], B [K,N]. */
#include "backend/cpu/fast/bf16_tile.h"
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/gemm.h"
#include "backend/cpu/fast/then.h"

enum {
    MC  = 64, /* rows of a block at a time: with a panel of B they stay in the first caches */
    RUN = 32, /* tiles packed at a time: 32 to 96 KiB */
    SLICE_NUMBERS = 2 * 1024 * 1024, /* packed at a time: 4 MiB */
    BLOCKS_WANTED = 32,
    LINE_BYTES    = 64,
    SMALL_FLOPS   = 2 * 1000 * 1000, /* ten microseconds: not worth a second thread */
};

/* The maps of a chain on f32 and on bf16; whoever has AMX has these instructions too. */
void then_apply_avx512(const struct call *c, struct then_part p);
void then_apply_avx512bf16(const struct call *c, struct then_part p);

struct operand {
    struct lines lines; /* of the first product, from step 0 on */
    i64          batch; /* from one product to the next */
    i64          panels, panel_lines;
    u16         *packed; /* NULL: read as it lies */
};

struct job {
    struct gemm    g; /* sizes and distances; the data are below */
    struct operand a, b;
    struct tensor  bias, c;       /* bias without data: none */
    i64            rows, columns; /* of a block: whole tiles and panels */
    i64            row_blocks, column_blocks;
    i64            k, tiles; /* the slice of K at work now */
    i64            a_blocks; /* blocks of packing that are a's; those after are b's */
};

/* ---- packing */

/* What lies side by side is packed together: up to RUN tiles of a panel, or one tile of as many
 * panels. */
struct runs {
    bool along_k;
    i64  count, across; /* tiles in the direction of a run and across it */
    i64  each;          /* runs for each across */
};

static struct runs runs_of(const struct job *job, const struct operand *o)
{
    bool along_k = o->lines.step == 1;
    i64  count = along_k ? job->tiles : o->panels, across = along_k ? o->panels : job->tiles;
    return (struct runs){ along_k, count, across, fast_div_up(count, RUN) };
}

static i64 pack_blocks(const struct job *job, const struct operand *o)
{
    struct runs r = runs_of(job, o);
    return o->packed ? job->g.batch * r.across * r.each : 0;
}

static void pack_one(const struct job *job, const struct operand *o, i64 batch, i64 panel, i64 tile)
{
    i64          size = o->panel_lines * STEPS, step = job->k + tile * STEPS;
    struct lines from = o->lines;
    u16         *to   = o->packed + ((batch * o->panels + panel) * job->tiles + tile) * size;
    from.data += batch * o->batch + panel * o->panel_lines * from.line + step * from.step;
    from.count -= panel * o->panel_lines;
    from.steps -= step;
    if (o == &job->a) pack_a_tile(to, from);
    else pack_b_tile(to, from);
}

static void pack_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct job     *job  = context;
    bool                  is_a = block < job->a_blocks;
    const struct operand *o    = is_a ? &job->a : &job->b;
    struct runs           r    = runs_of(job, o);
    i64                   i = is_a ? block : block - job->a_blocks, first = i % r.each * RUN;
    i64                   across = i / r.each % r.across, batch = i / r.each / r.across;
    for (i64 t = first; t < MIN(first + RUN, r.count); t++)
        pack_one(job, o, batch, r.along_k ? across : t, r.along_k ? t : across);
}

/* ---- tiles of C */

/* Sums of `rows` by `columns` become results: with the bias, or what earlier slices left. */
static void put(const struct job *job, const f32 *sums, i64 at, i64 n, i64 rows, i64 columns)
{
    bool bias = job->bias.data && job->k == 0;
    for (i64 j = 0; j < columns; j += V_LANES) {
        vm m     = v_first(MIN(columns - j, V_LANES));
        vf begin = bias ? v_get(job->bias.data, n + j, m, job->bias.type.dtype) : v_zero();
        for (i64 r = 0; r < rows; r++) {
            vf  x  = v_load(sums + r * NR + j) + begin;
            i64 to = at + r * job->g.N + j;
            if (job->k) x += v_get(job->c.data, to, m, DT_F32);
            v_put(job->c.data, to, x, m, job->c.type.dtype);
        }
    }
}

/* Results come from far away to be written to: they are asked for before they are computed. */
static void expect_results(const struct job *job, i64 at, i64 rows, i64 columns)
{
    i64       size = dtype_bytes(job->c.type.dtype);
    const u8 *c    = (const u8 *)job->c.data + at * size;
    for (i64 r = 0; r < rows; r++, c += job->g.N * size)
        for (i64 i = 0; i < columns * size; i += LINE_BYTES) __builtin_prefetch(c + i, 1);
}

/* Two panels of rows from m on, one panel of columns from n on, of product `batch`. */
static void run_tile(const struct job *job, struct bf16_tile *t, i64 batch, i64 m, i64 n)
{
    _Alignas(64) f32 sums[ROWS * NR];
    i64              M = job->g.M, N = job->g.N, at = (batch * M + m) * N + n;
    i64              rows = MIN(M - m, ROWS), columns = MIN(N - n, NR);
    i64              panels = fast_div_up(rows, PANEL), nv = fast_div_up(columns, V_LANES);
    bool             whole  = rows == panels * PANEL && columns == nv * V_LANES;
    bool             direct = whole && job->c.type.dtype == DT_F32 && (job->k || !job->bias.data);
    expect_results(job, at, rows, columns);
    t->c     = direct ? (f32 *)job->c.data + at : sums;
    t->c_row = direct ? N : NR;
    t->adds  = direct && job->k > 0;
    product(t, panels, nv);
    if (!direct) put(job, sums, at, n, rows, columns);
}

/* A's rows in the form in which they are multiplied, and how far from one to the next. */
static const u16 *rows_at(const struct job *job, i64 batch, i64 *row)
{
    const struct operand *a = &job->a;
    *row                    = a->packed ? job->tiles * STEPS : a->lines.line;
    return a->packed ? a->packed + batch * a->panels * PANEL * *row
                     : a->lines.data + batch * a->batch + job->k;
}

struct part { /* one block: rows [m, m_end) and columns [n, n_end) of product `batch` */
    i64 batch, m, m_end, n, n_end;
};

/* MC rows of the block from m on; meanwhile those after them are asked for. */
static void run_rows(const struct job *job, const struct part *p, i64 m)
{
    const struct operand *a = &job->a, *b = &job->b;
    i64                   end = MIN(m + MC, p->m_end), next = end, row;
    i64                   each = fast_div_up(MC * NR, p->n_end - p->n);
    const u16            *rows = rows_at(job, p->batch, &row);
    struct bf16_tile      t    = { .tiles   = job->tiles,
                                   .a_row   = a->packed ? STEPS : row,
                                   .a_tile  = a->packed ? A_TILE : STEPS,
                                   .a_panel = PANEL * row };
    for (i64 n = p->n; n < p->n_end; n += NR) {
        t.b = b->packed + (p->batch * b->panels + n / NR) * job->tiles * B_TILE;
        for (i64 stop = MIN(next + each, MIN(end + MC, p->m_end)); next < stop; next++)
            for (i64 k = 0; k < job->tiles; k++)
                __builtin_prefetch(rows + next * row + k * STEPS, 0, 2); /* the second cache */
        for (i64 i = m; i < end; i += ROWS) {
            t.a = rows + i * row;
            run_tile(job, &t, p->batch, i, n);
        }
    }
    if (job->k + job->tiles * STEPS < job->g.K) return; /* more slices come */
    struct then_part done = { (p->batch * job->g.M + m) * job->g.N + p->n, p->n_end - p->n, end - m,
                              job->g.N };
    if (job->c.type.dtype == DT_F32) then_apply_avx512(job->g.call, done);
    else then_apply_avx512bf16(job->g.call, done);
}

static void run_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct job *job = context;
    i64 column = block % job->column_blocks, row = block / job->column_blocks % job->row_blocks;
    struct part p = { .batch = block / (job->column_blocks * job->row_blocks),
                      .m     = row * job->rows,
                      .m_end = MIN((row + 1) * job->rows, job->g.M),
                      .n     = column * job->columns,
                      .n_end = MIN((column + 1) * job->columns, job->g.N) };
    products_begin();
    for (i64 m = p.m; m < p.m_end; m += MC) run_rows(job, &p, m);
    products_end();
}

/* ---- the whole */

/* Rows of pairs, whole tiles, that do not all fall into one set of the first cache. */
static bool reads_a_in_place(const struct gemm *g)
{
    bool collides = (g->a.row + 32) % 2048 < 64;
    return g->a.col == 1 && g->K % STEPS == 0 && g->M % PANEL == 0 && !collides;
}

/* Numbers packed for one tile of K. */
static i64 a_tile_numbers(const struct gemm *g)
{
    return reads_a_in_place(g) ? 0 : g->batch * fast_div_up(g->M, PANEL) * A_TILE;
}
static i64 b_tile_numbers(const struct gemm *g)
{
    return g->batch * fast_div_up(g->N, NR) * B_TILE;
}

static i64 slice_tiles(const struct gemm *g, enum dtype result)
{
    if (result != DT_F32) return tiles_of(g->K);
    i64 fit = SLICE_NUMBERS / (a_tile_numbers(g) + b_tile_numbers(g));
    return MIN(tiles_of(g->K), MAX(fit, 1));
}

static bool takes(const struct call *c)
{
    enum dtype d = c->out[0].type.dtype;
    if (d != DT_F32 && d != DT_BF16) return false;
    for (i32 i = 0; i < c->in_count; i++) {
        enum dtype in = c->in[i].type.dtype;
        if (in != DT_BF16 && (i < 2 || in != DT_F32)) return false;
        if (shape_count(c->in[i].type.shape) == 0) return false;
    }
    return true;
}

static i64 work_bytes(const struct call *c)
{
    struct gemm g = gemm_of(c);
    return (a_tile_numbers(&g) + b_tile_numbers(&g)) * slice_tiles(&g, c->out[0].type.dtype) *
           (i64)sizeof(u16);
}

/* Into enough blocks for many cores to share. What one reads, rows of A and columns of B, comes
 * from the cores that packed it: the squarer a block, the less that is. */
static void job_cut(struct job *job)
{
    i64 M = job->g.M, N = job->g.N;
    job->rows    = round_up(M, ROWS);
    job->columns = round_up(N, NR);
    for (;;) {
        job->row_blocks    = fast_div_up(M, job->rows);
        job->column_blocks = fast_div_up(N, job->columns);
        bool enough        = job->g.batch * job->row_blocks * job->column_blocks >= BLOCKS_WANTED;
        if (enough || (job->rows == ROWS && job->columns == NR)) return;
        if (job->rows >= job->columns && job->rows > ROWS)
            job->rows = round_up(job->rows / 2, ROWS);
        else job->columns = round_up(job->columns / 2, NR);
    }
}

static struct job job_of(const struct call *c)
{
    struct job   job = { .g = gemm_of(c), .c = c->out[0] };
    struct gemm *g   = &job.g;
    job.c.data       = then_target(c);
    i64 slice        = slice_tiles(g, job.c.type.dtype);
    job.a            = (struct operand){ .lines       = { c->in[0].data, g->a.row, g->a.col, g->M, g->K },
                                         .batch       = g->a.step,
                                         .panels      = fast_div_up(g->M, PANEL),
                                         .panel_lines = PANEL };
    job.b            = (struct operand){ .lines       = { c->in[1].data, g->b.col, g->b.row, g->N, g->K },
                                         .batch       = g->b.step,
                                         .panels      = fast_div_up(g->N, NR),
                                         .panel_lines = NR,
                                         .packed      = c->work };
    if (!reads_a_in_place(g)) job.a.packed = job.b.packed + b_tile_numbers(g) * slice;
    if (c->in_count == 3) job.bias = c->in[2];
    job_cut(&job);
    return job;
}

static void run(const struct call *c)
{
    struct job job    = job_of(c);
    i64        blocks = job.g.batch * job.row_blocks * job.column_blocks, K = job.g.K;
    i64        slice = slice_tiles(&job.g, job.c.type.dtype);
    bool       small = 2.0 * (f64)job.g.batch * (f64)job.g.M * (f64)job.g.N * (f64)K < SMALL_FLOPS;
    for (; job.k < K; job.k += slice * STEPS) {
        job.tiles    = MIN(slice, tiles_of(K - job.k));
        job.a_blocks = pack_blocks(&job, &job.a);
        i64 to_pack  = job.a_blocks + pack_blocks(&job, &job.b);
        if (small) {
            fast_alone(to_pack, pack_block, &job);
            fast_alone(blocks, run_block, &job);
        } else {
            pool_run(c->pool, to_pack, pack_block, &job);
            pool_run(c->pool, blocks, run_block, &job);
        }
    }
}

const struct kernel ISA_FN(kernels_gemm_bf16)[] = {
    { OP_MATMUL, "bf16_" ISA_NAME, ISA_HERE, takes, run, work_bytes },
};
const i32 ISA_COUNT(kernels_gemm_bf16) = (i32)COUNT_OF(ISA_FN(kernels_gemm_bf16));
