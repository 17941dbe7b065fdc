/* update.c - the update as a program: gradient norm, clip factor, and the optimiser as one sweep
 * over each group of parameters, or of Muon as a node a matrix. What changes from step to step is read from
 * tensors "hyper" and "hyper.muon". */
#include "compile/compile_int.h"
#include "ir/build.h"
#include "ir/collective.h"
#include "ir/muon.h"
#include <math.h>

struct optimiser_row {
    i32         op;
    i32         states;
    const char *state[2];
};

static const struct optimiser_row optimisers[] = {
    [OPTIMISER_SGD]   = { OP_SGD, 1, { "sgd.momentum", NULL } },
    [OPTIMISER_ADAM]  = { OP_ADAM, 2, { "adam.m", "adam.v" } },
    [OPTIMISER_ADAMW] = { OP_ADAMW, 2, { "adam.m", "adam.v" } },
    [OPTIMISER_MUON]  = { OP_ADAMW, 2, { "adam.m", "adam.v" } }, /* what is no hidden matrix */
};

enum group group_of(const struct value *param)
{
    if (param->frozen) return GROUP_FROZEN;
    if (param->sparse_rows) return GROUP_TABLES;
    return param->hidden ? GROUP_HIDDEN : param->decay ? GROUP_DECAY : GROUP_REST;
}

static i64 round_up(i64 bytes, i64 to) { return (bytes + to - 1) / to * to; }

i64 group_count(const struct graph *g, enum group from, enum group to, struct room room)
{
    i64 all = 0, item = 1;
    for (enum group which = from; which < to; which++) {
        i64 bytes = 0;
        for (i32 i = 0; i < g->value_count; i++) {
            const struct value *v = &g->values[i];
            if (v->kind != VALUE_PARAM || group_of(v) != which) continue;
            bytes += round_up(type_bytes(v->type), room.align_bytes);
            item = dtype_bytes(v->type.dtype);
        }
        bool dealt = which == GROUP_DECAY || which == GROUP_REST;
        all += dealt ? round_up(bytes, room.align_bytes * room.parts) : bytes;
    }
    return all / item;
}

struct str range_name(struct arena *perm, struct range r)
{
    static const char *const tail[] = { "/hidden", "/decay", "/rest", "" };
    if (r.part) return str_fmt(perm, "%.*s%s#%d", STR_ARG(r.of), tail[r.group], r.part - 1);
    if (r.group != GROUP_HIDDEN || !r.param.len)
        return str_fmt(perm, "%.*s%s", STR_ARG(r.of), tail[r.group]);
    return str_fmt(perm, "%.*s[%lld]/%.*s", STR_ARG(r.of), (long long)r.row, STR_ARG(r.param));
}

/* "decay", "rest#3" */
static struct range part_of(struct str tail)
{
    struct range r    = { .group = GROUP_FROZEN };
    struct str   head = tail;
    i64          part;
    i64          at = str_find(tail, '#');
    if (at >= 0) head = str_sub(tail, 0, at);
    if (str_eq(head, STR("decay"))) r.group = GROUP_DECAY;
    if (str_eq(head, STR("rest"))) r.group = GROUP_REST;
    if (at >= 0 && str_i64(str_sub(tail, at + 1, tail.len), &part)) r.part = (i32)part + 1;
    return r;
}

struct range range_of(struct str name)
{
    struct str   tail = name, head;
    struct range r    = { .group = GROUP_FROZEN };
    str_cut(&tail, '/', &head);
    if (str_find(head, '[') >= 0) r = (struct range){ .group = GROUP_HIDDEN, .param = tail };
    else if (str_eq(tail, STR("hidden"))) r.group = GROUP_HIDDEN;
    else r = part_of(tail);
    str_cut(&head, '[', &r.of);
    str_i64(str_sub(head, 0, head.len - 1), &r.row);
    return r;
}

static i32 range(struct graph *g, enum value_kind kind, struct range r, const char *of,
                 struct type type)
{
    r.of = str_of(of);
    return graph_value(g, kind, range_name(g->perm, r), type);
}

static enum dtype param_dtype(const struct graph *train)
{
    enum dtype dtype = DT_F32;
    for (i32 i = 0; i < train->value_count; i++) {
        const struct value *v = &train->values[i];
        if (v->kind == VALUE_PARAM && !v->sparse_rows && !v->frozen) dtype = v->type.dtype;
    }
    return dtype;
}

