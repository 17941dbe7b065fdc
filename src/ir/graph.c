/* graph.c - building graphs, and the verifier that follows every pass. */
#include "ir/graph.h"
#include <stdlib.h>
#include <string.h>

/* The old arrays stay where they are: a gradient rule may still be reading its node while it
 * emits new ones. */
void graph_reserve(struct graph *g)
{
    if (g->value_count < g->values_max && g->node_count < g->nodes_max) return;
    i32           values_max = MAX(2 * g->values_max, 128), nodes_max = MAX(2 * g->nodes_max, 64);
    struct value *values = NEW(g->perm, struct value, values_max);
    struct node  *nodes  = NEW(g->perm, struct node, nodes_max);
    if (g->value_count) memcpy(values, g->values, (size_t)g->value_count * sizeof *values);
    if (g->node_count) memcpy(nodes, g->nodes, (size_t)g->node_count * sizeof *nodes);
    g->values     = values;
    g->nodes      = nodes;
    g->values_max = values_max;
    g->nodes_max  = nodes_max;
}

struct graph *graph_new(struct arena *perm, struct str name)
{
    struct graph *g = NEW(perm, struct graph, 1);
    g->name         = name;
    g->perm         = perm;
    graph_reserve(g);
    return g;
}

struct graph *graph_copy(const struct graph *g, struct arena *perm)
{
    struct graph *c = NEW(perm, struct graph, 1);
    *c              = *g;
    c->perm         = perm;
    c->values       = NEW(perm, struct value, g->values_max);
    c->nodes        = NEW(perm, struct node, g->nodes_max);
    memcpy(c->values, g->values, (size_t)g->value_count * sizeof *c->values);
    memcpy(c->nodes, g->nodes, (size_t)g->node_count * sizeof *c->nodes);
    return c;
}

enum status graph_status(const struct graph *g, struct err *err)
{
    if (g->err.status && err) *err = g->err;
    return g->err.status;
}

static i32 value_add(struct graph *g, struct value v)
{
    if (g->value_count == GRAPH_VALUES_MAX) {
        err_set(&g->err, STATUS_USAGE, "the model has more than %d tensors", GRAPH_VALUES_MAX);
        return -1;
    }
    graph_reserve(g);
    g->values[g->value_count] = v;
    return g->value_count++;
}

static enum status too_large(struct graph *g, struct str name, struct type t)
{
    char         text[256];
    struct arena scratch = { .begin = (u8 *)text, .end = (u8 *)text + sizeof text };
    struct str   type    = type_text(&scratch, t);
    return err_set(&g->err, STATUS_USAGE,
                   "%.*s would be %.*s, more than 64 TiB; a smaller batch or model fits",
                   STR_ARG(name), STR_ARG(type));
}

i32 graph_find(const struct graph *g, struct str name)
{
    for (i32 i = 0; i < g->value_count; i++) {
        if (g->values[i].kind != VALUE_TEMP && str_eq(g->values[i].name, name)) return i;
    }
    return -1;
}

i32 graph_value(struct graph *g, enum value_kind kind, struct str name, struct type type)
{
    if (g->err.status) return -1;
    ASSERT(kind != VALUE_TEMP);
    if (!type_fits(type)) return too_large(g, name, type), -1;
    i32 known = graph_find(g, name);
    if (known < 0)
        return value_add(g, (struct value){ .name = name, .type = type, .kind = kind, .node = -1 });
    if (g->values[known].kind == kind && type_eq(g->values[known].type, type)) return known;
    err_set(&g->err, STATUS_USAGE, "two different tensors are called %.*s", STR_ARG(name));
    return -1;
}

i32 graph_param(struct graph *g, struct str name, struct type type, struct init init, bool decay)
{
    i32 v = graph_value(g, VALUE_PARAM, name, type);
    if (v >= 0) {
        g->values[v].init  = init;
        g->values[v].decay = decay;
    }
    return v;
}

struct type graph_type(const struct graph *g, i32 value)
{
    if (value < 0) return (struct type){ 0 };
    ASSERT(value < g->value_count);
    return g->values[value].type;
}

