/* fp8.c - the products of hidden layers on 8-bit operands: docs/decisions/fp8.md.
 *
 *     y = matmul(x, w)        q, t, f = quantise(x)         once for all its readers: t is q transposed
 *                             y       = matmul_fp8(q, q', f, f')
 *
 * Which: a weight that only products read, each of which leads to another product, and the two products that
 * give its layer's gradients. The sizes that depend on the weight decide which tensors have a row of the
 * state, so that programs of any batch agree about it; one whose rows are no multiple of 16 stays as it
 * is altogether. */
#include "ir/fp8.h"
#include "compile/compile_int.h"
#include "ir/build.h"
#include <string.h>

enum { VERDICTS_MAX = 16 };
enum { LEAST = 256 }; /* AUTO: rows and columns of a weight; smaller products are bound by memory */

struct operand { /* a tensor that is cast: a row of the state */
    i32  base;   /* whose it is, the weight's or the activation's */
    i32  read;   /* the value that is cast */
    i64  columns;
    bool gradient;
    i32  cast; /* first result of its quantise, -1: not yet */
};

struct narrowing {
    struct graph            *g;
    const struct pass_input *in;
    enum fp8_kind            kind;
    struct target            target;
    struct verdict {
        i64  rows, low, high; /* of the layer: its weight's sizes in order */
        bool pays;
    } verdicts[VERDICTS_MAX]; /* AUTO: measured once a kind of layer */
    i32             verdict_count;
    bool           *weight; /* by value: a parameter whose products are meant */
    bool           *input;  /* by value: what those products multiply with it, forward */
    struct operand *operands;
    i32             operand_count;
    i32             state;
};

struct sizes {
    i64 M, N, K;
};

static struct sizes sizes_of(const struct graph *g, const struct node *n)
{
    struct shape a = g->values[n->in[0]].type.shape, b = g->values[n->in[1]].type.shape;
    struct sizes s;
    s.K = b.dim[n->at.tb ? 1 : 0];
    s.N = b.dim[n->at.tb ? 0 : 1];
    s.M = shape_count(a) / MAX(s.K, 1);
    return s;
}

static bool is_plain(const struct graph *g, const struct node *n)
{
    return n->op == OP_MATMUL && g->values[n->in[1]].type.shape.rank == 2;
}

/* Views and casts from f32 aside: what the operand is made from. */
static i32 base_of(const struct graph *g, i32 value)
{
    i32 v = graph_viewed(g, value), node = g->values[v].node;
    if (node < 0 || g->nodes[node].op != OP_CAST) return v;
    i32 from = graph_viewed(g, g->nodes[node].in[0]);
    return g->values[from].kind == VALUE_PARAM ? from : v;
}

static bool is_weight(const struct narrowing *w, i32 value)
{
    return w->weight[base_of(w->g, value)];
}

/* Forward: y = x w or x w^T, of a weight that is worth it, and another product follows. */
static bool is_meant(const struct narrowing *w, const struct node *n, const bool *leads)
{
    const struct graph *g = w->g;
    if (!is_plain(g, n) || n->at.ta || n->at.wide || !leads[n->out]) return false;
    struct sizes s = sizes_of(g, n);
    return g->values[base_of(g, n->in[1])].kind == VALUE_PARAM && s.N % FP8_ALIGN == 0 &&
           s.K % FP8_ALIGN == 0 && (w->kind == FP8_ON || MIN(s.N, s.K) >= LEAST) &&
           g->values[n->in[0]].type.dtype == DT_BF16;
}

