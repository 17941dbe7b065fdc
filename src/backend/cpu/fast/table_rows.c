/* table_rows.c - gradients and optimisers of the rows of a table that a step reads.
 *
 * Ids are sorted together with the places they stand at, by digits and so that equal ones keep their order: each
 * row is then one sum over a run, in an order that no number of threads changes. */
#include "backend/cpu/fast/table_rows.h"
#include "base/half.h"
#include <math.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };
enum { BLOCK_NUMBERS = 1 << 15, AHEAD = 8 }; /* a block's work; rows asked for before their turn */

/* --- the rows of a gradient --- */

struct runs {
    const struct tensor *dy;
    const i32           *ids;
    i64                  id_count, rows, width; /* room for `rows` */
    u64                 *sorted, *other;        /* id and place, of id_count each */
    i32                 *first;                 /* of each run in `sorted`, and the end */
    i64                  used;                  /* runs */
    f32                 *to;
    i32                 *index;
    i64                  rows_in_block;
};

static struct runs runs_of(const struct call *c)
{
    struct runs r = { .dy       = &c->in[0],
                      .ids      = c->in[1].data,
                      .id_count = shape_count(c->in[1].type.shape) };
    r.rows        = c->at->count;
    r.width       = shape_last(c->in[0].type.shape);
    return r;
}

static bool rows_take(const struct call *c)
{
    enum dtype t = c->in[0].type.dtype;
    return (t == DT_F32 || t == DT_BF16 || t == DT_F16) && c->out[0].type.dtype == DT_F32 &&
           shape_count(c->in[1].type.shape) < INT32_MAX;
}

static i64 rows_work(const struct call *c)
{
    struct runs r = runs_of(c);
    return 2 * r.id_count * (i64)sizeof(u64) + (r.rows + 1) * (i64)sizeof(i32);
}

/* By one digit, from `sorted` to `other`, and their names exchanged. */
static void sort_digit(struct runs *r, int shift)
{
    i32 at[DIGITS] = { 0 };
    i32 sum        = 0;
    for (i64 i = 0; i < r->id_count; i++) at[r->sorted[i] >> shift & (DIGITS - 1)]++;
    for (i32 d = 0; d < DIGITS; d++) {
        i32 here = at[d];
        at[d]    = sum;
        sum += here;
    }
    for (i64 i = 0; i < r->id_count; i++)
        r->other[at[r->sorted[i] >> shift & (DIGITS - 1)]++] = r->sorted[i];
    u64 *swap = r->sorted;
    r->sorted = r->other;
    r->other  = swap;
}

static void sort_ids(struct runs *r)
{
    i32 top = 0;
    for (i64 i = 0; i < r->id_count; i++) {
        ASSERT(r->ids[i] >= 0);
        top          = MAX(top, r->ids[i]);
        r->sorted[i] = (u64)r->ids[i] << 32 | (u64)i;
    }
    for (int bits = 0; bits < 32 && top >> bits; bits += DIGIT_BITS) sort_digit(r, 32 + bits);
}

static void find_runs(struct runs *r)
{
    for (i64 i = 0; i < r->id_count; i++) {
        if (i && r->sorted[i] >> 32 == r->sorted[i - 1] >> 32) continue;
        ASSERT(r->used < r->rows);
        r->first[r->used]   = (i32)i;
        r->index[r->used++] = (i32)(r->sorted[i] >> 32);
    }
    r->first[r->used] = (i32)r->id_count;
    for (i64 i = r->used; i < r->rows; i++) r->index[i] = -1;
}

static void add_f32(f32 *restrict to, const void *dy, i64 from, i64 width)
{
    const f32 *restrict x = (const f32 *)dy + from;
    for (i64 k = 0; k < width; k++) to[k] += x[k];
}

static void add_bf16(f32 *restrict to, const void *dy, i64 from, i64 width)
{
    const u16 *restrict x = (const u16 *)dy + from;
    for (i64 k = 0; k < width; k++) to[k] += bf16_to_f32(x[k]);
}

static void add_f16(f32 *restrict to, const void *dy, i64 from, i64 width)
{
    const u16 *restrict x = (const u16 *)dy + from;
    for (i64 k = 0; k < width; k++) to[k] += f16_to_f32(x[k]);
}

