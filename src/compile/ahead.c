/* ahead.c - train.shard=all where a device has a queue for collectives: one gather ahead.
 *
 *     before   gather a, product a, gather b, product b, gather c, product c
 *     after    gather a, gather b, product a, gather c, product b, product c
 *
 * While a product runs, the weight of the next is on its way; memory for one more weight is what that takes, and the
 * layout, which comes after this pass, has it. The forward and the backward half each begin anew. */
#include "compile/compile_int.h"
#include <string.h>

bool gathers_ahead(const struct pass_input *in)
{
    return deals(in->config) && in->target->queues > 1;
}

struct mover {
    struct graph *g;
    struct node  *from; /* as they stood */
    i32           nodes, half;
    bool         *moved;
};

static void put(struct mover *m, i32 node)
{
    struct node n = m->from[node];
    if (m->moved[node]) return;
    m->moved[node] = true;
    for (i32 k = 0; k < node_results(&n); k++) m->g->values[n.out + k].node = m->g->node_count;
    m->g->nodes[m->g->node_count++] = n;
}

/* The node that casts this rank's part before it is gathered; -1: it is gathered as it is. */
static i32 cast_of(const struct mover *m, i32 gather)
{
    for (i32 i = gather - 1; i >= 0; i--)
        if (m->from[i].op == OP_CAST && m->from[i].out == m->from[gather].in[0]) return i;
    return -1;
}

/* The next gather of the same half; -1: there is none. */
static i32 next_gather(const struct mover *m, i32 node)
{
    i32 end = node < m->half ? m->half : m->nodes;
    for (i32 i = node + 1; i < end; i++)
        if (m->from[i].op == OP_GATHER_PARTS) return i;
    return -1;
}

void gather_ahead(struct graph *g, struct arena scratch)
{
    struct mover m = { g, NEW(&scratch, struct node, g->node_count + 1), g->node_count,
                       g->forward_count, NEW(&scratch, bool, g->node_count + 1) };
    memcpy(m.from, g->nodes, (size_t)m.nodes * sizeof *m.from);
    g->node_count = 0;
    for (i32 i = 0; i < m.nodes; i++) {
        put(&m, i);
        if (m.from[i].op != OP_GATHER_PARTS) continue;
        i32 next = next_gather(&m, i), cast = next < 0 ? -1 : cast_of(&m, next);
        /* a cast of anything but a parameter has to wait for that */
        if (next < 0 || (cast >= 0 && g->values[m.from[cast].in[0]].node >= 0)) continue;
        if (cast >= 0) put(&m, cast);
        put(&m, next);
    }
}