static void find_weights(struct narrowing *w, struct arena scratch)
{
    struct graph *g         = w->g;
    bool         *leads     = NEW(&scratch, bool, g->value_count + 1);
    bool         *else_read = NEW(&scratch, bool, g->value_count + 1);
    leads_to_product(g, g->forward_count, leads);
    for (i32 i = 0; i < g->forward_count; i++) {
        const struct node *n     = &g->nodes[i];
        bool               meant = is_meant(w, n, leads);
        if (n->op == OP_CAST || op_is_view(n->op)) continue; /* their readers count */
        for (i32 k = 0; k < n->in_count; k++) else_read[base_of(g, n->in[k])] |= !meant || k != 1;
        if (meant) w->weight[base_of(g, n->in[1])] = true;
    }
    for (i32 v = 0; v < g->value_count; v++) w->weight[v] &= !else_read[v];
    for (i32 i = 0; i < g->forward_count; i++) {
        const struct node *n = &g->nodes[i];
        if (is_plain(g, n) && is_weight(w, n->in[1])) w->input[base_of(g, n->in[0])] = true;
    }
}

/* A layer's product, or one of the two that give its gradients. */
static bool is_narrow(const struct narrowing *w, i32 index)
{
    const struct graph *g = w->g;
    const struct node  *n = &g->nodes[index];
    if (!is_plain(g, n)) return false;
    if (is_weight(w, n->in[1]) || is_weight(w, n->in[0])) return true;
    return index >= g->forward_count &&
           (w->input[base_of(g, n->in[0])] || w->input[base_of(g, n->in[1])]);
}

/* --- does it pay? --- */

static f64 seconds_of(const struct target *t, const struct graph *g, i32 value,
                      struct arena scratch)
{
    return target_seconds(t, g, &g->nodes[g->values[value].node], scratch);
}

static i32 trial_value(struct graph *g, const char *name, enum dtype t, i64 rows, i64 columns)
{
    return graph_value(g, VALUE_INPUT, str_of(name), type_of(t, shape_2(rows, columns)));
}

static i32 trial_product(struct graph *g, i32 a, i32 b, bool ta, bool tb, i64 wide)
{
    struct attrs at = { .ta = ta, .tb = tb, .wide = wide };
    return graph_op(g, OP_MATMUL, STR("plain"), (i32[]){ a, b }, 2, &at);
}

static i32 trial_cast(struct graph *g, i32 x, i32 state, i64 format)
{
    return graph_op(g, OP_QUANTISE, STR("cast"), (i32[]){ x, state }, 2,
                    &(struct attrs){ .format = format });
}

static i32 trial_narrow(struct graph *g, i32 a, i32 qa, i32 b, i32 qb, i64 format, i32 like)
{
    struct attrs at = { .format = format,
                        .dims   = g->values[like].type.shape,
                        .dtype  = g->values[like].type.dtype };
    return graph_op(g, OP_MATMUL_FP8, STR("narrow"), (i32[]){ a, b, qa + 2, qb + 2 }, 4, &at);
}

/* A layer's three products in bf16 against the same in fp8 with the three casts, as the target measures. */
static bool measure(const struct target *t, i64 M, i64 N, i64 K, struct arena scratch)
{
    struct graph *g = graph_new(&scratch, STR("trial"));
    i32           x = trial_value(g, "x", DT_BF16, M, K), w = trial_value(g, "w", DT_F32, N, K);
    i32 w16 = trial_value(g, "w16", DT_BF16, N, K), dy = trial_value(g, "dy", DT_BF16, M, N);
    i32 state   = graph_value(g, VALUE_STATE, STR("amax"), type_of(DT_F32, shape_2(1, FP8_STATE)));
    i32 plain[] = { trial_product(g, x, w16, false, true, 0),
                    trial_product(g, dy, w16, false, false, 0),
                    trial_product(g, dy, x, true, false, 1) };
    i32 qx = trial_cast(g, x, state, 0), qw = trial_cast(g, w, state, 0),
        qd       = trial_cast(g, dy, state, 1);
    i32 narrow[] = { qx,
                     qw,
                     qd,
                     trial_narrow(g, qx, qx, qw, qw, 0, plain[0]),
                     trial_narrow(g, qd, qd, qw + 1, qw, 1, plain[1]),
                     trial_narrow(g, qd + 1, qd, qx + 1, qx, 1, plain[2]) };
    f64 before = 0, after = 0;
    ASSERT(!g->err.status);
    for (i64 i = 0; i < COUNT_OF(plain); i++) before += seconds_of(t, g, plain[i], scratch);
    for (i64 i = 0; i < COUNT_OF(narrow); i++) after += seconds_of(t, g, narrow[i], scratch);
    return after < before;
}

