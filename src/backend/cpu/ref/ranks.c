/* ranks.c - ops that reach over all ranks. Whatever carries the bytes, this is the kernel; a failure stays in
 * c->ranks->failed, where the trainer looks for it, and the numbers are worth nothing then. */
#include "backend/ranks/ranks.h"
#include "backend/cpu/ref/ref_int.h"
#include <string.h>

/* Those it reaches; NULL: this rank is alone. */
static struct ranks *reached(const struct call *c)
{
    struct ranks *r = ranks_over(c->ranks, c->at->over);
    ASSERT(c->at->ranks == (r ? r->count : 1));
    return c->at->ranks == 1 ? NULL : r;
}

void ref_ALL_REDUCE(const struct call *c)
{
    const struct tensor *x = &c->in[0];
    struct ranks        *r = reached(c);
    if (r)
        ranks_reduce(r, c->at->largest ? RANKS_LARGEST : RANKS_SUM, x->type.dtype, x->data,
                     x->count, c->work);
}

void ref_REDUCE_SCATTER(const struct call *c)
{
    const struct tensor *x = &c->in[0];
    struct ranks        *r = reached(c);
    if (!r) memcpy(c->out[0].data, x->data, (size_t)type_bytes(x->type));
    else ranks_reduce_scatter(r, x->type.dtype, x->data, x->count, c->out[0].data, c->work);
}

void ref_ALL_GATHER(const struct call *c)
{
    const struct tensor *x = &c->in[0];
    struct ranks        *r = reached(c);
    if (r) ranks_gather(r, x->data, x->count, dtype_bytes(x->type.dtype));
}

void ref_GATHER_PARTS(const struct call *c)
{
    const struct tensor *x = &c->in[0], *y = &c->out[0];
    struct ranks        *r = reached(c);
    if (!r) memcpy(y->data, x->data, (size_t)type_bytes(y->type));
    else ranks_gather_equal(r, x->data, y->data, y->count, dtype_bytes(y->type.dtype));
}

void ref_RANK_BROADCAST(const struct call *c)
{
    const struct tensor *x = &c->in[0];
    struct ranks        *r = reached(c);
    if (r) ranks_spread(r, (i32)c->at->start, x->data, type_bytes(x->type));
}

/* Every rank gets all rows of all, and joins them in the order of the ranks: the same bits everywhere. */
void ref_ROWS_REDUCE(const struct call *c)
{
    struct tensor join[4] = { c->in[0], c->in[1], c->in[0], c->in[1] };
    i64           rows = type_bytes(c->in[0].type), index = type_bytes(c->in[1].type);
    if (!reached(c)) return;
    u8 *all_index = c->work;
    u8 *all_rows  = all_index + (c->at->ranks * index + 7) / 8 * 8;
    memcpy(all_rows + c->ranks->rank * rows, c->in[0].data, (size_t)rows);
    memcpy(all_index + c->ranks->rank * index, c->in[1].data, (size_t)index);
    if (ranks_gather(c->ranks, all_rows, c->at->ranks * rows, 1)) return;
    if (ranks_gather(c->ranks, all_index, c->at->ranks * index, 1)) return;
    memcpy(c->in[0].data, all_rows, (size_t)rows);
    memcpy(c->in[1].data, all_index, (size_t)index);
    struct attrs at   = { 0 };
    struct call  call = { OP_ROWS_JOIN, &at, join, 4, NULL, NULL, 0, c->pool, NULL };
    for (i64 i = 1; i < c->at->ranks; i++) {
        join[2].data = all_rows + i * rows;
        join[3].data = all_index + i * index;
        kernel_run(kernel_choose(&call, false), &call);
    }
}
