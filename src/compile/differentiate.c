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
                       "%.*s (%s) is between a trained parameter and the loss "
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

/* Of a table: the rows that have one, and their index. */
static void keep_rows(struct graph *g, const struct value *table, i32 rows, struct str name)
{
    i64 sparse_rows = table->sparse_rows, width = table->type.shape.dim[1];
    i32 index = rows + 1;
    if (rows < 0) { /* the loss does not depend on it */
        struct attrs none = { .dims = shape_1(sparse_rows), .dtype = DT_I32, .add = -1 };
        struct attrs zero = { .dims = shape_2(sparse_rows, width), .dtype = table->type.dtype };
        rows              = graph_op(g, OP_FILL, name, NULL, 0, &zero);
        index             = graph_op(g, OP_FILL, name, NULL, 0, &none);
    }
    if (rows < 0 || index < 0) return;
    graph_keep(g, rows, VALUE_GRAD, name);
    graph_keep(g, index, VALUE_GRAD, str_cat(g->perm, name, STR(".index")));
    g->values[rows].sparse_rows = g->values[index].sparse_rows = sparse_rows;
}

/* A parameter's gradient persists under the parameter's name; one that is another's too is copied. */
static void keep_gradients(struct tape *t, i32 value_count)
{
    struct graph *g = t->g;
    for (i32 i = 0; i < value_count && !g->err.status; i++) {
        if (g->values[i].kind != VALUE_PARAM || g->values[i].frozen) continue;
        struct str name = str_cat(g->perm, g->values[i].name, STR(".grad"));
        i32        d    = t->grad[i];
        if (g->values[i].sparse_rows) {
            keep_rows(g, &g->values[i], d, name);
            continue;
        }
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

/* What persisted under a name is a temporary from now on, and another value has the name. */
static i32 take_name(struct graph *g, i32 value)
{
    struct value kept = g->values[value];
    g->values[value]  = (struct value){ .type = kept.type, .kind = VALUE_TEMP, .node = kept.node };
    i32 sum           = graph_value(g, VALUE_GRAD, kept.name, kept.type);
    if (sum >= 0) g->values[sum].sparse_rows = kept.sparse_rows;
    return sum;
}

enum status add_gradients(struct graph *g, struct err *err)
{
    i32 count = g->value_count;
    for (i32 i = 0; i < count && !g->err.status; i++) {
        struct value kept = g->values[i];
        if (kept.kind != VALUE_GRAD || kept.node < 0) continue;
        i32 sum = take_name(g, i);
        if (!kept.sparse_rows) {
            graph_op(g, OP_ACCUMULATE, kept.name, (i32[]){ sum, i }, 2, NULL);
            continue;
        }
        i32 index = graph_find(g, str_cat(g->perm, kept.name, STR(".index"))),
            names = take_name(g, index);
        graph_op(g, OP_ROWS_JOIN, kept.name, (i32[]){ sum, names, i, index }, 4, NULL);
    }
    return graph_status(g, err);
}
