/* gemm_impl.h - the matrix product for one instruction set; gemm.h tells the story. */
#include "backend/cpu/fast/gemm.h"
#include "backend/cpu/fast/gemm_tile.h"

/* A block of A is MC by KC_MAX numbers: 96 KiB, which stay in the second cache while the panels
 * pass. */
enum { MC = 64, KC_MAX = 384, SLICE_FLOATS = 1024 * 1024, BLOCKS_WANTED = 16 };

/* ---- the grid: C is cut into blocks of `rows` by `columns`, whatever the number of threads */

struct job {
    const struct gemm *g;
    i64                rows, columns; /* of a block; columns are whole panels */
    i64                row_blocks, column_blocks;
    i64                k, k_count;    /* the slice of K at work now */
    i64                kc;            /* steps of it at a time */
    bool               pack_a;
    f32               *b_packed;      /* [batch][panels][k_count][NR] */
    f32               *a_packed;      /* [threads][MC * KC_MAX] */
};

struct part { /* one block: rows [m, m_end) and columns [n, n_end) of product `batch` */
    i64        m, m_end, n, n_end;
    i64        batch;
    const f32 *a, *b;
    f32       *c;
};

static i64 div_up(i64 a, i64 b) { return (a + b - 1) / b; }
static i64 panel_count(const struct gemm *g) { return div_up(g->N, NR); }

/* What the sums of columns n .. begin with. */
static const f32 *begin_of(const struct gemm *g, i64 n) { return g->bias ? g->bias + n : tile_zeros; }

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

static void job_cut(struct job *job, i64 rows, i64 columns)
{
    job->rows          = rows;
    job->columns       = columns;
    job->row_blocks    = div_up(job->g->M, rows);
    job->column_blocks = div_up(job->g->N, columns);
}

static i64 job_blocks(const struct job *job)
{
    return job->g->batch * job->row_blocks * job->column_blocks;
}

/* ---- packed */

/* Rows of `count` <= NR numbers, `row` apart, become rows of NR, filled up with zeros. */
static void pack_rows(f32 *to, const f32 *from, i64 row, i64 count, i64 K)
{
    for (i64 k = 0; k < K; k++, to += NR, from += row) {
        for (int j = 0; j < NV; j++) {
            i64 n = MIN(count - j * V_LANES, V_LANES);
            v_store(to + j * V_LANES, n > 0 ? v_load_n(from + j * V_LANES, n) : v_zero());
        }
    }
}

static void pack_b_panel(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct job  *job   = context;
    const struct gemm *g     = job->g;
    i64                panel = block % panel_count(g), batch = block / panel_count(g);
    i64                n = panel * NR, count = MIN(g->N - n, NR);
    const f32 *from = g->b.data + batch * g->b.step + n * g->b.col + job->k * g->b.row;
    f32       *to   = job->b_packed + block * job->k_count * NR;
    if (g->b.col == 1) pack_rows(to, from, g->b.row, count, job->k_count);
    else pack_panel(to, from, g->b.col, count, job->k_count);
}

/* `rows` rows of A for K steps become panels of MR rows, each step's MR numbers together. */
static void pack_a(f32 *to, const f32 *from, i64 row, i64 col, i64 rows, i64 K)
{
    i64 whole = rows / MR * MR, rest = rows - whole;
    if (col == 1) {
        for (i64 i = 0; i < rows; i += MR)
            pack_columns(to + i * K, MR, from + i * row, row, MIN(rows - i, MR), K, MR);
        return;
    }
    for (i64 k = 0; k < K; k++, from += col) {
        for (i64 i = 0; i < whole; i += MR)
            memcpy(to + i * K + k * MR, from + i, MR * sizeof *to);
        if (rest) memcpy(to + whole * K + k * MR, from + whole, (size_t)rest * sizeof *to);
    }
}

/* Steps [k, k + K) of a block, counted from the beginning of the slice. */
static void run_packed_steps(const struct job *job, const struct part *p, i64 k, f32 *buffer)
{
    const struct gemm *g     = job->g;
    bool               first = job->k + k == 0;
    const f32         *a     = p->a + p->m * g->a.row + (job->k + k) * g->a.col;
    struct tile t = { .K = MIN(job->kc, job->k_count - k), .b_row = NR, .c_row = g->N,
                      .a_row = job->pack_a ? 1 : g->a.row, .a_col = job->pack_a ? MR : 1,
                      .from_row = first ? 0 : g->N };
    if (job->pack_a) pack_a(buffer, a, g->a.row, g->a.col, p->m_end - p->m, t.K);
    for (i64 n = p->n; n < p->n_end; n += NR) {
        i64 count = MIN(p->n_end - n, NR), nv = div_up(count, V_LANES);
        i64 panel = p->batch * panel_count(g) + n / NR;
        t.b       = job->b_packed + (panel * job->k_count + k) * NR;
        t.last    = count - (nv - 1) * V_LANES;
        for (i64 m = 0; m < p->m_end - p->m; m += MR) {
            t.a    = job->pack_a ? buffer + m * t.K : a + m * g->a.row;
            t.c    = p->c + (p->m + m) * g->N + n;
            t.from = first ? begin_of(g, n) : t.c;
            tile_any(&t, MIN(p->m_end - p->m - m, MR), nv);
        }
    }
}