static void add_runs(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct runs *r    = context;
    enum dtype         t    = r->dy->type.dtype;
    i64                from = block * r->rows_in_block, end = MIN(from + r->rows_in_block, r->rows);
    memset(r->to + from * r->width, 0, (size_t)((end - from) * r->width) * sizeof *r->to);
    for (i64 row = from; row < MIN(end, r->used); row++) {
        for (i32 i = r->first[row]; i < r->first[row + 1]; i++) {
            i64 at = (i64)(u32)r->sorted[i] * r->width;
            (t == DT_F32    ? add_f32
             : t == DT_BF16 ? add_bf16
                            : add_f16)(r->to + row * r->width, r->dy->data, at, r->width);
        }
    }
}

static void embedding_rows(const struct call *c)
{
    struct runs r   = runs_of(c);
    r.sorted        = c->work;
    r.other         = r.sorted + r.id_count;
    r.first         = (i32 *)(r.other + r.id_count);
    r.to            = c->out[0].data;
    r.index         = c->out[1].data;
    r.rows_in_block = fast_items(r.rows, r.width, BLOCK_NUMBERS);
    if (r.id_count) sort_ids(&r);
    find_runs(&r);
    pool_run(c->pool, fast_div_up(r.rows, r.rows_in_block), add_runs, &r);
}

/* --- two lists of rows --- */

static i64 used_of(const struct tensor *index)
{
    const i32 *x    = index->data;
    i64        used = 0;
    while (used < index->count && x[used] >= 0) used++;
    return used;
}

/* Rows of either. */
static i64 union_of(const i32 *a, i64 a_count, const i32 *b, i64 b_count)
{
    i64 i = 0, j = 0, both = 0;
    while (i < a_count && j < b_count) {
        i32 x = a[i], y = b[j];
        both += x == y;
        i += x <= y;
        j += y <= x;
    }
    return a_count + b_count - both;
}

static bool join_takes(const struct call *c)
{
    return c->in[0].type.dtype == DT_F32 && c->in[2].type.dtype == DT_F32;
}

/* From the end, where there is room: a row is never written before it was read. */
static void rows_join(const struct call *c)
{
    f32       *rows  = c->in[0].data;
    i32       *index = c->in[1].data;
    const f32 *more  = c->in[2].data;
    const i32 *names = c->in[3].data;
    i64        i = used_of(&c->in[1]), j = used_of(&c->in[3]), width = c->in[0].type.shape.dim[1];
    i64        k = union_of(index, i, names, j);
    ASSERT(k <= c->in[1].count);
    while (j > 0) {
        bool old = i > 0 && index[i - 1] >= names[j - 1],
             add = i <= 0 || names[j - 1] >= index[i - 1];
        k--;
        if (old) memmove(rows + k * width, rows + (i - 1) * width, (size_t)width * sizeof *rows);
        else memset(rows + k * width, 0, (size_t)width * sizeof *rows);
        if (add) add_f32(rows + k * width, more, (j - 1) * width, width);
        index[k] = old ? index[i - 1] : names[j - 1];
        i -= old;
        j -= add;
    }
}

/* --- optimisers --- */

/* p: the numbers of that row. */
static void sgd_row(const struct sweep *s, i64 i, i64 row, f32 *restrict p)
{
    const f32 *restrict g = s->rows + i * s->width;
    (void)row;
    for (i64 k = 0; k < s->width; k++) p[k] -= s->lr * (s->factor * g[k]);
}

static void adagrad_row(const struct sweep *s, i64 i, i64 row, f32 *restrict p)
{
    const f32 *restrict g = s->rows + i * s->width;
    f32 square            = 0;
    for (i64 k = 0; k < s->width; k++) square += s->factor * g[k] * (s->factor * g[k]);
    f32 sum = s->state[0][row] += square / (f32)s->width;
    f32 lr  = s->lr / (sqrtf(sum) + s->eps);
    for (i64 k = 0; k < s->width; k++) p[k] -= lr * (s->factor * g[k]);
}

