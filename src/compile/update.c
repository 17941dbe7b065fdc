/* update.c - the update as a program: gradient norm, clip factor, and the optimiser as one sweep
 * over each group of parameters. What changes from step to step is read from tensor "hyper". */
#include "compile/compile_int.h"

struct optimiser_row {
    i32         op;
    i32         states;
    const char *state[2];
};

static const struct optimiser_row optimisers[] = {
    [OPTIMISER_SGD]   = { OP_SGD, 1, { "sgd.momentum", NULL } },
    [OPTIMISER_ADAM]  = { OP_ADAM, 2, { "adam.m", "adam.v" } },
    [OPTIMISER_ADAMW] = { OP_ADAMW, 2, { "adam.m", "adam.v" } },
};

enum group group_of(const struct value *param)
{
    return param->frozen ? GROUP_FROZEN : param->decay ? GROUP_DECAY : GROUP_REST;
}

i64 group_count(const struct graph *g, enum group from, enum group to, i64 align_bytes)
{
    i64 bytes = 0, item = 1;
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        if (v->kind != VALUE_PARAM || group_of(v) < from || group_of(v) >= to) continue;
        bytes += (type_bytes(v->type) + align_bytes - 1) / align_bytes * align_bytes;
        item = dtype_bytes(v->type.dtype);
    }
    return bytes / item;
}

struct str range_name(struct arena *perm, struct str of, enum group which)
{
    static const char *const tail[] = { "/decay", "/rest", "" };
    return str_fmt(perm, "%.*s%s", STR_ARG(of), tail[which]);
}

static i32 range(struct graph *g, enum value_kind kind, struct str of, enum group which,
                 struct type type)
{
    return graph_value(g, kind, range_name(g->perm, of, which), type);
}

static void update_group(struct graph *g, const struct compile_config *c, enum group which,
                         struct type type, i32 hyper, i32 factor)
{
    const struct optimiser_row *row = &optimisers[c->optimiser];
    i32                         in[6], n = 0;
    in[n++] = range(g, VALUE_PARAM, STR("params"), which, type);
    in[n++] = range(g, VALUE_GRAD, STR("grads"), which, type);
    for (i32 i = 0; i < row->states; i++)
        in[n++] = range(g, VALUE_STATE, str_of(row->state[i]), which, type);
    in[n++]         = hyper;
    in[n++]         = factor;
    struct attrs at = { .decay = which == GROUP_DECAY ? c->decay : 0 };
    if (op_info(row->op)->attrs & A_eps) at.eps = c->eps;
    if (op_info(row->op)->attrs & A_nesterov) at.nesterov = c->nesterov;
    graph_op(g, row->op, range_name(g->perm, STR("update"), which), in, n, &at);
}

enum status build_update(struct graph *g, const struct compile_config *c, const struct graph *train,
                         i64 align, struct err *err)
{
    enum dtype dtype = DT_F32;
    for (i32 i = 0; i < train->value_count; i++) {
        if (train->values[i].kind == VALUE_PARAM) dtype = train->values[i].type.dtype;
    }
    i64 total = group_count(train, GROUP_DECAY, GROUP_FROZEN, align);
    if (!total) return err_set(err, STATUS_USAGE, "no parameter is left to train: all are frozen");
    enum dtype wide  = dtype == DT_F64 ? DT_F64 : DT_F32;
    i32        hyper = graph_value(g, VALUE_SCALAR, STR("hyper"), type_of(DT_F32, shape_1(4)));
    i32        factor;
    if (c->clip > 0) {
        i32 grads =
            range(g, VALUE_GRAD, STR("grads"), GROUP_FROZEN, type_of(dtype, shape_1(total)));
        i32 sum = graph_op(g, OP_SUMSQ, STR("norm"), &grads, 1, NULL);
        factor  = graph_op(g, OP_CLIP, STR("clip"), &sum, 1, &(struct attrs){ .limit = c->clip });
        if (factor >= 0) graph_output(g, factor + 1, STR("grad_norm"));
    } else {
        struct attrs one = { .dims = shape_1(1), .add = 1, .dtype = wide };
        factor           = graph_op(g, OP_FILL, STR("clip"), NULL, 0, &one);
    }
    for (enum group which = GROUP_DECAY; which < GROUP_FROZEN && factor >= 0; which++) {
        i64 count = group_count(train, which, which + 1, align);
        if (count) update_group(g, c, which, type_of(dtype, shape_1(count)), hyper, factor);
    }
    return graph_status(g, err);
}