i32 node_inputs(const struct node *n) { return n->in_count - op_then_inputs(&n->at); }
i32 node_results(const struct node *n) { return op_result_count(n->op, &n->at); }

struct sig graph_sig(const struct graph *g, const struct node *n, struct arena *scratch)
{
    struct type *in  = NEW(scratch, struct type, MAX(n->in_count, 1));
    struct type *out = NEW(scratch, struct type, OP_OUT_MAX);
    for (i32 i = 0; i < n->in_count; i++) in[i] = g->values[n->in[i]].type;
    for (i32 i = 0; i < node_results(n); i++) out[i] = g->values[n->out + i].type;
    return (struct sig){ in, node_inputs(n), out, &n->at, n->op };
}

/* Shape rule of a node that is not in the graph yet; the sentence names node and op. */
static enum status infer(struct graph *g, const struct node *n, struct type *out)
{
    struct type in[OP_IN_MAX];
    struct err  why = { 0 };
    for (i32 i = 0; i < n->in_count; i++) in[i] = g->values[n->in[i]].type;
    struct sig  s  = { in, node_inputs(n), out, &n->at, n->op };
    enum status st = op_types(&s, &why);
    if (st) err_set(&g->err, st, "%.*s (%s): %s", STR_ARG(n->name), op_info(n->op)->name, why.text);
    for (i32 i = 0; !st && i < node_results(n); i++)
        if (!type_fits(out[i])) st = too_large(g, n->name, out[i]);
    return st;
}

i32 graph_op(struct graph *g, i32 op, struct str name, const i32 *in, i32 in_count,
             const struct attrs *at)
{
    if (g->err.status) return -1;
    for (i32 i = 0; i < in_count; i++) ASSERT(in[i] >= 0 && in[i] < g->value_count);
    if (g->node_count == GRAPH_NODES_MAX) {
        err_set(&g->err, STATUS_USAGE, "the model has more than %d operations; make it shallower",
                GRAPH_NODES_MAX);
        return -1;
    }
    struct node n = {
        .op = op, .name = name, .in_count = in_count, .out = g->value_count, .block = g->block
    };
    if (at) n.at = *at;
    i32 own = node_inputs(&n), results = node_results(&n);
    ASSERT(own >= op_info(op)->in_min && own <= op_info(op)->in_max);
    n.in = NEW(g->perm, i32, MAX(in_count, 1));
    if (in_count) memcpy(n.in, in, (size_t)in_count * sizeof *in);
    struct type out[OP_OUT_MAX] = { 0 };
    if (infer(g, &n, out)) return -1;
    for (i32 i = 0; i < results; i++) {
        struct value v = { .type = out[i], .kind = VALUE_TEMP, .node = g->node_count };
        if (value_add(g, v) < 0) return -1;
    }
    graph_reserve(g);
    g->nodes[g->node_count++] = n;
    return results ? n.out : -1;
}

i32 graph_viewed(const struct graph *g, i32 value)
{
    while (g->values[value].node >= 0 && op_is_view(g->nodes[g->values[value].node].op))
        value = g->nodes[g->values[value].node].in[0];
    return value;
}

bool graph_may_share(const struct graph *g, const struct node *n, i32 k)
{
    i32 own = node_inputs(n);
    if (k >= own || k >= 16 || !(op_info(n->op)->share >> k & 1)) return false;
    for (i32 i = own; i < n->in_count; i++) {
        if (graph_viewed(g, n->in[i]) == graph_viewed(g, n->in[k])) return false;
    }
    return true;
}

/* Two names for the same bytes would be two places for them. */
static bool has_name(const struct graph *g, i32 value)
{
    i32 source = graph_viewed(g, value);
    for (i32 i = 0; i < g->value_count; i++) {
        if (g->values[i].kind != VALUE_TEMP && graph_viewed(g, i) == source) return true;
    }
    return false;
}

void graph_keep(struct graph *g, i32 value, enum value_kind kind, struct str name)
{
    if (g->err.status) return;
    ASSERT(kind != VALUE_TEMP);
    ASSERT(value >= 0 && value < g->value_count);
    if (graph_find(g, name) >= 0) {
        err_set(&g->err, STATUS_USAGE, "two tensors are called %.*s", STR_ARG(name));
        return;
    }
    if (has_name(g, value)) {
        struct attrs same = { .dtype = g->values[value].type.dtype };
        value             = graph_op(g, OP_CAST, name, &value, 1, &same);
        if (value < 0) return;
    }
    g->values[value].kind = kind;
    g->values[value].name = name;
}

