/* loss.c - the loss over a vocabulary and its gradient at once, a part of the rows at a time.
 *
 *     logits = matmul(x, w)  [softcap]  xent  ..  xent_grad  [softcap_grad]  dx = matmul, dw = matmul
 *
 * What goes back through the loss depends on nothing but logits and targets, so it need not wait for
 * the way back: each part of the rows has its logits, loss, their gradient and its share of dx and
 * dw before the next part's logits are made. They are the largest tensor of a language model, and
 * only one part of them is ever there; they are read once and written over once. dw is the
 * sum over parts, in their order.
 *
 * It is done where all of that is found as above and nobody else looks at the logits. */
#include "compile/compile_int.h"
#include "ir/build.h"
#include <string.h>

enum { NONE = -1, PARTS_MAX = 64 };

struct head { /* nodes; NONE: there is no such */
    i32 product, cap, xent, xent_grad, cap_grad, dx, dw;
};

struct joiner {
    struct graph *g;
    struct node  *from;  /* the nodes as they were */
    i32           count; /* of them */
    i32          *reads; /* by value: nodes that read it, and one for the host */
    i32          *now;   /* by value: what stands for it from now on */
    bool         *gone;  /* by node */
    struct head   head;
    i64           part_bytes;
};

static i32 maker(const struct joiner *j, i32 value) { return j->g->values[value].node; }

static const struct node *made_by(const struct joiner *j, i32 value, i32 op)
{
    i32 n = maker(j, value);
    return n >= 0 && j->from[n].op == op ? &j->from[n] : NULL;
}

static i32 index_of(const struct joiner *j, const struct node *n)
{
    return n ? (i32)(n - j->from) : NONE;
}

/* The only node that reads the value; NULL if there are more, or the host does. */
static const struct node *only_reader(const struct joiner *j, i32 value)
{
    if (j->reads[value] != 1) return NULL;
    for (i32 i = 0; i < j->count; i++) {
        for (i32 k = 0; k < j->from[i].in_count; k++)
            if (j->from[i].in[k] == value) return &j->from[i];
    }
    return NULL;
}

/* Can it be computed before everything else: from what the host gives alone? */
static bool is_given(const struct joiner *j, i32 value, i32 depth)
{
    i32 n = maker(j, value);
    if (n < 0) return true;
    bool given = depth > 0 && op_info(j->from[n].op)->effect == EFFECT_NONE;
    for (i32 k = 0; given && k < j->from[n].in_count; k++)
        given = is_given(j, j->from[n].in[k], depth - 1);
    return given;
}

/* Both products that read d, and nobody else: through views or not. */
static bool find_products(struct joiner *j, i32 d, i32 x, i32 w)
{
    i32 readers = 0;
    for (i32 i = 0; i < j->count; i++) {
        const struct node *n = &j->from[i];
        for (i32 k = 0; k < n->in_count; k++) {
            if (op_is_view(n->op) || graph_viewed(j->g, n->in[k]) != d) continue;
            readers++;
            if (n->op != OP_MATMUL || k || n->in_count != 2 || n->at.tb || n->at.then.count)
                return false;
            if (n->at.ta && graph_viewed(j->g, n->in[1]) == graph_viewed(j->g, x)) j->head.dw = i;
            if (!n->at.ta && n->in[1] == w) j->head.dx = i;
        }
    }
    return readers == 2 && j->head.dw >= 0 && j->head.dx >= 0;
}

