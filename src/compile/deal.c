/* deal.c - train.shard=all (ZeRO-3, Rajbhandari et al. 2020): of every parameter a rank keeps one part.
 *
 *     forward    gather_parts ── product …                     the whole lives from its first reader to its last
 *     backward   gather_parts ── product's gradients ── reduce_scatter ── this rank's part of the gradient
 *
 * A parameter is gathered where the forward half first reads it, and again where the backward half does: that is what
 * recomputation does with a value that is not kept (recompute.c), and drop_gathered tells it so. A gradient is summed
 * as soon as it is there, in every micro-batch: whole gradients that wait for the last would take the memory which
 * this saves. A parameter that is only read in low precision is cast first, and gathered in half the bytes; one that is
 * rounded at random is not, because that goes by a number's place in the whole. To everybody after this pass a
 * parameter is a smaller one, its gradient and optimiser's state with it; all ranks have the same sizes, and what a
 * part has behind the tensor's end is 0 and stays so.
 *
 * With copies in several machines (shard.c) the ranks are those of one of them. Where a device has a queue for
 * collectives and a step has one micro-batch, the copies' parts are summed at once too, beside the backward pass.
 *
 * Hidden matrices (of Muon), frozen parameters and tables of which a step's rows are trained stay whole on every
 * rank. */
#include "compile/compile_int.h"
#include "ir/collective.h"
#include <string.h>

bool deals(const struct compile_config *c) { return c->shard == SHARD_ALL && shard_places(c) > 1; }

bool copies_summed_early(const struct pass_input *in)
{
    const struct compile_config *c = in->config;
    return deals(c) && shard_has_copies(c) && in->target->queues > 1 && c->accumulate < 2;
}

struct dealer {
    struct graph *g;
    i32 *whole; /* by value: a dealt parameter's gathered form, -1: not yet; -2: it is not dealt */
    bool *
        wide; /* by value: a dealt parameter that is read otherwise than to be cast to the nearest */
    struct attrs        at;
    const struct attrs *copies; /* over whom sums are summed further at once; NULL: they are not */
};

/* As the first program of gradients has it: evaluation knows neither hidden matrices nor tables. */
static bool is_dealt_param(const struct value *v, const struct pass_input *in)
{
    enum group which = group_of(v);
    if (v->kind != VALUE_PARAM) return false;
    i32 first = in->train ? graph_find(in->train, v->name) : -1;
    if (first >= 0) return in->train->values[first].dealt;
    if (in->plan) return plan_deals(in->plan, v->name);
    return which == GROUP_DECAY || which == GROUP_REST;
}

/* What a reader of `value` reads from now on. */
static i32 gathered(struct dealer *d, i32 value)
{
    struct graph *g = d->g;
    if (d->whole[value] == -2) return value;
    if (d->whole[value] < 0) {
        struct attrs at = d->at;
        at.dims         = g->values[value].whole;
        d->whole[value] =
            graph_op(g, OP_GATHER_PARTS, str_cat(g->perm, g->values[value].name, STR(".whole")),
                     &value, 1, &at);
    }
    return d->whole[value];
}

static bool is_narrow(const struct dealer *d, const struct node *n)
{
    return n->op == OP_CAST && d->whole[n->in[0]] != -2 && !d->wide[n->in[0]];
}

/* In the place of a cast: of this rank's part, and then the gathering. */
static struct node gathered_low(struct dealer *d, struct node n)
{
    struct graph *g     = d->g;
    i32           param = n.in[0], *in = NEW(g->perm, i32, 1);
    struct str    name = str_cat(g->perm, g->values[param].name, STR(".low"));
    in[0]              = graph_op(g, OP_CAST, name, &param, 1, &n.at);
    n.op               = OP_GATHER_PARTS;
    n.name             = str_cat(g->perm, g->values[param].name, STR(".whole"));
    n.in               = in;
    n.at               = d->at;
    n.at.dims          = g->values[param].whole;
    return n;
}

