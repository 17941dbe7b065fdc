/* differentiate.c - reverse-mode differentiation from the table's rules.
 *
 * Forward: which values depend on a trained parameter, and which lead to the loss. Backward: from
 * the last node to the first, each rule turns the gradients of a node's results into those of its
 * inputs; contributions of several readers are added in the order they are met, so the
 * order is fixed by the graph. What the host multiplies the loss by is the seed: scalar "loss_seed". */
#include "compile/compile_int.h"
#include "ir/build.h"

struct tape {
    struct graph *g;
    i32           node_count; /* forward nodes; the rest is ours */
    bool         *needs;      /* value depends on a trained parameter */
    bool         *leads;      /* value leads to the loss */
    i32          *grad;       /* gradient of a value, or -1 */
};

static void mark(struct tape *t, i32 loss)
{
    struct graph *g = t->g;
    for (i32 i = 0; i < g->value_count; i++) {
        t->needs[i] = g->values[i].kind == VALUE_PARAM && !g->values[i].frozen;
        t->grad[i]  = -1;
    }
    for (i32 i = 0; i < t->node_count; i++) {
        const struct node *n    = &g->nodes[i];
        bool               need = false;
        for (i32 k = 0; k < n->in_count; k++) need |= t->needs[n->in[k]];
        for (i32 k = 0; k < op_info(n->op)->out_count; k++) t->needs[n->out + k] = need;
    }
    t->leads[loss] = true;
    for (i32 i = t->node_count - 1; i >= 0; i--) {
        const struct node *n    = &g->nodes[i];
        bool               lead = false;
        for (i32 k = 0; k < op_info(n->op)->out_count; k++) lead |= t->leads[n->out + k];
        for (i32 k = 0; lead && k < n->in_count; k++) t->leads[n->in[k]] = true;
    }
}

static void contribute(struct tape *t, const struct node *n, i32 value, i32 d)
{
    if (d < 0) return;
    i32 *sum = &t->grad[value];
    *sum =
        *sum < 0 ? d : build_binary(t->g, OP_ADD, str_cat(t->g->perm, n->name, STR("+")), *sum, d);
}

static enum status backward_node(struct tape *t, i32 index, struct err *err)
{
    const struct node     n                = t->g->nodes[index]; /* the array may move */
    const struct op_info *op               = op_info(n.op);
    i32                   dout[OP_OUT_MAX] = { -1, -1, -1, -1 }, din[OP_IN_MAX];
    bool                  want[OP_IN_MAX], any = false, has = false;
    for (i32 k = 0; k < op->out_count; k++) {
        dout[k] = t->grad[n.out + k];
        has |= dout[k] >= 0;
    }
    for (i32 k = 0; k < n.in_count; k++) {
        din[k]         = -1;
        any |= want[k] = t->needs[n.in[k]];
    }
    if (!has || !any) return STATUS_OK;
    if (!op->grad)
        return err_set(err, STATUS_USAGE,
                       "%.*s (%s) lies between a trained parameter and the loss "
                       "but has no gradient",
                       STR_ARG(n.name), op->name);
    for (i32 k = 1; k < op->out_count && n.op < OP_COUNT; k++) { /* rules of ours read dout[0] */
        if (dout[k] >= 0)
            return err_set(err, STATUS_USAGE,
                           "%.*s (%s): only its first result has a gradient, and "
                           "the loss depends on result %d",
                           STR_ARG(n.name), op->name, k);
    }
    op->grad(t->g, &n, dout, want, din);
    for (i32 k = 0; k < n.in_count; k++) {
        if (want[k]) contribute(t, &n, n.in[k], din[k]);
    }
    return graph_status(t->g, err);
}

/* A parameter's gradient persists under the parameter's name; one that is another's too is copied. */
static void keep_gradients(struct tape *t, i32 value_count)
{
    struct graph *g = t->g;
    for (i32 i = 0; i < value_count && !g->err.status; i++) {
        if (g->values[i].kind != VALUE_PARAM || g->values[i].frozen) continue;
        struct str name = str_cat(g->perm, g->values[i].name, STR(".grad"));
        i32        d    = t->grad[i];
        if (d < 0) {
            struct attrs at = { .dims = g->values[i].type.shape, .dtype = g->values[i].type.dtype };
            d               = graph_op(g, OP_FILL, name, NULL, 0, &at);
        }
        if (d >= 0) graph_keep(g, d, VALUE_GRAD, name);
    }
}

enum status differentiate(struct graph *g, struct arena scratch, struct err *err)
{
    i32 loss = graph_find(g, STR("loss"));
    if (loss < 0) return err_set(err, STATUS_USAGE, "the graph has no output called loss");
    struct type type        = graph_type(g, loss);
    i32         value_count = g->value_count;
    i32         seed        = graph_value(g, VALUE_SCALAR, STR("loss_seed"), type);
    struct tape t           = { .g = g, .node_count = g->node_count };
    /* Gradients never flow into values that appear later, so forward values are enough. */
    t.needs          = NEW(&scratch, bool, g->value_count);
    t.leads          = NEW(&scratch, bool, g->value_count);
    t.grad           = NEW(&scratch, i32, g->value_count);
    g->forward_count = g->node_count;
    mark(&t, loss);
    t.grad[loss]   = seed;
    enum status st = graph_status(g, err);
    for (i32 i = t.node_count - 1; !st && i >= 0; i--) {
        bool leads = false;
        for (i32 k = 0; k < op_info(g->nodes[i].op)->out_count; k++)
            leads |= t.leads[g->nodes[i].out + k];
        if (leads) st = backward_node(&t, i, err);
    }
    if (!st) keep_gradients(&t, value_count);
    return st ? st : graph_status(g, err);
}

enum status add_gradients(struct graph *g, struct err *err)
{
    i32 count = g->value_count;
    for (i32 i = 0; i < count && !g->err.status; i++) {
        struct value kept = g->values[i];
        if (kept.kind != VALUE_GRAD || kept.node < 0) continue;
        g->values[i].kind = VALUE_TEMP;
        g->values[i].name = (struct str){ 0 };
        i32 sum           = graph_value(g, VALUE_GRAD, kept.name, kept.type);
        graph_op(g, OP_ACCUMULATE, kept.name, (i32[]){ sum, i }, 2, NULL);
    }
    return graph_status(g, err);
}
