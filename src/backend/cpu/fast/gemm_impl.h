/* gemm_impl.h - the matrix product for one instruction set; gemm.h tells the story. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/gemm.h"
#include "backend/cpu/fast/gemm_tile.h"
#include "backend/cpu/fast/then.h"

/* A block of C has MC rows; KC_MAX steps of them and of a panel of B stay in the second cache. */
enum {
    MC            = 64,
    KC_MAX        = 384,
    SLICE_FLOATS  = 1024 * 1024, /* packed at a time: 4 MiB */
    STEPS         = 16,          /* of K in a block of packing, where lines lie side by side */
    BLOCKS_WANTED = 16,
    SMALL_FLOPS   = 1000 * 1000, /* ten microseconds: not worth a second thread */
};

/* What is packed of an operand: its lines along K (rows of A, columns of B), `width` of them in a
 * panel, as [batch][panels][k_count][width]. */
struct packed {
    struct gemm_matrix m;
    i64                lines, line, step; /* how many; distance from line to line, step to step */
    i64                panels;
    f32               *data; /* NULL: the operand is read in place */
};

/* ---- the grid: C is cut into blocks of `rows` by `columns`, whatever the number of threads */

struct job {
    const struct gemm *g;
    i64                rows, columns; /* of a block; columns are whole panels */
    i64                row_blocks, column_blocks;
    i64                k, k_count; /* the slice of K at work now */
    i64                kc;         /* steps of it at a time */
    struct packed      a, b;
    i64                b_blocks; /* blocks of packing that are b's; those after are a's */
};

struct part { /* one block: rows [m, m_end) and columns [n, n_end) of product `batch` */
    i64        m, m_end, n, n_end;
    i64        batch;
    const f32 *a, *b;
    f32       *c;
};

/* What the sums of columns n .. begin with. */
static const f32 *begin_of(const struct gemm *g, i64 n)
{
    return g->bias ? g->bias + n : tile_zeros;
}

static struct part part_of(const struct job *job, i64 block)
{
    const struct gemm *g = job->g;
    i64 column = block % job->column_blocks, row = block / job->column_blocks % job->row_blocks;
    i64 batch = block / (job->column_blocks * job->row_blocks);
    return (struct part){
        .m     = row * job->rows,
        .m_end = MIN((row + 1) * job->rows, g->M),
        .n     = column * job->columns,
        .n_end = MIN((column + 1) * job->columns, g->N),
        .batch = batch,
        .a     = g->a.data + batch * g->a.step,
        .b     = g->b.data + batch * g->b.step,
        .c     = g->c + batch * g->M * g->N,
    };
}

/* The block is complete. */
static void finish(const struct gemm *g, const struct part *p)
{
    i64              begin = (p->batch * g->M + p->m) * g->N + p->n;
    struct then_part done  = { begin, p->n_end - p->n, p->m_end - p->m, g->N };
    ISA_FN(then_apply)(g->call, done);
}

static void job_cut(struct job *job, i64 rows, i64 columns)
{
    job->rows          = rows;
    job->columns       = columns;
    job->row_blocks    = fast_div_up(job->g->M, rows);
    job->column_blocks = fast_div_up(job->g->N, columns);
}

static i64 job_blocks(const struct job *job)
{
    return job->g->batch * job->row_blocks * job->column_blocks;
}

static f64 flops_of(const struct gemm *g)
{
    return 2.0 * (f64)g->batch * (f64)g->M * (f64)g->N * (f64)g->K;
}

/* ---- packed */

static struct packed packed_a(const struct gemm *g)
{
    return (struct packed){ g->a, g->M, g->a.row, g->a.col, fast_div_up(g->M, MR), NULL };
}

static struct packed packed_b(const struct gemm *g)
{
    return (struct packed){ g->b, g->N, g->b.col, g->b.row, fast_div_up(g->N, NR), NULL };
}

/* Steps [k, k_end) of all panels: `width` lines at a time are copied as they lie. */
V_INLINE void pack_steps(const struct packed *p, const f32 *from, f32 *to, i64 k, i64 k_end,
                         i64 k_count, const int width)
{
    for (i64 panel = 0; panel < p->panels; panel++) {
        i64    count = MIN(p->lines - panel * width, width);
        size_t bytes = (size_t)count * sizeof *to, rest = (size_t)(width - count) * sizeof *to;
        for (i64 i = k; i < k_end; i++) {
            f32       *x = to + (panel * k_count + i) * width;
            const f32 *y = from + i * p->step + panel * width;
            if (count == width) {
                memcpy(x, y, (size_t)width * sizeof *x);
            } else {
                memcpy(x, y, bytes);
                memset(x + count, 0, rest);
            }
        }
    }
}

