/* parts.c - the parts that several models are made of: inputs, weights with their names and
 * first values, norms, and the losses at the end. */
#include "model/model_int.h"
#include <math.h>

static const f64 pixel_max          = 255;
static const f64 batchnorm_eps      = 1e-5; /* both as torch.nn.BatchNorm2d */
static const f64 batchnorm_momentum = 0.1;

static const struct {
    const char *name;
    i32         op;
} activations[] = {
    { "relu", OP_RELU },   { "gelu", OP_GELU }, { "gelu_erf", OP_GELU_ERF }, { "silu", OP_SILU },
    { "relu2", OP_RELU2 }, { "tanh", OP_TANH }, { "sigmoid", OP_SIGMOID },
};

bool part_activation_find(struct str name, i32 *op)
{
    for (i64 i = 0; i < COUNT_OF(activations); i++) {
        if (str_eq(str_of(activations[i].name), name)) return *op = activations[i].op, true;
    }
    return false;
}

struct str part_activation_name(i32 index)
{
    if (index >= COUNT_OF(activations)) return (struct str){ 0 };
    return str_of(activations[index].name);
}

struct str part_name(struct builder *b, struct str path, const char *leaf)
{
    return str_fmt(b->g->perm, "%.*s.%s", STR_ARG(path), leaf);
}

struct shape part_sample(const struct builder *b, i32 x)
{
    if (x < 0) return shape_1(1); /* after an error; whatever is built on it is ignored */
    struct shape s = graph_type(b->g, x).shape;
    return shape_of(s.rank - 1, s.dim + 1);
}

struct init part_glorot(i64 fan_in, i64 fan_out)
{
    return (struct init){ INIT_UNIFORM, sqrt(6.0 / (f64)(fan_in + fan_out)) };
}

i32 part_input(struct builder *b, struct str feed)
{
    const struct feed *f = feeds_find(&b->m->feeds, feed);
    ASSERT(f);
    struct shape s = f->type.shape;
    ASSERT(s.rank < RANK_MAX);
    for (i32 i = s.rank++; i > 0; i--) s.dim[i] = s.dim[i - 1];
    s.dim[0] = b->batch;
    return graph_value(b->g, VALUE_INPUT, feed, type_of(f->type.dtype, s));
}

/* A number for each channel, [wide, count]: a line of a picture, which kernels add faster than one pixel at a time. */
static i32 channels_of(struct builder *b, struct str name, const f32 *v, i64 wide, i64 count)
{
    i32          each[FEED_CHANNELS_MAX];
    struct attrs at = { .dims = shape_1(1), .dtype = b->m->config.dtype };
    ASSERT(count <= FEED_CHANNELS_MAX);
    for (i64 c = 0; c < count; c++) {
        at.add  = (f64)v[c];
        each[c] = graph_op(b->g, OP_FILL, name, NULL, 0, &at);
    }
    i32 one = build_concat(b->g, name, each, (i32)count, 0);
    return build_broadcast(b->g, name, one, 0, shape_1(wide));
}

/* Bytes, channels last, by each channel's own factor and shift. */
static i32 normalised(struct builder *b, const struct pixels *p, struct str name, i32 x)
{
    struct shape all   = graph_type(b->g, x).shape;
    i64          count = shape_last(all), wide = all.dim[all.rank - 2];
    bool         same = true;
    for (i64 c = 1; c < count; c++)
        same &= p->factor[c] == p->factor[0] && p->shift[c] == p->shift[0];
    if (same)
        return build_scale(b->g, part_name(b, name, "scale"), x, (f64)p->factor[0],
                           (f64)p->shift[0]);
    i32 factor = channels_of(b, part_name(b, name, "factor"), p->factor, wide, count);
    i32 shift  = channels_of(b, part_name(b, name, "mean"), p->shift, wide, count);
    x          = build_binary(b->g, OP_MUL, part_name(b, name, "scale"), x, factor);
    return build_binary(b->g, OP_ADD, part_name(b, name, "shift"), x, shift);
}

i32 part_float(struct builder *b, i32 x)
{
    if (x < 0) return x;
    enum dtype from = graph_type(b->g, x).dtype;
    if (from == b->m->config.dtype) return x;
    struct str name = b->g->values[x].name;
    x               = build_cast(b->g, part_name(b, name, "cast"), x, b->m->config.dtype);
    if (from != DT_U8) return x;
    const struct pixels *p = &b->m->feeds.pixels;
    if (p->is_normal && x >= 0) return normalised(b, p, name, x);
    return build_scale(b->g, part_name(b, name, "scale"), x, 1 / pixel_max, 0);
}

i32 part_weight(struct builder *b, struct str path, struct shape s, struct init init)
{
    f64 count = 1;
    for (i32 i = 0; i < s.rank; i++) count *= (f64)s.dim[i];
    if (count > (f64)MODEL_PARAM_COUNT_MAX && !b->g->err.status)
        err_set(&b->g->err, STATUS_USAGE, "%.*s would have %g weights, more than any machine holds",
                STR_ARG(path), count);
    return graph_param(b->g, part_name(b, path, "weight"), type_of(b->m->config.dtype, s), init,
                       true);
}

static struct init constant(f64 value)
{
    return (struct init){ value == 0 ? INIT_ZERO : INIT_CONST, value };
}