/* Of all ranks' parts of a batch the largest has so many rows, by which all of them decide. */
static i64 rows_of_largest(const struct narrowing *w, i64 rows)
{
    i64 batch = MAX(w->in->batch, 1);
    return rows % batch ? rows : rows / batch * part_samples(w->in->config, w->in->id, true);
}

/* Two layers whose weights are each other's transposed have the same three products. */
static bool pays(struct narrowing *w, i32 index, struct arena scratch)
{
    const struct graph *g         = w->g;
    const struct node  *n         = &g->nodes[index];
    struct sizes        s         = sizes_of(g, n);
    bool                of_weight = !is_weight(w, n->in[0]) && !is_weight(w, n->in[1]);
    struct verdict      v         = { rows_of_largest(w, of_weight ? s.K : s.M), 0, 0, true };
    i64                 a = s.N, b = of_weight ? s.M : s.K;
    v.low = MIN(a, b), v.high = MAX(a, b);
    if (w->kind == FP8_ON) return true;
    if (!w->target.fp8 || !w->in->target->seconds) return false;
    for (i32 i = 0; i < w->verdict_count; i++) {
        const struct verdict *k = &w->verdicts[i];
        if (k->rows == v.rows && k->low == v.low && k->high == v.high) return k->pays;
    }
    v.pays = measure(&w->target, v.rows, v.low, v.high, scratch);
    if (w->verdict_count < VERDICTS_MAX) w->verdicts[w->verdict_count++] = v;
    return v.pays;
}

/* --- rewriting --- */

static struct operand *operand_of(struct narrowing *w, i32 value)
{
    const struct graph *g       = w->g;
    i32                 base    = base_of(g, value);
    i64                 columns = shape_last(g->values[value].type.shape);
    for (i32 i = 0; i < w->operand_count; i++) {
        if (w->operands[i].base == base && w->operands[i].columns == columns)
            return &w->operands[i];
    }
    struct operand *o = &w->operands[w->operand_count++];
    /* What is sharded is gathered in half the bytes if it is cast before. */
    i32 read = will_deal(w->in->config, &g->values[base]) ? graph_viewed(g, value) : base;
    *o = (struct operand){ base, read, columns, g->values[base].node >= g->forward_count, -1 };
    return o;
}

static i32 cast_of(struct narrowing *w, struct operand *o)
{
    struct graph *g    = w->g;
    struct value *v    = &g->values[o->base];
    struct str    name = v->name.len || v->node < 0 ? v->name : g->nodes[v->node].name;
    struct attrs  at   = { .start = o - w->operands, .format = o->gradient };
    i32           x    = o->read;
    if (o->cast >= 0) return o->cast;
    name = str_fmt(g->perm, "%.*s.fp8", STR_ARG(name));
    if (shape_last(v->type.shape) != o->columns)
        x = build_reshape(g, name, x, shape_2(shape_count(v->type.shape) / o->columns, o->columns));
    return o->cast = graph_op(g, OP_QUANTISE, name, (i32[]){ x, w->state }, 2, &at);
}

