/* batchnorm_impl.h - batch norm forward, for evaluation, and backward, at the speed of memory.
 *
 * Each direction reads its operands twice: once for the sums of every channel, once for the
 * result. Sums are taken block by block: a block of rows stays in the second cache, so that it can be
 * summed around its own mean, or nearly (a running sum of x*x would lose the variance of channels
 * whose mean is large). The blocks' sums are merged in f64, in order.
 *
 * Few channels would leave vectors and registers empty, so k rows of C channels are seen as one
 * row of k*C columns where that fits; a channel then has k columns, merged like blocks are. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/storage.h"

enum {
    GROUP_VECTORS  = 4, /* columns in registers at a time */
    GROUP          = GROUP_VECTORS * V_LANES,
    BLOCK_FLOATS   = 16 * 1024, /* 64 KiB of each operand */
    BLOCK_ROWS_MIN = 64,
    MERGE_CHANNELS = 64, /* merged by one block of work */
    SUMS           = 3,  /* kept of each column of each block */
    FACTORS        = 4,  /* of each column, for reading */
};

struct norm {
    const struct call *call;
    const void        *x, *dy;
    void              *out;
    i64                channels, columns, rows; /* rows of `columns` */
    i64                block_rows, blocks;
    f32               *factors; /* [FACTORS][columns] */
    f32               *sums;    /* [blocks][SUMS][columns] */
};

static struct norm norm_of(const struct call *c)
{
    struct shape s = c->in[0].type.shape;
    struct norm  n = { .call = c, .channels = shape_last(s), .rows = shape_rows(s) };
    for (n.columns = n.channels; n.columns * 2 <= GROUP && n.rows % 2 == 0; n.rows /= 2)
        n.columns *= 2;
    n.block_rows = MAX(BLOCK_ROWS_MIN, BLOCK_FLOATS / n.columns);
    n.blocks     = (n.rows + n.block_rows - 1) / n.block_rows;
    n.out        = c->out[0].data;
    n.factors    = c->work;
    if (c->work) n.sums = n.factors + FACTORS * n.columns;
    return n;
}

static bool takes(const struct call *c) { return stored(c) && c->in[0].count > 0; }

static i64 work(const struct call *c)
{
    struct norm n = norm_of(c);
    return (FACTORS + n.blocks * SUMS) * n.columns * (i64)sizeof(f32);
}

static i64 work_eval(const struct call *c)
{
    return FACTORS * norm_of(c).columns * (i64)sizeof(f32);
}

/* ---- leaves: a few columns of one block ---- */

/* What a leaf sees: all pointers are at its first row and column. */
struct patch {
    const void *x, *dy;
    void       *out;
    f32        *sums;
    const f32  *factors;
    i64         rows, columns; /* columns: from one row, sum or factor to the next */
    i64         lanes;         /* of the last vector */
};

V_INLINE vm lanes_of(const struct patch *p, int v, int vectors)
{
    return v < vectors - 1 ? v_all : v_first(p->lanes);
}

V_INLINE vf get(const struct patch *p, const void *from, i64 i, int v, int vectors,
                const enum dtype t)
{
    return v_get(from, i + v * V_LANES, lanes_of(p, v, vectors), t);
}

V_INLINE void put(const struct patch *p, void *to, i64 i, vf value, int v, int vectors,
                  const enum dtype t)
{
    v_put(to, i + v * V_LANES, value, lanes_of(p, v, vectors), t);
}

V_INLINE void get_factors(const struct patch *p, i64 index, vf *to, int vectors)
{
    for (int v = 0; v < vectors; v++)
        to[v] = get(p, p->factors, index * p->columns, v, vectors, DT_F32);
}

V_INLINE void put_sums(const struct patch *p, i64 index, const vf *from, int vectors)
{
    for (int v = 0; v < vectors; v++)
        put(p, p->sums, index * p->columns, from[v], v, vectors, DT_F32);
}

/* The block's mean as far as f32 sums tell; its sum, and that of squares, around that. */
V_INLINE void sum_forward(const struct patch *p, const int vectors, const enum dtype t)
{
    vf mean[GROUP_VECTORS] = { 0 }, sum[GROUP_VECTORS] = { 0 }, square[GROUP_VECTORS] = { 0 };
    for (i64 i = 0; i < p->rows * p->columns; i += p->columns)
        for (int v = 0; v < vectors; v++) mean[v] += get(p, p->x, i, v, vectors, t);
    for (int v = 0; v < vectors; v++) mean[v] *= v_set(1 / (f32)p->rows);
    for (i64 i = 0; i < p->rows * p->columns; i += p->columns)
        for (int v = 0; v < vectors; v++) {
            vf d = get(p, p->x, i, v, vectors, t) - mean[v];
            sum[v] += d;
            square[v] = v_fma(d, d, square[v]);
        }
    put_sums(p, 0, mean, vectors);
    put_sums(p, 1, sum, vectors);
    put_sums(p, 2, square, vectors);
}

