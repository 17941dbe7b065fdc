/* sum_impl.h - sums along axes, and the gradient of a table of embeddings, which is one.
 *
 * sum: x is [outer, middle, inner], middle goes. Where middle is long it is cut into parts, each
 * summed into its own row of the workspace, and the rows are added in order.
 *
 * embedding_grad: most of it is zeros. The table is cut into ranges of rows; ids are sorted by
 * range, in their order (a counting sort in fixed shares); then each range is zeroed and its rows
 * of dy are added while it lies in the cache. */
#include "backend/cpu/fast/fast.h"
#include "backend/cpu/fast/rows.h"

enum {
    SUM_ITEMS = 32 * 1024, /* in a block */
    PARTS_MAX = 32,        /* of middle */
};

struct sum {
    const f32 *x;
    f32       *y;
    f32       *parts; /* [parts_count][outer][inner], if there are several */
    i64        outer, middle, inner;
    i64        parts_count, part; /* part: how much of middle is in one */
    i64        each;              /* of [parts_count][outer] in one block */
};

static struct sum sum_of(const struct call *c)
{
    struct shape s    = c->in[0].type.shape;
    i32          from = (i32)c->at->axis, to = from + (i32)c->at->count;
    struct sum   m = { .x = c->in[0].data, .y = c->out[0].data, .parts = c->work };
    m.outer        = shape_span(s, 0, from);
    m.middle       = shape_span(s, from, to);
    m.inner        = shape_span(s, to, s.rank);
    i64 wanted     = m.outer < PARTS_MAX ? m.middle * m.inner / SUM_ITEMS : 1;
    m.part         = fast_div_up(m.middle, MAX(1, MIN(wanted, PARTS_MAX)));
    m.parts_count  = m.middle ? fast_div_up(m.middle, m.part) : 1;
    m.each         = fast_items(m.outer * m.parts_count, m.part * m.inner, SUM_ITEMS);
    return m;
}

static void sum_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct sum *s = context;
    i64               i = block * s->each, end = MIN(i + s->each, s->outer * s->parts_count);
    for (; i < end; i++) {
        i64        part = i / s->outer, outer = i % s->outer, first = part * s->part;
        i64        rows = MIN(s->part, s->middle - first);
        const f32 *x    = s->x + (outer * s->middle + first) * s->inner;
        f32       *y    = (s->parts_count > 1 ? s->parts : s->y) + i * s->inner;
        if (s->inner == 1) *y = row_sum(x, rows);
        else rows_add(y, x, rows, s->inner, s->inner);
    }
}

static i64 sum_work(const struct call *c)
{
    struct sum s = sum_of(c);
    if (s.parts_count == 1) return 0;
    return s.parts_count * s.outer * s.inner * (i64)sizeof(f32);
}

static void sum(const struct call *c)
{
    struct sum s = sum_of(c);
    pool_run(c->pool, fast_div_up(s.outer * s.parts_count, s.each), sum_block, &s);
    if (s.parts_count > 1) {
        i64 width = s.outer * s.inner;
        rows_add(s.y, s.parts, s.parts_count, width, width);
    }
}

/* ---- embedding_grad */

enum {
    RANGES_MIN   = 64, /* of rows, where there are so many */
    RANGES_MAX   = 4096,
    RANGE_FLOATS = 32 * 1024, /* 128 KiB: half of a small second cache */
    SHARES_MAX   = 16,        /* of ids, for sorting */
    SHARE_IDS    = 4096,
};

struct scatter {
    const f32 *dy;
    const i32 *ids;
    f32       *to;
    i64        ids_count, rows, width;
    i64        range, ranges; /* rows in one, a power of two; how many */
    i32        shift;         /* row >> shift is its range */
    i64        share, shares; /* ids in one; how many */
    i32       *start;         /* [shares][ranges]: first counts, then places in `order` */
    i32       *end;           /* [ranges]: where a range ends in `order` */
    i32       *order;         /* [ids]: indices of ids, sorted by range */
};