/* Both operands with the summed axis contiguous: as they lie, or transposed. */
static void narrow(struct narrowing *w, struct node *n)
{
    struct graph   *g = w->g;
    struct operand *a = operand_of(w, n->in[0]), *b = operand_of(w, n->in[1]);
    i32             qa = cast_of(w, a), qb = cast_of(w, b);
    i32            *in = NEW(g->perm, i32, 5);
    struct attrs    at = { .format = (i64)a->gradient | (i64)b->gradient << 1,
                           .dims   = g->values[n->out].type.shape,
                           .dtype  = g->values[n->out].type.dtype };
    in[0] = qa + (n->at.ta ? 1 : 0), in[2] = qa + 2;
    in[1] = qb + (n->at.tb ? 0 : 1), in[3] = qb + 2;
    if (n->in_count == 3) in[4] = n->in[2];
    n->op       = OP_MATMUL_FP8;
    n->in       = in;
    n->in_count = n->in_count + 2;
    n->at       = at;
}

/* Of every rank's part of the batch, so that all of them find the same. */
static bool rows_fit(const struct narrowing *w, i64 rows)
{
    i64 batch = MAX(w->in->batch, 1), each = rows / batch;
    for (i32 largest = 0; largest < 2 && rows % batch == 0; largest++)
        if (each * part_samples(w->in->config, w->in->id, largest) % FP8_ALIGN) return false;
    return true;
}

/* Lists the operands; false: there are none, or a product's rows do not fit. */
static bool list_operands(struct narrowing *w)
{
    const struct graph *g = w->g;
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (!is_narrow(w, i)) continue;
        struct sizes s = sizes_of(g, n);
        if (s.M % FP8_ALIGN || s.N % FP8_ALIGN || s.K % FP8_ALIGN) return false;
        if (i < g->forward_count && !rows_fit(w, s.M)) return false;
        if (operand_of(w, n->in[0])->gradient && operand_of(w, n->in[1])->gradient) return false;
    }
    /* What is left: a weight that no gradient is multiplied by. Later, so that the rows of all others
     * stay where checkpoints have them. */
    for (i32 i = 0; i < g->node_count; i++)
        if (is_narrow(w, i)) operand_of(w, g->nodes[i].in[1]);
    return w->operand_count > 0;
}

/* Every node anew; `picked` are those that change. */
static void rewrite(struct narrowing *w, const bool *picked, struct arena scratch)
{
    struct graph *g     = w->g;
    i32           count = g->node_count, forward = g->forward_count;
    struct node  *nodes = NEW(&scratch, struct node, count + 1);
    memcpy(nodes, g->nodes, (size_t)count * sizeof *nodes);
    w->state      = graph_value(g, VALUE_STATE, STR("fp8.amax"),
                                type_of(DT_F32, shape_2(w->operand_count, FP8_STATE)));
    g->node_count = 0;
    for (i32 i = 0; i < count && !g->err.status; i++) {
        struct node n = nodes[i];
        if (i == forward) g->forward_count = g->node_count;
        g->block = n.block; /* of the casts */
        if (picked[i]) narrow(w, &n);
        graph_reserve(g);
        for (i32 k = 0; k < node_results(&n); k++) g->values[n.out + k].node = g->node_count;
        g->nodes[g->node_count++] = n;
    }
    g->block = 0;
}

enum status narrow_products(struct graph *g, const struct pass_input *in, struct arena scratch,
                            struct err *err)
{
    struct narrowing w      = { .g = g, .in = in, .kind = in->config->fp8, .target = *in->target };
    bool            *picked = NEW(&scratch, bool, g->node_count + 1), any = false;
    if (deals(in->config)) w.target.seconds = NULL; /* rates are the same on all ranks */
    w.weight   = NEW(&scratch, bool, g->value_count + 1);
    w.input    = NEW(&scratch, bool, g->value_count + 1);
    w.operands = NEW(&scratch, struct operand, 2 * g->node_count + 1);
    find_weights(&w, scratch);
    if (!list_operands(&w)) return STATUS_OK;
    for (i32 i = 0; i < g->node_count; i++) {
        picked[i] = is_narrow(&w, i) && pays(&w, i, scratch);
        any |= picked[i];
    }
    if (!any) return STATUS_OK;
    rewrite(&w, picked, scratch);
    if (!g->err.status) remove_dead(g, scratch);
    return graph_status(g, err);
}