/* The block's sum of dy, and of dy * (x - mean). Factors: mean. */
V_INLINE void sum_backward(const struct patch *p, const int vectors, const enum dtype t)
{
    vf sum[GROUP_VECTORS] = { 0 }, product[GROUP_VECTORS] = { 0 }, mean[GROUP_VECTORS];
    get_factors(p, 0, mean, vectors);
    for (i64 i = 0; i < p->rows * p->columns; i += p->columns)
        for (int v = 0; v < vectors; v++) {
            vf dy = get(p, p->dy, i, v, vectors, t);
            sum[v] += dy;
            product[v] = v_fma(dy, get(p, p->x, i, v, vectors, t) - mean[v], product[v]);
        }
    put_sums(p, 0, sum, vectors);
    put_sums(p, 1, product, vectors);
}

/* y = (x - mean) * a + b. Factors: mean, a, b. */
V_INLINE void apply_forward(const struct patch *p, const int vectors, const enum dtype t)
{
    vf mean[GROUP_VECTORS], a[GROUP_VECTORS], b[GROUP_VECTORS];
    get_factors(p, 0, mean, vectors);
    get_factors(p, 1, a, vectors);
    get_factors(p, 2, b, vectors);
    for (i64 i = 0; i < p->rows * p->columns; i += p->columns)
        for (int v = 0; v < vectors; v++) {
            vf d = get(p, p->x, i, v, vectors, t) - mean[v];
            put(p, p->out, i, v_fma(d, a[v], b[v]), v, vectors, t);
        }
}

/* dx = (x - mean) * a + dy * b + c. Factors: mean, a, b, c. */
V_INLINE void apply_backward(const struct patch *p, const int vectors, const enum dtype t)
{
    vf mean[GROUP_VECTORS], a[GROUP_VECTORS], b[GROUP_VECTORS], c[GROUP_VECTORS];
    get_factors(p, 0, mean, vectors);
    get_factors(p, 1, a, vectors);
    get_factors(p, 2, b, vectors);
    get_factors(p, 3, c, vectors);
    for (i64 i = 0; i < p->rows * p->columns; i += p->columns)
        for (int v = 0; v < vectors; v++) {
            vf d = v_fma(get(p, p->x, i, v, vectors, t) - mean[v], a[v], c[v]);
            vf y = v_fma(get(p, p->dy, i, v, vectors, t), b[v], d);
            put(p, p->out, i, y, v, vectors, t);
        }
}

V_INLINE struct patch patch_of(const struct norm *n, i64 block, i64 column, const enum dtype t)
{
    i64 row = block * n->block_rows, at = row * n->columns + column;
    return (struct patch){
        .x       = v_at(n->x, at, t),
        .dy      = n->dy ? v_at(n->dy, at, t) : NULL,
        .out     = v_at(n->out, at, t),
        .sums    = n->sums ? n->sums + block * SUMS * n->columns + column : NULL,
        .factors = n->factors + column,
        .rows    = MIN(n->block_rows, n->rows - row),
        .columns = n->columns,
        .lanes   = (MIN(GROUP, n->columns - column) - 1) % V_LANES + 1,
    };
}