static void run_packed_block(void *context, i64 block, i32 worker)
{
    const struct job *job = context;
    struct part       p   = part_of(job, block);
    for (i64 k = 0; k < job->k_count; k += job->kc)
        run_packed_steps(job, &p, k, job->a_packed + (i64)worker * MC * KC_MAX);
}

static i64 kc_of(const struct gemm *g) { return div_up(g->K, div_up(g->K, KC_MAX)); }

/* B is packed a slice of K at a time, so that it does not leave the caches before it is used; but C
 * is written again for each slice. */
static i64 slice_of(const struct gemm *g)
{
    i64 steps = SLICE_FLOATS / (panel_count(g) * NR) / kc_of(g) * kc_of(g);
    return MIN(g->K, MAX(steps, kc_of(g)));
}

static i64 b_packed_floats(const struct gemm *g)
{
    return g->batch * panel_count(g) * NR * slice_of(g);
}

/* MR rows that lie a multiple of 4 KiB apart would fight for one set of the first cache; and along a
 * transposed A each step of K is on another page. */
static bool wants_packed_a(const struct gemm *g)
{
    return g->a.col != 1 || (g->a.row + 16) % 1024 < 32;
}

static void run_packed(const struct gemm *g, struct pool *pool, f32 *work)
{
    struct job job = { .g = g, .b_packed = work, .a_packed = work + b_packed_floats(g) };
    job.kc         = kc_of(g);
    job.pack_a     = wants_packed_a(g);
    /* All columns in a block, unless that leaves fewer blocks than a few cores can share. */
    i64 panels = panel_count(g), row_blocks = div_up(g->M, MC) * g->batch;
    job_cut(&job, MC, div_up(panels, div_up(BLOCKS_WANTED, row_blocks)) * NR);
    for (; job.k < g->K; job.k += job.k_count) {
        job.k_count = MIN(slice_of(g), g->K - job.k);
        pool_run(pool, g->batch * panels, pack_b_panel, &job);
        pool_run(pool, job_blocks(&job), run_packed_block, &job);
    }
}

/* ---- direct */

/* nv vectors of columns from n on, steps [k, k + K). */
static void run_direct_columns(const struct gemm *g, const struct part *p, i64 n, i64 nv, i64 k,
                               i64 K)
{
    struct tile t = { .K = K, .a_row = g->a.row, .a_col = g->a.col, .b_row = g->b.row,
                      .b = p->b + k * g->b.row + n, .c_row = g->N, .from_row = k ? g->N : 0,
                      .last = V_LANES };
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
        for (i64 j = 0; j < DOT_COLUMNS; j++)
            d.b[j] = p.b + MIN(n + j, p.n_end - 1) * g->b.col;
        for (i64 j = 0; g->bias && j < columns; j++) bias[j] = g->bias[n + j];
        for (i64 m = p.m; m < p.m_end; m += DOT_ROWS) {
            f32 sums[V_LANES];
            for (i64 i = 0; i < DOT_ROWS; i++)
                d.a[i] = p.a + MIN(m + i, p.m_end - 1) * g->a.row;
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
 * where packing would write it again; direct suffers from the pages that columns of a long B cross. */
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
    while (each * (f64)(rows * columns) > 4e6 && rows > 2 * MR) rows /= 2;
    while (each * (f64)(rows * columns) < 1e6 && rows < M) rows *= 2;
    while (each * (f64)(rows * columns) < 1e6 && columns < N) columns *= 2;
    while (columns < N && N % columns > 0 && N % columns < V_LANES) columns += NR;
    job_cut(job, rows, columns);
}

static i64 work_bytes(const struct call *c)
{
    struct gemm g = gemm_of(c);
    if (way_of(&g) != WAY_PACKED) return 0;
    return (b_packed_floats(&g) + (i64)pool_threads(c->pool) * MC * KC_MAX) * (i64)sizeof(f32);
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
        break;
    case WAY_DOT:
        cut_evenly(&job, 4 * DOT_COLUMNS);
        pool_run(c->pool, job_blocks(&job), run_dot_block, &job);
        break;
    }
}

const struct kernel ISA_FN(kernels_gemm)[] = {
    { OP_MATMUL, "gemm_" ISA_NAME, ISA_HERE, gemm_takes, run, work_bytes },
};
const i32 ISA_COUNT(kernels_gemm) = (i32)COUNT_OF(ISA_FN(kernels_gemm));