i32 group_range(struct graph *g, enum value_kind kind, const char *of, const struct graph *train,
                enum group which, struct room room)
{
    i64 count = group_count(train, which, which + 1, room);
    return range(g, kind, (struct range){ .group = which }, of,
                 type_of(param_dtype(train), shape_1(count)));
}

/* `count` elements: this rank's part where the group is dealt out. */
static void update_group(struct graph *g, const struct compile_config *c, const struct graph *train,
                         enum group which, struct type type, i32 hyper, i32 factor)
{
    const struct optimiser_row *row = &optimisers[c->optimiser];
    struct range                r   = { .of = STR("update"), .group = which, .param = STR("") };
    i32                         in[7], n = 0;
    i32 copies = which == GROUP_DECAY ? copies_range(g, train, shape_count(type.shape)) : -1;
    i32 sum    = shard_gradient(g, which == GROUP_DECAY ? STR("grads/decay") : STR("grads/rest"));
    if (shard_parts(c) > 1) r.part = shard_place(c) + 1;
    in[n++] = range(g, VALUE_PARAM, r, "params", type);
    in[n++] = sum >= 0 ? sum : range(g, VALUE_GRAD, r, "grads", type);
    for (i32 i = 0; i < row->states; i++) in[n++] = range(g, VALUE_STATE, r, row->state[i], type);
    in[n++] = hyper;
    in[n++] = factor;
    if (copies >= 0) in[n++] = copies;
    struct attrs at = { .decay = which == GROUP_DECAY ? c->decay : 0 };
    if (op_info(row->op)->attrs & A_eps) at.eps = c->eps;
    if (op_info(row->op)->attrs & A_nesterov) at.nesterov = c->nesterov;
    graph_op(g, row->op, range_name(g->perm, r), in, n, &at);
}

/* Factor on the rate, so that one rate suits matrices of any shape. */
static f64 muon_scale(enum muon_scale kind, struct muon_sizes z)
{
    if (kind == MUON_MATCH_RMS_ADAMW) return 0.2 * sqrt((f64)MAX(z.rows, z.columns));
    return sqrt(MAX(1, (f64)z.rows / (f64)z.columns));
}

/* Of several ranks one may do it for all. */
static void update_matrix(struct graph *g, const struct compile_config *c, const struct value *p,
                          struct range r, i64 rows, i32 owner, i32 hyper, i32 factor)
{
    struct type type  = p->type;
    type.shape.dim[0] = rows;
    if (owner >= 0 && owner != shard_place(c)) {
        shard_matrix(g, c, range(g, VALUE_PARAM, r, "params", type), owner);
        return;
    }
    struct attrs at = { .nesterov = 1,
                        .scale    = muon_scale(c->muon_scale, muon_sizes(type.shape)),
                        .decay    = p->decay ? c->decay : 0,
                        .dtype    = p->type.dtype == DT_F32 ? c->precision : p->type.dtype };
    i32 in[] = { range(g, VALUE_PARAM, r, "params", type), range(g, VALUE_GRAD, r, "grads", type),
                 range(g, VALUE_STATE, r, "muon.momentum", type), hyper, factor };
    graph_op(g, OP_MUON,
             r.row ? str_fmt(g->perm, "%.*s[%lld]", STR_ARG(r.param), (long long)r.row) : r.param,
             in, COUNT_OF(in), &at);
    if (owner >= 0) shard_matrix(g, c, in[0], owner);
}

/* Matrices packed into one parameter are made orthogonal each by itself: queries, keys and values
 * in one product are still three maps (Jordan 2024 found it better so). */
static void update_hidden(struct graph *g, const struct compile_config *c, const struct value *p,
                          i32 owner, i32 hyper, i32 factor)
{
    struct range r = { .group = GROUP_HIDDEN, .param = p->name };
    if (!p->part_rows[0]) update_matrix(g, c, p, r, p->type.shape.dim[0], owner, hyper, factor);
    for (i32 i = 0; i < MATRIX_PARTS_MAX && p->part_rows[i]; i++) {
        update_matrix(g, c, p, r, p->part_rows[i], owner, hyper, factor);
        r.row += p->part_rows[i];
    }
}

i32 gradients_of(struct graph *g, const struct graph *train, struct room room)
{
    i64 count = group_count(train, GROUP_HIDDEN, GROUP_FROZEN, room);
    return range(g, VALUE_GRAD, (struct range){ .group = GROUP_FROZEN }, "grads",
                 type_of(param_dtype(train), shape_1(count)));
}