static bool find_head(struct joiner *j)
{
    struct head *h = &j->head;
    *h             = (struct head){ NONE, NONE, NONE, NONE, NONE, NONE, NONE };
    for (i32 i = 0; i < j->count; i++)
        if (j->from[i].op == OP_XENT_GRAD) h->xent_grad = i;
    if (h->xent_grad < 0) return false;
    const struct node *grad = &j->from[h->xent_grad];
    const struct node *xent = made_by(j, grad->in[3], OP_XENT);
    i32                last = grad->in[1]; /* logits, or what softcap made of them */
    if (!xent || xent->in[0] != last || xent->in[1] != grad->in[2]) return false;
    const struct node *cap     = made_by(j, last, OP_SOFTCAP);
    i32                logits  = cap ? cap->in[0] : last;
    const struct node *product = made_by(j, logits, OP_MATMUL);
    if (!product || product->at.ta || product->in_count != 2) return false;
    if (j->g->values[product->in[1]].type.shape.rank != 2) return false;
    const struct node *cap_grad = cap ? only_reader(j, grad->out) : NULL;
    bool back = !cap || (cap_grad && cap_grad->op == OP_SOFTCAP_GRAD && cap_grad->in[1] == last);
    if (!back || j->reads[last] != (cap ? 3 : 2) || j->reads[logits] != (cap ? 1 : 2)) return false;
    if (j->reads[xent->out + 1] != 1 || j->g->values[xent->out].kind != VALUE_TEMP) return false;
    if (!is_given(j, grad->in[0], 3) || maker(j, grad->in[2]) >= 0) return false;
    h->product  = index_of(j, product);
    h->cap      = index_of(j, cap);
    h->xent     = index_of(j, xent);
    h->cap_grad = index_of(j, cap_grad);
    return find_products(j, cap ? cap_grad->out : grad->out, product->in[0], product->in[1]);
}

/* --- the nodes anew --- */

static void emit(struct joiner *j, i32 index)
{
    struct graph *g  = j->g;
    struct node   n  = j->from[index];
    i32          *in = NEW(g->perm, i32, MAX(n.in_count, 1));
    for (i32 k = 0; k < n.in_count; k++) in[k] = j->now[n.in[k]];
    n.in = in;
    graph_reserve(g);
    for (i32 k = 0; k < node_results(&n); k++) g->values[n.out + k].node = g->node_count;
    g->nodes[g->node_count++] = n;
    j->gone[index]            = true;
}

/* What the value is made of that is not there yet, and then it. */
static void emit_given(struct joiner *j, i32 value)
{
    i32 n = maker(j, value);
    if (n < 0 || j->gone[n]) return;
    for (i32 k = 0; k < j->from[n].in_count; k++) emit_given(j, j->from[n].in[k]);
    emit(j, n);
}

static i64 parts_of(i64 bytes, i64 rows, i64 part_bytes)
{
    i64 parts = 1;
    while (bytes / parts > part_bytes && rows % (2 * parts) == 0 && parts < PARTS_MAX) parts *= 2;
    return parts;
}

/* As rows, and of those the ones of a part. */
static i32 rows_view(struct joiner *j, struct str name, i32 value, struct shape as)
{
    if (shape_eq(j->g->values[value].type.shape, as)) return value;
    return build_reshape(j->g, name, value, as);
}

static i32 part_of(struct joiner *j, struct str name, i32 value, i64 part, i64 parts)
{
    i64 rows = j->g->values[value].type.shape.dim[0] / parts;
    return parts == 1 ? value : build_slice(j->g, name, value, 0, part * rows, rows);
}

struct part { /* of the rows: its results */
    i32 loss, dx, dw;
};

static struct part emit_part(struct joiner *j, i32 x, i32 targets, i32 dloss)
{
    const struct head *h       = &j->head;
    const struct node *product = &j->from[h->product], *dx = &j->from[h->dx], *dw = &j->from[h->dw];
    struct graph      *g  = j->g;
    struct attrs       at = { .smoothing = j->from[h->xent].at.smoothing };
    if (h->cap >= 0) at.cap = j->from[h->cap].at.cap;
    i32 w      = j->now[product->in[1]];
    i32 logits = graph_op(g, OP_MATMUL, product->name, (i32[]){ x, w }, 2, &product->at);
    i32 dlogits =
        graph_op(g, OP_XENT_BOTH, j->from[h->xent].name, (i32[]){ logits, targets, dloss }, 3, &at);
    return (struct part){ .loss = dlogits + 1,
                          .dx = graph_op(g, OP_MATMUL, dx->name, (i32[]){ dlogits, w }, 2, &dx->at),
                          .dw =
                              graph_op(g, OP_MATMUL, dw->name, (i32[]){ dlogits, x }, 2, &dw->at) };
}

