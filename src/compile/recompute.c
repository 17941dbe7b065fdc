/* recompute.c - trading time for memory: a forward value that the backward half reads need not be
 * kept; its node can run again just before it is needed (Chen et al., arXiv 1604.06174).
 *
 *   kept        a ── b ── c ── loss ── c' ── b' ── a'
 *   b dropped   a ── b ── c ── loss ── c' ── b ── b' ── a'
 *
 * Fixed policies drop everything inside a block of the model but what other blocks read; what `auto`
 * drops, value by value, is recompute_auto.c's. A node that writes state runs once, but for a
 * cast to 8 bits of a gathered weight, which has a form that only reads it; a random one gives the same bits again,
 * being addressed. */
#include "compile/compile_int.h"
#include "ir/fp8.h"
#include <string.h>

struct rewriter {
    struct graph *g;
    struct node  *from;  /* the nodes as they were */
    const bool   *drop;  /* by value */
    i32          *again; /* by value: its second coming, or -1 */
    i32           forward;
};

static bool is_forward(const struct rewriter *r, i32 value)
{
    i32 node = r->g->values[value].node;
    return node >= 0 && node < r->forward;
}

static i32 second(struct rewriter *r, i32 value);

/* Appends a copy of the node that made `value`, its inputs recomputed where they were dropped. */
static void run_again(struct rewriter *r, i32 value)
{
    struct graph      *g = r->g;
    const struct node *n = &r->from[g->values[value].node];
    struct node new      = *n;
    new.in               = NEW(g->perm, i32, MAX(n->in_count, 1));
    for (i32 i = 0; i < n->in_count; i++) new.in[i] = second(r, n->in[i]);
    new.name = str_cat(g->perm, n->name, STR("*"));
    if (n->op == OP_QUANTISE) new.at.format |= FP8_AGAIN;
    graph_reserve(g);
    new.out = g->value_count;
    for (i32 i = 0; i < node_results(n); i++) {
        graph_reserve(g);
        struct value v              = { .type = g->values[n->out + i].type,
                                        .kind = VALUE_TEMP,
                                        .node = g->node_count };
        r->again[n->out + i]        = g->value_count;
        g->values[g->value_count++] = v;
    }
    graph_reserve(g);
    g->nodes[g->node_count++] = new;
}

/* The value that stands for `value` in the backward half. A view follows what it shows. */
static i32 second(struct rewriter *r, i32 value)
{
    if (!is_forward(r, value)) return value;
    const struct node *n    = &r->from[r->g->values[value].node];
    bool               view = op_is_view(n->op);
    if (view ? second(r, n->in[0]) == n->in[0] : !r->drop[value]) return value;
    if (r->again[value] < 0) run_again(r, value);
    return r->again[value];
}

/* Every node anew: the forward ones as they are, then each backward one after what it needs. */
void drop_values(struct graph *g, const bool *drop, struct arena scratch)
{
    struct rewriter r     = { .g = g, .drop = drop, .forward = g->forward_count };
    i32             nodes = g->node_count;
    r.from                = NEW(&scratch, struct node, nodes + 1);
    r.again               = NEW(&scratch, i32, g->value_count + 1);
    memcpy(r.from, g->nodes, (size_t)nodes * sizeof *r.from);
    for (i32 i = 0; i < g->value_count; i++) r.again[i] = -1;
    g->node_count = g->forward_count;
    for (i32 i = r.forward; i < nodes; i++) {
        struct node n  = r.from[i];
        i32        *in = NEW(g->perm, i32, MAX(n.in_count, 1));
        for (i32 k = 0; k < n.in_count; k++) in[k] = second(&r, n.in[k]);
        n.in = in;
        graph_reserve(g);
        for (i32 k = 0; k < node_results(&n); k++) g->values[n.out + k].node = g->node_count;
        g->nodes[g->node_count++] = n;
    }
}

/* --- which --- */

static bool may_drop(const struct graph *g, i32 value)
{
    const struct value *v = &g->values[value];
    if (v->kind != VALUE_TEMP || v->node < 0 || v->node >= g->forward_count) return false;
    return !op_is_view(g->nodes[v->node].op) &&
           op_info(g->nodes[v->node].op)->effect != EFFECT_STATE;
}

void drop_blocks(const struct graph *g, i64 every, bool *drop)
{
    for (i32 v = 0; v < g->value_count; v++) {
        drop[v] = may_drop(g, v) && g->nodes[g->values[v].node].block &&
                  (g->nodes[g->values[v].node].block - 1) % every == 0;
    }
    for (i32 i = 0; i < g->forward_count; i++) {
        for (i32 k = 0; k < g->nodes[i].in_count; k++) {
            i32 v = graph_viewed(g, g->nodes[i].in[k]);
            if (drop[v] && g->nodes[g->values[v].node].block != g->nodes[i].block) drop[v] = false;
        }
    }
}

/* Frozen matrices are unpacked again where the backward half wants them: kept, they would take the memory that packing
 * them saved. */
static void drop_unpacked(const struct graph *g, bool *drop)
{
    for (i32 i = 0; i < g->forward_count; i++)
        if (g->nodes[i].op == OP_UNPACK) drop[g->nodes[i].out] = true;
}

void drop_always(const struct graph *g, const struct compile_config *c, bool *drop)
{
    drop_unpacked(g, drop); /* of blocks that are kept, too */
    if (deals(c)) drop_gathered(g, drop);
}

enum status choose_dropped(const struct parts *parts, const struct pass_input *in, bool *drop,
                           struct arena scratch, struct err *err)
{
    const struct recompute_config *c = &in->config->recompute;
    const struct graph            *g = parts->graphs[0];
    switch (c->kind) {
    case RECOMPUTE_NONE: break;
    case RECOMPUTE_ALL: drop_blocks(g, 1, drop); break;
    case RECOMPUTE_EVERY: drop_blocks(g, MAX(c->every, 1), drop); break;
    case RECOMPUTE_AUTO: return recompute_auto(parts, in, drop, scratch, err);
    }
    drop_always(g, in->config, drop);
    return STATUS_OK;
}