/* LEAF_block: the leaf over all columns of one block of rows. */
#define BLOCK(leaf)                                                                                \
    V_INLINE void leaf##_block(const struct norm *n, i64 block, const enum dtype t)                \
    {                                                                                              \
        for (i64 column = 0; column < n->columns; column += GROUP) {                               \
            struct patch p = patch_of(n, block, column, t);                                        \
            switch ((MIN(GROUP, n->columns - column) - 1) / V_LANES) {                             \
            case 0: leaf(&p, 1, t); break;                                                         \
            case 1: leaf(&p, 2, t); break;                                                         \
            case 2: leaf(&p, 3, t); break;                                                         \
            case 3: leaf(&p, 4, t); break;                                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    BY_STORAGE(leaf##_block)

BLOCK(sum_forward)
BLOCK(sum_backward)
BLOCK(apply_forward)
BLOCK(apply_backward)
#undef BLOCK

/* ---- between the two readings: the sums of all blocks become factors ---- */

static f32 item(const struct call *c, i32 input, i64 i)
{
    return ((const f32 *)c->in[input].data)[i];
}

static void set_result(const struct call *c, i32 result, i64 i, f64 value)
{
    ((f32 *)c->out[result].data)[i] = (f32)value;
}

static void set_factors(const struct norm *n, i64 channel, f64 mean, f64 a, f64 b, f64 c)
{
    const f64 values[FACTORS] = { mean, a, b, c };
    for (i64 i = channel; i < n->columns; i += n->channels)
        for (i64 k = 0; k < FACTORS; k++) n->factors[k * n->columns + i] = (f32)values[k];
}

/* Sum `index` of one channel over all blocks. */
static f64 total(const struct norm *n, i64 channel, i64 index)
{
    f64 sum = 0;
    for (i64 b = 0; b < n->blocks; b++)
        for (i64 i = channel; i < n->columns; i += n->channels)
            sum += (f64)n->sums[(b * SUMS + index) * n->columns + i];
    return sum;
}

struct moments {
    f64 mean, square; /* sum of squares around the mean */
};

/* Sums of squares move from one centre to another in f64, which has digits to spare for that. */
static struct moments moments_of(const struct norm *n, i64 channel, f64 rows)
{
    f64 sum = 0, square = 0;
    for (i64 b = 0; b < n->blocks; b++) {
        f64        count = (f64)MIN(n->block_rows, n->rows - b * n->block_rows);
        const f32 *s     = n->sums + b * SUMS * n->columns;
        for (i64 i = channel; i < n->columns; i += n->channels) {
            f64 centre = (f64)s[i], around = (f64)s[n->columns + i];
            sum += count * centre + around;
            square += (f64)s[2 * n->columns + i] + centre * (count * centre + 2 * around);
        }
    }
    return (struct moments){ sum / rows, MAX(0, square - sum / rows * sum) };
}

static f64 rows_of(const struct norm *n) /* of `channels` */
{
    return (f64)n->rows * (f64)(n->columns / n->channels);
}

static void forward_channel(const struct norm *n, i64 i)
{
    const struct call *c    = n->call;
    f64                rows = rows_of(n), m = c->at->momentum;
    struct moments     x    = moments_of(n, i, rows);
    f64                rstd = 1 / sqrt(x.square / rows + c->at->eps);
    f32               *mean = c->in[3].data, *var = c->in[4].data; /* running */
    mean[i] = (f32)((1 - m) * (f64)mean[i] + m * x.mean);
    var[i]  = (f32)((1 - m) * (f64)var[i] + m * x.square / MAX(1, rows - 1));
    set_factors(n, i, x.mean, rstd * (f64)item(c, 1, i), (f64)item(c, 2, i), 0);
    set_result(c, 1, i, x.mean);
    set_result(c, 2, i, rstd);
}

/* dx = w*rstd * (dy - (db + xhat * dw) / rows), xhat = (x - mean) * rstd */
static void backward_channel(const struct norm *n, i64 i)
{
    const struct call *c    = n->call;
    f64                rows = rows_of(n);
    f64                w = (f64)item(c, 2, i), mean = (f64)item(c, 3, i), rstd = (f64)item(c, 4, i);
    f64                db = total(n, i, 0), dw = total(n, i, 1) * rstd;
    set_factors(n, i, mean, -w * rstd * rstd * dw / rows, w * rstd, -w * rstd * db / rows);
    set_result(c, 1, i, dw);
    set_result(c, 2, i, db);
}

static void forward_merge(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct norm *n = context;
    for (i64 i = block * MERGE_CHANNELS; i < MIN(n->channels, (block + 1) * MERGE_CHANNELS); i++)
        forward_channel(n, i);
}

static void backward_merge(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct norm *n = context;
    for (i64 i = block * MERGE_CHANNELS; i < MIN(n->channels, (block + 1) * MERGE_CHANNELS); i++)
        backward_channel(n, i);
}

/* ---- the three ops ---- */

static i64 merge_blocks(const struct norm *n)
{
    return (n->channels + MERGE_CHANNELS - 1) / MERGE_CHANNELS;
}

static void forward(const struct call *c)
{
    struct norm n = norm_of(c);
    n.x           = c->in[0].data;
    pool_run(c->pool, n.blocks, sum_forward_block_by[fast_storage(c)], &n);
    pool_run(c->pool, merge_blocks(&n), forward_merge, &n);
    pool_run(c->pool, n.blocks, apply_forward_block_by[fast_storage(c)], &n);
}

static void evaluate(const struct call *c)
{
    struct norm n = norm_of(c);
    n.x           = c->in[0].data;
    n.sums        = NULL;
    for (i64 i = 0; i < n.channels; i++) {
        f64 rstd = 1 / sqrt((f64)item(c, 4, i) + c->at->eps);
        set_factors(&n, i, (f64)item(c, 3, i), rstd * (f64)item(c, 1, i), (f64)item(c, 2, i), 0);
    }
    pool_run(c->pool, n.blocks, apply_forward_block_by[fast_storage(c)], &n);
}

static void backward(const struct call *c)
{
    struct norm n = norm_of(c);
    n.dy          = c->in[0].data;
    n.x           = c->in[1].data;
    for (i64 i = 0; i < n.channels; i++) set_factors(&n, i, (f64)item(c, 3, i), 0, 0, 0);
    pool_run(c->pool, n.blocks, sum_backward_block_by[fast_storage(c)], &n);
    pool_run(c->pool, merge_blocks(&n), backward_merge, &n);
    pool_run(c->pool, n.blocks, apply_backward_block_by[fast_storage(c)], &n);
}

const struct kernel ISA_FN(kernels_batchnorm)[] = {
    { OP_BATCHNORM, ISA_NAME, ISA_HERE, takes, forward, work },
    { OP_BATCHNORM_EVAL, ISA_NAME, ISA_HERE, takes, evaluate, work_eval },
    { OP_BATCHNORM_GRAD, ISA_NAME, ISA_HERE, takes, backward, work },
};
const i32 ISA_COUNT(kernels_batchnorm) = (i32)COUNT_OF(ISA_FN(kernels_batchnorm));