static void adam_row(const struct sweep *s, i64 i, i64 row, f32 *restrict p)
{
    const f32 *restrict gs = s->rows + i * s->width;
    f32 *restrict m = s->state[0] + row * s->width, *restrict v = s->state[1] + row * s->width;
    for (i64 k = 0; k < s->width; k++) {
        f32 g = s->factor * gs[k];
        m[k]  = s->beta1 * m[k] + (1 - s->beta1) * g;
        v[k]  = s->beta2 * v[k] + (1 - s->beta2) * g * g;
        p[k] -= s->lr * m[k] / (sqrtf(v[k]) + s->eps);
    }
}

static void ask_for(const struct sweep *s, i64 i)
{
    if (i >= s->count || s->index[i] < 0) return;
    i64 at = s->index[i] * s->width;
    __builtin_prefetch((u8 *)s->table + at * (s->low_row ? 2 : 4), 1);
    if (s->row != adam_row) return;
    __builtin_prefetch(s->state[0] + at, 1);
    __builtin_prefetch(s->state[1] + at, 1);
}

static void sweep_block(void *context, i64 block, i32 worker)
{
    (void)worker;
    const struct sweep *s = context;
    i64                 i = block * s->rows_in_block, end = MIN(i + s->rows_in_block, s->count);
    for (; i < end && s->index[i] >= 0; i++) {
        ASSERT(s->index[i] < s->table_rows);
        ask_for(s, i + AHEAD);
        if (s->low_row) s->low_row(s, i, s->index[i]);
        else s->row(s, i, s->index[i], (f32 *)s->table + s->index[i] * s->width);
    }
}

static bool sweep_takes(const struct call *c) { return fast_ids_at(c, 2); }

void table_sweep(const struct call *c, void (*low_row)(const struct sweep *, i64, i64))
{
    i32          states = c->op - OP_ROWS_SGD;
    const f32   *hyper  = c->in[3 + states].data;
    struct sweep s      = { .table      = c->in[0].data,
                            .low_row    = low_row,
                            .rows       = c->in[1].data,
                            .index      = c->in[2].data,
                            .count      = c->in[2].count,
                            .width      = c->in[0].type.shape.dim[1],
                            .table_rows = c->in[0].type.shape.dim[0],
                            .lr         = hyper[0],
                            .beta1      = hyper[1],
                            .beta2      = hyper[2],
                            .factor     = *(const f32 *)c->in[4 + states].data,
                            .eps        = (f32)c->at->eps,
                            .row        = states == 2   ? adam_row
                                          : states == 1 ? adagrad_row
                                                        : sgd_row };
    f64          step   = (f64)hyper[3];
    if (step <= 0) return;
    if (low_row) {
        const i32 *rng = c->in[c->in_count - 1].data;
        s.key          = (struct rng_key){ .seed = (u64)(u32)rng[1] << 32 | (u32)rng[0],
                                           .name = (u64)c->at->key,
                                           .step = (u32)rng[2] };
        s.philox_key   = rng_philox_key(s.key);
    }
    for (i32 i = 0; i < states; i++) s.state[i] = c->in[3 + i].data;
    if (states == 2)
        s.lr = (f32)((f64)s.lr * sqrt(1 - pow((f64)s.beta2, step)) / (1 - pow((f64)s.beta1, step)));
    s.rows_in_block = fast_items(s.count, s.width, BLOCK_NUMBERS);
    pool_run(c->pool, fast_div_up(s.count, s.rows_in_block), sweep_block, &s);
}

static void sweep(const struct call *c) { table_sweep(c, NULL); }

const struct kernel kernels_table_rows[] = {
    { OP_EMBEDDING_ROWS, "rows", ISA_ANY, rows_take, embedding_rows, rows_work },
    { OP_ROWS_JOIN, "rows", ISA_ANY, join_takes, rows_join, NULL },
    { OP_ROWS_SGD, "rows", ISA_ANY, sweep_takes, sweep, NULL },
    { OP_ROWS_ADAGRAD, "rows", ISA_ANY, sweep_takes, sweep, NULL },
    { OP_ROWS_ADAM, "rows", ISA_ANY, sweep_takes, sweep, NULL },
};
const i32 kernels_table_rows_count = (i32)COUNT_OF(kernels_table_rows);
