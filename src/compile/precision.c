/* precision.c - which tensors are kept in a low type, bf16 or f16, and the casts between.
 *
 *     weight f32 ── cast ──┐
 *     x bf16 ──────────── matmul ── y bf16 ── …      y' bf16 ── matmul, wide ── weight.grad f32
 *
 * Frozen matrices are low themselves where the configuration says so. Other parameters, their gradients, optimiser
 * state and everything the host reads stay f32, and so do losses and statistics, by the shape rules. Other results
 * are stored as their operands are; the low type enters where an op of class LOW asks for it, and where an activation
 * is first made from a parameter (an embedding). An operand stays as it is wherever the op's own shape rule takes it
 * beside the others: so biases and norms' weights are read as f32 without a word here.
 *
 * With `wide_sums` the stream of a residual network is f32 too: what an embedding gives, whatever is added to it,
 * and its gradients. What is added is made f32 where it comes from, a product, and norms give the low type on.
 *
 * A value is cast at most once each way, before its first reader, and never there and back. */
#include "compile/compile_int.h"
#include "ir/build.h"
#include <string.h>

struct lowering {
    struct graph *g;
    enum dtype    low;
    bool          stochastic; /* casts of parameters */
    struct type  *was;        /* by value: as the model was written */
    i32          *now;        /* by value: what its readers take */
    i32          *cast[2];    /* by value: its copy in the low type [0], in f32 [1], or -1 */
    bool         *kept;       /* by value: persists, or only leads to what does: shall be f32 */
    bool         *stream;  /* by value: of the residual stream, which is f32; NULL: no such thing */
    i32          *readers; /* by value, in the model as it was written */
    bool         *added;   /* by value: one of them is a sum, or dropout before one */
    bool          fp8;     /* products may read 8 bits, and then give no f32 */
};

/* Gradients of parameters, also while they are scaled, turned round or added up on their way. */
static void mark_kept(struct lowering *l, struct arena scratch)
{
    const struct graph *g       = l->g;
    bool               *read    = NEW(&scratch, bool, g->value_count + 1);
    bool               *spoiled = NEW(&scratch, bool, g->value_count + 1);
    for (i32 i = g->node_count - 1; i >= 0; i--) {
        const struct node    *n  = &g->nodes[i];
        const struct op_info *op = op_info(n->op);
        for (i32 k = 0; k < op->out_count; k++) {
            i32 v      = n->out + k;
            l->kept[v] = g->values[v].kind != VALUE_TEMP || (read[v] && !spoiled[v]);
        }
        bool passes = op->dtype_class == CLASS_AS_IN && op->out_count == 1 &&
                      !(op->attrs & A_wide) && l->kept[n->out];
        for (i32 k = 0; k < n->in_count; k++) {
            read[n->in[k]] = true;
            spoiled[n->in[k]] |= !passes;
        }
    }
}

static enum dtype dtype_of(const struct lowering *l, i32 value)
{
    return l->g->values[value].type.dtype;
}

static struct str cast_name(struct graph *g, i32 value, enum dtype to)
{
    const struct value *v    = &g->values[value];
    struct str          name = v->name.len || v->node < 0 ? v->name : g->nodes[v->node].name;
    return str_fmt(g->perm, "%.*s.%.*s", STR_ARG(name), STR_ARG(dtype_name(to)));
}

static i32 add_cast(struct lowering *l, i32 value, enum dtype to)
{
    struct graph *g     = l->g;
    i32           in[]  = { value, -1 };
    i32           count = 1;
    struct str    name  = cast_name(g, value, to);
    struct attrs  at    = { .dtype = to };
    if (l->stochastic && g->values[value].kind == VALUE_PARAM) {
        in[count++]   = graph_value(g, VALUE_SCALAR, STR("rng"), type_of(DT_I32, shape_1(4)));
        at.stochastic = 1;
        at.key        = (i64)str_hash(g->values[value].name);
    }
    return graph_op(g, OP_CAST, name, in, count, &at);
}

/* The value in type `to`, the low one or f32. What a cast made is taken from before that cast. */
static i32 as_type(struct lowering *l, i32 value, enum dtype to)
{
    i32 node = l->g->values[value].node;
    if (dtype_of(l, value) == to) return value;
    if (node >= 0 && l->g->nodes[node].op == OP_CAST) value = l->g->nodes[node].in[0];
    i32 *copy = &l->cast[to == DT_F32][value];
    if (dtype_of(l, value) == to) return value;
    if (*copy < 0) *copy = add_cast(l, value, to);
    return *copy;
}

/* Fills `out` by the op's shape rule. */
static bool accepted(const struct lowering *l, const struct node *n, struct type *out)
{
    struct type in[OP_IN_MAX];
    struct err  why;
    for (i32 k = 0; k < n->in_count; k++) in[k] = l->g->values[n->in[k]].type;
    struct sig s = { in, n->in_count, out, &n->at, n->op };
    return op_info(n->op)->shape(&s, &why) == STATUS_OK;
}