void graph_output(struct graph *g, i32 value, struct str name)
{
    graph_keep(g, value, VALUE_OUTPUT, name);
}

/* State, and a gradient or a part of a sum that ranks sum further where it was made. */
static bool may_overwrite(const struct graph *g, const struct node *n, i32 value)
{
    const struct value *v     = &g->values[value];
    bool                joins = op_info(n->op)->attrs & A_ranks;
    if (v->node < 0) return v->kind != VALUE_TEMP;
    bool joined = op_info(g->nodes[v->node].op)->attrs & A_ranks;
    return joins && (v->kind == VALUE_GRAD || (v->kind == VALUE_TEMP && joined));
}

static enum status verify_node(const struct graph *g, i32 index, struct arena scratch,
                               struct err *err)
{
    const struct node    *n   = &g->nodes[index];
    const struct op_info *row = op_info(n->op);
    i32                   own = node_inputs(n), results = node_results(n);
    if (own < row->in_min || own > row->in_max)
        return err_set(err, STATUS_WORLD, "node %d (%s) has %d inputs", index, row->name,
                       n->in_count);
    if (n->out < 0 || n->out + results > g->value_count)
        return err_set(err, STATUS_WORLD, "node %d (%s) writes %%%d, which is not a value", index,
                       row->name, n->out);
    for (i32 i = 0; i < n->in_count; i++) {
        i32 v = n->in[i];
        if (v < 0 || v >= g->value_count || g->values[v].node >= index ||
            (g->values[v].node < 0 && g->values[v].kind == VALUE_TEMP))
            return err_set(err, STATUS_WORLD, "node %d (%s) reads %%%d before it is written", index,
                           row->name, v);
        if (row->effect == EFFECT_STATE && op_writes(row, i) && !may_overwrite(g, n, v))
            return err_set(err, STATUS_WORLD, "node %d (%s) overwrites %%%d, which is not state",
                           index, row->name, v);
    }
    struct sig  s               = graph_sig(g, n, &scratch);
    struct type out[OP_OUT_MAX] = { 0 };
    struct sig  again           = { s.in, s.in_count, out, s.at, n->op };
    enum status st              = op_types(&again, err);
    for (i32 i = 0; !st && i < results; i++) {
        if (!type_eq(out[i], s.out[i]) || g->values[n->out + i].node != index)
            st = err_set(err, STATUS_WORLD,
                         "node %d (%s): result %d has another type than its "
                         "shape rule gives",
                         index, row->name, i);
    }
    return st;
}

static int by_name(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    int               order = memcmp(x->data, y->data, (size_t)MIN(x->len, y->len));
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static enum status verify_names(const struct graph *g, struct arena scratch, struct err *err)
{
    struct str *names = NEW(&scratch, struct str, g->value_count + 1);
    i64         count = 0;
    for (i32 i = 0; i < g->value_count; i++) {
        if (g->values[i].kind == VALUE_TEMP) continue;
        if (!g->values[i].name.len)
            return err_set(err, STATUS_WORLD, "value %%%d persists but has no name", i);
        names[count++] = g->values[i].name;
    }
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (i64 i = 1; i < count; i++) {
        if (str_eq(names[i - 1], names[i]))
            return err_set(err, STATUS_WORLD, "two values are called %.*s", STR_ARG(names[i]));
    }
    return STATUS_OK;
}

enum status graph_verify(const struct graph *g, struct arena scratch, struct err *err)
{
    enum status st = graph_status(g, err);
    for (i32 i = 0; !st && i < g->value_count; i++) {
        if (!type_fits(g->values[i].type))
            st = err_set(err, STATUS_WORLD, "value %%%d is larger than any memory", i);
    }
    for (i32 i = 0; !st && i < g->node_count; i++) st = verify_node(g, i, scratch, err);
    return st ? st : verify_names(g, scratch, err);
}