/* From now on `fresh` is what `old` was: for those who read it, and for the host. */
static void replace(struct joiner *j, i32 old, i32 fresh)
{
    struct value *to = &j->g->values[fresh], *was = &j->g->values[old];
    if (was->kind != VALUE_TEMP) {
        to->kind  = was->kind;
        to->name  = was->name;
        was->kind = VALUE_TEMP;
        was->name = (struct str){ 0 };
    }
    j->now[old] = fresh;
}

static void emit_head(struct joiner *j)
{
    struct graph      *g    = j->g;
    const struct head *h    = &j->head;
    const struct node *xent = &j->from[h->xent], *product = &j->from[h->product];
    i64                rows = shape_rows(g->values[product->out].type.shape);
    i64          parts = parts_of(type_bytes(g->values[product->out].type), rows, j->part_bytes);
    i32          dloss = j->from[h->xent_grad].in[0], loss[PARTS_MAX], dx[PARTS_MAX], dw = NONE;
    struct shape wide = shape_2(rows, shape_last(g->values[product->in[0]].type.shape));
    emit_given(j, dloss);
    i32 x       = rows_view(j, product->name, j->now[product->in[0]], wide);
    i32 targets = rows_view(j, xent->name, xent->in[1], shape_1(rows));
    dloss       = rows_view(j, xent->name, j->now[dloss], shape_1(rows));
    for (i64 i = 0; i < parts; i++) {
        struct part p = emit_part(j, part_of(j, product->name, x, i, parts),
                                  part_of(j, xent->name, targets, i, parts),
                                  part_of(j, xent->name, dloss, i, parts));
        loss[i]       = p.loss;
        dx[i]         = p.dx;
        dw            = i ? build_binary(g, OP_ADD, j->from[h->dw].name, dw, p.dw) : p.dw;
    }
    i32 all = parts > 1 ? build_concat(g, xent->name, loss, (i32)parts, 0) : loss[0];
    replace(j, xent->out, rows_view(j, xent->name, all, g->values[xent->out].type.shape));
    all = parts > 1 ? build_concat(g, j->from[h->dx].name, dx, (i32)parts, 0) : dx[0];
    replace(j, j->from[h->dx].out, all);
    replace(j, j->from[h->dw].out, dw);
}

static void count_reads(struct joiner *j)
{
    for (i32 v = 0; v < j->g->value_count; v++) {
        j->now[v]   = v;
        j->reads[v] = j->g->values[v].kind != VALUE_TEMP;
    }
    for (i32 i = 0; i < j->count; i++) {
        for (i32 k = 0; k < j->from[i].in_count; k++) j->reads[j->from[i].in[k]]++;
    }
}

void join_loss(struct graph *g, i64 part_bytes, struct arena scratch)
{
    struct joiner j = { .g = g, .count = g->node_count, .part_bytes = part_bytes };
    j.from          = NEW(&scratch, struct node, j.count + 1);
    j.reads         = NEW(&scratch, i32, g->value_count + 1);
    j.now           = NEW(&scratch, i32, g->value_count + 1);
    j.gone          = NEW(&scratch, bool, j.count + 1);
    memcpy(j.from, g->nodes, (size_t)j.count * sizeof *j.from);
    count_reads(&j);
    if (!find_head(&j)) return;
    const i32 replaced[] = { j.head.product,  j.head.cap, j.head.xent, j.head.xent_grad,
                             j.head.cap_grad, j.head.dx,  j.head.dw };
    for (i32 i = 0; i < COUNT_OF(replaced); i++)
        if (replaced[i] >= 0) j.gone[replaced[i]] = true;
    g->node_count = 0;
    for (i32 i = 0; i < j.count; i++) {
        if (i == j.head.product) emit_head(&j);
        if (!j.gone[i]) emit(&j, i);
    }
    for (i32 i = 0; i < COUNT_OF(replaced); i++) {
        const struct node *n = &j.from[MAX(replaced[i], 0)];
        for (i32 k = 0; replaced[i] >= 0 && k < node_results(n); k++)
            g->values[n->out + k].node = NONE;
    }
}
