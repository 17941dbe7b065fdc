/* tables.c - which tables of rows get the gradients of a step's rows alone, and their update.
 *
 * A ranker's table has millions of rows, and a batch reads some thousands: a gradient of the table's shape would
 * be zeros that are written, added up and swept over by the optimiser. Such a table is marked here, before
 * differentiation; the gradient of its embedding is then a list of rows (embedding_rows), and an optimiser of rows
 * (rows_adam, …) changes no others. docs/decisions/tables.md says what that changes. */
#include "compile/compile_int.h"
#include "ir/build.h"

enum {
    SPARSE_SHARE = 8
}; /* a table that has so many times the rows of a step is worth it: docs/decisions/tables.md */

/* The only node that reads the value, if it looks up its rows; else -1. */
static i32 only_lookup(const struct graph *g, i32 value)
{
    i32 found = -1;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (i32 k = 0; k < n->in_count; k++) {
            if (n->in[k] != value) continue;
            if (found >= 0 || n->op != OP_EMBEDDING || k) return -1;
            found = i;
        }
    }
    return found;
}

/* Different ids that a step may have: the same in all programs of a run. */
static i64 step_rows(const struct graph *g, const struct node *n, const struct compile_config *c,
                     i64 rows)
{
    struct shape ids  = graph_type(g, n->in[1]).shape;
    i64          each = shape_count(ids) / MAX(ids.dim[0], 1); /* of a sample */
    i64          all  = MAX(c->batch, c->batch_last) * MAX(c->accumulate, 1);
    return MIN(rows, each * (c->step_samples ? c->step_samples : all));
}

void mark_tables(struct graph *g, const struct compile_config *c)
{
    for (i32 i = 0; i < g->value_count; i++) {
        struct value *v = &g->values[i];
        if (v->kind != VALUE_PARAM || !v->table || v->frozen) continue;
        i32 node = only_lookup(g, i);
        if (node < 0) continue;
        i64 rows = v->type.shape.dim[0], few = step_rows(g, &g->nodes[node], c, rows);
        if (c->tables != TABLES_AUTO || rows >= SPARSE_SHARE * few) v->sparse_rows = few;
    }
}

/* --- the update --- */

struct row_optimiser {
    i32         op;
    i32         states;
    bool        by_row; /* one number of state a row */
    const char *state[2];
};

static const struct row_optimiser optimisers[] = {
    [TABLES_SGD]     = { OP_ROWS_SGD, 0, false, { NULL, NULL } },
    [TABLES_ADAGRAD] = { OP_ROWS_ADAGRAD, 1, true, { "adagrad.sum", NULL } },
    [TABLES_ADAM]    = { OP_ROWS_ADAM, 2, false, { "adam.m", "adam.v" } },
};

enum tables_kind tables_optimiser(const struct compile_config *c)
{
    if (c->tables != TABLES_AUTO) return c->tables;
    return c->optimiser == OPTIMISER_SGD ? TABLES_SGD : TABLES_ADAM;
}

/* A tensor of the table's own: no range of many. */
static i32 own(struct graph *g, enum value_kind kind, struct str name, struct type type,
               i64 sparse_rows)
{
    i32 v = graph_value(g, kind, name, type);
    if (v >= 0) g->values[v].sparse_rows = sparse_rows;
    return v;
}

i32 table_rows(struct graph *g, const struct value *p)
{
    struct type type = type_of(p->type.dtype == DT_F64 ? DT_F64 : DT_F32,
                               shape_2(p->sparse_rows, p->type.shape.dim[1]));
    return own(g, VALUE_GRAD, str_cat(g->perm, p->name, STR(".grad")), type, p->sparse_rows);
}

i32 table_index(struct graph *g, const struct value *p)
{
    return own(g, VALUE_GRAD, str_cat(g->perm, p->name, STR(".grad.index")),
               type_of(DT_I32, shape_1(p->sparse_rows)), p->sparse_rows);
}

i32 table_square(struct graph *g, const struct graph *train, i32 square)
{
    for (i32 i = 0; i < train->value_count; i++) {
        const struct value *p = &train->values[i];
        if (p->kind != VALUE_PARAM || !p->sparse_rows) continue;
        i32 rows = table_rows(g, p),
            more = graph_op(g, OP_SUMSQ, str_cat(g->perm, p->name, STR(".norm")), &rows, 1, NULL);
        square   = build_binary(g, OP_ADD, str_cat(g->perm, p->name, STR(".norm+")), square, more);
    }
    return square;
}

static void update_table(struct graph *g, const struct compile_config *c, const struct value *p,
                         i32 hyper, i32 factor)
{
    const struct row_optimiser *row  = &optimisers[tables_optimiser(c)];
    enum dtype                  wide = p->type.dtype == DT_F64 ? DT_F64 : DT_F32;
    struct type state = type_of(wide, row->by_row ? shape_1(p->type.shape.dim[0]) : p->type.shape);
    bool        low   = p->type.dtype == DT_BF16 || p->type.dtype == DT_F16;
    i32         in[8], n = 0;
    in[n++] = own(g, VALUE_PARAM, p->name, p->type, p->sparse_rows);
    in[n++] = table_rows(g, p);
    in[n++] = table_index(g, p);
    for (i32 i = 0; i < row->states; i++)
        in[n++] = own(g, VALUE_STATE, str_fmt(g->perm, "%.*s.%s", STR_ARG(p->name), row->state[i]),
                      state, p->sparse_rows);
    in[n++]         = hyper;
    in[n++]         = factor;
    struct attrs at = { .eps = op_info(row->op)->attrs & A_eps ? c->eps : 0 };
    if (low) { /* a step is often smaller than half a unit in the last place */
        in[n++] = graph_value(g, VALUE_SCALAR, STR("rng"), type_of(DT_I32, shape_1(4)));
        at.key  = (i64)str_hash(p->name);
    }
    graph_op(g, row->op, p->name, in, n, &at);
}

void update_tables(struct graph *g, const struct compile_config *c, const struct graph *train,
                   i32 hyper, i32 factor)
{
    for (i32 i = 0; i < train->value_count && !g->err.status; i++) {
        const struct value *p = &train->values[i];
        if (p->kind == VALUE_PARAM && p->sparse_rows) update_table(g, c, p, hyper, factor);
    }
}