static bool reads_stream(const struct lowering *l, const struct node *n)
{
    for (i32 k = 0; k < n->in_count && l->stream; k++)
        if (l->stream[n->in[k]]) return true;
    return false;
}

/* A low value in f32: by the product itself where nobody else reads it and it may, else by a cast. */
static i32 raise(struct lowering *l, i32 value)
{
    struct value *v = &l->g->values[value];
    struct node  *n = v->node < 0 ? NULL : &l->g->nodes[v->node];
    if (!n || n->op != OP_MATMUL || l->readers[value] != 1 || l->fp8)
        return as_type(l, value, DT_F32);
    n->at.wide    = 1;
    v->type.dtype = DT_F32;
    return value;
}

/* Casts operands until the op takes them together. */
static void agree(struct lowering *l, struct node *n, const struct node *was, struct type *out)
{
    const struct op_info *op = op_info(n->op);
    for (i32 k = 0; k < n->in_count && op->dtype_class == CLASS_FP32; k++)
        if (dtype_is_float(l->was[was->in[k]].dtype))
            n->in[k] = as_type(l, n->in[k], l->was[was->in[k]].dtype);
    for (i32 k = 0; k < n->in_count && op->dtype_class == CLASS_AS_IN && reads_stream(l, n); k++)
        if (dtype_of(l, n->in[k]) == l->low) n->in[k] = raise(l, n->in[k]);
    if (op->dtype_class == CLASS_LOW) n->in[0] = as_type(l, n->in[0], l->low);
    for (i32 k = 0; k < n->in_count && !accepted(l, n, out); k++)
        if (dtype_of(l, n->in[k]) == DT_F32) n->in[k] = as_type(l, n->in[k], l->low);
    if (op->attrs & A_wide && dtype_of(l, n->in[0]) == l->low)
        n->at.wide = op->batch == BATCH_SUM || l->kept[n->out];
    ASSERT(accepted(l, n, out));
}

/* A low result that persists: what persists is its copy in f32. */
static void keep_wide(struct lowering *l, i32 value)
{
    struct graph *g    = l->g;
    struct value  kept = g->values[value];
    g->values[value]   = (struct value){ .type = kept.type, .kind = VALUE_TEMP, .node = kept.node };
    i32 wide           = as_type(l, value, DT_F32);
    if (wide < 0) return;
    g->values[wide].kind = kept.kind;
    g->values[wide].name = kept.name;
}

static bool reads_param(const struct lowering *l, const struct node *n)
{
    for (i32 k = 0; k < n->in_count; k++)
        if (l->g->values[n->in[k]].kind == VALUE_PARAM) return true;
    return false;
}

/* Is the node's result the stream again, or its gradient? That of a norm or of dropout is where
 * something is added to it. */
static bool goes_on(const struct lowering *l, const struct node *n)
{
    bool begins = n->op == OP_LAYERNORM || n->op == OP_RMSNORM || n->op == OP_DROPOUT;
    return n->op == OP_EMBEDDING || n->op == OP_ADD || n->op == OP_LAYERNORM_GRAD ||
           n->op == OP_RMSNORM_GRAD || (begins && l->added[n->out]);
}

/* A cast of a low value to f32, written for a table of bf16 in a model of f32, and that of its gradient back: readers
 * take the low value, which nothing is lost of. */
static bool is_in_vain(const struct lowering *l, const struct node *n)
{
    bool to_wide = n->at.dtype == DT_F32 && !l->stream;
    return n->op == OP_CAST && l->g->values[n->out].kind == VALUE_TEMP &&
           dtype_of(l, n->in[0]) == l->low && (to_wide || n->at.dtype == l->low);
}

static void lower(struct lowering *l, const struct node *was)
{
    struct graph         *g  = l->g;
    const struct op_info *op = op_info(was->op);
    struct node           n  = *was;
    struct type           out[OP_OUT_MAX];
    n.in     = NEW(g->perm, i32, MAX(n.in_count, 1));
    g->block = n.block; /* of the casts */
    for (i32 k = 0; k < n.in_count; k++) n.in[k] = l->now[was->in[k]];
    if (is_in_vain(l, &n)) {
        l->now[n.out]         = n.in[0];
        g->values[n.out].node = -1;
        return;
    }
    if (n.op == OP_UNPACK) n.at.dtype = l->low; /* products read it, and nobody else */
    agree(l, &n, was, out);
    graph_reserve(g);
    for (i32 k = 0; k < op->out_count; k++) {
        g->values[n.out + k].type = out[k];
        g->values[n.out + k].node = g->node_count;
    }
    g->nodes[g->node_count++] = n;
    for (i32 k = 0; k < op->out_count; k++) {
        bool keeps = g->values[n.out + k].kind != VALUE_TEMP;
        if (keeps && dtype_of(l, n.out + k) != l->was[n.out + k].dtype) keep_wide(l, n.out + k);
    }
    bool born = op->dtype_class == CLASS_AS_IN && op->out_count && reads_param(l, &n);
    if (born && l->stream && n.op == OP_EMBEDDING && dtype_of(l, n.out) == l->low) {
        l->now[n.out]            = as_type(l, n.out, DT_F32); /* of a frozen table */
        l->stream[l->now[n.out]] = true;
    }
    if (!op->out_count || dtype_of(l, n.out) != DT_F32) return;
    if (l->stream && goes_on(l, &n) && (born || reads_stream(l, &n))) l->stream[n.out] = true;
    else if (born) l->now[n.out] = as_type(l, n.out, l->low);
}