/* One panel, whose lines are contiguous and come to lie side by side. */
V_INLINE void pack_lines(const struct packed *p, const f32 *from, f32 *to, i64 panel, i64 k_count,
                         const int width)
{
    i64 count = MIN(p->lines - panel * width, width);
    from += panel * width * p->line;
    to += panel * k_count * width;
    if (width == NR) pack_panel(to, from, p->line, count, k_count);
    else pack_columns(to, width, from, p->line, count, k_count, width);
}

V_INLINE void pack_operand(const struct job *job, const struct packed *p, i64 block,
                           const int width)
{
    i64        each  = p->step == 1 ? p->panels : fast_div_up(job->k_count, STEPS);
    i64        batch = block / each, i = block % each;
    const f32 *from = p->m.data + batch * p->m.step + job->k * p->step;
    f32       *to   = p->data + batch * p->panels * job->k_count * width;
    if (p->step == 1) {
        pack_lines(p, from, to, i, job->k_count, width);
    } else {
        i64 end = MIN((i + 1) * STEPS, job->k_count);
        pack_steps(p, from, to, i * STEPS, end, job->k_count, width);
    }
}

static i64 pack_blocks(const struct job *job, const struct packed *p)
{
    if (!p->data) return 0;
    return job->g->batch * (p->step == 1 ? p->panels : fast_div_up(job->k_count, STEPS));
}

static void pack_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct job *job = context;
    if (block < job->b_blocks) pack_operand(job, &job->b, block, NR);
    else pack_operand(job, &job->a, block - job->b_blocks, MR);
}

/* Steps [k, k + kc) of a block, counted from the beginning of the slice. */
static void run_packed_steps(const struct job *job, const struct part *p, i64 k)
{
    const struct gemm *g     = job->g;
    bool               first = job->k + k == 0, in_place = !job->a.data;
    struct tile        t = { .K        = MIN(job->kc, job->k_count - k),
                             .b_row    = NR,
                             .c_row    = g->N,
                             .a_row    = in_place ? g->a.row : 1,
                             .a_col    = in_place ? g->a.col : MR,
                             .from_row = first ? 0 : g->N };
    for (i64 n = p->n; n < p->n_end; n += NR) {
        i64 count = MIN(p->n_end - n, NR), nv = fast_div_up(count, V_LANES);
        i64 panel = p->batch * job->b.panels + n / NR;
        t.b       = job->b.data + (panel * job->k_count + k) * NR;
        t.last    = count - (nv - 1) * V_LANES;
        for (i64 m = p->m; m < p->m_end; m += MR) {
            i64 a_panel = p->batch * job->a.panels + m / MR;
            t.a         = in_place ? p->a + m * g->a.row + (job->k + k) * g->a.col
                                   : job->a.data + (a_panel * job->k_count + k) * MR;
            t.c         = p->c + m * g->N + n;
            t.from      = first ? begin_of(g, n) : t.c;
            tile_any(&t, MIN(p->m_end - m, MR), nv);
        }
    }
}

static void run_packed_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct job *job = context;
    struct part       p   = part_of(job, block);
    for (i64 k = 0; k < job->k_count; k += job->kc) run_packed_steps(job, &p, k);
    if (job->k + job->k_count == job->g->K) finish(job->g, &p);
}

/* MR rows that lie a multiple of 4 KiB apart would fight for one set of the first cache; and
 * along a transposed A each step of K is on another page. Else A is as good in place. */
static bool wants_packed_a(const struct gemm *g)
{
    return g->a.col != 1 || (g->a.row + 16) % 1024 < 32;
}

static i64 kc_of(const struct gemm *g) { return fast_div_up(g->K, fast_div_up(g->K, KC_MAX)); }

/* Floats packed for one step of K. */
static i64 a_step_floats(const struct gemm *g)
{
    return wants_packed_a(g) ? g->batch * packed_a(g).panels * MR : 0;
}

static i64 b_step_floats(const struct gemm *g) { return g->batch * packed_b(g).panels * NR; }

/* Operands are packed a slice of K at a time, so that they do not leave the caches before they are
 * used; but C is passed again for each slice. */
