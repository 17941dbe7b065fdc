/* layers_build.c - one function a row of layers.def: appends the layer to the graph. What comes
 * in fits the row's column `takes`, and the keys are read. */
#include "model/layers_int.h"

static const f64 norm_eps       = 1e-5; /* as torch.nn.LayerNorm */
static const f64 embedding_init = 0.05; /* uniform, as keras.layers.Embedding */

static i64 count_of(const struct layer *l, enum key key) { return l->key[key].count; }

/* The op of the key `activation`, if it names one. */
static i32 activate(struct net *n, const struct layer *l, i32 x)
{
    i32 op = (i32)count_of(l, KEY_activation);
    return op == NO_OP ? x : build_unary(n->b->g, op, part_name(n->b, l->path, "act"), x);
}

i32 layer_flatten(struct net *n, const struct layer *l, i32 x)
{
    i64 count = shape_count(part_sample(n->b, x));
    return build_reshape(n->b->g, l->path, x, shape_2(n->b->batch, count));
}

i32 layer_dense(struct net *n, const struct layer *l, i32 x)
{
    i64          units = count_of(l, KEY_units);
    struct dense d     = { units, count_of(l, KEY_bias),
                           part_glorot(shape_last(part_sample(n->b, x)), units) };
    return activate(n, l, part_dense(n->b, l->path, x, d));
}

i32 layer_conv(struct net *n, const struct layer *l, i32 x)
{
    i64 filters = count_of(l, KEY_filters), kernel = count_of(l, KEY_kernel);
    i64 pad = count_of(l, KEY_padding), channels = shape_last(part_sample(n->b, x));
    if (pad == PADDING_SAME && kernel % 2 == 0)
        return net_fail(n, l->line, "padding: same needs an odd kernel, not %lld",
                        (long long)kernel);
    if (pad == PADDING_SAME) pad = kernel / 2;
    n->stride *= count_of(l, KEY_stride);
    struct init init = part_glorot(kernel * kernel * channels, kernel * kernel * filters);
    i32         w    = part_weight(n->b, l->path, shape_4(filters, kernel, kernel, channels), init);
    i32         bias = count_of(l, KEY_bias) ? part_vector(n->b, l->path, "bias", filters, 0) : -1;
    return activate(n, l, build_conv2d(n->b->g, l->path, x, w, bias, count_of(l, KEY_stride), pad));
}

static i32 pool(struct net *n, const struct layer *l, i32 x, i32 op)
{
    i64 size   = count_of(l, KEY_size);
    i64 stride = l->key[KEY_stride].given ? count_of(l, KEY_stride) : size;
    n->stride *= stride;
    return build_pool(n->b->g, op, l->path, x, size, stride, 0);
}

i32 layer_maxpool(struct net *n, const struct layer *l, i32 x) { return pool(n, l, x, OP_MAXPOOL); }

i32 layer_avgpool(struct net *n, const struct layer *l, i32 x) { return pool(n, l, x, OP_AVGPOOL); }

/* The mean over all axes but the last: [H,W,C] or [T,C] -> [C]. */
i32 layer_global_avgpool(struct net *n, const struct layer *l, i32 x)
{
    struct shape s = part_sample(n->b, x);
    if (s.rank < 2)
        return net_fail(n, l->line,
                        "global_avgpool needs an image [H,W,C] or a sequence [T,C], "
                        "but %.*s gives %.*s",
                        STR_ARG(n->above), STR_ARG(net_shape(n, x)));
    i32 sum = build_sum(n->b->g, part_name(n->b, l->path, "sum"), x, 1, s.rank - 1);
    return build_scale(n->b->g, l->path, sum, 1 / (f64)shape_rows(s), 0);
}

i32 layer_batchnorm(struct net *n, const struct layer *l, i32 x)
{
    return part_batchnorm(n->b, l->path, x);
}

i32 layer_layernorm(struct net *n, const struct layer *l, i32 x)
{
    return part_layernorm(n->b, l->path, x, norm_eps);
}