static void scale_loss(struct lowering *l, const struct compile_config *c)
{
    i32 seed = graph_find(l->g, STR("loss_seed"));
    if (seed >= 0 && l->low == DT_F16) l->now[seed] = scaled_seed(l->g, c, seed);
}

static struct lowering lowering_new(struct graph *g, const struct compile_config *c,
                                    struct arena *scratch)
{
    i32             count = g->value_count, room = 3 * count + 2; /* two casts of each, rng */
    struct lowering l = { .g = g, .low = c->precision };
    l.stochastic      = c->stochastic && g->forward_count;
    l.fp8             = c->fp8 != FP8_OFF;
    l.was             = NEW(scratch, struct type, room);
    l.now             = NEW(scratch, i32, room);
    l.cast[0]         = NEW(scratch, i32, room);
    l.cast[1]         = NEW(scratch, i32, room);
    l.kept            = NEW(scratch, bool, room);
    l.stream          = c->wide_sums ? NEW(scratch, bool, room) : NULL;
    l.readers         = NEW(scratch, i32, room);
    l.added           = NEW(scratch, bool, room);
    for (i32 i = g->node_count - 1; i >= 0; i--) {
        const struct node *n    = &g->nodes[i];
        bool               adds = n->op == OP_ADD || (n->op == OP_DROPOUT && l.added[n->out]);
        for (i32 k = 0; k < n->in_count; k++) {
            l.readers[n->in[k]]++;
            l.added[n->in[k]] |= adds;
        }
    }
    for (i32 v = 0; v < room; v++) {
        l.was[v]     = v < count ? g->values[v].type : (struct type){ 0 };
        l.now[v]     = v;
        l.cast[0][v] = l.cast[1][v] = -1;
    }
    return l;
}

/* Frozen matrices are kept as products read them: there is nothing to add small steps to. Not in f16, which cannot hold
 * every number of a bf16 model. */
static void narrow_frozen(struct graph *g, const struct compile_config *c, struct arena scratch)
{
    bool *packed = NEW(&scratch, bool, g->value_count + 1); /* belongs to a matrix in fewer bits */
    if (c->precision != DT_BF16 || !c->frozen_low) return;
    for (i32 i = 0; i < g->node_count; i++)
        for (i32 k = 0; k < g->nodes[i].in_count; k++)
            packed[g->nodes[i].in[k]] |= g->nodes[i].op == OP_UNPACK;
    for (i32 v = 0; v < g->value_count; v++) {
        struct value *p = &g->values[v];
        if (p->kind == VALUE_PARAM && p->frozen && p->type.shape.rank > 1 && !packed[v])
            p->type.dtype = DT_BF16;
    }
}

enum status assign_precision(struct graph *g, const struct compile_config *c, struct arena scratch,
                             struct err *err)
{
    if (c->precision == DT_F32) return STATUS_OK;
    for (i32 v = 0; v < g->value_count; v++) {
        if (g->values[v].kind == VALUE_PARAM && g->values[v].type.dtype == DT_F64)
            return err_set(err, STATUS_USAGE,
                           "model.dtype=f64 and a low train.precision contradict each other: "
                           "f64 is computed in f64 throughout");
    }
    narrow_frozen(g, c, scratch);
    struct lowering l     = lowering_new(g, c, &scratch);
    i32             count = g->node_count, forward = g->forward_count;
    struct node    *nodes = NEW(&scratch, struct node, count + 1);
    memcpy(nodes, g->nodes, (size_t)count * sizeof *nodes);
    mark_kept(&l, scratch);
    g->node_count = 0;
    for (i32 i = 0; i < count && !g->err.status; i++) {
        if (i == forward) {
            g->forward_count = g->node_count;
            scale_loss(&l, c);
        }
        lower(&l, &nodes[i]);
    }
    g->block = 0;
    if (!g->err.status) remove_dead(g, scratch);
    return graph_status(g, err);
}