static i64 slice_of(const struct gemm *g)
{
    i64 kc = kc_of(g), steps = SLICE_FLOATS / (a_step_floats(g) + b_step_floats(g));
    return MIN(g->K, MAX(steps / kc, 1) * kc);
}

static i64 packed_floats(const struct gemm *g)
{
    return (a_step_floats(g) + b_step_floats(g)) * slice_of(g);
}

static void run_packed(const struct gemm *g, struct pool *pool, f32 *work)
{
    struct job job        = { .g = g, .kc = kc_of(g), .a = packed_a(g), .b = packed_b(g) };
    i64        row_blocks = fast_div_up(g->M, MC) * g->batch, slice = slice_of(g);
    job.b.data = work;
    job.a.data = wants_packed_a(g) ? work + b_step_floats(g) * slice : NULL;
    /* All columns in a block, unless that leaves fewer blocks than a few cores can share. */
    job_cut(&job, MC, fast_div_up(job.b.panels, fast_div_up(BLOCKS_WANTED, row_blocks)) * NR);
    for (; job.k < g->K; job.k += job.k_count) {
        job.k_count  = MIN(slice, g->K - job.k);
        job.b_blocks = pack_blocks(&job, &job.b);
        i64 to_pack  = job.b_blocks + pack_blocks(&job, &job.a);
        if (flops_of(g) < SMALL_FLOPS) {
            fast_alone(to_pack, pack_block, &job);
            fast_alone(job_blocks(&job), run_packed_block, &job);
        } else {
            pool_run(pool, to_pack, pack_block, &job);
            pool_run(pool, job_blocks(&job), run_packed_block, &job);
        }
    }
}

/* ---- direct */

/* nv vectors of columns from n on, steps [k, k + K). */
static void run_direct_columns(const struct gemm *g, const struct part *p, i64 n, i64 nv, i64 k,
                               i64 K)
{
    struct tile t = { .K        = K,
                      .a_row    = g->a.row,
                      .a_col    = g->a.col,
                      .b_row    = g->b.row,
                      .b        = p->b + k * g->b.row + n,
                      .c_row    = g->N,
                      .from_row = k ? g->N : 0,
                      .last     = V_LANES };
    for (i64 m = p->m; m < p->m_end; m += MR) {
        t.a    = p->a + m * g->a.row + k * g->a.col;
        t.c    = p->c + m * g->N + n;
        t.from = k ? t.c : begin_of(g, n);
        tile_any(&t, MIN(p->m_end - m, MR), nv);
    }
}

/* Needs V_LANES columns in the block. Those that do not fill a vector are done in the end, all
 * steps at once, as the last V_LANES of the block: some for the second time. */
static void run_direct_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct job  *job = context;
    const struct gemm *g   = job->g;
    struct part        p   = part_of(job, block);
    i64                end = p.n + (p.n_end - p.n) / V_LANES * V_LANES;
    for (i64 k = 0; k < g->K; k += job->kc)
        for (i64 n = p.n; n < end; n += NR)
            run_direct_columns(g, &p, n, MIN((end - n) / V_LANES, NV), k, MIN(job->kc, g->K - k));
    if (end < p.n_end) run_direct_columns(g, &p, p.n_end - V_LANES, 1, 0, g->K);
}

/* ---- dot */

enum { DOT_ROWS = V_LANES / 4, DOT_COLUMNS = 4 }; /* V_LANES accumulators */

struct dot { /* where DOT_ROWS rows of A and DOT_COLUMNS columns of B begin */
    const f32 *a[DOT_ROWS], *b[DOT_COLUMNS];
};

V_INLINE void dot_step(vf *acc, const struct dot *d, i64 k, i64 steps, const bool whole)
{
    vf x[DOT_COLUMNS];
    for (int j = 0; j < DOT_COLUMNS; j++)
        x[j] = whole ? v_load(d->b[j] + k) : v_load_n(d->b[j] + k, steps);
    for (int i = 0; i < DOT_ROWS; i++) {
        vf y = whole ? v_load(d->a[i] + k) : v_load_n(d->a[i] + k, steps);
        for (int j = 0; j < DOT_COLUMNS; j++)
            acc[i * DOT_COLUMNS + j] = v_fma(y, x[j], acc[i * DOT_COLUMNS + j]);
    }
}