i32 part_vector(struct builder *b, struct str path, const char *leaf, i64 count, f64 value)
{
    return graph_param(b->g, part_name(b, path, leaf), type_of(b->m->config.dtype, shape_1(count)),
                       constant(value), false);
}

i32 part_dense(struct builder *b, struct str path, i32 x, struct dense d)
{
    i64 width  = shape_last(part_sample(b, x));
    i32 weight = part_frozen(b, path, shape_2(d.units, width));
    if (weight < 0) weight = part_weight(b, path, shape_2(d.units, width), d.init);
    i32 bias = d.bias ? part_vector(b, path, "bias", d.units, 0) : -1;
    return part_lora(b, path, x, build_matmul(b->g, path, x, weight, bias, false, true));
}

void part_packed(struct builder *b, struct str path, i64 first, i64 second, i64 third)
{
    i32 weight = graph_find(b->g, part_name(b, path, "weight"));
    if (weight < 0) return;
    i64 *rows = b->g->values[weight].part_rows;
    rows[0]   = first;
    rows[1]   = second;
    rows[2]   = third;
}

i32 part_layernorm(struct builder *b, struct str path, i32 x, f64 eps)
{
    i64 width  = shape_last(part_sample(b, x));
    i32 weight = part_vector(b, path, "weight", width, 1);
    i32 bias   = part_vector(b, path, "bias", width, 0);
    return build_layernorm(b->g, path, x, weight, bias, eps);
}

i32 part_rmsnorm(struct builder *b, struct str path, i32 x, f64 eps)
{
    i32 weight = part_vector(b, path, "weight", shape_last(part_sample(b, x)), 1);
    return build_rmsnorm(b->g, path, x, weight, eps);
}

static i32 buffer(struct builder *b, struct str path, const char *leaf, i64 count, f64 value)
{
    i32 id = graph_value(b->g, VALUE_BUFFER, part_name(b, path, leaf),
                         type_of(b->m->config.dtype, shape_1(count)));
    if (id >= 0) b->g->values[id].init = constant(value);
    return id;
}

i32 part_batchnorm(struct builder *b, struct str path, i32 x)
{
    i64 width  = shape_last(part_sample(b, x));
    i32 weight = part_vector(b, path, "weight", width, 1);
    i32 bias   = part_vector(b, path, "bias", width, 0);
    i32 mean   = buffer(b, path, "running_mean", width, 0);
    i32 var    = buffer(b, path, "running_var", width, 1);
    return build_batchnorm(b->g, path, x, weight, bias, mean, var, batchnorm_eps,
                           batchnorm_momentum, b->mode == MODE_TRAIN);
}

i32 part_dropout(struct builder *b, struct str path, i32 x, f64 rate)
{
    if (b->mode == MODE_EVAL) return x;
    return build_dropout_packed(b->g, part_name(b, path, "dropout"), x, rate,
                                b->rows.offsets < 0 ? NULL : &b->rows);
}

/* The sum over all rows becomes an output the host can read. */
static void output_sum(struct builder *b, const char *name, i32 rows)
{
    if (rows < 0) return;
    struct str total = str_of(name);
    i32        sum   = build_sum(b->g, total, rows, 0, graph_type(b->g, rows).shape.rank);
    graph_output(b->g, sum, total);
}

/* Of samples mixed from two (mixup): their loss against either class, by its share. */
static i32 mixed_loss(struct builder *b, i32 logits, i32 loss, f64 smoothing)
{
    i32 other =
        build_xent(b->g, STR("xent.other"), logits, part_input(b, STR("y_other")), smoothing);
    i32 share = part_float(b, part_input(b, STR("y_share")));
    i32 rest  = build_scale(b->g, STR("mix.rest"), share, -1, 1);
    loss      = build_binary(b->g, OP_MUL, STR("mix.own"), loss, share);
    other     = build_binary(b->g, OP_MUL, STR("mix.other"), other, rest);
    return build_binary(b->g, OP_ADD, STR("mix"), loss, other);
}

void part_loss_classes(struct builder *b, i32 logits)
{
    i32 y         = part_input(b, STR("y"));
    f64 smoothing = b->mode == MODE_TRAIN ? b->m->config.smoothing : 0;
    i32 loss      = build_xent(b->g, STR("xent"), logits, y, smoothing);
    if (b->mode == MODE_TRAIN && feeds_find(&b->m->feeds, STR("y_other")))
        loss = mixed_loss(b, logits, loss, smoothing);
    output_sum(b, "loss", loss);
    bool few =
        model_rows(b->m) == 1 && shape_last(graph_type(b->g, logits).shape) <= MODEL_CLASSES_SHOWN;
    if (b->mode == MODE_EVAL && (few || b->m->config.ask == ASK_LOGITS))
        graph_output(b->g, logits, STR("logits"));
    if (model_rows(b->m) == 1)
        output_sum(b, "hits", build_binary(b->g, OP_HITS, STR("hits.rows"), logits, y));
}

void part_loss_clicks(struct builder *b, i32 logits)
{
    i32 y = part_float(b, part_input(b, STR("y")));
    output_sum(b, "loss", build_binary(b->g, OP_BCE, STR("bce"), logits, y));
    graph_output(b->g, logits, STR("scores"));
}