/* The sum of squares of all gradients, padding counted: it is 0. */
static i32 gradient_square(struct graph *g, const struct compile_config *c,
                           const struct graph *train, struct room room)
{
    if (c && (room.parts > 1 || deals(c)))
        return table_square(g, train, shard_square(g, c, train, room));
    i32 grads = gradients_of(g, train, room);
    return table_square(g, train, graph_op(g, OP_SUMSQ, STR("norm"), &grads, 1, NULL));
}

enum status build_square(struct graph *g, const struct graph *train, i64 align, struct err *err)
{
    i32 square = gradient_square(g, NULL, train, (struct room){ align, 1 });
    if (square >= 0) graph_output(g, square, STR("grad_square"));
    return graph_status(g, err);
}

/* What the gradients are multiplied by, and what an optimiser takes for the number of this step:
 * -1: the one that the host gives. */
struct begin {
    i32 factor, step;
};

static struct begin begin_update(struct graph *g, const struct compile_config *c,
                                 const struct graph *train, struct room room)
{
    bool            scaled = c->precision == DT_F16;
    struct unscaled u      = { .step = -1 };
    i32             factor;
    if (c->clip > 0 || scaled) u.sumsq = gradient_square(g, c, train, room);
    if (scaled) u = unscale(g, c, u.sumsq);
    if (c->clip > 0) {
        factor =
            graph_op(g, OP_CLIP, STR("clip"), &u.sumsq, 1, &(struct attrs){ .limit = c->clip });
        if (factor >= 0) graph_output(g, factor + 1, STR("grad_norm"));
        if (scaled) factor = build_binary(g, OP_MUL, STR("clip.unscaled"), factor, u.factor);
    } else if (scaled) {
        factor = u.factor;
    } else {
        struct attrs one = { .dims = shape_1(1), .add = 1 };
        one.dtype        = param_dtype(train) == DT_F64 ? DT_F64 : DT_F32;
        factor           = graph_op(g, OP_FILL, STR("clip"), NULL, 0, &one);
    }
    return (struct begin){ factor, u.step };
}

static i32 hyper_of(struct graph *g, const char *name, i32 step)
{
    i32 hyper = graph_value(g, VALUE_SCALAR, str_of(name), type_of(DT_F32, shape_1(4)));
    return step < 0 ? hyper : hyper_with_step(g, hyper, step);
}

static void update_hiddens(struct graph *g, const struct compile_config *c,
                           const struct graph *train, struct room room, struct begin b)
{
    i64 at = 0, item = dtype_bytes(param_dtype(train));
    i64 all   = group_count(train, GROUP_HIDDEN, GROUP_DECAY, room) * item;
    i32 hyper = all ? hyper_of(g, "hyper.muon", b.step) : -1;
    for (i32 i = 0; i < train->value_count && !g->err.status; i++) {
        const struct value *p = &train->values[i];
        if (p->kind != VALUE_PARAM || group_of(p) != GROUP_HIDDEN) continue;
        i64 bytes = type_bytes(p->type);
        i32 owner = shard_owners(c) > 1 ? ranks_owner(at, bytes, all, shard_owners(c)) : -1;
        update_hidden(g, c, p, owner, hyper, b.factor);
        at += round_up(bytes, room.align_bytes);
    }
}

enum status build_update(struct graph *g, const struct compile_config *c, const struct graph *train,
                         i64 align, struct err *err)
{
    enum dtype  dtype = param_dtype(train);
    struct room room  = { align, shard_parts(c) };
    i64         total = group_count(train, GROUP_HIDDEN, GROUP_FROZEN, room);
    if (!total) return err_set(err, STATUS_USAGE, "no parameter is left to train: all are frozen");
    struct begin b     = begin_update(g, c, train, room);
    i32          hyper = hyper_of(g, "hyper", b.step);
    update_hiddens(g, c, train, room, b);
    for (enum group which = GROUP_DECAY; which < GROUP_FROZEN && !g->err.status; which++) {
        i64         count = group_count(train, which, which + 1, room) / room.parts;
        struct type type  = type_of(dtype, shape_1(count));
        if (count) update_group(g, c, train, which, type, hyper, b.factor);
    }
    if (room.parts > 1) shard_gather(g, c, train, room);
    update_tables(g, c, train, hyper, b.factor);
    i32 amax = graph_find(train, STR("fp8.amax"));
    if (amax >= 0) {
        i32 state = graph_value(g, VALUE_STATE, STR("fp8.amax"), train->values[amax].type);
        graph_op(g, OP_FP8_ADVANCE, STR("fp8.advance"), &state, 1, NULL);
    }
    return graph_status(g, err);
}