static vf dot_tile(struct dot d, i64 K)
{
    vf  acc[V_LANES] = { 0 };
    i64 k            = 0;
    for (; k + V_LANES <= K; k += V_LANES) dot_step(acc, &d, k, 0, true);
    if (k < K) dot_step(acc, &d, k, K - k, false);
    return v_sums(acc);
}

/* At the edges a row or column that is not there stands for the last one, and is not stored. */
static void run_dot_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct job  *job = context;
    const struct gemm *g   = job->g;
    struct part        p   = part_of(job, block);
    for (i64 n = p.n; n < p.n_end; n += DOT_COLUMNS) {
        i64        columns = MIN(p.n_end - n, DOT_COLUMNS);
        struct dot d;
        f32        bias[DOT_COLUMNS] = { 0 };
        for (i64 j = 0; j < DOT_COLUMNS; j++) d.b[j] = p.b + MIN(n + j, p.n_end - 1) * g->b.col;
        for (i64 j = 0; g->bias && j < columns; j++) bias[j] = g->bias[n + j];
        for (i64 m = p.m; m < p.m_end; m += DOT_ROWS) {
            f32 sums[V_LANES];
            for (i64 i = 0; i < DOT_ROWS; i++) d.a[i] = p.a + MIN(m + i, p.m_end - 1) * g->a.row;
            v_store(sums, dot_tile(d, g->K));
            for (i64 i = 0; i < MIN(p.m_end - m, DOT_ROWS); i++)
                for (i64 j = 0; j < columns; j++)
                    p.c[(m + i) * g->N + n + j] = sums[i * DOT_COLUMNS + j] + bias[j];
        }
    }
}

/* ---- which way */

enum way { WAY_PACKED, WAY_DIRECT, WAY_DOT };

/* The limits were measured: bench/results/gemm.md. Far beyond the second cache, dot reads B once
 * where packing would write it again; direct suffers from the pages that columns of a long B
 * cross. */
static enum way way_of(const struct gemm *g)
{
    i64  b_count = g->K * g->N, million = 1024 * 1024;
    bool few_rows = g->M <= 32 || g->N < 8 || (g->M <= 96 && b_count > million);
    if (g->b.col != 1 && g->a.col == 1 && few_rows) return WAY_DOT;
    bool once_is_dear = g->M <= 512 && b_count <= million; /* copying B to use it so little */
    if (g->b.col == 1 && g->N >= V_LANES && once_is_dear) return WAY_DIRECT;
    return WAY_PACKED;
}

/* Blocks of one to four million operations: 10 to 30 microseconds. The last block of columns is
 * whole, or has V_LANES at least, as direct needs. */
static void cut_evenly(struct job *job, i64 columns)
{
    i64 N = job->g->N, M = job->g->M, rows = MC;
    f64 each = 2.0 * (f64)job->g->K;
    while (each * (f64)(rows * columns) > 4 * SMALL_FLOPS && rows > 2 * MR) rows /= 2;
    while (each * (f64)(rows * columns) < SMALL_FLOPS && rows < M) rows *= 2;
    while (each * (f64)(rows * columns) < SMALL_FLOPS && columns < N) columns *= 2;
    while (columns < N && N % columns > 0 && N % columns < V_LANES) columns += NR;
    job_cut(job, rows, columns);
}

static i64 work_bytes(const struct call *c)
{
    struct gemm g = gemm_of(c);
    return way_of(&g) == WAY_PACKED ? packed_floats(&g) * (i64)sizeof(f32) : 0;
}

static void run(const struct call *c)
{
    struct gemm g   = gemm_of(c);
    struct job  job = { .g = &g };
    switch (way_of(&g)) {
    case WAY_PACKED: run_packed(&g, c->pool, c->work); break;
    case WAY_DIRECT:
        job.kc = kc_of(&g);
        cut_evenly(&job, 2 * NR);
        pool_run(c->pool, job_blocks(&job), run_direct_block, &job);
        ISA_FN(then_all)(c);
        break;
    case WAY_DOT:
        cut_evenly(&job, 4 * DOT_COLUMNS);
        pool_run(c->pool, job_blocks(&job), run_dot_block, &job);
        ISA_FN(then_all)(c);
        break;
    }
}

const struct kernel ISA_FN(kernels_gemm)[] = {
    { OP_MATMUL, "gemm_" ISA_NAME, ISA_HERE, gemm_takes, run, work_bytes },
};
const i32 ISA_COUNT(kernels_gemm) = (i32)COUNT_OF(ISA_FN(kernels_gemm));
