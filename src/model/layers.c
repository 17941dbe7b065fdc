/* layers.c - the user's own network, read from a list of layers in the run file.
 *
 * Every entry is looked up in layers.def, its keys are read against the row, what comes in is
 * checked against what the layer takes, and the layer's function appends it. Whatever is wrong is
 * said with the file's line. */
#include "model/layers_int.h"

enum { LAYERS_MAX = 4096, NESTING_MAX = 8 };

i32 net_fail(struct net *n, i32 line, const char *format, ...)
{
    if (n->status) return -1;
    struct arena scratch = *n->b->g->perm;
    struct str   file    = n->b->m->config.file;
    va_list      args;
    va_start(args, format);
    struct str text = str_vfmt(&scratch, format, args);
    va_end(args);
    n->status =
        err_set(n->err, STATUS_USAGE, "%.*s:%d: %.*s", STR_ARG(file), (int)line, STR_ARG(text));
    return -1;
}

struct str net_shape(struct net *n, i32 x)
{
    struct type t    = graph_type(n->b->g, x);
    struct str  text = type_text(n->b->g->perm, type_of(t.dtype, part_sample(n->b, x)));
    i64         from = str_find(text, '[');
    return from < 0 ? STR("one number") : str_sub(text, from, text.len);
}

static void check_takes(struct net *n, const struct layer *l, i32 x)
{
    struct str  shape  = net_shape(n, x);
    bool        tokens = !dtype_is_float(graph_type(n->b->g, x).dtype);
    i32         rank   = part_sample(n->b, x).rank;
    const char *hint   = n->flattened ? "; put it before flatten" : "";
    const char *name   = l->kind->name;
    switch (l->kind->takes) {
    case TAKES_ANY: break;
    case TAKES_IMAGE:
        if (tokens || rank != 3)
            net_fail(n, l->line, "%s needs an image [H,W,C], but %.*s gives %.*s%s", name,
                     STR_ARG(n->above), STR_ARG(shape), hint);
        break;
    case TAKES_TOKENS:
        if (!tokens)
            net_fail(n, l->line, "%s needs tokens, but %.*s gives numbers %.*s", name,
                     STR_ARG(n->above), STR_ARG(shape));
        break;
    case TAKES_NUMBERS:
        if (tokens)
            net_fail(n, l->line, "%s needs numbers, but %.*s gives tokens; put embedding before it",
                     name, STR_ARG(n->above));
        else if (!rank)
            net_fail(n, l->line,
                     "%s needs at least one axis, but %.*s gives %.*s; put flatten "
                     "before it",
                     name, STR_ARG(n->above), STR_ARG(shape));
        break;
    }
}

static i32 net_layer(struct net *n, struct scope *scope, struct yaml *entry, i32 x)
{
    struct layer l = { 0 };
    struct err   wrong;
    layer_read(n, scope, entry, &l);
    if (!n->status) check_takes(n, &l, x);
    if (!n->status && ++n->layers > LAYERS_MAX)
        net_fail(n, l.line, "the network has more than %d layers", LAYERS_MAX);
    if (n->status) return -1;

    x = l.kind->build(n, &l, x);
    if (!n->status && graph_status(n->b->g, &wrong))
        net_fail(n, l.line, "%s: %s", l.kind->name, wrong.text);
    n->above     = str_fmt(n->b->g->perm, "%s above", l.kind->name);
    n->flattened = n->flattened || l.kind->id == LAYER_flatten;
    n->line      = l.line;
    return x;
}

i32 net_list(struct net *n, struct scope *scope, const struct yaml *list, i32 x)
{
    if (n->nesting == NESTING_MAX)
        return net_fail(n, list->line, "layers are nested more than %d deep", NESTING_MAX);
    n->nesting++;
    for (struct yaml *e = list->first; e && !n->status; e = e->next) x = net_layer(n, scope, e, x);
    n->nesting--;
    return x;
}

/* ---- the model */

/* Layers read one feed: x, or dense where the data has no x. */
static struct str input_name(const struct model *m)
{
    return feeds_find(&m->feeds, STR("x")) ? STR("x") : STR("dense");
}

enum status layers_check(const struct model *m, struct err *err)
{
    const struct yaml *list  = m->config.layers;
    bool               x     = feeds_find(&m->feeds, STR("x")) != NULL;
    bool               dense = feeds_find(&m->feeds, STR("dense")) != NULL;
    if (!list || list->kind != YAML_LIST || !list->count)
        return err_set(err, STATUS_USAGE, "model.kind=layers needs model.layers, a list of layers");
    if (!x && !dense)
        return err_set(err, STATUS_USAGE, "this data has no x for the layers to read");
    if (x && dense)
        return err_set(err, STATUS_USAGE,
                       "model.kind=layers reads one feed, but this data has x and dense; "
                       "model.kind=ranker reads both");
    return STATUS_OK;
}

/* What to end with, so that the last layer gives `units` numbers, at each position where `positions` is set. */
static struct str ending(struct net *n, struct shape given, i64 units, bool positions)
{
    const char *words = "end with dense: %lld";
    if (positions && given.rank < 2)
        words = "leave out flatten and global_avgpool, and end with dense: %lld";
    if (!positions && given.rank > 1)
        words = "end with flatten (or global_avgpool) and dense: %lld";
    return str_fmt(n->b->g->perm, words, (long long)units);
}

/* The last layer must give one number a class for each target, or one for a click. */
static void net_loss(struct net *n, i32 x)
{
    const struct feed *y     = feeds_find(&n->b->m->feeds, STR("y"));
    struct shape       s     = part_sample(n->b, x);
    struct str         shape = net_shape(n, x);
    i32                node  = n->b->g->values[x].node;
    if (y->type.dtype == DT_I32) {
        struct shape want     = y->type.shape;
        want.dim[want.rank++] = y->range;
        if (shape_eq(want, s)) part_loss_classes(n->b, x);
        else
            net_fail(n, n->line,
                     "the last layer gives %.*s, but the target has %lld classes%s; %.*s",
                     STR_ARG(shape), (long long)y->range, want.rank > 1 ? " at every position" : "",
                     STR_ARG(ending(n, s, y->range, want.rank > 1)));
    } else if (node >= 0 && n->b->g->nodes[node].op == OP_SIGMOID) {
        net_fail(n, n->line, "sigmoid is part of the loss here; leave it out at the end");
    } else if (y->type.shape.rank || shape_count(s) != 1) {
        net_fail(n, n->line, "the last layer gives %.*s, but the target is one number; %.*s",
                 STR_ARG(shape), STR_ARG(ending(n, s, 1, false)));
    } else {
        part_loss_clicks(n->b, build_reshape(n->b->g, STR("score"), x, shape_1(n->b->batch)));
    }
}

enum status layers_build(struct builder *b, struct err *err)
{
    struct net   n   = { .b = b, .err = err, .above = STR("the data"), .stride = 1 };
    struct scope top = { 0 };
    i32          x   = part_input(b, input_name(b->m));
    if (graph_type(b->g, x).dtype != DT_I32) x = part_float(b, x);
    x = net_list(&n, &top, b->m->config.layers, x);
    if (!n.status && !dtype_is_float(graph_type(b->g, x).dtype))
        net_fail(&n, n.line, "the layers leave the tokens as they are; begin with embedding");
    if (!n.status) net_loss(&n, x);
    return n.status ? n.status : graph_status(b->g, err);
}