i32 layer_rmsnorm(struct net *n, const struct layer *l, i32 x)
{
    return part_rmsnorm(n->b, l->path, x, norm_eps);
}

i32 layer_dropout(struct net *n, const struct layer *l, i32 x)
{
    return part_dropout(n->b, l->path, x, l->key[KEY_rate].number);
}

i32 layer_embedding(struct net *n, const struct layer *l, i32 x)
{
    i64 known = feeds_find(&n->b->m->feeds, STR("x"))->range;
    i64 vocab = l->key[KEY_vocab].given ? count_of(l, KEY_vocab) : known;
    if (vocab < known)
        return net_fail(n, l->line, "vocab: %lld is too small, the data has %lld different tokens",
                        (long long)vocab, (long long)known);
    i32 table = part_weight(n->b, l->path, shape_2(vocab, count_of(l, KEY_width)),
                            (struct init){ INIT_UNIFORM, embedding_init });
    return build_embedding(n->b->g, l->path, table, x);
}

i32 layer_activation(struct net *n, const struct layer *l, i32 x) { return activate(n, l, x); }

/* What is added to the inner layers' result y: x itself, or x brought to y's shape by a 1x1
 * convolution and a batch norm (He et al. 2016, option B). */
static i32 shortcut(struct net *n, const struct layer *l, i32 x, i32 y)
{
    struct shape from = part_sample(n->b, x), to = part_sample(n->b, y);
    if (shape_eq(from, to)) return x;
    struct str a = net_shape(n, x), c = net_shape(n, y);
    i64        stride = n->stride;
    if (from.rank != 3 || to.rank != 3 || count_of(l, KEY_shortcut) == SHORTCUT_IDENTITY)
        return net_fail(n, l->line, "residual cannot add its input %.*s to its layers' result %.*s",
                        STR_ARG(a), STR_ARG(c));
    i64 high = (from.dim[0] - 1) / stride + 1, wide = (from.dim[1] - 1) / stride + 1;
    if (high != to.dim[0] || wide != to.dim[1])
        return net_fail(n, l->line,
                        "residual cannot add its input %.*s to its layers' result %.*s: with their "
                        "stride of %lld its "
                        "shortcut gives [%lld,%lld,%lld], and so do layers with padding: same",
                        STR_ARG(a), STR_ARG(c), (long long)stride, (long long)high, (long long)wide,
                        (long long)to.dim[2]);
    struct str  path = part_name(n->b, l->path, "shortcut.conv");
    struct init init = part_glorot(from.dim[2], to.dim[2]);
    i32         w    = part_weight(n->b, path, shape_4(to.dim[2], 1, 1, from.dim[2]), init);
    x                = build_conv2d(n->b->g, path, x, w, -1, stride, 0);
    return part_batchnorm(n->b, part_name(n->b, l->path, "shortcut.batchnorm"), x);
}

i32 layer_residual(struct net *n, const struct layer *l, i32 x)
{
    struct graph *g     = n->b->g;
    struct scope  inner = { .path = str_cat(g->perm, l->path, STR(".")) };
    i32           outer = g->block;
    i64           above = n->stride;
    if (!outer) g->block = ++n->blocks;
    n->stride = 1;
    i32 y     = net_list(n, &inner, l->key[KEY_layers].list, x);
    if (n->status) return -1;
    i32 other = shortcut(n, l, x, y);
    n->stride *= above;
    if (n->status) return -1;
    y        = activate(n, l, build_binary(g, OP_ADD, l->path, y, other));
    g->block = outer;
    return y;
}

/* The same as if the layers were written `times` times. */
i32 layer_repeat(struct net *n, const struct layer *l, i32 x)
{
    i64 turn = n->turn, turns = n->turns;
    n->turns = count_of(l, KEY_times);
    for (n->turn = 0; n->turn < n->turns && !n->status; n->turn++)
        x = net_list(n, l->scope, l->key[KEY_layers].list, x);
    n->turn  = turn;
    n->turns = turns;
    return x;
}