static struct scatter scatter_of(const struct call *c)
{
    struct shape   s = c->out[0].type.shape;
    struct scatter t = { .dy = c->in[0].data, .ids = c->in[1].data, .to = c->out[0].data };
    t.ids_count      = shape_count(c->in[1].type.shape);
    t.rows           = s.dim[0];
    t.width          = s.dim[1];
    i64 wanted       = MIN(t.rows / RANGES_MIN, RANGE_FLOATS / MAX(1, t.width));
    while ((i64)1 << t.shift < MAX(wanted, fast_div_up(t.rows, RANGES_MAX))) t.shift++;
    t.range  = (i64)1 << t.shift;
    t.ranges = fast_div_up(t.rows, t.range);
    t.share  = MAX(SHARE_IDS, fast_div_up(t.ids_count, SHARES_MAX));
    t.shares = MAX(1, fast_div_up(t.ids_count, t.share));
    t.start  = c->work;
    t.end    = t.start ? t.start + t.shares * t.ranges : NULL;
    t.order  = t.end ? t.end + t.ranges : NULL;
    return t;
}

static void count_ids(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct scatter *t     = context;
    i32                  *count = t->start + block * t->ranges;
    i64                   i = block * t->share, end = MIN(i + t->share, t->ids_count);
    memset(count, 0, (size_t)t->ranges * sizeof *count);
    for (; i < end; i++) {
        ASSERT(t->ids[i] >= 0 && t->ids[i] < t->rows);
        count[t->ids[i] >> t->shift]++;
    }
}

static void place_shares(const struct scatter *t)
{
    i32 at = 0;
    for (i64 r = 0; r < t->ranges; r++) {
        for (i64 s = 0; s < t->shares; s++) {
            i32 count                   = t->start[s * t->ranges + r];
            t->start[s * t->ranges + r] = at;
            at += count;
        }
        t->end[r] = at;
    }
}

static void sort_ids(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct scatter *t     = context;
    i32                  *start = t->start + block * t->ranges;
    i64                   i = block * t->share, end = MIN(i + t->share, t->ids_count);
    for (; i < end; i++) t->order[start[t->ids[i] >> t->shift]++] = (i32)i;
}

static void add_range(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct scatter *t     = context;
    i64                   first = block * t->range, rows = MIN(t->range, t->rows - first);
    memset(t->to + first * t->width, 0, (size_t)(rows * t->width) * sizeof *t->to);
    for (i64 k = block ? t->end[block - 1] : 0; k < t->end[block]; k++) {
        const f32 *x = t->dy + t->order[k] * t->width;
        f32       *y = t->to + t->ids[t->order[k]] * t->width;
        i64        i = 0;
        for (; i + V_LANES <= t->width; i += V_LANES) v_store(y + i, v_load(y + i) + v_load(x + i));
        for (; i < t->width; i++) y[i] += x[i];
    }
}

static bool embedding_grad_takes(const struct call *c)
{
    return fast_ids_at(c, 1) && shape_count(c->in[1].type.shape) < INT32_MAX;
}

static i64 embedding_grad_work(const struct call *c)
{
    struct scatter t = scatter_of(c);
    return ((t.shares + 1) * t.ranges + t.ids_count) * (i64)sizeof(i32);
}

static void embedding_grad(const struct call *c)
{
    struct scatter t = scatter_of(c);
    pool_run(c->pool, t.shares, count_ids, &t);
    place_shares(&t);
    pool_run(c->pool, t.shares, sort_ids, &t);
    if ((t.rows + t.ids_count) * t.width < SUM_ITEMS) fast_alone(t.ranges, add_range, &t);
    else pool_run(c->pool, t.ranges, add_range, &t);
}

const struct kernel ISA_FN(kernels_sum)[] = {
    { OP_SUM, "sum_" ISA_NAME, ISA_HERE, fast_all_f32, sum, sum_work },
    { OP_EMBEDDING_GRAD, "sum_" ISA_NAME, ISA_HERE, embedding_grad_takes, embedding_grad,
      embedding_grad_work },
};
const i32 ISA_COUNT(kernels_sum) = (i32)COUNT_OF(ISA_FN(kernels_sum));
