/* early.c - sums over the ranks that begin while the backward pass goes on.
 *
 *     backward   … product's gradient ── all_reduce ─────────┐
 *                product's gradient ── all_reduce ───────────┤  on a queue of their own, beside what follows
 *                …                                           ┘
 *     update     all_reduce of the small ones (biases, norms), in one
 *
 * Where a target has a queue beside the first, each matrix's gradient is summed as soon as it is there: a matrix is a
 * bucket, and the small tensors are one. The numbers and the bytes are those of a sum at the head of the update. A
 * step of several micro-batches is summed once, in its update; so is a model with batch norms, whose ranks need not all
 * run a program. With train.shard=all the sums stand behind their gradients already (deal.c), on that queue too. */
#include "compile/compile_int.h"
#include <string.h>

bool sums_early(const struct pass_input *in, const struct graph *train)
{
    const struct compile_config *c = in->config;
    if (in->target->queues < 2 || c->ranks < 1 || shard_owners(c) > 1 || c->accumulate > 1)
        return false;
    for (i32 i = 0; i < train->value_count; i++)
        if (train->values[i].kind == VALUE_BUFFER) return false;
    return true;
}

bool is_summed_early(const struct graph *train, const struct value *grad)
{
    if (grad->kind != VALUE_GRAD || grad->sparse_rows) return false;
    i32 param = graph_find(train, str_sub(grad->name, 0, grad->name.len - STR(".grad").len));
    if (param < 0) return false;
    enum group which = group_of(&train->values[param]);
    return which == GROUP_HIDDEN || which == GROUP_DECAY;
}

/* By value: the last node that makes or reads a gradient of a matrix, itself or as a view of it; -1: it is none. */
static i32 *last_uses(const struct graph *g, struct arena *scratch)
{
    i32 *root = NEW(scratch, i32, g->value_count + 1),
        *last = NEW(scratch, i32, g->value_count + 1);
    for (i32 v = 0; v < g->value_count; v++) root[v] = g->values[v].node;
    for (i32 i = 0; i < g->node_count; i++)
        for (i32 k = 0; k < g->nodes[i].in_count; k++) {
            i32 *seen = &root[graph_viewed(g, g->nodes[i].in[k])];
            *seen     = MAX(*seen, i);
        }
    for (i32 v = 0; v < g->value_count; v++)
        last[v] = is_summed_early(g, &g->values[v])
                      ? MAX(g->values[v].node, root[graph_viewed(g, v)])
                      : -1;
    return last;
}

enum status sum_early(struct graph *g, const struct pass_input *in, struct arena scratch,
                      struct err *err)
{
    i32          nodes = g->node_count, values = g->value_count, forward = g->forward_count;
    struct node *from = NEW(&scratch, struct node, nodes + 1);
    i32         *last = last_uses(g, &scratch);
    struct attrs at   = over_all(in->config);
    memcpy(from, g->nodes, (size_t)nodes * sizeof *from);
    g->node_count = 0;
    for (i32 i = 0; i < nodes && !g->err.status; i++) {
        if (i == forward && forward) g->forward_count = g->node_count;
        g->block = from[i].block;
        graph_reserve(g);
        for (i32 k = 0; k < node_results(&from[i]); k++)
            g->values[from[i].out + k].node = g->node_count;
        g->nodes[g->node_count++] = from[i];
        for (i32 v = 0; v < values; v++)
            if (last[v] == i)
                graph_op(g, OP_ALL_REDUCE, str_cat(g->perm, g->values[v].name, STR(".sum")), &v, 1,
                         &at);
    }
    g->block = 0;
    return graph_status(g, err);
}