/* The gradient that a node has just made: its sum's part takes its name. */
static void scatter(struct dealer *d, i32 value)
{
    struct graph *g    = d->g;
    struct value  kept = g->values[value];
    i32           sum;
    g->values[value] = (struct value){ .type = kept.type, .kind = VALUE_TEMP, .node = kept.node };
    sum =
        graph_op(g, OP_REDUCE_SCATTER, str_cat(g->perm, kept.name, STR(".sum")), &value, 1, &d->at);
    if (sum >= 0) graph_keep(g, sum, VALUE_GRAD, kept.name);
    if (sum >= 0 && d->copies)
        graph_op(g, OP_ALL_REDUCE, str_cat(g->perm, kept.name, STR(".copies")), &sum, 1, d->copies);
}

static bool is_dealt_grad(const struct dealer *d, i32 value)
{
    const struct value *v = &d->g->values[value];
    if (v->kind != VALUE_GRAD || v->sparse_rows) return false;
    i32 param = graph_find(d->g, str_sub(v->name, 0, v->name.len - STR(".grad").len));
    return param >= 0 && d->whole[param] != -2;
}

static void shrink(struct graph *g, i32 value, i32 ranks)
{
    struct value *v = &g->values[value];
    v->dealt        = true;
    v->whole        = v->type.shape;
    v->type         = type_of(v->type.dtype, shape_1(ranks_part(shape_count(v->whole), ranks)));
}

enum status deal_out(struct graph *g, const struct pass_input *input, struct arena scratch,
                     struct err *err)
{
    const struct compile_config *c      = input->config;
    struct attrs                 copies = over_copies(c);
    struct dealer                d      = { .g      = g,
                                            .at     = over_machine(c),
                                            .copies = copies_summed_early(input) ? &copies : NULL };
    i32          nodes = g->node_count, values = g->value_count, forward = g->forward_count;
    struct node *from = NEW(&scratch, struct node, nodes + 1);
    d.whole           = NEW(&scratch, i32, values + 1);
    memcpy(from, g->nodes, (size_t)nodes * sizeof *from);
    for (i32 i = 0; i < values; i++) d.whole[i] = is_dealt_param(&g->values[i], input) ? -1 : -2;
    for (i32 i = 0; i < values; i++)
        if (d.whole[i] == -1) shrink(g, i, shard_places(c));
    d.wide = NEW(&scratch, bool, values + 1);
    for (i32 i = 0; i < nodes; i++)
        for (i32 k = 0; k < from[i].in_count; k++)
            d.wide[from[i].in[k]] |= from[i].op != OP_CAST || from[i].at.stochastic;
    g->node_count = 0;
    for (i32 i = 0; i < nodes && !g->err.status; i++) {
        struct node n  = from[i];
        i32        *in = NEW(g->perm, i32, MAX(n.in_count, 1));
        if (i == forward && forward) g->forward_count = g->node_count;
        g->block = n.block;
        if (is_narrow(&d, &n)) n = gathered_low(&d, n);
        for (i32 k = 0; k < n.in_count; k++)
            in[k] = n.in[k] < values ? gathered(&d, n.in[k]) : n.in[k];
        n.in = in;
        graph_reserve(g);
        for (i32 k = 0; k < node_results(&n); k++) g->values[n.out + k].node = g->node_count;
        g->nodes[g->node_count++] = n;
        for (i32 k = 0; k < node_results(&n); k++)
            if (is_dealt_grad(&d, n.out + k)) scatter(&d, n.out + k);
    }
    g->block = 0;
    return graph_status(g, err);
}

/* What is gathered, and what is only a cast, of a part or of the whole, to 8 bits too. */
void drop_gathered(const struct graph *g, bool *drop)
{
    for (i32 i = 0; i < g->forward_count; i++) {
        const struct node *n = &g->nodes[i];
        if (n->op == OP_GATHER_PARTS) drop[n->out] = true;
        if (n->op != OP_CAST && n->op != OP_QUANTISE) continue;
        const struct value *x = &g->values[graph_viewed(g, n->in[0])];
        if (x->dealt || (x->node >= 0 && g->nodes[x->node].op == OP_GATHER_PARTS))
            for (i32 k = 0; k < node_results(n); k++) drop[n->out + k] = true;
    }
}

bool will_deal(const struct compile_config *c, const struct value *v)
{
    enum group which = group_of(v);
    return deals(c) && v->kind == VALUE_PARAM && (which == GROUP_DECAY || which == GROUP_REST);
}
