/* sum_impl.h - sums along axes, and the gradient of a table of embeddings, which is one.
 *
 * sum: x is [outer, middle, inner], middle goes. Where middle is long it is cut into parts, each
 * summed into its own row of the workspace, and the rows are added in order. A result below f32
 * is summed in the workspace, too, and rounded once.
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
    const void *x;
    f32        *y; /* [parts_count][outer][inner]: the workspace, if there is one */
    i64         outer, middle, inner;
    i64         parts_count, part; /* part: how much of middle is in one */
    i64         each;              /* of [parts_count][outer] in one block */
    bool        in_work;
};

static struct sum sum_of(const struct call *c)
{
    struct shape s    = c->in[0].type.shape;
    i32          from = (i32)c->at->axis, to = from + (i32)c->at->count;
    struct sum   m = { .x = c->in[0].data };
    m.outer        = shape_span(s, 0, from);
    m.middle       = shape_span(s, from, to);
    m.inner        = shape_span(s, to, s.rank);
    i64 wanted     = m.outer < PARTS_MAX ? m.middle * m.inner / SUM_ITEMS : 1;
    m.part         = fast_div_up(m.middle, MAX(1, MIN(wanted, PARTS_MAX)));
    m.parts_count  = m.middle ? fast_div_up(m.middle, m.part) : 1;
    m.each         = fast_items(m.outer * m.parts_count, m.part * m.inner, SUM_ITEMS);
    m.in_work      = m.parts_count > 1 || c->out[0].type.dtype != DT_F32;
    m.y            = m.in_work ? c->work : c->out[0].data;
    return m;
}

V_INLINE void sum_block(const struct sum *s, i64 block, const enum dtype t)
{
    i64 i = block * s->each, end = MIN(i + s->each, s->outer * s->parts_count);
    for (; i < end; i++) {
        i64         part = i / s->outer, outer = i % s->outer, first = part * s->part;
        i64         rows = MIN(s->part, s->middle - first);
        const void *x    = v_at(s->x, (outer * s->middle + first) * s->inner, t);
        f32        *y    = s->y + i * s->inner;
        if (s->inner == 1) *y = row_sum(x, rows, t);
        else rows_add(y, x, rows, s->inner, s->inner, t);
    }
}

BY_STORAGE(sum_block)

static i64 sum_work(const struct call *c)
{
    struct sum s = sum_of(c);
    return s.in_work ? s.parts_count * s.outer * s.inner * (i64)sizeof(f32) : 0;
}

struct merge {
    const f32 *parts; /* [count][width] */
    void      *y;
    i64        count, width, each;
};

V_INLINE void merge_block(const struct merge *p, i64 block, const enum dtype t)
{
    i64 i = block * p->each, end = MIN(i + p->each, p->width);
    for (; i < end; i += V_LANES) {
        vm m   = v_first(MIN(end - i, V_LANES));
        vf sum = v_zero();
        for (i64 r = 0; r < p->count; r += 4)
            sum = rows_next(sum, p->parts, r * p->width + i, p->width, p->count - r, m, DT_F32);
        v_put(p->y, i, sum, m, t);
    }
}

BY_STORAGE(merge_block)

static void sum(const struct call *c)
{
    struct sum s = sum_of(c);
    pool_fn   *f = sum_block_by[fast_storage(c)];
    pool_run(c->pool, fast_div_up(s.outer * s.parts_count, s.each), f, &s);
    if (!s.in_work) return;
    struct merge m = { s.y, c->out[0].data, s.parts_count, s.outer * s.inner, 0 };
    m.each         = fast_div_up(fast_items(m.width, m.count, SUM_ITEMS), V_LANES) * V_LANES;
    pool_run(c->pool, fast_div_up(m.width, m.each), merge_block_by[c->out[0].type.dtype], &m);
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
    const void *dy;
    const i32  *ids;
    f32        *to;
    i64         ids_count, rows, width;
    i64         range, ranges; /* rows in one, a power of two; how many */
    i32         shift;         /* row >> shift is its range */
    i64         share, shares; /* ids in one; how many */
    i32        *start;         /* [shares][ranges]: first counts, then places in `order` */
    i32        *end;           /* [ranges]: where a range ends in `order` */
    i32        *order;         /* [ids]: indices of ids, sorted by range */
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

V_INLINE void add_range(const struct scatter *s, i64 block, const enum dtype t)
{
    i64 first = block * s->range, rows = MIN(s->range, s->rows - first);
    memset(s->to + first * s->width, 0, (size_t)(rows * s->width) * sizeof *s->to);
    for (i64 k = block ? s->end[block - 1] : 0; k < s->end[block]; k++) {
        i64  x = s->order[k] * s->width, i = 0;
        f32 *y = s->to + s->ids[s->order[k]] * s->width;
        for (; i + V_LANES <= s->width; i += V_LANES)
            v_store(y + i, v_load(y + i) + v_get(s->dy, x + i, v_all, t));
        for (; i < s->width; i++) y[i] += v_get_1(s->dy, x + i, t);
    }
}

BY_STORAGE(add_range)

static bool embedding_grad_takes(const struct call *c)
{
    return stored(c) && c->in_count == 2 && shape_count(c->in[1].type.shape) < INT32_MAX;
}

static i64 embedding_grad_work(const struct call *c)
{
    struct scatter t = scatter_of(c);
    return ((t.shares + 1) * t.ranges + t.ids_count) * (i64)sizeof(i32);
}

static void embedding_grad(const struct call *c)
{
    struct scatter t = scatter_of(c);
    pool_fn       *f = add_range_by[fast_storage(c)];
    pool_run(c->pool, t.shares, count_ids, &t);
    place_shares(&t);
    pool_run(c->pool, t.shares, sort_ids, &t);
    if ((t.rows + t.ids_count) * t.width < SUM_ITEMS) fast_alone(t.ranges, f, &t);
    else pool_run(c->pool, t.ranges, f, &t);
}

const struct kernel ISA_FN(kernels_sum)[] = {
    { OP_SUM, "sum_" ISA_NAME, ISA_HERE, stored, sum, sum_work },
    { OP_EMBEDDING_GRAD, "sum_" ISA_NAME, ISA_HERE, embedding_grad_takes, embedding_grad,
      embedding_grad_work },
};
const i32 ISA_COUNT(kernels_sum) = (i32)COUNT_OF(ISA_FN(kernels_sum));
